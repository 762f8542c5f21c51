"""What a player is told when it starts, and how it is started again."""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import ScenarioError, SpecMismatchError, UnityPlayerDiedError, UnityProtocolError
from bridge.roster import RoleArrays
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity import messages
from bridge.unity.config import GaussianSampler, RangesSampler, UniformSampler
from bridge.unity.launch import PlayerCommand
from bridge.unity.link import LinkOptions
from bridge.unity.mlagents_types import IncomingMessage, OutgoingMessage
from bridge.unity.roster import RosterOptions, UnityRoster
from bridge.unity.session import SessionOptions
from bridge.unity.side_channels import pack_frames, unpack_frames

BEHAVIORS = {"AGV": {"continuous": 1}}


def world(state_size: int = 0, metrics: tuple[str, ...] = ()) -> WorldSpec:
    layout = ObservationLayout((ObservationBlock("value", 1),))
    role = RoleSpec("AGV", ("AGV_0",), layout, ActionSpec(1))
    return WorldSpec((role,), state_size=state_size, metrics=tuple(MetricSpec(name) for name in metrics))


def agent(value: float = 1.0, **more: Any) -> dict[str, Any]:
    return {"agents": {"AGV": [{"id": 1, "obs": [[value]], **more}]}}


def first(value: float = 1.0, **more: Any) -> dict[str, Any]:
    return {**agent(value), "behaviors": BEHAVIORS, **more}


def frames(channel: Any, *payloads: bytes) -> str:
    return pack_frames([(channel, payload) for payload in payloads]).hex()


@contextmanager
def opened(
    spec: WorldSpec, port: int = 0, command: PlayerCommand | None = None, **link: Any
) -> Iterator[tuple[UnityRoster, RoleArrays]]:
    options = RosterOptions(link=LinkOptions(**link))
    roster = UnityRoster(command, spec, SessionOptions(timeout_s=20, port=port, seed=9), options)
    try:
        yield roster, roster.arrays.roles["AGV"]
    finally:
        roster.close()


