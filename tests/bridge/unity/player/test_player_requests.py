"""When agents ask: periods per role over a scripted world, on demand over the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.registry import open_world
from bridge.scenario import load_scenario
from bridge.unity import messages
from bridge.unity.player.floors import Floors
from bridge.unity.player.requests import LONGEST_WAIT_STEPS, OnDemandRequests
from bridge.warehouse.simulator import WarehouseSimulator
from bridge.warehouse.variant_roster import VariantRoster, simulator_of
from bridge.warehouse.view import DOWN, STAY, UP

CARRIER, PICKER = "carrier?team=0", "picker?team=0"


def test_player_asks_each_role_in_its_own_period(trainer: Any, play: Any, scripted_roster: Any) -> None:
    roster = scripted_roster()
    play(roster, decision_period=2, role_periods={"picker": 3})
    trainer.shake_hands()
    asked = []
    for _ in range(5):
        request = trainer.receive()
        output = request.unity_output.rl_output
        asked.append((len(roster.actions), sorted(name for name in output.agentInfos if output.agentInfos[name].value)))
        actions = {}
        for name, entry in output.agentInfos.items():
            action = messages.AgentAction(
                continuous_actions=[0.5] if name == PICKER else [], discrete_actions=[len(roster.actions) % 2]
            )
            actions[name] = messages.ListAgentAction(value=[action] * len(entry.value))
        trainer.reply(agent_actions=actions)
    assert asked == [(0, [CARRIER, PICKER]), (2, [CARRIER]), (3, [PICKER]), (4, [CARRIER]), (6, [CARRIER, PICKER])]
    trainer.receive()
    trainer.quit()


@pytest.fixture
def simulator(small_scenario: Path) -> Iterator[WarehouseSimulator]:
    small_scenario.write_text(small_scenario.read_text().replace("mask_blocked_moves: true", ""))
    roster = open_world(load_scenario(small_scenario)).roster(1)
    assert isinstance(roster, WarehouseSimulator)
    roster.reset(3)
    yield roster
    roster.close()


def drive(simulator: WarehouseSimulator, move: int) -> None:
    """One step in which all robots try the same move."""
    simulator.arrays.roles["carrier"].discrete_actions[:] = move
    simulator.step()


def test_on_demand_robots_ask_first_and_then_at_the_latest_after_the_longest_wait(
    simulator: WarehouseSimulator,
) -> None:
    requests = OnDemandRequests(Floors(simulator), slice(0, 3))
    everyone = np.ones((1, 3), np.bool_)
    asked = []
    for step in range(29):  # an episode has 30 steps
        asked.append(int(requests.due(step, everyone).sum()))
        drive(simulator, STAY)
    assert asked == [3, *[0] * (LONGEST_WAIT_STEPS - 1), 3, *[0] * 8]


def test_on_demand_robots_ask_when_they_are_blocked_or_have_another_goal(simulator: WarehouseSimulator) -> None:
    requests = OnDemandRequests(Floors(simulator), slice(0, 3))
    everyone = np.ones((1, 3), np.bool_)
    assert requests.due(0, everyone).all()
    rng = np.random.default_rng(2)
    blocked = served = 0
    arrays = simulator.arrays.roles["carrier"]
    for step in range(1, 29):
        goals = simulator.goal_index.copy()
        arrays.discrete_actions[:] = rng.integers(0, 5, arrays.discrete_actions.shape)
        simulator.step()
        changed = simulator.goal_index != goals
        refused = simulator.outcome.refused
        asks = requests.due(step, everyone)
        assert asks[changed | refused].all()
        blocked += int(refused.sum())
        served += int(changed.sum())
    assert blocked > 0
    assert served > 0


def test_on_demand_robots_do_not_ask_while_they_are_under_way(simulator: WarehouseSimulator) -> None:
    requests = OnDemandRequests(Floors(simulator), slice(0, 3))
    requests.due(0, np.ones((1, 3), np.bool_))
    drive(simulator, UP)
    drive(simulator, DOWN)
    quiet = ~simulator.outcome.refused
    goals = simulator.goal_index.copy()
    requests.due(1, np.ones((1, 3), np.bool_))
    drive(simulator, STAY)
    asks = requests.due(2, np.ones((1, 3), np.bool_))
    assert not asks[quiet & (simulator.goal_index == goals)].any()
    requests.restart(np.array([[True, False, False]]))
    assert requests.due(3, np.ones((1, 3), np.bool_)).tolist() == [[True, False, False]]
    assert not requests.due(4, np.zeros((1, 3), np.bool_)).any()


def test_on_demand_robots_are_looked_at_on_the_floor_that_they_are_on(varied_scenario: Callable[[int], Path]) -> None:
    roster = open_world(load_scenario(varied_scenario(60))).roster(3)
    assert isinstance(roster, VariantRoster)
    roster.reset(2)
    requests = OnDemandRequests(Floors(roster), slice(0, 2))
    everyone = np.ones((3, 2), np.bool_)
    assert requests.due(0, everyone).all()
    rng = np.random.default_rng(2)
    arrays = roster.arrays.roles["carrier"]
    asked = 0
    for step in range(1, 130):
        arrays.discrete_actions[:] = rng.integers(0, 5, arrays.discrete_actions.shape)
        before = [simulator_of(roster, area) for area in range(3)]
        goals = [simulator.goal_index[area].copy() for area, simulator in enumerate(before)]
        roster.step()
        over = roster.arrays.episode_over
        requests.restart(np.repeat(over[:, None], 2, axis=1))
        asks = requests.due(step, everyone)
        assert asks[over].all()
        for area, simulator in enumerate(before):
            if not over[area]:
                wanted = (simulator.goal_index[area] != goals[area]) | simulator.outcome.refused[area]
                assert asks[area][wanted].all()
                asked += int(wanted.sum())
    assert asked > 0
    roster.close()


def test_player_process_exchanges_less_when_robots_ask_on_demand(
    trainer: Any, start_player: Any, small_scenario: Path
) -> None:
    start_player("--scenario", str(small_scenario), "--mlagents-port", str(trainer.port), "--on-demand")
    trainer.shake_hands(seed=3)
    request = trainer.receive()
    asked, ended = 0, 0
    while ended < 6:
        entry = request.unity_output.rl_output.agentInfos[CARRIER].value
        ended += sum(info.done for info in entry)
        chosen = []
        for info in (info for info in entry if not info.done):
            asked += 1
            allowed = [move for move in range(5) if not (info.action_mask and info.action_mask[move])]
            chosen.append(messages.AgentAction(discrete_actions=[allowed[asked % len(allowed)]]))
        trainer.reply(agent_actions={CARRIER: messages.ListAgentAction(value=chosen)})
        request = trainer.receive()
    # Two episodes of 30 steps with three robots.
    assert 6 <= asked < 120
    trainer.quit()
