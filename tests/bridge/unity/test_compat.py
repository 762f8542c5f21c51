"""mlagents_envs as it is published, on this stack: its import, and its own trainer side against our players."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bridge.unity.player.build import write_build

_IMPORT = """
import pickle, sys, warnings
before = set(sys.modules)
from bridge.unity.compat import import_mlagents_envs
package = import_mlagents_envs()
environment = sys.modules["mlagents_envs.environment"]
assert import_mlagents_envs() is package
assert sys.modules["mlagents_envs.environment"] is environment
assert not {"distutils", "distutils.version"} & set(sys.modules), "distutils was left behind"

from mlagents_envs.communicator_objects import command_pb2
from mlagents_envs.communicator_objects.unity_message_pb2 import UnityMessageProto
from bridge.unity.messages import UnityMessage
assert command_pb2.RESET == command_pb2.CommandProto.Value("RESET") == 1
assert UnityMessageProto is not UnityMessage
message = UnityMessageProto()
message.header.status = 200
assert pickle.loads(pickle.dumps(message)) == message
assert UnityMessage.FromString(message.SerializeToString()).header.status == 200
print(package.__version__)
"""

_EPISODE = """
import json, socket, sys
from bridge.unity.compat import import_mlagents_envs
import_mlagents_envs()
from mlagents_envs.environment import UnityEnvironment
from mlagents_envs.side_channel.stats_side_channel import StatsSideChannel

with socket.socket() as probe:
    probe.bind(("localhost", 0))
    port = probe.getsockname()[1]
stats = StatsSideChannel()
env = UnityEnvironment(
    sys.argv[1], base_port=port, seed=3, no_graphics=True, timeout_wait=120, side_channels=[stats], num_areas=2
)
env.reset()
(name,) = env.behavior_specs
spec = env.behavior_specs[name]
exchanges, ended, rewards = 0, [], 0.0
while len(ended) < int(sys.argv[2]):
    decisions, terminals = env.get_steps(name)
    rewards += float(decisions.reward.sum() + terminals.reward.sum())
    ended += [[int(i), bool(terminals[i].interrupted)] for i in terminals]
    actions = spec.action_spec.random_action(len(decisions))
    for branch, mask in enumerate(decisions.action_mask or []):
        actions.discrete[:, branch] = mask.argmin(axis=1)  # the first action that is not forbidden
    env.set_actions(name, actions)
    env.step()
    exchanges += 1
env.close()
print(json.dumps({
    "name": name, "exchanges": exchanges, "ended": ended, "rewards": rewards, "stats": sorted(stats.stats),
    "shapes": [list(o.shape) for o in spec.observation_specs], "branches": list(spec.action_spec.discrete_branches),
}))
"""

_WAREHOUSE = """
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      PPP.E
      .#.#.
      S...S
  fleet: [{role: carrier, count: 3}]
  observation: [{block: self}, {block: target}]
  episode_steps: 12
"""

# protobuf 4's own extension warns when Python >= 3.12 imports it; newer ones do not.
_PROTOBUF_4 = "ignore:Type google._upb:DeprecationWarning"


def run(code: str, *arguments: str) -> str:
    result = subprocess.run(
        [sys.executable, "-W", "error", "-W", _PROTOBUF_4, "-c", code, *arguments],
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_import_leaves_nothing_behind_but_the_message_modules() -> None:
    assert run(_IMPORT).strip()


def test_unitys_own_environment_plays_an_episode_when_the_player_is_headless(tmp_path: Path) -> None:
    scenario = tmp_path / "tiny.yaml"
    scenario.write_text(_WAREHOUSE)
    build = write_build(tmp_path / "tiny_build", scenario)
    result = json.loads(run(_EPISODE, str(build), "6").splitlines()[-1])
    assert result["name"] == "carrier?team=0"
    # Twelve steps of one episode, and the exchange that brings its terminals.
    assert result["exchanges"] == 13
    assert sorted(agent for agent, _ in result["ended"]) == [0, 1, 2, 3, 4, 5]
    assert all(interrupted for _, interrupted in result["ended"])
    assert result["branches"] == [5]
    assert any(key.startswith("episode/1/") for key in result["stats"])


def test_unitys_own_environment_understands_the_scripted_player(
    scripted_player: Callable[..., Any], tmp_path: Path
) -> None:
    agents = [{"id": 1, "obs": [[1.0, 2.0]], "reward": 0.5}]
    behaviors = {"AGV?team=0": {"continuous": 1, "branches": [3]}}
    ends = [{"id": 1, "obs": [[3.0, 4.0]], "reward": 2.0, "done": True}]
    player = scripted_player(
        exchanges=[
            {"agents": {"AGV?team=0": agents}, "behaviors": behaviors},
            {"agents": {"AGV?team=0": agents}},
            {"agents": {"AGV?team=0": ends}},
            {"agents": {"AGV?team=0": agents}},
        ]
    )
    build = tmp_path / "scene"  # mlagents_envs takes the brackets of the other name for a pattern
    build.with_suffix(".x86_64").symlink_to(player.build + ".x86_64")
    result = json.loads(run(_EPISODE, str(build), "1").splitlines()[-1])
    assert result["ended"] == [[1, False]]
    assert result["rewards"] == 3.0
    assert result["shapes"] == [[2]]
