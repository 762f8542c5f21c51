"""Frames, the hub, and statistics."""

from __future__ import annotations

import logging
import struct
from typing import Any
from uuid import UUID, uuid4

import pytest

from bridge.errors import SpecMismatchError, UnityProtocolError
from bridge.unity.messages import STATS_CHANNEL
from bridge.unity.mlagents_types import IncomingMessage, OutgoingMessage, SideChannel, StatsAggregationMethod
from bridge.unity.side_channels import SideChannelHub, StatsChannel, pack_frames, unpack_frames

CHANNEL = UUID("621f0a70-4f87-11ea-a6bf-784f4387d1f7")


class Recorder(SideChannel):  # type: ignore[misc]
    def __init__(self, channel_id: UUID = CHANNEL) -> None:
        super().__init__(channel_id)
        self.received: list[bytes] = []

    def on_message_received(self, msg: Any) -> None:
        if msg.buffer == b"bad":
            raise RuntimeError("cannot read this")
        self.received.append(msg.buffer)


def test_frames_are_laid_out_as_in_dotnet() -> None:
    data = pack_frames([(CHANNEL, b"abc")])
    assert data == bytes.fromhex("700a1f62874fea11a6bf784f4387d1f7") + b"\x03\0\0\0abc"


def test_frames_come_back_when_there_are_several() -> None:
    frames = [(uuid4(), b""), (uuid4(), b"x" * 1000), (CHANNEL, b"\0")]
    assert unpack_frames(pack_frames(frames)) == frames
    assert unpack_frames(b"") == []


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 19, r"message 0: expected a header of 20 bytes, got 19"),
        (b"\0" * 16 + b"\xff\xff\xff\xff", r"message 0 of channel 0{8}-.*: expected a length of 0 to 0 bytes, got -1"),
        (
            pack_frames([(CHANNEL, b"")]) + b"\0" * 16 + b"\5\0\0\0abcd",
            r"message 1 .* 0 to 4 bytes, got 5",
        ),
        (pack_frames([(CHANNEL, b"")] * 100_001), r"expected at most 100000 messages, got more"),
    ],
)
def test_frames_are_refused_when_they_are_malformed(data: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=message):
        unpack_frames(data)


def test_hub_sends_each_message_once_when_it_collects() -> None:
    first, second = Recorder(), Recorder(uuid4())
    hub = SideChannelHub([first, second])
    for channel, text in ((second, "b"), (first, "a1"), (first, "a2")):
        message = OutgoingMessage()
        message.write_string(text)
        channel.queue_message_to_send(message)
    sent = [(channel, IncomingMessage(payload).read_string()) for channel, payload in unpack_frames(hub.collect())]
    assert sent == [(first.channel_id, "a1"), (first.channel_id, "a2"), (second.channel_id, "b")]
    assert hub.collect() == b""


def test_hub_goes_on_when_a_handler_fails(caplog: pytest.LogCaptureFixture) -> None:
    channel = Recorder()
    data = pack_frames([(CHANNEL, b"bad"), (CHANNEL, b"good")])
    with caplog.at_level(logging.ERROR):
        SideChannelHub([channel]).deliver(data)
    assert channel.received == [b"good"]
    assert "side channel Recorder (621f0a70-4f87-11ea-a6bf-784f4387d1f7): its handler failed" in caplog.text
    assert "cannot read this" in caplog.text
    with pytest.raises(RuntimeError, match="cannot read this"):
        SideChannelHub([channel], raise_handler_errors=True).deliver(data)


def test_hub_warns_once_when_a_channel_is_unknown(caplog: pytest.LogCaptureFixture) -> None:
    hub = SideChannelHub([])
    hub.deliver(pack_frames([(CHANNEL, b"1"), (CHANNEL, b"2")]))
    hub.deliver(pack_frames([(CHANNEL, b"3")]))
    assert caplog.text.count("the player sends on channel 621f0a70-4f87-11ea-a6bf-784f4387d1f7") == 1


def test_hub_refuses_channels_when_two_have_one_id() -> None:
    with pytest.raises(SpecMismatchError, match=r"expected distinct ids, got 621f0a70.* for Recorder and Recorder"):
        SideChannelHub([Recorder(), Recorder()])


def statistic(key: bytes, value: float, aggregation: int) -> bytes:
    return struct.pack("<i", len(key)) + key + struct.pack("<fi", value, aggregation)


def test_stats_are_kept_in_order_until_they_are_taken() -> None:
    stats = StatsChannel()
    hub = SideChannelHub([stats])
    hub.deliver(pack_frames([(STATS_CHANNEL, statistic(b"a/b", 0.5, 1)), (STATS_CHANNEL, statistic(b"c", 2.0, 2))]))
    assert stats.take() == [("a/b", 0.5, StatsAggregationMethod.MOST_RECENT), ("c", 2.0, StatsAggregationMethod.SUM)]
    assert stats.take() == []


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"\xff\xff\xff\xff",
        statistic(b"key", 1.0, 1)[:-1],
        statistic(b"key", 1.0, 4),
        statistic(b"key", float("nan"), 0),
        struct.pack("<i", 1 << 30) + b"key",
    ],
)
def test_stats_refuse_a_message_when_it_is_malformed(payload: bytes) -> None:
    with pytest.raises(UnityProtocolError, match=r"StatsChannel: expected"):
        StatsChannel().on_message_received(IncomingMessage(payload))
