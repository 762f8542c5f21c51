"""The ``unity:`` section of a scenario. Imports neither gRPC nor ``mlagents_envs``."""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from bridge.unity.rewards import GroupReward

__all__ = [
    "ATTACH",
    "EDITOR",
    "HEADLESS",
    "GaussianSampler",
    "Parameter",
    "RangesSampler",
    "UniformSampler",
    "UnityConfig",
]

HEADLESS = "headless"
EDITOR = "editor"
ATTACH = "attach"

_EDITOR_PORT = 5004

# What Unity's package connects to is "localhost": the first, which is also heard on all addresses.
_LOCALHOST, _ALL_ADDRESSES = "127.0.0.1", "0.0.0.0"

_Name = Annotated[str, Field(min_length=1, max_length=256, pattern=r"^[\x20-\x7e]+$")]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class UniformSampler(_Section):
    """Drawn evenly at every reading."""

    uniform: tuple[float, float] = Field(description="Least and largest value.")


class GaussianSampler(_Section):
    """Drawn from a normal distribution at every reading."""

    gaussian: tuple[float, Annotated[float, Field(ge=0)]] = Field(description="Mean and standard deviation.")


class RangesSampler(_Section):
    """Drawn evenly from several ranges at every reading."""

    ranges: tuple[tuple[float, float], ...] = Field(min_length=1, description="Least and largest value of each range.")


Parameter = float | UniformSampler | GaussianSampler | RangesSampler


