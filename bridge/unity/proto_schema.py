"""Turns the project's ``.proto`` file into message classes, without protoc and generated code.

Generated code is tied to the protobuf release that made it, and two copies of
it clash in one process. A schema that is parsed at import and put into a
:class:`DescriptorPool` of its own does neither: it works with protobuf 4.21 to
7, and beside any other package that knows the same messages.

The parser knows what the schema uses: messages and enums (also nested),
scalar, message and map fields, ``repeated``, ``oneof`` and ``reserved``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

__all__ = ["MessageClass", "file_descriptor", "load_messages"]

MessageClass = type[Any]

_Field = descriptor_pb2.FieldDescriptorProto
_SCALARS = {
    "float": _Field.TYPE_FLOAT,
    "int32": _Field.TYPE_INT32,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
_TOKEN = re.compile(r'"[^"]*"|[A-Za-z_][\w.]*|\d+|\S')


def load_messages(file_name: str) -> dict[str, MessageClass]:
    """Message classes of a schema in ``bridge/unity/proto``, keyed by name (``Outer.Inner`` where nested)."""
    text = files("bridge.unity").joinpath("proto", file_name).read_text(encoding="utf-8")
    schema = file_descriptor(text, f"agv_bridge/{file_name}")
    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(schema.SerializeToString())
    names = list(_message_names(schema.message_type, ""))
    return {name: _message_class(pool.FindMessageTypeByName(f"{schema.package}.{name}"), pool) for name in names}


def file_descriptor(text: str, file_name: str) -> Any:
    """The ``FileDescriptorProto`` of a schema.

    Raises:
        SyntaxError: The text uses a part of the language that this parser does not know.
    """
    return _Parser(text, file_name).parse()


def _message_class(descriptor: Any, pool: Any) -> MessageClass:
    if hasattr(message_factory, "GetMessageClass"):  # protobuf >= 4.22
        return message_factory.GetMessageClass(descriptor)  # type: ignore[no-any-return]
    return message_factory.MessageFactory(pool).GetPrototype(descriptor)  # type: ignore[no-any-return]


def _message_names(messages: Any, prefix: str) -> Iterator[str]:
    for message in messages:
        if not message.options.map_entry:
            yield prefix + message.name
            yield from _message_names(message.nested_type, f"{prefix}{message.name}.")


class _Parser:
    """Recursive descent over the tokens of one file."""

    def __init__(self, text: str, file_name: str) -> None:
        self._tokens = _TOKEN.findall(re.sub(r"//[^\n]*", "", text))
        self._position = 0
        self._file = descriptor_pb2.FileDescriptorProto(name=file_name, syntax="proto3")

    def parse(self) -> Any:
        self._expect("syntax", "=", '"proto3"', ";", "package")
        self._file.package = self._next()
        self._expect(";")
        while self._position < len(self._tokens):
            keyword = self._next()
            if keyword == "message":
                self._message(self._file.message_type.add(), "")
            elif keyword == "enum":
                self._enum(self._file.enum_type.add())
            else:
                raise self._error("'message' or 'enum'", keyword)
        self._resolve_types()
        return self._file

    def _message(self, message: Any, scope: str) -> None:
        message.name = self._next()
        scope = f"{scope}.{message.name}"
        self._expect("{")
        while (token := self._next()) != "}":
            if token == "message":
                self._message(message.nested_type.add(), scope)
            elif token == "enum":
                self._enum(message.enum_type.add())
            elif token == "oneof":
                self._oneof(message)
            elif token == "reserved":
                self._reserved(message)
            else:
                self._field(message, token, scope)

    def _field(self, message: Any, token: str, scope: str) -> Any:
        field = message.field.add(label=_Field.LABEL_OPTIONAL)
        if token == "map":
            self._map(message, field, scope)
        else:
            if token == "repeated":
                field.label = _Field.LABEL_REPEATED
                token = self._next()
            self._set_type(field, token)
            field.name = self._next()
        self._expect("=")
        field.number = int(self._next())
        self._expect(";")
        field.json_name = _camel_case(field.name)
        return field

    def _map(self, message: Any, field: Any, scope: str) -> None:
        self._expect("<")
        key = self._next()
        self._expect(",")
        value = self._next()
        self._expect(">")
        field.name = self._next()
        field.label = _Field.LABEL_REPEATED
        name = field.name[0].upper() + re.sub(r"_(\w)", lambda match: match[1].upper(), field.name[1:]) + "Entry"
        entry = message.nested_type.add(name=name)
        entry.options.map_entry = True
        for number, (part, kind) in enumerate((("key", key), ("value", value)), 1):
            part_field = entry.field.add(name=part, number=number, label=_Field.LABEL_OPTIONAL, json_name=part)
            self._set_type(part_field, kind)
        field.type = _Field.TYPE_MESSAGE
        field.type_name = f".{self._file.package}{scope}.{name}"

    def _oneof(self, message: Any) -> None:
        message.oneof_decl.add(name=self._next())
        self._expect("{")
        while (token := self._next()) != "}":
            self._field(message, token, "").oneof_index = len(message.oneof_decl) - 1

    def _reserved(self, message: Any) -> None:
        separator = ","
        while separator == ",":
            number = int(self._next())
            message.reserved_range.add(start=number, end=number + 1)
            separator = self._next()

    def _enum(self, enum: Any) -> None:
        enum.name = self._next()
        self._expect("{")
        while (token := self._next()) != "}":
            self._expect("=")
            enum.value.add(name=token, number=int(self._next()))
            self._expect(";")

    def _set_type(self, field: Any, name: str) -> None:
        if name in _SCALARS:
            field.type = _SCALARS[name]
        else:
            field.type_name = name  # resolved when all names are known

    def _resolve_types(self) -> None:
        kinds = dict(_declared(self._file, f".{self._file.package}"))
        for scope, message in _messages(self._file.message_type, f".{self._file.package}"):
            for field in message.field:
                if not field.type_name or field.type_name in kinds:
                    continue
                candidates = (f"{outer}.{field.type_name}" for outer in _outward(scope))
                found = next((name for name in candidates if name in kinds), None)
                if found is None:
                    raise self._error("a declared type", field.type_name)
                field.type_name, field.type = found, kinds[found]

    def _next(self) -> str:
        if self._position >= len(self._tokens):
            raise self._error("more text", "the end of the file")
        self._position += 1
        return str(self._tokens[self._position - 1])

    def _expect(self, *tokens: str) -> None:
        for expected in tokens:
            found = self._next()
            if found != expected:
                raise self._error(repr(expected), found)

    def _error(self, expected: str, found: str) -> SyntaxError:
        return SyntaxError(f"{self._file.name}: token {self._position}: expected {expected}, got {found!r}.")


def _messages(messages: Any, scope: str) -> Iterator[tuple[str, Any]]:
    for message in messages:
        yield f"{scope}.{message.name}", message
        yield from _messages(message.nested_type, f"{scope}.{message.name}")


def _declared(file: Any, package: str) -> Iterator[tuple[str, int]]:
    yield from ((f"{package}.{enum.name}", _Field.TYPE_ENUM) for enum in file.enum_type)
    for name, message in _messages(file.message_type, package):
        yield name, _Field.TYPE_MESSAGE
        yield from ((f"{name}.{enum.name}", _Field.TYPE_ENUM) for enum in message.enum_type)


def _outward(scope: str) -> Iterator[str]:
    while scope:
        yield scope
        scope = scope.rpartition(".")[0]


def _camel_case(name: str) -> str:
    return re.sub(r"_(\w)", lambda match: match[1].upper(), name)
