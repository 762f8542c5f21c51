"""The changing state of all robots of all environments, as a structure of arrays.

E environments, N robots of all roles, K tasks that can wait. The arrays are
made once and written in place by the kernels; each named tuple groups what
belongs to one subject, so that a kernel is given what it needs and no more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.warehouse.config import RoleConfig, WarehouseConfig

__all__ = [
    "Fleet",
    "Outcome",
    "Pose",
    "TaskPool",
    "Traits",
    "half_sides",
    "make_fleet",
    "make_outcome",
    "make_pool",
    "make_pose",
    "make_traits",
]

Int32 = NDArray[np.int32]
Float32 = NDArray[np.float32]
Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]


class Pose(NamedTuple):
    """Where robots are, in the floor frame (metres, y up); all (E, N).

    Attributes:
        x: float64, m.
        y: float64, m.
        heading: float64, rad in [-pi, pi); 0 on the grid.
        cos: float32, cosine of the heading.
        sin: float32, sine of the heading.
        speed: float64, forward speed in m/s; 0 on the grid.
        turn_rate: float64, rad/s; 0 on the grid.
        vx: float32, velocity along x over the last step in m/s.
        vy: float32, velocity along y over the last step in m/s.
    """

    x: Float64
    y: Float64
    heading: Float64
    cos: Float32
    sin: Float32
    speed: Float64
    turn_rate: Float64
    vx: Float32
    vy: Float32


class Fleet(NamedTuple):
    """What robots are doing; all (E, N).

    Attributes:
        cell: int32, cell that holds the centre; stale where not alive.
        alive: bool, on the floor.
        loaded: bool, carries a load.
        charge: float32 in [0, 1].
        goal: int32, row of the current goal in the route table; -1 for none.
        pickup: int32, goal where the task's load is fetched; -1 without a task.
        delivery: int32, goal where it is brought; -1 without a task.
        number: int32, serial number of the task.
        released: int32, step of the episode in which the task arrived.
        age: int32, steps since the task was assigned.
        waiting: int32, steps since the robot last reached a pick-up or delivery; 0 without a task.
        origin: int32, goal of the first pick-up of the task; ``pickup`` without further errands.
        errand: int32, pick-ups of the task that are done; stays 0 without further errands.
        off_duty: int32, bits for the reasons why it takes no task at present; 0 for none.
        in_service: bool, is at its station and has to stay there before it is done.
        held: int32, bits for the reasons why it stands whatever it is told; 0 for none.
        route: int32, packed route entry (see ``floor``) of the current goal; 0 without a goal.
        way_x: float64, m, centre of the next cell on the way to the goal; the goal's own when there.
        way_y: float64, m, likewise; the robot's own position without a goal.
        returns_in: int32, steps until a robot that left comes back; -1 for never.
        potential: float64, potential of the shaping reward.
    """

    cell: Int32
    alive: Bool
    loaded: Bool
    charge: Float32
    goal: Int32
    pickup: Int32
    delivery: Int32
    number: Int32
    released: Int32
    age: Int32
    waiting: Int32
    origin: Int32
    errand: Int32
    off_duty: Int32
    in_service: Bool
    held: Int32
    route: Int32
    way_x: Float64
    way_y: Float64
    returns_in: Int32
    potential: Float64


class Outcome(NamedTuple):
    """What happened to each robot in the last step; all (E, N).

    Attributes:
        lived: bool, was alive before the step.
        carried: bool, had a load before the step: the one that it moved with.
        refused: bool, its motion was refused because of a rack, a wall or a robot.
        robot_contacts: int32, robots that it touched.
        rack_contacts: int32, 1 if it touched a rack or wall.
        leaving: bool, left the floor.
        moved_m: float32, distance driven.
        pause: int8, why it stood, if not for traffic; see ``pauses``.
        served: int32, 0 nothing, 1 fetched a load, 2 delivered one, 3 helped another robot to fetch one.
        task_steps: int32, age of the task that was delivered, since it was assigned.
        flow_steps: int32, the same since it arrived.
    """

    lived: Bool
    carried: Bool
    refused: Bool
    robot_contacts: Int32
    rack_contacts: Int32
    leaving: Bool
    moved_m: Float32
    pause: NDArray[np.int8]
    served: Int32
    task_steps: Int32
    flow_steps: Int32


class TaskPool(NamedTuple):
    """Tasks that wait for a robot, and the parking places that are spoken for.

    Attributes:
        num_waiting: (E,) int32, number of waiting tasks.
        pickup: (E, K) int32, goals.
        delivery: (E, K) int32, goals.
        number: (E, K) int32, serial numbers; lower is older.
        released: (E, K) int32, steps of the episode in which they arrived.
        drawn: (E,) int32, tasks drawn so far in the episode.
        claimed: (E, G) bool, goals that are the parking place or the charger of a robot.
        turned_away: (E,) int64, tasks that arrived while as many as may wait did.
    """

    num_waiting: Int32
    pickup: Int32
    delivery: Int32
    number: Int32
    released: Int32
    drawn: Int32
    claimed: Bool
    turned_away: NDArray[np.int64]


class Traits(NamedTuple):
    """What is fixed about each robot; all (N,).

    Attributes:
        radius_m: float64, footprint, or the disc around a rectangular one.
        idle_drain: float64, share of the charge lost per step by electronics.
        moving_drain: float64, additional share per step while moving.
        loaded_factor: float64, factor on the moving drain while loaded, or with a full load (see ``battery``).
        initial_min: float64, smallest charge at the start.
        initial_max: float64, largest charge at the start.
    """

    radius_m: Float64
    idle_drain: Float64
    moving_drain: Float64
    loaded_factor: Float64
    initial_min: Float64
    initial_max: Float64


def make_pose(num_envs: int, num_robots: int) -> Pose:
    """A pose for every robot, facing along x."""
    arrays = {
        name: np.zeros((num_envs, num_robots), np.float32 if name in ("cos", "sin", "vx", "vy") else np.float64)
        for name in Pose._fields
    }
    arrays["cos"][:] = 1.0
    return Pose(**arrays)


def make_fleet(num_envs: int, num_robots: int) -> Fleet:
    """Robots that are not on the floor yet."""
    dtypes: dict[str, type[np.generic]] = {"alive": np.bool_, "loaded": np.bool_}
    dtypes["in_service"] = np.bool_
    dtypes |= {"charge": np.float32, "way_x": np.float64, "way_y": np.float64, "potential": np.float64}
    return Fleet(**{name: np.zeros((num_envs, num_robots), dtypes.get(name, np.int32)) for name in Fleet._fields})


def make_outcome(num_envs: int, num_robots: int) -> Outcome:
    """Nothing has happened yet."""
    flags = dict.fromkeys(("lived", "carried", "refused", "leaving"), np.bool_)
    dtypes: dict[str, type[np.generic]] = {**flags, "moved_m": np.float32, "pause": np.int8}
    return Outcome(**{name: np.zeros((num_envs, num_robots), dtypes.get(name, np.int32)) for name in Outcome._fields})


def make_pool(num_envs: int, num_open: int, num_robots: int, num_goals: int) -> TaskPool:
    """An empty pool that can also take back the task of every robot."""
    tasks = (num_envs, num_open + num_robots)
    return TaskPool(
        num_waiting=np.zeros(num_envs, np.int32),
        pickup=np.zeros(tasks, np.int32),
        delivery=np.zeros(tasks, np.int32),
        number=np.zeros(tasks, np.int32),
        released=np.zeros(tasks, np.int32),
        drawn=np.zeros(num_envs, np.int32),
        claimed=np.zeros((num_envs, num_goals), np.bool_),
        turned_away=np.zeros(num_envs, np.int64),
    )


def make_traits(config: WarehouseConfig, step_s: float) -> Traits:
    """Footprint and battery of every robot, role after role; drains are per step of ``step_s``."""
    hours = step_s / 3600.0
    rows = [
        (
            role.outer_radius_m,
            role.battery.drain_idle_per_h * role.battery.time_factor * hours,
            role.battery.drain_moving_per_h * role.battery.time_factor * hours,
            role.battery.drain_loaded_factor,
            role.battery.initial_min,
            role.battery.initial_max,
        )
        for role in config.fleet
        for _ in range(role.count)
    ]
    # (N, fields) -> one contiguous array per field
    return Traits(*(np.array(column, np.float64) for column in zip(*rows, strict=True)))


def half_sides(roles: Sequence[RoleConfig]) -> tuple[Float64, Float64]:
    """Rectangular footprints, role after role.

    Returns:
        Half the length and half the width of each robot's: (N,) float64 in m, 0 for discs; empty if all are discs.
    """
    sides = np.array([role.half_sides_m for role in roles for _ in range(role.count)]).reshape(-1, 2)
    if not sides.any():
        sides = sides[:0]
    # (N, 2) -> one contiguous array per side
    return np.ascontiguousarray(sides[:, 0]), np.ascontiguousarray(sides[:, 1])
