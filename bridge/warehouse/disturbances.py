"""What disturbs the execution of actions: absent robots, late actions, slippery floors, robots that stop."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind, kernel_part, lean_kernel
from bridge.warehouse.config import DifferentialDriveConfig
from bridge.warehouse.config_randomisation import ExecutionDelayConfig
from bridge.warehouse.feature import HELD_DELAYED, Feature, Parts
from bridge.warehouse.fleet import Fleet
from bridge.warehouse.random_streams import Purpose, uniform

__all__ = ["AbsentRobots", "ExecutionDelays", "LateActions", "SlipperyFloor", "hold_delayed_robots"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
UInt64 = NDArray[np.uint64]


class AbsentRobots(Feature):
    """In each episode some slots at the end of every role stay without a robot.

    Args:
        parts: The simulator's arrays.
        min_share: Smallest share of a role's robots that take part.
    """

    def __init__(self, parts: Parts, min_share: float) -> None:
        self._parts = parts
        self._min_share = min_share

    def begin(self, envs: Bool) -> None:
        """Take the absent robots off the floor."""
        fleet = self._parts.fleet
        for env in np.flatnonzero(envs):
            key = self._parts.keys[Purpose.FLEET_SIZE, env]
            first = 0
            for number, role in enumerate(self._parts.config.fleet):
                least = max(math.ceil(self._min_share * role.count - 1e-9), 1)
                present = least + int(uniform(key, number) * (role.count - least + 1))
                fleet.alive[env, first + present : first + role.count] = False
                fleet.returns_in[env, first + present : first + role.count] = -1
                first += role.count


class LateActions(Feature):
    """Each robot's actions are carried out some steps late; before the first one of its life it stands.

    Args:
        parts: The simulator's arrays.
        max_steps: Longest delay.
    """

    def __init__(self, parts: Parts, max_steps: int) -> None:
        self._parts = parts
        shape = parts.moves.shape
        self._delay: Int32 = np.zeros(shape, np.int32)
        self._max_steps = max_steps
        self._moves = np.zeros((max_steps + 1, *shape), np.int32)
        self._commands = np.zeros((max_steps + 1, *parts.commands.shape), np.float32)
        late = (self._delay, parts.steps, parts.outcome.leaving)
        if isinstance(parts.config.drive, DifferentialDriveConfig):
            self._swap = bind(_swap_commands, parts.commands, self._commands, *late)
        else:
            self._swap = bind(_swap_moves, parts.moves, self._moves, *late)

    @property
    def delay(self) -> Int32:
        """(E, N) int32, delays of the running episodes in steps."""
        return self._delay

    def begin(self, envs: Bool) -> None:
        """Draw the delays and forget what was told before."""
        self._moves[:, envs] = 0
        self._commands[:, envs] = 0.0
        for env in np.flatnonzero(envs):
            key = self._parts.keys[Purpose.ACTION_DELAY, env]
            for robot in range(self._delay.shape[1]):
                self._delay[env, robot] = int(uniform(key, robot) * (self._max_steps + 1))

    def before_motion(self) -> None:
        """Put the actions that are due in the place of those that were taken."""
        self._swap()


@lean_kernel
def _swap_moves(moves: Int32, told: Int32, delay: Int32, steps: Int32, left: Bool) -> None:
    """Keep (E, N) moves in the ring (D + 1, E, N) and write those of ``delay`` steps ago.

    What robots were told that left the floor in the step before, ``left``, is told to nobody else in their slots.
    """
    size = told.shape[0]
    for env in range(moves.shape[0]):
        for robot in range(moves.shape[1]):
            if left[env, robot]:
                told[:, env, robot] = 0
            told[steps[env] % size, env, robot] = moves[env, robot]
            late = steps[env] - delay[env, robot]
            moves[env, robot] = told[late % size, env, robot] if late >= 0 else 0


@lean_kernel
def _swap_commands(commands: Float32, told: Float32, delay: Int32, steps: Int32, left: Bool) -> None:
    """The same for (E, N, 2) commands."""
    size = told.shape[0]
    for env in range(commands.shape[0]):
        for robot in range(commands.shape[1]):
            if left[env, robot]:
                told[:, env, robot] = 0.0
            late = steps[env] - delay[env, robot]
            for index in range(commands.shape[2]):
                told[steps[env] % size, env, robot, index] = commands[env, robot, index]
                commands[env, robot, index] = told[late % size, env, robot, index] if late >= 0 else 0.0


class SlipperyFloor(Feature):
    """Speed limits and traction of an episode, the same for all robots of an environment; differential drive.

    Traction scales how fast speed and turn rate change in every physics step, as the grip of wheels does: a robot
    on a wet floor also brakes later.

    Args:
        parts: The simulator's arrays.
        min_speed: Smallest factor on the speed limits.
        min_traction: Smallest factor on the changes.
    """

    def __init__(self, parts: Parts, min_speed: float, min_traction: float) -> None:
        self._parts = parts
        self._least = {Purpose.SPEED_FACTOR: min_speed, Purpose.TRACTION_FACTOR: min_traction}
        limits = parts.limits
        self._factors = {Purpose.SPEED_FACTOR: limits.speed_factor, Purpose.TRACTION_FACTOR: limits.traction}

    @property
    def speed_factor(self) -> NDArray[np.float64]:
        """(E,) float64, of the running episodes."""
        return self._factors[Purpose.SPEED_FACTOR]

    @property
    def traction_factor(self) -> NDArray[np.float64]:
        """(E,) float64, of the running episodes."""
        return self._factors[Purpose.TRACTION_FACTOR]

    def begin(self, envs: Bool) -> None:
        """Draw the factors."""
        for purpose, least in self._least.items():
            for env in np.flatnonzero(envs):
                self._factors[purpose][env] = least + (1.0 - least) * uniform(self._parts.keys[purpose, env], 0)


class ExecutionDelays(Feature):
    """Robots that stop for a while, whatever they are told.

    Args:
        parts: The simulator's arrays.
        config: When and for how long.
    """

    def __init__(self, parts: Parts, config: ExecutionDelayConfig) -> None:
        self._parts, self._config = parts, config
        self._left = np.zeros(parts.moves.shape, np.int32)
        bernoulli = config.events == "bernoulli"
        self._chance = config.probability if bernoulli else 1.0 - math.exp(-config.probability)
        self._draw_all = bind(hold_delayed_robots, *self._draw_arguments(np.ones(len(self._left), np.bool_)))

    @property
    def left(self) -> Int32:
        """(E, N) int32, steps that each robot still stands."""
        return self._left

    def begin(self, envs: Bool) -> None:
        """Nobody is delayed; the first delays may begin at once."""
        self._left[envs] = 0
        hold_delayed_robots(*self._draw_arguments(envs))

    def after_service(self) -> None:
        """Count down and begin delays that show in the next step."""
        self._draw_all()

    def _draw_arguments(self, envs: Bool) -> tuple[Any, ...]:
        parts, config = self._parts, self._config
        ratios = (float(config.mean_ratio), float(config.std_ratio)) if config.duration == "gaussian" else (0.0, -1.0)
        bounds = (float(self._chance), config.min_steps, config.max_steps, *ratios)
        keys = (parts.keys[Purpose.EXECUTION_DELAY], parts.keys[Purpose.EXECUTION_DURATION])
        return parts.fleet, parts.outcome.leaving, self._left, *bounds, *keys, parts.steps, envs


@lean_kernel
def hold_delayed_robots(
    fleet: Fleet,
    leaving: Bool,
    left: Int32,
    chance: float,
    min_steps: int,
    max_steps: int,
    mean_ratio: float,
    std_ratio: float,
    begin_keys: UInt64,
    duration_keys: UInt64,
    steps: Int32,
    envs: Bool,
) -> None:
    """Count delays down, begin new ones, and hold the robots concerned.

    Args:
        fleet: ``held`` is written.
        leaving: (E, N) bool, left the floor in the step; whoever is in the slot by now is not delayed.
        left: (E, N) int32, steps that each robot still stands; advanced.
        chance: That a robot which is not delayed becomes so.
        min_steps: Shortest delay.
        max_steps: Longest delay.
        mean_ratio: Mean of normal durations, from 0 at the shortest to 1 at the longest.
        std_ratio: Their standard deviation over the difference of the two; negative: durations are uniform.
        begin_keys: (E,) uint64, stream of the beginnings.
        duration_keys: (E,) uint64, stream of the durations.
        steps: (E,) int32, number of the step in its episode that has just run.
        envs: (E,) bool, environments to treat.
    """
    num_envs, num_robots = left.shape
    for env in range(num_envs):
        if not envs[env]:
            continue
        for robot in range(num_robots):
            if not fleet.alive[env, robot] or leaving[env, robot]:
                left[env, robot] = 0
            elif left[env, robot] > 0:
                left[env, robot] -= 1
            if fleet.alive[env, robot] and left[env, robot] == 0:
                counter = int(steps[env]) * num_robots + robot
                if uniform(begin_keys[env], counter) < chance:
                    left[env, robot] = _duration(
                        min_steps, max_steps, mean_ratio, std_ratio, duration_keys[env], counter
                    )
            held = fleet.held[env, robot] & ~HELD_DELAYED
            fleet.held[env, robot] = held | HELD_DELAYED if left[env, robot] > 0 else held


@kernel_part
def _duration(min_steps: int, max_steps: int, mean_ratio: float, std_ratio: float, key: np.uint64, counter: int) -> int:
    if std_ratio < 0.0:
        return min_steps + int(uniform(key, 2 * counter) * (max_steps - min_steps + 1))
    normal = np.sqrt(-2.0 * np.log(1.0 - uniform(key, 2 * counter)))
    normal *= np.cos(2.0 * np.pi * uniform(key, 2 * counter + 1))
    length = min_steps + (max_steps - min_steps) * (mean_ratio + std_ratio * normal)
    return int(min(max(np.floor(length + 0.5), min_steps), max_steps))
