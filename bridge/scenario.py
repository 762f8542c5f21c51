"""Scenario files: one YAML, one world.

Reads, checks and finds scenarios; what a world's own section means is up to
its adapter (``bridge/adapters``), what ``train:`` means is up to ``trainers``.
All faults of a file are reported together.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from bridge.errors import ScenarioError
from bridge.registry import world_kind, world_kinds

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
    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$", max_length=64)] | None = Field(
        None, description="Name of the scenario, lower case; the file's stem by default."
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
        f"got {str(name_or_path)!r}.{_did_you_mean(str(name_or_path), shipped)}"
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
    if isinstance(kind_name, str) and kind_name not in kinds:
        faults.append(
            f"{path}: world: expected one of {', '.join(kinds)}, got {kind_name!r}.{_did_you_mean(kind_name, kinds)}"
        )
    known = [*(field.alias or key for key, field in _Header.model_fields.items()), str(kind_name)]
    for key in data:
        if key in kinds and key != kind_name:
            faults.append(f"{path}: {key}: expected no section of another world than {kind_name!r}, got one.")
        elif key not in known:
            faults.append(
                f"{path}: {key}: expected one of the keys {', '.join(known)}.{_did_you_mean(str(key), known)}"
            )
    config = None
    if isinstance(kind_name, str) and kind_name in kinds:
        config = _validate(world_kind(kind_name).config_model(), data.get(kind_name, {}), path, kind_name, faults)
    if faults or header is None or config is None:
        raise ScenarioError("\n".join(faults))
    return Scenario(
        path=path.resolve(),
        name=header.name or path.stem,
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
    path = (folder / relative).resolve()
    if Path(relative).is_absolute() or not path.is_relative_to(folder.resolve()):
        raise ScenarioError(
            f"{where}: expected a path inside the scenario's folder, got {relative!r}. "
            "Put the file beside the scenario."
        )
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*") if p.is_file()) if path.parent.is_dir() else []
        raise ScenarioError(f"{where}: expected a file, got {relative!r}.{_did_you_mean(path.name, beside)}")
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


def _read_yaml(path: Path) -> dict[str, Any]:
    size = path.stat().st_size
    if size > MAX_SCENARIO_BYTES:
        raise ScenarioError(f"{path}: expected at most {MAX_SCENARIO_BYTES} bytes, got {size}.")
    try:
        data = yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: expected YAML, got: {error}") from error
    if not isinstance(data, dict):
        raise ScenarioError(f"{path}: expected a mapping with the key 'world', got {type(data).__name__}.")
    return data


class _StrictLoader(yaml.SafeLoader):
    """YAML without aliases (no exponential blow-up) and without repeated keys."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            mark = self.peek_event().start_mark  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases are not allowed", mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
        seen: set[Any] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                raise yaml.constructor.ConstructorError(None, None, f"repeated key {key!r}", key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _validate(model: type[Model], data: Any, path: Path, section: str, faults: list[str]) -> Model | None:
    try:
        # JSON mode: strict about types, yet a YAML list may fill a tuple and 1 may fill a float.
        return model.model_validate_json(json.dumps(data, default=str))
    except ValidationError as error:
        faults.extend(_fault(path, section, detail, model) for detail in error.errors())
        return None


def _fault(path: Path, section: str, detail: ErrorDetails, model: type[BaseModel]) -> str:
    key = _dotted(section, detail["loc"])
    kind, found = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        siblings = _field_names(model, detail["loc"][:-1])
        hint = _did_you_mean(str(detail["loc"][-1]), siblings)
        return f"{path}: {key}: expected one of the keys {', '.join(siblings)}, got {detail['loc'][-1]!r}.{hint}"
    if kind == "missing":
        return f"{path}: {key}: expected a value, got none. Add the key."
    expected = detail["msg"].removeprefix("Value error, ").removeprefix("Input should be ").removeprefix("a valid ")
    if kind == "value_error":
        return f"{path}: {key}: {expected}"
    return f"{path}: {key}: expected {expected}, got {found!r}."


def _dotted(section: str, location: Iterable[int | str]) -> str:
    key = section
    for part in location:
        key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else str(part)
    return key


def _field_names(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Names of the keys allowed at a location, found through the model's JSON schema."""
    schema = model.model_json_schema(by_alias=True)
    definitions = schema.get("$defs", {})
    nodes = [schema]
    for part in location:
        nodes = [child for node in nodes for child in _children(node, part, definitions)]
    names: list[str] = []
    for node in _expand(nodes, definitions):
        names.extend(name for name in node.get("properties", {}) if name not in names)
    return names


def _children(node: dict[str, Any], part: int | str, definitions: dict[str, Any]) -> list[dict[str, Any]]:
    children: list[dict[str, Any]] = []
    for choice in _expand([node], definitions):
        if isinstance(part, int):
            children.extend([choice["items"]] if isinstance(choice.get("items"), dict) else [])
        elif part in choice.get("properties", {}):
            children.append(choice["properties"][part])
        elif isinstance(choice.get("additionalProperties"), dict):
            children.append(choice["additionalProperties"])
        elif part in choice.get("discriminator", {}).get("mapping", {}):
            children.append({"$ref": choice["discriminator"]["mapping"][part]})
    return children


def _expand(nodes: list[dict[str, Any]], definitions: dict[str, Any]) -> list[dict[str, Any]]:
    """References followed and unions opened."""
    expanded: list[dict[str, Any]] = []
    for node in nodes:
        if "$ref" in node:
            expanded.extend(_expand([definitions[node["$ref"].rsplit("/", 1)[-1]]], definitions))
            continue
        expanded.append(node)
        for union in ("anyOf", "oneOf", "allOf"):
            expanded.extend(_expand(node.get(union, []), definitions))
    return expanded


def _did_you_mean(found: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(found, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""
