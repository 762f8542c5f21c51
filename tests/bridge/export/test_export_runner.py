"""The decentralised runner: each robot from its own observation, and only where asked."""

import dataclasses

import numpy as np
import onnx
import pytest

from bridge.errors import ExportError, SpecMismatchError
from bridge.export import ActorReference, ActorSession, OnnxFleetPolicy, export_policy
from bridge.roster import RosterArrays
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, WorldSpec


def filled(spec, num_envs=4, seed=0):
    """Arrays with random observations and masks, a third of the robots not asked, and poison where nobody writes."""
    rng = np.random.default_rng(seed)
    arrays = RosterArrays.allocate(spec, num_envs)
    for role in spec.roles:
        values = arrays.roles[role.name]
        values.observations[:] = rng.standard_normal(values.observations.shape)
        values.decision_mask[:] = rng.random(values.decision_mask.shape) < 0.67
        values.action_mask[:] = rng.random(values.action_mask.shape) < 0.5
        start = 0
        for size in role.action.discrete_branches:
            values.action_mask[..., start] = True
            start += size
        values.continuous_actions[:] = np.nan
        values.discrete_actions[:] = -1
    arrays.state[:] = np.nan
    return arrays


def expected(actor, values, slots, num_ids):
    """The reference's deterministic actions, (E, A, C) and (E, A, B)."""
    num_envs, num_slots, _ = values.observations.shape
    observations = values.observations
    if num_ids:
        ids = np.broadcast_to(np.eye(num_ids, dtype=np.float32)[slots], (num_envs, num_slots, num_ids))
        observations = np.concatenate((observations, ids), axis=2)
    # (E, A, F) -> (E*A, F)
    outputs = ActorReference(actor)(
        observations.reshape(num_envs * num_slots, -1), values.action_mask.reshape(num_envs * num_slots, -1)
    )
    shape = (num_envs, num_slots, -1)
    return outputs.continuous.reshape(shape), outputs.discrete.reshape(shape)


@pytest.fixture
def spec(world_role):
    return WorldSpec((world_role(3),), state_size=5)


@pytest.fixture
def shared_folder(make_actor, tmp_path):
    export_policy([make_actor()], tmp_path / "shared", scenario_name="dock", num_samples=10)
    return tmp_path / "shared"


@pytest.mark.parametrize("batched", [False, True])
def test_runner_writes_the_actions_of_the_policy_for_asked_robots_only(make_actor, shared_folder, spec, batched):
    policy = OnnxFleetPolicy(shared_folder, spec, batched=batched)
    arrays = filled(spec)
    values = arrays.roles["carrier"]
    policy.act(arrays)
    continuous, discrete = expected(make_actor(), values, [0, 1, 2], 3)
    asked = values.decision_mask
    assert 0 < asked.sum() < asked.size
    np.testing.assert_allclose(values.continuous_actions[asked], continuous[asked], atol=1e-5)
    np.testing.assert_array_equal(values.discrete_actions[asked], discrete[asked])
    assert np.isnan(values.continuous_actions[~asked]).all()
    assert (values.discrete_actions[~asked] == -1).all()


def test_runner_gives_the_same_actions_batched_as_alone(shared_folder, spec):
    alone, together = filled(spec, num_envs=64), filled(spec, num_envs=64)
    OnnxFleetPolicy(shared_folder, spec).act(alone)
    OnnxFleetPolicy(shared_folder, spec, batched=True).act(together)
    np.testing.assert_array_equal(alone.roles["carrier"].discrete_actions, together.roles["carrier"].discrete_actions)
    np.testing.assert_allclose(
        alone.roles["carrier"].continuous_actions, together.roles["carrier"].continuous_actions, rtol=0, atol=1e-6
    )


