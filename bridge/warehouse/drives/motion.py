"""How robots of a scenario move: takes actions, and calls the kernels of its drive.

From cell to cell (``motion_grid``), from cell to cell with a heading
(``motion_heading``), or with forward speed and turn rate
(``motion_differential``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from bridge.errors import ActionError
from bridge.jit import bind
from bridge.roster import RoleArrays
from bridge.specs import RoleSpec
from bridge.warehouse.config import DifferentialDriveConfig, HeadingGridConfig
from bridge.warehouse.drives.actions import hold_robots, take_continuous, take_moves
from bridge.warehouse.drives.motion_differential import drive_differential, make_drive_scratch
from bridge.warehouse.drives.motion_grid import make_grid_scratch, mask_blocked_moves, move_on_grid
from bridge.warehouse.drives.motion_heading import face_at_random, mask_blocked_forward, note_speeds, turn_robots
from bridge.warehouse.feature import Parts
from bridge.warehouse.random_streams import Purpose

__all__ = ["Motion"]

Bool = NDArray[np.bool_]


class Motion:
    """Moves the robots of all environments.

    Attributes:
        turning: Robots drive with forward speed and turn rate.
        takes: Take the actions of each role from the arrays; other than 0 if a robot that was asked has one that is
            out of range or masked.
        calls: Carry out the actions, in order.
        masks: Write the action masks, where the scenario forbids moves into racks.

    Args:
        parts: The simulator's arrays.
        roles: Each role with its arrays, and its place on the robot axis.
        first_env: Index of the first environment among all of the run; for messages.
        holds: Something lets robots stand whatever they are told.
    """

    def __init__(
        self, parts: Parts, roles: Sequence[tuple[RoleSpec, RoleArrays, slice]], first_env: int, holds: bool
    ) -> None:
        drive = parts.config.drive
        self._parts, self._roles, self._first_env = parts, tuple(roles), first_env
        self.turning = isinstance(drive, DifferentialDriveConfig)
        self._faces = isinstance(drive, HeadingGridConfig)
        # The first branch; what follows in an action mask is no move.
        self._num_moves = 0 if self.turning else parts.spec.roles[0].action.discrete_branches[0]
        self.takes = [self._bind_take(values, slots.start) for _, values, slots in self._roles]
        self.calls = self._bind_calls(holds)
        self.masks = self._bind_masks() if parts.config.mask_blocked_moves else []

    def wrong_action(self) -> ActionError:
        """Says which action of which agent stopped the step."""
        for take, (role, values, _) in zip(self.takes, self._roles, strict=True):
            wrong = take()
            if wrong:
                return ActionError(self._describe_wrong(role, values, *divmod(wrong - 1, role.num_slots)))
        raise AssertionError("asked for where all actions are right")

    def begin(self, envs: Bool) -> None:
        """Start an episode in the environments of ``envs``, (E,) bool: robots have been placed."""
        if self._faces:
            face_at_random(self._parts.pose, self._parts.keys[Purpose.FACING], envs)

    def _bind_take(self, values: RoleArrays, first: int) -> Callable[[], int]:
        if self.turning:
            actions = values.continuous_actions[..., :2]
            return bind(take_continuous, actions, values.decision_mask, first, self._parts.commands)
        mask = values.action_mask[..., : self._num_moves]
        return bind(take_moves, values.discrete_actions, values.decision_mask, mask, first, self._parts.moves)

    def _bind_calls(self, holds: bool) -> list[Callable[[], None]]:
        parts, config = self._parts, self._parts.config
        calls = []
        if holds:
            calls.append(bind(hold_robots, parts.fleet.held, parts.moves, parts.commands))
        if self._faces:
            calls.append(bind(turn_robots, parts.fleet, parts.pose, parts.moves, parts.step_s))
        state = (parts.floor, parts.fleet, parts.pose, parts.outcome)
        way, despawn = parts.keys[Purpose.RIGHT_OF_WAY], config.contact.rule == "despawn"
        num_cells, num_robots = parts.layout.blocked.size, config.num_robots
        if isinstance(config.drive, DifferentialDriveConfig):
            drive = (make_drive_scratch(parts.floor, num_robots, parts.limits), parts.limits, parts.traits.radius_m)
            calls.append(bind(drive_differential, *state, *drive, parts.commands, way, parts.steps, despawn))
        else:
            scratch = make_grid_scratch(num_cells, num_robots, parts.layout.cell_size_m)
            calls.append(bind(move_on_grid, *state, scratch, parts.moves, way, parts.steps, despawn, parts.step_s))
        if self._faces:
            calls.append(bind(note_speeds, parts.outcome, parts.pose, parts.step_s))
        return calls

    def _bind_masks(self) -> list[Callable[[], None]]:
        parts, calls = self._parts, []
        for _, values, slots in self._roles:
            mask = values.action_mask[..., : self._num_moves]
            if self._faces:
                calls.append(bind(mask_blocked_forward, parts.floor, parts.fleet, parts.pose, slots.start, mask))
            else:
                calls.append(bind(mask_blocked_moves, parts.floor, parts.fleet, slots.start, mask))
        return calls

    def _describe_wrong(self, role: RoleSpec, values: RoleArrays, env: int, slot: int) -> str:
        agent = role.agent_ids[slot]
        where = f"WarehouseSimulator.step: action of agent {agent!r} in environment {self._first_env + env}"
        if self.turning:
            return f"{where}: expected 2 values in [-1, 1], got {values.continuous_actions[env, slot, :2].tolist()}."
        allowed = np.flatnonzero(values.action_mask[env, slot, : self._num_moves]).tolist()
        move = int(values.discrete_actions[env, slot, 0])
        return f"{where}: expected one of the allowed moves {allowed}, got {move}. Choose by the action mask."
