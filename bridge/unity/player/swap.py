"""Another scenario while the player runs, sent by the trainer.

The trainer has made its arrays, and its policies, for the scenario that the
player started with. So that is what another scenario is compared with, however
often scenarios have been swapped since.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from bridge.errors import ScenarioError, SpecMismatchError
from bridge.registry import World, open_world
from bridge.scenario import load_scenario
from bridge.specs import WorldSpec
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.scene import require_fitting

__all__ = ["world_of"]


def world_of(text: str, kind: str, first: WorldSpec, options: PlayerOptions) -> World:
    """The world of a scenario that goes on where another one stops.

    Args:
        text: The scenario as JSON, with its layout inside: it can name no files.
        kind: Kind of the world that the player started with.
        first: What that world looks like.
        options: Of the player.

    Raises:
        ScenarioError: The scenario is wrong.
        SpecMismatchError: It differs from the first one in what the trainer relies on.
        AgvBridgeError: An option of the player does not fit it.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text, encoding="utf-8")  # YAML is a superset of JSON
        try:
            scenario = load_scenario(path)
        except ScenarioError as error:  # names a file that the trainer has never heard of
            raise ScenarioError(str(error).replace(str(path), "scenario")) from error
        # Checked before the world is opened: some kinds import whatever module a scenario names.
        if scenario.world != kind:
            raise SpecMismatchError(
                f"scenario: world: expected {kind!r} as at the start, got {scenario.world!r}. "
                "Start a player of its own for another kind of world."
            )
        world = open_world(scenario)
    _require_same_surface(first, world.spec, options)
    require_fitting(options, scenario.world, world.spec)
    return world


def _require_same_surface(first: WorldSpec, spec: WorldSpec, options: PlayerOptions) -> None:
    """Raise unless a trainer that was made for ``first`` can go on with ``spec``.

    Roles, observations and actions always count. The number of robots does where the trainer is told who is who,
    because it has a slot for each; the size of the global state does where that is sent.
    """
    names, wanted = [role.name for role in spec.roles], [role.name for role in first.roles]
    if names != wanted:
        raise SpecMismatchError(f"scenario: expected the roles {', '.join(wanted)}, got {', '.join(names)}.")
    for old, new in zip(first.roles, spec.roles, strict=True):
        old.require_same_interface(new, "scenario")
        if "roster" in options.announce and new.num_slots > old.num_slots:
            raise SpecMismatchError(
                f"scenario: role {old.name!r}: expected at most {old.num_slots} robots, for which the trainer has "
                f"slots, got {new.num_slots}. Start the player with the scenario of the largest fleet."
            )
    if "state" in options.announce and spec.state_size > first.state_size:
        raise SpecMismatchError(
            f"scenario: expected a global state of at most {first.state_size} values, for which the trainer has "
            f"room, got {spec.state_size}. Start the player with the scenario of the largest state."
        )
