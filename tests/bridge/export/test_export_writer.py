"""The written file: names, shapes, metadata, determinism, and the function it computes."""

import dataclasses
import json

import numpy as np
import onnx
import pytest

from bridge.errors import ExportError
from bridge.export import ActorReference, DenseLayer, write_actor
from bridge.export.contract import ENGINE_ERAS
from bridge.export.metadata import read_metadata
from bridge.export.sessions import open_session
from bridge.export.writer import build_actor_model


def shapes_of(values):
    return {
        value.name: [dim.dim_param or dim.dim_value for dim in value.type.tensor_type.shape.dim] for value in values
    }


def run_file(path, observations, masks, sizes, names):
    bounds = np.cumsum(sizes)[:-1]
    feeds = {f"obs_{i}": part for i, part in enumerate(np.split(observations, bounds, axis=1))}
    if masks is not None:
        feeds["action_masks"] = masks.astype(np.float32)
    return open_session(path.read_bytes(), "test").run(names, feeds)


def test_writer_names_inputs_and_outputs_as_unity_does_for_hybrid_actions(make_actor, tmp_path):
    model = onnx.load(write_actor(make_actor(), tmp_path / "a.onnx", scenario_name="dock"))
    assert shapes_of(model.graph.input) == {
        "obs_0": ["batch", 6],
        "obs_1": ["batch", 6],
        "obs_2": ["batch", 3],
        "action_masks": ["batch", 8],
    }
    assert shapes_of(model.graph.output) == {
        "version_number": [1],
        "memory_size": [1],
        "continuous_actions": ["batch", 2],
        "deterministic_continuous_actions": ["batch", 2],
        "continuous_action_output_shape": [1],
        "discrete_actions": ["batch", 2],
        "deterministic_discrete_actions": ["batch", 2],
        "discrete_action_output_shape": [1, 2],
    }
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.output}
    integers = {name for name, kind in types.items() if kind == onnx.TensorProto.INT64}
    assert integers == {"discrete_actions", "deterministic_discrete_actions"}
    assert (model.ir_version, [(o.domain, o.version) for o in model.opset_import]) == (8, [("", 15)])


@pytest.mark.parametrize(
    ("shape", "absent"),
    [({"branches": ()}, ("action_masks", "discrete")), ({"num_continuous": 0}, ("continuous",))],
)
def test_writer_leaves_out_the_part_that_the_action_lacks(make_actor, tmp_path, shape, absent):
    model = onnx.load(write_actor(make_actor(**shape), tmp_path / "a.onnx", scenario_name="dock"))
    names = [value.name for value in (*model.graph.input, *model.graph.output)]
    assert not [name for name in names for part in absent if part in name]


def test_writer_uses_only_operators_that_every_engine_takes(make_actor):
    model = build_actor_model(make_actor(), scenario_name="dock")
    onnx.checker.check_model(model, full_check=True)
    used = {node.op_type for node in model.graph.node}
    assert all(used <= era.operators for era in ENGINE_ERAS)
    assert "LayerNormalization" not in used


def test_writer_gives_equal_bytes_for_equal_parameters(make_actor, tmp_path):
    first = write_actor(make_actor(), tmp_path / "a.onnx", scenario_name="dock").read_bytes()
    second = write_actor(make_actor(), tmp_path / "b.onnx", scenario_name="dock").read_bytes()
    other = write_actor(make_actor(seed=1), tmp_path / "c.onnx", scenario_name="dock").read_bytes()
    assert first == second != other
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.onnx", "b.onnx", "c.onnx"]


def test_writer_stores_layout_action_and_origin_as_metadata(make_actor):
    actor = make_actor()
    model = build_actor_model(actor, scenario_name="dock", producer_version="9.8.7")
    metadata = read_metadata(model, "test")
    assert metadata is not None
    assert (metadata.version, metadata.scenario, metadata.role) == ("9.8.7", "dock", "carrier")
    assert (metadata.agent_ids, metadata.observation, metadata.action) == (
        actor.agent_ids,
        actor.observation,
        actor.action,
    )
    assert metadata.num_agent_ids == 3
    assert [block.name for block in metadata.own_observation.blocks] == ["self", "target", "lidar"]
    assert (model.producer_name, model.producer_version) == ("agv-bridge", "9.8.7")


