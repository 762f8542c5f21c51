"""Our schema against the one that Unity's package carries."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2

from bridge.unity.messages import MESSAGES, UnityMessage, all_capabilities
from bridge.unity.proto_schema import file_descriptor


def published_schemas() -> Iterator[Any]:
    """File descriptors inside the generated modules of the installed mlagents_envs, read without importing them."""
    package = find_spec("mlagents_envs")
    assert package is not None
    assert package.origin is not None
    for module in sorted(Path(package.origin).parent.joinpath("communicator_objects").glob("*_pb2.py")):
        literal = re.search(r"serialized_pb=(?:_b\()?b?('(?:[^'\\]|\\.)*')", module.read_text(encoding="utf-8"))
        assert literal is not None, module
        yield descriptor_pb2.FileDescriptorProto.FromString(ast.literal_eval(literal[1]).encode("latin1"))


def messages(descriptors: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for message in descriptors:
        yield prefix + message.name, message
        yield from messages(message.nested_type, f"{prefix}{message.name}.")


def fields(message: Any) -> list[tuple[Any, ...]]:
    return sorted((f.number, f.name, f.type, f.type_name, f.label, f.HasField("oneof_index")) for f in message.field)


def test_schema_equals_unitys_in_every_message_and_enum() -> None:
    text = files("bridge.unity").joinpath("proto", "communicator.proto").read_text(encoding="utf-8")
    ours = file_descriptor(text, "ours.proto")
    theirs = list(published_schemas())
    wanted = {name: fields(message) for file in theirs for name, message in messages(file.message_type)}
    assert {name: fields(message) for name, message in messages(ours.message_type)} == wanted
    values = {enum.name: [(v.name, v.number) for v in enum.value] for file in theirs for enum in file.enum_type}
    assert {enum.name: [(v.name, v.number) for v in enum.value] for enum in ours.enum_type} == values


def test_messages_survive_the_wire_when_they_hold_maps_and_oneofs() -> None:
    message = UnityMessage()
    info = message.unity_output.rl_output.agentInfos["AGV?team=0"].value.add(
        id=3, reward=0.5, action_mask=[True, False]
    )
    info.observations.add(shape=[2]).float_data.data.extend([1.0, 2.0])
    copy = UnityMessage.FromString(message.SerializeToString())
    assert copy == message
    observation = copy.unity_output.rl_output.agentInfos["AGV?team=0"].value[0].observations[0]
    assert observation.WhichOneof("observation_data") == "float_data"


def test_messages_are_named_as_in_the_schema() -> None:
    assert "UnityRLOutputProto.ListAgentInfoProto" in MESSAGES
    assert not any(name.endswith("Entry") for name in MESSAGES)
    assert all(getattr(all_capabilities(), field.name) for field in all_capabilities().DESCRIPTOR.fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('syntax = "proto2"; package a;', r"""x.proto: token 3: expected '"proto3"', got '"proto2"'"""),
        ('syntax = "proto3"; package a; service B {}', r"expected 'message' or 'enum', got 'service'"),
        ('syntax = "proto3"; package a; message B { C c = 1; }', r"expected a declared type, got 'C'"),
        ('syntax = "proto3"; package a; message B { bool b = 1', r"expected more text, got 'the end of the file'"),
    ],
)
def test_parser_says_what_it_does_not_know(text: str, message: str) -> None:
    with pytest.raises(SyntaxError, match=message):
        file_descriptor(text, "x.proto")
