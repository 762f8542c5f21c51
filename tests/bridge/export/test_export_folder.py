"""The exported folder: names, manifest, all or nothing."""

import dataclasses
import json

import numpy as np
import pytest

from bridge.errors import ExportError
from bridge.export import ActorReference, check_model, export_policy, load_exported
from bridge.export.manifest import MANIFEST_NAME, file_names


def test_export_writes_one_file_per_role_and_a_manifest(make_actor, tmp_path):
    actors = [make_actor(role="carrier"), make_actor(role="lifter", num_continuous=0, num_ids=0)]
    paths = export_policy(actors, tmp_path / "out" / "policy", scenario_name="dock", num_samples=500)
    folder = tmp_path / "out" / "policy"
    assert paths == [folder / "carrier.onnx", folder / "lifter.onnx"]
    assert sorted(path.name for path in folder.iterdir()) == ["carrier.onnx", "lifter.onnx", "manifest.json"]
    assert list((tmp_path / "out").iterdir()) == [folder], "no staging folder is left"
    fleet = load_exported(folder)
    assert (fleet.scenario, [file.role for file in fleet.files]) == ("dock", ["carrier", "lifter"])
    assert fleet.files_of("lifter")[0].agent_ids == ("lifter_0", "lifter_1", "lifter_2")
    assert fleet.files_of("carrier")[0].observation_digest == actors[0].observation.digest
    assert fleet.files_of("crane") == ()
    assert all(check_model(path) == [] for path in paths)


def test_export_writes_one_file_per_robot_when_each_has_its_own_network(make_actor, tmp_path):
    actors = [make_actor(seed=i, num_ids=0, agent_ids=(f"carrier_{i}",)) for i in range(3)]
    paths = export_policy(actors, tmp_path, scenario_name="dock", num_samples=100)
    assert [path.name for path in paths] == ["carrier_0.onnx", "carrier_1.onnx", "carrier_2.onnx"]


def test_export_gives_equal_folders_for_equal_networks(make_actor, tmp_path):
    for name in ("a", "b"):
        export_policy([make_actor()], tmp_path / name, scenario_name="dock", num_samples=100)
    for name in ("carrier.onnx", MANIFEST_NAME):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()


def test_export_leaves_the_folder_as_it_was_when_one_file_differs_from_its_policy(make_actor, tmp_path):
    folder = tmp_path / "policy"
    export_policy([make_actor(seed=1)], folder, scenario_name="dock", num_samples=100)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    actors = [make_actor(seed=2), make_actor(role="lifter")]

    def policy_of(actor):
        return ActorReference(actor if actor.role == "carrier" else make_actor(role="lifter", seed=9))

    with pytest.raises(ExportError, match=r"lifter\.onnx: expected the actions of the policy on 100 random"):
        export_policy(actors, folder, scenario_name="dock", num_samples=100, policy_outputs=policy_of)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert list(tmp_path.iterdir()) == [folder]


def test_export_refuses_parameters_that_are_not_finite(make_actor, tmp_path):
    actor = dataclasses.replace(make_actor(), log_std=np.array([np.inf, 0], np.float32))
    with pytest.raises(ExportError, match="export of role 'carrier': log_std: expected finite values"):
        export_policy([actor], tmp_path / "policy", scenario_name="dock")
    assert not list(tmp_path.iterdir())


def test_export_refuses_no_networks(tmp_path):
    with pytest.raises(ExportError, match="expected at least one network, got none"):
        export_policy([], tmp_path, scenario_name="dock")


def test_file_names_replace_what_a_file_system_may_not_take():
    assert file_names([("Push Block?team=0", ("a", "b")), ("../x", ("c",))]) == ["Push_Block_team_0.onnx", "___x.onnx"]


def test_file_names_are_refused_when_they_collide():
    with pytest.raises(ExportError, match=r"expected a file name for each network, got 'A_b\.onnx' twice"):
        file_names([("A b", ("x", "y")), ("a.B", ("z", "w"))])


def test_file_names_are_refused_for_several_networks_that_share_robots():
    with pytest.raises(ExportError, match="expected one network for all robots or one for each, got 2 networks"):
        file_names([("carrier", ("carrier_0",)), ("carrier", ("carrier_1", "carrier_2"))])


@pytest.fixture
def exported(make_actor, tmp_path):
    export_policy([make_actor()], tmp_path, scenario_name="dock", num_samples=10)
    return tmp_path


def test_load_exported_refuses_a_folder_without_manifest(tmp_path):
    with pytest.raises(ExportError, match=r"expected a folder with exported policies \(manifest\.json\), got none"):
        load_exported(tmp_path)


def test_load_exported_refuses_a_changed_or_missing_file(exported):
    path = exported / "carrier.onnx"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ExportError, match=r"carrier\.onnx: expected the file that was exported"):
        load_exported(exported)
    path.unlink()
    with pytest.raises(ExportError, match=r"carrier\.onnx: expected a readable file, got: No such file"):
        load_exported(exported)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m["files"][0].update(file="../carrier.onnx"), "files.0.file: String should match pattern"),
        (lambda m: m["files"][0].update(file="/etc/passwd"), "files.0.file: String should match pattern"),
        (lambda m: m["files"][0].pop("sha256"), "files.0.sha256: Field required"),
        (lambda m: m.update(format=2), "format: Input should be 1"),
        (lambda m: m.update(files=[]), "files: Tuple should have at least 1 item"),
        (lambda m: m.update(more=1), "more: Extra inputs are not permitted"),
    ],
)
def test_load_exported_refuses_a_damaged_manifest(exported, change, message):
    path = exported / MANIFEST_NAME
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    with pytest.raises(ExportError, match=rf"manifest\.json: expected a manifest of format 1, got: {message}"):
        load_exported(exported)


def test_load_exported_refuses_a_manifest_that_is_no_json(exported):
    (exported / MANIFEST_NAME).write_text("{")
    with pytest.raises(ExportError, match="expected a manifest of format 1, got: file: Invalid JSON"):
        load_exported(exported)
