"""A player that plays a script: a real gRPC client with the C# package's order of messages.

Run as a program, started like a build. The script is a JSON file:

    {"communication_version": ..., "package_version": ...,     what it announces
     "record": FILE,                                           replies go here, one JSON object per line
     "before_connect": FAULT, "between_requests": FAULT,       what goes wrong in the handshake
     "exchanges": [{"behaviors": {NAME: {"continuous": n, "branches": [...]}},    new ones
                    "agents": {NAME: [AGENT, ...]},
                    "side_channel": HEX,
                    "fault": FAULT}, ...]}

with AGENT = {"id", "obs": [[...], ...], "names", "shapes", "reward", "done", "interrupted", "mask", "group",
"group_reward"} and FAULT one of {"crash": exit code}, {"crash_once": FILE} (which says that it has), {"kill": signal},
{"hang": true}, {"quit": true} (goodbye and end), {"raw": HEX} (send these bytes), {"child": true} (start a process that
outlives it).
After the last exchange the player says goodbye.

The exchanges may also be an iterator, for a player that runs in a thread of the test (``LivePlayer``): it is asked
for the next exchange when the reply to the last one has arrived, which then stands in ``Player.reply``.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import grpc

from bridge.unity.messages import (
    API_VERSION,
    EXCHANGE_METHOD,
    STATUS_OK,
    STATUS_QUIT,
    ActionSpecProto,
    AgentInfo,
    BrainParameters,
    Header,
    InitializationOutput,
    Observation,
    RLOutput,
    UnityMessage,
    UnityOutput,
    all_capabilities,
)


class Player:
    def __init__(self, script: dict[str, Any], port: int, log_file: str | None) -> None:
        self.script = script
        self.log_file = log_file
        self.channel = grpc.insecure_channel(f"localhost:{port}", options=[("grpc.max_send_message_length", -1)])
        self.call = self.channel.unary_unary(EXCHANGE_METHOD)
        self.reply: Any = None

    def run(self) -> int:
        self.log("player starts")
        self.play(self.script.get("before_connect"))
        introduction = InitializationOutput(
            name="AcademySingleton",
            communication_version=self.script.get("communication_version", API_VERSION),
            package_version=self.script.get("package_version", "3.0.0"),
            capabilities=all_capabilities(),
        )
        if self.exchange(UnityOutput(rl_initialization_output=introduction)) is None:
            return 0
        self.play(self.script.get("between_requests"))
        if self.exchange(None) is None:
            return 0
        for number, entry in enumerate(self.script.get("exchanges", [])):
            self.log(f"exchange {number}")
            self.play(entry.get("fault"))
            if self.exchange(output_message(entry)) is None:
                return 0
        self.goodbye()
        return 0

    def exchange(self, output: Any) -> Any:
        message = UnityMessage(header=Header(status=STATUS_OK), unity_output=output)
        self.reply = UnityMessage.FromString(self.call(message.SerializeToString()))
        self.record(self.reply)
        return None if self.reply.header.status == STATUS_QUIT else self.reply

    def goodbye(self) -> None:
        self.log("goodbye")
        self.call(UnityMessage(header=Header(status=STATUS_QUIT)).SerializeToString())

    def play(self, fault: dict[str, Any] | None) -> None:
        if fault is None:
            return
        if "child" in fault:
            child = subprocess.Popen(["/bin/sleep", "120"])
            self.log(f"child {child.pid}")
        if "hang" in fault:
            time.sleep(60)
        if "raw" in fault:
            self.call(bytes.fromhex(fault["raw"]))
        if "quit" in fault:
            self.goodbye()
            sys.exit(0)
        if "kill" in fault:
            os.kill(os.getpid(), fault["kill"])
        if "crash_once" in fault and not Path(fault["crash_once"]).exists():
            Path(fault["crash_once"]).touch()
            os._exit(1)
        if "crash" in fault:
            self.log("NullReferenceException: everything is on fire")
            print("stack trace on standard output", flush=True)
            os._exit(fault["crash"])

    def record(self, reply: Any) -> None:
        if "record" not in self.script:
            return
        rl_input = reply.unity_input.rl_input
        entry = {
            "status": reply.header.status,
            "initialization": reply.unity_input.HasField("rl_initialization_input"),
            "num_areas": reply.unity_input.rl_initialization_input.num_areas,
            "seed": reply.unity_input.rl_initialization_input.seed,
            "command": rl_input.command,
            "side_channel": rl_input.side_channel.hex(),
            "actions": {
                name: [[list(a.continuous_actions), list(a.discrete_actions)] for a in listed.value]
                for name, listed in rl_input.agent_actions.items()
            },
        }
        with Path(self.script["record"]).open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def log(self, line: str) -> None:
        if self.log_file is not None:
            with Path(self.log_file).open("a") as file:
                file.write(line + "\n")


class LivePlayer(threading.Thread):
    """A player in a thread of the test, which connects as soon as somebody listens.

    Args:
        exchanges: Makes the exchanges; gets the player, whose ``reply`` is the last answer.
        port: Where to connect; also where the test listens.
    """

    def __init__(self, exchanges: Callable[[Player], Iterable[dict[str, Any]]], port: int, **script: Any) -> None:
        super().__init__(daemon=True)
        self.exchanges = exchanges
        self.port = port
        self.script = script
        self.error: BaseException | None = None

    def run(self) -> None:
        deadline = time.monotonic() + 120  # the listener may have to compile first
        while time.monotonic() < deadline:  # gRPC would wait a second after the first refusal
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    break
            time.sleep(0.002)
        script: dict[str, Any] = dict(self.script)
        player = Player(script, self.port, None)
        script["exchanges"] = self.exchanges(player)
        try:
            player.run()
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.UNAVAILABLE:  # the test has ended
                self.error = error
        except BaseException as error:  # noqa: BLE001  it fails the test
            self.error = error
        finally:
            player.channel.close()


def output_message(entry: dict[str, Any]) -> Any:
    output = UnityOutput(rl_output=RLOutput(side_channel=bytes.fromhex(entry.get("side_channel", ""))))
    for name, agents in entry.get("agents", {}).items():
        output.rl_output.agentInfos[name].value.extend(agent_info(agent) for agent in agents)
    for name, spec in entry.get("behaviors", {}).items():
        action = ActionSpecProto(
            num_continuous_actions=spec.get("continuous", 0),
            num_discrete_actions=len(spec.get("branches", [])),
            discrete_branch_sizes=spec.get("branches", []),
        )
        output.rl_initialization_output.brain_parameters.append(BrainParameters(brain_name=name, action_spec=action))
    return output


def agent_info(agent: dict[str, Any]) -> Any:
    info = AgentInfo(
        id=agent["id"],
        reward=agent.get("reward", 0.0),
        done=agent.get("done", False),
        max_step_reached=agent.get("interrupted", False),
        action_mask=agent.get("mask", []),
        group_id=agent.get("group", 0),
        group_reward=agent.get("group_reward", 0.0),
    )
    for index, values in enumerate(agent["obs"]):
        shape = agent["shapes"][index] if "shapes" in agent else [len(values)]
        name = agent["names"][index] if "names" in agent else f"VectorSensor_size{len(values)}"
        observation = Observation(shape=shape, dimension_properties=[1] * len(shape), name=name)
        observation.float_data.data.extend(values)
        info.observations.append(observation)
    return info


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", required=True)
    parser.add_argument("--mlagents-port", type=int, required=True)
    parser.add_argument("-logFile")
    arguments, _ = parser.parse_known_args()
    script = json.loads(Path(arguments.script).read_text())
    return Player(script, arguments.mlagents_port, arguments.logFile).run()


if __name__ == "__main__":
    sys.exit(main())