def test_metadata_is_refused_when_the_digest_is_another(make_actor):
    model = build_actor_model(make_actor(), scenario_name="dock")
    for entry in model.metadata_props:
        if entry.key == "agv_bridge.observation_digest":
            entry.value = "0" * 16
    with pytest.raises(ExportError, match=r"a\.onnx: expected the layout's digest [0-9a-f]{16}, got 0{16}"):
        read_metadata(model, "a.onnx")


def test_metadata_is_refused_when_incomplete(make_actor):
    model = build_actor_model(make_actor(), scenario_name="dock")
    kept = [entry for entry in model.metadata_props if entry.key != "agv_bridge.action_spec"]
    del model.metadata_props[:]
    model.metadata_props.extend(kept)
    with pytest.raises(ExportError, match="expected the metadata of agv-bridge, got KeyError"):
        read_metadata(model, "a.onnx")


@pytest.mark.parametrize("batch", [1, 3])
def test_written_file_runs_on_zeros_with_everything_forbidden(make_actor, tmp_path, batch):
    actor = make_actor()
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")
    sizes = actor.observation.sensor_sizes
    names = ["continuous_actions", "discrete_actions", "deterministic_discrete_actions"]
    outputs = run_file(path, np.zeros((batch, sum(sizes)), np.float32), np.zeros((batch, 8)), sizes, names)
    assert [output.shape for output in outputs] == [(batch, 2)] * 3
    assert np.isfinite(outputs[0]).all()
    assert (outputs[1] >= 0).all()
    assert (outputs[1] < [3, 5]).all()
    assert (outputs[2] == 0).all()


def test_written_file_takes_the_lowest_index_among_equal_logits(make_actor, tmp_path):
    actor = make_actor(num_continuous=0, branches=(6,))
    flat = DenseLayer(np.zeros_like(actor.discrete_head.weight), np.zeros(6, np.float32))
    path = write_actor(dataclasses.replace(actor, discrete_head=flat), tmp_path / "a.onnx", scenario_name="dock")
    masks = np.array([[0, 0, 1, 0, 1, 1], [1, 1, 1, 1, 1, 1], [0, 1, 0, 0, 0, 1]])
    observations = np.ones((3, actor.observation.size), np.float32)
    sizes = actor.observation.sensor_sizes
    (best,) = run_file(path, observations, masks, sizes, ["deterministic_discrete_actions"])
    assert best.tolist() == [[2], [0], [1]]


def test_written_layer_norm_and_normaliser_match_a_value_worked_by_hand(make_actor, tmp_path):
    """One hidden layer of two units: the layer norm makes (+1, -1) of any two numbers that differ enough."""
    actor = make_actor(num_continuous=1, branches=(), hidden=(2,), num_ids=0, activation="relu")
    size = actor.observation.size
    weight = np.zeros((2, size), np.float32)
    weight[0, 0] = 100.0
    actor = dataclasses.replace(
        actor,
        normaliser_mean=np.full(size, 1.0, np.float32),
        normaliser_std=np.full(size, 2.0, np.float32),
        normaliser_clip=3.0,
        hidden=(
            DenseLayer(weight, np.zeros(2, np.float32), np.array([0.5, 7.0], np.float32), np.zeros(2, np.float32)),
        ),
        norm_epsilon=1e-12,
        continuous_head=DenseLayer(np.array([[0.5, 1.0]], np.float32), np.array([0.125], np.float32)),
    )
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")
    observations = np.full((1, size), 1.0, np.float32)
    observations[0, 0] = 50.0
    (action,) = run_file(path, observations, None, actor.observation.sensor_sizes, ["deterministic_continuous_actions"])
    # normalised and clipped to 3; affine (300, 0); normed (1, -1); gained (0.5, -7); relu (0.5, 0); 0.25 + 0.125
    assert action[0, 0] == pytest.approx(0.375, abs=1e-6)
    assert ActorReference(actor)(observations, np.zeros((1, 0), bool)).continuous[0, 0] == pytest.approx(0.375, 1e-6)


