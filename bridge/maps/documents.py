"""JSON and YAML documents of strangers: bounded, and with the key of every value at hand.

Reading never runs code, counts YAML aliases at their full size, and turns whatever is wrong with the
text into a :class:`LayoutError`. An :class:`Item` is one value of a document together with
its place, so that importers can complain about ``layouts[0].nodes[3].nodePosition.x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NoReturn

import yaml

from bridge.errors import LayoutError
from bridge.maps.import_warnings import ImportWarnings

__all__ = ["MAX_DOCUMENT_BYTES", "Item", "parse_json", "parse_yaml"]

MAX_DOCUMENT_BYTES: Final = 16 * 1024 * 1024

_MAX_DEPTH: Final = 64
_MAX_YAML_VALUES: Final = 2_000_000
_LONGEST_SHOWN: Final = 60

# The C parser is some ten times faster; wheels of PyYAML have it, other builds may not.
_YamlBase: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Item:
    """A value of a document, where it stands, and where to warn about it.

    Attributes:
        value: The value as the parser returned it.
        file: Name of the file for messages.
        warnings: Receives what is loose about the values that are read.
    """

    __slots__ = ("_above", "_step", "file", "value", "warnings")

    def __init__(self, value: Any, file: str, warnings: ImportWarnings) -> None:
        """The whole document."""
        self.value = value
        self.file = file
        self.warnings = warnings
        self._above: Item | None = None
        self._step: str | int = ""

    @property
    def key(self) -> str:
        """Dotted path of the value; empty for the whole document.

        Put together when somebody asks: of a hundred thousand values a message names one.
        """
        if self._above is None:
            return ""
        before, step = self._above.key, self._step
        if isinstance(step, int):
            return f"{before}[{step}]"
        shown = step if len(step) <= _LONGEST_SHOWN else step[:_LONGEST_SHOWN] + "..."
        return f"{before}.{shown}" if before else shown

    def fault(self, expected: str, advice: str = "") -> LayoutError:
        """An error that says what was expected here."""
        where = f"{self.file}: {self.key}" if self.key else self.file
        return LayoutError(f"{where}: expected {expected}, got {_shown(self.value)}.{' ' if advice else ''}{advice}")

    def get(self, *names: str) -> Item | None:
        """The value of the first of these keys that a mapping has and that is not null."""
        values = self.value
        if not isinstance(values, dict):
            raise self.fault("a mapping")
        for name in names:
            value = values.get(name)
            if value is not None:
                return self._below(value, name)
        return None

    def require(self, *names: str) -> Item:
        """Like :meth:`get`, of a key that has to be there."""
        item = self.get(*names)
        if item is None:
            found = ", ".join(str(key)[:_LONGEST_SHOWN] for key in list(self.value)[:12])
            where = f"{self.file}: {self.key}" if self.key else self.file
            raise LayoutError(f"{where}: expected the key {names[0]!r}, got the keys {found or 'of an empty mapping'}.")
        return item

    def entries(self, *names: str) -> list[Item]:
        """The elements of a list; with names, of the list under the first of these keys, or none."""
        item = self.get(*names) if names else self
        if item is None:
            return []
        if not isinstance(item.value, list):
            raise item.fault("a list")
        return [item._below(value, index) for index, value in enumerate(item.value)]

    def named(self) -> Iterator[tuple[str, Item]]:
        """Keys and values of a mapping."""
        if not isinstance(self.value, dict):
            raise self.fault("a mapping")
        for name, value in self.value.items():
            yield str(name), self._below(value, str(name))

    def at(self, index: int) -> Item:
        """An element of a list that has to be there."""
        if not isinstance(self.value, list) or len(self.value) <= index:
            raise self.fault(f"a list of at least {index + 1} values")
        return self._below(self.value[index], index)

    def text(self) -> str:
        """A string; numbers and truth values, which YAML makes of unquoted names, are written out again."""
        if isinstance(self.value, str):
            return self.value
        if isinstance(self.value, bool | float) or (isinstance(self.value, int) and self.value.bit_length() <= 64):
            return str(self.value).lower()
        raise self.fault("a string")

    def number(self) -> float:
        """A finite number; one inside a string is taken with a warning."""
        value = self.value
        if isinstance(value, str):
            try:
                value = float(value.strip())
            except ValueError as error:
                raise self.fault("a number") from error
            self.warnings.add("A number is written as a string; it was read as a number.")
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.fault("a number")
        # Beyond this, sums and products of coordinates overflow; no building is a light second wide.
        if not abs(value) <= 1e9:
            raise self.fault("a finite number, at most 1e9 in size")
        return float(value)

    def integer(self, low: int, high: int) -> int:
        """A whole number in [low, high]; 3.0 counts as one."""
        value = self.number()
        if value != int(value) or not low <= value <= high:
            raise self.fault(f"a whole number from {low} to {high}")
        return int(value)

    def boolean(self) -> bool:
        """True or false; 0, 1 and the words in any case are taken too."""
        if isinstance(self.value, bool):
            return self.value
        word = str(self.value).strip().lower()
        if word in ("true", "1", "yes"):
            return True
        if word in ("false", "0", "no", ""):
            return False
        raise self.fault("true or false")

    def _below(self, value: Any, step: str | int) -> Item:
        """What stands under a key of a mapping, or at a place of a list."""
        item = Item(value, self.file, self.warnings)
        item._above = self
        item._step = step
        return item


def parse_json(data: bytes, where: str) -> Any:
    """The value of a JSON text in UTF-8, UTF-16 or UTF-32, with or without a byte order mark.

    Raises:
        LayoutError: Names the file, and the line and column of what is no JSON.
    """
    try:
        return json.loads(data, parse_constant=lambda name: _refuse_constant(where, name))
    except json.JSONDecodeError as error:
        raise LayoutError(
            f"{where}: line {error.lineno}, column {error.colno}: expected JSON, got a fault: {error.msg}."
        ) from error
    except UnicodeDecodeError as error:
        raise LayoutError(f"{where}: expected text in UTF-8, got byte {error.start} of another encoding.") from error
    except RecursionError as error:
        raise LayoutError(f"{where}: expected JSON that nests a few levels deep, got hundreds of levels.") from error
    except LayoutError:
        raise
    except ValueError as error:
        # An integer of more digits than Python converts.
        raise LayoutError(f"{where}: expected JSON with numbers of ordinary length, got: {error}.") from error


def parse_yaml(data: bytes, where: str) -> Any:
    """The value of a YAML text in UTF-8 without foreign tags or several documents.

    Raises:
        LayoutError: Names the file, and the line of what is wrong.
    """
    try:
        text = data.decode("utf-8-sig")
        _check_events(text, where)
        return yaml.load(text, Loader=_Loader)
    except UnicodeDecodeError as error:
        raise LayoutError(f"{where}: expected text in UTF-8, got byte {error.start} of another encoding.") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f"line {mark.line + 1}: " if mark is not None else ""
        problem = error.problem or error.context
        raise LayoutError(f"{where}: {line}expected YAML, got a fault: {problem}.") from error
    except yaml.YAMLError as error:
        reason = str(error).splitlines()[0]
        raise LayoutError(f"{where}: expected YAML, got a fault: {reason}.") from error
    except LayoutError:
        raise
    except (ValueError, OverflowError) as error:
        # Numbers of impossible length or digits; PyYAML converts them without a guard.
        raise LayoutError(f"{where}: expected YAML with ordinary numbers, got: {error}.") from error


class _Loader(_YamlBase):  # type: ignore[misc]
    """Safe YAML that leaves dates as text: no key of a map is one, and some texts only look like one."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in _YamlBase.yaml_implicit_resolvers.items()
}
# YAML 1.1, which PyYAML reads, wants a dot in 1.0e-05; writers of YAML 1.2 leave it out.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(?:\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def _check_events(text: str, where: str) -> None:
    """Refuse what could blow up or run in the loader, before anything is built.

    Writers that dump shared Python objects leave aliases behind. Each counts as many values as
    what it stands for, so that a few lines cannot stand for billions.
    """
    open_collections: list[tuple[str | None, int]] = []
    sizes: dict[str | None, int] = {}
    values = 0
    for event in yaml.parse(text, Loader=_Loader):
        anchor = getattr(event, "anchor", None)
        found = ""
        if isinstance(event, yaml.CollectionEndEvent):
            begun, before = open_collections.pop()
            sizes[begun] = values - before
        elif isinstance(event, yaml.AliasEvent):
            values += sizes.get(anchor, 0)
            if anchor not in sizes:
                found = "an alias of something complete, got one of an outer or unknown part"
        elif isinstance(event, yaml.NodeEvent):
            values += 1
            sizes[anchor] = 1
            if isinstance(event, yaml.CollectionStartEvent):
                sizes.pop(anchor)
                open_collections.append((anchor, values - 1))
        if not _is_plain_tag(tag := getattr(event, "tag", None)):
            found = f"no tag, got {_shown(tag)}. Remove it"
        elif len(open_collections) > _MAX_DEPTH:
            found = f"at most {_MAX_DEPTH} levels of nesting, got more"
        elif values > _MAX_YAML_VALUES:
            found = f"at most {_MAX_YAML_VALUES} values, got more"
        if found:
            line = event.start_mark.line + 1 if event.start_mark is not None else 0
            raise LayoutError(f"{where}: line {line}: expected {found}.")


def _is_plain_tag(tag: str | None) -> bool:
    return tag in (None, "!") or tag.removeprefix("tag:yaml.org,2002:") in (
        "str",
        "int",
        "float",
        "bool",
        "null",
        "seq",
        "map",
    )


def _refuse_constant(where: str, name: str) -> NoReturn:
    raise LayoutError(f"{where}: expected JSON with finite numbers, got {name}.")


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"a mapping of {len(value)} keys"
    if isinstance(value, list):
        return f"a list of {len(value)} values"
    if value is None:
        return "nothing"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 64:
        return f"a number of {value.bit_length()} bits"
    shown = repr(value)
    return shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + "..."
