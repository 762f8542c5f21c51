from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import CheckpointError
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from trainers.checkpoint import CHECKPOINT_VERSION, Checkpoint, load_checkpoint, save_checkpoint, write_atomically


def checkpoint() -> Checkpoint:
    layout = ObservationLayout((ObservationBlock("self", 2, fields=("x", "y"), low=-1.0), ObservationBlock("far", 3)))
    role = RoleSpec("carrier", ("carrier_0", "carrier_1"), layout, ActionSpec(1, (5, 2), ("v", "move", "lift")))
    return Checkpoint(
        spec=WorldSpec((role,), 4, (MetricSpec("deliveries_per_h", "loads", True),), 0.5),
        config={"gamma": 0.99, "hidden_sizes": [64, 64]},
        update=3,
        env_steps=300,
        decisions=900,
        seconds=1.5,
        best_return=None,
        learner={
            "weights": np.arange(6, dtype=np.float32).reshape(2, 3),
            "optimizer": [{}, {"step": np.array(3.0, np.float32)}],
            "count": 7,
            "nothing": None,
        },
        episodes={"returns": np.zeros((0, 1))},
    )


def test_checkpoint_comes_back_as_it_was(tmp_path: Path) -> None:
    saved = checkpoint()
    save_checkpoint(tmp_path / "latest.npz", saved)
    loaded = load_checkpoint(tmp_path / "latest.npz")
    assert replace(loaded, learner={}, episodes={}) == replace(saved, learner={}, episodes={})
    np.testing.assert_array_equal(loaded.learner["weights"], saved.learner["weights"])
    assert loaded.learner["weights"].dtype == np.float32
    assert loaded.learner["optimizer"][0] == {}
    assert loaded.learner["optimizer"][1]["step"] == 3.0
    assert (loaded.learner["count"], loaded.learner["nothing"]) == (7, None)
    assert loaded.episodes["returns"].shape == (0, 1)


def test_checkpoint_holds_no_pickle(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "latest.npz", checkpoint())
    with np.load(tmp_path / "latest.npz", allow_pickle=False) as archive:
        assert all(archive[name].dtype != object for name in archive.files)


def test_writing_leaves_the_old_file_when_it_is_broken_off(tmp_path: Path) -> None:
    path = tmp_path / "latest.npz"
    save_checkpoint(path, checkpoint())
    before = path.read_bytes()

    class PowerCutError(Exception):
        pass

    def write_half() -> None:
        with write_atomically(path) as file:
            file.write(b"half a checkpoint")
            raise PowerCutError

    with pytest.raises(PowerCutError):
        write_half()
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir()] == ["latest.npz"]


def test_loading_raises_when_there_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="expected a checkpoint, got no file"):
        load_checkpoint(tmp_path / "latest.npz")


@pytest.mark.parametrize("size", [0, 10, 400])
def test_loading_raises_when_the_file_was_cut_short(tmp_path: Path, size: int) -> None:
    path = tmp_path / "latest.npz"
    save_checkpoint(path, checkpoint())
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(CheckpointError, match="got a damaged or foreign file"):
        load_checkpoint(path)


def test_loading_does_not_advise_to_unpickle_when_the_file_is_foreign(tmp_path: Path) -> None:
    (tmp_path / "latest.npz").write_text("hello")
    with pytest.raises(CheckpointError, match=r"got a damaged or foreign file \(it is no archive") as caught:
        load_checkpoint(tmp_path / "latest.npz")
    assert "pickle" not in str(caught.value)


def rewrite(path: Path, **changes: Any) -> None:
    with np.load(path) as archive:
        members = {name: archive[name] for name in archive.files}
    header = json.loads(members["header.json"].tobytes()) | {k: v for k, v in changes.items() if k != "array"}
    members["header.json"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    if "array" in changes:
        members["learner/weights"] = members["learner/weights"] + 1.0
    np.savez(path, **members)


def test_loading_raises_when_the_version_is_another(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "latest.npz", checkpoint())
    rewrite(tmp_path / "latest.npz", version=99)
    with pytest.raises(CheckpointError, match=f"of version {CHECKPOINT_VERSION}, got .* of version 99"):
        load_checkpoint(tmp_path / "latest.npz")


def test_loading_raises_when_an_array_was_changed(tmp_path: Path) -> None:
    save_checkpoint(tmp_path / "latest.npz", checkpoint())
    rewrite(tmp_path / "latest.npz", array=True)
    with pytest.raises(CheckpointError, match="expected the digest"):
        load_checkpoint(tmp_path / "latest.npz")
