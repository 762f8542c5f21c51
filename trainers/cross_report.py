"""CSV and picture of an evaluation across scenarios, fleets and seeds."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from bridge.planners.bound import ThroughputBound
from trainers.checkpoint import write_atomically
from trainers.efficiency import BOUND_PARTS, THROUGHPUT, efficiency_of
from trainers.evaluation import Estimate, EvaluationRow

__all__ = ["CrossRow", "plot_across", "write_cross_csv"]


@dataclass(frozen=True)
class CrossRow:
    """What one policy reached with one fleet in one scenario, over one seed or several.

    Attributes:
        scenario: Name of the scenario.
        num_robots: Size of the fleet.
        seeds: Seeds of the episodes.
        result: Means over the episodes of these seeds.
        bound: What could be delivered at most; None where the world does not know.
    """

    scenario: str
    num_robots: int
    seeds: tuple[int, ...]
    result: EvaluationRow
    bound: ThroughputBound | None

    @property
    def throughput(self) -> Estimate | None:
        """Deliveries per hour; None in a world without."""
        return self.result.figures.get(THROUGHPUT)

    @property
    def efficiency(self) -> Estimate | None:
        """Throughput over its bound, as of :func:`trainers.efficiency.efficiency_of`."""
        return efficiency_of(self.result.figures, self.bound)


def write_cross_csv(rows: Sequence[CrossRow], path: Path) -> None:
    """One line per row: seeds parted by spaces, parts of the bound, ``<figure>``, its half width ``<figure>_ci95``.

    The last column is ``decision_ms``.
    """
    names = list(dict.fromkeys(name for row in rows for name in row.result.figures))
    text = io.StringIO()
    writer = csv.writer(text)
    head = ["scenario", "robots", "policy", "seeds", "episodes", "efficiency", "efficiency_ci95", "bound_per_h"]
    head += [f"bound_{part}" for part in BOUND_PARTS]
    writer.writerow([*head, *(column for name in names for column in (name, f"{name}_ci95")), "decision_ms"])
    for row in rows:
        seeds = " ".join(map(str, row.seeds))
        cells: list[Any] = [row.scenario, row.num_robots, row.result.policy, seeds, row.result.num_episodes]
        cells += _columns(row.efficiency)
        cells.append("" if row.bound is None else row.bound.deliveries_per_h)
        cells += ["" if row.bound is None else getattr(row.bound, part) for part in BOUND_PARTS]
        for name in names:
            cells += _columns(row.result.figures.get(name))
        writer.writerow([*cells, row.result.decision_ms])
    with write_atomically(path) as file:
        file.write(text.getvalue().encode())


def plot_across(rows: Sequence[CrossRow], path: Path) -> None:
    """A PNG with a column per scenario: throughput with its bound above, efficiency below, over the fleet's size.

    In a world without deliveries the return of all robots stands for throughput, and there is no efficiency.
    """
    scenarios = list(dict.fromkeys(row.scenario for row in rows))
    num_panels = 2 if any(row.efficiency is not None for row in rows) else 1
    figure = Figure(figsize=(4.2 * len(scenarios) + 0.5, 3.2 * num_panels), layout="constrained")
    colours = {policy: f"C{k}" for k, policy in enumerate(dict.fromkeys(row.result.policy for row in rows))}
    for column, name in enumerate(scenarios, 1):
        of_scenario = [row for row in rows if row.scenario == name]
        above = figure.add_subplot(num_panels, len(scenarios), column)
        _plot_panel(above, of_scenario, colours, efficiency=False)
        above.set_title(name, fontsize=10)
        above.set_ylabel(THROUGHPUT if of_scenario[0].throughput is not None else "return_sum", fontsize=8)
        above.legend(fontsize=7)
        lowest = above
        if num_panels == 2:
            lowest = figure.add_subplot(2, len(scenarios), len(scenarios) + column)
            _plot_panel(lowest, of_scenario, colours, efficiency=True)
            lowest.set_ylabel("efficiency", fontsize=8)
            lowest.set_ylim(0.0, 1.05)
        lowest.set_xlabel("robots", fontsize=8)
    with write_atomically(path) as file:
        figure.savefig(file, format="png", dpi=120)


def _plot_panel(axes: Axes, rows: Sequence[CrossRow], colours: Mapping[str, str], *, efficiency: bool) -> None:
    axes.tick_params(labelsize=8)
    axes.grid(alpha=0.3)
    for policy, colour in colours.items():
        points = []
        for row in rows:
            value = row.efficiency if efficiency else row.throughput or row.result.figures["return_sum"]
            if row.result.policy == policy and value is not None:
                points.append((row.num_robots, value.mean, 0.0 if math.isnan(value.half_width) else value.half_width))
        if points:
            sizes, means, widths = zip(*sorted(points), strict=True)
            axes.errorbar(sizes, means, yerr=widths, fmt="o-", markersize=4, capsize=3, color=colour, label=policy)
    axes.set_xticks(sorted({row.num_robots for row in rows}))
    bounds = sorted({(row.num_robots, row.bound.deliveries_per_h) for row in rows if row.bound is not None})
    if bounds and not efficiency:
        axes.plot(*zip(*bounds, strict=True), linestyle="--", color="#444444", linewidth=1.2, marker="_", label="bound")


def _columns(estimate: Estimate | None) -> list[Any]:
    return ["", ""] if estimate is None else [estimate.mean, estimate.half_width]
