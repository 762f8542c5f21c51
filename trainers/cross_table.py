"""What an evaluation across scenarios, fleets and seeds prints: figures that people read first, in 80 columns."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from trainers.cross_report import CrossRow
from trainers.efficiency import EFFICIENCY, THROUGHPUT, bound_text
from trainers.evaluation import plain_number

__all__ = ["LeftOut", "cross_lines"]

_GAP = "  "


@dataclass(frozen=True)
class LeftOut:
    """A planner that does not drive a scenario.

    Attributes:
        scenario: Name of the scenario.
        num_robots: Size of the fleet.
        planner: Name of the planner.
        reason: Why not.
    """

    scenario: str
    num_robots: int
    planner: str
    reason: str


@dataclass(frozen=True)
class _Column:
    """One figure: heading, where a row has it, whether its interval is shown, and to how many decimals at most."""

    heading: str
    figure: str
    interval: bool = False
    decimals: int = 6

    def cell(self, row: CrossRow) -> str:
        value = row.efficiency if self.figure == EFFICIENCY else row.result.figures.get(self.figure)
        if value is None:
            return "-"
        return value.text(self.decimals) if self.interval else plain_number(value.mean)


_COLUMNS = (
    _Column("efficiency", EFFICIENCY, interval=True, decimals=3),
    _Column("deliveries/h", THROUGHPUT, interval=True),
    _Column("collisions", "collisions"),
    _Column("deadlocks", "deadlocks"),
    _Column("waiting", "waiting_share"),
    _Column("return/robot", "return_mean", interval=True),
    _Column("blocked", "blocked_moves"),
    _Column("steps", "length"),
)
"""What is shown, the most important first; the last ones give way where there is no room."""


def cross_lines(rows: Sequence[CrossRow], left_out: Sequence[LeftOut], width: int) -> list[str]:
    """One block per scenario: fleet after fleet the policies, the bound, and planners that are missing, with reasons.

    Numbers are never cut: columns that do not fit are left out, the least important first. An unlucky name or number
    makes a line longer than ``width`` rather than unreadable.

    Args:
        rows: What was reached, grouped by scenario and fleet.
        left_out: What could not be tried.
        width: Columns of the terminal.
    """
    lines: list[str] = []
    for scenario in dict.fromkeys(row.scenario for row in rows):
        here = [row for row in rows if row.scenario == scenario]
        missing = [entry for entry in left_out if entry.scenario == scenario]
        lines += [*_block(scenario, here, missing, width), ""]
    legend = (
        "mean ± half of its 95 % confidence interval over the episodes; all figures with theirs are in the CSV files."
    )
    if any(row.efficiency is not None for row in rows):
        legend = f"efficiency = deliveries / bound; {legend}"
    return lines + textwrap.wrap(legend, width)


def _block(scenario: str, rows: Sequence[CrossRow], missing: Sequence[LeftOut], width: int) -> list[str]:
    columns = _columns_that_fit(rows, width)
    first, widths = _first_width(rows), [_width(column, rows) for column in columns]
    head = [column.heading.rjust(size) for column, size in zip(columns, widths, strict=True)]
    seeds, episodes = rows[0].seeds, rows[0].result.num_episodes
    played = f"{episodes} {_plural('episode', episodes)} of {_plural('seed', len(seeds))}"
    told = f"{scenario}: {played} {', '.join(map(str, seeds))}"
    lines = [*textwrap.wrap(told, width), _GAP.join(["".ljust(first), *head])]
    for num_robots in dict.fromkeys(row.num_robots for row in rows):
        of_fleet = [row for row in rows if row.num_robots == num_robots]
        bound = of_fleet[0].bound
        most = "" if bound is None else f", {bound_text(bound)}"
        lines += textwrap.wrap(f"{num_robots} {_plural('robot', num_robots)}{most}", width, subsequent_indent=_GAP)
        for row in of_fleet:
            cells = [column.cell(row).rjust(size) for column, size in zip(columns, widths, strict=True)]
            lines.append(_GAP.join([f"{_GAP}{row.result.policy}".ljust(first), *cells]))
        for entry in missing:
            if entry.num_robots == num_robots:
                words = f"no {entry.planner}: {entry.reason}."
                lines += textwrap.wrap(words, width, initial_indent=_GAP, subsequent_indent=2 * _GAP)
    return lines


def _columns_that_fit(rows: Sequence[CrossRow], width: int) -> list[_Column]:
    left = width - _first_width(rows)
    columns: list[_Column] = []
    for column in _COLUMNS:
        if all(column.cell(row) == "-" for row in rows):
            continue
        left -= len(_GAP) + _width(column, rows)
        # The first two are what the evaluation is for.
        if left < 0 and len(columns) >= 2:
            break
        columns.append(column)
    return columns


def _first_width(rows: Sequence[CrossRow]) -> int:
    return len(_GAP) + max(len(row.result.policy) for row in rows)


def _width(column: _Column, rows: Sequence[CrossRow]) -> int:
    return max(len(column.heading), *(len(column.cell(row)) for row in rows))


def _plural(word: str, count: int) -> str:
    return word if count == 1 else f"{word}s"
