"""Tables and pictures of a run, for people."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich import box
from rich.table import Table

from bridge.episodes import EpisodeResult
from bridge.errors import ScenarioError
from bridge.planners.bound import ThroughputBound
from bridge.specs import MetricSpec
from trainers.checkpoint import write_atomically
from trainers.efficiency import BOUND_PARTS, EFFICIENCY, THROUGHPUT
from trainers.evaluation import EvaluationRow
from trainers.metrics_log import read_metrics
from trainers.runs import RunFolder

__all__ = ["evaluation_table", "plot_comparison", "plot_learning_curves", "write_evaluation_csv", "write_robots_csv"]

_MAX_PANELS = 12
# What a comparison shows first; a world's other figures follow in its own order.
_TELLING = (
    "return_sum", EFFICIENCY, THROUGHPUT, "collisions", "deadlocks", "livelocks", "blocked_moves", "waiting_share",
    "flow_time_mean_s", "flow_time_p95_s", "empty_share", "utilisation",
)  # fmt: skip


def evaluation_table(rows: Sequence[EvaluationRow], title: str = "evaluation") -> Table:
    """Figures as rows, policies as columns: mean and half of the 95% confidence interval.

    There are many figures and few policies: so that it fits into a terminal of 80 columns.
    """
    # No lines between columns, which take room; what finds none goes on in the next line: nothing is cut.
    caption = None
    if rows and rows[0].num_episodes > 1:
        caption = f"mean ± half of its 95 % confidence interval over {rows[0].num_episodes} episodes"
    table = Table(title=title, caption=caption, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("figure", overflow="fold")
    for row in rows:
        table.add_column(row.policy, justify="right", overflow="fold")
    for name in _figure_names(rows):
        table.add_row(name, *(row.figures[name].text(3) if name in row.figures else "-" for row in rows))
    if any(not math.isnan(row.decision_ms) for row in rows):
        table.add_row("decision_ms", *(f"{row.decision_ms:.2g}" for row in rows))
    return table


def write_evaluation_csv(rows: Sequence[EvaluationRow], path: Path, bound: ThroughputBound | None = None) -> None:
    """One line per policy; columns ``<figure>`` and ``<figure>_ci95`` (half width), and ``decision_ms``.

    With a bound, ``bound_per_h`` and its parts stand before the figures.
    """
    names = _figure_names(rows)
    text = io.StringIO()
    writer = csv.writer(text)
    columns = [column for name in names for column in (name, f"{name}_ci95")]
    limits = {} if bound is None else {"bound_per_h": bound.deliveries_per_h}
    limits |= {} if bound is None else {f"bound_{part}": getattr(bound, part) for part in BOUND_PARTS}
    writer.writerow(["policy", "episodes", *limits, *columns, "decision_ms"])
    for row in rows:
        cells: list[Any] = [row.policy, row.num_episodes, *limits.values()]
        for name in names:
            estimate = row.figures.get(name)
            cells += ["", ""] if estimate is None else [estimate.mean, estimate.half_width]
        writer.writerow([*cells, row.decision_ms])
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def write_robots_csv(played: Mapping[str, Sequence[EpisodeResult]], path: Path) -> None:
    """One line per policy, episode and robot.

    Args:
        played: Episodes by policy, as of :func:`trainers.evaluation.play`.
        path: File to write.

    Raises:
        ScenarioError: The world has no figures of single robots.
    """
    lines = [
        {"policy": policy, "env": result.env, "episode": result.episode, "agent": agent, **figures}
        for policy, results in played.items()
        for result in results
        for agent, figures in result.robots.items()
    ]
    if not lines:
        raise ScenarioError(
            f"{path}: expected a world that has figures of each robot, got one that has none. "
            "The built-in warehouse has them."
        )
    text = io.StringIO()
    writer = csv.DictWriter(text, list(lines[0]))
    writer.writeheader()
    writer.writerows(lines)
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def plot_learning_curves(run: RunFolder, path: Path) -> None:
    """A PNG with one panel per figure of training, over environment steps."""
    lines = read_metrics(run)
    names = _panels({name for line in lines for name in line})
    figure, panels = _grid(len(names))
    for name, axes in zip(names, panels, strict=True):
        points = [(line["env_steps"], line[name]) for line in lines if name in line]
        axes.plot([x for x, _ in points], [y for _, y in points], linewidth=1.2)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("environment steps", fontsize=8)
    _save(figure, path)


def plot_comparison(
    rows: Sequence[EvaluationRow], metrics: Sequence[MetricSpec], path: Path, bound: ThroughputBound | None = None
) -> None:
    """A PNG with one bar chart per figure, the most telling ones: mean and 95% confidence interval, and the bound."""
    arrows = {True: " (higher is better)", False: " (lower is better)", None: ""}
    titles = {"return_sum": "return_sum", EFFICIENCY: f"{EFFICIENCY} (1: the bound)"}
    titles |= {m.name: m.name + arrows[m.higher_is_better] for m in metrics}
    known = [name for name in dict.fromkeys((*_TELLING, *titles)) if name in titles]
    names = [name for name in known if any(name in row.figures for row in rows)][:_MAX_PANELS]
    figure, panels = _grid(len(names))
    for name, axes in zip(names, panels, strict=True):
        shown = [row for row in rows if name in row.figures]
        means = [row.figures[name].mean for row in shown]
        widths = [0.0 if math.isnan(row.figures[name].half_width) else row.figures[name].half_width for row in shown]
        axes.bar([row.policy for row in shown], means, yerr=widths, capsize=4, color="#4477aa")
        if name == THROUGHPUT and bound is not None:
            axes.axhline(bound.deliveries_per_h, linestyle="--", color="#444444", linewidth=1.2, label="bound")
            axes.legend(fontsize=7)
        if name == EFFICIENCY or not any(means):
            axes.set_ylim(0.0, 1.05)
        axes.set_title(titles[name], fontsize=9)
        axes.tick_params(axis="x", labelrotation=20)
    _save(figure, path)


def _figure_names(rows: Sequence[EvaluationRow]) -> list[str]:
    names: dict[str, None] = {}
    for row in rows:
        names.update(dict.fromkeys(row.figures))
    return list(names)


def _panels(known: set[str]) -> list[str]:
    """What is worth a picture, most telling first."""
    groups = [
        ["episodes/return_sum"],
        sorted(name for name in known if name.startswith("world/")),
        sorted(name for name in known if name.endswith(("/policy_loss", "/value_loss", "/entropy", "/approx_kl"))),
        sorted(name for name in known if name.endswith("/explained_variance")),
        ["speed/env_steps_per_s"],
    ]
    return [name for group in groups for name in group if name in known][:_MAX_PANELS]


def _grid(count: int) -> tuple[Figure, list[Axes]]:
    columns = max(1, min(3, count))
    rows = max(1, -(-count // columns))
    figure = Figure(figsize=(4.2 * columns, 3.0 * rows), layout="constrained")
    panels = [figure.add_subplot(rows, columns, index + 1) for index in range(count)]
    for axes in panels:
        axes.tick_params(labelsize=8)
        axes.grid(alpha=0.3)
    return figure, panels


def _save(figure: Figure, path: Path) -> None:
    with write_atomically(path) as file:
        figure.savefig(file, format="png", dpi=120)