def test_step_truncates_and_goes_on_when_a_crashed_player_is_started_again(
    scripted_player: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    player = scripted_player(exchanges=[first(1.0), agent(2.0, reward=1.0), {"fault": {"crash": 7}}])
    with opened(world(), command=player.command, max_restarts=2, restart_delay_s=0.01) as (roster, values):
        roster.reset(seed=5)
        for restarts in (1, 2):
            roster.step()
            assert values.rewards[0, 0] == 1.0
            roster.step()
            assert roster.restarts == restarts
            assert values.truncated[0, 0]
            assert not values.terminated[0, 0]
            assert values.final_observations[0, 0].tolist() == [2.0]
            assert values.observations[0, 0].tolist() == [1.0]
            assert values.decision_mask[0, 0]
            assert roster.arrays.episode_over[0]
            assert roster.arrays.episode[0] == restarts
        roster.step()
        with pytest.raises(UnityPlayerDiedError, match=r"exit code 7") as caught:
            roster.step()
        assert caught.value.__notes__ == ["The player was started again 2 times; given up."]
        assert values.truncated[0, 0]
    assert "player 0 failed and is started again in 0.02 s (2 of 2)" in caplog.text
    seeds = [sent_seed(reply) for reply in player.replies() if reply["command"] == messages.COMMAND_RESET]
    assert seeds[0] == 5
    assert len(set(seeds)) == 3  # else the episodes that were played already would be played once more


def test_reset_is_repeated_when_the_player_dies_in_it(scripted_player: Callable[..., Any], tmp_path: Path) -> None:
    again = {**agent(4.0, reward=0.5), "behaviors": BEHAVIORS}
    crash = {"fault": {"crash_once": str(tmp_path / "crashed")}}
    player = scripted_player(exchanges=[again, crash, agent(5.0, reward=1.0)])
    with opened(world(), command=player.command, max_restarts=1, restart_delay_s=0.0) as (roster, values):
        roster.reset(seed=5)
        roster.reset(seed=6)
        assert roster.restarts == 1
        assert values.observations[0, 0].tolist() == [4.0]
        roster.step()
        roster.step()
        # Nothing is left over from the player before, although its agents had the same ids.
        assert (values.rewards[0, 0], roster.unclaimed_rewards) == (1.5, 0.5)
        seeds = [sent_seed(reply) for reply in player.replies() if reply["command"] == messages.COMMAND_RESET]
        assert seeds == [5, 6, 6]


def sent_seed(reply: dict[str, Any]) -> int:
    parameters = {}
    for channel, payload in unpack_frames(bytes.fromhex(reply["side_channel"])):
        if channel == messages.ENVIRONMENT_PARAMETERS_CHANNEL:
            message = IncomingMessage(payload)
            key, _ = message.read_string(), message.read_int32()
            parameters[key] = int(message.read_float32())
    return (parameters[messages.SEED_HIGH] << 24) + parameters[messages.SEED_LOW]


def test_player_is_told_its_settings_and_parameters_with_the_first_reset(live_player: Callable[..., int]) -> None:
    sent: list[Any] = []

    def play(player: Any) -> Iterator[dict[str, Any]]:
        sent.extend(unpack_frames(player.reply.unity_input.rl_input.side_channel))
        yield first()

    parameters = {
        "robots": 6.0,
        "mass": UniformSampler(uniform=(1.0, 2.0)),
        "noise": GaussianSampler(gaussian=(0.0, 0.5)),
        "delay": RangesSampler(ranges=((0.0, 1.0), (4.0, 5.0))),
    }
    with opened(world(), live_player(play), time_scale=7.0, parameters=parameters, seed_offset=3) as (roster, _):
        roster.reset(seed=5)
    by_channel: dict[Any, list[bytes]] = {}
    for channel, payload in sent:
        by_channel.setdefault(channel, []).append(payload)
    assert by_channel[messages.ENGINE_CONFIGURATION_CHANNEL] == [struct.pack("<if", 2, 7.0)]
    assert b"python_version" not in by_channel[messages.TRAINING_ANALYTICS_CHANNEL][0]
    assert b"TrainingEnvironmentInitialized" in by_channel[messages.TRAINING_ANALYTICS_CHANNEL][0]
    seed = sent_seed({"side_channel": pack_frames(sent).hex()})
    assert seed not in (5, 0)
    told = by_channel[messages.ENVIRONMENT_PARAMETERS_CHANNEL]
    assert told[:4] == [
        struct.pack("<i6sif", 6, b"robots", 0, 6.0),
        struct.pack("<i4siiiff", 4, b"mass", 1, 9, 0, 1.0, 2.0),
        struct.pack("<i5siiiff", 5, b"noise", 1, 9, 1, 0.0, 0.5),
        struct.pack("<i5siiiiffff", 5, b"delay", 1, 9, 2, 4, 0.0, 1.0, 4.0, 5.0),
    ]


def test_state_and_statistics_reach_the_arrays_when_a_scene_sends_them(live_player: Callable[..., int]) -> None:
    def state(kind: int, *values: float) -> bytes:
        return struct.pack("<iiii", 1, 0, kind, len(values)) + struct.pack(f"<{len(values)}f", *values)

    def statistic(key: str, value: float, aggregation: int) -> bytes:
        return struct.pack("<i", len(key)) + key.encode() + struct.pack("<fi", value, aggregation)

    def channels(states: list[bytes], *statistics: bytes) -> str:
        return (frames(messages.GLOBAL_STATE_CHANNEL, *states)) + frames(messages.STATS_CHANNEL, *statistics)

    port = live_player(
        [
            first(side_channel=channels([state(0, 1, 2)], statistic("speed", 99.0, 0))),
            {
                **agent(),
                "side_channel": channels([state(0, 3, 4)], statistic("speed", 1.0, 0), statistic("jams", 1, 2)),
            },
            {
                "agents": {"AGV": [{"id": 1, "obs": [[1.0]], "done": True}, {"id": 1, "obs": [[1.0]]}]},
                "side_channel": channels(
                    [state(1, 5, 6), state(0, 7, 8)],
                    statistic("speed", 2.0, 0),
                    statistic("jams", 4, 2),
                    statistic("level", 1.0, 1),
                    statistic("level", 3.0, 1),
                ),
            },
        ]
    )
    with opened(world(2, ("speed", "jams", "level", "never")), port) as (roster, _):
        roster.reset(seed=1)
        assert roster.arrays.state.tolist() == [[1.0, 2.0]]
        roster.step()
        assert roster.arrays.state.tolist() == [[3.0, 4.0]]
        roster.step()
        assert roster.arrays.episode_over[0]
        assert roster.arrays.final_state.tolist() == [[5.0, 6.0]]
        assert roster.arrays.state.tolist() == [[7.0, 8.0]]
        np.testing.assert_array_equal(roster.arrays.metrics, [[1.5, 5.0, 3.0, np.nan]])


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, r"expected the scene to answer the scenario that was sent, got no answer"),
        ((0, "no room for 9 robots"), r"expected the scene to take the scenario, got: no room for 9 robots"),
        ((1, ""), None),
    ],
)
def test_reset_sends_the_scenario_and_heeds_the_answer_when_one_is_set(
    live_player: Callable[..., int], answer: tuple[int, str] | None, message: str | None
) -> None:
    sent: list[Any] = []

    def play(player: Any) -> Iterator[dict[str, Any]]:
        yield first()
        sent.extend(unpack_frames(player.reply.unity_input.rl_input.side_channel))
        reply = ""
        if answer is not None:
            text = OutgoingMessage()
            for number in (1, 1, answer[0]):
                text.write_int32(number)
            text.write_string(answer[1])
            reply = frames(messages.SCENARIO_CHANNEL, bytes(text.buffer))
        yield {**agent(2.0), "side_channel": reply}

    with opened(world(), live_player(play)) as (roster, values):
        roster.reset(seed=1)
        roster.set_scenario({"schema": 1, "name": "dock"})
        if message is None:
            roster.reset()
            assert values.observations[0, 0].tolist() == [2.0]
        else:
            with pytest.raises(ScenarioError, match=message):
                roster.reset()
    (payload,) = [payload for channel, payload in sent if channel == messages.SCENARIO_CHANNEL]
    assert payload.endswith(b'{"schema":1,"name":"dock"}')


