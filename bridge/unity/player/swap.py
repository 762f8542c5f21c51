"""Another scenario while the player runs, sent by the trainer."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from bridge.errors import SpecMismatchError
from bridge.registry import World, open_world
from bridge.scenario import load_scenario
from bridge.specs import WorldSpec
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.scene import require_fitting

__all__ = ["world_of"]


def world_of(text: str, running: WorldSpec, options: PlayerOptions) -> World:
    """The world of a scenario that goes on where another one stops.

    Args:
        text: The scenario as JSON, with its layout inside: it can name no files.
        running: What the running world looks like.
        options: Of the player.

    Raises:
        ScenarioError: The scenario is wrong.
        SpecMismatchError: Its roles, observations or actions are others than the running world's.
        AgvBridgeError: An option of the player does not fit it.
    """
    with TemporaryDirectory() as folder:
        path = Path(folder) / "scenario.yaml"
        path.write_text(text, encoding="utf-8")  # YAML is a superset of JSON
        scenario = load_scenario(path)
        world = open_world(scenario)
    spec = world.spec
    names, wanted = [role.name for role in spec.roles], [role.name for role in running.roles]
    if names != wanted:
        raise SpecMismatchError(f"scenario: expected the roles {', '.join(wanted)}, got {', '.join(names)}.")
    for old, new in zip(running.roles, spec.roles, strict=True):
        old.require_same_interface(new, "scenario")
    require_fitting(options, scenario.world, spec)
    return world
