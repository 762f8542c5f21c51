"""Writes an actor as an ONNX file that Unity ML-Agents accepts.

The graph is built node by node, without tracing, from operators that all of
Unity's engines take. Observation normalisation, layer norm, action masks and
the squashing of actions are inside the graph, so that the player feeds raw
observations and gets actions in [-1, 1]. Equal parameters give equal bytes.
"""

from __future__ import annotations

import json
from importlib.metadata import version as distribution_version
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bridge.export import contract
from bridge.export.parameter_check import require_sound_parameters
from bridge.export.parameters import ActorParameters, DenseLayer

__all__ = ["build_actor_model", "write_actor"]


def write_actor(
    parameters: ActorParameters, path: Path | str, *, scenario_name: str, producer_version: str | None = None
) -> Path:
    """Write an actor as one self-contained ONNX file.

    Args:
        parameters: The actor.
        path: The file; replaced if it exists.
        scenario_name: Name of the scenario that the actor was trained on, kept in the metadata.
        producer_version: Version of agv-bridge; the installed one by default.

    Returns:
        The path.

    Raises:
        ExportError: The arrays do not fit each other; names the array.
    """
    model = build_actor_model(parameters, scenario_name=scenario_name, producer_version=producer_version)
    target = Path(path)
    partial = target.with_name(f".{target.name}.partial")
    partial.write_bytes(model.SerializeToString(deterministic=True))
    return partial.replace(target)


def build_actor_model(
    parameters: ActorParameters, *, scenario_name: str, producer_version: str | None = None
) -> onnx.ModelProto:
    """The model that :func:`write_actor` writes.

    Raises:
        ExportError: The arrays do not fit each other; names the array.
    """
    require_sound_parameters(parameters)
    graph = _Graph()
    features = _hidden(graph, parameters, _normalised(graph, parameters, _observation(graph, parameters)))
    graph.constant_output(contract.VERSION_NUMBER, np.array([contract.MODEL_API_VERSION], np.float32))
    graph.constant_output(contract.MEMORY_SIZE, np.zeros(1, np.float32))
    if parameters.continuous_head is not None:
        _continuous(graph, parameters, parameters.continuous_head, features)
    if parameters.discrete_head is not None:
        _discrete(graph, parameters, parameters.discrete_head, features)
    producer = producer_version or distribution_version("agv-bridge")
    model = helper.make_model(
        graph.proto(f"agv-bridge {parameters.role}"),
        ir_version=contract.IR_VERSION,
        opset_imports=[helper.make_opsetid("", contract.OPSET)],
        producer_name="agv-bridge",
        producer_version=producer,
    )
    helper.set_model_props(model, _metadata(parameters, scenario_name, producer))
    return model


class _Graph:
    """A graph under construction: nodes, constants, inputs and outputs in order."""

    def __init__(self) -> None:
        self._nodes: list[onnx.NodeProto] = []
        self._initializers: list[onnx.TensorProto] = []
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def node(self, operator: str, inputs: list[str], output: str, **attributes: Any) -> str:
        self._nodes.append(helper.make_node(operator, inputs, [output], name=output, **attributes))
        return output

    def constant(self, name: str, value: NDArray[Any]) -> str:
        self._initializers.append(numpy_helper.from_array(np.ascontiguousarray(value), name))
        return name

    def input(self, name: str, width: int) -> str:
        self._inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, [contract.BATCH, width]))
        return name

    def output(self, name: str, element_type: int, shape: list[str | int]) -> None:
        self._outputs.append(helper.make_tensor_value_info(name, element_type, shape))

    def constant_output(self, name: str, value: NDArray[np.float32]) -> None:
        # Unity's engines prune or rename an initializer that is itself an output; Identity keeps it.
        self.node("Identity", [self.constant(f"{name}_value", value)], name)
        self.output(name, TensorProto.FLOAT, list(value.shape))

    def proto(self, name: str) -> onnx.GraphProto:
        return helper.make_graph(self._nodes, name, self._inputs, self._outputs, self._initializers)


def _observation(graph: _Graph, parameters: ActorParameters) -> str:
    sizes = parameters.observation.sensor_sizes
    inputs = [graph.input(f"obs_{index}", size) for index, size in enumerate(sizes)]
    return inputs[0] if len(inputs) == 1 else graph.node("Concat", inputs, "observation", axis=1)


def _normalised(graph: _Graph, parameters: ActorParameters, x: str) -> str:
    if parameters.normaliser_mean is None or parameters.normaliser_std is None:
        return x
    x = graph.node("Sub", [x, graph.constant("normaliser_mean", parameters.normaliser_mean)], "centred")
    x = graph.node("Div", [x, graph.constant("normaliser_std", parameters.normaliser_std)], "scaled")
    return _clip(graph, x, "normalised", parameters.normaliser_clip)


def _clip(graph: _Graph, x: str, output: str, bound: float) -> str:
    low = graph.constant(f"{output}_low", np.array(-bound, np.float32))
    high = graph.constant(f"{output}_high", np.array(bound, np.float32))
    return graph.node("Clip", [x, low, high], output)


def _hidden(graph: _Graph, parameters: ActorParameters, x: str) -> str:
    activation = {"tanh": "Tanh", "relu": "Relu"}[parameters.activation]
    for index, layer in enumerate(parameters.hidden):
        name = f"hidden_{index}"
        x = _affine(graph, layer, x, f"{name}_affine")
        if layer.norm_gain is not None and layer.norm_bias is not None:
            x = _layer_norm(graph, layer.norm_gain, layer.norm_bias, parameters.norm_epsilon, x, f"{name}_norm")
        x = graph.node(activation, [x], name)
    return x


