"""The offline check: one deliberately broken model per check."""

import dataclasses
import re

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from bridge.errors import ExportError
from bridge.export import check_model, require_unity_model
from bridge.export.writer import build_actor_model
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout

# ---- ways to break a model --------------------------------------------------------------------


def named(values, name):
    return next(value for value in values if value.name == name)


def node_of(model, output):
    return next(node for node in model.graph.node if output in node.output)


def drop_output(*names):
    def change(model):
        for name in names:
            model.graph.output.remove(named(model.graph.output, name))

    return change


def rename_input(old, new):
    def change(model):
        named(model.graph.input, old).name = new
        for node in model.graph.node:
            node.input[:] = [new if name == old else name for name in node.input]

    return change


def set_constant(output, value):
    """Another value for a constant output, of the dtype that the value has."""

    def change(model):
        source = node_of(model, output).input[0]
        tensor = named(model.graph.initializer, source)
        tensor.CopyFrom(numpy_helper.from_array(np.asarray(value), source))
        info = named(model.graph.output, output)
        info.CopyFrom(helper.make_tensor_value_info(output, tensor.data_type, np.shape(value)))

    return change


def set_weight(name, value):
    def change(model):
        named(model.graph.initializer, name).CopyFrom(numpy_helper.from_array(value, name))

    return change


def set_dim(side, name, axis, value):
    def change(model):
        dim = named(getattr(model.graph, side), name).type.tensor_type.shape.dim[axis]
        dim.Clear()
        if isinstance(value, int):
            dim.dim_value = value
        else:
            dim.dim_param = value

    return change


def replace_node(output, *nodes, initializers=()):
    """Put other nodes in the place of the one that makes ``output``."""

    def change(model):
        kept = list(model.graph.node)
        index = kept.index(node_of(model, output))
        kept[index : index + 1] = nodes
        del model.graph.node[:]
        model.graph.node.extend(kept)
        model.graph.initializer.extend(initializers)

    return change


def set_opset(version, domain=""):
    def change(model):
        model.opset_import.append(helper.make_opsetid(domain, version)) if domain else None
        if not domain:
            model.opset_import[0].version = version

    return change


def bare_initializer(model):
    node = node_of(model, "memory_size")
    named(model.graph.initializer, node.input[0]).name = "memory_size"
    model.graph.node.remove(node)


def computed_constant(model):
    node = node_of(model, "memory_size")
    node.op_type = "Neg"


def dangling(model):
    model.graph.node.remove(node_of(model, "memory_size"))


def logits_as_actions(model):
    node = node_of(model, "deterministic_discrete_actions")
    node.CopyFrom(helper.make_node("Cast", ["branch_pair"], ["deterministic_discrete_actions"], to=TensorProto.INT64))
    bounds = [
        numpy_helper.from_array(np.array([value]), f"pair_{name}") for name, value in (("a", 0), ("b", 2), ("c", 1))
    ]
    scale = numpy_helper.from_array(np.array([1000], np.float32), "pair_scale")
    model.graph.initializer.extend([*bounds, scale])
    at = list(model.graph.node).index(node)
    model.graph.node.insert(
        at, helper.make_node("Slice", ["pair_scaled", "pair_a", "pair_b", "pair_c"], ["branch_pair"])
    )
    model.graph.node.insert(at, helper.make_node("Mul", ["action_logits", "pair_scale"], ["pair_scaled"]))


def swap(old, new, *outputs):
    """Feed the nodes that make ``outputs`` from another tensor."""

    def change(model):
        for output in outputs:
            node = node_of(model, output)
            node.input[:] = [new if name == old else name for name in node.input]

    return change


def mix_rows(model):
    """Observations minus their mean over the batch."""
    first = [helper.make_node("ReduceMean", ["obs_0"], ["mixed_mean"], axes=[0], keepdims=1)]
    first.append(helper.make_node("Sub", ["obs_0", "mixed_mean"], ["mixed"]))
    swap("obs_0", "mixed", "observation")(model)
    for node in reversed(first):
        model.graph.node.insert(0, node)


def nan_on_zeros(model):
    first = [
        helper.make_node("ReduceSumSquare", ["obs_0"], ["norm"], axes=[1], keepdims=1),
        helper.make_node("Div", ["obs_0", "norm"], ["unit"]),
    ]
    swap("obs_0", "unit", "observation")(model)
    for node in reversed(first):
        model.graph.node.insert(0, node)


