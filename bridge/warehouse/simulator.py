"""The batch simulator: E warehouses stepped together by compiled kernels on arrays."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ActionError, CallOrderError
from bridge.roster import RoleArrays, RosterArrays
from bridge.specs import RoleSpec, WorldSpec
from bridge.warehouse.actions import hold_robots, take_continuous, take_moves
from bridge.warehouse.battery import drain_batteries
from bridge.warehouse.config import DifferentialDriveConfig, HeadingGridConfig, WarehouseConfig
from bridge.warehouse.feature import Parts
from bridge.warehouse.features import holds_robots, make_features
from bridge.warehouse.fleet import make_fleet, make_outcome, make_pool, make_pose, make_traits
from bridge.warehouse.floor import make_floor
from bridge.warehouse.jam_watch import JamWatch
from bridge.warehouse.jams import Jams
from bridge.warehouse.layout import Layout
from bridge.warehouse.messages import Inbox
from bridge.warehouse.metrics import (
    add_to_tally,
    clear_tally,
    make_clock,
    make_tally,
    metric_values,
    robot_metric_values,
)
from bridge.warehouse.motion_differential import drive_differential, make_cell_lists, make_limits
from bridge.warehouse.motion_grid import make_grid_scratch, move_on_grid
from bridge.warehouse.motion_heading import face_at_random, mask_blocked_forward, note_speeds, turn_robots
from bridge.warehouse.observation import mask_blocked_moves
from bridge.warehouse.radio import Radio
from bridge.warehouse.random_streams import Purpose, stream_keys
from bridge.warehouse.reward import make_terms, pay_rewards, start_potentials
from bridge.warehouse.robots_view import RobotsView
from bridge.warehouse.sensing import Sensing
from bridge.warehouse.spawn import bring_back, place_fleet
from bridge.warehouse.spec import seconds_per_step, warehouse_spec
from bridge.warehouse.tasks import clear_tasks, dispatch, make_stream, serve
from bridge.warehouse.transports import pool_size

__all__ = ["WarehouseSimulator"]

Bool = NDArray[np.bool_]
Int32 = NDArray[np.int32]

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
        self._config, self._layout = config, layout
        self._spec = warehouse_spec(config, layout)
        self._arrays = RosterArrays.allocate(self._spec, num_envs) if arrays is None else arrays
        self._step_s = seconds_per_step(config.drive)
        self._return_steps = _return_steps(config, self._step_s) if respawn else -1

        num_robots = config.num_robots
        self._floor = make_floor(layout)
        anywhere = config.randomisation is not None and config.randomisation.start == "anywhere"
        self._start_floor = self._floor._replace(num_parking=0) if anywhere else self._floor
        self._traits = make_traits(config, self._step_s)
        self._stream = make_stream(config.tasks, self._step_s, layout)
        self._terms = make_terms(config.reward)
        drive = config.drive
        self._faces = isinstance(drive, HeadingGridConfig)
        self._limits = make_limits(drive) if isinstance(drive, DifferentialDriveConfig) else None
        self._station_radius_m = float(drive.station_radius_m) if isinstance(drive, DifferentialDriveConfig) else -1.0

        self._fleet = make_fleet(num_envs, num_robots)
        self._pose = make_pose(num_envs, num_robots)
        self._outcome = make_outcome(num_envs, num_robots)
        self._pool = make_pool(num_envs, pool_size(config.tasks), num_robots, len(self._floor.goal_cell))
        self._tally = make_tally(num_envs, num_robots, config.episode_steps)
        self._clock = make_clock(config.metrics.warm_up_s, config.episode_steps, self._step_s)
        self._robot_metrics = robot_metric_values(self._tally, np.ones(num_envs, np.bool_), self._clock)
        self._watch = JamWatch(config, layout, num_envs, self._step_s)
        self._radio: Radio | None = None
        if config.communication is not None:
            self._radio = Radio(config, self._spec, self._floor, num_envs, self._step_s)
        # The first branch; what follows in an action mask is no move.
        self._num_moves = 0 if self._limits is not None else self._spec.roles[0].action.discrete_branches[0]
        self._grid_scratch = make_grid_scratch(layout.blocked.size, num_robots)
        self._cell_lists = make_cell_lists(layout.blocked.size, num_robots)
        self._places = np.zeros_like(self._floor.start_cells)
        self._steps = np.zeros(num_envs, np.int32)
        self._moves = np.zeros((num_envs, num_robots), np.int32)
        self._commands = np.zeros((num_envs, num_robots, 2), np.float32)
        self._rewards = np.zeros((num_envs, num_robots), np.float32)

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
            moves=self._moves,
            commands=self._commands,
            step_s=self._step_s,
            radius_m=self._station_radius_m,
        )
        super().__init__(parts)
        self._features = make_features(parts)
        self._holds = holds_robots(config)
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
        self._closed = False

        self._roles = tuple(
            (role, self._arrays.roles[role.name], self.role_slices[role.name]) for role in self._spec.roles
        )

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
        self._begin_episodes(envs)
        self._arrays.episode_over[envs] = False
        for _, values, _ in self._roles:
            values.rewards[envs] = 0.0
            values.terminated[envs] = False
            values.truncated[envs] = False
        self._publish(envs)

    def step(self) -> None:
        """Take the actions from the arrays, advance every environment by one step, and fill the arrays.

        Raises:
            ActionError: An action of a robot that was asked is out of range or masked; names the agent.
            CallOrderError: Before the first reset, or after close.
        """
        self._require_open("step")
        if not self._started.all():
            raise CallOrderError("WarehouseSimulator.step: expected a reset first, got none. Call reset(seed=...).")
        self._take_actions()
        for feature in self._features:
            feature.before_motion()
        if self._holds:
            hold_robots(self._fleet.held, self._moves, self._commands)
        if self._faces:
            turn_robots(self._fleet, self._pose, self._moves, self._step_s)
        self._advance()
        over = self._find_ended()
        self._report_ended_lives(over)
        if over.any():
            self._report_ended_episodes(over)
            self._arrays.episode[over] += 1
            self._begin_episodes(over)
        self._publish(self._all)

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
    def robot_metrics(self) -> NDArray[np.float64]:
        """(E, N, len(ROBOT_METRICS)) float64, figures of each robot in the episode that ended last; a copy."""
        return self._robot_metrics.copy()

    # ---------------------------------------------------------------- one step

    def _require_open(self, method: str) -> None:
        if self._closed:
            raise CallOrderError(f"WarehouseSimulator.{method}: expected an open simulator, got a closed one.")

    def _take_actions(self) -> None:
        for role, values, slots in self._roles:
            asked = values.decision_mask
            if self._limits is None:
                mask = values.action_mask[..., : self._num_moves]
                wrong = take_moves(values.discrete_actions, asked, mask, slots.start, self._moves)
            else:
                wrong = take_continuous(values.continuous_actions[..., :2], asked, slots.start, self._commands)
            if wrong >= 0:
                raise ActionError(self._describe_wrong_action(role, values, *divmod(wrong, role.num_slots)))
            if self._radio is not None:
                fault = self._radio.take(role, values, slots.start, self._steps)
                if fault is not None:
                    raise ActionError(f"WarehouseSimulator.step: {fault}")

    def _describe_wrong_action(self, role: RoleSpec, values: RoleArrays, env: int, slot: int) -> str:
        where = f"WarehouseSimulator.step: action of agent {role.agent_ids[slot]!r} in environment {self._envs[env]}"
        if self._limits is not None:
            return f"{where}: expected 2 values in [-1, 1], got {values.continuous_actions[env, slot, :2].tolist()}."
        allowed = np.flatnonzero(values.action_mask[env, slot, : self._num_moves]).tolist()
        move = int(values.discrete_actions[env, slot, 0])
        return f"{where}: expected one of the allowed moves {allowed}, got {move}. Choose by the action mask."

    def _advance(self) -> None:
        floor, fleet, pose, outcome, keys = self._floor, self._fleet, self._pose, self._outcome, self._keys
        despawn = self._config.contact.rule == "despawn"
        outcome.lived[:] = fleet.alive
        way = keys[Purpose.RIGHT_OF_WAY]
        if self._limits is None:
            scratch = self._grid_scratch
            move_on_grid(floor, fleet, pose, outcome, scratch, self._moves, way, self._steps, despawn, self._step_s)
        else:
            lists, limits, radius = self._cell_lists, self._limits, self._traits.radius_m
            commands, steps = self._commands, self._steps
            drive_differential(floor, fleet, pose, outcome, lists, limits, radius, commands, way, steps, despawn)
        if self._faces:
            note_speeds(outcome, pose, self._step_s)
        drain_batteries(fleet, outcome, self._traits)
        for feature in self._features:
            feature.before_service()
        serve(floor, fleet, pose, self._pool, outcome, self._steps, self._station_radius_m)
        if despawn:
            bring_back(
                floor,
                fleet,
                pose,
                outcome,
                self._traits,
                keys[Purpose.RESPAWN],
                self._steps,
                self._return_steps,
                self._config.episode_steps - 1,
                self._limits is not None,
            )
        for feature in self._features:
            feature.after_service()
        self._steps += 1
        if self._features and self._clock.warm_up_steps:
            for feature in self._features:
                feature.clear_figures(self._steps == self._clock.warm_up_steps)
        self._dispatch(self._all)
        self._watch.look(floor, fleet, pose, outcome, keys[Purpose.RELOCATION], self._steps)
        if self._radio is not None:
            self._radio.exchange(fleet, pose, outcome, keys, self._steps)
        pay_rewards(floor, fleet, pose, outcome, self._terms, self._rewards)
        add_to_tally(fleet, outcome, self._clock, self._steps, self._tally)

    def _dispatch(self, envs: Bool) -> None:
        task, arrival = self._keys[Purpose.TASK], self._keys[Purpose.ARRIVAL]
        dispatch(self._floor, self._fleet, self._pose, self._pool, self._stream, task, arrival, self._steps, envs)

    def _find_ended(self) -> Bool:
        """(E,) bool: the time is up, or the floor is empty for good."""
        over: Bool = self._steps >= self._config.episode_steps
        if self._config.contact.rule == "despawn":
            over |= ~(self._fleet.alive | (self._fleet.returns_in >= 0)).any(axis=1)
        self._arrays.episode_over[:] = over
        return over

    def _report_ended_lives(self, over: Bool) -> None:
        """Rewards and flags of the lives that ran; final observations of those that ended."""
        ended_early = self._outcome.leaving.any()
        for _, values, slots in self._roles:
            values.rewards[:] = self._rewards[:, slots]
            values.terminated[:] = self._outcome.leaving[:, slots]
            np.logical_and(over[:, None], self._fleet.alive[:, slots], out=values.truncated)
        if over.any():
            self._sensing.sort_robots(over)
            for _, values, slots in self._roles:
                self._observe(slots.start, over, values.final_observations)
        if ended_early:
            for _, values, _ in self._roles:
                values.final_observations[values.terminated] = values.observations[values.terminated]

    def _report_ended_episodes(self, over: Bool) -> None:
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
            self._limits is not None,
            self._places,
            envs,
        )
        if self._faces:
            face_at_random(self._pose, self._keys[Purpose.FACING], envs)
        for feature in self._features:
            feature.begin(envs)
        self._dispatch(envs)
        start_potentials(self._floor, self._fleet, self._pose, self._terms, envs)

    def _observe(self, first: int, envs: Bool, observations: NDArray[np.float32]) -> None:
        """Write what the robots of one role see; see ``Sensing.observe``."""
        if self._radio is not None:
            self._radio.observe(self._fleet.alive, self._steps, first, envs, observations)
        self._sensing.observe(first, envs, observations)

    def _publish(self, envs: Bool) -> None:
        """Write what robots see and which of them live."""
        self._sensing.sort_robots(envs)
        for _, values, slots in self._roles:
            self._observe(slots.start, envs, values.observations)
            values.agent_mask[:] = self._fleet.alive[:, slots]
            values.decision_mask[:] = values.agent_mask
            if self._config.mask_blocked_moves:
                values.action_mask[..., self._num_moves :] = True
                mask = values.action_mask[..., : self._num_moves]
                if self._faces:
                    mask_blocked_forward(self._floor, self._fleet, self._pose, slots.start, mask)
                else:
                    mask_blocked_moves(self._floor, self._fleet, slots.start, mask)
            else:
                values.action_mask[:] = True
        self._sensing.write_state(self._steps, envs, self._arrays.state)


def _return_steps(config: WarehouseConfig, step_s: float) -> int:
    after_s = config.contact.respawn_after_s
    return -1 if after_s is None else math.ceil(after_s / step_s - 1e-9)
