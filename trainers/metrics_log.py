"""Figures of every update on disk: one JSON line each, and TensorBoard events."""

from __future__ import annotations

import json
import math
from types import TracebackType
from typing import Any, Self

from torch.utils.tensorboard import SummaryWriter

from bridge.errors import CheckpointError
from trainers.checkpoint import write_atomically
from trainers.episode_statistics import EpisodeSummary
from trainers.progress import TrainProgress
from trainers.runs import RunFolder

__all__ = ["MetricsLog", "figures", "read_metrics"]


def figures(progress: TrainProgress) -> dict[str, float]:
    """All figures of an update by name; those that are not known yet are left out."""
    episodes = progress.episodes
    values = {
        "update": progress.update,
        "env_steps": progress.env_steps,
        "decisions": progress.decisions,
        "seconds": progress.seconds,
        "speed/env_steps_per_s": progress.env_steps_per_s,
        "speed/decisions_per_s": progress.decisions_per_s,
        "episodes/return_sum": episodes.return_sum,
        "episodes/return_mean": episodes.return_mean,
        "episodes/length": episodes.length,
        **{f"episodes/return_{role}": value for role, value in episodes.role_returns.items()},
        **{f"world/{name}": value for name, value in episodes.metrics.items()},
        **_scenario_figures(episodes),
        **progress.metrics,
    }
    return {name: value for name, value in values.items() if math.isfinite(value)}


def _scenario_figures(episodes: EpisodeSummary) -> dict[str, float]:
    values: dict[str, float] = {}
    for name, part in episodes.scenarios.items():
        values[f"scenario/{name}/episodes"] = part.num_episodes
        values[f"scenario/{name}/return_sum"] = part.return_sum
        values.update({f"scenario/{name}/{metric}": value for metric, value in part.metrics.items()})
    return values


class MetricsLog:
    """Appends to ``metrics.jsonl`` and ``tensorboard/`` of a run.

    Args:
        run: The run folder.
        after_update: On resume, the update of the checkpoint: what was written after it is dropped.
    """

    def __init__(self, run: RunFolder, after_update: int | None = None) -> None:
        kept = [] if after_update is None else [line for line in read_metrics(run) if line["update"] <= after_update]
        with write_atomically(run.metrics_file) as file:
            file.writelines(json.dumps(line).encode() + b"\n" for line in kept)
        self._file = run.metrics_file.open("a", encoding="utf-8")
        purge = int(kept[-1]["env_steps"]) + 1 if kept else None
        self._events = SummaryWriter(str(run.tensorboard_folder), purge_step=purge)

    def write(self, progress: TrainProgress) -> None:
        """Append the figures of an update."""
        values = figures(progress)
        self._file.write(json.dumps(values) + "\n")
        self._file.flush()
        for name, value in values.items():
            if name not in ("update", "env_steps"):
                self._events.add_scalar(name, value, progress.env_steps)

    def close(self) -> None:
        """Flush and close both files."""
        self._file.close()
        self._events.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def read_metrics(run: RunFolder) -> list[dict[str, Any]]:
    """The figures of all updates of a run, oldest first; a last line that a crash cut short is left out.

    Raises:
        CheckpointError: Another line is damaged; names it.
    """
    if not run.metrics_file.is_file():
        return []
    lines = run.metrics_file.read_text(encoding="utf-8").split("\n")
    # Whatever stands behind the last line break was not written to its end.
    return [_update_figures(line, run, number) for number, line in enumerate(lines[:-1], start=1)]


def _update_figures(line: str, run: RunFolder, number: int) -> dict[str, Any]:
    try:
        values: Any = json.loads(line)
    except json.JSONDecodeError:
        values = None
    if not isinstance(values, dict) or "update" not in values or "env_steps" not in values:
        raise CheckpointError(
            f"{run.metrics_file}: line {number}: expected the figures of an update, got {line[:80]!r}. "
            "Remove the line, or the file."
        )
    return values
