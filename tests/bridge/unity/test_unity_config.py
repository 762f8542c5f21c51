"""The unity section: which keys fit together, and what reaches the players."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bridge.errors import CallOrderError, ScenarioError, SpecMismatchError, UnityPlayerDiedError
from bridge.registry import open_world
from bridge.scenario import Scenario, load_scenario
from bridge.scenario_logs import keep_logs
from bridge.scenario_mix import ScenarioMix
from bridge.unity import messages
from bridge.unity.config import UnityConfig
from bridge.unity.players import UnityPlayers

BEHAVIORS = {"AGV": {"continuous": 1}}
ATTACHED = {"player": "attach", "port": 5555}


def world(folder: Path, **section: Any) -> Any:
    path = folder / "unity.yaml"
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": section}))
    return open_world(load_scenario(path))


@pytest.mark.parametrize(
    ("section", "message"),
    [
        ({"player": "attach"}, r"expected a port with player 'attach', got none"),
        ({"player": "scene", "port": 5005}, r"expected no port with player 'scene', got 5005"),
        ({**ATTACHED, "listen": "everywhere"}, r"unity.listen: expected an IPv4 address, got 'everywhere'"),
        (
            {"player": "scene", "listen": "192.168.1.10"},
            r"expected listen 127\.0\.0\.1 or 0\.0\.0\.0 with player 'scene', got 192\.168\.1\.10",
        ),
        (
            {**ATTACHED, "group_reward": "twice"},
            r"unity.group_reward: expected one of add, ignore, separate, got 'twice'",
        ),
        ({**ATTACHED, "parameters": {"a": "b"}}, r"unity.parameters.a"),
        ({**ATTACHED, "parameters": {"a": {"gaussian": [0, -1]}}}, r"unity.parameters.a"),
        ({**ATTACHED, "restarts": -1}, r"unity.restarts: .*0.*-1"),
        ({**ATTACHED, "silence_limit": 0}, r"unity.silence_limit"),
    ],
)
def test_scenario_says_what_is_wrong_with_the_unity_section(
    tmp_path: Path, section: dict[str, Any], message: str
) -> None:
    with pytest.raises(ScenarioError, match=message):
        world(tmp_path, **section)


def test_config_takes_numbers_and_samplers_as_parameters() -> None:
    text = json.dumps({**ATTACHED, "parameters": {"robots": 6, "mass": {"uniform": [1, 2]}, "d": {"ranges": [[0, 1]]}}})
    config = UnityConfig.model_validate_json(text)
    assert config.parameters["robots"] == 6.0
    assert UnityConfig.model_validate_json(config.model_dump_json()) == config


def test_players_listen_on_loopback_and_their_own_ports_unless_told_otherwise() -> None:
    editor = UnityConfig(player="editor")
    attached = UnityConfig(player="attach", port=6000, listen="0.0.0.0")
    assert (editor.listen, editor.port_of(0)) == ("127.0.0.1", 5004)
    assert (attached.listen, [attached.port_of(env) for env in (0, 3)]) == ("0.0.0.0", [6000, 6003])
    assert UnityConfig(player="scene").port_of(3) == 0


def test_editor_plays_one_scene_only(tmp_path: Path) -> None:
    opened = world(tmp_path, player="editor", areas=1)
    with pytest.raises(SpecMismatchError, match=r"expected one player with 'editor', got several"):
        opened.roster(2)
    with pytest.raises(SpecMismatchError, match=r"expected one player with 'editor', got several"):
        opened.roster(1, first_env=1)


def test_logs_are_kept_in_the_run_unless_the_section_says_where(tmp_path: Path) -> None:
    path = tmp_path / "unity.yaml"
    path.write_text(json.dumps({"schema": 1, "world": "unity", "unity": ATTACHED}))
    scenario = load_scenario(path)
    warehouse = load_scenario("warehouse_small")
    kept = keep_logs(scenario, tmp_path / "logs")
    assert isinstance(kept, Scenario)
    assert isinstance(kept.config, UnityConfig)
    assert kept.config.log_folder == str(tmp_path / "logs")
    assert keep_logs(kept, tmp_path / "elsewhere") == kept
    assert keep_logs(warehouse, tmp_path) is warehouse
    mix = keep_logs(ScenarioMix((scenario, warehouse), (1.0, 1.0)), tmp_path)
    assert isinstance(mix, ScenarioMix)
    assert [getattr(member.config, "log_folder", None) for member in mix.scenarios] == [str(tmp_path / "unity"), None]


def test_documentation_names_every_key_and_channel() -> None:
    text = (Path(__file__).parents[3] / "docs" / "unity.md").read_text(encoding="utf-8")
    assert [key for key in UnityConfig.model_fields if f"`{key}`" not in text] == []
    for channel in (messages.ROSTER_CHANNEL, messages.GLOBAL_STATE_CHANNEL, messages.SCENARIO_CHANNEL):
        assert f"`{channel}`" in text


def agent(value: float, **more: Any) -> dict[str, Any]:
    return {"agents": {"AGV": [{"id": 1, "obs": [[value]], **more}]}}


def first(value: float) -> dict[str, Any]:
    return {**agent(value), "behaviors": BEHAVIORS}


def test_world_asks_a_player_that_is_attached_for_what_no_scenario_says(
    tmp_path: Path, live_player: Callable[..., int]
) -> None:
    port = live_player([first(1.0)])
    opened = world(tmp_path, player="attach", port=port, state_size=3, statistics=["speed"], restarts=0)
    spec = opened.spec
    assert [role.name for role in spec.roles] == ["AGV"]
    assert (spec.state_size, spec.metric_names) == (3, ("speed",))


def test_group_rewards_that_are_kept_apart_become_a_figure_of_the_episode(
    tmp_path: Path, live_player: Callable[..., int]
) -> None:
    paid = [first(1.0), agent(1.0), agent(2.0, reward=1.0, group_reward=4.0), agent(2.0, group_reward=0.5)]
    ends = {"AGV": [{"id": 1, "obs": [[3.0]], "done": True, "group_reward": 2.0}, {"id": 1, "obs": [[1.0]]}]}
    last = [{"agents": ends}, agent(1.0, group_reward=8.0, done=True), agent(1.0), agent(1.0, done=True), agent(1.0)]
    port = live_player([*paid, *last])
    roster = world(tmp_path, player="attach", port=port, restarts=0, group_reward="separate").roster(1)
    try:
        assert roster.spec.metric_names == ("group_reward_AGV",)
        roster.reset(seed=1)
        returns, metrics = 0.0, []
        for _ in range(5):
            roster.step()
            returns += float(roster.arrays.roles["AGV"].rewards.sum())
            if roster.arrays.episode_over[0]:
                metrics.append(roster.arrays.metrics[0].tolist())
        assert returns == 1.0
        assert metrics == [[6.5], [8.0], [0.0]]
    finally:
        roster.close()


def build(folder: Path, scripted_player: Callable[..., Any], *exchanges: dict[str, Any]) -> str:
    """A build in the scenario's folder that plays a script."""
    player = scripted_player(exchanges=list(exchanges))
    return str(Path(player.build).relative_to(folder))


