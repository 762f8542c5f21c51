"""Feeds damaged requests to everything that reads what a player sends.

    python tests/fuzz/fuzz_exchange.py --count 100000

The built-in player is recorded for a while, without and with cameras; its
requests, and random ones in unusual forms, are cut, flipped, spliced and stretched, and given to the
decoder, the side channels and ML-Agents' steps. Each must be read, or be
refused with one UnityProtocolError; what is refused as no message must be none
for protobuf either. No request may take long, and memory must not grow.
Ends with 1 at the first violation, after printing the request in hex.
"""

from __future__ import annotations

import argparse
import logging
import re
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

sys.path.insert(0, str(Path(__file__).parent))
from random_requests import RequestWriter, random_behavior

from bridge.errors import UnityProtocolError
from bridge.unity.behaviors import Behavior
from bridge.unity.decode import OutputDecoder, PlayerOutput, parse_initialization
from bridge.unity.encode import BehaviorActions, encode_initialization, encode_reset, encode_step
from bridge.unity.messages import API_VERSION, UnityMessage
from bridge.unity.server import ExchangeServer, quit_reply
from bridge.unity.side_channels import (
    GlobalStateChannel,
    RosterChannel,
    ScenarioChannel,
    SideChannelHub,
    StatsChannel,
)
from bridge.unity.steps import batch_to_steps
from bridge.unity.wire import AgentReader, compile_kernels, read_request

TIMEOUT_S = 180.0
MAX_REQUEST_S = 5.0
MAX_GROWTH_MIB = 256
STATE_SIZE = 97
MESSAGE_FORM = re.compile(r"^(player|behavior|side channels|\w+Channel)\b.*: expected .*, got ", re.DOTALL)

CAMERAS = ("--visual", "8x6:png:x2,5x5:png:grey,4x4:raw", "--announce", "roster,state")
NUM_PLAYERS = 2
PLAYER_SHARE = 0.5

Recording = tuple[list[bytes], dict[str, Behavior]]


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    logging.disable()
    rng = np.random.default_rng(options.seed)
    sources = [record_player(), record_player(CAMERAS), *(random_recording(rng) for _ in range(20))]
    fuzzer = Fuzzer(sources, rng)
    fuzzer.run(1000)  # buffers and caches have their size then
    memory, start = peak_memory_mib(), time.perf_counter()
    fuzzer.run(options.count)
    growth = peak_memory_mib() - memory
    print(
        f"{options.count} requests in {time.perf_counter() - start:.0f} s: {fuzzer.num_read} read, "
        f"{fuzzer.num_refused} refused, slowest {fuzzer.slowest_s * 1e3:.0f} ms, memory {growth:+.0f} MiB"
    )
    return 1 if fuzzer.violations or growth > MAX_GROWTH_MIB else 0


class Fuzzer:
    """Damages requests and watches what becomes of them.

    Args:
        sources: Recorded requests, each with the behaviors that were known then; those of players first.
        rng: Source of randomness.
    """

    def __init__(self, sources: list[Recording], rng: np.random.Generator) -> None:
        self.sources = sources
        self.rng = rng
        self.num_read = self.num_refused = 0
        self.slowest_s = 0.0
        self.violations = 0

    def run(self, count: int) -> None:
        """Try a number of requests."""
        for _ in range(count):
            first = self.rng.random() < PLAYER_SHARE
            requests, behaviors = self.sources[self.rng.integers(NUM_PLAYERS if first else len(self.sources))]
            data = self.damaged(requests[self.rng.integers(len(requests))], requests)
            start = time.perf_counter()
            complaint = self.attempt(data, behaviors)
            elapsed = time.perf_counter() - start
            self.slowest_s = max(self.slowest_s, elapsed)
            if elapsed > MAX_REQUEST_S:
                complaint = f"took {elapsed:.1f} s"
            if complaint:
                self.violations += 1
                print(f"{complaint}\n{data.hex()}", flush=True)
                return

    def attempt(self, data: bytes, behaviors: dict[str, Behavior]) -> str | None:
        """What is wrong with the reaction to a request; None if nothing is."""
        try:
            read(data, behaviors)
        except UnityProtocolError as error:
            self.num_refused += 1
            if not MESSAGE_FORM.match(str(error)):
                return f"unclear message: {error}"
            if "bytes that are none from byte" in str(error) and is_message(data):
                return f"protobuf takes what was refused: {error}"
        except Exception as error:  # noqa: BLE001  (whatever it is, it is a finding)
            return f"{type(error).__name__}: {error}"
        else:
            self.num_read += 1
        return None

    def damaged(self, data: bytes, others: list[bytes]) -> bytes:
        """A request after a few random changes."""
        rng = self.rng
        table = bytearray(data)
        for _ in range(int(rng.geometric(0.6))):
            at = int(rng.integers(0, len(table) + 1))
            size = int(min(rng.geometric(0.05), len(table) - at))
            kind = rng.choice([0, 0, 1, 1, 2, 3, 4, 5, 6])
            if kind == 0:
                table[at : at + 1] = bytes([rng.choice([0x00, 0x01, 0x7F, 0x80, 0xFF, rng.integers(256)])])
            elif kind == 1 and at < len(table):
                table[at] ^= 1 << rng.integers(8)
            elif kind == 2:
                del table[at : at + size]
            elif kind == 3:
                table[at:at] = table[at : at + size] * int(rng.integers(1, 4))
            elif kind == 4:
                table[at:at] = rng.bytes(int(rng.integers(1, 9)))
            elif kind == 5:
                other = others[rng.integers(len(others))]
                cut = int(rng.integers(0, len(other) + 1))
                table[at : at + size] = other[cut : cut + size]
            else:
                table[at : at + 1] = b"\xff\xff\xff\xff\x0f" if rng.random() < 0.5 else b"\xff" * 9 + b"\x01"
        return bytes(table[: rng.integers(0, len(table) + 1)] if rng.random() < 0.1 else table)


