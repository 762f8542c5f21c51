"""Optimizer state as plain lists of arrays, in the order of the parameters."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__ = ["load_optimizer_state", "optimizer_state", "set_learning_rate"]


def optimizer_state(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """What the optimizer remembers of each parameter; empty dicts before the first step."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    return [
        {key: value.numpy().copy() for key, value in optimizer.state[parameter].items()} for parameter in parameters
    ]


def load_optimizer_state(optimizer: torch.optim.Optimizer, state: list[dict[str, Any]]) -> None:
    """The inverse of :func:`optimizer_state`."""
    entries = {
        index: {key: torch.from_numpy(np.array(value)) for key, value in entry.items()}
        for index, entry in enumerate(state)
        if entry
    }
    optimizer.load_state_dict({"state": entries, "param_groups": optimizer.state_dict()["param_groups"]})


def set_learning_rate(optimizer: torch.optim.Optimizer, learning_rate: float) -> None:
    """Set the step size of all parameters."""
    for group in optimizer.param_groups:
        group["lr"] = learning_rate