def test_eight_players_run_side_by_side_when_each_has_one_area(
    tmp_path: Path, scripted_player: Callable[..., Any]
) -> None:
    steps = [agent(2.0, reward=1.0), agent(3.0, reward=1.0), agent(3.0)]
    scene = build(tmp_path, scripted_player, first(1.0), *steps)
    logs = tmp_path / "logs"
    opened = world(tmp_path, player=scene, slots={"AGV": 1}, areas=1, log_folder=str(logs), restarts=0)
    roster = opened.roster(8, first_env=4)
    try:
        assert isinstance(roster, UnityPlayers)
        assert len({player.session.port for player in roster.rosters}) == 8
        roster.reset(seed=1)
        values = roster.arrays.roles["AGV"]
        assert values.agent_mask.all()
        roster.step()
        assert values.rewards.tolist() == [[1.0]] * 8
        roster.reset(env_mask=np.arange(8) == 2)
        assert values.observations[:, 0, 0].tolist() == [2.0, 2.0, 3.0, *[2.0] * 5]
        assert roster.arrays.episode.tolist() == [0, 0, 1, *[0] * 5]
        assert roster.restarts == 0
        roster.set_scenario({})
        with pytest.raises(ScenarioError, match=r"expected the scene to answer the scenario that was sent, got no"):
            roster.reset()
    finally:
        roster.close()
        roster.close()
    # One log for each, named after its first environment; 0 was the one that was asked for its spec.
    assert {file.name for file in logs.glob("*.log")} == {f"Player-{env}.log" for env in (0, *range(4, 12))}
    with pytest.raises(CallOrderError, match=r"expected open players, got a call after close"):
        roster.step()


def test_players_are_all_ended_when_one_of_them_does_not_start(
    tmp_path: Path, scripted_player: Callable[..., Any]
) -> None:
    scene = build(tmp_path, scripted_player, first(1.0))
    opened = world(tmp_path, player=scene, slots={"AGV": 1}, areas=1)
    assert opened.spec.roles[0].num_slots == 1
    scripted_player(before_connect={"crash_once": str(tmp_path / "crashed")}, exchanges=[first(1.0)])
    with pytest.raises(UnityPlayerDiedError, match=r"exit code 1"):
        opened.roster(2)