def read(data: bytes, behaviors: dict[str, Behavior]) -> PlayerOutput:
    """Everything that happens to a request before a trainer sees it."""
    decoder = OutputDecoder()
    decoder.behaviors.update(behaviors)
    decoder._readers.update({name: AgentReader(behavior) for name, behavior in behaviors.items()})
    request = read_request(data)
    if request.initialization is not None:
        parse_initialization(request.initialization)
    output = decoder.decode(request)
    channels = [StatsChannel(), RosterChannel(), GlobalStateChannel(1, STATE_SIZE), ScenarioChannel()]
    SideChannelHub(channels, raise_handler_errors=True).deliver(output.side_channel)
    for name, batch in output.batches.items():
        assert np.isfinite(batch.observations).all()
        batch_to_steps(batch, decoder.behaviors[name])
    return output


def is_message(data: bytes) -> bool:
    """Whether protobuf can read a request."""
    try:
        UnityMessage.FromString(data)
    except DecodeError:
        return False
    return True


def peak_memory_mib() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def random_recording(rng: np.random.Generator) -> Recording:
    """Requests in unusual forms."""
    behaviors = {name: random_behavior(rng, name) for name in ("AGV?team=0", "Forklift?team=1")}
    writer = RequestWriter(rng, 0.1, misfits=True, groups=True)
    return [writer.request(list(behaviors.values())) for _ in range(10)], behaviors


def record_player(arguments: Sequence[str] = (), num_exchanges: int = 60) -> Recording:
    """Requests of the built-in player, from its introduction to its goodbye, and the behaviors in them."""
    compile_kernels()
    server = ExchangeServer()
    command = [sys.executable, "-P", "-m", "bridge.unity.player", "--scenario", "warehouse_small", *arguments]
    process = subprocess.Popen([*command, "--mlagents-port", str(server.port)], stdout=subprocess.DEVNULL)
    decoder, requests = OutputDecoder(), []
    rng = np.random.default_rng(0)
    try:
        while len(requests) < num_exchanges:
            data = server.receive(TIMEOUT_S)
            if data is None:
                raise TimeoutError("the player did not answer")
            requests.append(data)
            output = decoder.decode(read_request(data))
            server.reply(answer(len(requests), output, decoder, rng))
    finally:
        server.close()
        process.wait(TIMEOUT_S)
    return [*requests, quit_reply()], decoder.behaviors


def answer(number: int, output: PlayerOutput, decoder: OutputDecoder, rng: np.random.Generator) -> bytes:
    """The reply to the request with a number from 1: the handshake, then random actions."""
    if number == 1:
        return encode_initialization(0, 1, API_VERSION, "agv-bridge")
    if number == 2:
        return encode_reset(b"")
    actions = {}
    for name, batch in output.batches.items():
        asked = batch.rows(~batch.done)
        spec: Any = decoder.behaviors[name].action
        continuous = rng.uniform(-1, 1, (len(asked), spec.num_continuous)).astype(np.float32)
        masks = np.split(asked.action_mask, np.cumsum(spec.discrete_branches)[:-1], axis=1)
        chosen = [mask.argmax(axis=1) for mask in masks] if spec.discrete_branches else []
        discrete = np.array(chosen, np.int32).T.reshape(len(asked), len(chosen))
        actions[name] = BehaviorActions(continuous, discrete)
    return encode_step(actions, b"")


if __name__ == "__main__":
    sys.exit(main())
