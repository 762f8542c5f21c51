"""How long one exchange with a player takes, over a bare gRPC echo of the same bytes.

    python tests/benchmarks/bench_exchange.py

A scripted player, in a process of its own, sends prepared bytes as fast as it
is answered: N agents with 64 float observations, which expect 2 continuous
actions each. It is answered by

- a bare gRPC server that replies with prepared bytes (the echo),
- ``bridge.unity.environment.UnityEnvironment``: set_actions, step, get_steps,
- ``bridge.unity.roster.UnityRoster``: the whole step of a trainer's environment,
  with slots, masks, rewards per life and the check of the actions,
- ``mlagents_envs`` 0.28: the calls of the first.

All are connected at once and measured in turns, so that a busy machine slows
them alike; the figures to read are the ratios.

A second table is of the codecs alone: what it takes to get from a request's
bytes to arrays, and from arrays to a reply's bytes, in CPU time of one thread.
"""

from __future__ import annotations

import argparse
import shlex
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from bridge.unity import messages

BEHAVIOR = "carrier?team=0"
NUM_OBSERVATIONS = 64
NUM_ACTIONS = 2
TIMEOUT_S = 60.0
WIDTHS = (7, 9, 14, 14, 9, 14, 9, 9)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, nargs="+", default=[16, 256, 1024])
    parser.add_argument("--repeats", type=int, default=25)
    parser.add_argument("--seconds", type=float, default=0.1, help="time per measurement")
    parser.add_argument("--player", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--mlagents-port", type=int, help=argparse.SUPPRESS)
    options, _ = parser.parse_known_args()
    if options.player is not None:
        run_scripted_player(options.player, options.mlagents_port)
        return
    print("us per exchange, 64 floats and 2 continuous actions an agent; median of interleaved repeats")
    print(f"{'':>7} {'':>9} {'agv-bridge':^29} {'':>9} {'over the echo':^29}")
    names = ["agents", "echo", "environment", "roster", "mlagents", "environment", "roster", "mlagents"]
    print(" ".join(f"{name:>{width}}" for name, width in zip(names, WIDTHS, strict=True)))
    for num_agents in options.agents:
        times = measure(num_agents, options.repeats, options.seconds)
        figures = [
            f"{num_agents}",
            *(f"{one * 1e6:.0f}" for one in times),
            *(f"{one / times[0]:.2f}" for one in times[1:]),
        ]
        print(" ".join(f"{figure:>{width}}" for figure, width in zip(figures, WIDTHS, strict=True)), flush=True)
    print("\nus of CPU time per message, the codecs alone; median")
    print(f"{'agents':>7} {'decode':>9} {'encode':>9} {'protobuf parse':>15} {'mlagents decode':>16} {'encode':>9}")
    for num_agents in options.agents:
        times = [cpu_time(call) * 1e6 for call in codecs(num_agents)]
        print(f"{num_agents:>7} {times[0]:>9.1f} {times[1]:>9.1f} {times[2]:>15.1f} {times[3]:>16.1f} {times[4]:>9.1f}")


def codecs(num_agents: int) -> list[Callable[[], object]]:
    """Decoding and encoding one exchange: this project's, protobuf's parser alone, those of ``mlagents_envs``."""
    from bridge.unity.compat import import_mlagents_envs
    from bridge.unity.decode import OutputDecoder
    from bridge.unity.encode import BehaviorActions, encode_step
    from bridge.unity.wire import read_request

    import_mlagents_envs()
    from mlagents_envs.base_env import ActionTuple
    from mlagents_envs.environment import UnityEnvironment
    from mlagents_envs.rpc_utils import steps_from_proto

    brain = messages.BrainParameters(
        brain_name=BEHAVIOR, action_spec=messages.ActionSpecProto(num_continuous_actions=NUM_ACTIONS)
    )
    announcement = messages.InitializationOutput(brain_parameters=[brain])
    output = agents_output(num_agents)
    decoder = OutputDecoder()
    decoder.decode(read_request(player_request(rl_output=output, rl_initialization_output=announcement)))
    spec = decoder.behaviors[BEHAVIOR].to_mlagents()
    request = player_request(rl_output=output)
    values = np.random.default_rng(1).uniform(-1, 1, (num_agents, NUM_ACTIONS)).astype(np.float32)
    actions = {BEHAVIOR: BehaviorActions(values, np.zeros((num_agents, 0), np.int32))}

    def parse() -> Any:
        return messages.UnityMessage.FromString(request).unity_output.rl_output

    # Encoding needs an environment's state, but no player.
    theirs = UnityEnvironment.__new__(UnityEnvironment)
    theirs._env_specs = {BEHAVIOR: spec}
    theirs._env_state = {BEHAVIOR: ([None] * num_agents, [])}
    theirs._side_channel_manager = type("Silent", (), {"generate_side_channel_messages": lambda self: bytearray()})()
    theirs._loaded = False
    chosen = {BEHAVIOR: ActionTuple(continuous=values)}
    return [
        lambda: decoder.decode(read_request(request)),
        lambda: encode_step(actions, b""),
        parse,
        lambda: steps_from_proto(parse().agentInfos[BEHAVIOR].value, spec),
        lambda: theirs._generate_step_input(chosen).SerializeToString(),
    ]


def cpu_time(call: Callable[[], object], repeats: int = 15, seconds: float = 0.01) -> float:
    """Median CPU time of a call, in s."""
    call()
    start = time.thread_time()
    call()
    count = max(int(seconds / max(time.thread_time() - start, 1e-6)), 1)
    times = []
    for _ in range(repeats):
        start = time.thread_time()
        for _ in range(count):
            call()
        times.append((time.thread_time() - start) / count)
    return statistics.median(times)


def measure(num_agents: int, repeats: int, seconds: float) -> list[float]:
    """Median time of one exchange in s: echo, our environment and roster, ``mlagents_envs``."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        build = write_player(Path(folder) / "scripted", num_agents)
        contestants = [
            open_echo(stack, build, num_agents),
            open_ours(stack, build, num_agents),
            open_roster(stack, build, num_agents),
            open_mlagents(stack, build, num_agents),
        ]
        for step in contestants:
            time_per_call(step, 0.2)  # warm up: compiled code, connections, caches
        times = [[time_per_call(step, seconds) for step in contestants] for _ in range(repeats)]
    return [statistics.median(column) for column in zip(*times, strict=True)]


def time_per_call(step: Callable[[int], None], seconds: float) -> float:
    """Mean time of one exchange over about ``seconds``."""
    count, elapsed = 0, 0.0
    while elapsed < seconds:
        start = time.perf_counter()
        step(20)
        elapsed += time.perf_counter() - start
        count += 20
    return elapsed / count


def open_ours(stack: ExitStack, build: Path, num_agents: int) -> Callable[[int], None]:
    """Connect this project's ``UnityEnvironment``."""
    from bridge.unity.environment import UnityEnvironment

    env = UnityEnvironment(str(build), timeout_wait=TIMEOUT_S)
    stack.callback(env.close)
    return stepper(env, num_agents)


def open_roster(stack: ExitStack, build: Path, num_agents: int) -> Callable[[int], None]:
    """Connect this project's ``UnityRoster``."""
    from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec, WorldSpec
    from bridge.unity.launch import PlayerCommand
    from bridge.unity.roster import RosterOptions, UnityRoster
    from bridge.unity.session import SessionOptions

    role = BEHAVIOR.partition("?")[0]
    layout = ObservationLayout((ObservationBlock("values", NUM_OBSERVATIONS),))
    slots = tuple(f"{role}_{slot}" for slot in range(num_agents))
    spec = WorldSpec((RoleSpec(role, slots, layout, ActionSpec(NUM_ACTIONS)),))
    roster = UnityRoster(PlayerCommand((str(build),)), spec, SessionOptions(timeout_s=TIMEOUT_S), RosterOptions())
    stack.callback(roster.close)
    values = roster.arrays.roles[role]
    actions = np.random.default_rng(1).uniform(-1, 1, (1, num_agents, NUM_ACTIONS)).astype(np.float32)
    roster.reset(seed=1)

    def step(count: int) -> None:
        for _ in range(count):
            values.continuous_actions[:] = actions
            roster.step()
            assert values.decision_mask.all()

    return step


def open_mlagents(stack: ExitStack, build: Path, num_agents: int) -> Callable[[int], None]:
    """Connect Unity's ``UnityEnvironment``."""
    from bridge.unity.compat import import_mlagents_envs

    import_mlagents_envs()
    from mlagents_envs.environment import UnityEnvironment

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    env = UnityEnvironment(str(build), base_port=port, timeout_wait=TIMEOUT_S)
    stack.callback(env.close)
    return stepper(env, num_agents)


def stepper(env: Any, num_agents: int) -> Callable[[int], None]:
    """The loop of a trainer without the trainer."""
    from bridge.unity.mlagents_types import ActionTuple

    actions = np.random.default_rng(1).uniform(-1, 1, (num_agents, NUM_ACTIONS)).astype(np.float32)
    action = ActionTuple(continuous=actions)
    env.reset()

    def step(count: int) -> None:
        for _ in range(count):
            env.set_actions(BEHAVIOR, action)
            env.step()
            decisions, _ = env.get_steps(BEHAVIOR)
            assert len(decisions) == num_agents

    return step


class Echo:
    """A bare gRPC server; exchanges happen only while :meth:`step` runs."""

    def __init__(self, num_agents: int) -> None:
        self._reply = trainer_reply(num_agents)
        self._handshake = [initialization_reply(), reset_reply()]
        self._turns = 0
        self._go = threading.Semaphore(0)
        self._done = threading.Event()
        self.closing = False
        handler = grpc.unary_unary_rpc_method_handler(self._exchange)
        service = grpc.method_handlers_generic_handler(
            messages.EXCHANGE_SERVICE, {messages.EXCHANGE_METHOD_NAME: handler}
        )
        self._server = grpc.server(ThreadPoolExecutor(2), options=[("grpc.max_receive_message_length", -1)])
        self._server.add_generic_rpc_handlers((service,))
        self.port = self._server.add_insecure_port("127.0.0.1:0")
        self._server.start()

    def _exchange(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        if self._handshake:
            return self._handshake.pop(0)
        if self._turns == 0:
            self._done.set()
            self._go.acquire(timeout=TIMEOUT_S)
        if self.closing:
            return quit_reply()
        self._turns -= 1
        return self._reply

    def step(self, count: int) -> None:
        """Let ``count`` exchanges happen."""
        assert self._done.wait(TIMEOUT_S)
        self._done.clear()
        self._turns = count
        self._go.release()
        assert self._done.wait(TIMEOUT_S)

    def close(self) -> None:
        """Make the player quit."""
        self.closing = True
        self._go.release()
        self._server.stop(1.0).wait(TIMEOUT_S)


def open_echo(stack: ExitStack, build: Path, num_agents: int) -> Callable[[int], None]:
    """Connect a scripted player to a bare server."""
    echo = Echo(num_agents)
    process = subprocess.Popen([build, "--mlagents-port", str(echo.port)])
    stack.callback(process.wait, TIMEOUT_S)
    stack.callback(echo.close)
    return echo.step


def write_player(path: Path, num_agents: int) -> Path:
    """An executable that runs the scripted player."""
    target = path.with_suffix(".x86_64")
    command = [sys.executable, str(Path(__file__).resolve()), "--player", str(num_agents)]
    target.write_text(f'#!/bin/sh\nexec {shlex.join(command)} "$@"\n', encoding="utf-8")
    target.chmod(0o755)
    return target


def run_scripted_player(num_agents: int, port: int) -> None:
    """Shake hands, then send the same bytes until told to quit."""
    channel = grpc.insecure_channel(f"127.0.0.1:{port}", options=[("grpc.max_receive_message_length", -1)])
    call = channel.unary_unary(messages.EXCHANGE_METHOD)  # bytes in, bytes out
    introduction = messages.InitializationOutput(
        name="AcademySingleton",
        communication_version=messages.API_VERSION,
        package_version="3.0.0",
        capabilities=messages.all_capabilities(),
    )
    call(player_request(rl_initialization_output=introduction))
    call(player_request())
    output = agents_output(num_agents)
    brain = messages.BrainParameters(
        brain_name=BEHAVIOR, action_spec=messages.ActionSpecProto(num_continuous_actions=NUM_ACTIONS)
    )
    announcement = messages.InitializationOutput(brain_parameters=[brain])
    reply = call(player_request(rl_output=output, rl_initialization_output=announcement))
    request = player_request(rl_output=output)
    farewell = quit_reply()
    while len(reply) > len(farewell):
        try:
            reply = call(request)
        except grpc.RpcError:
            return  # the server closed the connection instead of saying goodbye
    channel.close()


def player_request(**output: Any) -> bytes:
    """A request of a player."""
    unity_output = messages.UnityOutput(**output) if output else None
    message = messages.UnityMessage(header=messages.Header(status=messages.STATUS_OK), unity_output=unity_output)
    data: bytes = message.SerializeToString()
    return data


def agents_output(num_agents: int) -> Any:
    """What N agents report."""
    values = np.random.default_rng(0).standard_normal((num_agents, NUM_OBSERVATIONS)).astype(np.float32)
    output = messages.RLOutput()
    agents = output.agentInfos[BEHAVIOR].value
    for agent_id, row in enumerate(values.tolist()):
        info = agents.add(reward=0.5, id=agent_id, group_id=1)
        observation = info.observations.add(shape=[NUM_OBSERVATIONS], dimension_properties=[1], name="VectorSensor")
        observation.float_data.data.extend(row)
    return output


def trainer_message(**unity_input: Any) -> bytes:
    """A reply of a trainer."""
    header = messages.Header(status=messages.STATUS_OK)
    message = messages.UnityMessage(header=header, unity_input=messages.UnityInput(**unity_input))
    data: bytes = message.SerializeToString()
    return data


def initialization_reply() -> bytes:
    """The first reply of the handshake."""
    settings = messages.InitializationInput(
        communication_version=messages.API_VERSION,
        package_version="0.28.0",
        capabilities=messages.all_capabilities(),
        num_areas=1,
    )
    return trainer_message(rl_initialization_input=settings)


def reset_reply() -> bytes:
    """The second reply of the handshake."""
    return trainer_message(rl_input=messages.RLInput(command=messages.COMMAND_RESET))


def trainer_reply(num_agents: int) -> bytes:
    """Actions for N agents."""
    action = messages.AgentAction(continuous_actions=[0.25, -0.5])
    actions = messages.ListAgentAction(value=[action] * num_agents)
    return trainer_message(rl_input=messages.RLInput(agent_actions={BEHAVIOR: actions}))


def quit_reply() -> bytes:
    """The reply that ends a player."""
    data: bytes = messages.UnityMessage(header=messages.Header(status=messages.STATUS_QUIT)).SerializeToString()
    return data


if __name__ == "__main__":
    main()
