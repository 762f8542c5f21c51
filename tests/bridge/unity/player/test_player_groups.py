"""Group rewards, what a despawn ends, and behaviors that appear late: options of a scene, over a scripted world."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
import pytest

from bridge.roster import RosterArrays
from bridge.unity import messages

CARRIER, PICKER = "carrier?team=0", "picker?team=0"


def infos(request: Any, behavior: str = CARRIER) -> list[tuple[int, bool, float, float]]:
    """(id, done, reward, group reward) of each info, in order."""
    entries = request.unity_output.rl_output.agentInfos
    # Reading a missing key of a protobuf map would add it.
    values = entries[behavior].value if behavior in entries else []
    return [(i.id, i.done, i.reward, i.group_reward) for i in values]


def step(trainer: Any, request: Any) -> Any:
    """Answer everyone who asks, and wait for the next request."""
    actions = {}
    for name, entry in request.unity_output.rl_output.agentInfos.items():
        continuous = [0.5] if name == PICKER else []
        action = messages.AgentAction(continuous_actions=continuous, discrete_actions=[1])
        actions[name] = messages.ListAgentAction(value=[action] * sum(not i.done for i in entry.value))
    trainer.reply(agent_actions=actions)
    return trainer.receive()


def despawn(arrays: RosterArrays) -> None:
    values = arrays.roles["carrier"]
    values.terminated[0, 0] = True
    values.agent_mask[0, 0] = values.decision_mask[0, 0] = False
    values.observations[0, 0] = 0.0


def respawn(arrays: RosterArrays) -> None:
    values = arrays.roles["carrier"]
    values.agent_mask[0, 0] = values.decision_mask[0, 0] = True


def pay(*rewards: float) -> Any:
    """An event: the rewards of both carriers; the pickers get nothing."""

    def event(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].rewards[0] = rewards
        arrays.roles["picker"].rewards[0] = 0.0

    return event


def test_player_moves_a_share_of_the_reward_to_the_group(trainer: Any, play: Any, scripted_roster: Any) -> None:
    play(scripted_roster(events={1: pay(8.0, 0.0)}), group_reward=0.25)
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    # A quarter of 8 is divided among the four members of both roles.
    assert infos(request) == [(0, False, 6.0, 0.5), (1, False, 0.0, 0.5)]
    assert infos(request, PICKER) == [(2, False, 0.0, 0.5), (3, False, 0.0, 0.5)]
    trainer.quit()


def test_player_pays_a_group_for_its_own_area_alone(trainer: Any, play: Any, scripted_roster: Any) -> None:
    def first_area_only(arrays: RosterArrays) -> None:
        arrays.roles["carrier"].rewards[:] = [[4.0, 4.0], [0.0, 0.0]]
        arrays.roles["picker"].rewards[:] = 0.0

    play(scripted_roster(num_envs=2, events={1: first_area_only}), group_reward=1.0)
    trainer.shake_hands(num_areas=2)
    request = step(trainer, trainer.receive())
    assert [i[2:] for i in infos(request)] == [(0.0, 2.0)] * 2 + [(0.0, 0.0)] * 2
    trainer.quit()


def test_player_pays_no_group_reward_to_a_member_that_was_disabled(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    def last_deed(arrays: RosterArrays) -> None:
        pay(4.0, 0.0)(arrays)
        despawn(arrays)

    play(scripted_roster(events={1: last_deed, 2: pay(0.0, 3.0), 3: respawn}), group_reward=1.0)
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    # The member that left has its part of the reward for the step in which it left.
    assert infos(request) == [(0, True, 0.0, 1.0), (1, False, 0.0, 1.0)]
    request = step(trainer, request)
    assert infos(request) == [(1, False, 0.0, 1.0)]  # three members are left
    request = step(trainer, request)
    assert infos(request)[0] == (4, False, 0.0, 0.0)
    trainer.quit()


def test_player_keeps_the_id_of_a_robot_whose_despawn_ends_its_episode(
    trainer: Any, play: Any, scripted_roster: Any
) -> None:
    def last_deed(arrays: RosterArrays) -> None:
        pay(4.0, 0.0)(arrays)
        despawn(arrays)

    events = {1: last_deed, 2: pay(0.0, 8.0), 3: respawn}
    play(scripted_roster(events=events), group_reward=0.5, despawn_as="end-episode")
    trainer.shake_hands()
    request = step(trainer, trainer.receive())
    assert infos(request) == [(0, True, 2.0, 0.5), (1, False, 0.0, 0.5)]
    request = step(trainer, request)
    assert infos(request) == [(1, False, 4.0, 1.0)]
    request = step(trainer, request)
    # It stayed a member; what the group earned meanwhile comes with its first info. Step 3 paid 1 to each of the
    # three robots that lived before it.
    assert infos(request) == [(0, False, 0.0, 1.375), (1, False, 0.5, 0.375)]
    trainer.quit()


@pytest.mark.parametrize("despawn_as", ["disable", "end-episode"])
def test_player_reward_and_group_reward_add_up_over_random_lives(
    trainer: Any, play: Any, scripted_roster: Any, despawn_as: str
) -> None:
    rng = np.random.default_rng(8)
    paid = []

    def churn(arrays: RosterArrays) -> None:
        for values in arrays.roles.values():
            before = values.agent_mask.copy()
            values.rewards[:] = rng.integers(-4, 5, before.shape) * before
            values.terminated[:] = before & (rng.random(before.shape) < 0.2)
            values.agent_mask[:] = np.where(before, ~values.terminated, rng.random(before.shape) < 0.3)
            values.decision_mask[:] = values.agent_mask & (rng.random(before.shape) < 0.7)
        paid.append(sum(float(values.rewards.sum()) for values in arrays.roles.values()))

    roster = scripted_roster(num_envs=3, events=dict.fromkeys(range(1, 200), churn), limit=17)
    academy = play(roster, group_reward=0.5, despawn_as=despawn_as)
    trainer.shake_hands(num_areas=3)
    request = trainer.receive()
    received: dict[int, float] = defaultdict(float)
    for _ in range(120):
        for behavior in (CARRIER, PICKER):
            for agent, _, reward, group_reward in infos(request, behavior):
                received[agent] += reward + group_reward
        unsent = sum(float((a._rewards + a._group_rewards).sum()) for a in academy.academy._agents)
        assert sum(received.values()) + unsent == pytest.approx(sum(paid), abs=1e-3)
        request = step(trainer, request)
    assert (len(received) > 12) == (despawn_as == "disable")
    trainer.quit()


def test_player_announces_a_late_behavior_when_it_appears(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster(events={3: despawn})
    play(roster, late={"carrier": 4})
    trainer.shake_hands()
    request = trainer.receive()
    seen = []
    for _ in range(6):
        brains = request.unity_output.rl_initialization_output.brain_parameters
        seen.append(([b.brain_name for b in brains], infos(request)))
        request = step(trainer, request)
    assert seen[0] == ([PICKER], [])
    assert seen[1:4] == [([], [])] * 3
    # carrier_0 left the floor before anybody knew of it; ids go on from those of the pickers.
    assert seen[4] == ([CARRIER], [(2, False, 0.0, 0.0)])
    assert seen[5] == ([], [(2, False, 1.0, 0.0)])
    assert [a["carrier"][1].max() for a in roster.actions[:6]] == [0, 0, 0, 0, 1, 1]
    trainer.quit()


def test_player_counts_steps_of_a_late_behavior_across_resets(trainer: Any, play: Any, scripted_roster: Any) -> None:
    play(scripted_roster(), late={"carrier": 2})
    trainer.shake_hands()
    step(trainer, trainer.receive())
    trainer.reply(command=messages.COMMAND_RESET)
    assert [i[0] for i in infos(trainer.receive())] == [2, 3]
    trainer.quit()


def test_player_steps_without_exchanges_while_the_scene_is_empty(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster(limit=4)
    play(roster, late={"carrier": 6, "picker": 7})
    trainer.shake_hands()
    request = trainer.receive()
    assert len(roster.actions) == 6  # an episode ended meanwhile, of which nobody hears
    assert infos(request) == [(0, False, 0.0, 0.0), (1, False, 0.0, 0.0)]
    assert infos(request, PICKER) == []
    assert infos(step(trainer, request), PICKER) == [(2, False, 0.0, 0.0), (3, False, 0.0, 0.0)]
    trainer.quit()
