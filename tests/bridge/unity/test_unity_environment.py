"""The drop-in environment against scripted players: handshake, steps, actions, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from bridge.errors import ActionError, CallOrderError, UnityPlayerDiedError, UnityProtocolError
from bridge.unity.environment import UnityEnvironment
from bridge.unity.messages import TRAINING_ANALYTICS_CHANNEL
from bridge.unity.mlagents_types import ActionTuple, IncomingMessage, OutgoingMessage, SideChannel
from bridge.unity.side_channels import EngineConfigurationChannel, EnvironmentParametersChannel, pack_frames
from bridge.unity.side_channels.frames import unpack_frames

HYBRID = "AGV?team=0"
BEHAVIORS = {HYBRID: {"continuous": 2, "branches": [3, 2]}}


def agent(agent_id: int, value: float = 0.0, **more: Any) -> dict[str, Any]:
    return {"id": agent_id, "obs": [[value, value + 1, value + 2], [value - 1, value - 2]], **more}


def exchange(*agents: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"agents": {HYBRID: list(agents)}, **more}


@contextmanager
def opened(player: Any, **arguments: Any) -> Iterator[UnityEnvironment]:
    env = UnityEnvironment(player.build, timeout_wait=20, **arguments)
    try:
        yield env
    finally:
        env.close()


def test_handshake_sends_seed_and_areas_and_resets_when_a_player_connects(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[exchange(agent(1), behaviors=BEHAVIORS), exchange(agent(1))])
    with opened(player, seed=77, num_areas=3) as env:
        assert len(env.behavior_specs) == 0
        env.reset()
        assert env.academy_capabilities.hybridActions
        spec = env.behavior_specs[HYBRID]
        assert [tuple(s.shape) for s in spec.observation_specs] == [(3,), (2,)]
        assert [s.name for s in spec.observation_specs] == ["VectorSensor_size3", "VectorSensor_size2"]
        assert (spec.action_spec.continuous_size, spec.action_spec.discrete_branches) == (2, (3, 2))
        env.step()
    first, second, _ = player.replies()[:3]
    assert (first["initialization"], first["seed"], first["num_areas"]) == (True, 77, 3)
    assert (second["initialization"], second["command"]) == (False, 1)


def test_steps_split_decisions_and_terminals_when_one_id_ends_and_starts_again(
    scripted_player: Callable[..., Any],
) -> None:
    second = exchange(
        agent(7, 5.0, done=True, interrupted=True, reward=-10.0, group=2, group_reward=0.5),
        agent(8, 6.0, reward=1.5, mask=[False, True, False, False, True]),
        agent(7, 9.0, reward=0.25),
    )
    player = scripted_player(exchanges=[exchange(agent(7), agent(8), behaviors=BEHAVIORS), second])
    with opened(player) as env:
        env.step()  # the first step is a reset
        env.step()
        decisions, terminals = env.get_steps(HYBRID)
    assert decisions.agent_id.tolist() == [8, 7]
    assert terminals.agent_id.tolist() == [7]
    assert decisions.reward.tolist() == [1.5, 0.25]
    assert terminals[7].reward == -10.0
    assert terminals[7].interrupted
    assert (terminals[7].group_id, terminals[7].group_reward) == (2, 0.5)
    np.testing.assert_array_equal(terminals[7].obs[0], np.array([5, 6, 7], np.float32))
    np.testing.assert_array_equal(decisions.obs[1], np.array([[5, 4], [8, 7]], np.float32))
    assert [mask.tolist() for mask in decisions.action_mask] == [
        [[False, True, False], [False] * 3],
        [[False, True], [False] * 2],
    ]


def test_steps_are_empty_when_a_behavior_is_absent_from_the_exchange(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(
        exchanges=[exchange(agent(1), behaviors=BEHAVIORS), exchange(agent(1, done=True)), {"agents": {}}]
    )
    with opened(player) as env:
        env.reset()
        env.step()
        decisions, terminals = env.get_steps(HYBRID)
        assert (len(decisions), len(terminals)) == (0, 1)
        assert decisions.obs[0].shape == (0, 3)
        env.step()
        assert [len(steps) for steps in env.get_steps(HYBRID)] == [0, 0]
    # A terminal asks for nothing: the answer to it carries no actions.
    assert player.replies()[3]["actions"] == {}


def test_actions_arrive_in_the_order_of_the_decisions_when_they_are_set(scripted_player: Callable[..., Any]) -> None:
    asked = exchange(agent(4), agent(2), behaviors=BEHAVIORS)
    player = scripted_player(exchanges=[asked, exchange(agent(2), agent(4)), exchange(agent(2))])
    with opened(player) as env:
        env.reset()
        env.set_actions(HYBRID, ActionTuple(np.array([[0.5, -1], [0.25, 1]]), np.array([[2, 1], [0, 0]])))
        env.step()
        env.set_action_for_agent(HYBRID, 4, ActionTuple(np.array([[0.75, 0]]), np.array([[1, 1]])))
        env.step()
        replies = player.wait_for_replies(4)
    assert replies[2]["actions"] == {HYBRID: [[[0.5, -1.0], [2, 1]], [[0.25, 1.0], [0, 0]]]}
    assert replies[3]["actions"] == {HYBRID: [[[0.0, 0.0], [0, 0]], [[0.75, 0.0], [1, 1]]]}


def test_actions_respect_the_masks_when_none_are_set(scripted_player: Callable[..., Any]) -> None:
    masked = agent(1, mask=[True, True, False, True, False])
    player = scripted_player(exchanges=[exchange(masked, behaviors=BEHAVIORS), exchange(agent(1))])
    with opened(player) as env:
        env.reset()
        env.step()
        assert player.wait_for_replies(3)[2]["actions"] == {HYBRID: [[[0.0, 0.0], [2, 1]]]}


def test_agents_without_an_action_get_allowed_ones_when_others_are_chosen(scripted_player: Callable[..., Any]) -> None:
    masked = {"mask": [True, False, True, True, False]}
    other = {"id": 5, "obs": [[0.0]], "mask": [True, True, False]}
    behaviors = {**BEHAVIORS, "Lift": {"branches": [3]}}
    first = {"agents": {HYBRID: [agent(1, **masked), agent(2, **masked), agent(3)], "Lift": [other]}}
    player = scripted_player(exchanges=[{**first, "behaviors": behaviors}, first, first])
    with opened(player) as env:
        env.reset()
        env.set_action_for_agent(HYBRID, 3, ActionTuple(np.array([[0.5, 0.25]]), np.array([[2, 1]])))
        env.step()
        env.set_actions("Lift", ActionTuple(discrete=np.array([[2]])))
        env.step()
        third, fourth = player.wait_for_replies(4)[2:]
    zeros = [0.0, 0.0]
    assert third["actions"] == {HYBRID: [[zeros, [1, 1]], [zeros, [1, 1]], [[0.5, 0.25], [2, 1]]], "Lift": [[[], [2]]]}
    assert fourth["actions"] == {HYBRID: [[zeros, [1, 1]], [zeros, [1, 1]], [zeros, [0, 0]]], "Lift": [[[], [2]]]}


@pytest.mark.parametrize("behavior", [{"continuous": 3}, {"branches": [4]}])
def test_step_carries_actions_of_one_kind_when_the_behavior_has_one(
    scripted_player: Callable[..., Any], behavior: dict[str, Any]
) -> None:
    player = scripted_player(exchanges=[exchange(agent(1), behaviors={HYBRID: behavior}), exchange(agent(1))])
    with opened(player) as env:
        env.reset()
        spec = env.behavior_specs[HYBRID].action_spec
        decisions, _ = env.get_steps(HYBRID)
        assert (decisions.action_mask is None) == ("branches" not in behavior)
        env.set_actions(HYBRID, spec.empty_action(1))
        env.step()
        wanted = [[0.0] * behavior.get("continuous", 0), [0] * len(behavior.get("branches", []))]
        assert player.wait_for_replies(3)[2]["actions"] == {HYBRID: [wanted]}


def test_set_actions_names_the_fault_when_an_action_is_wrong(scripted_player: Callable[..., Any]) -> None:
    masked = agent(3, mask=[True, False, False, False, False])
    player = scripted_player(exchanges=[exchange(masked, behaviors=BEHAVIORS)])
    good, branches = np.zeros((1, 2)), np.array([[1, 0]])
    with opened(player) as env:
        with pytest.raises(CallOrderError, match=r"set_actions: expected a reset first"):
            env.set_actions(HYBRID, ActionTuple(good, branches))
        env.reset()
        with pytest.raises(ActionError, match=r"expected one of the behaviors AGV\?team=0, got 'AGV'"):
            env.set_actions("AGV", ActionTuple(good, branches))
        with pytest.raises(ActionError, match=r"shapes \(1, 2\) and \(1, 2\), got \(2, 2\) and \(2, 2\)"):
            env.set_actions(HYBRID, ActionTuple(np.zeros((2, 2)), np.zeros((2, 2))))
        with pytest.raises(ActionError, match=r"expected finite continuous actions, got nan"):
            env.set_actions(HYBRID, ActionTuple(np.full((1, 2), np.nan), branches))
        with pytest.raises(
            ActionError, match=r"agent 3: branch 0: expected one of the allowed choices \[1, 2\], got 0"
        ):
            env.set_actions(HYBRID, ActionTuple(good, np.array([[0, 0]])))
        with pytest.raises(ActionError, match=r"branch 1: expected one of the allowed choices \[0, 1\], got 2"):
            env.set_actions(HYBRID, ActionTuple(good, np.array([[1, 2]])))
        with pytest.raises(ActionError, match=r"that asked for a decision, got agent 9"):
            env.set_action_for_agent(HYBRID, 9, ActionTuple(good, branches))


def test_calls_raise_when_the_environment_is_closed(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[exchange(agent(1), behaviors=BEHAVIORS)])
    env = UnityEnvironment(player.build, timeout_wait=20)
    env.close()
    env.close()
    assert player.replies()[-1]["status"] == 400
    with pytest.raises(CallOrderError, match=r"reset: expected an open session, got a closed one"):
        env.reset()


def test_late_behavior_joins_the_specs_when_it_appears(scripted_player: Callable[..., Any]) -> None:
    late = {"agents": {"Lift?team=1": [{"id": 5, "obs": [[1.0]]}]}, "behaviors": {"Lift?team=1": {"branches": [2]}}}
    player = scripted_player(exchanges=[exchange(agent(1), behaviors=BEHAVIORS), late])
    with opened(player) as env:
        env.reset()
        assert list(env.behavior_specs) == [HYBRID]
        env.step()
        assert list(env.behavior_specs) == [HYBRID, "Lift?team=1"]
        assert env.get_steps("Lift?team=1")[0].agent_id.tolist() == [5]


class EchoChannel(SideChannel):  # type: ignore[misc]
    """What a user writes: a subclass of mlagents_envs' own class."""

    def __init__(self) -> None:
        super().__init__(UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7"))
        self.received: list[str] = []

    def on_message_received(self, msg: IncomingMessage) -> None:
        self.received.append(msg.read_string())

    def send(self, text: str) -> None:
        message = OutgoingMessage()
        message.write_string(text)
        self.queue_message_to_send(message)


def test_side_channels_carry_messages_both_ways_when_a_user_brings_their_own(
    scripted_player: Callable[..., Any],
) -> None:
    echo, engine, parameters = EchoChannel(), EngineConfigurationChannel(), EnvironmentParametersChannel()
    greeting = OutgoingMessage()
    greeting.write_string("hello from the scene")
    sent = pack_frames([(echo.channel_id, bytes(greeting.buffer))]).hex()
    player = scripted_player(exchanges=[exchange(agent(1), behaviors=BEHAVIORS, side_channel=sent), exchange(agent(1))])
    with opened(player, side_channels=[echo, engine, parameters]) as env:
        engine.set_configuration_parameters(time_scale=7.0)
        parameters.set_float_parameter("agents", 3.0)
        env.reset()
        assert echo.received == ["hello from the scene"]
        echo.send("hello from Python")
        env.step()
        replies = player.wait_for_replies(3)
    frames = unpack_frames(bytes.fromhex(replies[1]["side_channel"]))
    sent_on = [channel for channel, _ in frames]
    # As mlagents_envs does: analytics go along unless the user has a channel for them.
    assert sent_on == [engine.channel_id, parameters.channel_id, TRAINING_ANALYTICS_CHANNEL]
    ((channel, payload),) = unpack_frames(bytes.fromhex(replies[2]["side_channel"]))
    assert channel == echo.channel_id
    assert IncomingMessage(payload).read_string() == "hello from Python"


def test_reset_raises_when_the_player_says_goodbye(scripted_player: Callable[..., Any]) -> None:
    player = scripted_player(exchanges=[exchange(agent(1), behaviors=BEHAVIORS)])
    with opened(player) as env:
        env.reset()
        with pytest.raises(
            UnityPlayerDiedError, match=r"step: expected an answer, but the player quit \(exit code 0\)"
        ):
            env.step()
        with pytest.raises(CallOrderError, match=r"expected an open session"):
            env.step()


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        (
            {"agents": {HYBRID: [{"id": 1, "obs": [[0.0] * 4], "shapes": [[2, 2, 1, 1]]}]}},
            r"expected 1 to 3 dimensions, got 4",
        ),
        ({"agents": {HYBRID: [agent(1), {"id": 2, "obs": [[0.0]]}]}}, r"agent 2: expected 2 sensors, got 1"),
        ({"agents": {HYBRID: [agent(1, mask=[True])]}}, r"agent 1: expected an action mask of 5 values, got 1"),
        (
            {"agents": {HYBRID: [agent(1, float("nan"))]}},
            r"agent 1: sensor 0 \('VectorSensor_size3'\): expected finite values, got nan as value 0",
        ),
        ({"agents": {HYBRID: [agent(1, reward=float("inf"))]}}, r"agent 1: expected a finite reward, got inf"),
        ({"agents": {"Ghost": [agent(1)]}}, r"expected agents of the behaviors \[\], got 'Ghost'"),
        ({"fault": {"raw": "ffffffff"}}, r"expected a protocol message, got 4 bytes that are none"),
        ({"fault": {"raw": "0a020801"}}, r"expected status 200 or 400, got 1"),
    ],
)
def test_reset_says_what_is_wrong_when_a_player_breaks_the_protocol(
    scripted_player: Callable[..., Any], entry: dict[str, Any], message: str
) -> None:
    player = scripted_player(exchanges=[{"behaviors": BEHAVIORS, **entry}])
    with opened(player) as env, pytest.raises(UnityProtocolError, match=message):
        env.reset()
