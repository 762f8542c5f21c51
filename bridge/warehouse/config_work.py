"""Batteries and tasks in the ``warehouse:`` section: what robots have to do and what they live on."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from bridge.warehouse.section import Section

__all__ = ["BatteryConfig", "Cell", "ChargingConfig", "LoadConfig", "ServiceConfig", "TaskConfig", "TransportConfig"]


class ChargingConfig(Section):
    """When robots go to a charger (`C`), and how fast they charge there."""

    rate_per_h: float = Field(0.37, gt=0, description="Share of the full charge gained per hour at a charger.")
    below: float = Field(0.2, gt=0, lt=1, description="A robot without a task and with less charge goes to a charger.")
    until: float = Field(0.9, gt=0, le=1, description="It leaves the charger with this charge and takes tasks again.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.below >= self.until:
            raise ValueError(f"expected below < until, got below={self.below} >= until={self.until}.")
        return self


class BatteryConfig(Section):
    """How fast a robot's charge falls; a robot at 0 stands still."""

    drain_idle_per_h: float = Field(0.02, ge=0, description="Share of the charge lost per hour by electronics.")
    drain_moving_per_h: float = Field(0.10, ge=0, description="Additional share per hour while moving.")
    drain_loaded_factor: float = Field(
        1.5,
        ge=1,
        description="Factor on the moving drain while loaded. Where loads have masses: with `payload_kg` (or else the "
        "heaviest load) on board, and in proportion to the mass below.",
    )
    initial_min: float = Field(0.8, ge=0, le=1, description="Smallest charge at the start of an episode.")
    initial_max: float = Field(1.0, ge=0, le=1, description="Largest charge at the start of an episode.")
    capacity_wh: float = Field(1200.0, gt=0, description="Energy of the full charge in Wh; for figures alone.")
    time_factor: float = Field(
        1.0, gt=0, le=10_000, description="Batteries drain and charge this many times faster than the clock runs."
    )
    charging: ChargingConfig | None = Field(None, description="Use of the chargers; null: robots never charge.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.initial_min > self.initial_max:
            raise ValueError(
                f"expected initial_min <= initial_max, got initial_min={self.initial_min} > "
                f"initial_max={self.initial_max}."
            )
        return self


class ServiceConfig(Section):
    """Stations serve one robot at a time, for a time."""

    pick_s: float = Field(3.0, ge=0, le=3600, description="Time to take a load at a pick-up in s.")
    drop_s: float = Field(3.0, ge=0, le=3600, description="Time to hand it over at a delivery in s.")
    spread: float = Field(
        0.0, ge=0, le=1, description="Each time is drawn uniformly within this share of its mean, e.g. 0.3 for +-30%."
    )
    docking_speed_mps: float = Field(
        0.2, gt=0, description="differential only: a robot is served once it is not faster than this in m/s."
    )


Cell = tuple[Annotated[int, Field(ge=0)], Annotated[int, Field(ge=0)]]


class TransportConfig(Section):
    """One task of a list."""

    pickups: tuple[Cell, ...] = Field(
        min_length=1, max_length=16, description="Cells [row, column] where it is fetched, one after the other."
    )
    delivery: Cell = Field(description="Cell [row, column] where it is brought.")
    release_s: float = Field(0.0, ge=0, description="Time of the episode at which it arrives in s.")
    load_kg: float = Field(0.0, ge=0, description="Mass of its load in kg.")


class LoadConfig(Section):
    """What the loads of drawn tasks weigh: a robot is given those alone that its `payload_kg` allows."""

    min_kg: float = Field(0.0, ge=0, description="Smallest mass in kg; each is drawn uniformly.")
    max_kg: float = Field(gt=0, description="Largest mass in kg.")

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.min_kg > self.max_kg:
            raise ValueError(f"expected min_kg <= max_kg, got min_kg={self.min_kg} > max_kg={self.max_kg}.")
        return self


class TaskConfig(Section):
    """The stream of transports: fetch a load at a pick-up, bring it to a delivery."""

    arrival: Literal["backlog", "poisson", "list"] = Field(
        "backlog",
        description="backlog: `open` tasks always wait; poisson: tasks arrive at `rate_per_h`; list: `transports`.",
    )
    transports: tuple[TransportConfig, ...] = Field(
        (), max_length=100_000, description="list only: the tasks; row 0 is the top of the drawing, column 0 its left."
    )
    errands: int = Field(
        1, ge=1, le=16, description="Pick-ups that each task visits, one after the other, before its delivery."
    )
    timeout_s: float | None = Field(
        None, gt=0, description="A task that its robot has not begun to fetch in this time in s goes back; null: never."
    )
    idle_yield_s: float | None = Field(
        None,
        gt=0,
        description="An idle robot that has blocked others for this time in s is sent to another parking place; "
        "null: never.",
    )
    open: int = Field(8, ge=1, le=50_000, description="Tasks that wait unassigned (poisson: at most).")
    rate_per_h: float = Field(600.0, gt=0, description="Mean arrivals per hour (poisson only).")
    dispatch: Literal["nearest", "fifo", "token"] = Field(
        "nearest",
        description="nearest: an idle robot takes the task with the nearest pick-up; fifo: the oldest task goes to "
        "the nearest idle robot; token: as nearest, but no task that begins or ends where another robot's task ends.",
    )
    load: LoadConfig | None = Field(None, description="Masses of the loads of drawn tasks; null: they weigh nothing.")
    service: ServiceConfig | None = Field(
        None, description="Time that stations take; null: none, and any number of robots at once."
    )

    @model_validator(mode="after")
    def _list_has_transports(self) -> Self:
        if (self.arrival == "list") != bool(self.transports):
            raise ValueError(
                f"expected transports with arrival 'list' and only there, got arrival {self.arrival!r} and "
                f"{len(self.transports)} transports."
            )
        if self.arrival == "list" and self.errands != 1:
            raise ValueError(f"expected errands 1 with arrival 'list', got {self.errands}. State pickups instead.")
        if self.arrival == "list" and self.load is not None:
            raise ValueError("expected no load with arrival 'list', got one. State load_kg of the transports instead.")
        return self

    @model_validator(mode="after")
    def _rate_needs_poisson(self) -> Self:
        if self.arrival != "poisson" and self.rate_per_h != type(self).model_fields["rate_per_h"].default:
            raise ValueError(
                f"expected no rate_per_h with arrival {self.arrival!r}, got {self.rate_per_h}. Use arrival 'poisson'."
            )
        return self

    @property
    def has_loads(self) -> bool:
        """Some load weighs something."""
        return self.heaviest_kg > 0.0

    @property
    def heaviest_kg(self) -> float:
        """Mass of the heaviest load that there can be in kg."""
        return max([self.load.max_kg if self.load else 0.0, *(task.load_kg for task in self.transports)])

    @property
    def has_errands(self) -> bool:
        """Some task visits more than one pick-up."""
        return self.errands > 1 or any(len(task.pickups) > 1 for task in self.transports)
