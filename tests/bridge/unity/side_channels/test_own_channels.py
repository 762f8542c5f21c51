"""The bytes of the roster, state and scenario channels, and what is refused."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest

from bridge.errors import SpecMismatchError, UnityProtocolError
from bridge.unity.mlagents_types import IncomingMessage
from bridge.unity.side_channels import GlobalStateChannel, Identity, RosterChannel, ScenarioChannel
from bridge.unity.side_channels.roster_channel import MAX_ANNOUNCED
from bridge.unity.side_channels.scenario_channel import MAX_SCENARIO_BYTES


def text(value: str) -> bytes:
    return struct.pack("<i", len(value)) + value.encode()


def announcement(*entries: tuple[int, int, str, int]) -> bytes:
    data = struct.pack("<ii", 1, len(entries))
    for agent_id, area, role, slot in entries:
        data += struct.pack("<ii", agent_id, area) + text(role) + struct.pack("<i", slot)
    return data


def state(area: int, kind: int, *values: float) -> bytes:
    return struct.pack("<iiii", 1, area, kind, len(values)) + struct.pack(f"<{len(values)}f", *values)


def receive(channel: Any, payload: bytes) -> None:
    channel.on_message_received(IncomingMessage(payload))


def test_roster_channel_remembers_the_latest_announcement_of_each_agent() -> None:
    channel = RosterChannel()
    receive(channel, announcement((7, 0, "AGV", 3), (-8, 1, "Lift", 0)))
    receive(channel, announcement((7, 0, "AGV", 1)))
    receive(channel, announcement())
    assert channel.identity(7) == Identity(0, "AGV", 1)
    assert channel.identity(-8) == Identity(1, "Lift", 0)
    assert channel.identity(1) is None
    assert len(channel) == 2


def test_roster_channel_forgets_the_oldest_half_when_there_are_too_many() -> None:
    channel = RosterChannel()
    for start in range(0, MAX_ANNOUNCED + 1000, 1000):
        receive(channel, announcement(*((agent, 0, "A", 0) for agent in range(start, start + 1000))))
    assert len(channel) == MAX_ANNOUNCED // 2
    assert channel.identity(MAX_ANNOUNCED // 2 + 999) is None
    assert channel.identity(MAX_ANNOUNCED // 2 + 1000) == Identity(0, "A", 0)
    assert channel.identity(MAX_ANNOUNCED + 999) == Identity(0, "A", 0)


def test_roster_channel_forgets_names_of_roles_that_nobody_has() -> None:
    channel = RosterChannel()
    for number in range(2000):
        receive(channel, announcement((1, 0, f"role{number}", 0), (2, 0, "kept", 1)))
    assert channel.identity(1) == Identity(0, "role1999", 0)
    assert channel.identity(2) == Identity(0, "kept", 1)
    assert len(channel._names) < 600


@pytest.mark.parametrize("seed", range(4))
def test_roster_channel_says_what_a_dictionary_would_when_announcements_are_random(seed: int) -> None:
    rng = np.random.default_rng(seed)
    channel = RosterChannel()
    expected: dict[int, Identity] = {}
    roles = ["AGV", "Lift", "A", ""] if seed % 2 else ["AGV", "CAR"]
    for _ in range(60):
        agents = []
        for _ in range(int(rng.integers(0, 12))):
            # Ids that grow, as Unity's do, and any others.
            agent = int(rng.integers(-50, 50)) if rng.random() < 0.3 else len(expected) + 100
            agents.append((agent, int(rng.integers(9)), str(rng.choice(roles)), int(rng.integers(9))))
            expected[agent] = Identity(agents[-1][1], agents[-1][2], agents[-1][3])
        receive(channel, announcement(*agents))
        asked = np.arange(-60, len(expected) + 110, dtype=np.int32)
        known, areas, slots, numbers = channel.look_up(asked)
        assert known.tolist() == [agent in expected for agent in asked.tolist()]
        for row in np.flatnonzero(known).tolist():
            role = channel.role_name(int(numbers[row]))
            assert Identity(int(areas[row]), role, int(slots[row])) == expected[int(asked[row])]
            assert channel.role_number(role) == numbers[row]
    assert len(channel) == len(expected)
    assert channel.role_number("nobody") == -1


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"", r"expected 4 bytes of version, got 0"),
        (struct.pack("<ii", 2, 0), r"expected version of 1 to 1, got 2"),
        (struct.pack("<ii", 1, -1), r"expected number of agents of 0 to 100000, got -1"),
        (struct.pack("<ii", 1, 1 << 30), r"expected number of agents of 0 to 100000, got 1073741824"),
        (announcement((1, 0, "A", 0))[:-1], r"expected 4 bytes of slot, got 3"),
        (announcement((1, 0, "A", 0)) + b"\0", r"expected the end of the message, got 1 more bytes"),
        (announcement((1, -1, "A", 0)), r"expected area of 0 to 2147483647, got -1"),
        (announcement((1, 0, "A" * 2000, 0)), r"expected length of role of 0 to 1024, got 2000"),
    ],
)
def test_roster_channel_takes_nothing_of_a_message_that_is_malformed(payload: bytes, message: str) -> None:
    channel = RosterChannel()
    with pytest.raises(UnityProtocolError, match=rf"RosterChannel: {message}"):
        receive(channel, payload)
    assert len(channel) == 0


def test_state_channel_keeps_the_last_state_of_an_episode_apart() -> None:
    channel = GlobalStateChannel(2, 3)
    receive(channel, state(1, 0, 1.0, 2.0, 3.0))
    receive(channel, state(0, 1, 7.0, 8.0, 9.0))
    np.testing.assert_array_equal(channel.states, [[0, 0, 0], [1, 2, 3]])
    np.testing.assert_array_equal(channel.final_states[0], [7, 8, 9])
    assert channel.has_final.tolist() == [True, False]
    channel.begin_exchange()
    assert not channel.has_final.any()


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (state(2, 0, 1.0, 2.0), r"expected area of 0 to 1, got 2"),
        (state(0, 2, 1.0, 2.0), r"expected kind of 0 to 1, got 2"),
        (state(0, 0, 1.0), r"expected 2 values of the state, got 1"),
        (state(0, 0, 1.0, float("nan")), r"expected finite values of the state, got nan as value 1"),
        (state(0, 0, 1.0, 2.0)[:-2], r"expected 8 bytes of the state, got 6"),
    ],
)
def test_state_channel_refuses_a_state_that_does_not_fit(payload: bytes, message: str) -> None:
    with pytest.raises(UnityProtocolError, match=rf"GlobalStateChannel: {message}"):
        receive(GlobalStateChannel(2, 2), payload)


def test_scenario_channel_sends_ascii_json_with_a_number() -> None:
    channel = ScenarioChannel()
    assert channel.send({"name": "Förderband", "fleet": [1, 2]}) == 1
    assert channel.send({}) == 2
    body = rb'{"name":"F\u00f6rderband","fleet":[1,2]}'
    assert bytes(channel.message_queue[0]) == struct.pack("<iii", 1, 1, len(body)) + body


def test_scenario_channel_keeps_the_answer_to_the_last_request_only() -> None:
    channel = ScenarioChannel()
    channel.send({})
    request = channel.send({})
    receive(channel, struct.pack("<iii", 1, 1, 1) + text(""))
    assert channel.answer(request) is None
    receive(channel, struct.pack("<iii", 1, request, 0) + text("no charger"))
    answer = channel.answer(request)
    assert answer is not None
    assert (answer.taken, answer.reason) == (False, "no charger")
    with pytest.raises(UnityProtocolError, match=r"ScenarioChannel: expected answer of 0 to 1, got 2"):
        receive(channel, struct.pack("<iii", 1, request, 2) + text(""))


def test_scenario_channel_refuses_to_send_more_than_a_player_takes() -> None:
    with pytest.raises(SpecMismatchError, match=r"expected a scenario of at most 3145728 bytes, got 31457\d\d"):
        ScenarioChannel().send({"layout": "." * MAX_SCENARIO_BYTES})
