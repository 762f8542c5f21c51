"""Replies that are written from arrays, against protobuf, byte for byte."""

from __future__ import annotations

import numpy as np
import pytest

from bridge.unity.encode import BehaviorActions, encode_step
from bridge.unity.messages import Header, RLInput, UnityInput, UnityMessage


@pytest.mark.parametrize("num_continuous", [0, 1, 3, 31, 32, 200])
@pytest.mark.parametrize("num_branches", [0, 1, 2, 40])
def test_reply_equals_protobufs_when_actions_are_random(num_continuous: int, num_branches: int) -> None:
    rng = np.random.default_rng([num_continuous, num_branches])
    for count in (1, 2, 17, 300):
        continuous = rng.normal(size=(count, num_continuous)).astype(np.float32)
        discrete = rng.choice([0, 1, 127, 128, 65535, -1, -(2**31), 2**31 - 1], (count, num_branches)).astype(np.int32)
        side_channel = rng.bytes(int(rng.choice([0, 5, 1000])))
        rl_input = RLInput(side_channel=side_channel)
        for row in range(count):
            rl_input.agent_actions["AGV?team=0"].value.add(
                continuous_actions=continuous[row].tolist(), discrete_actions=discrete[row].tolist()
            )
        expected = UnityMessage(header=Header(status=200), unity_input=UnityInput(rl_input=rl_input))
        reply = encode_step({"AGV?team=0": BehaviorActions(continuous, discrete)}, side_channel)
        assert reply == expected.SerializeToString()


def test_reply_has_every_behavior_that_asked_and_no_other() -> None:
    actions = {
        "Ä": BehaviorActions(np.full((2, 1), 0.5, np.float32), np.zeros((2, 0), np.int32)),
        "nobody": BehaviorActions(np.zeros((0, 1), np.float32), np.zeros((0, 0), np.int32)),
        # Views with gaps, as arrays of a roster may be.
        "B": BehaviorActions(np.zeros((3, 0), np.float32), np.arange(12, dtype=np.int32).reshape(3, 4)[:, ::2]),
    }
    received = UnityMessage.FromString(encode_step(actions, b"")).unity_input.rl_input
    assert set(received.agent_actions) == {"Ä", "B"}
    assert [list(a.continuous_actions) for a in received.agent_actions["Ä"].value] == [[0.5], [0.5]]
    assert [list(a.discrete_actions) for a in received.agent_actions["B"].value] == [[0, 2], [4, 6], [8, 10]]
    empty = UnityMessage.FromString(encode_step({}, b""))
    assert (empty.header.status, empty.unity_input.HasField("rl_input")) == (200, True)
