"""The compiled encoder and decoder of the player's side, against protobuf on random agents."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.errors import UnityProtocolError
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec
from bridge.unity import messages
from bridge.unity.player.agent_bytes import SensorMessages
from bridge.unity.player.encoding import AgentInfos, RoleEncoder
from bridge.unity.player.envelope import Envelope
from bridge.unity.player.sensors import SensorRows, block_sensor, layout_sensor

LAYOUT = ObservationLayout((ObservationBlock("self", 3), ObservationBlock("target", 30)))


def role(continuous: int = 0, branches: tuple[int, ...] = (3,)) -> RoleSpec:
    return RoleSpec("carrier", ("carrier_0",), LAYOUT, ActionSpec(continuous, branches))


class WrittenSensor:
    """Sends prepared messages, each of another length."""

    def __init__(self, name: str, written: Sequence[bytes]) -> None:
        self.name = name
        self.written = written

    def encode(self, rows: SensorRows) -> SensorMessages:
        return SensorMessages.joined(self.written)


def pictures(rng: np.random.Generator, count: int, largest: int) -> list[bytes]:
    return [
        messages.Observation(
            shape=[3, 2, 2], compression_type=1, compressed_data=rng.bytes(int(rng.integers(0, largest)))
        ).SerializeToString()
        for _ in range(count)
    ]


def random_infos(rng: np.random.Generator, count: int, mask_size: int) -> AgentInfos:
    """Often with values that protobuf leaves out, and with the largest ones."""
    ids = rng.choice(np.array([0, 1, 127, 128, 300, 2**31 - 1, -1, -(2**31)]), count).astype(np.int32)
    values = np.array([0.0, -0.0, 1.5, -2.25, 1e-45, np.inf], np.float32)
    rows = SensorRows(
        np.zeros(count, np.int64),
        np.arange(count),
        rng.standard_normal((count, LAYOUT.size)).astype(np.float32),
        final=bool(rng.random() < 0.5),
    )
    return AgentInfos(
        ids=ids,
        group_ids=rng.permutation(ids),
        rewards=rng.choice(values, count),
        group_rewards=rng.choice(values, count),
        rows=rows,
        max_step_reached=rng.random(count) < 0.5,
        action_mask=rng.random((count, mask_size)) < 0.5 if mask_size else None,
    )


def by_protobuf(infos: AgentInfos, observations: Sequence[Sequence[bytes]]) -> bytes:
    """The same list, made and written by protobuf; ``observations``: per agent, in order."""
    agents = []
    for index, of_agent in enumerate(observations):
        agents.append(
            messages.AgentInfo(
                id=int(infos.ids[index]),
                group_id=int(infos.group_ids[index]),
                reward=float(infos.rewards[index]),
                group_reward=float(infos.group_rewards[index]),
                done=infos.rows.final,
                max_step_reached=bool(infos.max_step_reached[index]),
                action_mask=() if infos.action_mask is None else (~infos.action_mask[index]).tolist(),
                observations=[messages.Observation.FromString(one) for one in of_agent],
            )
        )
    return bytes(messages.ListAgentInfo(value=agents).SerializeToString())


def vector(values: NDArray[np.float32], name: str, kind: int = 0) -> bytes:
    message = messages.Observation(shape=[values.size], dimension_properties=[1], observation_type=kind, name=name)
    message.float_data.data.extend(values.tolist())
    return bytes(message.SerializeToString())


@pytest.mark.parametrize("seed", range(40))
def test_encoder_writes_the_bytes_that_protobuf_writes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    count, mask_size = int(rng.integers(0, 9)), int(rng.choice([0, 1, 5, 200]))
    infos = random_infos(rng, count, mask_size)
    picture = pictures(rng, count, largest=int(rng.choice([1, 100, 20_000])))
    sensors = [block_sensor(LAYOUT, "target"), WrittenSensor("camera", picture), layout_sensor(LAYOUT)]
    written = RoleEncoder(role(), sensors).agents(infos)
    whole, target = f"agv_{LAYOUT.digest}", LAYOUT.slice_of("target")
    observations = [
        [vector(values, whole), picture[index], vector(values[target], "goal_target", 1)]
        for index, values in enumerate(infos.rows.observations)
    ]
    expected = by_protobuf(infos, observations)
    # An observation's own fields may come in another order; what it means is the same.
    assert messages.ListAgentInfo.FromString(written) == messages.ListAgentInfo.FromString(expected)
    assert len(written) == len(expected)
    without_floats = RoleEncoder(role(), [WrittenSensor("camera", picture)]).agents(infos)
    assert without_floats == by_protobuf(infos, [[one] for one in picture])


def test_encoder_writes_nothing_of_nobody() -> None:
    infos = random_infos(np.random.default_rng(0), 0, 3)
    assert RoleEncoder(role(), [layout_sensor(LAYOUT)]).agents(infos) == b""


def test_envelope_is_the_same_message_on_the_wire() -> None:
    output = messages.RLOutput(side_channel=b"\x01\x02")
    output.agentInfos["carrier?team=0"].value.add(id=3, reward=0.5)
    output.agentInfos["picker?team=0"].value.add(id=4)
    news = messages.InitializationOutput(brain_parameters=[messages.BrainParameters(brain_name="carrier?team=0")])
    message = messages.UnityMessage(
        header=messages.Header(status=200),
        unity_output=messages.UnityOutput(rl_output=output, rl_initialization_output=news),
        unity_input=messages.UnityInput(rl_input=messages.RLInput(command=1, side_channel=b"\x03")),
    )
    message.unity_input.rl_input.agent_actions["carrier?team=0"].value.add(discrete_actions=[4])
    envelope = Envelope.FromString(message.SerializeToString())
    assert envelope.unity_output.rl_output.agentInfos["picker?team=0"] == b"\x0a\x02\x50\x04"
    assert envelope.unity_input.rl_input.command == 1
    assert messages.UnityMessage.FromString(envelope.SerializeToString()) == message


def encoder(continuous: int, branches: tuple[int, ...]) -> RoleEncoder:
    return RoleEncoder(role(continuous, branches), [])


def field(number: int, kind: int, content: bytes) -> bytes:
    return bytes([number << 3 | kind]) + content


def sized(content: bytes) -> bytes:
    assert len(content) < 128
    return bytes([len(content)]) + content


def random_action(rng: np.random.Generator, continuous: NDArray[np.float32], choices: NDArray[np.int32]) -> bytes:
    """One ``AgentActionProto``: fields in any order, packed or not, some that nobody reads."""

    def varint(value: int) -> bytes:
        encoded = messages.AgentAction(discrete_actions=[value]).SerializeToString()
        return bytes(encoded[2:])

    parts = [
        field(1, 2, sized(b"\0\0\x80\x3f")),  # vector_actions_deprecated
        field(4, 5, b"\0\0\0\0"),
        field(9, 0, b"\x7f"),
        field(10, 1, bytes(8)),
    ]
    parts = [part for part in parts if rng.random() < 0.5]
    if rng.random() < 0.5:
        floats = [field(6, 2, sized(continuous.astype("<f4").tobytes()))] if len(continuous) else []
    else:
        floats = [field(6, 5, struct.pack("<f", value)) for value in continuous]
    if rng.random() < 0.5:
        integers = [field(7, 2, sized(b"".join(varint(value) for value in choices.tolist())))] if len(choices) else []
    else:
        integers = [field(7, 0, varint(value)) for value in choices.tolist()]
    # Values of one kind keep their order; everything else is shuffled in between.
    for run in (floats, integers):
        places = sorted(rng.integers(0, len(parts) + 1, len(run)).tolist(), reverse=True)
        for place, part in zip(places, reversed(run), strict=True):
            parts.insert(place, part)
    return b"".join(parts)


@pytest.mark.parametrize("seed", range(40))
def test_decoder_reads_what_protobuf_reads(seed: int) -> None:
    rng = np.random.default_rng(seed)
    num_continuous, num_branches, count = (int(rng.integers(0, high)) for high in (4, 4, 7))
    if num_continuous + num_branches == 0:
        num_branches = 1
    data = b""
    for _ in range(count):
        continuous = rng.standard_normal(num_continuous).astype(np.float32)
        choices = rng.choice(np.array([0, 1, 127, 128, 2**31 - 1, -1]), num_branches).astype(np.int32)
        data += field(1, 2, sized(random_action(rng, continuous, choices)))
        data += field(15, 0, b"\x01") if rng.random() < 0.3 else b""
    expected = messages.ListAgentAction.FromString(data).value
    assert len(expected) == count
    asked = int(rng.integers(0, count + 1))
    values, chosen = encoder(num_continuous, (2**31,) * num_branches).decode_actions(data, asked)
    assert (values.shape, chosen.shape) == ((asked, num_continuous), (asked, num_branches))
    assert values.tolist() == [list(action.continuous_actions) for action in expected[:asked]]
    assert chosen.tolist() == [list(action.discrete_actions) for action in expected[:asked]]


def test_decoder_reads_a_form_that_only_protobuf_knows() -> None:
    """A group, which no schema of today has, is an unknown field like any other."""
    group = field(3, 3, field(1, 0, b"\x05")) + field(3, 4, b"")
    action = messages.AgentAction(discrete_actions=[2]).SerializeToString() + group
    _, chosen = encoder(0, (3,)).decode_actions(field(1, 2, sized(action)), 1)
    assert chosen.tolist() == [[2]]


def actions(*given: Any) -> bytes:
    return bytes(messages.ListAgentAction(value=given).SerializeToString())


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (actions(messages.AgentAction(continuous_actions=[1.0, 2.0], discrete_actions=[1])), "for 2 agents, got 1"),
        (actions(messages.AgentAction(continuous_actions=[1.0], discrete_actions=[1])), "2 continuous .* got 1"),
        (actions(messages.AgentAction(continuous_actions=[1.0] * 99, discrete_actions=[1])), "2 continuous .* got 99"),
        (actions(messages.AgentAction(continuous_actions=[1.0, 2.0])), "1 discrete .* got 0"),
        (
            actions(messages.AgentAction(continuous_actions=[1.0, 2.0], discrete_actions=[1] * 70)),
            "1 discrete .* got 70",
        ),
        (b"\x0a\x7f\x01", "expected actions, got 3 bytes that are none"),
        (b"\xff" * 12, "expected actions, got 12 bytes that are none"),
        (field(1, 2, sized(field(6, 2, sized(b"\0\0\0")))), "got 7 bytes that are none"),
    ],
)
def test_decoder_says_what_is_wrong_with_actions(data: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=rf"player: behavior 'carrier\?team=0': .*{message}"):
        encoder(2, (3,)).decode_actions(data, 2)


def test_decoder_reads_no_byte_behind_the_message() -> None:
    """Every prefix of a message is refused, or has fewer agents; none is read on into what lies behind."""
    one = messages.AgentAction(continuous_actions=[1.0, 2.0], discrete_actions=[1])
    data = actions(one, one)
    for size in range(len(data)):
        with pytest.raises(UnityProtocolError, match=r"for 2 agents, got [01]\.|that are none"):
            encoder(2, (3,)).decode_actions(data[:size], 2)
