"""Execution delays of a problem of the League of Robot Runners."""

from __future__ import annotations

from typing import Final

from pydantic import ValidationError

from bridge.maps.documents import Item
from bridge.warehouse.config_randomisation import ExecutionDelayConfig

__all__ = ["read_delays"]

_MAX_DELAY: Final = 10_000
# Ticks per action, and how they were called before.
_TICKS: Final = ("agentCounter", "maxCounter")


def read_delays(document: Item) -> ExecutionDelayConfig | None:
    """The execution delays, where an action takes one tick; says what else a scenario cannot hold.

    ``seed`` has no counterpart: delays are drawn anew in every episode.

    Raises:
        LayoutError: Names the file and the key that is wrong.
    """
    ticks, stated = document.get(*_TICKS), document.get("delayConfig")
    if ticks is not None and ticks.number() != 1:
        if stated is not None:
            document.warnings.add(
                "delayConfig (execution delays) counts ticks, of which an action takes several, and was not imported."
            )
        name = ticks.key
        document.warnings.add(f"{name} (ticks per action) is not part of a layout and was not imported.")
        return None
    chance = None if stated is None else stated.get("pDelay")
    if stated is None or chance is None or chance.number() == 0.0:
        return None
    is_gaussian = _choice(stated, "durationModel", "uniform", "gaussian") == "gaussian"
    values: dict[str, str | float] = {
        "probability": chance.number(),
        "events": _choice(stated, "eventModel", "bernoulli", "poisson"),
        "min_steps": stated.require("minDelay").integer(1, _MAX_DELAY),
        "max_steps": stated.require("maxDelay").integer(1, _MAX_DELAY),
        "duration": "gaussian" if is_gaussian else "uniform",
    }
    for name, key, default in (("mean_ratio", "gaussMeanRatio", 0.5), ("std_ratio", "gaussStdRatio", 0.0)):
        ratio = stated.get(key)
        if is_gaussian:
            values[name] = default if ratio is None else ratio.number()
    try:
        return ExecutionDelayConfig.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        advice = ": ".join([*map(str, first["loc"]), first["msg"]])
        raise stated.fault("possible delays", f"As execution_delays: {advice}.") from error


def _choice(item: Item, name: str, *choices: str) -> str:
    """One of several words; the first one where none is stated."""
    found = item.get(name)
    if found is None:
        return choices[0]
    if found.text() not in choices:
        raise found.fault(" or ".join(map(repr, choices)))
    return found.text()
