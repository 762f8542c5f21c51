"""The decoder against the one of mlagents_envs, on random agents."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import pytest

from bridge.errors import UnityProtocolError
from bridge.specs import ActionSpec
from bridge.unity.behaviors import Behavior, SensorSpec
from bridge.unity.compat import import_mlagents_envs
from bridge.unity.decode import AgentBatch, OutputDecoder
from bridge.unity.messages import AgentInfo, Header, Observation, UnityMessage
from bridge.unity.steps import batch_to_steps
from bridge.unity.wire import AgentReader, read_request

SENSORS = (SensorSpec("a", (3,), (1,), 0), SensorSpec("b", (1,), (1,), 0), SensorSpec("c", (40,), (1,), 1))
BEHAVIOR = Behavior("AGV?team=0", SENSORS, ActionSpec(2, (3, 2)))


def decode_agents(agents: list[Any], behavior: Behavior) -> AgentBatch:
    request = UnityMessage(header=Header(status=200))
    request.unity_output.rl_output.agentInfos[behavior.name].value.extend(agents)
    batch, compressed = AgentReader(behavior).read(read_request(request.SerializeToString()))
    assert compressed is None
    return batch


def random_agent(rng: np.random.Generator) -> Any:
    info = AgentInfo(
        id=int(rng.integers(-5, 1000)),
        reward=float(rng.normal()),
        done=bool(rng.integers(2)),
        max_step_reached=bool(rng.integers(2)),
        group_id=int(rng.integers(0, 3)),
        group_reward=float(rng.normal()),
        action_mask=rng.integers(0, 2, 5).astype(bool).tolist() if rng.integers(2) else [],
    )
    for sensor in SENSORS:
        observation = info.observations.add(shape=sensor.shape, name=sensor.name)
        observation.float_data.data.extend(rng.normal(size=sensor.size).tolist())
    return info


def test_decoder_equals_mlagents_envs_when_agents_are_random() -> None:
    import_mlagents_envs()
    oracle = import_module("mlagents_envs.rpc_utils").steps_from_proto
    their_info = import_module("mlagents_envs.communicator_objects.agent_info_pb2").AgentInfoProto
    rng = np.random.default_rng(0)
    for count in (0, 1, 2, 17, 100):
        agents = [random_agent(rng) for _ in range(count)]
        theirs = oracle([their_info.FromString(a.SerializeToString()) for a in agents], BEHAVIOR.to_mlagents())
        ours = batch_to_steps(decode_agents(agents, BEHAVIOR), BEHAVIOR)
        for mine, its in zip(ours, theirs, strict=True):
            for name in ("reward", "agent_id", "group_id", "group_reward"):
                np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
            for index in range(len(SENSORS)):
                np.testing.assert_array_equal(mine.obs[index], its.obs[index])
        np.testing.assert_array_equal(ours[1].interrupted, theirs[1].interrupted)
        assert (ours[0].action_mask is None) == (theirs[0].action_mask is None)
        for branch, mask in enumerate(ours[0].action_mask or []):
            np.testing.assert_array_equal(mask, theirs[0].action_mask[branch])


@pytest.mark.parametrize("count", [1, 31, 32, 5000])
def test_decoder_reads_floats_when_they_are_unpacked_or_beside_unknown_fields(count: int) -> None:
    values = np.arange(count, dtype="<f4")
    behavior = Behavior("B", (SensorSpec("a", (count,), (1,), 0),), ActionSpec(1))
    packed = Observation(shape=[count])
    packed.float_data.data.extend(values.tolist())
    unknown = bytes([0x7D, 1, 2, 3, 4])  # field 15, 32 bits
    unpacked = b"".join(b"\x0d" + value.tobytes() for value in values)
    for data in (packed.float_data.SerializeToString() + unknown, unknown + unpacked):
        info = AgentInfo(id=1)
        observation = info.observations.add(shape=[count])
        observation.float_data.MergeFromString(data)
        np.testing.assert_array_equal(decode_agents([info], behavior).observations[0], values)


def test_masks_of_ended_lives_are_ignored_when_they_are_left_over() -> None:
    rng = np.random.default_rng(1)
    info = random_agent(rng)
    info.done = True
    info.ClearField("action_mask")
    info.action_mask.extend([True] * 5)
    assert decode_agents([info], BEHAVIOR).action_mask.tolist() == [[True] * 5]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"num_continuous_actions": -1}, r"expected sizes >= 1 and at most 65536 together, got -1"),
        ({"num_continuous_actions": 70000}, r"expected sizes >= 1 and at most 65536 together, got 70000"),
        ({"num_discrete_actions": 2, "discrete_branch_sizes": [3]}, r"expected 2 branch sizes as announced, got 1"),
        ({"num_discrete_actions": 1, "discrete_branch_sizes": [0]}, r"expected sizes >= 1"),
        ({}, r"expected at least one action, got none"),
    ],
)
def test_new_behavior_is_refused_when_its_actions_are_impossible(spec: dict[str, Any], message: str) -> None:
    request = UnityMessage(header=Header(status=200))
    request.unity_output.rl_initialization_output.brain_parameters.add(brain_name="B", action_spec=spec)
    request.unity_output.rl_output.agentInfos["B"].value.add().observations.add(shape=[1]).float_data.data.append(1.0)
    with pytest.raises(UnityProtocolError, match=rf"behavior 'B': {message}"):
        OutputDecoder().decode(read_request(request.SerializeToString()))


@pytest.mark.parametrize(
    ("observation", "message"),
    [
        ({"shape": [1, 3, 4, 4]}, r"expected 1 to 3 dimensions, got 4"),
        ({"shape": []}, r"expected 1 to 3 dimensions, got 0"),
        ({"shape": [1 << 30]}, r"expected 1 to 16777216 values, got the shape \(1073741824,\)"),
        ({"shape": [3, 0]}, r"expected 1 to 16777216 values, got the shape \(3, 0\)"),
        ({"shape": [2], "dimension_properties": [1, 1]}, r"expected a property per dimension, got 2"),
        ({"shape": [1], "dimension_properties": [9]}, r"expected a property of 0 to 7 per dimension, got \(9,\)"),
        ({"shape": [1], "observation_type": 7}, r"expected observation type 0 or 1, got 7"),
        ({"shape": [2], "float_data": {"data": [1.0]}}, r"agent 0: sensor 0 \('s'\): expected 2 values, got 1"),
        (
            {"shape": [1], "compression_type": 1, "compressed_data": b"x"},
            r"agent 0: sensor 0 \('s'\): expected compressed values only where there are three dimensions",
        ),
    ],
)
def test_new_behavior_is_refused_when_its_observations_are_impossible(
    observation: dict[str, Any], message: str
) -> None:
    request = UnityMessage(header=Header(status=200))
    parameters = request.unity_output.rl_initialization_output.brain_parameters.add(brain_name="B")
    parameters.action_spec.num_continuous_actions = 1
    request.unity_output.rl_output.agentInfos["B"].value.add(observations=[{"name": "s", **observation}])
    with pytest.raises(UnityProtocolError, match=rf"behavior 'B': {message}|behavior 'B': sensor 's': {message}"):
        OutputDecoder().decode(read_request(request.SerializeToString()))
