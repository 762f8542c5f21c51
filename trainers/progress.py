"""How training shows what it is doing: a live display in a terminal, plain lines elsewhere."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from bridge.specs import WorldSpec
from trainers.config import TrainConfig
from trainers.episode_statistics import EpisodeSummary

__all__ = [
    "LiveProgress",
    "PlainProgress",
    "ProgressListener",
    "SilentProgress",
    "TrainProgress",
    "TrainResult",
    "console_progress",
]


@dataclass(frozen=True)
class TrainProgress:
    """Where training stands after an update.

    Attributes:
        update: Updates made.
        num_updates: Updates in all.
        env_steps: Environment steps made, over all environments.
        decisions: Decisions of robots learnt from.
        seconds: Time spent in training, over all sessions of the run.
        seconds_left: Estimate of the time left.
        env_steps_per_s: Environment steps per second with learning, over the last updates.
        decisions_per_s: Decisions of robots per second with learning.
        episodes: What the last episodes came to.
        metrics: Figures of the update by name.
    """

    update: int
    num_updates: int
    env_steps: int
    decisions: int
    seconds: float
    seconds_left: float
    env_steps_per_s: float
    decisions_per_s: float
    episodes: EpisodeSummary
    metrics: dict[str, float]


@dataclass(frozen=True)
class TrainResult:
    """How training ended.

    Attributes:
        run_dir: The run folder.
        update: Updates made.
        env_steps: Environment steps made.
        seconds: Time spent in training, over all sessions of the run.
        interrupted: It was stopped before its end, and can be resumed.
        episodes: What the last episodes came to.
    """

    run_dir: Path
    update: int
    env_steps: int
    seconds: float
    interrupted: bool
    episodes: EpisodeSummary


class ProgressListener(Protocol):
    """Hears from training."""

    def on_start(self, run_dir: Path, config: TrainConfig, spec: WorldSpec) -> None:
        """Training begins, or goes on."""
        ...

    def on_update(self, progress: TrainProgress) -> None:
        """An update was made."""
        ...

    def on_message(self, text: str) -> None:
        """Something that a person should know."""
        ...

    def on_end(self, result: TrainResult | None) -> None:
        """Training has ended; None if by an error."""
        ...


class SilentProgress:
    """Says nothing."""

    def on_start(self, run_dir: Path, config: TrainConfig, spec: WorldSpec) -> None:
        """See :class:`ProgressListener`."""

    def on_update(self, progress: TrainProgress) -> None:
        """See :class:`ProgressListener`."""

    def on_message(self, text: str) -> None:
        """See :class:`ProgressListener`."""

    def on_end(self, result: TrainResult | None) -> None:
        """See :class:`ProgressListener`."""


class PlainProgress:
    """Prints a line every few seconds; for logs.

    Args:
        console: Where to print.
        interval_s: Shortest time between two lines; the first and the last update are always shown.
    """

    def __init__(self, console: Console, interval_s: float = 5.0) -> None:
        self._console = console
        self._interval_s = interval_s
        self._last = -math.inf

    def on_start(self, run_dir: Path, config: TrainConfig, spec: WorldSpec) -> None:
        """See :class:`ProgressListener`."""
        self.on_message(_headline(run_dir, config, spec))

    def on_update(self, progress: TrainProgress) -> None:
        """See :class:`ProgressListener`."""
        now = time.monotonic()
        if progress.update < progress.num_updates and now - self._last < self._interval_s:
            return
        self._last = now
        parts = [f"update {progress.update}/{progress.num_updates}"]
        parts += [f"{label} {value}" for label, value in _figures(progress).items()]
        self.on_message(", ".join(parts))

    def on_message(self, text: str) -> None:
        """See :class:`ProgressListener`."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def on_end(self, result: TrainResult | None) -> None:
        """See :class:`ProgressListener`."""
        if result is not None:
            self.on_message(_ending(result))


class LiveProgress:
    """A bar and a table that stay in place; for terminals."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, refresh_per_second=4, transient=False)

    def on_start(self, run_dir: Path, config: TrainConfig, spec: WorldSpec) -> None:
        """See :class:`ProgressListener`."""
        self._console.print(_headline(run_dir, config, spec), markup=False, highlight=False)
        self._live.start()

    def on_update(self, progress: TrainProgress) -> None:
        """See :class:`ProgressListener`."""
        self._live.update(_display(progress))

    def on_message(self, text: str) -> None:
        """See :class:`ProgressListener`."""
        self._live.console.print(text, markup=False, highlight=False)

    def on_end(self, result: TrainResult | None) -> None:
        """See :class:`ProgressListener`."""
        self._live.stop()
        if result is not None:
            self._console.print(_ending(result), markup=False, highlight=False)


def console_progress(console: Console | None = None) -> ProgressListener:
    """The listener that suits a console: live in a terminal, lines elsewhere."""
    console = Console() if console is None else console
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


def _headline(run_dir: Path, config: TrainConfig, spec: WorldSpec) -> str:
    fleet = ", ".join(f"{role.num_slots} {role.name}" for role in spec.roles)
    return (
        f"{config.algorithm}: {fleet}; {config.num_updates} updates of {config.env_steps_per_update} environment steps "
        f"({config.num_envs} environments x {config.rollout_steps} steps); writing to {run_dir}"
    )


def _ending(result: TrainResult) -> str:
    verb = "interrupted" if result.interrupted else "done"
    hint = "; resume to go on" if result.interrupted else ""
    return f"{verb} after {result.update} updates in {_duration(result.seconds)}: {result.run_dir}{hint}"


def _figures(progress: TrainProgress) -> dict[str, str]:
    """Labels and values of what is shown, most important first."""
    episodes = progress.episodes
    shown = {"return": _number(episodes.return_sum) if episodes.num_episodes else "no episode has ended yet"}
    shown.update({name: _number(value) for name, value in episodes.metrics.items()})
    for name, part in episodes.scenarios.items():
        share = f"{part.num_episodes} of the last {episodes.num_episodes} episodes"
        shown[name] = f"return {_number(part.return_sum)} ({share})"
    shown["env-steps/s"] = _number(progress.env_steps_per_s)
    shown["decisions/s"] = _number(progress.decisions_per_s)
    shown["time left"] = _duration(progress.seconds_left)
    return shown


def _display(progress: TrainProgress) -> Group:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold")
    table.add_column(justify="right")
    table.add_row("update", f"{progress.update} / {progress.num_updates}")
    table.add_row("env steps", f"{progress.env_steps:,}")
    for label, value in _figures(progress).items():
        table.add_row(label, Text(value))
    return Group(ProgressBar(total=progress.num_updates, completed=progress.update, width=60), table)


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "-"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
