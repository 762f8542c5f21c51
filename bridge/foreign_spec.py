"""How the agents of a foreign PettingZoo environment form roles.

A role needs agents with equal spaces. Where an environment's agents differ,
they either become several roles or share one, padded with zeros.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from pettingzoo import ParallelEnv

from bridge.errors import SpecMismatchError
from bridge.foreign_spaces import AgentCodec
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec

__all__ = ["Grouping", "spec_of_parallel_env"]

Float32 = NDArray[np.float32]

Grouping = Literal["by_space", "padded"]


def spec_of_parallel_env(
    env: ParallelEnv[str, Any, Any],
    grouping: Grouping = "by_space",
    *,
    metrics: tuple[MetricSpec, ...] = (),
    step_s: float | None = None,
) -> WorldSpec:
    """The spec of a foreign environment.

    Args:
        env: The environment; it is reset once to find out whether it has a state.
        grouping: ``by_space``: agents named ``<prefix>_<i>`` form the role ``<prefix>``; where their
            spaces differ, one role per kind of space, with what differs in its name
            (``agent_obs9``, ``agent_obs8``). ``padded``: all agents form one role; observations
            are followed by zeros up to the longest.
        metrics: Figures per episode, passed through.
        step_s: Simulated time per step, passed through.

    Raises:
        SpecMismatchError: A space cannot be carried over, or ``padded`` meets different actions.
    """
    agents = list(env.possible_agents)
    for agent in agents:
        if not isinstance(agent, str):
            raise SpecMismatchError(f"environment: expected agents named by strings, got {agent!r}.")
    codecs = {agent: AgentCodec(env, agent) for agent in agents}
    roles = _padded_role(agents, codecs) if grouping == "padded" else _roles_by_space(agents, codecs)
    return WorldSpec(roles, _state_size(env), metrics, step_s)


def _roles_by_space(agents: list[str], codecs: dict[str, AgentCodec]) -> tuple[RoleSpec, ...]:
    by_prefix: dict[str, list[str]] = {}
    for agent in agents:
        by_prefix.setdefault(_prefix(agent), []).append(agent)
    roles = []
    for prefix, members in by_prefix.items():
        by_kind: dict[tuple[Any, Any], list[str]] = {}
        for agent in members:
            by_kind.setdefault((codecs[agent].blocks, codecs[agent].action), []).append(agent)
        names = _role_names(prefix, list(by_kind))
        for name, same in zip(names, by_kind.values(), strict=True):
            kind = [codecs[agent] for agent in same]
            roles.append(RoleSpec(name, tuple(same), _layout(kind), kind[0].action))
    return tuple(roles)


def _role_names(prefix: str, kinds: list[tuple[Any, ActionSpec]]) -> list[str]:
    """Names that say what distinguishes the kinds, or number them where sizes alone do not."""
    if len(kinds) == 1:
        return [prefix]
    sizes = [sum(size for _, size in blocks) for blocks, _ in kinds]
    actions = [_action_name(action) for _, action in kinds]
    names = [prefix] * len(kinds)
    if len(set(sizes)) > 1:
        names = [f"{name}_obs{size}" for name, size in zip(names, sizes, strict=True)]
    if len(set(actions)) > 1:
        names = [f"{name}_{action}" for name, action in zip(names, actions, strict=True)]
    if len(set(names)) < len(names):
        names = [f"{name}_kind{number}" for number, name in enumerate(names)]
    return names


def _action_name(action: ActionSpec) -> str:
    parts = [f"box{action.num_continuous}"] if action.num_continuous else []
    parts += ["discrete" + "x".join(map(str, action.discrete_branches))] if action.num_branches else []
    return "_".join(parts)


def _padded_role(agents: list[str], codecs: dict[str, AgentCodec]) -> tuple[RoleSpec, ...]:
    prefixes = {_prefix(agent) for agent in agents}
    first = codecs[agents[0]]
    for agent in agents:
        if codecs[agent].action != first.action:
            raise SpecMismatchError(
                f"padded role: expected all agents to have the action of {agents[0]!r} "
                f"({_action_name(first.action)}), got {_action_name(codecs[agent].action)} for {agent!r}. "
                "Use roles: by_space."
            )
    if len({codec.blocks for codec in codecs.values()}) == 1:
        layout = _layout(list(codecs.values()))
    else:
        layout = _padded_layout(list(codecs.values()))
    return (RoleSpec(prefixes.pop() if len(prefixes) == 1 else "agent", tuple(agents), layout, first.action),)


def _prefix(agent: str) -> str:
    return re.sub(r"_?\d+$", "", agent) or agent


def _layout(codecs: list[AgentCodec]) -> ObservationLayout:
    low = np.min([codec.low for codec in codecs], axis=0)
    high = np.max([codec.high for codec in codecs], axis=0)
    blocks, start = [], 0
    for name, size in codecs[0].blocks:
        blocks.append(
            _block(name, low[start : start + size], high[start : start + size], "As the environment gives it.")
        )
        start += size
    return ObservationLayout(tuple(blocks))


def _padded_layout(codecs: list[AgentCodec]) -> ObservationLayout:
    shortest = min(codec.size for codec in codecs)
    longest = max(codec.size for codec in codecs)
    low, high = np.zeros(longest, np.float32), np.zeros(longest, np.float32)
    low[:shortest] = np.min([codec.low[:shortest] for codec in codecs], axis=0)
    high[:shortest] = np.max([codec.high[:shortest] for codec in codecs], axis=0)
    for codec in codecs:  # zero, the padding's value, stays inside the range
        rest = slice(shortest, codec.size)
        low[rest] = np.minimum(low[rest], codec.low[rest])
        high[rest] = np.maximum(high[rest], codec.high[rest])
    rest_text = "Values beyond the shortest observation; zero for agents that have none."
    return ObservationLayout(
        (
            _block("observation", low[:shortest], high[:shortest], "As the environment gives it."),
            _block("padding", low[shortest:], high[shortest:], rest_text),
        )
    )


def _block(name: str, low: Float32, high: Float32, description: str) -> ObservationBlock:
    lowest, highest = float(low.min()), float(high.max())
    return ObservationBlock(
        name,
        len(low),
        low=lowest if np.isfinite(lowest) else None,
        high=highest if np.isfinite(highest) else None,
        description=description,
    )


def _state_size(env: ParallelEnv[str, Any, Any]) -> int:
    env.reset(seed=0)
    try:
        return int(np.size(env.state()))
    except (NotImplementedError, AttributeError):
        return 0
