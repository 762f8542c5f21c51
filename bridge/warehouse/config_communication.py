"""The ``communication:`` section of a warehouse: robots that say something to those nearby."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import Field, model_validator

from bridge.warehouse.section import Section

__all__ = ["BurstConfig", "CommunicationConfig", "MessagesBlock"]


class BurstConfig(Section):
    """Losses that come together: the model of Gilbert (1960) and Elliott (1963), one channel per receiver."""

    enter: float = Field(0.01, ge=0, le=1, description="Probability per step that a good channel turns bad.")
    leave: float = Field(0.2, gt=0, le=1, description="Probability per step that a bad channel turns good again.")
    loss: float = Field(1.0, ge=0, le=1, description="Share of messages lost while the channel is bad.")


class CommunicationConfig(Section):
    """Messages between robots, as part of their actions."""

    kind: Literal["continuous", "discrete"] = Field(
        "continuous",
        description="continuous: `size` values in [-1, 1]; discrete: one of `size` symbols, observed one-hot.",
    )
    size: int = Field(2, ge=1, le=32, description="Number of values, or of symbols.")
    range_m: float = Field(10.0, ge=0.01, le=1000, description="Robots farther apart do not hear each other, in m.")
    line_of_sight: bool = Field(False, description="Racks and walls between two robots cut them off.")
    period_steps: int = Field(
        1, ge=1, le=1000, description="A message is sent every so many steps; what robots say between is ignored."
    )
    latency_steps: int = Field(
        0, ge=0, le=100, description="Steps from sending to arrival; 0: it is seen at the receiver's next decision."
    )
    latency_jitter_steps: int = Field(
        0, ge=0, le=100, description="Additional latency, uniform in 0 .. this, drawn per message and receiver."
    )
    loss: float = Field(0.0, ge=0, le=1, description="Share of messages lost, drawn per message and receiver.")
    burst: BurstConfig | None = Field(None, description="Losses in bursts besides; null: none.")
    hold_steps: int = Field(
        16, ge=1, le=1000, description="A receiver holds the last message of each robot for so many steps."
    )
    handover_window_s: float = Field(
        5.0, gt=0, le=3600, description="Time before a pick-up or delivery that losses are also counted over, in s."
    )

    @model_validator(mode="after")
    def _messages_arrive_while_held(self) -> Self:
        slowest = self.latency_steps + self.latency_jitter_steps
        if slowest > self.hold_steps:
            raise ValueError(
                f"expected latency_steps + latency_jitter_steps <= hold_steps, got {slowest} > {self.hold_steps}."
            )
        if self.kind == "discrete" and self.size < 2:
            raise ValueError(f"expected size >= 2 with kind 'discrete', got {self.size}.")
        return self


class MessagesBlock(Section):
    """What the nearest robots within the range of `communication` said last, nearest first, with its age."""

    block: Literal["messages"] = "messages"
    count: int = Field(3, ge=1, le=32, description="Number of robots.")
