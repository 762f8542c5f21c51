"""No reward is lost or counted twice: what random scenes sent against what came out, life by life."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity.rewards import GroupReward
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions

BEHAVIORS = {"AGV?team=0": 4, "AGV?team=1": 2, "Lift?team=0": 2}
LENGTH = 150
Key = tuple[int, int]


def world() -> WorldSpec:
    layout = ObservationLayout((ObservationBlock("agent", 1), ObservationBlock("life", 1)))
    sizes = {"AGV": 6, "Lift": 2}
    return WorldSpec(
        tuple(
            RoleSpec(name, tuple(f"{name}_{slot}" for slot in range(size)), layout, ActionSpec(1, (3,)))
            for name, size in sizes.items()
        )
    )


@contextmanager
def opened(port: int, rule: GroupReward = "add") -> Iterator[UnityRoster]:
    session = SessionOptions(timeout_s=20, port=port)
    roster = UnityRoster(None, world(), session, RosterOptions(group_reward=rule, silence_limit=10_000))
    try:
        yield roster
    finally:
        roster.close()


class Ledger:
    """What came out of a roster: rewards and ends of each life, which its observation names."""

    def __init__(self, roster: UnityRoster) -> None:
        self.roster = roster
        self.rewards: dict[Key, float] = defaultdict(float)
        self.ends: dict[Key, str] = {}

    def step(self) -> None:
        roles = self.roster.arrays.roles
        before = {name: (role.agent_mask.copy(), role.observations.copy()) for name, role in roles.items()}
        self.roster.step()
        for name, role in roles.items():
            lived, seen = before[name]
            assert not role.rewards[~lived].any()
            assert not (role.terminated | role.truncated)[~lived].any()
            assert not (role.terminated & role.truncated).any()
            for env, slot in np.argwhere(lived):
                key = (int(seen[env, slot, 0]), int(seen[env, slot, 1]))
                self.rewards[key] += float(role.rewards[env, slot])
                if role.terminated[env, slot] or role.truncated[env, slot]:
                    assert role.final_observations[env, slot].tolist() == list(key)
                    assert key not in self.ends
                    self.ends[key] = "terminated" if role.terminated[env, slot] else "truncated"


def expected(sent: list[Any]) -> tuple[dict[Key, float], dict[Key, str], float]:
    """Rewards and ends per life that had a step, and the sum of what no life can have.

    What came with the first decision of a life that runs but has had no step yet is in neither.
    """
    last_epoch = max(entry.epoch for entry in sent)
    lives: dict[tuple[Key, int], list[Any]] = defaultdict(list)
    for entry in sent:
        lives[entry.key, entry.epoch].append(entry)
    rewards: dict[Key, float] = defaultdict(float)
    ends: dict[Key, str] = {}
    nobodys = 0.0
    for (key, epoch), entries in lives.items():
        began = entries[0]
        had_a_step = not began.done and entries[-1].exchange > began.exchange
        is_open = epoch == last_epoch and not any(entry.done for entry in entries)
        for entry in entries:
            if is_open and not had_a_step and not entry.left_over:
                continue
            if not had_a_step or (entry is began and entry.left_over):
                nobodys += entry.reward
                continue
            rewards[key] += entry.reward
            if entry.done:
                ends[key] = "truncated" if entry.interrupted else "terminated"
    return rewards, ends, nobodys


@pytest.mark.parametrize("seed", range(12))
def test_rewards_come_out_as_they_were_sent_when_a_scene_plays_at_random(
    live_player: Callable[..., int], csharp_scene: Any, seed: int
) -> None:
    scene = csharp_scene.Scene(seed, BEHAVIORS, LENGTH)
    dice = random.Random(1000 + seed)
    with opened(live_player(scene.exchanges)) as roster:
        roster.reset(seed=1)
        ledger = Ledger(roster)
        while scene.exchange < LENGTH - 15:  # a step may take several exchanges when nobody is left
            for role in roster.arrays.roles.values():
                role.discrete_actions[:] = np.where(role.action_mask[..., :1], 0, 2)
            ledger.step()
            if dice.random() < 0.04:
                roster.reset(seed=dice.choice([None, 5]))
        seen = [entry for entry in scene.sent if entry.exchange < scene.exchange]
        rewards, ends, nobodys = expected(seen)
        assert {key: reward for key, reward in ledger.rewards.items() if reward} == {
            key: reward for key, reward in rewards.items() if reward
        }
        assert ledger.ends == ends
        assert roster.unclaimed_rewards == nobodys
        assert len(ends) > 20
