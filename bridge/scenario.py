"""Scenario files: one YAML, one world.

Reads, checks and finds scenarios; what a world's own section means is up to
its adapter (``bridge/adapters``), what ``train:`` means is up to ``trainers``.
All faults of a file are reported together.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bridge.errors import ScenarioError
from bridge.registry import world_kind, world_kinds
from bridge.scenario_faults import describe_faults, did_you_mean
from bridge.scenario_name import MAX_SCENARIO_NAME, default_scenario_name

__all__ = [
    "MAX_SCENARIO_BYTES",
    "Scenario",
    "find_scenario",
    "load_scenario",
    "parse_section",
    "resolve_inside",
    "scenario_folder",
    "scenario_json_schema",
    "shipped_scenarios",
]

Model = TypeVar("Model", bound=BaseModel)

MAX_SCENARIO_BYTES = 4 * 1024 * 1024


class _Header(BaseModel):
    """The keys that every scenario has; the world's section is checked by its adapter."""

    model_config = ConfigDict(frozen=True, extra="allow", strict=True)

    schema_version: Literal[1] = Field(alias="schema", description="Version of the scenario format: 1.")
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=MAX_SCENARIO_NAME)] | None = Field(
        None, description="Name of the scenario, lower case; the file's stem, or the name of its folder, by default."
    )
    description: str = Field("", description="One sentence on what the scenario is for.")
    world: str = Field(description="Kind of world; the section of the same name configures it.")
    train: dict[str, Any] = Field(default_factory=dict, description="Training configuration; see `agv-bridge train`.")


@dataclass(frozen=True)
class Scenario:
    """A checked scenario file.

    Attributes:
        path: The file.
        name: Name of the scenario.
        description: One sentence on what it is for.
        world: Kind of world, a name of :func:`bridge.registry.world_kinds`.
        config: The world's section, an instance of the kind's configuration model.
        train: The ``train:`` section as plain data; ``trainers.config`` checks it.
    """

    path: Path
    name: str
    description: str
    world: str
    config: BaseModel
    train: dict[str, Any]

    @property
    def folder(self) -> Path:
        """The folder that every file of the scenario lies in."""
        return self.path.parent


def scenario_folder() -> Path:
    """The folder of the shipped scenarios: inside the installed package, or beside it in a checkout."""
    here = Path(__file__).resolve().parent
    installed = here / "_scenarios"
    return installed if installed.is_dir() else here.parent / "scenarios"


def shipped_scenarios() -> dict[str, Path]:
    """Files of the shipped scenarios by name."""
    return {path.stem: path for path in sorted(scenario_folder().glob("*.yaml"))}


def find_scenario(name_or_path: str | Path) -> Path:
    """The file of a shipped scenario's name, or of a path.

    Raises:
        ScenarioError: There is no such file and no such shipped scenario.
    """
    path = Path(name_or_path)
    if path.is_dir() and (path / "scenario.yaml").is_file():
        return path / "scenario.yaml"
    if path.is_file():
        return path
    shipped = shipped_scenarios()
    if str(name_or_path) in shipped:
        return shipped[str(name_or_path)]
    raise ScenarioError(
        f"scenario: expected a file or one of the shipped scenarios {', '.join(shipped)}, "
        f"got {str(name_or_path)!r}.{did_you_mean(str(name_or_path), shipped)}"
    )


def load_scenario(name_or_path: str | Path) -> Scenario:
    """Read and check a scenario.

    Raises:
        ScenarioError: Lists every fault of the file, one per line, with dotted key, what was
            expected and what was found.
    """
    path = find_scenario(name_or_path)
    data = _read_yaml(path)
    faults: list[str] = []
    header = _validate(_Header, data, path, "", faults)
    kind_name = data.get("world")
    kinds = {kind.name: kind for kind in world_kinds()}
    faults.extend(_key_faults(data, path, kind_name, list(kinds)))
    config = None
    if isinstance(kind_name, str) and kind_name in kinds:
        config = _validate(world_kind(kind_name).config_model(), data.get(kind_name, {}), path, kind_name, faults)
    if faults or header is None or config is None:
        raise ScenarioError("\n".join(faults))
    return Scenario(
        path=path.resolve(),
        name=header.name or default_scenario_name(path),
        description=header.description,
        world=header.world,
        config=config,
        train=header.train,
    )


def parse_section(model: type[Model], data: Any, path: Path, section: str) -> Model:
    """Check one section of a scenario file against a model.

    Raises:
        ScenarioError: Lists every fault of the section.
    """
    faults: list[str] = []
    parsed = _validate(model, data, path, section, faults)
    if parsed is None:
        raise ScenarioError("\n".join(faults))
    return parsed


