"""The figures of an episode: per run, and per robot; ``docs/kpis.md`` has the formulas."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bridge.jit import lean_kernel, number_of
from bridge.specs import MetricSpec
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import OFF_PICKING
from bridge.warehouse.fleet import Fleet, Outcome, TaskPool
from bridge.warehouse.pauses import DRIVES

__all__ = [
    "METRICS",
    "ROBOT_METRICS",
    "MetricClock",
    "Tally",
    "add_to_tally",
    "clear_tally",
    "make_clock",
    "make_tally",
    "metric_values",
    "robot_metric_values",
]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]

METRICS: Final = (
    MetricSpec("deliveries", "loads delivered by all robots", True),
    MetricSpec("deliveries_per_h", "deliveries * 3600 / (steps * seconds per step)", True),
    MetricSpec("pickups", "loads fetched by all robots", True),
    MetricSpec(
        "collisions",
        "contacts, measured from the robots' places: pairs of robots that share a cell, changed places or overlap, "
        "and robots that overlap a rack or wall; one per step and contact. 0 under the rule 'block' unless the "
        "simulator is at fault",
        False,
    ),
    MetricSpec("robot_collisions_per_h", "contacts of two robots per simulated hour", False),
    MetricSpec("rack_collisions_per_h", "contacts of a robot with a rack or wall per simulated hour", False),
    MetricSpec("blocked_moves", "steps of robots whose motion was refused because of a rack, a wall or a robot", False),
    MetricSpec("despawns", "robots that left the floor because they would have touched something", False),
    MetricSpec("distance_m", "way driven by all robots in m", None),
    MetricSpec("empty_share", "share of the way of robots that carry that they drove without a load", False),
    MetricSpec(
        "distance_per_delivery_m", "way driven by all robots per load delivered in m; without one the whole way", False
    ),
    MetricSpec("stops", "times that a robot with a task that was driving began to wait", False),
    MetricSpec(
        "task_time_s",
        "mean time from the assignment of a task to its delivery in s; tasks that still run at the end count with "
        "their age; 0 if none was assigned",
        False,
    ),
    MetricSpec("flow_time_mean_s", "mean time from the arrival of a task to its delivery in s; 0 without one", False),
    MetricSpec("flow_time_p95_s", "95th percentile of the same (nearest rank)", False),
    MetricSpec("flow_time_max_s", "the longest of the same", False),
    MetricSpec("max_task_age_s", "longest time that any task, delivered or not, has been in the system in s", False),
    MetricSpec("waiting_share", "share of the time with a task in which a robot stood although it could drive", False),
    MetricSpec("busy_share", "share of the time on the floor in which robots that carry had a task", None),
    MetricSpec("utilisation", "share of the time, on the floor or not, in which robots that carry had a task", None),
    MetricSpec("delivery_gini", "Gini coefficient of deliveries per robot that carries: 0 equal, 1 all by one", None),
)

ROBOT_METRICS: Final = (
    MetricSpec("deliveries", "loads delivered", True),
    MetricSpec("pickups", "loads fetched", True),
    MetricSpec("distance_m", "way driven in m", None),
    MetricSpec("loaded_distance_m", "way driven with a load in m", None),
    MetricSpec("busy_s", "time with a task in s", None),
    MetricSpec("waiting_s", "time with a task in which it stood although it could drive in s", False),
    MetricSpec("present_s", "time on the floor in s", None),
    MetricSpec("stops", "times that it was driving with a task and began to wait", False),
    MetricSpec("blocked_moves", "steps in which its motion was refused", False),
    MetricSpec("robot_contacts", "contacts with robots", False),
    MetricSpec("rack_contacts", "contacts with racks and walls", False),
    MetricSpec("despawns", "times that it left the floor", False),
)

_MAX_BINS: Final = 4096


class Tally(NamedTuple):
    """Sums of the running episode after its warm-up.

    Attributes:
        deliveries: (E, N) int32.
        pickups: (E, N) int32.
        distance: (E, N) float64, m.
        loaded_distance: (E, N) float64, m.
        busy: (E, N) int32, steps with a task.
        waiting: (E, N) int32, steps with a task in which it waited: stood although it could drive.
        present: (E, N) int32, steps on the floor.
        stops: (E, N) int32.
        refused: (E, N) int32.
        robot_contacts: (E, N) int32.
        rack_contacts: (E, N) int32.
        despawns: (E, N) int32.
        task_steps: (E, N) int32, ages of the delivered tasks since their assignment.
        moved: (E, N) bool, the robot moved, turned or was in a slow cell in the last step.
        flow_steps: (E,) int64, ages of the delivered tasks since their arrival.
        longest_flow: (E,) int32, the largest of them.
        flow_bins: (E, B) int32, number of deliveries by that age in bins of ``MetricClock.bin_steps``.
    """

    deliveries: Int32
    pickups: Int32
    distance: Float64
    loaded_distance: Float64
    busy: Int32
    waiting: Int32
    present: Int32
    stops: Int32
    refused: Int32
    robot_contacts: Int32
    rack_contacts: Int32
    despawns: Int32
    task_steps: Int32
    moved: Bool
    flow_steps: NDArray[np.int64]
    longest_flow: Int32
    flow_bins: Int32


class MetricClock(NamedTuple):
    """Simulated time of a step in s, steps that do not count, and the width of the bins of flow times in steps."""

    step_s: float
    warm_up_steps: int
    bin_steps: int


def make_clock(warm_up_s: float, episode_steps: int, step_s: float) -> MetricClock:
    """Flow times are exact in episodes of up to 4096 steps; beyond, their percentile is rounded up by < 0.1%."""
    return MetricClock(float(step_s), steps_of(warm_up_s, step_s), -(-episode_steps // _MAX_BINS))


def make_tally(num_envs: int, num_robots: int, episode_steps: int) -> Tally:
    """Zeroed sums of every environment."""
    dtypes: dict[str, type[np.generic]] = {"distance": np.float64, "loaded_distance": np.float64, "moved": np.bool_}
    robots = Tally._fields[:-3]
    arrays = {name: np.zeros((num_envs, num_robots), dtypes.get(name, np.int32)) for name in robots}
    return Tally(
        **arrays,
        flow_steps=np.zeros(num_envs, np.int64),
        longest_flow=np.zeros(num_envs, np.int32),
        flow_bins=np.zeros((num_envs, min(episode_steps, _MAX_BINS) + 1), np.int32),
    )


def clear_tally(tally: Tally, envs: Bool) -> None:
    """Start an episode in the environments of ``envs``: (E,) bool."""
    for values in tally:
        values[envs] = 0


@lean_kernel
def add_to_tally(fleet: Fleet, outcome: Outcome, clock: MetricClock, steps: Int32, tally: Tally) -> None:
    """Add the last step to the sums.

    Args:
        fleet: After the step.
        outcome: What happened in it.
        clock: Of :func:`make_clock`.
        steps: (E,) int32, steps since the start of the episode, with this one.
        tally: Advanced.
    """
    num_envs, num_robots = fleet.cell.shape
    for env in range(num_envs):
        counts = steps[env] > clock.warm_up_steps
        for robot in range(num_robots):
            # Without branches on what most robots do: which ones move and carry a load is hard to foresee.
            lived = outcome.lived[env, robot]
            served, moved_m = outcome.served[env, robot], outcome.moved_m[env, robot] if lived else np.float32(0.0)
            busy = lived & ((served == 2) | ((fleet.pickup[env, robot] >= 0) & (fleet.age[env, robot] > 0)))
            pause = outcome.pause[env, robot]
            waits = busy & (moved_m == 0.0) & (pause == 0)
            stopped = waits & tally.moved[env, robot]
            tally.moved[env, robot] = (moved_m > 0.0) | (pause == DRIVES)
            if not (counts & lived):
                continue
            tally.distance[env, robot] += moved_m
            tally.loaded_distance[env, robot] += moved_m * np.float32(number_of(outcome.carried, env, robot))
            tally.present[env, robot] += 1
            tally.busy[env, robot] += busy
            tally.waiting[env, robot] += waits
            tally.stops[env, robot] += stopped
            tally.refused[env, robot] += outcome.refused[env, robot]
            if outcome.robot_contacts[env, robot] or outcome.rack_contacts[env, robot] or outcome.leaving[env, robot]:
                tally.robot_contacts[env, robot] += outcome.robot_contacts[env, robot]
                tally.rack_contacts[env, robot] += outcome.rack_contacts[env, robot]
                tally.despawns[env, robot] += outcome.leaving[env, robot]
            if served == 1:
                tally.pickups[env, robot] += 1
            elif served == 2:
                flow = outcome.flow_steps[env, robot]
                tally.deliveries[env, robot] += 1
                tally.task_steps[env, robot] += outcome.task_steps[env, robot]
                tally.flow_steps[env] += flow
                tally.longest_flow[env] = max(tally.longest_flow[env], flow)
                tally.flow_bins[
                    env, min((flow + clock.bin_steps - 1) // clock.bin_steps, tally.flow_bins.shape[1] - 1)
                ] += 1


def robot_metric_values(tally: Tally, envs: Bool, clock: MetricClock) -> Float64:
    """(E', N, len(ROBOT_METRICS)) float64, the figures of each robot in the environments of ``envs``."""
    columns = {
        "distance_m": tally.distance,
        "loaded_distance_m": tally.loaded_distance,
        "busy_s": tally.busy * clock.step_s,
        "waiting_s": tally.waiting * clock.step_s,
        "present_s": tally.present * clock.step_s,
        "blocked_moves": tally.refused,
    }
    own = tally._asdict()
    return np.stack(
        [np.asarray(columns.get(m.name, own.get(m.name)), np.float64)[envs] for m in ROBOT_METRICS], axis=-1
    )


def metric_values(tally: Tally, fleet: Fleet, pool: TaskPool, steps: Int32, envs: Bool, clock: MetricClock) -> Float64:
    """The metrics of some environments at the end of their episodes.

    Args:
        tally: Sums of :func:`add_to_tally`.
        fleet: At the end.
        pool: At the end.
        steps: (E,) int32, steps of the episode.
        envs: (E,) bool, environments whose episodes ended.
        clock: Of :func:`make_clock`.

    Returns:
        (E', len(METRICS)) float64.
    """
    # (E, N) -> (E',) sums over the robots
    sums = {name: getattr(tally, name)[envs].sum(axis=1, dtype=np.float64) for name in Tally._fields[:-3]}
    counted_h = np.maximum(steps[envs] - clock.warm_up_steps, 1) * clock.step_s / 3600.0
    running = fleet.pickup[envs] >= 0
    num_tasks = sums["deliveries"] + running.sum(axis=1)
    task_steps = sums["task_steps"] + np.where(running, fleet.age[envs], 0).sum(axis=1)
    # A contact of two robots is noted by both.
    robot_contacts = 0.5 * sums["robot_contacts"]
    # Pickers have no tasks and no loads: how busy robots are, and how fair work is shared out, does not concern them.
    carries = fleet.off_duty[envs] & OFF_PICKING == 0
    carriers_m, carriers_present = (
        (values[envs] * carries).sum(axis=1, dtype=np.float64) for values in (tally.distance, tally.present)
    )
    # (E',) of them those that took part: a slot may be empty for a whole episode.
    num_carriers = (carries & (tally.present[envs] > 0)).sum(axis=1)
    values = {
        "deliveries": sums["deliveries"],
        "deliveries_per_h": sums["deliveries"] / counted_h,
        "pickups": sums["pickups"],
        "collisions": robot_contacts + sums["rack_contacts"],
        "robot_collisions_per_h": robot_contacts / counted_h,
        "rack_collisions_per_h": sums["rack_contacts"] / counted_h,
        "blocked_moves": sums["refused"],
        "despawns": sums["despawns"],
        "distance_m": sums["distance"],
        "empty_share": 1.0 - sums["loaded_distance"] / np.maximum(carriers_m, 1e-9),
        "distance_per_delivery_m": sums["distance"] / np.maximum(sums["deliveries"], 1.0),
        "stops": sums["stops"],
        "task_time_s": task_steps * clock.step_s / np.maximum(num_tasks, 1.0),
        "flow_time_mean_s": tally.flow_steps[envs] * clock.step_s / np.maximum(sums["deliveries"], 1.0),
        "flow_time_p95_s": _percentile_steps(tally, envs, clock, 0.95) * clock.step_s,
        "flow_time_max_s": tally.longest_flow[envs] * clock.step_s,
        "max_task_age_s": _oldest_steps(tally, fleet, pool, steps, envs) * clock.step_s,
        "waiting_share": sums["waiting"] / np.maximum(sums["busy"], 1.0),
        "busy_share": sums["busy"] / np.maximum(carriers_present, 1.0),
        "utilisation": sums["busy"] / (np.maximum(steps[envs] - clock.warm_up_steps, 1) * np.maximum(num_carriers, 1)),
        "delivery_gini": _gini(tally.deliveries[envs], num_carriers),
    }
    return np.stack([values[metric.name] for metric in METRICS], axis=1)


def _percentile_steps(tally: Tally, envs: Bool, clock: MetricClock, share: float) -> Float64:
    """Nearest-rank percentile of the flow times in steps: (E',); the upper edge of its bin."""
    totals = np.cumsum(tally.flow_bins[envs], axis=1)
    rank = np.ceil(share * totals[:, -1] - 1e-9)
    steps: Float64 = (totals < rank[:, None]).sum(axis=1, dtype=np.float64) * clock.bin_steps
    return np.minimum(steps, tally.longest_flow[envs])


def _oldest_steps(tally: Tally, fleet: Fleet, pool: TaskPool, steps: Int32, envs: Bool) -> Float64:
    """Longest time from arrival to delivery or to the end of the episode, in steps: (E',)."""
    waits = np.arange(pool.released.shape[1]) < pool.num_waiting[envs][:, None]
    ages = [
        tally.longest_flow[envs][:, None],
        np.where(waits, steps[envs][:, None] - pool.released[envs], 0),
        np.where(fleet.pickup[envs] >= 0, steps[envs][:, None] - fleet.released[envs], 0),
    ]
    oldest: Float64 = np.concatenate(ages, axis=1).max(axis=1).astype(np.float64)
    return oldest


def _gini(counts: Int32, num_robots: NDArray[np.int64]) -> Float64:
    """Gini coefficient of each row of (E', N) counts, among as many robots; 0 where nothing was counted."""
    # Empty slots have counted nothing and are sorted to the front, where they add nothing.
    ordered = np.sort(counts, axis=1).astype(np.float64)
    num = num_robots[:, None]
    ranks = 2.0 * (np.arange(1, counts.shape[1] + 1) - counts.shape[1] + num) - num - 1.0
    gini: Float64 = (ranks * ordered).sum(axis=1) / np.maximum(num_robots * ordered.sum(axis=1), 1.0)
    return gini