@pytest.mark.parametrize("stops", [False, True])
def test_malformed_message_ends_the_run_only_when_that_is_asked_for(
    live_player: Callable[..., int], caplog: pytest.LogCaptureFixture, stops: bool
) -> None:
    port = live_player([first(), {**agent(2.0), "side_channel": frames(messages.ROSTER_CHANNEL, b"\1")}])
    with opened(world(), port, raise_channel_errors=stops) as (roster, values):
        roster.reset(seed=1)
        if not stops:
            with caplog.at_level(logging.ERROR):
                roster.step()
            assert values.observations[0, 0].tolist() == [2.0]
            assert "side channel RosterChannel" in caplog.text
            return
        with pytest.raises(UnityProtocolError, match=r"RosterChannel: expected 4 bytes of version, got 1") as caught:
            roster.step()
        assert "In the handler of side channel RosterChannel" in caught.value.__notes__[0]


def test_connect_says_what_it_waits_for_when_a_player_is_started_by_hand(
    live_player: Callable[..., int], caplog: pytest.LogCaptureFixture
) -> None:
    port = live_player([first()])
    with opened(world(), port) as (roster, _):
        with pytest.raises(SpecMismatchError, match=r"expected a seed in \[0, 2\*\*48\)"):
            roster.reset(seed=1 << 48)
        roster.reset(seed=1)
    assert f"waiting up to 20 s for a player to connect to 127.0.0.1:{port}: press Play" in caplog.text
