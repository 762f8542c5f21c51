"""A trainer reduced to its socket, and a world whose every step is written down in the test."""

from __future__ import annotations

import queue
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from uuid import UUID

import grpc
import numpy as np
import pytest
from numpy.typing import NDArray

from bridge.roster import RosterArrays
from bridge.specs import ActionSpec, MetricSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
from bridge.unity import messages
from bridge.unity.player.academy import Academy
from bridge.unity.player.communicator import Communicator
from bridge.unity.player.log import PlayerLog
from bridge.unity.player.options import PlayerOptions
from bridge.unity.player.side_channels import SideChannels

WAIT_S = 150.0
"""How long a test waits for a process that may have to compile kernels first."""


class RawTrainer:
    """Serves ``Exchange`` and leaves every reply to the test."""

    def __init__(self) -> None:
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._replies: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.parse: Callable[[bytes], Any] = messages.UnityMessage.FromString
        handler = grpc.unary_unary_rpc_method_handler(
            self._exchange,
            request_deserializer=lambda data: self.parse(data),
            response_serializer=messages.UnityMessage.SerializeToString,
        )
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler(messages.EXCHANGE_SERVICE, {messages.EXCHANGE_METHOD_NAME: handler}),)
        )
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _exchange(self, request: Any, context: grpc.ServicerContext) -> Any:
        self._requests.put(request)
        return self._replies.get(timeout=WAIT_S)

    def receive(self, timeout: float = WAIT_S) -> Any:
        """The next request; raises what went wrong in a player of the same process."""
        request = self._requests.get(timeout=timeout)
        if isinstance(request, Exception):
            raise request
        return request

    def is_idle(self) -> bool:
        """Whether no request waits to be looked at."""
        return self._requests.empty()

    def fail(self, error: Exception) -> None:
        """Let the test see an error of a player of the same process at once."""
        self._requests.put(error)

    def reply(self, **rl_input: Any) -> None:
        """Answer with an RL input."""
        unity_input = messages.UnityInput(rl_input=messages.RLInput(**rl_input))
        self.send(messages.UnityMessage(header=messages.Header(status=200), unity_input=unity_input))

    def send(self, message: Any) -> None:
        """Answer with any message."""
        self._replies.put(message)

    def quit(self) -> None:
        """Answer with the status that makes a player quit."""
        self.send(messages.UnityMessage(header=messages.Header(status=messages.STATUS_QUIT)))

    def shake_hands(
        self, seed: int = 7, num_areas: int = 1, side_channel: bytes = b"", capabilities: Any = None
    ) -> tuple[Any, Any]:
        """Answer both requests of the handshake, by default with all capabilities; returns the requests."""
        first = self.receive()
        settings = messages.InitializationInput(
            seed=seed,
            communication_version="1.5.0",
            package_version="0.28.0",
            capabilities=messages.all_capabilities() if capabilities is None else capabilities,
            num_areas=num_areas,
        )
        unity_input = messages.UnityInput(rl_initialization_input=settings)
        self.send(messages.UnityMessage(header=messages.Header(status=200), unity_input=unity_input))
        second = self.receive()
        self.reply(command=messages.COMMAND_RESET, side_channel=side_channel)
        return first, second

    def vanish(self) -> None:
        """Close the sockets at once, calls in progress included."""
        self._server.stop(None).wait(WAIT_S)
        self._replies.put(messages.UnityMessage())  # frees the handler's thread

    def close(self) -> None:
        self.vanish()


@pytest.fixture
def trainer() -> Iterator[RawTrainer]:
    raw = RawTrainer()
    yield raw
    raw.close()


