"""A scene that lives by the rules of the C# package, at random, and remembers what it sent.

It follows ``Academy.EnvironmentStep``: agents ask when their period says so, a
message goes out when there is anything to say, then agents act, earn rewards,
end their episodes, are disabled, come back. After a reset it sends no terminals,
keeps the rewards that were not sent, and acts once more.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

RESET = 1


@dataclass
class Agent:
    """One component in the scene, with the fields of ``Agent.cs`` that matter."""

    behavior: str
    group: int
    period: int
    on_demand: bool
    id: int = 0
    life: int = 0
    enabled: bool = True
    reward: float = 0.0
    group_reward: float = 0.0
    done_sent: bool = False


@dataclass(frozen=True)
class Sent:
    """One entry as it was sent.

    Attributes:
        exchange: Number of the exchange.
        key: Agent id and number of the life, as observed.
        epoch: Number of resets before.
        reward: Its own and its group's reward.
        done: It was a terminal.
        interrupted: By a limit.
        left_over: The first one after a reset of an agent that was there before.
    """

    exchange: int
    key: tuple[int, int]
    epoch: int
    reward: float
    done: bool
    interrupted: bool
    left_over: bool


@dataclass
class Scene:
    """Plays at random.

    Args:
        seed: Of its randomness.
        behaviors: Name on the wire and number of agents.
        length: Number of exchanges.
    """

    seed: int
    behaviors: dict[str, int]
    length: int
    sent: list[Sent] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = random.Random(self.seed)
        self.next_id = 1
        self.tick = 0
        self.exchange = 0
        self.known: set[str] = set()
        self.epoch = 0
        self.newest = self.newest_before_reset = 0
        self.sent_since_reset: set[int] = set()
        self.carried: dict[str, list[dict[str, Any]]] = {}
        self.agents: list[Agent] = []
        for name, count in self.behaviors.items():
            for _ in range(count):
                dice = self.dice
                agent = Agent(name, dice.choice([0, 1, 2]), dice.choice([1, 1, 2, 3]), dice.random() < 0.2)
                self.enable(agent)
                self.agents.append(agent)

    def exchanges(self, player: Any) -> Iterator[dict[str, Any]]:
        """What to send, one after the other."""
        while self.exchange < self.length:
            rl_input = player.reply.unity_input.rl_input
            if self.exchange and rl_input.command == RESET:
                self.reset()
            yield self.play()

    def enable(self, agent: Agent) -> None:
        agent.id, agent.life, agent.enabled, agent.done_sent = self.next_id, 0, True, False
        agent.reward = agent.group_reward = 0.0
        self.next_id += 1 + self.dice.randrange(2)

    def reset(self) -> None:
        """``ForcedFullReset``: a new life for everybody, without a word; rewards stay; everybody acts once more."""
        self.epoch += 1
        self.newest_before_reset = self.newest
        self.sent_since_reset.clear()
        if self.dice.random() < 0.3:  # OnEnvironmentReset handlers that destroy agents
            for agent in self.dice.sample(self.agents, self.dice.randrange(len(self.agents) + 1)):
                if agent.enabled:
                    self.disable(self.carried, agent)
        for agent in self.agents:
            if agent.enabled:
                agent.life += 1
                agent.done_sent = False
                self.earn(agent)

    def play(self) -> dict[str, Any]:
        """The next exchange: ticks until there is something to say."""
        messages, self.carried = self.carried, {}
        started = False
        while not (started and messages):
            started = True
            self.tick += 1
            self.act(messages)
            for agent in self.agents:
                if agent.enabled and self.asks(agent):
                    self.put(messages, agent, done=False)
                    if self.dice.random() < 0.02:  # somebody else's code ends it before the message goes out
                        self.end(messages, agent)
        entry: dict[str, Any] = {"agents": messages}
        new = set(messages) - self.known
        if new:
            entry["behaviors"] = {name: {"continuous": 1, "branches": [3]} for name in new}
            self.known |= new
        self.exchange += 1
        return entry

    def asks(self, agent: Agent) -> bool:
        return self.dice.random() < 0.15 if agent.on_demand else self.tick % agent.period == 0

    def act(self, messages: dict[str, list[dict[str, Any]]]) -> None:
        dice = self.dice
        for group in (1, 2):
            if dice.random() < 0.1:
                for agent in self.agents:
                    if agent.enabled and agent.group == group:
                        agent.group_reward += 0.5
        for agent in self.agents:
            if not agent.enabled:
                if dice.random() < 0.3:
                    self.enable(agent)
                continue
            self.earn(agent)
            event = dice.random()
            if event < 0.04:
                self.end(messages, agent)
            elif event < 0.08:
                self.end(messages, agent, interrupted=True)
            elif event < 0.12:
                self.disable(messages, agent)
            elif event < 0.14:  # EndEpisode, then Destroy: one terminal, and the id is gone
                self.end(messages, agent)
                self.disable(messages, agent)
            if agent.enabled and dice.random() < 0.1:
                self.earn(agent)  # also after the end: it belongs to the next life

    def earn(self, agent: Agent) -> None:
        agent.reward += self.dice.randrange(-4, 5) * 0.25

    def end(self, messages: dict[str, list[dict[str, Any]]], agent: Agent, *, interrupted: bool = False) -> None:
        """``EndEpisode`` or ``EpisodeInterrupted``."""
        if agent.done_sent:
            return
        self.notify_done(messages, agent, interrupted=interrupted)
        agent.life += 1

    def disable(self, messages: dict[str, list[dict[str, Any]]], agent: Agent) -> None:
        self.notify_done(messages, agent, interrupted=False)
        agent.enabled = False

    def notify_done(self, messages: dict[str, list[dict[str, Any]]], agent: Agent, *, interrupted: bool) -> None:
        if agent.done_sent:
            return  # no terminal before the next decision
        self.put(messages, agent, done=True, interrupted=interrupted)
        agent.done_sent = True

    def put(
        self,
        messages: dict[str, list[dict[str, Any]]],
        agent: Agent,
        *,
        done: bool,
        interrupted: bool = False,
    ) -> None:
        key = (agent.id, agent.life)
        left_over = agent.id <= self.newest_before_reset and agent.id not in self.sent_since_reset
        self.sent_since_reset.add(agent.id)
        self.newest = max(self.newest, agent.id)
        if not done:
            agent.done_sent = False
        reward = agent.reward + agent.group_reward
        self.sent.append(Sent(self.exchange, key, self.epoch, reward, done, interrupted, left_over))
        messages.setdefault(agent.behavior, []).append(
            {
                "id": agent.id,
                "obs": [[float(agent.id), float(agent.life)]],
                "reward": agent.reward,
                "group": agent.group,
                "group_reward": agent.group_reward,
                "done": done,
                "interrupted": interrupted,
                "mask": [] if done else [False, self.dice.random() < 0.5, False],
            }
        )
        agent.reward = agent.group_reward = 0.0
