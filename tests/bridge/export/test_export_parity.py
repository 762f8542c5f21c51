"""The comparison of a file with its policy: it passes on sound files and fails on every kind of wrong one."""

import dataclasses

import numpy as np
import pytest
from onnx import helper

from bridge.errors import ExportError
from bridge.export import ActorReference, DenseLayer, PolicyOutputs, check_parity, write_actor
from bridge.export.distribution import choice_faults, gaussian_faults
from bridge.export.parity import require_parity
from bridge.export.probes import random_masks, random_observations
from bridge.export.writer import build_actor_model
from bridge.specs import ActionSpec

SHAPES = [
    {},
    {"branches": ()},
    {"num_continuous": 0, "branches": (5,)},
    {"num_continuous": 0, "branches": (2, 1, 4), "num_ids": 0, "normaliser": False},
    {"activation": "relu", "squash": "tanh", "hidden": (64, 64), "layer_norm": False},
    {"hidden": ()},
]


@pytest.mark.parametrize("shape", SHAPES)
def test_parity_passes_for_a_written_file_on_ten_thousand_observations(make_actor, tmp_path, shape):
    actor = make_actor(**shape)
    report = check_parity(write_actor(actor, tmp_path / "a.onnx", scenario_name="dock"), actor)
    assert report.passed
    assert report.num_samples == 10_000
    assert 0 < report.max_difference <= 1e-5
    assert (report.num_argmax_differences, report.num_rounding_ties, report.faults) == (0, 0, ())


def test_parity_gives_equal_reports_for_equal_seeds(make_actor, tmp_path):
    actor = make_actor()
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")
    first, again, other = (check_parity(path, actor, num_samples=200, seed=seed) for seed in (1, 1, 2))
    assert first == again != other


def test_parity_counts_exact_ties_and_both_take_the_lowest_index(make_actor, tmp_path):
    actor = make_actor(num_continuous=0, branches=(6,))
    flat = DenseLayer(np.zeros_like(actor.discrete_head.weight), np.zeros(6, np.float32))
    actor = dataclasses.replace(actor, discrete_head=flat)
    report = check_parity(write_actor(actor, tmp_path / "a.onnx", scenario_name="dock"), actor, num_samples=500)
    assert report.passed
    assert report.num_ties > 300
    assert (report.num_argmax_differences, report.num_rounding_ties) == (0, 0)


def test_parity_fails_for_the_file_of_another_policy(make_actor, tmp_path):
    path = write_actor(make_actor(seed=1), tmp_path / "a.onnx", scenario_name="dock")
    report = check_parity(path, make_actor(seed=2), num_samples=500)
    assert not report.passed
    assert report.max_difference > 0.1
    assert report.num_argmax_differences > 100
    with pytest.raises(ExportError, match=r"a\.onnx: expected the actions of the policy on 500 .*other choices"):
        require_parity(path, report)


def test_parity_compares_with_any_given_policy(make_actor, tmp_path):
    actor = make_actor()
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")
    seen = []

    def policy(observations, masks):
        outputs = ActorReference(actor)(observations, masks)
        seen.append((observations.shape, observations.dtype, masks.shape, masks.dtype))
        # What a policy says of forbidden choices does not matter.
        return dataclasses.replace(outputs, logits=np.where(masks, outputs.logits, -np.inf).astype(np.float32))

    assert check_parity(path, actor, num_samples=300, policy_outputs=policy).passed
    assert seen == [((300, actor.observation.size), np.float32, (300, 8), np.bool_)]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        (lambda o: {"continuous_mean": o.continuous_mean + np.float32(1e-3)}, "max_scaled_difference"),
        (lambda o: {"continuous": o.continuous * np.float32(0.99)}, "max_scaled_difference"),
        (lambda o: {"logits": o.logits + np.float32(1e-3)}, "max_scaled_difference"),
        (lambda o: {"continuous": np.full_like(o.continuous, np.nan)}, "max_scaled_difference"),
        (lambda o: {"discrete": (o.discrete + 1) % [3, 5]}, "num_argmax_differences"),
    ],
)
def test_parity_fails_when_one_output_differs(make_actor, tmp_path, change, field):
    actor = make_actor()
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")

    def policy(observations, masks):
        outputs = ActorReference(actor)(observations, masks)
        return dataclasses.replace(outputs, **change(outputs))

    report = check_parity(path, actor, num_samples=300, policy_outputs=policy)
    assert not report.passed
    limit = report.tolerance if field == "max_scaled_difference" else 0
    assert not getattr(report, field) <= limit