@pytest.fixture
def start_player(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    """Starts player processes; the log is ``tmp_path/Player.log``."""
    running: list[subprocess.Popen[bytes]] = []

    def start(*arguments: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-m", "bridge.unity.player", "-logFile", str(tmp_path / "Player.log")]
        running.append(subprocess.Popen([*command, *arguments], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
        return running[-1]

    yield start
    for process in running:
        process.kill()
        process.wait(WAIT_S)


SMALL = """
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      ........
      .S.##.E.
      P..##..P
      .S.##.E.
      ........
  fleet:
    - {role: carrier, count: 3}
  mask_blocked_moves: true
  reward: {delivery: 1.0, pickup: 0.5, progress: 0.05, blocked: -0.02}
  episode_steps: 30
"""

CROWDED = """
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      S..E
      ....
      P..P
  fleet:
    - {role: carrier, count: 5}
  reward: {delivery: 1.0, collision: -1.0}
  contact: {rule: despawn, respawn_after_s: 3}
  mask_blocked_moves: true
  episode_steps: 40
"""


@pytest.fixture
def small_scenario(tmp_path: Path) -> Path:
    path = tmp_path / "small.yaml"
    path.write_text(SMALL)
    return path


@pytest.fixture
def crowded_scenario(tmp_path: Path) -> Path:
    path = tmp_path / "crowded.yaml"
    path.write_text(CROWDED)
    return path


VARIED = """
schema: 1
world: warehouse
warehouse:
  layout:
    grid: |
      P........E
      ..##..##..
      ..##..##..
      ..........
      ..##..##..
      ..##..##..
      P........S
  fleet: [{role: carrier, count: 2}]
  randomisation: {layout: {variants: 3, max_missing_racks: 0.5, max_rack_offset_cells: 1, max_blocked_cells: 2}}
"""


@pytest.fixture
def varied_scenario(tmp_path: Path) -> Callable[[int], Path]:
    """A scenario whose floor plan varies, with episodes of so many steps."""

    def write(episode_steps: int) -> Path:
        path = tmp_path / f"varied_{episode_steps}.yaml"
        path.write_text(f"{VARIED}  episode_steps: {episode_steps}\n")
        return path

    return write


@pytest.fixture
def wait_for_log(tmp_path: Path) -> Callable[[str], None]:
    """Waits until the player process has logged a text."""

    def wait(text: str) -> None:
        deadline = time.monotonic() + WAIT_S
        while text not in (tmp_path / "Player.log").read_text():
            assert time.monotonic() < deadline, f"not logged: {text}"
            time.sleep(0.02)

    return wait


def scripted_spec(num_slots: int = 2) -> WorldSpec:
    """Two roles: carriers with branches of 5, pickers with one continuous value and a branch of 2."""

    def role(name: str, size: int, action: ActionSpec) -> RoleSpec:
        layout = ObservationLayout((ObservationBlock("self", size),))
        return RoleSpec(name, tuple(f"{name}_{i}" for i in range(num_slots)), layout, action)

    roles = (
        role("carrier", 3, ActionSpec(discrete_branches=(5,))),
        role("picker", 2, ActionSpec(num_continuous=1, discrete_branches=(2,))),
    )
    return WorldSpec(roles, metrics=(MetricSpec("deliveries_per_h"), MetricSpec("collisions")))


Event = Callable[[RosterArrays], None]


class ScriptedRoster:
    """A world in which nothing happens but what ``events`` says, by number of the step since the start.

    Observations hold ``100 * episode + step`` of the environment, rewards are 1 for every robot that
    lived before the step. ``carrier_0`` of area 0 can be told to despawn, respawn, and so on by events,
    which run after these defaults.
    """

    def __init__(self, num_envs: int = 1, events: dict[int, Event] | None = None, limit: int | None = None) -> None:
        self.spec = scripted_spec()
        self.arrays = RosterArrays.allocate(self.spec, num_envs)
        self.seeds: list[int | None] = []
        self.actions: list[dict[str, tuple[NDArray[np.float32], NDArray[np.int32]]]] = []
        self._events = events or {}
        self._limit = limit
        self._steps = 0
        self._episode_steps = 0

    def reset(self, seed: int | None = None, env_mask: NDArray[np.bool_] | None = None) -> None:
        assert env_mask is None
        self.seeds.append(seed)
        self.arrays.episode[:] = 0 if seed is not None else self.arrays.episode + 1
        self._begin_episode()
        for values in self.arrays.roles.values():
            values.rewards[:] = 0.0
            values.terminated[:] = values.truncated[:] = False
        self.arrays.episode_over[:] = False

    def _begin_episode(self) -> None:
        self._episode_steps = 0
        for values in self.arrays.roles.values():
            values.agent_mask[:] = values.decision_mask[:] = values.action_mask[:] = True
            values.observations[:] = 100 * self.arrays.episode[:, None, None]

    def step(self) -> None:
        self.actions.append(
            {
                name: (values.continuous_actions.copy(), values.discrete_actions.copy())
                for name, values in self.arrays.roles.items()
            }
        )
        self._steps += 1
        self._episode_steps += 1
        self.arrays.episode_over[:] = False
        for values in self.arrays.roles.values():
            values.rewards[:] = values.agent_mask
            values.terminated[:] = values.truncated[:] = False
            values.observations[:] = (
                100 * self.arrays.episode[:, None, None] + self._episode_steps
            ) * values.agent_mask[..., None]
            values.final_observations[:] = values.observations
        if self._steps in self._events:
            self._events[self._steps](self.arrays)
        if self._episode_steps == self._limit:
            self._cut()

    def _cut(self) -> None:
        for values in self.arrays.roles.values():
            values.truncated[:] = values.agent_mask
        self.arrays.episode_over[:] = True
        self.arrays.metrics[:] = [[10.5 + area, area] for area in range(self.arrays.num_envs)]
        self.arrays.episode[:] += 1
        self._begin_episode()

    def close(self) -> None:
        pass


class AcademyThread:
    """An Academy over a scripted world, playing in a thread against a raw trainer."""

    def __init__(self, trainer: RawTrainer, roster: ScriptedRoster, log_file: Path, **options: Any) -> None:
        self.log_file = log_file
        self.error: BaseException | None = None
        self.exit_code: int | None = None
        self._options = PlayerOptions(scenario="scripted", port=trainer.port, log_file=str(log_file), **options)
        self._roster = roster
        self._trainer = trainer
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        options = self._options
        assert options.port is not None
        with PlayerLog(options.log_file) as log:
            communicator = Communicator(options.port, log)
            try:
                connection = communicator.connect(options.package_version, options.communication_version)
                assert connection is not None
                channels = SideChannels(log, options.echo)
                channels.process(connection[1].side_channel)
                self.academy = Academy(self._roster, communicator, channels, connection[0].seed, options, log)
                self.exit_code = self.academy.run()
            except Exception as error:  # noqa: BLE001 (handed to the test, which waits in another thread)
                self.error = error
                self._trainer.fail(error)
            finally:
                communicator.close()

    def join(self) -> int | None:
        """Wait for the end; re-raises what went wrong."""
        self._thread.join(WAIT_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.exit_code


@pytest.fixture
def play(trainer: RawTrainer, tmp_path: Path) -> Iterator[Callable[..., AcademyThread]]:
    started: list[AcademyThread] = []

    def start(roster: ScriptedRoster, **options: Any) -> AcademyThread:
        started.append(AcademyThread(trainer, roster, tmp_path / "Player.log", **options))
        return started[-1]

    yield start
    trainer.vanish()
    for academy in started:
        academy._thread.join(WAIT_S)
        assert not academy._thread.is_alive()


@pytest.fixture
def scripted_roster() -> type[ScriptedRoster]:
    return ScriptedRoster


@pytest.fixture
def frame() -> Callable[[UUID, bytes], bytes]:
    """Frames a side channel payload."""
    return lambda channel, payload: channel.bytes_le + struct.pack("<i", len(payload)) + payload
