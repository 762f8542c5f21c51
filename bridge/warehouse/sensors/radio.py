"""The robots' radio where a scenario has one: takes messages from actions, lets them arrive, shows and counts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.jit import bind
from bridge.roster import RoleArrays
from bridge.specs import MetricSpec, RoleSpec, WorldSpec
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.config_communication import BurstConfig, MessagesBlock
from bridge.warehouse.durations import steps_of
from bridge.warehouse.fleet import Fleet, Outcome, Pose
from bridge.warehouse.floor import Floor
from bridge.warehouse.metrics import make_clock
from bridge.warehouse.random_streams import Purpose
from bridge.warehouse.sensors.buckets import make_buckets, sort_robots
from bridge.warehouse.sensors.messages import (
    Channel,
    Inbox,
    MessageKeys,
    exchange,
    make_inbox,
    observe_messages,
    take_symbols,
    take_values,
)

__all__ = ["MESSAGE_METRICS", "Radio"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]
Int32 = NDArray[np.int32]

MESSAGE_METRICS: Final = (
    MetricSpec("messages_sent", "messages sent by all robots", None),
    MetricSpec("messages_offered", "messages that were due at a robot in range; one per message and receiver", None),
    MetricSpec("messages_arrived", "messages of these that arrived", None),
    MetricSpec("message_loss_share", "share of these that were lost; 0 if there were none", False),
    MetricSpec("message_age_s", "mean age of the messages that robots saw in s", False),
    MetricSpec(
        "handover_loss_share",
        "message_loss_share at robots in communication.handover_window_s before their pick-ups and deliveries",
        False,
    ),
)


class Radio:
    """Messages of all environments.

    Args:
        config: The warehouse; its ``communication`` is not None.
        spec: Of ``warehouse_spec``.
        floor: The floor plan.
        num_envs: Number of environments E.
        step_s: Simulated time of a step.
    """

    def __init__(self, config: WarehouseConfig, spec: WorldSpec, floor: Floor, num_envs: int, step_s: float) -> None:
        section = config.communication
        assert section is not None, "a radio is made for a scenario with communication only"
        burst = BurstConfig(enter=0.0) if section.burst is None else section.burst
        clock = make_clock(config.metrics.warm_up_s, config.episode_steps, step_s)
        self._channel = Channel(
            range_m=float(section.range_m),
            line_of_sight=section.line_of_sight,
            period=section.period_steps,
            latency=section.latency_steps,
            jitter=section.latency_jitter_steps,
            loss=float(section.loss),
            burst_enter=float(burst.enter),
            burst_leave=float(burst.leave),
            burst_loss=float(burst.loss),
            hold=section.hold_steps,
            warm_up_steps=clock.warm_up_steps,
        )
        shown = next(block.count for block in config.observation if isinstance(block, MessagesBlock))
        # No more than an episode has: nothing was said before it.
        window = min(max(steps_of(section.handover_window_s, step_s), 1), config.episode_steps)
        self._inbox = make_inbox(num_envs, config.num_robots, section.size, section.hold_steps, shown, window)
        width_m, height_m = floor.width * floor.cell_size_m, floor.height * floor.cell_size_m
        self._buckets = make_buckets(num_envs, config.num_robots, self._channel.range_m, width_m, height_m)
        self._all = np.ones(num_envs, np.bool_)
        self._floor, self._step_s = floor, step_s
        self._is_discrete = section.kind == "discrete"
        self._at = spec.roles[0].observation.slice_of("messages").start
        action = spec.roles[0].action
        self._action_at = action.num_branches - 1 if self._is_discrete else action.num_continuous - section.size

    @property
    def inbox(self) -> Inbox:
        """What was said and heard."""
        return self._inbox

    def take(self, role: RoleSpec, values: RoleArrays, first: int, steps: Int32) -> str | None:
        """Note what the robots of one role say in this step.

        Args:
            role: The role.
            values: Its arrays.
            first: Slot of its first robot on the robot axis.
            steps: (E,) int32, number of the step in its episode, from 0.

        Returns:
            What is wrong with the first message that is out of range, for an error; None if nothing is.
        """
        inbox, period, at = self._inbox, self._channel.period, self._action_at
        arrays = (inbox.values, inbox.spoke)
        if self._is_discrete:
            wrong = take_symbols(values.discrete_actions, values.decision_mask, at, first, period, steps, *arrays)
        else:
            wrong = take_values(values.continuous_actions, values.decision_mask, at, first, period, steps, *arrays)
        if wrong < 0:
            return None
        env, slot = divmod(wrong, role.num_slots)
        size = inbox.values.shape[3]
        where = f"message of agent {role.agent_ids[slot]!r} in environment number {env} of the roster"
        if self._is_discrete:
            return f"{where}: expected a symbol in [0, {size - 1}], got {values.discrete_actions[env, slot, at]}."
        got = values.continuous_actions[env, slot, at : at + size].tolist()
        return f"{where}: expected {size} values in [-1, 1], got {got}. Clip or squash the policy's output."

    def bind_exchange(
        self, fleet: Fleet, pose: Pose, outcome: Outcome, keys: NDArray[np.uint64], steps: Int32
    ) -> list[Callable[[], None]]:
        """Calls that let messages arrive after the motion of a step.

        Args:
            fleet: Who is on the floor.
            pose: Where they are.
            outcome: What happened in the step.
            keys: (purpose, E) uint64, all streams.
            steps: (E,) int32, steps since the start of the episode, with this one.
        """
        streams = MessageKeys(keys[Purpose.MESSAGE_LOSS], keys[Purpose.MESSAGE_LATENCY], keys[Purpose.MESSAGE_BURST])
        state = (self._floor, fleet, pose, outcome)
        return [
            bind(sort_robots, pose, fleet.alive, self._all, self._buckets),
            bind(exchange, *state, self._buckets, self._channel, streams, steps, self._inbox),
        ]

    def observe(self, alive: Bool, steps: Int32, first: int, envs: Bool, observations: Float32) -> None:
        """Write the block ``messages`` of one role; arguments as in ``messages.observe_messages``."""
        observe_messages(self._inbox, alive, self._channel.hold, steps, self._at, first, envs, observations)

    def bind_observe(
        self, alive: Bool, steps: Int32, first: int, envs: Bool, observations: Float32
    ) -> Callable[[], None]:
        """:meth:`observe` with these very arrays."""
        hold, at = self._channel.hold, self._at
        return bind(observe_messages, self._inbox, alive, hold, steps, at, first, envs, observations)

    def clear(self, envs: Bool) -> None:
        """Start an episode in the environments of ``envs``: (E,) bool."""
        inbox = self._inbox
        for values in (inbox.spoke, inbox.in_burst, inbox.sums, inbox.offered, inbox.arrived):
            values[envs] = 0
        inbox.offered_then[envs] = 0
        inbox.arrived_then[envs] = 0
        inbox.newest[envs] = -1
        inbox.nearest[envs] = -1

    def metric_values(self, envs: Bool) -> Iterator[NDArray[np.float64]]:
        """(E', len(MESSAGE_METRICS)) float64, of the episodes that end in ``envs``."""
        sent, offered, arrived, near_offered, near_arrived, ages, shown = self._inbox.sums[envs].T
        yield np.stack(
            [
                sent,
                offered,
                arrived,
                (offered - arrived) / np.maximum(offered, 1.0),
                ages * self._step_s / np.maximum(shown, 1.0),
                (near_offered - near_arrived) / np.maximum(near_offered, 1.0),
            ],
            axis=1,
        )
