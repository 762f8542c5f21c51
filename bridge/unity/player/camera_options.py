"""What ``--visual`` says: the cameras of every agent."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final

from bridge.errors import AgvBridgeError

__all__ = ["CameraOptions", "parse_cameras"]

_NAME: Final = "camera_top"
_MAX_PIXELS: Final = 512
_MAX_STACK: Final = 16
_RGB: Final = 3
_CAMERA: Final = re.compile(r"([0-9]{1,4})x([0-9]{1,4})((?::[a-z0-9]+)*)", re.ASCII)
_STACK: Final = re.compile(r"x([0-9]{1,2})", re.ASCII)


@dataclass(frozen=True)
class CameraOptions:
    """One camera.

    Attributes:
        width: Width of its picture in pixels.
        height: Height of its picture in pixels.
        png: The picture travels as PNG; else as plain floats.
        grey: One channel, the mean of red, green and blue, instead of three.
        stack: Number of pictures in an observation: the newest, which is the last, and those of the
            decisions before.
        number: Number of the camera, from 0.
    """

    width: int
    height: int
    png: bool = True
    grey: bool = False
    stack: int = 1
    number: int = 0

    @property
    def name(self) -> str:
        """Name of the sensor, as the C# package would call it."""
        name = _NAME if self.number == 0 else f"{_NAME}_{self.number + 1}"
        return name if self.stack == 1 else f"StackingSensor_size{self.stack}_{name}"

    @property
    def num_channels(self) -> int:
        """Number of channels of an observation."""
        return self.stack * (1 if self.grey else _RGB)

    @property
    def channel_mapping(self) -> tuple[int, ...]:
        """Where the channels of the PNGs go; empty for a single picture, where the C# package says nothing."""
        if self.stack == 1:
            return ()
        return tuple(channel // _RGB if self.grey else channel for channel in range(self.stack * _RGB))

    def understood_by(self, capabilities: Any) -> CameraOptions:
        """The same camera, with plain values where a trainer cannot read its PNGs.

        Args:
            capabilities: What the trainer announced, a ``Capabilities`` message.
        """
        mapping = self.channel_mapping
        reads_several = self.num_channels <= _RGB or capabilities.concatenatedPngObservations
        reads_mapping = mapping == tuple(range(len(mapping))) or capabilities.compressedChannelMapping
        return self if reads_several and reads_mapping else replace(self, png=False)

    def shape(self, channels_first: bool) -> tuple[int, int, int]:
        """Shape of an observation."""
        if channels_first:
            return self.num_channels, self.height, self.width
        return self.height, self.width, self.num_channels


def parse_cameras(text: str) -> tuple[CameraOptions, ...]:
    """Read ``WxH[:png|raw][:grey][:xN]``, several with commas between them.

    Raises:
        AgvBridgeError: The text has another form.
    """
    return tuple(_camera(part, number, text) for number, part in enumerate(text.split(",")))


def _camera(part: str, number: int, text: str) -> CameraOptions:
    match = _CAMERA.fullmatch(part)
    if match is None or not all(1 <= int(edge) <= _MAX_PIXELS for edge in (match[1], match[2])):
        raise _refused(text)
    forms, grey, stacks = [], 0, []
    for word in match[3].split(":")[1:]:
        stack = _STACK.fullmatch(word)
        if word in ("png", "raw"):
            forms.append(word)
        elif word == "grey":
            grey += 1
        elif stack is not None and 2 <= int(stack[1]) <= _MAX_STACK:
            stacks.append(int(stack[1]))
        else:
            raise _refused(text)
    if max(len(forms), grey, len(stacks)) > 1:
        raise _refused(text)
    return CameraOptions(
        int(match[1]), int(match[2]), png=forms != ["raw"], grey=grey == 1, stack=(stacks or [1])[0], number=number
    )


def _refused(text: str) -> AgvBridgeError:
    return AgvBridgeError(
        f"player: --visual: expected WIDTHxHEIGHT with 1 to {_MAX_PIXELS} pixels an edge and, behind it, any of :png, "
        f":raw, :grey and :x2 to :x{_MAX_STACK}, several of them with commas, got {text!r}."
    )
