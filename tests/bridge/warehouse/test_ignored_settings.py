"""Settings that nothing would read are refused, instead of being ignored in silence."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from bridge.warehouse.config import WarehouseConfig

YARD: dict[str, Any] = {
    "layout": {"grid": "S..P.PPE"},
    "fleet": [{"role": "carrier", "count": 1}],
    "episode_steps": 100,
}
DRIVE = {"kind": "differential", "step_s": 0.1, "decision_steps": 2}


def check(section: dict[str, Any]) -> WarehouseConfig:
    """As a scenario file is read: from plain values."""
    return WarehouseConfig.model_validate_json(
        WarehouseConfig.model_validate(YARD | section, strict=False).model_dump_json(by_alias=True)
    )


@pytest.mark.parametrize(
    ("section", "message"),
    [
        (
            {"contact": {"rule": "block", "stop_s": 3}},
            r"expected no stop_s with rule 'block', got 3\.0\. Use rule 'stop'",
        ),
        ({"contact": {"rule": "despawn", "stop_s": 3}}, r"expected no stop_s with rule 'despawn'"),
        (
            {"tasks": {"rate_per_h": 100}},
            r"expected no rate_per_h with arrival 'backlog', got 100\.0\. Use arrival 'poi",
        ),
        (
            {"metrics": {"warm_up_s": 100}},
            r"expected metrics\.warm_up_s to end within episodes of 100 steps of 1 s, got warm_up_s=100\.0\.",
        ),
        ({"metrics": {"warm_up_s": 20}, "drive": DRIVE}, r"episodes of 100 steps of 0\.2 s, got warm_up_s=20\.0\."),
    ],
)
def test_config_refuses_settings_that_nothing_reads(section: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        check(section)


@pytest.mark.parametrize(
    "section",
    [
        {"contact": {"rule": "stop", "stop_s": 3}},
        {"contact": {"rule": "despawn"}},
        {"tasks": {"arrival": "poisson", "rate_per_h": 100}},
        {"metrics": {"warm_up_s": 99}},
        {"metrics": {"warm_up_s": 19}, "drive": DRIVE},
    ],
)
def test_config_takes_them_where_they_are_read_and_goes_through_json(section: dict[str, Any]) -> None:
    """Workers get the whole section as JSON, with all defaults."""
    config = check(section)
    assert WarehouseConfig.model_validate_json(config.model_dump_json(by_alias=True)) == config