@pytest.mark.parametrize("squash", ["clip", "tanh"])
def test_written_actions_stay_in_range_whatever_the_noise(make_actor, tmp_path, squash):
    actor = dataclasses.replace(make_actor(squash=squash, branches=()), log_std=np.array([3.0, 3.0], np.float32))
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")
    observations = np.random.default_rng(0).standard_normal((500, actor.observation.size)).astype(np.float32)
    (actions,) = run_file(path, observations, None, actor.observation.sensor_sizes, ["continuous_actions"])
    assert np.abs(actions).max() <= 1.0
    assert actions.std() > 0.5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda a: {"normaliser_std": None},
            r"normaliser_std: expected a float32 array of shape \(15,\), got nothing",
        ),
        (lambda a: {"normaliser_std": np.zeros(15, np.float32)}, r"normaliser_std: expected values > 0, got 0\.0"),
        (lambda a: {"normaliser_clip": 0.0}, r"normaliser_clip: expected a number > 0, got 0\.0"),
        (
            lambda a: {"normaliser_mean": np.zeros(14, np.float32)},
            r"normaliser_mean: expected .* \(15,\), got .* \(14,\)",
        ),
        (lambda a: {"hidden": a.hidden[1:]}, r"hidden\[0\]\.weight: expected .* \(12, 15\), got .* \(12, 16\)"),
        (
            lambda a: {"hidden": (dataclasses.replace(a.hidden[0], norm_bias=None), a.hidden[1])},
            r"hidden\[0\]\.norm_bias: expected .* got nothing",
        ),
        (lambda a: {"log_std": None}, r"log_std: expected a float32 array of shape \(2,\), got nothing"),
        (lambda a: {"log_std": np.zeros(2)}, r"log_std: expected a float32 array .* got a float64 array"),
        (lambda a: {"log_std": np.array([0, np.nan], np.float32)}, r"log_std: expected finite values, got 1 that"),
        (lambda a: {"discrete_head": None}, r"discrete_head: expected a float32 array .* got nothing"),
        (
            lambda a: {"action": dataclasses.replace(a.action, num_continuous=0)},
            r"continuous_head: expected nothing, got an array of shape \(2, 12\)",
        ),
    ],
)
def test_writer_refuses_arrays_that_do_not_fit(make_actor, tmp_path, change, message):
    actor = make_actor()
    with pytest.raises(ExportError, match=rf"export of role 'carrier': {message}"):
        write_actor(dataclasses.replace(actor, **change(actor)), tmp_path / "a.onnx", scenario_name="dock")
    assert not list(tmp_path.iterdir())


def test_writer_refuses_an_agent_id_that_is_not_the_last_sensor(make_actor, tmp_path):
    actor = make_actor()
    blocks = list(actor.observation.blocks)
    layout = json.loads(json.dumps([dataclasses.asdict(block) for block in (blocks[3], *blocks[:3])]))
    for block, sensor in zip(layout, (0, 1, 1, 2), strict=True):
        block["sensor"] = sensor
    moved = dataclasses.replace(actor, observation=type(actor.observation).from_json(layout))
    with pytest.raises(ExportError, match="expected the block 'agent_id' in a sensor of its own after all others"):
        write_actor(moved, tmp_path / "a.onnx", scenario_name="dock")


def test_writer_refuses_an_observation_that_is_a_picture(make_actor, tmp_path):
    actor = make_actor()
    layout = [dataclasses.asdict(block) for block in actor.observation.blocks]
    layout[0]["shape"] = [1, layout[0]["size"]]
    seeing = dataclasses.replace(actor, observation=type(actor.observation).from_json(layout))
    with pytest.raises(ExportError, match=r"expected vectors as observations, got the block .* of shape \(1, "):
        write_actor(seeing, tmp_path / "a.onnx", scenario_name="dock")
    assert not list(tmp_path.iterdir())
