"""Run folders: everything about one training run in one place, enough to resume or replay it elsewhere.

RUN/config.yaml           the resolved training configuration
RUN/scenario/             the scenario and the files that it names
RUN/checkpoints/          latest.npz and best.npz
RUN/metrics.jsonl         one line per update
RUN/tensorboard/          the same figures as events
RUN/logs/                 logs of Unity players, where the world runs any
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import yaml

from bridge.errors import CheckpointError, ScenarioError
from bridge.scenario import Scenario, load_scenario
from trainers.checkpoint import write_atomically
from trainers.config import MAX_SEED, TrainConfig, train_config
from trainers.scenario_config import OWN_WORLD, find_member

__all__ = ["CheckpointName", "RunFolder", "environment_seed"]

CheckpointName = Literal["latest", "best"]

_FREE_ON_RESUME = frozenset(
    {
        "total_env_steps",
        "updates",
        "num_workers",
        "torch_threads",
        "checkpoint_every",
        "eval_episodes",
        "eval_seed",
        "debug",
    }
)


def environment_seed(seed: int, update: int) -> int:
    """Seed of the episodes that begin after ``update`` updates: the run's own at the start, else one of its own.

    Derived seeds lie above :data:`trainers.config.MAX_SEED`, so that no evaluation can have one.
    """
    if update == 0:
        return seed
    derived = np.random.SeedSequence(entropy=seed, spawn_key=(update,)).generate_state(1, np.uint32)[0]
    return MAX_SEED + 1 + int(derived >> 1)


@dataclass(frozen=True)
class RunFolder:
    """Paths in a run folder, and what stands in them."""

    path: Path

    @property
    def config_file(self) -> Path:
        """The resolved training configuration."""
        return self.path / "config.yaml"

    @property
    def scenario_folder(self) -> Path:
        """The scenario and its files."""
        return self.path / "scenario"

    @property
    def metrics_file(self) -> Path:
        """One JSON object per update."""
        return self.path / "metrics.jsonl"

    @property
    def logs_folder(self) -> Path:
        """Logs of the processes that the world runs; there only if it runs any."""
        return self.path / "logs"

    @property
    def tensorboard_folder(self) -> Path:
        """TensorBoard events."""
        return self.path / "tensorboard"

    def checkpoint(self, name: CheckpointName) -> Path:
        """A checkpoint's file."""
        return self.path / "checkpoints" / f"{name}.npz"

    def require_new(self) -> None:
        """Raise if there is a run in the folder already; one that ended before its first update is none.

        Raises:
            CheckpointError: Says what to do.
        """
        if self.checkpoint("latest").exists():
            raise CheckpointError(
                f"{self.path}: expected a new or empty folder, got one with a run. Resume it, or choose another folder."
            )
        if self.metrics_file.is_file() and self.metrics_file.stat().st_size:
            raise CheckpointError(
                f"{self.path}: expected a new or empty folder, got a run that ended before its first checkpoint and "
                "cannot be resumed. Remove it, or choose another folder."
            )

    def create(self, scenario: Scenario, config: TrainConfig) -> None:
        """Lay out a new run.

        Raises:
            CheckpointError: There is a run in the folder already.
        """
        self.require_new()
        (self.path / "checkpoints").mkdir(parents=True, exist_ok=True)
        _copy_scenario(scenario, self.scenario_folder)
        for member in config.member_scenarios:
            _copy_member(scenario, member, self.scenario_folder)
        self.write_config(config)

    def write_config(self, config: TrainConfig) -> None:
        """Save the resolved configuration."""
        with write_atomically(self.config_file) as file:
            file.write(yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False).encode())

    def scenario(self) -> Scenario:
        """The scenario that was trained on.

        Raises:
            CheckpointError: The folder holds no run.
            ScenarioError: The copy was changed and is wrong now.
        """
        self.require_run()
        return load_scenario(self.scenario_folder)

    def config(self, overrides: dict[str, Any] | None = None) -> TrainConfig:
        """The resolved configuration, with overrides.

        Raises:
            CheckpointError: The folder holds no run.
            ScenarioError: The configuration was changed and is wrong now, or an override is.
        """
        scenario = self.scenario()
        saved = _read_settings(self.config_file)
        stored = Scenario(
            self.config_file.resolve(), scenario.name, scenario.description, scenario.world, scenario.config, saved
        )
        return train_config(stored, overrides)

    def require_run(self) -> None:
        """Raise unless the folder holds a run.

        Raises:
            CheckpointError: Says what is missing.
        """
        for path in (self.config_file, self.scenario_folder / "scenario.yaml"):
            if not path.is_file():
                raise CheckpointError(
                    f"{self.path}: expected a run folder, got no {path.relative_to(self.path)} in it. "
                    "Give the folder that `agv-bridge train` wrote."
                )

    def require_checkpoint(self) -> None:
        """Raise unless the run in the folder came to a checkpoint.

        Raises:
            CheckpointError: Says what to do.
        """
        if not self.checkpoint("latest").is_file():
            raise CheckpointError(
                f"{self.path}: expected a run with a checkpoint, got one that ended before its first. "
                "Remove the folder and train again."
            )

    def require_resumable(self, config: TrainConfig, saved: dict[str, Any]) -> None:
        """Raise if a setting differs from the saved run's in a way that the learner's state cannot follow.

        Raises:
            CheckpointError: Names the first such setting.
        """
        for key, value in config.model_dump(mode="json").items():
            if key not in _FREE_ON_RESUME and key in saved and saved[key] != value:
                raise CheckpointError(
                    f"{self.path}: {key}: expected {saved[key]!r} as in the saved run, got {value!r}. "
                    f"Only {', '.join(sorted(_FREE_ON_RESUME))} may change on resume; start a new run for others."
                )