def _affine(graph: _Graph, layer: DenseLayer, x: str, output: str) -> str:
    weight = graph.constant(f"{output}_weight", layer.weight)
    bias = graph.constant(f"{output}_bias", layer.bias)
    return graph.node("Gemm", [x, weight, bias], output, transB=1)


def _layer_norm(
    graph: _Graph, gain: NDArray[np.float32], bias: NDArray[np.float32], epsilon: float, x: str, output: str
) -> str:
    """Layer norm (Ba et al. 2016) from elementary operators: Barracuda has no LayerNormalization."""
    mean = graph.node("ReduceMean", [x], f"{output}_mean", axes=[1], keepdims=1)
    centred = graph.node("Sub", [x, mean], f"{output}_centred")
    square = graph.node("Mul", [centred, centred], f"{output}_square")
    variance = graph.node("ReduceMean", [square], f"{output}_variance", axes=[1], keepdims=1)
    epsilon_name = graph.constant(f"{output}_epsilon", np.array([epsilon], np.float32))
    deviation = graph.node("Sqrt", [graph.node("Add", [variance, epsilon_name], f"{output}_floor")], f"{output}_std")
    scaled = graph.node("Div", [centred, deviation], f"{output}_scaled")
    gained = graph.node("Mul", [scaled, graph.constant(f"{output}_gain", gain)], f"{output}_gained")
    return graph.node("Add", [gained, graph.constant(f"{output}_bias", bias)], output)


def _continuous(graph: _Graph, parameters: ActorParameters, head: DenseLayer, features: str) -> None:
    assert parameters.log_std is not None, "checked by require_sound_parameters"
    mean = _affine(graph, head, features, contract.TRACE_MEAN)
    noise = graph.node("RandomNormalLike", [mean], "standard_noise", mean=0.0, scale=1.0)
    std = graph.constant("action_std", np.exp(parameters.log_std))
    sample = graph.node("Add", [mean, graph.node("Mul", [noise, std], "noise")], contract.TRACE_SAMPLE)
    for x, output in ((sample, contract.CONTINUOUS_ACTIONS), (mean, contract.DETERMINISTIC_CONTINUOUS)):
        if parameters.squash == "tanh":
            x = graph.node("Tanh", [x], f"{output}_tanh")
        # After Tanh too: onnxruntime's approximation of it overshoots 1 by one rounding step.
        _clip(graph, x, output, 1.0)
        graph.output(output, TensorProto.FLOAT, [contract.BATCH, parameters.action.num_continuous])
    graph.constant_output(contract.CONTINUOUS_SHAPE, np.array([parameters.action.num_continuous], np.float32))


def _discrete(graph: _Graph, parameters: ActorParameters, head: DenseLayer, features: str) -> None:
    branches = parameters.action.discrete_branches
    logits = _affine(graph, head, features, contract.TRACE_LOGITS)
    masked = _masked(graph, logits, graph.input(contract.ACTION_MASKS, parameters.action.mask_size))
    sampled, best = [], []
    start = 0
    for index, size in enumerate(branches):
        branch = _columns(graph, masked, start, start + size, f"branch_{index}") if len(branches) > 1 else masked
        log_probs = graph.node("LogSoftmax", [branch], f"branch_{index}_log_probs", axis=1)
        sampled.append(
            graph.node("Multinomial", [log_probs], f"branch_{index}_sample", dtype=TensorProto.INT64, sample_size=1)
        )
        best.append(graph.node("ArgMax", [branch], f"branch_{index}_best", axis=1, keepdims=1))
        start += size
    for columns, output in ((sampled, contract.DISCRETE_ACTIONS), (best, contract.DETERMINISTIC_DISCRETE)):
        if len(columns) == 1:
            graph.node("Identity", columns, output)
        else:
            graph.node("Concat", columns, output, axis=1)
        graph.output(output, TensorProto.INT64, [contract.BATCH, len(branches)])
    graph.constant_output(contract.DISCRETE_SHAPE, np.array([branches], np.float32))


def _masked(graph: _Graph, logits: str, masks: str) -> str:
    """``logits * allowed - 1e8 * (1 - allowed)``: exact where allowed, and defined on an all-zero mask."""
    allowed = graph.node("Mul", [logits, masks], "allowed_logits")
    forbidden = graph.node("Sub", [graph.constant("one", np.ones(1, np.float32)), masks], "forbidden")
    offset = graph.constant("forbidden_logit", np.array([contract.FORBIDDEN_LOGIT], np.float32))
    return graph.node("Add", [allowed, graph.node("Mul", [forbidden, offset], "forbidden_logits")], "masked_logits")


def _columns(graph: _Graph, x: str, start: int, stop: int, output: str) -> str:
    bounds = [
        graph.constant(f"{output}_{name}", np.array([value], np.int64))
        for name, value in (("start", start), ("stop", stop), ("axis", 1))
    ]
    return graph.node("Slice", [x, *bounds], output)


def _metadata(parameters: ActorParameters, scenario_name: str, producer_version: str) -> dict[str, str]:
    return {
        contract.META_VERSION: producer_version,
        contract.META_SCENARIO: scenario_name,
        contract.META_ROLE: parameters.role,
        contract.META_AGENT_IDS: json.dumps(list(parameters.agent_ids)),
        contract.META_LAYOUT: json.dumps(parameters.observation.to_json()),
        contract.META_DIGEST: parameters.observation.digest,
        contract.META_ACTION: json.dumps(parameters.action.to_json()),
    }