@pytest.mark.parametrize("batched", [False, True])
def test_runner_lets_no_robot_see_another(shared_folder, spec, batched):
    """Whatever the others observe, and whatever the state is, a robot acts alike."""
    policy = OnnxFleetPolicy(shared_folder, spec, batched=batched)
    first, second = filled(spec, seed=0), filled(spec, seed=1)
    for arrays in (first, second):
        arrays.roles["carrier"].decision_mask[:] = True
    for name in ("observations", "action_mask"):
        getattr(second.roles["carrier"], name)[:, 1] = getattr(first.roles["carrier"], name)[:, 1]
    second.state[:] = 7.0
    policy.act(first)
    policy.act(second)
    before, after = first.roles["carrier"], second.roles["carrier"]
    np.testing.assert_allclose(before.continuous_actions[:, 1], after.continuous_actions[:, 1], rtol=0, atol=1e-6)
    np.testing.assert_array_equal(before.discrete_actions[:, 1], after.discrete_actions[:, 1])
    assert (before.continuous_actions[:, 0] != after.continuous_actions[:, 0]).any()


def test_runner_opens_a_session_for_every_robot(shared_folder, spec, monkeypatch):
    """Each session is given one row, and its robot's id is the only one set."""
    given = []
    act = ActorSession.act

    def record(self, observations, action_masks, slots):
        given.append((id(self), observations.shape, action_masks.shape, slots.tolist()))
        return act(self, observations, action_masks, slots)

    monkeypatch.setattr(ActorSession, "act", record)
    arrays = filled(spec, num_envs=2)
    arrays.roles["carrier"].decision_mask[:] = True
    OnnxFleetPolicy(shared_folder, spec).act(arrays)
    assert len(given) == 6
    assert {(observations, masks) for _, observations, masks, _ in given} == {((1, 12), (1, 8))}
    sessions = {session: slots for session, _, _, slots in given}
    assert sorted(sessions.values()) == [[0], [1], [2]]


def test_runner_drives_each_robot_with_its_own_network(make_actor, tmp_path, world_role):
    actors = [make_actor(seed=i, num_ids=0, agent_ids=(f"carrier_{i}",)) for i in range(3)]
    export_policy(actors, tmp_path / "own", scenario_name="dock", num_samples=10)
    for num_slots in (3, 2):
        spec = WorldSpec((world_role(num_slots),))
        arrays = filled(spec)
        values = arrays.roles["carrier"]
        values.decision_mask[:] = True
        OnnxFleetPolicy(tmp_path / "own", spec).act(arrays)
        for slot in range(num_slots):
            continuous, _ = expected(actors[slot], values, None, 0)
            np.testing.assert_allclose(values.continuous_actions[:, slot], continuous[:, slot], atol=1e-5)
    with pytest.raises(SpecMismatchError, match=r"of their own \(carrier_0, .*got carrier_3\. Use a fleet of"):
        OnnxFleetPolicy(tmp_path / "own", WorldSpec((world_role(4),)))


@pytest.mark.parametrize("shape", [{"branches": ()}, {"num_continuous": 0}])
def test_runner_drives_roles_with_one_kind_of_action(make_actor, tmp_path, world_role, shape):
    actor = make_actor(role="lifter", **shape)
    export_policy([make_actor(), actor], tmp_path / "two", scenario_name="dock", num_samples=10)
    spec = WorldSpec((world_role(2), world_role(3, "lifter", actor)))
    arrays = filled(spec)
    OnnxFleetPolicy(tmp_path / "two", spec).act(arrays)
    values = arrays.roles["lifter"]
    continuous, discrete = expected(actor, values, [0, 1, 2], 3)
    asked = values.decision_mask
    np.testing.assert_allclose(values.continuous_actions[asked], continuous[asked], atol=1e-5)
    np.testing.assert_array_equal(values.discrete_actions[asked], discrete[asked])