def huge_tensor(model):
    shape = numpy_helper.from_array(np.array([2**20, 2**20], np.int64), "huge_shape")
    model.graph.initializer.append(shape)
    for node in (
        helper.make_node("ReduceMean", ["huge"], ["huge_mean"], keepdims=0),
        helper.make_node("ConstantOfShape", ["huge_shape"], ["huge"]),
    ):
        model.graph.node.insert(0, node)


def legacy(model):
    drop_output(*[value.name for value in model.graph.output if "action" in value.name])(model)
    model.graph.output.append(helper.make_tensor_value_info("action", TensorProto.FLOAT, ["batch", 2]))
    model.graph.node.append(helper.make_node("Identity", ["action_mean"], ["action"]))


def add_input(name, width):
    def change(model):
        model.graph.input.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["batch", width]))

    return change


def sparse_weight(model):
    values = helper.make_tensor("sparse", TensorProto.FLOAT, [1], [1.0])
    indices = helper.make_tensor("at", TensorProto.INT64, [1], [0])
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2]))


def string_weight(model):
    model.graph.initializer.append(helper.make_tensor("text", TensorProto.STRING, [1], [b"x"]))


def abort_the_engine(model):
    """A negative deviation ends the process of onnxruntime by an assertion."""
    named(node_of(model, "standard_noise").attribute, "scale").f = -1.0


def integer_observation(model):
    named(model.graph.input, "obs_1").type.tensor_type.elem_type = TensorProto.INT32
    model.graph.node.insert(0, helper.make_node("Cast", ["obs_1"], ["obs_1_float"], to=TensorProto.FLOAT))
    swap("obs_1", "obs_1_float", "observation")(model)


def float_choices(model):
    node_of(model, "discrete_actions").output[0] = "choices"
    model.graph.node.append(helper.make_node("Cast", ["choices"], ["discrete_actions"], to=TensorProto.FLOAT))
    named(model.graph.output, "discrete_actions").type.tensor_type.elem_type = TensorProto.FLOAT


def unknown_operator(model):
    node_of(model, "hidden_0").op_type = "Mish"
    model.opset_import[0].version = 15


def unsorted_nodes(model):
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend(reversed(nodes))


def no_squash(model):
    node = node_of(model, "continuous_actions")
    node.CopyFrom(helper.make_node("Identity", ["action_sample"], ["continuous_actions"]))


def local_function(model):
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    opsets = [helper.make_opsetid("", 15)]
    model.functions.append(helper.make_function("own", "Twice", ["x"], ["y"], nodes, opsets))


def extra_output(model):
    model.graph.output.append(helper.make_tensor_value_info("action_mean", TensorProto.FLOAT, ["batch", 2]))


def barracuda_lacks(model):
    """Erf is known to Sentis and not to Barracuda."""
    node_of(model, "hidden_0").op_type = "Erf"


MASKED_INPUTS = ("branch_0", "branch_1")

