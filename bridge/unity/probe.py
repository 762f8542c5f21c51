"""Finds out what a player looks like by starting it once."""

from __future__ import annotations

from collections.abc import Mapping

from bridge.errors import SpecMismatchError
from bridge.specs import ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.behaviors import Behavior
from bridge.unity.launch import PlayerCommand
from bridge.unity.session import SessionOptions, UnitySession
from bridge.unity.side_channels import SideChannelHub, StatsChannel

__all__ = ["announced_spec", "layout_of"]


def announced_spec(command: PlayerCommand | None, options: SessionOptions, slots: Mapping[str, int]) -> WorldSpec:
    """The spec of a player that runs until its agents have asked for their first decisions.

    Args:
        command: How to start the player.
        options: With one training area.
        slots: Number of slots per role; a role that is missing gets one per agent of the first exchange.

    Raises:
        SpecMismatchError: The player has no such role, or two teams of one role have different spaces.
        UnityPlayerDiedError: The player cannot be started, or ended.
        UnityTimeoutError: It did not connect or answer in time.
        UnityProtocolError: It broke the protocol.
    """
    session = UnitySession(command, options, SideChannelHub([StatsChannel()]))
    try:
        output = session.reset()
    finally:
        session.close()
    ids: dict[str, set[int]] = {}
    for name, batch in output.batches.items():
        ids.setdefault(session.behaviors[name].role, set()).update(batch.agent_id.tolist())
    roles: dict[str, RoleSpec] = {}
    for behavior in session.behaviors.values():
        count = slots.get(behavior.role, len(ids[behavior.role]))
        role = RoleSpec(
            behavior.role,
            tuple(f"{behavior.role}_{slot}" for slot in range(count)),
            layout_of(behavior),
            behavior.action,
        )
        roles.setdefault(behavior.role, role).require_same_interface(role, "player")
    unknown = set(slots) - set(roles)
    if unknown:
        raise SpecMismatchError(
            f"unity.slots: expected roles of the player ({', '.join(sorted(roles))}), got {', '.join(sorted(unknown))}."
        )
    return WorldSpec(tuple(roles.values()))


def layout_of(behavior: Behavior) -> ObservationLayout:
    """A layout with one block per sensor; sensors of equal names are told apart by their numbers."""
    names = [sensor.name or "observation" for sensor in behavior.sensors]
    return ObservationLayout(
        tuple(
            ObservationBlock(
                name if names.count(name) == 1 else f"{name}#{index}",
                sensor.size,
                sensor=index,
                shape=sensor.shape if len(sensor.shape) > 1 else (),
                is_goal=sensor.observation_type == 1,
                description="Sensor of the Unity scene.",
            )
            for index, (name, sensor) in enumerate(zip(names, behavior.sensors, strict=True))
        )
    )