def test_runner_samples_allowed_actions_and_repeats_them_for_equal_seeds(shared_folder, spec):
    drawn = []
    for seed in (1, 1, 2, None):
        arrays = filled(spec, num_envs=50)
        OnnxFleetPolicy(shared_folder, spec, deterministic=False, seed=seed).act(arrays)
        values = arrays.roles["carrier"]
        asked = values.decision_mask
        drawn.append((values.discrete_actions[asked].copy(), values.continuous_actions[asked].copy()))
        for branch, first in enumerate((0, 3)):
            chosen = values.discrete_actions[asked][:, branch] + first
            assert np.take_along_axis(values.action_mask[asked], chosen[:, None], axis=1).all()
    np.testing.assert_array_equal(drawn[0][0], drawn[1][0])
    np.testing.assert_array_equal(drawn[0][1], drawn[1][1])
    assert (drawn[0][0] != drawn[2][0]).any()
    assert (drawn[0][1] != drawn[3][1]).any()


def test_runner_gives_robots_of_one_seed_different_noise(make_actor, tmp_path, world_role):
    export_policy([make_actor(num_ids=0)], tmp_path / "p", scenario_name="dock", num_samples=10)
    spec = WorldSpec((world_role(3),))
    arrays = filled(spec, num_envs=1)
    values = arrays.roles["carrier"]
    values.decision_mask[:] = True
    values.observations[:] = 0.0
    OnnxFleetPolicy(tmp_path / "p", spec, deterministic=False, seed=0).act(arrays)
    assert len({row.tobytes() for row in values.continuous_actions[0]}) == 3


def test_runner_drives_any_number_of_robots_without_agent_id(make_actor, tmp_path, world_role):
    actor = make_actor(num_ids=0, agent_ids=("carrier_0",))
    export_policy([actor], tmp_path / "p", scenario_name="dock", num_samples=10)
    spec = WorldSpec((world_role(7),))
    arrays = filled(spec)
    OnnxFleetPolicy(tmp_path / "p", spec).act(arrays)
    values = arrays.roles["carrier"]
    continuous, _ = expected(actor, values, None, 0)
    asked = values.decision_mask
    np.testing.assert_allclose(values.continuous_actions[asked], continuous[asked], atol=1e-5)


# ---- what does not fit ------------------------------------------------------------------------


def test_runner_refuses_a_larger_fleet_than_the_model_has_ids_for(shared_folder, world_role):
    OnnxFleetPolicy(shared_folder, WorldSpec((world_role(2),)))
    with pytest.raises(SpecMismatchError, match="expected at most 3 robots, for the model knows each by its id, got 4"):
        OnnxFleetPolicy(shared_folder, WorldSpec((world_role(4),)))


def test_runner_names_the_first_block_that_differs(shared_folder, world_role):
    role = world_role(3)
    blocks = (role.observation.blocks[0], ObservationBlock("goal", 2), role.observation.blocks[2])
    spec = WorldSpec((dataclasses.replace(role, observation=ObservationLayout(blocks)),))
    with pytest.raises(
        SpecMismatchError, match=r"carrier\.onnx: role 'carrier': observation block 1: .*'target'.*'goal'"
    ):
        OnnxFleetPolicy(shared_folder, spec)


def test_runner_refuses_another_action(shared_folder, world_role):
    role = dataclasses.replace(world_role(3), action=ActionSpec(1, (3, 5)))
    with pytest.raises(SpecMismatchError, match=r"expected 2 continuous values .* got 1"):
        OnnxFleetPolicy(shared_folder, WorldSpec((role,)))


def test_runner_refuses_a_role_without_a_model(shared_folder, world_role):
    with pytest.raises(SpecMismatchError, match=r"role 'crane': expected a model of one of the roles \['carrier'\]"):
        OnnxFleetPolicy(shared_folder, WorldSpec((world_role(3, "crane"),)))


def test_actor_session_refuses_a_model_without_metadata(shared_folder):
    model = onnx.load(shared_folder / "carrier.onnx")
    del model.metadata_props[:]
    with pytest.raises(ExportError, match="x: expected a model written by agv-bridge, got one without its metadata"):
        ActorSession(model.SerializeToString(), "x")
    with pytest.raises(ExportError, match="x: expected an ONNX model, got bytes that are none"):
        ActorSession(b"nothing", "x")
