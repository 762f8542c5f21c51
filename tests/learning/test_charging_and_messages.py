"""Robots learn to live off their chargers, with an action of their own for what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

from bridge.policy import RandomPolicy
from bridge.registry import open_world
from bridge.scenario import load_scenario
from trainers import evaluate, load_policy, train, train_config

# A full charge lasts 75 steps of driving empty: whoever never charges stands still before the first third is over.
SCENARIO = """\
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      C.P.S
      .....
      C.P.E
  fleet:
    - role: carrier
      count: 2
      battery:
        time_factor: 400
        initial_min: 0.3
        initial_max: 0.6
        charging: {rate_per_h: 0.8, below: 0.3, until: 0.6}
  tasks: {open: 2}
  observation:
    - {block: self}
    - {block: target}
    - {block: path}
    - {block: neighbours, count: 1}
    - {block: messages, count: 1}
  communication: {kind: discrete, size: 3, range_m: 10}
  reward: {delivery: 1.0, pickup: 0.5, progress: 0.05, blocked: -0.02}
  mask_blocked_moves: true
  episode_steps: 150
train:
  updates: 60
  num_envs: 16
  rollout_steps: 50
  epochs: 4
  minibatches: 2
  learning_rate: 3.0e-3
  anneal_learning_rate: true
  hidden_sizes: [32, 32]
  agent_id: false
  torch_threads: 1
"""


@pytest.mark.slow
def test_robots_that_talk_learn_to_deliver_and_to_charge(tmp_path: Path) -> None:
    file = tmp_path / "tiny_shift.yaml"
    file.write_text(SCENARIO)
    scenario = load_scenario(file)
    train(scenario, train_config(scenario), tmp_path / "run")
    policies = {
        "random": lambda roster: RandomPolicy(roster.spec, 1),
        "trained": lambda roster: load_policy(tmp_path / "run", roster.spec),
        "pibt": open_world(scenario).planners["pibt"],
    }
    rows = {row.policy: row.figures for row in evaluate(scenario, policies, seed=1_000_000, num_episodes=8)}
    trained = rows["trained"]
    assert trained["deliveries"].mean >= 0.8 * rows["pibt"]["deliveries"].mean
    assert trained["stranded"].mean == 0
    assert trained["charging_share"].mean > 0.1
    assert trained["messages_arrived"].mean == 2 * 150
    assert trained["collisions"].mean == 0
    # Nobody finds a charger by chance.
    assert rows["random"]["stranded"].mean == 2
