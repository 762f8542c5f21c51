"""The offline check on models of other programs, and on files that are no models at all."""

import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bridge.errors import ExportError
from bridge.export import check_model
from bridge.export.contract import MAX_MODEL_BYTES
from bridge.export.engine_checks import engine_findings
from bridge.export.loader_checks import loader_findings
from bridge.export.model_file import parse_model, read_bounded
from bridge.export.model_view import ModelView
from bridge.export.writer import build_actor_model

# ---- models of other programs -----------------------------------------------------------------


def foreign_recurrent_model(declared_in=4, declared_out=4, drop=()):
    """A model in the manner of Unity's own trainer: opset 9, no metadata, a memory of 4 numbers."""
    inputs = [("obs_0", ["batch", 3]), ("recurrent_in", ["batch", 1, declared_in])]
    outputs = [
        ("version_number", [1]),
        ("memory_size", [1]),
        ("continuous_actions", ["batch", 2]),
        ("deterministic_continuous_actions", ["batch", 2]),
        ("continuous_action_output_shape", [1]),
        ("recurrent_out", ["batch", 1, declared_out]),
    ]
    rng = np.random.default_rng(0)
    numbers = {
        "version": np.float32([3]),
        "memory": np.float32([4]),
        "size": np.float32([2]),
        "weight": rng.standard_normal((3, 4)).astype(np.float32),
        "head": rng.standard_normal((4, 2)).astype(np.float32),
    }
    nodes = [
        helper.make_node("Identity", ["version"], ["version_number"]),
        helper.make_node("Identity", ["memory"], ["memory_size"]),
        helper.make_node("Identity", ["size"], ["continuous_action_output_shape"]),
        helper.make_node("MatMul", ["obs_0", "weight"], ["seen"]),
        helper.make_node("Transpose", ["recurrent_in"], ["by_time"], perm=[1, 0, 2]),
        helper.make_node("Add", ["by_time", "seen"], ["sum"]),
        helper.make_node("Tanh", ["sum"], ["remembered"]),
        helper.make_node("Transpose", ["remembered"], ["recurrent_out"], perm=[1, 0, 2]),
        helper.make_node("ReduceMean", ["recurrent_out"], ["flat"], axes=[1], keepdims=0),
        helper.make_node("MatMul", ["flat", "head"], ["raw"]),
        helper.make_node("Tanh", ["raw"], ["continuous_actions"]),
        helper.make_node("Identity", ["continuous_actions"], ["deterministic_continuous_actions"]),
    ]
    graph = helper.make_graph(
        nodes,
        "foreign",
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs if name not in drop],
        [numpy_helper.from_array(value, name) for name, value in numbers.items()],
    )
    return helper.make_model(graph, ir_version=6, opset_imports=[helper.make_opsetid("", 9)])


def check_foreign(path, **change):
    path.write_bytes(foreign_recurrent_model(**change).SerializeToString())
    return check_model(path, isolated=False)


def test_check_accepts_a_recurrent_model_of_another_program(tmp_path):
    findings = check_foreign(tmp_path / "a.onnx")
    assert [(found.severity, found.check) for found in findings] == [("warning", "metadata")]


@pytest.mark.parametrize(
    ("change", "check", "message"),
    [
        ({"declared_in": 5}, "width", r"'recurrent_in': expected the shape \[batch, 1, 4\]"),
        ({"declared_out": 5}, "width", r"'recurrent_out': expected the shape \[batch, 1, 4\]"),
        ({"drop": ("recurrent_out",)}, "recurrent", "'recurrent_out': expected one for the memory"),
    ],
)
def test_check_finds_a_broken_memory_in_a_model_of_another_program(tmp_path, change, check, message):
    findings = check_foreign(tmp_path / "a.onnx", **change)
    matching = [found for found in findings if (found.severity, found.check) == ("error", check)]
    assert any(re.search(message, found.message) for found in matching), findings


# ---- files that are no models -----------------------------------------------------------------


def external_data(model):
    tensor = model.graph.initializer[0]
    tensor.data_location = TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="/etc/hostname")


