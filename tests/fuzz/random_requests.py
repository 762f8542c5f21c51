"""Random requests as bytes, in every form that the protobuf format allows.

Fields come in any order and more than once; repeated values are packed,
unpacked or both; float data is split; numbers are longer than they need be;
unknown fields, groups and unusual map entries stand between; defaults are
missing. With ``misfits``, sizes, shapes and values are sometimes wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from bridge.specs import ActionSpec
from bridge.unity.behaviors import Behavior, SensorSpec

__all__ = ["RequestWriter", "random_behavior"]

VARINT, FIXED64, BYTES, GROUP, END_GROUP, FIXED32 = range(6)


def random_behavior(rng: np.random.Generator, name: str) -> Behavior:
    """A behavior with up to four sensors of rank 1 to 3."""
    sensors = []
    for index in range(int(rng.integers(1, 5))):
        shape = tuple(rng.integers(1, 5, int(rng.integers(1, 4))).tolist())
        sensors.append(SensorSpec(f"sensor {index}", shape, (0,) * len(shape), 0))
    branches = tuple(rng.integers(1, 5, int(rng.integers(0, 3))).tolist())
    return Behavior(name, tuple(sensors), ActionSpec(int(rng.integers(0 if branches else 1, 4)), branches))


def varint(value: int, padding: int = 0) -> bytes:
    """A number, negative ones as 64 bits, with ``padding`` bytes more than it needs."""
    value &= (1 << 64) - 1
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    padding = min(padding, 10 - len(encoded))
    if padding > 0:
        encoded[-1] |= 0x80
        encoded += b"\x80" * (padding - 1) + b"\x00"
    return bytes(encoded)


class RequestWriter:
    """Writes random requests.

    Args:
        rng: Source of randomness.
        strange: Probability of each unusual form.
        misfits: Write agents that do not fit their behavior now and then.
        groups: Write groups and unusual map entries now and then.
    """

    def __init__(
        self, rng: np.random.Generator, strange: float = 0.1, misfits: bool = False, groups: bool = False
    ) -> None:
        self.rng = rng
        self.strange = strange
        self.misfits = misfits
        self.groups = groups

    def request(self, behaviors: Sequence[Behavior], max_agents: int = 6) -> bytes:
        """A request with agents of some behaviors."""
        outputs = []
        for _ in range(1 + self.sometimes()):
            entries = []
            for behavior in behaviors:
                if self.rng.random() < 0.8:
                    entries += [self.entry(behavior, max_agents) for _ in range(1 + self.sometimes())]
            side = [self.part(3, self.rng.bytes(int(self.rng.integers(0, 40))))] if self.rng.random() < 0.5 else []
            outputs.append(self.part(1, self.shuffled([*entries, *side])))
        header = [self.number(1, 200)] + ([self.part(2, b"message")] if self.sometimes() else [])
        parts = [self.part(1, self.shuffled(header))]
        parts += [self.part(2, self.shuffled([output])) for output in outputs]
        if self.sometimes():
            parts.append(self.part(3, b""))
        return self.shuffled(parts)

    def entry(self, behavior: Behavior, max_agents: int) -> bytes:
        """A behavior with its agents, as an entry of the map."""
        agents = [self.part(1, self.agent(behavior)) for _ in range(int(self.rng.integers(0, max_agents + 1)))]
        parts = [self.part(1, behavior.name.encode()), self.part(2, self.shuffled(agents))]
        if self.groups and self.sometimes():
            parts.append(self.part(2, self.shuffled(agents[:1])))
        if self.groups and self.sometimes():
            parts.append(self.number(9, 1))
        self.rng.shuffle(parts)
        return self.part(2, b"".join(parts))

    def agent(self, behavior: Behavior) -> bytes:
        """The fields of an agent."""
        rng = self.rng
        fields = [
            self.floating(7, self.reward()),
            self.number(8, int(rng.integers(0, 2))),
            self.number(9, int(rng.integers(0, 3))),
            self.number(10, int(rng.integers(-(2**31), 2**31))),
            self.number(14, int(rng.integers(0, 3))),
            self.floating(15, self.reward()),
        ]
        fields = [field for field in fields if rng.random() < 0.85]
        fields += [field for field in fields if self.sometimes()]
        size = behavior.action.mask_size + (self.wrong() if size_matters(behavior) else 0)
        if rng.random() < 0.5:
            fields.append(self.repeated(11, [varint(int(bit)) for bit in rng.integers(0, 2, size)], VARINT))
        sensors = [self.part(13, self.sensor(sensor)) for sensor in behavior.sensors]
        if self.misfits and rng.random() < 0.02:
            sensors = sensors[:-1] if rng.random() < 0.5 else [*sensors, sensors[0]]
        self.rng.shuffle(fields)
        return self.noise().join(self.interleaved(fields, sensors)) + self.noise()

    def interleaved(self, fields: list[bytes], ordered: list[bytes]) -> list[bytes]:
        """Fields among which others stand in their order."""
        cuts = sorted(self.rng.integers(0, len(fields) + 1, len(ordered)).tolist())
        for shift, (cut, part) in enumerate(zip(cuts, ordered, strict=True)):
            fields.insert(cut + shift, part)
        return fields

    def sensor(self, sensor: SensorSpec) -> bytes:
        """The fields of an observation."""
        shape = list(sensor.shape)
        if self.misfits and self.rng.random() < 0.02:
            shape[0] += 1
        values = self.rng.normal(size=max(sensor.size + self.wrong(), 0)).astype("<f4")
        if self.misfits and self.rng.random() < 0.02 and len(values):
            values[self.rng.integers(len(values))] = self.rng.choice([np.nan, np.inf, -np.inf])
        fields = [
            self.repeated(1, [varint(size, self.padding()) for size in shape], VARINT),
            self.repeated(6, [varint(1)] * len(shape), VARINT),
            self.part(8, sensor.name.encode()),
        ]
        if self.sometimes():
            fields.append(self.number(2, int(self.misfits and self.rng.random() < 0.1)))
        if self.sometimes():
            fields.append(self.number(7, 1))
        data = [self.floats(part) for part in self.split(values)]
        self.rng.shuffle(fields)
        fields = self.interleaved(fields, data)
        if self.sometimes():  # dropped by the values that follow
            fields.insert(0, self.part(3, b"\x89PNG"))
        return self.noise().join(fields) + self.noise()

    def floats(self, values: np.ndarray) -> bytes:
        """A ``FloatData`` field."""
        return self.part(4, self.repeated(1, [value.tobytes() for value in values], FIXED32) + self.noise())

    def repeated(self, number: int, values: list[bytes], wire_type: int) -> bytes:
        """Repeated values: packed, one by one, or partly so."""
        parts = []
        for chunk in self.split(values):
            if len(chunk) == 0:
                continue
            if self.sometimes():
                parts += [varint(number << 3 | wire_type) + value for value in chunk]
            else:
                parts.append(self.part(number, b"".join(chunk)))
        return b"".join(parts)

    def split(self, values):  # type: ignore[no-untyped-def]
        """The values in one piece, or in two."""
        cut = int(self.rng.integers(0, len(values) + 1)) if self.sometimes() else len(values)
        return [values] if cut == len(values) else [values[:cut], values[cut:]]

    def part(self, number: int, content: bytes) -> bytes:
        """A field with its length."""
        tag, size = number << 3 | BYTES, len(content)
        return varint(tag, self.padding(4)) + varint(size, min(self.padding(4), 5 - len(varint(size)))) + content

    def number(self, number: int, value: int) -> bytes:
        """A field with a varint."""
        return varint(number << 3 | VARINT) + varint(value, self.padding())

    def floating(self, number: int, value: float) -> bytes:
        """A field with a float32."""
        return varint(number << 3 | FIXED32) + struct.pack("<f", value)

    def shuffled(self, parts: list[bytes]) -> bytes:
        """Parts in any order with noise between them."""
        parts = [*parts, *(self.noise() for _ in range(2))]
        self.rng.shuffle(parts)
        return b"".join(parts)

    def noise(self) -> bytes:
        """Now and then, a field that nobody knows."""
        if not self.sometimes():
            return b""
        rng = self.rng
        number = int(rng.choice([16, 100, 2047, 2**29 - 1]))
        kinds = [VARINT, FIXED64, BYTES, FIXED32] + ([GROUP] if self.groups else [])
        kind = int(rng.choice(kinds))
        tag = varint(number << 3 | kind)
        if kind == VARINT:
            return tag + varint(int(rng.integers(-5, 2**40)))
        if kind == BYTES:
            content = rng.bytes(int(rng.integers(0, 9)))
            return tag + varint(len(content)) + content
        if kind == GROUP:
            return tag + self.number(1, 5) + varint(number << 3 | END_GROUP)
        return tag + rng.bytes(8 if kind == FIXED64 else 4)

    def reward(self) -> float:
        """A reward, seldom one that is not finite."""
        return float("nan") if self.misfits and self.rng.random() < 0.005 else float(self.rng.normal())

    def wrong(self) -> int:
        """Seldom, something to add to a size."""
        return int(self.rng.choice([-1, 1, 7])) if self.misfits and self.rng.random() < 0.02 else 0

    def padding(self, most: int = 9) -> int:
        """Now and then, bytes to add to a number; protobuf takes no more than five for tags and lengths."""
        return int(self.rng.integers(1, min(most, 3) + 1)) if self.rng.random() < self.strange / 4 else 0

    def sometimes(self) -> bool:
        """True with the probability of something unusual."""
        return bool(self.rng.random() < self.strange)


def size_matters(behavior: Behavior) -> bool:
    """Whether a mask of another size would be an error that a shorter one can make."""
    return behavior.action.mask_size > 1
