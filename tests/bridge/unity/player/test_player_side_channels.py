"""What the player reads from side channels and writes to them, against Unity's and the project's own channels."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest

from bridge.errors import UnityProtocolError
from bridge.unity import messages
from bridge.unity.mlagents_types import IncomingMessage
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.side_channels import Newcomer, SideChannels
from bridge.unity.side_channels import (
    EngineConfigurationChannel,
    EnvironmentParametersChannel,
    FloatPropertiesChannel,
    GlobalStateChannel,
    Identity,
    RosterChannel,
    ScenarioChannel,
    pack_frames,
    unpack_frames,
)

ECHO = UUID("11111111-2222-3333-4444-555555555555")


@pytest.fixture
def channels(tmp_path: Path) -> Any:
    with PlayerLog(str(tmp_path / "Player.log")) as log:
        yield SideChannels(log, ECHO)


def text(value: str) -> bytes:
    return struct.pack("<i", len(value)) + value.encode()


def test_side_channels_keep_parameters_and_skip_what_they_cannot_read(
    channels: SideChannels, frame: Any, tmp_path: Path
) -> None:
    unknown = UUID("99999999-2222-3333-4444-555555555555")
    environment = messages.ENVIRONMENT_PARAMETERS_CHANNEL
    channels.process(
        frame(unknown, b"abc")
        + frame(environment, text("fleet") + struct.pack("<if", 0, 2.5))
        + frame(environment, struct.pack("<i", 99))
        + frame(environment, text("noise") + struct.pack("<ii", 2, 0))
        + frame(messages.ENGINE_CONFIGURATION_CHANNEL, struct.pack("<ii", 9, 1))
        + frame(messages.FLOAT_PROPERTIES_CHANNEL, text("gravity") + struct.pack("<f", -1.5))
        + frame(messages.ENGINE_CONFIGURATION_CHANNEL, struct.pack("<if", 2, 20.0))
        + frame(messages.TRAINING_ANALYTICS_CHANNEL, b"\x0a\x00")
    )
    parameters = channels.parameters
    assert {key: parameters.get(key) for key in parameters} == {"fleet": 2.5, "gravity": -1.5}
    assert channels.engine == {"time scale": (20.0,)}
    log = (tmp_path / "Player.log").read_text()
    assert f"Unknown side channel {unknown} (3 bytes), message dropped." in log
    assert f"Side channel {environment}: message skipped: expected a string of at most 0 bytes, got 99." in log
    assert "message skipped: noise: expected a value (0) or a sampler (1), got 2." in log
    assert "message skipped: expected an engine setting of 0 to 4, got 9." in log


@pytest.mark.parametrize(
    ("high", "low", "expected"), [(0.0, 5.0, 5), (1.0, 0.0, 1 << 24), (16777215.0, 16777215.0, (1 << 48) - 1)]
)
def test_side_channels_join_the_halves_of_a_seed_once(
    channels: SideChannels, frame: Any, high: float, low: float, expected: int
) -> None:
    def half(key: str, value: float) -> bytes:
        return frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, text(key) + struct.pack("<if", 0, value))

    channels.process(half("agv_seed_high", high))
    assert channels.take_seed() is None
    channels.process(half("agv_seed_low", low))
    assert channels.take_seed() == expected
    assert channels.take_seed() is None


@pytest.mark.parametrize("value", [-1.0, 0.5, 16777216.0, float("nan"), float("inf")])
def test_side_channels_refuse_a_seed_that_is_no_24_bit_integer(
    channels: SideChannels, frame: Any, tmp_path: Path, value: float
) -> None:
    channels.process(
        frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, text("agv_seed_low") + struct.pack("<if", 0, value))
    )
    assert "agv_seed_low" not in channels.parameters
    assert "agv_seed_low: expected an integer in [0, 2^24), got" in (tmp_path / "Player.log").read_text()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"\0" * 19, r"expected a header at byte 0, got its end"),
        (b"\0" * 16 + struct.pack("<i", 5) + b"abcd", r"expected a payload of at most 4 bytes, got 5"),
        (b"\0" * 16 + struct.pack("<i", -1), r"expected a payload of at most 0 bytes, got -1"),
    ],
)
def test_side_channels_refuse_broken_framing(channels: SideChannels, data: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=message):
        channels.process(data)


def test_side_channels_empty_the_queue_of_statistics(channels: SideChannels) -> None:
    channels.send_statistic("a", 1.5)
    payload = text("a") + struct.pack("<fi", 1.5, 1)
    assert channels.take_outgoing() == messages.STATS_CHANNEL.bytes_le + struct.pack("<i", len(payload)) + payload
    assert channels.take_outgoing() == b""


def sent(channel: Any) -> bytes:
    """What a Python channel has queued, framed."""
    payloads = [bytes(payload) for payload in channel.message_queue]
    channel.message_queue.clear()
    return pack_frames((channel.channel_id, payload) for payload in payloads)


def receive(channel: Any, data: bytes) -> None:
    """Hand framed data to a Python channel, all of which must be meant for it."""
    for channel_id, payload in unpack_frames(data):
        assert channel_id == channel.channel_id
        channel.on_message_received(IncomingMessage(payload))


def test_side_channels_draw_from_samplers_that_unitys_channel_sends(channels: SideChannels) -> None:
    python = EnvironmentParametersChannel()
    python.set_uniform_sampler_parameters("u", 2.0, 3.0, seed=1)
    python.set_gaussian_sampler_parameters("g", 5.0, 0.5, seed=2)
    python.set_multirangeuniform_sampler_parameters("m", [(0.0, 1.0), (10.0, 13.0)], seed=3)
    channels.process(sent(python))
    draws = {key: np.array([channels.parameters.get(key) for _ in range(400)]) for key in "ugm"}
    assert ((draws["u"] >= 2) & (draws["u"] <= 3)).all()
    assert np.unique(draws["u"]).size > 300
    assert draws["g"].mean() == pytest.approx(5.0, abs=0.1)
    assert draws["g"].std() == pytest.approx(0.5, abs=0.1)
    in_second = (draws["m"] >= 10) & (draws["m"] <= 13)
    assert (in_second | ((draws["m"] >= 0) & (draws["m"] <= 1))).all()
    assert in_second.mean() == pytest.approx(0.75, abs=0.1)
    channels.process(sent(python))
    python.set_float_parameter("u", 7.0)
    channels.process(sent(python))
    assert channels.parameters.get("u") == 7.0
    assert channels.parameters.get("never", 1.5) == 1.5


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        (struct.pack("<iiiff", 1, 3, 0, 2.0, 1.0), "expected a finite lower bound <= the upper one, got 2.0 and 1.0"),
        (struct.pack("<iiiff", 1, 3, 1, 0.0, -1.0), "expected a finite mean and a standard deviation >= 0"),
        (struct.pack("<iiii", 1, 3, 2, 3), "expected pairs of lower and upper bounds, got 3 values"),
        (
            struct.pack("<iiii", 1, 3, 2, 2_000_000_000),
            "expected pairs of lower and upper bounds, got 2000000000 values",
        ),
        (struct.pack("<iii", 1, 3, 7), "expected a uniform (0), gaussian (1) or multi-range (2) sampler, got 7"),
        (struct.pack("<i", 1), "requires a buffer"),
    ],
)
def test_side_channels_skip_samplers_that_cannot_be_drawn_from(
    channels: SideChannels, frame: Any, tmp_path: Path, setting: bytes, message: str
) -> None:
    channels.process(frame(messages.ENVIRONMENT_PARAMETERS_CHANNEL, text("noise") + setting))
    assert "noise" not in channels.parameters
    assert message in (tmp_path / "Player.log").read_text()


def test_side_channels_keep_engine_settings_of_unitys_channel(channels: SideChannels) -> None:
    python = EngineConfigurationChannel()
    python.set_configuration_parameters(
        width=80, height=60, quality_level=2, time_scale=20.0, target_frame_rate=-1, capture_frame_rate=60
    )
    channels.process(sent(python))
    assert channels.engine == {
        "resolution": (80, 60),
        "quality level": (2,),
        "time scale": (20.0,),
        "target frame rate": (-1,),
        "capture frame rate": (60,),
    }


def test_side_channels_keep_float_properties_of_unitys_channel(channels: SideChannels) -> None:
    python = FloatPropertiesChannel()
    python.set_property("gravity", -9.5)
    channels.process(sent(python))
    assert channels.parameters.get("gravity") == -9.5


def test_side_channels_send_raw_bytes_back(channels: SideChannels, frame: Any) -> None:
    data = frame(ECHO, b"\x00\xff any bytes") + frame(ECHO, b"")
    channels.process(data)
    assert channels.take_outgoing() == data


def test_side_channels_announce_agents_to_the_roster_channel(channels: SideChannels) -> None:
    python = RosterChannel()
    channels.announce([])
    assert channels.take_outgoing() == b""
    channels.announce([Newcomer(4, 0, "carrier", 2), Newcomer(9, 1, "tugger", 0)])
    receive(python, channels.take_outgoing())
    assert len(python) == 2
    assert python.identity(4) == Identity(0, "carrier", 2)
    assert python.identity(9) == Identity(1, "tugger", 0)


def test_side_channels_send_states_to_the_global_state_channel(channels: SideChannels) -> None:
    python = GlobalStateChannel(2, 3)
    channels.send_state(1, np.array([1, 2, 3], np.float32), final=False)
    channels.send_state(0, np.array([4, 5, 6], np.float32), final=True)
    receive(python, channels.take_outgoing())
    assert python.states.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert python.final_states[0].tolist() == [4, 5, 6]
    assert python.has_final.tolist() == [True, False]


def test_side_channels_take_scenarios_and_answer_them(channels: SideChannels) -> None:
    python = ScenarioChannel()
    assert channels.take_scenario() is None
    first = python.send({"schema": 1, "world": "w\u00e4rehouse"})
    channels.process(sent(python))
    request = channels.take_scenario()
    assert request is not None
    assert request.number == first
    assert request.text == r'{"schema":1,"world":"w\u00e4rehouse"}'
    assert channels.take_scenario() is None
    channels.answer_scenario(first, "no\u00e4" + "x" * 5000)
    receive(python, channels.take_outgoing())
    answer = python.answer(first)
    assert answer is not None
    assert not answer.taken
    assert answer.reason.startswith("no?xxx")
    second = python.send({})
    channels.answer_scenario(second, None)
    receive(python, channels.take_outgoing())
    answer = python.answer(second)
    assert answer is not None
    assert (answer.taken, answer.reason) == (True, "")


def test_side_channels_skip_a_scenario_of_another_version(channels: SideChannels, frame: Any, tmp_path: Path) -> None:
    channels.process(frame(messages.SCENARIO_CHANNEL, struct.pack("<ii", 2, 1) + text("{}")))
    assert channels.take_scenario() is None
    assert "message skipped: expected version 1, got 2." in (tmp_path / "Player.log").read_text()