def resolve_inside(folder: Path, relative: str, where: str) -> Path:
    """The path of a file that a scenario names, which must lie inside the scenario's folder.

    Raises:
        ScenarioError: The path leaves the folder, or there is no such file.
    """
    try:
        path = (folder / relative).resolve()
        is_inside = not Path(relative).is_absolute() and path.is_relative_to(folder.resolve())
        is_file = is_inside and path.is_file()
        beside = [] if is_file or not is_inside else sorted(p.name for p in path.parent.glob("*") if p.is_file())
    except (OSError, ValueError) as error:
        raise ScenarioError(f"{where}: expected the path of a file, got {relative!r} ({error}).") from error
    if not is_inside:
        raise ScenarioError(
            f"{where}: expected a path inside the scenario's folder, got {relative!r}. "
            "Put the file beside the scenario."
        )
    if not is_file:
        raise ScenarioError(
            f"{where}: expected a file in {folder}, got {relative!r}, which is none.{did_you_mean(path.name, beside)}"
        )
    return path


def scenario_json_schema() -> dict[str, Any]:
    """JSON Schema of the format, for editors."""
    schema = _Header.model_json_schema(by_alias=True)
    schema["title"] = "agv-bridge scenario"
    schema["additionalProperties"] = False
    schema.setdefault("$defs", {})
    schema["properties"]["world"]["enum"] = [kind.name for kind in world_kinds()]
    for kind in world_kinds():
        section = kind.config_model().model_json_schema(by_alias=True, ref_template="#/$defs/{model}")
        schema["$defs"].update(section.pop("$defs", {}))
        schema["properties"][kind.name] = section
    return schema


def _key_faults(data: dict[Any, Any], path: Path, kind_name: Any, kinds: list[str]) -> list[str]:
    """Faults of the top-level keys that the header's model leaves to us."""
    faults: list[str] = []
    if isinstance(kind_name, str) and kind_name not in kinds:
        hint = did_you_mean(kind_name, kinds)
        faults.append(f"{path}: world: expected one of {', '.join(kinds)}, got {kind_name!r}.{hint}")
    known = [field.alias or key for key, field in _Header.model_fields.items()]
    # Without a known kind of world, any world's section may be meant.
    sections = [kind_name] if kind_name in kinds else kinds
    for key in data:
        if key in known or key in sections:
            continue
        if key in kinds:
            faults.append(
                f"{path}: {key}: expected no section of another world than {kind_name!r}, got one. "
                "Remove it, or change 'world'."
            )
        else:
            allowed = [*known, *sections]
            hint = did_you_mean(str(key), allowed)
            faults.append(f"{path}: {key}: expected one of the keys {', '.join(allowed)}, got {key!r}.{hint}")
    return faults


def _read_yaml(path: Path) -> dict[Any, Any]:
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SCENARIO_BYTES + 1)
        if len(content) > MAX_SCENARIO_BYTES:
            raise ScenarioError(
                f"{path}: expected at most {MAX_SCENARIO_BYTES} bytes, got more. Is it a scenario file?"
            )
        data = yaml.load(content.decode("utf-8-sig"), Loader=_StrictLoader)
    except OSError as error:
        raise ScenarioError(f"{path}: expected a file that can be read, got: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: expected text in UTF-8, got byte {error.start} of another encoding.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark is not None else ""
        raise ScenarioError(f"{path}: {place}expected YAML, got: {error.problem or error.context}.") from error
    except yaml.YAMLError as error:
        raise ScenarioError(f"{path}: expected YAML, got: {error}") from error
    except RecursionError as error:
        raise ScenarioError(f"{path}: expected YAML that is nested a few levels deep, got too many levels.") from error
    if not isinstance(data, dict):
        found = "an empty file" if data is None else f"a {type(data).__name__}"
        raise ScenarioError(
            f"{path}: expected a mapping with the keys 'schema' and 'world', got {found}. "
            "See docs/scenarios.md for an example."
        )
    return data


class _StrictLoader(yaml.SafeLoader):
    """YAML without aliases (no exponential blow-up) and without repeated keys, whose 1e-3 is a number."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(
                None, None, "an alias, which scenarios may not have; repeat what it stands for", mark
            )
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(
                    None, None, "a key that is a list or a mapping", key_node.start_mark
                )
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} for the second time", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1, which PyYAML reads, wants a dot and a sign in 1.0e-3; people and YAML 1.2 do not.
_StrictLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _validate(model: type[Model], data: Any, path: Path, section: str, faults: list[str]) -> Model | None:
    try:
        # JSON mode: strict about types, yet a YAML list may fill a tuple and 1 may fill a float.
        return model.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        faults.extend(describe_faults(error, model, data, path, section))
        return None