def _copy_member(scenario: Scenario, entry: str, folder: Path) -> None:
    """Copy a scenario of a list to where :func:`trainers.scenario_config.find_member` finds it by the same entry."""
    if entry == OWN_WORLD:
        return
    if (scenario.folder / entry).is_file():
        _copy_files({Path(entry)}, scenario, folder)
    else:
        _copy_scenario(find_member(scenario, entry, f"{scenario.path}: train"), folder / entry)


def _copy_scenario(scenario: Scenario, folder: Path) -> None:
    """Copy a scenario and every file inside its folder that it, or one of those files, names."""
    folder.mkdir(parents=True, exist_ok=True)
    text = scenario.path.read_text(encoding="utf-8")
    data = yaml.safe_load(text)
    if "name" not in data:
        # The file gets another name here; the scenario must keep its own.
        text = yaml.safe_dump({"schema": data["schema"], "name": scenario.name, **data}, sort_keys=False)
    (folder / "scenario.yaml").write_text(text, encoding="utf-8")
    _copy_files(_named_files(data, scenario.folder), scenario, folder)


def _copy_files(files: set[Path], scenario: Scenario, folder: Path) -> None:
    """Copy files, and those that they name, from beside a scenario to the same places in ``folder``."""
    waiting, copied = set(files), set[Path]()
    while waiting:
        relative = waiting.pop()
        if relative in copied:
            continue
        copied.add(relative)
        target = folder / relative
        if target.name == "scenario.yaml" and target.parent == folder:
            raise ScenarioError(
                f"{scenario.path}: expected no file called 'scenario.yaml' beside it to be named, got one. Rename it."
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        source = scenario.folder / relative
        shutil.copyfile(source, target)
        if source.suffix in (".json", ".yaml", ".yml"):
            waiting |= {(relative.parent / inner) for inner in _named_files(_read_tree(source), source.parent)}


def _read_settings(path: Path) -> dict[str, Any]:
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, yaml.YAMLError) as error:
        raise ScenarioError(f"{path}: expected YAML, got a damaged file ({' '.join(str(error).split())}).") from error
    if not isinstance(settings, dict):
        found = "an empty file" if settings is None else f"a {type(settings).__name__}"
        raise ScenarioError(f"{path}: expected settings by key, got {found}. Put the file of the run back.")
    return settings


def _read_tree(path: Path) -> Any:
    text = path.read_text(encoding="utf-8")
    return json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)


def _named_files(tree: Any, folder: Path) -> set[Path]:
    """Relative paths of the files inside ``folder`` that strings in a tree name."""
    if isinstance(tree, dict):
        return set().union(*(_named_files(value, folder) for value in tree.values()))
    if isinstance(tree, list):
        return set().union(*(_named_files(value, folder) for value in tree))
    if not isinstance(tree, str) or not tree or len(tree) > 255 or "\n" in tree or "\0" in tree:
        return set()
    path = Path(tree)
    if path.is_absolute() or ".." in path.parts or not (folder / path).is_file():
        return set()
    return {path}