def test_parity_excuses_a_choice_that_only_rounding_decides_and_no_exact_tie(make_actor, tmp_path):
    """The policy prefers the second choice by less than float32 can tell; then it prefers it without reason."""
    actor = make_actor(num_continuous=0, branches=(2,), hidden=())
    head = DenseLayer(np.zeros_like(actor.discrete_head.weight), np.array([1.0, 1.0], np.float32))
    actor = dataclasses.replace(actor, discrete_head=head)
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")

    def policy(gap):
        def outputs(observations, masks):
            found = ActorReference(actor)(observations, masks)
            logits = found.logits + np.array([0, gap], np.float32)
            second = np.where(masks[:, 1], 1, 0)[:, None]
            return dataclasses.replace(found, logits=logits, discrete=second)

        return outputs

    near = check_parity(path, actor, num_samples=200, policy_outputs=policy(1e-6))
    assert near.passed
    assert near.num_rounding_ties > 100
    tie = check_parity(path, actor, num_samples=200, policy_outputs=policy(0.0))
    assert not tie.passed
    assert tie.num_argmax_differences == tie.num_ties > 100


def change_node(model, output, operator=None, **attributes):
    node = next(node for node in model.graph.node if output in node.output)
    if operator:
        node.op_type = operator
    for name, value in attributes.items():
        kept = [attribute for attribute in node.attribute if attribute.name != name]
        del node.attribute[:]
        node.attribute.extend([*kept, helper.make_attribute(name, value)])


def rewire(model, output, old, new):
    node = next(node for node in model.graph.node if output in node.output)
    node.input[:] = [new if name == old else name for name in node.input]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: change_node(m, "standard_noise", scale=2.0), "expected a deviation of"),
        (lambda m: change_node(m, "standard_noise", mean=0.5), "expected samples around"),
        (lambda m: rewire(m, "continuous_actions", "action_sample", "action_mean"), "expected the samples squashed by"),
        (
            lambda m: rewire(m, "branch_1_sample", "branch_1_log_probs", "branch_1_probs"),
            "branch 1: expected counts near",
        ),
        (lambda m: rewire(m, "branch_1", "masked_logits", "action_logits"), "branch 1: expected allowed choices only"),
    ],
)
def test_parity_finds_a_wrong_distribution(make_actor, tmp_path, change, message):
    model = build_actor_model(make_actor(), scenario_name="dock")
    at = [node.name for node in model.graph.node].index("branch_1_log_probs")
    model.graph.node.insert(at, helper.make_node("Softmax", ["branch_1"], ["branch_1_probs"], axis=1))
    change(model)
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    report = check_parity(path, make_actor(), num_samples=50)
    assert not report.passed
    with pytest.raises(ExportError, match=rf"observation \d: .*{message}"):
        require_parity(path, report)


def test_parity_refuses_a_model_of_another_program(make_actor, tmp_path):
    model = build_actor_model(make_actor(branches=()), scenario_name="dock")
    for node in model.graph.node:
        node.input[:] = ["m" if name == "action_mean" else name for name in node.input]
        node.output[:] = ["m" if name == "action_mean" else name for name in node.output]
    path = tmp_path / "a.onnx"
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ExportError, match="expected a model that agv-bridge wrote, got one without action_mean"):
        check_parity(path, make_actor(branches=()))


