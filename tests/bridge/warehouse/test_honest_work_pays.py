"""Under the rewards of every shipped warehouse no robot that shirks earns what a robot that works earns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.registry import open_world
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario, shipped_scenarios
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.layout import Layout
from bridge.warehouse.simulator import WarehouseSimulator

NUM_ENVS = 2
MAX_STEPS = 200

WAREHOUSES = sorted(name for name, path in shipped_scenarios().items() if load_scenario(path).world == "warehouse")


class Shirker:
    """Every robot repeats a rhythm of moves, or of commands, each of which the mask allows.

    Args:
        simulator: What is driven.
        moves: On the grid, the rhythm.
        commands: Differential drive, the rhythm.
    """

    def __init__(
        self, simulator: WarehouseSimulator, moves: tuple[int, ...], commands: tuple[tuple[float, float], ...]
    ) -> None:
        self._simulator, self._moves, self._commands = simulator, moves, commands

    def act(self, arrays: RosterArrays) -> None:
        """See ``FleetPolicy``."""
        step = int(self._simulator.steps[0])
        for values in arrays.roles.values():
            if values.continuous_actions.shape[-1] and self._simulator.config.drive.kind == "differential":
                values.continuous_actions[..., :2] = self._commands[step % len(self._commands)]
            else:
                num_moves = self._simulator.spec.roles[0].action.discrete_branches[0]
                move = self._moves[step % len(self._moves)] % num_moves
                values.discrete_actions[..., 0] = np.where(values.action_mask[..., move], move, 0)


SHIRKERS: dict[str, tuple[tuple[int, ...], tuple[tuple[float, float], ...]]] = {
    "standing": ((0,), ((0.0, 0.0),)),
    "spinning": ((1, 2, 3, 4), ((0.0, 1.0),)),
    "shuttling": ((2, 2, 2, 4, 4, 4), ((1.0, 0.0),) * 10 + ((-1.0, 0.0),) * 10),
    "oscillating": ((1, 3), ((0.3, 1.0), (-0.3, -1.0))),
    "pushing": ((1,), ((1.0, 0.0),)),
}


class Driver:
    """An honest robot on differential drive: turns to its next way-point and drives there, alone on the floor."""

    def __init__(self, simulator: WarehouseSimulator) -> None:
        self._simulator = simulator

    def act(self, arrays: RosterArrays) -> None:
        """See ``FleetPolicy``."""
        simulator, first = self._simulator, 0
        for values in arrays.roles.values():
            slots = slice(first, first + values.rewards.shape[1])
            pose, fleet = simulator._pose, simulator._fleet
            dx = fleet.way_x[:, slots] - pose.x[:, slots]
            dy = fleet.way_y[:, slots] - pose.y[:, slots]
            error = np.arctan2(dy, dx) - pose.heading[:, slots]
            error = (error + np.pi) % (2 * np.pi) - np.pi
            values.continuous_actions[:] = 0.0
            values.continuous_actions[..., 0] = np.where(np.abs(error) < 0.2, np.clip(np.hypot(dx, dy), 0.1, 0.7), 0.0)
            values.continuous_actions[..., 1] = np.clip(1.5 * error, -1, 1)
            first = slots.stop


HONEST = {"grid": PibtPolicy, "grid_heading": PibtHeadingPolicy, "differential": Driver}


def _returns(config: WarehouseConfig, layout: Layout, make_policy: Any) -> np.ndarray:
    """Mean return of a robot: plain, and discounted as the learner's objective is."""
    simulator = WarehouseSimulator(config, layout, NUM_ENVS)
    simulator.reset(seed=3)
    policy = make_policy(simulator)
    returns = np.zeros(2)
    for step in range(config.episode_steps):
        policy.act(simulator.arrays)
        simulator.step()
        reward = sum(float(values.rewards.sum()) for values in simulator.arrays.roles.values())
        returns += reward * np.array([1.0, config.reward.progress_gamma**step])
    return returns / (NUM_ENVS * config.num_robots)


def _shortened(name: str) -> tuple[WarehouseConfig, Layout]:
    world = open_world(load_scenario(name))
    steps = min(world.config.episode_steps, 600 if world.config.drive.kind == "differential" else MAX_STEPS)
    changes: dict[str, Any] = {"episode_steps": steps}
    if world.config.drive.kind == "differential":
        # The honest driver sees no other robot: it works alone.
        changes["fleet"] = tuple(role.model_copy(update={"count": 1}) for role in world.config.fleet[:1])
    return world.config.model_copy(update=changes), world.layout


@pytest.mark.parametrize("name", WAREHOUSES)
def test_no_shirker_earns_what_an_honest_robot_earns(name: str) -> None:
    config, layout = _shortened(name)
    assert config.reward.delivery > 0
    honest = _returns(config, layout, HONEST[config.drive.kind])
    for kind, (moves, commands) in SHIRKERS.items():
        shirker = _returns(config, layout, lambda simulator, m=moves, c=commands: Shirker(simulator, m, c))
        gap = honest - shirker
        # No photo finish. Shaping pays back its potential at every step, so returns may be negative for all.
        assert gap[0] > 0.5 * config.reward.delivery, f"{name}: {kind} earns {shirker}, an honest robot {honest}"
        assert gap[1] > 0.05 * config.reward.delivery, f"{name}: {kind} earns {shirker}, an honest robot {honest}"


@pytest.mark.parametrize("name", WAREHOUSES)
def test_standing_earns_nothing_under_the_shipped_rewards(name: str) -> None:
    config, layout = _shortened(name)
    moves, commands = SHIRKERS["standing"]
    assert (_returns(config, layout, lambda simulator: Shirker(simulator, moves, commands)) <= 1e-3).all()
