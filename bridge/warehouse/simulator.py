"""The batch simulator: E warehouses stepped together by compiled kernels on arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from bridge.call_chain import chain
from bridge.errors import ActionError, CallOrderError
from bridge.jit import bind
from bridge.roster import RoleArrays, RosterArrays
from bridge.specs import WorldSpec
from bridge.warehouse.config import DifferentialDriveConfig, WarehouseConfig
from bridge.warehouse.drives.drive_limits import seconds_per_step
from bridge.warehouse.drives.motion import Motion
from bridge.warehouse.drives.speed_zones import route_costs
from bridge.warehouse.durations import steps_of
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.features import has_pauses, holds_robots, make_features
from bridge.warehouse.fleet import make_fleet, make_outcome, make_pool, make_pose, make_traits
from bridge.warehouse.floor import make_floor
from bridge.warehouse.jam_watch import JamWatch
from bridge.warehouse.jams import Jams
from bridge.warehouse.layout import Layout
from bridge.warehouse.lives import count_step, end_episodes, note_lives, report_lives, show_lives
from bridge.warehouse.metrics import (
    ROBOT_METRICS,
    add_to_tally,
    clear_tally,
    make_clock,
    make_tally,
    metric_values,
    robot_metric_values,
)
from bridge.warehouse.pauses import note_pauses
from bridge.warehouse.random_streams import Purpose, stream_keys
from bridge.warehouse.reward import make_terms, pay_rewards, start_potentials
from bridge.warehouse.robots_view import RobotsView
from bridge.warehouse.sensors.messages import Inbox
from bridge.warehouse.sensors.radio import Radio
from bridge.warehouse.sensors.sensing import Sensing
from bridge.warehouse.spawn import bring_back, place_fleet
from bridge.warehouse.spec import warehouse_spec
from bridge.warehouse.work.battery import bind_drain
from bridge.warehouse.work.loads import make_loads
from bridge.warehouse.work.tasks import clear_tasks, dispatch, make_stream, serve
from bridge.warehouse.work.transports import pool_size

__all__ = ["WarehouseSimulator"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]
Call = Callable[[], object]

_SEED_BITS: Final = (1 << 64) - 1


class WarehouseSimulator(RobotsView):
    """E environments of one warehouse; a :class:`bridge.roster.Roster` and a ``view.WarehouseView``.

    Every decision step of an environment goes: actions, motion and contacts, batteries, robots
    served at stations, robots coming back, new tasks and dispatch, rewards, end of the episode and
    reset, observations. A robot that leaves the floor (contact rule ``despawn``) sees nothing new:
    its final observation is the one that it acted on.

    Results depend on the seed, the index of the environment and the number of the episode alone,
    not on how environments are spread over simulators.

    Args:
        config: The warehouse.
        layout: Its floor plan, accepted by ``validation.check_warehouse``.
        num_envs: Number of environments E.
        first_env: Index of the first one among all environments of the run.
        arrays: Where to write, as in ``bridge.roster.array_shapes``; allocated if None.
        respawn: False keeps robots that left off the floor until the next episode, whatever the
            contact rule says; PettingZoo's own rules demand that.

    Attributes:
        on_episode_end: Called with the environments whose episodes end in a step, (E,) bool, while
            everything still is as it was at their end; for who wants to draw it. None by default.
    """

    def __init__(
        self,
        config: WarehouseConfig,
        layout: Layout,
        num_envs: int,
        *,
        first_env: int = 0,
        arrays: RosterArrays | None = None,
        respawn: bool = True,
    ) -> None:
        self.on_episode_end: Callable[[Bool], None] | None = None
        self._config, self._layout = config, layout
        self._spec = warehouse_spec(config, layout)
        self._arrays = RosterArrays.allocate(self._spec, num_envs) if arrays is None else arrays
        self._step_s = seconds_per_step(config.drive)
        self._return_steps = _return_steps(config, self._step_s) if respawn else -1

        num_robots = config.num_robots
        self._floor = make_floor(layout, route_costs(config.drive, layout))
        anywhere = config.randomisation is not None and config.randomisation.start == "anywhere"
        self._start_floor = self._floor._replace(num_parking=0) if anywhere else self._floor
        self._traits = make_traits(config, self._step_s)
        self._stream = make_stream(config.tasks, self._step_s, layout, make_loads(config))
        self._terms = make_terms(config.reward)
        drive = config.drive
        self._station_radius_m = float(drive.station_radius_m) if isinstance(drive, DifferentialDriveConfig) else -1.0
        self._despawn = config.contact.rule == "despawn"

        self._fleet = make_fleet(num_envs, num_robots)
        self._pose = make_pose(num_envs, num_robots)
        self._outcome = make_outcome(num_envs, num_robots)
        self._pool = make_pool(num_envs, pool_size(config.tasks), num_robots, len(self._floor.goal_cell))
        self._tally = make_tally(num_envs, num_robots, config.episode_steps)
        self._clock = make_clock(config.metrics.warm_up_s, config.episode_steps, self._step_s)
        self._robot_metrics = robot_metric_values(self._tally, np.ones(num_envs, np.bool_), self._clock)
        self._radio: Radio | None = None
        if config.communication is not None:
            self._radio = Radio(config, self._spec, self._floor, num_envs, self._step_s)
        self._places = np.zeros_like(self._floor.start_cells)
        self._steps = np.zeros(num_envs, np.int32)
        self._rewards = np.zeros((num_envs, num_robots), np.float32)
        # Episodes, and lives ended by the task, that end in a step.
        self._ended = np.zeros(2, np.int64)

        self._envs = np.arange(first_env, first_env + num_envs, dtype=np.int64)
        self._seeds = np.zeros(num_envs, np.uint64)
        # (purpose, E): the keys of one purpose are contiguous.
        self._keys = np.zeros((len(Purpose), num_envs), np.uint64)
        self._all = np.ones(num_envs, np.bool_)
        parts = Parts(
            config=config,
            layout=layout,
            spec=self._spec,
            floor=self._floor,
            traits=self._traits,
            fleet=self._fleet,
            pose=self._pose,
            outcome=self._outcome,
            pool=self._pool,
            keys=self._keys,
            steps=self._steps,
            moves=np.zeros((num_envs, num_robots), np.int32),
            commands=np.zeros((num_envs, num_robots, 2), np.float32),
            step_s=self._step_s,
            radius_m=self._station_radius_m,
        )
        super().__init__(parts)
        self._watch = JamWatch(parts)
        self._features = make_features(parts)
        self._sensing = Sensing(
            config,
            layout,
            self._spec,
            self._floor,
            self._fleet,
            self._pose,
            self._outcome,
            self._traits,
            self._features,
        )
        self._started = np.zeros(num_envs, np.bool_)
        self._all_started = False
        self._closed = False

        self._roles = tuple(
            (role, self._arrays.roles[role.name], self.role_slices[role.name]) for role in self._spec.roles
        )
        self._motion = Motion(parts, self._roles, first_env, holds_robots(config, layout))
        self._cycle = self._make_cycle()
        self._views = self._make_views()
        for _, values, _ in self._roles:
            values.action_mask[:] = True

    # ---------------------------------------------------------------- what a step is made of

    def _make_cycle(self) -> list[Call]:
        """What happens in a step until the robots look around, in order; the arguments are the same at every step."""
        floor, fleet, pose, outcome, steps = self._floor, self._fleet, self._pose, self._outcome, self._steps
        cycle: list[Call] = [
            *self._motion.takes,
            *([self._take_messages] if self._radio is not None else []),
            *self._hooks("before_motion"),
            bind(note_lives, fleet, outcome),
            *self._motion.calls,
            *([bind(note_pauses, fleet, pose, outcome)] if has_pauses(self._config, self._layout) else []),
            bind_drain(fleet, outcome, self._traits, self._stream.loads, self._keys[Purpose.TASK]),
            *self._hooks("before_service"),
            bind(serve, floor, fleet, pose, self._pool, outcome, steps, self._station_radius_m),
            *([self._bind_bring_back()] if self._despawn else []),
            *self._hooks("after_service"),
            bind(count_step, steps),
        ]
        if self._clock.warm_up_steps:
            cycle += [partial(self._end_warm_up, clear) for clear in self._hooks("clear_figures")]
        cycle.append(bind(dispatch, *self._dispatch_arguments(self._all)))
        if self._watch.jams is not None:
            cycle += self._watch.calls
        if self._radio is not None:
            cycle += self._radio.bind_exchange(fleet, pose, outcome, self._keys, steps)
        cycle.append(bind(pay_rewards, floor, fleet, pose, outcome, self._terms, self._rewards))
        cycle.append(bind(add_to_tally, fleet, outcome, self._clock, steps, self._tally))
        over, ended = self._arrays.episode_over, self._ended
        cycle.append(bind(end_episodes, fleet, steps, self._config.episode_steps, self._despawn, over, ended))
        for _, values, slots in self._roles:
            ends = (values.rewards, values.terminated, values.truncated)
            lives = (fleet.alive, outcome.leaving, self._rewards, over, slots.start)
            cycle.append(bind(report_lives, *lives, *ends, ended))
        return chain(cycle)

    def _make_views(self) -> list[Call]:
        """What the robots of all environments see, and which of them live."""
        envs, sensing = self._all, self._sensing
        views: list[Call] = [*sensing.bind_prepare(envs)]
        for _, values, slots in self._roles:
            if self._radio is not None:
                seen = (self._fleet.alive, self._steps, slots.start, envs, values.observations)
                views.append(self._radio.bind_observe(*seen))
            views += sensing.bind_observe(slots.start, envs, values.observations)
            views.append(self._bind_show(values, slots.start))
        return chain([*views, *self._motion.masks, sensing.bind_write_state(self._steps, envs, self._arrays.state)])

    def _hooks(self, name: str) -> list[Callable[..., None]]:
        """The methods of the features that do something at this point."""
        return [getattr(part, name) for part in self._features if getattr(type(part), name) != getattr(Feature, name)]

    def _dispatch_arguments(self, envs: Bool) -> tuple[Any, ...]:
        task, arrival = self._keys[Purpose.TASK], self._keys[Purpose.ARRIVAL]
        return self._floor, self._fleet, self._pose, self._pool, self._stream, task, arrival, self._steps, envs

    def _bind_show(self, values: RoleArrays, first: int) -> Call:
        return bind(show_lives, self._fleet.alive, first, values.agent_mask, values.decision_mask)

    def _bind_bring_back(self) -> Call:
        state = (self._floor, self._fleet, self._pose, self._outcome, self._traits)
        keys, last_step = self._keys[Purpose.RESPAWN], self._config.episode_steps - 1
        return bind(bring_back, *state, keys, self._steps, self._return_steps, last_step, self._motion.turning)

    def _end_warm_up(self, clear_figures: Callable[[Bool], None]) -> None:
        clear_figures(self._steps == self._clock.warm_up_steps)

    # ---------------------------------------------------------------- roster

    @property
    def spec(self) -> WorldSpec:
        """What the world looks like."""
        return self._spec

    @property
    def arrays(self) -> RosterArrays:
        """The arrays that :meth:`reset` and :meth:`step` fill; always the same objects."""
        return self._arrays

    def reset(self, seed: int | None = None, env_mask: Bool | None = None) -> None:
        """Start an episode in every environment, or in those of ``env_mask``: (E,) bool.

        Raises:
            CallOrderError: There was no seeded reset before an unseeded one, or the simulator is closed.
        """
        self._require_open("reset")
        envs = self._all if env_mask is None else np.ascontiguousarray(env_mask, np.bool_)
        if seed is None and not self._started[envs].all():
            raise CallOrderError(
                "WarehouseSimulator.reset: expected a seed at the first reset, got none. Call reset(seed=...)."
            )
        if seed is None:
            self._arrays.episode[envs] += 1
        else:
            self._seeds[envs] = seed & _SEED_BITS
            self._arrays.episode[envs] = 0
        self._started[envs] = True
        self._all_started = bool(self._started.all())
        self._begin_episodes(envs)
        self._arrays.episode_over[envs] = False
        for _, values, _ in self._roles:
            values.rewards[envs] = 0.0
            values.terminated[envs] = False
            values.truncated[envs] = False
        self._show_some(envs)

    def step(self) -> None:
        """Take the actions from the arrays, advance every environment by one step, and fill the arrays.

        Raises:
            ActionError: An action of a robot that was asked is out of range or masked; names the agent.
            CallOrderError: Before the first reset, or after close.
        """
        self._require_open("step")
        if not self._all_started:
            raise CallOrderError("WarehouseSimulator.step: expected a reset first, got none. Call reset(seed=...).")
        for call in self._cycle:
            if call():
                raise self._motion.wrong_action()
        num_over, num_terminated = self._ended.tolist()
        if num_over or num_terminated:
            self._keep_final_observations(num_terminated > 0, num_over > 0)
        if num_over:
            over = self._arrays.episode_over
            self._report_episodes(over)
            if self.on_episode_end is not None:
                self.on_episode_end(over)
            self._arrays.episode[over] += 1
            self._begin_episodes(over)
        for call in self._views:
            call()

    def close(self) -> None:
        """Refuse further calls; may be called twice."""
        self._closed = True

    # ---------------------------------------------------------------- view

    @property
    def jams(self) -> Jams | None:
        """Who is stuck after the last step; None where the scenario does not look."""
        return self._watch.jams

    @property
    def inbox(self) -> Inbox | None:
        """Messages that robots sent and have; None where the scenario has no communication."""
        return None if self._radio is None else self._radio.inbox

    @property
    def robot_metric_names(self) -> tuple[str, ...]:
        """Names of the figures of each robot."""
        return tuple(metric.name for metric in ROBOT_METRICS)

    @property
    def robot_metrics(self) -> NDArray[np.float64]:
        """(E, N, len(ROBOT_METRICS)) float64, figures of each robot in the episode that ended last; a copy."""
        return self._robot_metrics.copy()

    # ---------------------------------------------------------------- one step

    def _require_open(self, method: str) -> None:
        if self._closed:
            raise CallOrderError(f"WarehouseSimulator.{method}: expected an open simulator, got a closed one.")

    def _take_messages(self) -> None:
        assert self._radio is not None, "called with a radio only"
        for role, values, slots in self._roles:
            fault = self._radio.take(role, values, slots.start, self._steps)
            if fault is not None:
                raise ActionError(f"WarehouseSimulator.step: {fault}")

    def _keep_final_observations(self, any_terminated: bool, any_over: bool) -> None:
        """Final observations of the lives that ended."""
        if any_over:
            over = self._arrays.episode_over
            self._sensing.prepare(over)
            for _, values, slots in self._roles:
                self._observe(slots.start, over, values.final_observations)
        if any_terminated:
            for _, values, _ in self._roles:
                values.final_observations[values.terminated] = values.observations[values.terminated]

    def _report_episodes(self, over: Bool) -> None:
        self._sensing.write_state(self._steps, over, self._arrays.final_state)
        values = metric_values(self._tally, self._fleet, self._pool, self._steps, over, self._clock)
        further = [*self._watch.metric_values(over), *(self._radio.metric_values(over) if self._radio else ())]
        further += [feature.figures(over) for feature in self._features]
        self._arrays.metrics[over] = np.concatenate([values, *further], axis=1)
        self._robot_metrics[over] = robot_metric_values(self._tally, over, self._clock)

    def _begin_episodes(self, envs: Bool) -> None:
        """Put the environments of ``envs`` at the start of the episode that the arrays number."""
        keys = stream_keys(self._seeds[envs], self._envs[envs], self._arrays.episode[envs])
        # (envs, purpose) -> (purpose, envs)
        self._keys[:, envs] = keys.T
        self._steps[envs] = 0
        clear_tally(self._tally, envs)
        self._watch.clear(envs)
        if self._radio is not None:
            self._radio.clear(envs)
        self._outcome.refused[envs] = False
        clear_tasks(self._fleet, self._pool, envs)
        place_fleet(
            self._start_floor,
            self._fleet,
            self._pose,
            self._traits,
            self._keys[Purpose.START_CELL],
            self._keys[Purpose.START_CHARGE],
            self._keys[Purpose.START_HEADING],
            self._motion.turning,
            self._places,
            envs,
        )
        self._motion.begin(envs)
        for feature in self._features:
            feature.begin(envs)
        dispatch(*self._dispatch_arguments(envs))
        start_potentials(self._floor, self._fleet, self._pose, self._terms, envs)

    def _observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """Write what the robots of one role see; see ``Sensing.observe``."""
        if self._radio is not None:
            self._radio.observe(self._fleet.alive, self._steps, first, envs, observations)
        self._sensing.observe(first, envs, observations)

    def _show_some(self, envs: Bool) -> None:
        """The views of a step for the environments of ``envs``: (E,) bool."""
        self._sensing.prepare(envs)
        for _, values, slots in self._roles:
            self._observe(slots.start, envs, values.observations)
            show_lives(self._fleet.alive, slots.start, values.agent_mask, values.decision_mask)
        for mask in self._motion.masks:
            mask()
        self._sensing.write_state(self._steps, envs, self._arrays.state)


def _return_steps(config: WarehouseConfig, step_s: float) -> int:
    after_s = config.contact.respawn_after_s
    return -1 if after_s is None else steps_of(after_s, step_s)
