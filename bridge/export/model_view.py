"""The parts of a model that Unity's contract speaks of: inputs, outputs, constants, metadata."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import numpy_helper

from bridge.errors import ExportError
from bridge.export import contract
from bridge.export.metadata import ModelMetadata, read_metadata
from bridge.specs import ActionSpec, RoleSpec

__all__ = ["ExpectedInterface", "ModelView", "TensorInfo", "numbers_of"]


class TensorInfo(NamedTuple):
    """Declared type of an input or output; a dimension is None where it is symbolic or unknown."""

    element_type: int
    dims: tuple[int | None, ...]

    @property
    def type_name(self) -> str:
        """Name of the element type, such as ``FLOAT``."""
        return str(onnx.TensorProto.DataType.Name(self.element_type))

    @property
    def shape_text(self) -> str:
        """The shape as people write it: ``[batch, 8]``."""
        return f"[{', '.join('batch' if dim is None else str(dim) for dim in self.dims)}]"


class ExpectedInterface(NamedTuple):
    """What the scene will offer: the width of every sensor, and the action."""

    sensor_sizes: tuple[int, ...]
    action: ActionSpec


@dataclass(frozen=True)
class ModelView:
    """A parsed model, indexed by name.

    Attributes:
        where: Name of the file, for messages.
        model: The model.
        inputs: Declared inputs, without those that are initializers.
        outputs: Declared outputs.
        metadata: What the file says about itself, or None for a file of another program.
    """

    where: str
    model: onnx.ModelProto
    inputs: dict[str, TensorInfo]
    outputs: dict[str, TensorInfo]
    metadata: ModelMetadata | None

    @classmethod
    def of(cls, model: onnx.ModelProto, where: str) -> Self:
        """The view of a parsed model.

        Raises:
            ExportError: Its metadata is damaged, or an input or output is no tensor.
        """
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = {value.name: _info(value, where) for value in model.graph.input if value.name not in weights}
        outputs = {value.name: _info(value, where) for value in model.graph.output}
        return cls(where, model, inputs, outputs, read_metadata(model, where))

    def producer(self, name: str) -> onnx.NodeProto | None:
        """The node that makes a tensor, or None for an input, an initializer or nothing."""
        return next((node for node in self.model.graph.node if name in node.output), None)

    def is_initializer(self, name: str) -> bool:
        """Whether a tensor is a stored number."""
        return any(tensor.name == name for tensor in self.model.graph.initializer)

    def constant(self, name: str) -> NDArray[np.float64] | None:
        """The value of a tensor that is an initializer or a constant, perhaps behind identities; else None.

        Raises:
            ExportError: The stored tensor is damaged.
        """
        for _ in range(8):
            for tensor in self.model.graph.initializer:
                if tensor.name == name:
                    return numbers_of(tensor, self.where)
            node = self.producer(name)
            if node is None:
                return None
            if node.op_type == "Constant":
                values = [attribute.t for attribute in node.attribute if attribute.name == "value"]
                return numbers_of(values[0], self.where) if values else None
            if node.op_type != "Identity" or not node.input:
                return None
            name = node.input[0]
        return None

    def whole_number(self, name: str) -> int | None:
        """The value of a constant of one element, or None where it is no constant of one."""
        value = self.constant(name)
        return int(value.item()) if value is not None and value.size == 1 and np.isfinite(value).all() else None

    def sizes(self, name: str) -> tuple[int, ...] | None:
        """The value of a constant of whole numbers > 0, such as an action size; None where it is anything else."""
        value = self.constant(name)
        if value is None or not value.size or not ((value > 0) & (value < 2**31) & (value == np.floor(value))).all():
            return None
        return tuple(int(size) for size in value.ravel())

    def expected(self, role: RoleSpec | None) -> ExpectedInterface | None:
        """What the role offers, else what the metadata says; None where neither is known.

        A model that wants the robot's one-hot id gets it from one more sensor, after those of the role.
        """
        if role is None:
            if self.metadata is None:
                return None
            return ExpectedInterface(self.metadata.observation.sensor_sizes, self.metadata.action)
        sizes = role.observation.sensor_sizes
        has_id = role.observation.blocks[-1].name == contract.AGENT_ID_BLOCK
        if self.metadata is not None and self.metadata.num_agent_ids and not has_id:
            sizes = (*sizes, self.metadata.num_agent_ids)
        return ExpectedInterface(sizes, role.action)


def numbers_of(tensor: onnx.TensorProto, where: str) -> NDArray[np.float64]:
    """The numbers of a stored tensor.

    Raises:
        ExportError: Its bytes are not what its shape and type say.
    """
    try:
        stored = numpy_helper.to_array(tensor)
        if stored.dtype.kind in "cOSU":
            raise TypeError(f"{stored.dtype} values")
        with np.errstate(invalid="ignore"):
            return np.asarray(stored, np.float64)
    # KeyError: a number that stands for no element type.
    except (KeyError, TypeError, ValueError) as fault:
        raise ExportError(
            f"{where}: tensor {tensor.name!r}: expected real numbers of its declared shape and type, got: {fault}."
        ) from fault


def _info(value: onnx.ValueInfoProto, where: str) -> TensorInfo:
    if not value.type.HasField("tensor_type"):
        raise ExportError(f"{where}: {value.name!r}: expected a tensor, got {value.type.WhichOneof('value')}.")
    tensor = value.type.tensor_type
    if tensor.elem_type not in onnx.TensorProto.DataType.values():
        raise ExportError(f"{where}: {value.name!r}: expected a known element type, got {tensor.elem_type}.")
    dims = tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None for dim in tensor.shape.dim
    )
    return TensorInfo(tensor.elem_type, dims)
