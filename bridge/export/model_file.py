"""Reads model files that anybody may have written: bounded, self-contained, or an error."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from bridge.errors import ExportError
from bridge.export.contract import MAX_MODEL_BYTES

__all__ = ["parse_model", "read_bounded"]


def read_bounded(path: Path, limit: int = MAX_MODEL_BYTES) -> bytes:
    """The bytes of a file of at most ``limit`` bytes.

    Raises:
        ExportError: There is no such file, it is empty, too long, or cannot be read.
    """
    try:
        with path.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = b"" if size > limit else stream.read(limit + 1)
    except OSError as error:
        raise ExportError(f"{path}: expected a readable file, got: {error.strerror}.") from error
    if size > limit or not 1 <= len(data) <= limit:
        raise ExportError(f"{path}: expected 1 to {limit} bytes, got {max(size, len(data))}.")
    return data


def parse_model(data: bytes, where: str) -> onnx.ModelProto:
    """The model in a file's bytes.

    Raises:
        ExportError: The bytes are no ONNX model, or one that keeps numbers in other files.
    """
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise ExportError(f"{where}: expected an ONNX model, got bytes that are none ({error}).") from error
    if not _is_text(model):
        raise ExportError(f"{where}: expected names in UTF-8, got other bytes. The file is damaged.")
    if not model.graph.node or not model.opset_import:
        raise ExportError(f"{where}: expected an ONNX model with a graph and an opset, got none. Is it another format?")
    nodes = [*model.graph.node, *(node for function in model.functions for node in function.node)]
    for tensor in (*model.graph.initializer, *_tensors(nodes)):
        if tensor.data_location == onnx.TensorProto.EXTERNAL or tensor.external_data:
            raise ExportError(
                f"{where}: tensor {tensor.name!r}: expected its numbers in the file, got a reference to another file. "
                "Save the model as a single file."
            )
    return model


def _is_text(message: Message) -> bool:
    """Whether every string in a message is UTF-8; protobuf hands over bytes where one is not."""
    for field, value in message.ListFields():
        if field.type not in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_MESSAGE):
            continue
        for item in [value] if isinstance(value, (str, bytes, Message)) else value:
            if isinstance(item, bytes) or (isinstance(item, Message) and not _is_text(item)):
                return False
    return True


def _tensors(nodes: Iterable[onnx.NodeProto]) -> Iterator[onnx.TensorProto]:
    """Every tensor in the attributes of nodes, with those of nested graphs."""
    for node in nodes:
        for attribute in node.attribute:
            yield from (attribute.t, *attribute.tensors)
            for graph in (attribute.g, *attribute.graphs):
                yield from graph.initializer
                yield from _tensors(graph.node)