def external_data_in_a_nested_graph(model):
    tensor = numpy_helper.from_array(np.zeros(1, np.float32), "nested")
    tensor.external_data.add(key="location", value="weights.bin")
    body = helper.make_graph([helper.make_node("Constant", [], ["c"], value=tensor)], "body", [], [])
    model.graph.node.append(helper.make_node("If", ["obs_0"], ["z"], then_branch=body, else_branch=body))


def truncated_weight(model):
    tensor = next(t for t in model.graph.initializer if t.name == "hidden_0_affine_weight")
    tensor.raw_data = tensor.raw_data[:-2]


def sequence_output(model):
    info = helper.make_tensor_sequence_value_info("more", TensorProto.FLOAT, None)
    model.graph.output.append(info)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (external_data, "expected its numbers in the file, got a reference to another file"),
        (external_data_in_a_nested_graph, "tensor 'nested': expected its numbers in the file"),
        (truncated_weight, "'hidden_0_affine_weight': expected real numbers of its declared shape and type"),
        (sequence_output, "'more': expected a tensor, got sequence_type"),
        (lambda model: model.ClearField("opset_import"), "expected an ONNX model with a graph and an opset"),
        (lambda model: model.graph.ClearField("node"), "expected an ONNX model with a graph and an opset"),
    ],
)
def test_check_refuses_a_file_that_it_will_not_read(make_actor, tmp_path, change, message):
    model = build_actor_model(make_actor(), scenario_name="dock")
    change(model)
    path = tmp_path / "broken.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ExportError, match=rf"broken\.onnx: .*{message}"):
        check_model(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "expected 1 to .* bytes, got 0"),
        (b"PK\x03\x04 not a model", "expected an ONNX model, got bytes that are none"),
        (b"\x08\x08", "expected an ONNX model with a graph and an opset, got none"),
    ],
)
def test_check_refuses_bytes_that_are_no_model(tmp_path, content, message):
    path = tmp_path / "a.onnx"
    path.write_bytes(content)
    with pytest.raises(ExportError, match=rf"a\.onnx: {message}"):
        check_model(path)


def test_check_refuses_a_missing_file_and_a_folder(tmp_path):
    with pytest.raises(ExportError, match=r"none\.onnx: expected a readable file, got: No such file"):
        check_model(tmp_path / "none.onnx")
    with pytest.raises(ExportError, match="expected a readable file, got: Is a directory"):
        check_model(tmp_path)


def test_read_bounded_refuses_a_file_that_is_too_long(tmp_path):
    path = tmp_path / "long.onnx"
    path.write_bytes(bytes(101))
    assert len(read_bounded(path, 101)) == 101
    with pytest.raises(ExportError, match=r"long\.onnx: expected 1 to 100 bytes, got 101"):
        read_bounded(path, 100)
    with path.open("wb") as stream:
        # Sparse: no disk space is used, and the check must not read it all.
        stream.truncate(MAX_MODEL_BYTES + 1)
    with pytest.raises(ExportError, match=f"got {MAX_MODEL_BYTES + 1}"):
        check_model(path)


def test_check_gives_findings_or_an_export_error_for_damaged_bytes(make_actor, tmp_path):
    """Random damage: one or two bytes of a sound file at a time."""
    model = build_actor_model(make_actor(hidden=(3,)), scenario_name="dock")
    del model.metadata_props[:]
    sound = model.SerializeToString(deterministic=True)
    path = tmp_path / "damaged.onnx"
    rng = np.random.default_rng(0)
    refused = found = 0
    for _ in range(400):
        data = bytearray(sound)
        for position in rng.integers(len(data), size=rng.integers(1, 3)):
            data[position] = rng.integers(256)
        path.write_bytes(data)
        try:
            view = ModelView.of(parse_model(read_bounded(path), "damaged"), "damaged")
            found += bool([*loader_findings(view, None), *engine_findings(view)])
        except ExportError:
            refused += 1
    assert refused > 100
    assert found > 100
