"""Carries messages between the side channels and the exchanges with a player."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from bridge.errors import SpecMismatchError
from bridge.unity.mlagents_types import IncomingMessage
from bridge.unity.side_channels.frames import pack_frames, unpack_frames

__all__ = ["SideChannelHub"]

_LOG = logging.getLogger(__name__)

_MAX_UNKNOWN = 64
_MAX_LOGGED_FAILURES = 20
"""A player that sends rubbish fills neither the memory nor the log."""


class SideChannelHub:
    """The side channels of one player.

    A channel whose handler raises does not end the run: the error is logged
    with the channel's name and its message is lost.

    Args:
        channels: Instances of ``mlagents_envs``' ``SideChannel``; their order is that of their messages.
        raise_handler_errors: Let a handler's exception through instead.

    Raises:
        SpecMismatchError: Two channels have the same id.
    """

    def __init__(self, channels: Iterable[Any], *, raise_handler_errors: bool = False) -> None:
        self._channels: dict[UUID, Any] = {}
        self._unknown: set[UUID] = set()
        self._failures: dict[UUID, int] = {}
        self._raise = raise_handler_errors
        for channel in channels:
            other = self._channels.setdefault(channel.channel_id, channel)
            if other is not channel:
                raise SpecMismatchError(
                    f"side channels: expected distinct ids, got {channel.channel_id} for {type(other).__name__} "
                    f"and {type(channel).__name__}."
                )

    def collect(self) -> bytes:
        """Frames of everything that the channels have queued; the queues are empty afterwards."""
        frames = []
        for channel_id, channel in self._channels.items():
            frames += [(channel_id, bytes(message)) for message in channel.message_queue]
            # A new list, as mlagents_envs makes one: a channel may hold on to the old one.
            channel.message_queue = []
        return pack_frames(frames)

    def deliver(self, data: bytes) -> None:
        """Hand the messages of a player to their channels; a channel that nobody has is warned about once.

        Raises:
            UnityProtocolError: The framing is broken.
        """
        for channel_id, payload in unpack_frames(data):
            channel = self._channels.get(channel_id)
            if channel is None:
                self._warn_unknown(channel_id)
            else:
                self._handle(channel, payload)

    def _handle(self, channel: Any, payload: bytes) -> None:
        try:
            channel.on_message_received(IncomingMessage(payload))
        except Exception as error:
            if self._raise:
                error.add_note(f"In the handler of side channel {type(channel).__name__} ({channel.channel_id}).")
                raise
            failures = self._failures[channel.channel_id] = self._failures.get(channel.channel_id, 0) + 1
            if failures > _MAX_LOGGED_FAILURES:
                return
            _LOG.exception(
                "side channel %s (%s): its handler failed; the message of %d bytes is lost.",
                type(channel).__name__,
                channel.channel_id,
                len(payload),
            )

    def _warn_unknown(self, channel_id: UUID) -> None:
        if channel_id not in self._unknown and len(self._unknown) < _MAX_UNKNOWN:
            self._unknown.add(channel_id)
            _LOG.warning(
                "side channels: the player sends on channel %s, for which there is no channel here. "
                "Its messages are dropped.",
                channel_id,
            )