class UnityConfig(_Section):
    """The ``unity:`` section of a scenario."""

    player: str = Field(
        HEADLESS,
        min_length=1,
        description="Path of a Unity build, relative to the scenario's folder and inside it, with or without the "
        "suffix of the platform; 'headless', the built-in simulator behind Unity's protocol; 'editor', which waits "
        "for somebody to press Play; or 'attach', which waits for a player that is started by hand.",
    )
    scenario: str | None = Field(
        None,
        description="Warehouse scenario beside this one. The headless player runs it; with another player, it names "
        "the blocks of the observation and gives the slots.",
    )
    slots: dict[str, Annotated[int, Field(ge=1, le=10_000)]] = Field(
        default_factory=dict,
        description="Without 'scenario': agents of each role that live at once in an area; by default as many as ask "
        "for a decision at first.",
    )
    areas: int | None = Field(
        None,
        ge=1,
        le=4096,
        description="Training areas of one player; there are as many players as the environments need, stepped side "
        "by side. By default one player has all environments of a worker process, or one where several scenarios are "
        "played in turn.",
    )
    state_size: int | None = Field(
        None,
        ge=0,
        le=1_000_000,
        description="Number of values of the global state that the scene sends for critics; by default none, and with "
        "the headless player those of its world.",
    )
    group_reward: GroupReward = Field(
        "add",
        description="What becomes of a group's reward: added to each member's own, ignored, or kept apart from the "
        "reward ('separate'): learners see the robots' own rewards only, the sum over an episode is the metric "
        "group_reward_<role>, and code of your own reads UnityRoster.group_rewards.",
    )
    silence_limit: int = Field(
        1000,
        ge=1,
        description="Exchanges without a sign of life after which an agent is taken to have vanished: its life is "
        "truncated and its slot is free.",
    )
    statistics: tuple[_Name, ...] = Field(
        (), description="Keys of Unity's StatsRecorder that become metrics of the world, one value per episode."
    )
    parameters: dict[_Name, Parameter] = Field(
        default_factory=dict,
        description="Environment parameters that are set when a player starts: a number, or a sampler (uniform: "
        "[least, largest], gaussian: [mean, deviation], or ranges: [[least, largest], ...]).",
    )
    time_scale: float = Field(20.0, ge=1, le=100, description="Factor on the speed of Unity's clock.")
    no_graphics: bool = Field(True, description="Start the player without a window.")
    timeout_s: float = Field(
        60.0, ge=1, le=3600, description="Longest wait for the player to connect, and for each answer, in s."
    )
    seed: int = Field(
        0, ge=0, lt=1 << 31, description="Seed of Unity's own random numbers; each player adds its number."
    )
    arguments: tuple[str, ...] = Field((), description="Further command-line arguments of the player.")
    listen: str = Field(
        _LOCALHOST,
        description="Address to listen on; the command line's --listen goes before it. Anybody who reaches it can "
        "pose as the player: leave it on loopback unless the player runs on another machine of a network that you "
        "trust.",
    )
    port: int | None = Field(
        None,
        ge=1,
        le=65535,
        description="With 'editor' (by default 5004) and 'attach': where the player connects. Where there are several, "
        "each adds the number of its first environment.",
    )
    restarts: int = Field(
        3, ge=0, le=1000, description="How often a player that crashed, quit or hung is started again; 0 for never."
    )
    restart_delay_s: float = Field(
        1.0, ge=0, le=60, description="Wait before the first restart, in s; twice as long before each further one."
    )
    log_folder: str | None = Field(
        None,
        min_length=1,
        description="Folder of the players' logs, relative to the folder in which the command is run; by default "
        "that of the training run, where there is one. The end of a failed player's log is always shown.",
    )
    stop_on_channel_error: bool = Field(
        False, description="Let a side-channel message that cannot be handled end the run; else it is logged."
    )

    @field_validator("listen")
    @classmethod
    def _is_address(cls, value: str) -> str:
        _require_address(value)
        return value

    @model_validator(mode="after")
    def _parts_fit_player(self) -> Self:
        if self.player == HEADLESS and self.scenario is None:
            raise ValueError("expected a scenario with player 'headless', got none. Add the key 'scenario'.")
        if self.player == HEADLESS and self.slots:
            raise ValueError("expected no slots with player 'headless', got some. Its scenario's fleet gives them.")
        if self.player == ATTACH and self.port is None:
            raise ValueError("expected a port with player 'attach', got none. Add the key 'port'.")
        if self.port is not None and self.is_launched:
            raise ValueError(
                f"expected no port with player {self.player!r}, got {self.port}. It is told a free one when it starts."
            )
        self._require_audible(self.listen)
        return self

    @property
    def is_launched(self) -> bool:
        """Players are started; else somebody else does it."""
        return self.player not in (EDITOR, ATTACH)

    def port_of(self, first_env: int) -> int:
        """Port to listen on for the player whose first environment is this one; 0 for any free one."""
        if self.is_launched:
            return 0
        return (_EDITOR_PORT if self.port is None else self.port) + first_env

    def with_log_folder(self, folder: Path) -> UnityConfig:
        """The same section with logs in ``folder``, unless it names a folder itself."""
        return self if self.log_folder is not None else self.model_copy(update={"log_folder": str(folder)})

    def with_listen_address(self, address: str) -> UnityConfig:
        """The same section, listening on another address.

        Raises:
            ValueError: It is no IPv4 address, or a player that is started here would not find it.
        """
        _require_address(address)
        self._require_audible(address)
        return self.model_copy(update={"listen": address})

    def _require_audible(self, address: str) -> None:
        if self.is_launched and address not in (_LOCALHOST, _ALL_ADDRESSES):
            raise ValueError(
                f"expected listen {_LOCALHOST} or {_ALL_ADDRESSES} with player {self.player!r}, got {address}. "
                "A player that is started here connects to localhost."
            )

    def link_settings(self) -> dict[str, Any]:
        """The fields that :class:`bridge.unity.link.LinkOptions` is made of."""
        return {
            "time_scale": self.time_scale,
            "max_restarts": self.restarts,
            "restart_delay_s": self.restart_delay_s,
            "raise_channel_errors": self.stop_on_channel_error,
            "parameters": self.parameters,
        }


def _require_address(value: str) -> None:
    try:
        ipaddress.IPv4Address(value)
    except ValueError as error:
        raise ValueError(f"expected an IPv4 address, got {value!r}.") from error
