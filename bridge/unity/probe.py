"""Finds out what a player looks like by asking it, and keeps it where nobody can start it a second time.

A build is started once to be asked, and again to be played with, so that every
player of a run begins alike. A player that somebody else starts, in the Editor
or by hand, is there only once: it stays connected, and the first roster of the
same process that listens at its address gets it.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass

from bridge.errors import SpecMismatchError
from bridge.specs import ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.behaviors import Behavior
from bridge.unity.decode import AgentBatch, PlayerOutput
from bridge.unity.link import LinkTerms, UnityLink

__all__ = ["AskedPlayer", "ask_player", "keep_asked", "layout_of", "take_asked"]


@dataclass(frozen=True, eq=False)
class AskedPlayer:
    """A connected player that has been asked what it looks like.

    Attributes:
        link: The link with it; its agents wait for their first actions.
        spec: What it looks like, without what comes through side channels.
        newest_agent_id: Largest agent id so far, -1 without agents.
    """

    link: UnityLink
    spec: WorldSpec
    newest_agent_id: int


# Whoever keeps a player holds it; here it is only found, and it is let go together with its keeper.
_kept: weakref.WeakValueDictionary[tuple[str, int], AskedPlayer] = weakref.WeakValueDictionary()


def keep_asked(asked: AskedPlayer) -> None:
    """Offer a player to the first roster that listens at its address, for as long as the caller holds ``asked``."""
    session = asked.link.terms.session
    _kept[session.host, session.port] = asked


def take_asked(terms: LinkTerms) -> AskedPlayer | None:
    """The player that is kept at an address; None without one, or if other things were agreed on with it.

    A player that is not taken for that reason is made to quit: its address is needed.
    """
    asked = _kept.pop((terms.session.host, terms.session.port), None)
    if asked is not None and asked.link.terms != terms:
        asked.link.close()
        return None
    return asked


def ask_player(link: UnityLink, slots: Mapping[str, int]) -> AskedPlayer:
    """Let a player run until its agents have asked for their first decisions.

    Args:
        link: A link that was just made.
        slots: Number of slots per role; a role that is missing gets one per agent of the first exchange, or as many
            as the fullest area has.

    Raises:
        SpecMismatchError: The player has no such role, or two teams of one role have different spaces.
        UnityPlayerDiedError: The player ended.
        UnityTimeoutError: It did not answer in time.
        UnityProtocolError: It broke the protocol.
    """
    output = link.reset(None)
    counts = _agents_per_area(link, output)
    roles: dict[str, RoleSpec] = {}
    for behavior in link.behaviors.values():
        count = slots.get(behavior.role, counts[behavior.role])
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
    newest = max((int(batch.agent_id.max()) for batch in output.batches.values()), default=-1)
    return AskedPlayer(link, WorldSpec(tuple(roles.values())), newest)


def _agents_per_area(link: UnityLink, output: PlayerOutput) -> dict[str, int]:
    """Number of agents of each role in the area that has the most of them."""
    num_areas = link.terms.session.num_areas
    ids: dict[str, dict[int, set[int]]] = {}
    for name, batch in output.batches.items():
        areas = _areas_of(link, batch) if num_areas > 1 else [0] * len(batch)
        of_role = ids.setdefault(link.behaviors[name].role, {})
        for agent_id, area in zip(batch.agent_id.tolist(), areas, strict=True):
            of_role.setdefault(area, set()).add(agent_id)
    return {role: max(map(len, of_role.values())) for role, of_role in ids.items()}


def _areas_of(link: UnityLink, batch: AgentBatch) -> list[int]:
    """A number for the area of each entry: as announced, else its group."""
    areas = []
    for agent_id, group in zip(batch.agent_id.tolist(), batch.group_id.tolist(), strict=True):
        identity = link.identities.identity(agent_id)
        areas.append(-1 - group if identity is None else identity.area)
    return areas


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