def test_parity_refuses_a_policy_of_another_shape(make_actor, tmp_path):
    actor = make_actor()
    path = write_actor(actor, tmp_path / "a.onnx", scenario_name="dock")

    def policy(observations, masks):
        outputs = ActorReference(actor)(observations, masks)
        return dataclasses.replace(outputs, logits=outputs.logits[:, :5])

    with pytest.raises(ExportError, match=r"expected outputs of shape \(100, 8\) from the policy, got \(100, 5\)"):
        check_parity(path, actor, num_samples=100, policy_outputs=policy)


def test_reference_gives_arrays_of_width_zero_for_what_the_action_lacks(make_actor):
    outputs = ActorReference(make_actor(branches=()))(np.zeros((4, 15), np.float32), np.zeros((4, 0), bool))
    assert isinstance(outputs, PolicyOutputs)
    assert (outputs.logits.shape, outputs.discrete.shape, outputs.continuous.shape) == ((4, 0), (4, 0), (4, 2))


def test_reference_never_chooses_a_forbidden_action(make_actor):
    actor = make_actor()
    rng = np.random.default_rng(0)
    masks = random_masks(actor.action, 1000, rng)
    chosen = ActorReference(actor)(random_observations(actor, 1000, rng), masks).discrete
    allowed = np.stack([masks[:, :3][np.arange(1000), chosen[:, 0]], masks[:, 3:][np.arange(1000), chosen[:, 1]]])
    assert allowed.all()
    assert ActorReference(actor)(np.ones((1, 15), np.float32), np.zeros((1, 8), bool)).discrete.tolist() == [[0, 0]]


def test_random_masks_allow_something_and_vary(make_actor):
    masks = random_masks(ActionSpec(0, (3, 5)), 2000, np.random.default_rng(0))
    assert masks[:, :3].any(axis=1).all()
    assert masks[:, 3:].any(axis=1).all()
    assert {int(row.sum()) for row in masks} == set(range(2, 9))


def test_random_observations_keep_to_ranges_and_one_hot_ids(make_actor):
    actor = make_actor(normaliser=False)
    rows = random_observations(actor, 500, np.random.default_rng(0))
    assert rows.dtype == np.float32
    assert not rows[0, :12].any()
    assert np.abs(rows[:, :4]).max() <= 2.0
    assert rows[:, 6:12].min() >= 0.0
    assert (rows[:, 12:].sum(axis=1) == 1.0).all()
    wide = random_observations(make_actor(), 500, np.random.default_rng(0))
    assert np.abs(wide[:, :4]).max() > 2.0, "the clip of the normaliser is reached"
    assert (wide[:, 12:].sum(axis=1) == 1.0).all()


def test_distribution_accepts_right_samples_and_names_wrong_ones():
    rng = np.random.default_rng(0)
    mean, log_std = np.array([0.3, -2.0], np.float32), np.array([0.0, -3.0], np.float32)
    samples = (mean + np.exp(log_std) * rng.standard_normal((4000, 2))).astype(np.float32)
    assert list(gaussian_faults(samples, mean, log_std)) == []
    assert [f[:21] for f in gaussian_faults(samples, mean, log_std + np.float32([0, 0.3]))] == ["continuous action 1: "]
    logits = np.array([0.0, 1.0, -8.0, 2.0], np.float32)
    allowed = np.array([True, True, True, False])
    weights = np.exp(logits) * allowed
    choices = rng.choice(4, size=(4000, 1), p=weights / weights.sum())
    assert list(choice_faults(choices, logits, allowed, (4,))) == []
    assert "got 4000 forbidden" in next(iter(choice_faults(np.full((4000, 1), 3), logits, allowed, (4,))))
    assert "expected choices 0 to 3" in next(iter(choice_faults(np.full((4000, 1), 4), logits, allowed, (4,))))
    rare = np.full((4000, 1), 2)
    assert "expected counts near" in next(iter(choice_faults(rare, logits, allowed, (4,))))
