"""Reads the payload of a side-channel message, byte by byte checked.

The encoding is that of ``OutgoingMessage`` on either side: int32 and float32
little-endian; a string is an int32 length in bytes and ASCII; a list of floats
an int32 count and float32s. ``mlagents_envs``' own reader returns defaults past
the end of a message; what comes from a peer is better refused.
"""

from __future__ import annotations

import struct
from typing import Final

import numpy as np
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError

__all__ = ["PayloadReader"]

_INT: Final = struct.Struct("<i")
_FLOAT: Final = struct.Struct("<f")


class PayloadReader:
    """Reads one message from front to back.

    Args:
        payload: The message.
        where: Who reads it; starts the messages of errors.
    """

    def __init__(self, payload: bytes, where: str) -> None:
        self._payload = payload
        self._where = where
        self._offset = 0

    def int32(self, what: str, low: int = -(1 << 31), high: int = (1 << 31) - 1) -> int:
        """The next integer.

        Args:
            what: What it means; for errors.
            low: Least value that is allowed.
            high: Largest value that is allowed.

        Raises:
            UnityProtocolError: The message ends before, or the value is out of range.
        """
        value: int = _INT.unpack(self._take(_INT.size, what))[0]
        if not low <= value <= high:
            raise UnityProtocolError(f"{self._where}: expected {what} of {low} to {high}, got {value}.")
        return value

    def float32(self, what: str) -> float:
        """The next float.

        Raises:
            UnityProtocolError: The message ends before, or the value is not finite.
        """
        value: float = _FLOAT.unpack(self._take(_FLOAT.size, what))[0]
        if not np.isfinite(value):
            raise UnityProtocolError(f"{self._where}: expected a finite {what}, got {value}.")
        return value

    def string(self, what: str, max_bytes: int) -> str:
        """The next string; bytes that are no ASCII become replacement characters.

        Raises:
            UnityProtocolError: The message ends before, or the string is longer than ``max_bytes``.
        """
        length = self.int32(f"length of {what}", 0, max_bytes)
        return self._take(length, what).decode("ascii", errors="replace")

    def floats(self, what: str, count: int, least: int | None = None) -> NDArray[np.float32]:
        """The next list of floats, (n,) float32.

        Args:
            what: What it means; for errors.
            count: Most values that are allowed.
            least: Fewest values; ``count`` by default.

        Raises:
            UnityProtocolError: The message ends before, it has another length, or a value is not finite.
        """
        given = self.int32(f"number of values of {what}", 0)
        least = count if least is None else least
        if not least <= given <= count:
            wanted = f"{count}" if least == count else f"{least} to {count}"
            raise UnityProtocolError(f"{self._where}: expected {wanted} values of {what}, got {given}.")
        values = np.frombuffer(self._take(4 * given, what), "<f4").astype(np.float32)
        if not np.isfinite(values).all():
            wrong = int(np.argmin(np.isfinite(values)))
            raise UnityProtocolError(
                f"{self._where}: expected finite values of {what}, got {values[wrong]} as value {wrong}."
            )
        return values

    def end(self) -> None:
        """Require that nothing is left.

        Raises:
            UnityProtocolError: There is.
        """
        left = len(self._payload) - self._offset
        if left:
            raise UnityProtocolError(f"{self._where}: expected the end of the message, got {left} more bytes.")

    def _take(self, size: int, what: str) -> bytes:
        stop = self._offset + size
        if stop > len(self._payload):
            raise UnityProtocolError(
                f"{self._where}: expected {size} bytes of {what}, got {len(self._payload) - self._offset}."
            )
        part = self._payload[self._offset : stop]
        self._offset = stop
        return part
