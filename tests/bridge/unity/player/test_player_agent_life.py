"""Lives, ids, rewards and the order of messages, over a real socket and a scripted world."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import UnityProtocolError
from bridge.roster import RosterArrays
from bridge.unity import messages

CARRIER, PICKER = "carrier?team=0", "picker?team=0"
RESET = messages.COMMAND_RESET


def infos(request: Any, behavior: str = CARRIER) -> list[tuple[int, bool, bool, float, float]]:
    """(id, done, max_step_reached, reward, first observation value) of each info, in order."""
    assert request.header.status == messages.STATUS_OK
    return [
        (i.id, i.done, i.max_step_reached, i.reward, i.observations[0].float_data.data[0])
        for i in request.unity_output.rl_output.agentInfos[behavior].value
    ]


def answers(request: Any, choice: int = 1, value: float = 0.5) -> dict[str, Any]:
    """The same action for every agent that asks."""
    actions = {}
    for name, entry in request.unity_output.rl_output.agentInfos.items():
        asked = [info for info in entry.value if not info.done]
        continuous = [value] if name == PICKER else []
        discrete = [1 if name == PICKER else choice]
        action = messages.AgentAction(continuous_actions=continuous, discrete_actions=discrete)
        actions[name] = messages.ListAgentAction(value=[action] * len(asked))
    return actions


def step(trainer: Any, request: Any, choice: int = 1) -> Any:
    trainer.reply(agent_actions=answers(request, choice))
    return trainer.receive()


def despawn(arrays: RosterArrays) -> None:
    values = arrays.roles["carrier"]
    values.terminated[0, 0] = True
    values.final_observations[0, 0] = 55.0
    values.agent_mask[0, 0] = values.decision_mask[0, 0] = False
    values.observations[0, 0] = 0.0


def respawn(arrays: RosterArrays) -> None:
    values = arrays.roles["carrier"]
    values.agent_mask[0, 0] = values.decision_mask[0, 0] = True
    values.observations[0, 0] = 77.0


def test_player_ids_start_at_zero_and_are_shared_by_roles(trainer: Any, play: Any, scripted_roster: Any) -> None:
    academy = play(scripted_roster(num_envs=2))
    trainer.shake_hands(num_areas=2)
    request = trainer.receive()
    assert [i[0] for i in infos(request)] == [0, 1, 2, 3]
    assert [i[0] for i in infos(request, PICKER)] == [4, 5, 6, 7]
    groups = [i.group_id for i in request.unity_output.rl_output.agentInfos[CARRIER].value]
    assert groups == [1, 1, 2, 2]
    trainer.quit()
    assert academy.join() == 0


def test_player_announces_each_behavior_once(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def hide(arrays: RosterArrays) -> None:
        arrays.roles["picker"].decision_mask[:] = False

    def show(arrays: RosterArrays) -> None:
        arrays.roles["picker"].decision_mask[:] = True

    roster = scripted_roster(events={1: show})
    begin = roster._begin_episode
    roster._begin_episode = lambda: (begin(), hide(roster.arrays))
    play(roster)
    trainer.shake_hands()
    request = trainer.receive()
    brains = request.unity_output.rl_initialization_output.brain_parameters
    assert [b.brain_name for b in brains] == [CARRIER]
    assert list(brains[0].action_spec.discrete_branch_sizes) == [5]
    assert brains[0].action_spec.num_continuous_actions == 0
    request = step(trainer, request)
    brains = request.unity_output.rl_initialization_output.brain_parameters
    assert [b.brain_name for b in brains] == [PICKER]
    assert brains[0].action_spec.num_continuous_actions == 1
    request = step(trainer, request)
    assert not request.unity_output.HasField("rl_initialization_output")
    trainer.quit()


def test_player_names_its_sensor_after_the_layout(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster()
    play(roster)
    trainer.shake_hands()
    observation = trainer.receive().unity_output.rl_output.agentInfos[PICKER].value[0].observations[0]
    assert observation.name == f"agv_{roster.spec.role('picker').observation.digest}"
    assert list(observation.shape) == [2]
    assert observation.compression_type == messages.COMPRESSION_NONE
    assert len(observation.float_data.data) == 2
    trainer.quit()


def test_player_hands_actions_to_the_slots_that_asked(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def absent(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].decision_mask[0, 0] = False

    roster = scripted_roster(events={1: absent})
    play(roster)
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=3)
    assert [i[0] for i in infos(request)] == [1]
    step(trainer, request, choice=4)
    assert roster.actions[0]["carrier"][1].tolist() == [[[3], [3]]]
    assert roster.actions[1]["carrier"][1].tolist() == [[[3], [4]]]
    assert roster.actions[0]["picker"][0].tolist() == [[[0.5], [0.5]]]
    assert roster.actions[0]["picker"][1].tolist() == [[[1], [1]]]
    trainer.quit()


def test_player_keeps_the_reward_of_an_agent_that_is_not_asked(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def absent(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].decision_mask[0, 0] = False

    def back(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].decision_mask[0, 0] = True

    play(scripted_roster(events={1: absent, 3: back}))
    trainer.shake_hands()
    request = trainer.receive()
    seen = []
    for _ in range(4):
        request = step(trainer, request)
        seen.append([(i[0], i[3]) for i in infos(request)])
    assert seen == [[(1, 1.0)], [(1, 1.0)], [(0, 3.0), (1, 1.0)], [(0, 1.0), (1, 1.0)]]
    trainer.quit()


def test_player_ends_and_continues_an_agent_in_one_exchange_at_the_time_limit(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    play(scripted_roster(limit=2))
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    assert infos(request) == [(0, False, False, 1.0, 1.0), (1, False, False, 1.0, 1.0)]
    request = step(trainer, request)
    assert infos(request) == [
        (0, True, True, 1.0, 2.0),
        (1, True, True, 1.0, 2.0),
        (0, False, False, 0.0, 100.0),
        (1, False, False, 0.0, 100.0),
    ]
    assert infos(step(trainer, request)) == [(0, False, False, 1.0, 101.0), (1, False, False, 1.0, 101.0)]
    trainer.quit()


def test_player_gives_a_new_id_after_despawn_and_respawn(trainer: Any, play: Any, scripted_roster: Any) -> None:
    play(scripted_roster(events={1: despawn, 3: respawn}))
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    assert infos(request) == [(0, True, False, 1.0, 55.0), (1, False, False, 1.0, 1.0)]
    request = step(trainer, request)
    assert infos(request) == [(1, False, False, 1.0, 2.0)]
    request = step(trainer, request)
    # The roster pays a robot only for lives that ran before the step.
    assert infos(request) == [(4, False, False, 0.0, 77.0), (1, False, False, 1.0, 3.0)]
    trainer.quit()


def test_player_respawns_in_the_step_of_the_despawn(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def swap(arrays: RosterArrays) -> None:
        despawn(arrays)
        respawn(arrays)

    play(scripted_roster(events={1: swap}))
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=3)
    assert infos(request) == [
        (0, True, False, 1.0, 55.0),
        (4, False, False, 0.0, 77.0),
        (1, False, False, 1.0, 1.0),
    ]
    trainer.quit()


def test_player_brings_despawned_robots_back_with_new_ids_at_the_time_limit(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    play(scripted_roster(events={1: despawn}, limit=2))
    trainer.shake_hands()
    request = step(trainer, step(trainer, trainer.receive()))
    assert infos(request) == [
        (1, True, True, 1.0, 2.0),
        (4, False, False, 0.0, 100.0),
        (1, False, False, 0.0, 100.0),
    ]
    trainer.quit()


def test_player_sends_terminals_without_decisions_between_decisions(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    roster = scripted_roster(events={1: despawn})
    play(roster, decision_period=3)
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=2)
    assert infos(request) == [(0, True, False, 1.0, 55.0)]
    assert CARRIER in request.unity_output.rl_output.agentInfos
    assert PICKER not in request.unity_output.rl_output.agentInfos
    trainer.reply()
    request = trainer.receive()
    assert infos(request) == [(1, False, False, 3.0, 3.0)]
    assert [a["carrier"][1][0, 1, 0] for a in roster.actions] == [2, 2, 2]
    trainer.quit()


def test_player_drops_the_action_of_an_ended_life_between_decisions(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    roster = scripted_roster(limit=2)
    play(roster, decision_period=3)
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=4)
    assert [i[1] for i in infos(request)] == [True, True]
    trainer.reply()
    trainer.receive()
    assert [a["carrier"][1].ravel().tolist() for a in roster.actions] == [[4, 4], [4, 4], [0, 0]]
    trainer.quit()


def test_player_replaces_a_repeated_action_that_became_forbidden(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def forbid(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].action_mask[0, 0] = [False, True, False, False, True]

    roster = scripted_roster(events={1: forbid})
    play(roster, decision_period=2)
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=2)
    assert [a["carrier"][1].ravel().tolist() for a in roster.actions] == [[2, 2], [1, 2]]
    trainer.reply(agent_actions=answers(request, 3))  # a fresh one is the simulator's business
    trainer.receive()
    assert roster.actions[2]["carrier"][1].ravel().tolist() == [3, 3]
    trainer.quit()


def test_player_sends_inverted_masks_once_something_was_forbidden(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    def forbid(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].action_mask[0, 1] = [True, False, True, True, False]

    def allow(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].action_mask[:] = True

    def masks(request: Any) -> list[list[bool]]:
        return [list(i.action_mask) for i in request.unity_output.rl_output.agentInfos[CARRIER].value]

    play(scripted_roster(events={1: forbid, 2: allow}))
    trainer.shake_hands()
    request = trainer.receive()
    assert masks(request) == [[], []]
    request = step(trainer, request)
    assert masks(request) == [[False] * 5, [False, True, False, False, True]]
    request = step(trainer, request)
    assert masks(request) == [[False] * 5, [False] * 5]
    trainer.quit()


def test_player_resets_without_terminals_and_keeps_ids(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster(events={1: despawn})
    play(roster)
    trainer.shake_hands(seed=7)
    step(trainer, trainer.receive())
    trainer.reply(command=RESET)
    request = trainer.receive()
    assert infos(request) == [(4, False, False, 0.0, 100.0), (1, False, False, 0.0, 100.0)]
    assert roster.seeds == [7, None]
    assert len(roster.actions) == 1
    trainer.quit()


def test_player_leaves_unsent_reward_over_at_a_reset(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def absent(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].decision_mask[0, 0] = False

    play(scripted_roster(events={1: absent}))
    trainer.shake_hands()
    step(trainer, trainer.receive())
    trainer.reply(command=RESET)
    assert [i[3] for i in infos(trainer.receive())] == [1.0, 0.0]
    trainer.quit()


def test_player_asks_at_once_after_a_reset_between_decisions(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster(events={1: despawn})
    play(roster, decision_period=3)
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    assert [i[1] for i in infos(request)] == [True]
    trainer.reply(command=RESET)
    assert infos(trainer.receive()) == [(4, False, False, 0.0, 100.0), (1, False, False, 1.0, 100.0)]
    assert len(roster.actions) == 1
    trainer.quit()


def test_player_acts_once_after_a_reset_when_asked_to(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster()
    play(roster, act_after_reset=True)
    trainer.shake_hands()
    step(trainer, trainer.receive(), choice=3)
    trainer.reply(command=RESET)
    assert infos(trainer.receive())[0] == (0, False, False, 1.0, 101.0)
    assert [a["carrier"][1].ravel().tolist() for a in roster.actions] == [[3, 3], [0, 0]]
    trainer.quit()


def test_player_uses_zeros_when_a_behavior_is_missing_in_the_reply(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    roster = scripted_roster()
    play(roster)
    trainer.shake_hands()
    request = step(trainer, trainer.receive(), choice=3)
    actions = answers(request)
    del actions[CARRIER]
    trainer.reply(agent_actions=actions)
    trainer.receive()
    assert [a["carrier"][1].ravel().tolist() for a in roster.actions] == [[3, 3], [0, 0]]
    trainer.quit()


def test_player_seeds_the_simulator_from_parameters_at_the_next_reset(
    trainer: Any, play: Any, scripted_roster: Any, frame: Any
) -> None:
    def seed(value: int) -> bytes:
        parts = {"agv_seed_high": value >> 24, "agv_seed_low": value & 0xFFFFFF}
        return b"".join(
            frame(
                messages.ENVIRONMENT_PARAMETERS_CHANNEL,
                struct.pack("<i", len(key)) + key.encode() + struct.pack("<if", 0, part),
            )
            for key, part in parts.items()
        )

    roster = scripted_roster()
    play(roster)
    trainer.shake_hands(seed=7, side_channel=seed(123_456_789_012))
    step(trainer, trainer.receive())
    trainer.reply(command=RESET)
    trainer.receive()
    trainer.reply(command=RESET, side_channel=seed(5))
    trainer.receive()
    assert roster.seeds == [123_456_789_012, None, 5]
    trainer.quit()


def test_player_sends_statistics_with_the_terminals_of_an_episode(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    academy = play(scripted_roster(num_envs=2, limit=2))
    trainer.shake_hands(num_areas=2)
    request = trainer.receive()
    assert request.unity_output.rl_output.side_channel == b""
    request = step(trainer, request)
    assert request.unity_output.rl_output.side_channel == b""
    data = step(trainer, request).unity_output.rl_output.side_channel
    assert read_statistics(data) == {
        "episode/0/deliveries_per_h": (10.5, 1),
        "episode/0/collisions": (0.0, 1),
        "episode/1/deliveries_per_h": (11.5, 1),
        "episode/1/collisions": (1.0, 1),
    }
    trainer.quit()
    academy.join()
    log = Path(academy.log_file).read_text()
    assert "Area 1: episode ended after 2 steps: deliveries_per_h 11.5, collisions 1" in log


def read_statistics(data: bytes) -> dict[str, tuple[float, int]]:
    found = {}
    while data:
        assert data[:16] == messages.STATS_CHANNEL.bytes_le
        (length, key_length) = struct.unpack_from("<ii", data, 16)
        key = data[24 : 24 + key_length].decode()
        found[key] = struct.unpack_from("<fi", data, 24 + key_length)
        data = data[20 + length :]
    return found


def test_player_skips_exchanges_while_there_is_nothing_to_send(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster()
    play(roster, decision_period=4)
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    assert len(roster.actions) == 4
    assert [i[3] for i in infos(request)] == [4.0, 4.0]
    trainer.quit()


@pytest.mark.parametrize(
    ("actions", "message"),
    [
        ({"ghost?team=0": []}, r"expected actions for one of the behaviors .*'carrier\?team=0'.*, got 'ghost\?team=0'"),
        ({CARRIER: [{"discrete_actions": [1]}]}, r"expected actions for 2 agents, got 1"),
        (
            {CARRIER: [{"discrete_actions": [1, 1]}] * 2},
            r"behavior 'carrier\?team=0': expected 1 discrete actions for an agent, got 2",
        ),
        (
            {CARRIER: [{"discrete_actions": [1], "continuous_actions": [0.5]}] * 2},
            r"behavior 'carrier\?team=0': expected 0 continuous actions for an agent, got 1",
        ),
    ],
)
def test_player_refuses_actions_when_they_do_not_fit(
    trainer: Any, play: Any, scripted_roster: Any, actions: dict[str, Any], message: str
) -> None:
    academy = play(scripted_roster())
    trainer.shake_hands()
    trainer.receive()
    lists = {
        name: messages.ListAgentAction(value=[messages.AgentAction(**a) for a in values])
        for name, values in actions.items()
    }
    trainer.reply(agent_actions=lists)
    with pytest.raises(UnityProtocolError, match=message):
        academy.join()


def test_player_rewards_add_up_over_random_lives(trainer: Any, play: Any, scripted_roster: Any) -> None:
    rng = np.random.default_rng(3)
    paid = []

    def churn(arrays: RosterArrays) -> None:
        for values in arrays.roles.values():
            before = values.agent_mask.copy()
            values.rewards[:] = rng.integers(-4, 5, before.shape) * before
            paid.append(values.rewards.sum())
            values.terminated[:] = before & (rng.random(before.shape) < 0.2)
            values.agent_mask[:] = np.where(before, ~values.terminated, rng.random(before.shape) < 0.3)
            values.decision_mask[:] = values.agent_mask & (rng.random(before.shape) < 0.7)

    academy = play(scripted_roster(num_envs=3, events=dict.fromkeys(range(1, 200), churn), limit=17))
    trainer.shake_hands(num_areas=3)
    request = trainer.receive()
    received, open_ids, closed_ids = 0.0, set(), set()
    for _ in range(150):
        for entry in request.unity_output.rl_output.agentInfos.values():
            for info in entry.value:
                received += info.reward
                assert info.id not in closed_ids
                if info.done and not info.max_step_reached:
                    closed_ids.add(info.id)
                    open_ids.discard(info.id)
                elif not info.done:
                    open_ids.add(info.id)
        sent_until_now = sum(paid)
        unsent = sum(float(agents._rewards.sum()) for agents in academy.academy._agents)
        assert received + unsent == sent_until_now
        request = step(trainer, request)
    assert len(closed_ids) > 50
    trainer.quit()
