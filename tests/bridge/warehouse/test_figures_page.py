"""The page on the figures explains every figure that the code can report, and no other."""

from __future__ import annotations

import importlib
import pkgutil
import re
from pathlib import Path

import bridge.warehouse
from bridge.specs import MetricSpec
from bridge.warehouse.metrics import METRICS, ROBOT_METRICS

PAGE = Path(__file__).resolve().parents[3] / "docs" / "kpis.md"


def _figures_in_code() -> set[str]:
    """Names in all tuples of figures that stand in modules of the simulator, but those per robot."""
    names: set[str] = set()
    for module in pkgutil.walk_packages(bridge.warehouse.__path__, "bridge.warehouse."):
        for value in vars(importlib.import_module(module.name)).values():
            is_figures = isinstance(value, tuple) and all(isinstance(entry, MetricSpec) for entry in value)
            if is_figures and value is not ROBOT_METRICS:
                names |= {metric.name for metric in value}
    return names


def _figures_in_tables(text: str) -> set[str]:
    """Names in the first columns of the page's tables, each of which has a formula and a unit."""
    names: set[str] = set()
    for line in text.splitlines():
        if line.startswith("| `"):
            first, formula, unit = (cell.strip() for cell in line.strip("|").split("|"))
            assert len(formula) > 10, line
            assert unit, line
            found = re.findall(r"`(\w+)`", first)
            assert names.isdisjoint(found), line
            names |= set(found)
    return names


def test_kpis_page_has_every_figure_of_the_code_with_formula_and_unit() -> None:
    figures, per_robot = PAGE.read_text(encoding="utf-8").split("## Per robot")
    in_code = _figures_in_code()
    assert {metric.name for metric in METRICS} < in_code
    assert _figures_in_tables(figures) == in_code
    assert _figures_in_tables(per_robot) == {metric.name for metric in ROBOT_METRICS}


def test_no_two_parts_of_a_scenario_report_a_figure_of_the_same_name() -> None:
    names: list[str] = []
    seen: set[int] = set()
    for module in pkgutil.walk_packages(bridge.warehouse.__path__, "bridge.warehouse."):
        for name, value in vars(importlib.import_module(module.name)).items():
            if name.endswith("METRICS") and value is not ROBOT_METRICS and id(value) not in seen:
                seen.add(id(value))
                names += [metric.name for metric in value]
    assert len(names) > len(METRICS)
    assert sorted(set(names)) == sorted(names)