ERRORS = [
    ("version_number", drop_output("version_number"), "expected one, got none.*Required constant"),
    ("version_number", set_constant("version_number", np.float32([1])), "got 1.*older version of the trainer"),
    ("version_number", set_constant("version_number", np.float32([4])), "got 4.*newer version of the trainer"),
    ("version_number", set_constant("version_number", np.float32([3, 3])), "expected a constant of one number"),
    ("memory_size", drop_output("memory_size"), "expected one, got none.*Required constant"),
    ("memory_size", set_constant("memory_size", np.float32([-1])), "got -1.*Missing node"),
    ("recurrent", set_constant("memory_size", np.float32([8])), "'recurrent_in': expected one"),
    ("recurrent", set_constant("memory_size", np.float32([8])), "'recurrent_out': expected one"),
    ("deterministic-only", drop_output("continuous_actions"), "'continuous_actions': expected one beside"),
    ("deterministic-only", drop_output("discrete_actions"), "'discrete_actions': expected one beside"),
    ("legacy-output", legacy, "'is_continuous_control': expected one beside 'action'"),
    ("action-shape", drop_output("continuous_action_output_shape"), "expected one, got none"),
    ("action-shape", drop_output("discrete_action_output_shape"), "expected one, got none"),
    ("action-shape", set_constant("continuous_action_output_shape", np.float32([0])), r"whole numbers > 0, got \[0"),
    ("action-shape", set_constant("discrete_action_output_shape", np.float32([[3, 2.5]])), r"got \[3\.0, 2\.5\]"),
    ("action-size", set_constant("continuous_action_output_shape", np.float32([3])), r"expected \[2\], got \[3\]"),
    ("action-size", set_constant("discrete_action_output_shape", np.float32([[3, 4]])), r"\[3, 5\], got \[3, 4\]"),
    ("action-size", set_constant("discrete_action_output_shape", np.float32([[8]])), r"\[3, 5\], got \[8\]"),
    ("action-mask", rename_input("action_masks", "obs_3"), "does not contain an Action Mask"),
    ("unexpected-input", rename_input("obs_1", "lidar"), "'lidar'.*Model contains an unexpected input"),
    ("unexpected-input", rename_input("obs_1", "obs_01"), "'obs_01'.*Model contains an unexpected input"),
    ("unexpected-input", add_input("obs_3", 4), "'obs_3': expected 3 sensors, got one more"),
    ("observation-input", rename_input("obs_1", "obs_7"), "'obs_1': expected one.*sensor component 1"),
    (
        "observation-shape",
        set_dim("input", "obs_0", 1, 7),
        r"'obs_0': expected the shape \[batch, 6\], got \[batch, 7\]",
    ),
    ("previous-action", add_input("prev_action", 3), "expected a last dimension of 2"),
    ("width", set_dim("output", "continuous_actions", 1, 3), r"expected the shape \[batch, 2\], got \[batch, 3\]"),
    ("width", set_dim("output", "discrete_actions", 1, 1), r"expected the shape \[batch, 2\], got \[batch, 1\]"),
    ("width", set_dim("input", "action_masks", 1, 9), r"'action_masks': expected the shape \[batch, 8\]"),
    ("input-type", integer_observation, "'obs_1': expected FLOAT, got INT32"),
    ("input-shape", set_dim("input", "obs_0", 1, "n"), "'obs_0': expected fixed dimensions after the first"),
    ("input-shape", set_dim("input", "obs_0", 1, 0), "'obs_0': expected sizes >= 1"),
    ("batch", set_dim("input", "obs_1", 0, 1), "'obs_1': expected a symbolic first dimension, got 1"),
    ("output-type", float_choices, "'discrete_actions': expected INT64 or INT32, got FLOAT"),
    ("output-type", set_constant("version_number", np.int64([3])), "expected FLOAT, got INT64.*InvalidCastException"),
    ("opset", set_opset(16), "expected 7 to 15, got 16"),
    ("opset", set_opset(1, "com.microsoft"), "got the domain 'com.microsoft'"),
    ("operators", unknown_operator, r"Sentis 2\.1 \(com\.unity\.ml-agents 3\.0\), got Mish"),
    ("operators", local_function, "expected no local functions, got 1"),
    ("graph", unsorted_nodes, "expected valid ONNX, got: Nodes in a graph must be topologically sorted"),
    ("trial-run", set_weight("hidden_0_affine_bias", np.zeros(5, np.float32)), "Gemm: Invalid bias shape"),
    ("dangling-output", dangling, "'memory_size': expected a node that makes it"),
    ("weights", set_weight("hidden_1_affine_bias", np.full(12, np.nan, np.float32)), "expected finite values"),
    ("weights", sparse_weight, "expected dense tensors"),
    ("weights", string_weight, "'text': expected numbers, got STRING"),
    ("constant", bare_initializer, "'memory_size': expected an Identity over an initializer of another name"),
    ("constant", computed_constant, "'memory_size': expected an Identity .* got the result of Neg"),
    ("choice", logits_as_actions, "expected indices below"),
    ("determinism", swap("action_mean", "action_sample", "deterministic_continuous_actions"), "expected equal actions"),
    ("independence", mix_rows, "for a robot alone as among 3"),
    ("mask-ignored", swap("masked_logits", "action_logits", *MASKED_INPUTS), "expected the only allowed choice"),
    ("zeros", nan_on_zeros, "expected numbers for zero inputs, got NaN"),
    ("size", huge_tensor, "expected at most .* values for 32 robots, got 10995"),
]

WARNINGS = [
    ("version_number", set_constant("version_number", np.float32([2])), "expected 3, got 2"),
    ("deterministic-output", drop_output("deterministic_continuous_actions"), "Uncheck `Deterministic inference` flag"),
    ("unusual-input", add_input("prev_action", 2), "packages 3.x and 4.x"),
    ("metadata", lambda model: model.ClearField("metadata_props"), "expected the layout that agv-bridge writes"),
    ("range", no_squash, r"'continuous_actions': expected actions in \[-1, 1\], got others"),
    ("extra-output", extra_output, "'action_mean': expected none; Unity computes it for nothing"),
    ("operators", barracuda_lacks, r"Barracuda 3\.0 \(com\.unity\.ml-agents 2\.x\), got Erf"),
]


