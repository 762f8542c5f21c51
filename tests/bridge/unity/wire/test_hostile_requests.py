"""Requests that are made to do harm: each is refused at once, with an error that says where and what."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

from bridge.errors import UnityProtocolError
from bridge.specs import ActionSpec
from bridge.unity.behaviors import Behavior, SensorSpec
from bridge.unity.decode import OutputDecoder
from bridge.unity.messages import AgentInfo, Header, UnityMessage
from bridge.unity.wire import (
    MAX_AGENTS,
    MAX_BEHAVIORS,
    MAX_INITIALIZATION_BYTES,
    MAX_UNUSUAL_BYTES,
    AgentReader,
    read_request,
)

NAME = "AGV?team=0"
SENSORS = (SensorSpec("lidar", (3,), (1,), 0), SensorSpec("grid", (2, 2), (1, 1), 0))
BEHAVIOR = Behavior(NAME, SENSORS, ActionSpec(1, (3,)))
BIG = Behavior(NAME, (SensorSpec("big", (4096, 2048), (0, 0), 0),), ActionSpec(1))


def part(number: int, content: bytes) -> bytes:
    """A field with its length."""
    size, encoded = len(content), bytearray([number << 3 | 2])
    while size > 0x7F:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes(encoded) + bytes([size]) + content


HEADER = part(1, b"\x08\xc8\x01")


def request(rl_output: bytes, initialization: bytes | None = None) -> bytes:
    more = b"" if initialization is None else part(2, initialization)
    return HEADER + part(2, part(1, rl_output) + more)


def agents(list_of_agents: bytes, name: bytes = NAME.encode()) -> bytes:
    return part(2, part(1, name) + part(2, list_of_agents))


def decode(data: bytes, *behaviors: Behavior) -> Any:
    decoder = OutputDecoder()
    for behavior in behaviors:
        decoder.behaviors[behavior.name] = behavior
        decoder._readers[behavior.name] = AgentReader(behavior)
    return decoder.decode(read_request(data))


def agent(**changes: Any) -> Any:
    info = AgentInfo(id=changes.pop("id", 7), **changes)
    for sensor in SENSORS:
        observation = info.observations.add(shape=sensor.shape, name=sensor.name)
        observation.float_data.data.extend(range(sensor.size))
    return info


def one_agent(info: Any) -> bytes:
    message = UnityMessage(header=Header(status=200))
    message.unity_output.rl_output.agentInfos[NAME].value.append(agent(id=1))
    message.unity_output.rl_output.agentInfos[NAME].value.append(info)
    data: bytes = message.SerializeToString()
    return data


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\x12\xff\xff\xff\xff\x0f", r"player: expected a protocol message, got 6 bytes that are none from byte 0 on"),
        (HEADER + b"\x12\x05\x0a\x03\x12\x01", r"none from byte 5 on"),
        (HEADER + b"\x80" * 30, r"none from byte 5 on"),
        (HEADER + b"\x07", r"none from byte 5 on"),
        (HEADER + b"\x00\x00", r"none from byte 5 on"),
        (HEADER + b"\x25\x00\x00", r"none from byte 5 on"),
        (HEADER + b"\x24", r"none from byte 5 on|got 6 bytes that are none: "),
        (HEADER + b"\x23", r"got 6 bytes that are none: "),
        (b"", r"expected status 200 or 400, got 0: ''"),
        (part(1, b"\x08\xf4\x03\x12\x04oops"), r"expected status 200 or 400, got 500: 'oops'"),
        (request(agents(b"", b"\xff\xfe")), r"expected a behavior name in UTF-8, got b'\\xff\\xfe'"),
        (request(agents(b"", b"Ghost")), r"expected agents of the behaviors \['AGV\?team=0'\], got 'Ghost'"),
        (request(agents(part(1, part(13, b"") * 3))), r"agent 0: expected 2 sensors, got 3"),
        (request(agents(part(1, b"\x50\x80"))), r"behavior 'AGV\?team=0': .*bytes that are none from byte"),
        (request(agents(part(1, b"")), b"\xff"), r"expected a description of the player, got 1 bytes that are none"),
    ],
)
def test_request_is_refused_when_its_bytes_are_wrong(data: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=message):
        decode(data, BEHAVIOR)


def compressed(info: Any) -> None:
    info.observations[0].compression_type = 1
    info.observations[0].compressed_data = b"\x89PNG"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda a: a.observations.pop(), r"expected 2 sensors, got 1. All agents"),
        (lambda a: a.observations[0].float_data.data.append(1), r"sensor 0 \('lidar'\): expected 3 values, got 4"),
        (lambda a: a.observations[1].float_data.data.pop(), r"sensor 1 \('grid'\): expected 4 values, got 3"),
        (lambda a: a.observations[1].shape.__setitem__(0, 4), r"sensor 1 .*expected the shape \(2, 2\), got another"),
        (lambda a: a.observations[0].shape.append(1), r"sensor 0 .*expected the shape \(3,\), got another of 2 dim"),
        (lambda a: a.observations[0].float_data.data.__setitem__(2, np.nan), r"finite values, got nan as value 2"),
        (lambda a: a.observations[1].float_data.data.__setitem__(0, -np.inf), r"finite values, got -inf as value 0"),
        (lambda a: setattr(a, "reward", np.nan), r"expected a finite reward, got nan"),
        (lambda a: setattr(a, "group_reward", np.inf), r"expected a finite group reward, got inf"),
        (lambda a: a.action_mask.extend([True] * 4), r"expected an action mask of 3 values, got 4"),
        (compressed, r"sensor 0 \('lidar'\): expected compressed values only where there are three dimensions"),
        (lambda a: setattr(a.observations[0], "compression_type", 1), r"expected compressed data as announced, got no"),
        (lambda a: setattr(a.observations[0], "compression_type", 5), r"expected compression type 0 or 1, got 5"),
        (lambda a: setattr(a.observations[0], "compressed_data", b"x"), r"sensor 0 .*: expected 3 values, got 0"),
    ],
)
def test_agent_is_refused_when_it_does_not_fit_its_behavior(change: Any, message: str) -> None:
    assert len(decode(one_agent(agent()), BEHAVIOR).batches[NAME]) == 2
    info = agent()
    change(info)
    with pytest.raises(UnityProtocolError, match=rf"^behavior 'AGV\?team=0': agent 7: .*{message}"):
        decode(one_agent(info), BEHAVIOR)


def test_huge_finite_values_are_no_error() -> None:
    info = agent(reward=3e38)
    info.observations[0].float_data.data[:] = [3e38] * 3
    assert decode(one_agent(info), BEHAVIOR).batches[NAME].observations.max() == np.float32(3e38)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (request(agents(b"\x0a\x00" * (MAX_AGENTS + 1))), r"at most 1024 behaviors and 100000 agents"),
        (request(agents(b"\x0a\x00" * 60_000) + agents(b"\x0a\x00" * 60_000)), r"at most .* 100000 agents"),
        (request(b"".join(agents(b"", b"%d" % i) for i in range(MAX_BEHAVIORS + 1))), r"at most 1024 behaviors"),
        (request(b"", b"\x2a\x00" * (MAX_INITIALIZATION_BYTES // 2 + 1)), r"a description of at most 1048576 bytes"),
        (request(b"", b"\x2a\x00" * 2000), r"expected at most 1024 behaviors, got more"),
        (HEADER + b"\x2b\x2c" * (MAX_UNUSUAL_BYTES // 2), r"without groups and repeated map values, got one of"),
        (request(agents(b"\x0a\x00" * MAX_AGENTS)), r"agent 0: expected 1 sensors, got 0"),
        (
            request(agents(part(1, part(13, b"")) + b"\x0a\x00" * 90_000)),
            r"agent 0: sensor 0 .*expected 8388608 values",
        ),
    ],
    ids=["agents", "agents in parts", "behaviors", "description", "described", "groups", "no sensors", "no values"],
)
def test_request_is_refused_without_using_memory_when_it_holds_very_much(data: bytes, message: str) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnityProtocolError, match=message):
        decode(data, BIG)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 * 1024


def test_new_behavior_is_refused_without_parsing_it_when_its_agent_has_very_many_sensors() -> None:
    parameters = part(5, part(7, b"New") + part(9, b"\x08\x01"))
    data = request(agents(part(1, part(13, b"") * 1_000_000), b"New"), parameters)
    with pytest.raises(UnityProtocolError, match=r"behavior 'New': expected at most 1024 observations, got 1000000"):
        decode(data)


def test_bytes_stay_alive_while_arrays_that_were_read_are_used() -> None:
    batch = decode(one_agent(agent()), BEHAVIOR).batches[NAME]
    expected = batch.observations.copy()
    churn = [bytes(1000) for _ in range(1000)]
    np.testing.assert_array_equal(batch.observations, expected)
    assert batch.observations.flags.owndata
    assert batch.observations.flags.writeable
    assert len(churn) == 1000