@pytest.fixture
def check_broken(make_actor, tmp_path):
    """Findings of a sound hybrid model after a change."""

    def check(change, role=None, isolated=False, **shape):
        model = build_actor_model(make_actor(**shape), scenario_name="dock")
        change(model)
        path = tmp_path / "broken.onnx"
        path.write_bytes(model.SerializeToString())
        return check_model(path, role, isolated=isolated)

    return check


def require_finding(findings, severity, check, message):
    matching = [found for found in findings if (found.severity, found.check) == (severity, check)]
    assert matching, f"no {severity} [{check}] among {[str(found) for found in findings]}"
    assert any(re.search(message, found.message) for found in matching), [found.message for found in matching]


@pytest.mark.parametrize(("check", "change", "message"), ERRORS, ids=[f"{i}-{e[0]}" for i, e in enumerate(ERRORS)])
def test_check_finds_an_error_in_a_broken_model(check_broken, check, change, message):
    findings = check_broken(change)
    require_finding(findings, "error", check, message)
    severities = [found.severity for found in findings]
    assert severities == sorted(severities), "errors stand first"


@pytest.mark.parametrize(("check", "change", "message"), WARNINGS, ids=[w[0] for w in WARNINGS])
def test_check_warns_of_what_works_for_some(check_broken, check, change, message):
    findings = check_broken(change)
    require_finding(findings, "warning", check, message)
    assert not [str(found) for found in findings if found.severity == "error"]


def test_check_finds_a_model_without_actions(check_broken):
    findings = check_broken(drop_output("continuous_actions", "deterministic_continuous_actions"), branches=())
    require_finding(findings, "error", "action-output", "does not contain any Action Output Node")


def test_check_finds_a_recurrent_model_of_the_old_format(check_broken):
    def change(model):
        set_constant("version_number", np.float32([2]))(model)
        set_constant("memory_size", np.float32([8]))(model)

    require_finding(check_broken(change), "error", "version_number", "expected 3, got 2 with a memory")


def test_check_survives_a_model_that_aborts_the_engine(check_broken):
    findings = check_broken(abort_the_engine, isolated=True)
    require_finding(findings, "error", "trial-run", "got the exit code -6 of its process: .*normal_distribution")


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"branches": ()},
        {"num_continuous": 0},
        {"num_continuous": 0, "branches": (4,), "num_ids": 0},
        {"hidden": (), "normaliser": False},
        {"activation": "relu", "squash": "tanh", "layer_norm": False},
    ],
)
def test_check_finds_nothing_in_a_written_model(check_broken, shape):
    assert check_broken(lambda model: None, **shape) == []


def test_check_finds_nothing_in_a_written_model_that_runs_in_its_own_process(check_broken):
    assert check_broken(lambda model: None, isolated=True) == []


# ---- against the role of a world --------------------------------------------------------------


def test_check_accepts_the_role_of_the_world_with_and_without_agent_id(check_broken, world_role):
    role = world_role()
    with_id = dataclasses.replace(role, observation=role.observation.with_agent_id(3))
    assert check_broken(lambda model: None, role) == []
    assert check_broken(lambda model: None, with_id) == []


def test_check_names_the_block_that_differs_from_the_role(check_broken, world_role):
    role = world_role()
    blocks = (*role.observation.blocks[:2], ObservationBlock("lidar", 9, sensor=1))
    findings = check_broken(lambda model: None, dataclasses.replace(role, observation=ObservationLayout(blocks)))
    require_finding(findings, "error", "layout", r"observation block 2: expected 'lidar' \(6 values.*got 'lidar' \(9")
    require_finding(findings, "error", "observation-shape", r"'obs_1': expected the shape \[batch, 9\]")


def test_check_finds_another_action_than_the_role_has(check_broken, world_role):
    role = dataclasses.replace(world_role(), action=ActionSpec(2, (3, 4)))
    findings = check_broken(lambda model: None, role)
    require_finding(findings, "error", "layout", r"branches \(3, 5\), got 2 and \(3, 4\)")
    require_finding(findings, "error", "action-size", r"expected \[3, 4\], got \[3, 5\]")


def test_check_refuses_more_robots_than_the_model_has_ids(check_broken, world_role):
    assert check_broken(lambda model: None, world_role(2)) == []
    findings = check_broken(lambda model: None, world_role(4))
    require_finding(findings, "error", "agent-id", "expected at most 3 robots.*got 4")


def test_require_unity_model_lists_every_error(make_actor, tmp_path):
    model = build_actor_model(make_actor(), scenario_name="dock")
    drop_output("version_number", "memory_size")(model)
    path = tmp_path / "broken.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ExportError, match=r"broken\.onnx: .* got 2 faults:\n.*\[version_number\].*\n.*\[memory_size\]"):
        require_unity_model(path)
