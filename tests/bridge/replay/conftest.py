"""Recorded episodes, and a real headless Chromium that the tests drive over the DevTools protocol."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from bridge.planners.pibt import PibtPolicy
from bridge.policy import FleetPolicy, RandomPolicy
from bridge.registry import open_world
from bridge.replay import Recording, record_replay
from bridge.roster import RosterArrays
from bridge.scenario import load_scenario
from bridge.specs import WorldSpec
from bridge.warehouse.simulator import WarehouseSimulator

_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
    "--disable-crash-reporter", "--disable-breakpad", "--force-prefers-reduced-motion", "--remote-debugging-pipe",
)  # fmt: skip
_ANSWER_S = 30.0


class Page:
    """One tab of a browser, driven over the pipe that ``--remote-debugging-pipe`` opens on descriptors 3 and 4.

    Args:
        browser: Program to start.
        width: Of the window in pixels.
        height: Of the window in pixels.
    """

    def __init__(self, browser: str, width: int = 1366, height: int = 700) -> None:
        self._profile = tempfile.mkdtemp(prefix="replay-test-")
        read_commands, self._to_browser = os.pipe()
        self._from_browser, write_answers = os.pipe()
        # The shell moves the pipes to the descriptors where the browser looks for them.
        start = f'exec "$0" "$@" 3<&{read_commands} 4>&{write_answers}'
        self._log = Path(self._profile, "stderr.txt")
        # Its processes come and go with every page: the rule against leaks does not know them, close() looks itself.
        unmarked = {name: value for name, value in os.environ.items() if name != "AGV_BRIDGE_TEST_PROCESS"}
        with self._log.open("w", encoding="utf-8") as log:
            self._process = subprocess.Popen(
                ["bash", "-c", start, browser, *_FLAGS, f"--user-data-dir={self._profile}", "about:blank"],
                pass_fds=(read_commands, write_answers),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=unmarked,
            )
        os.close(read_commands)
        os.close(write_answers)
        self._received = b""
        self._number = 0
        self._session: str | None = None
        self.problems: list[str] = []
        """Console errors and warnings, exceptions, refused loads, and requests for anything but the page itself."""
        targets = self._call("Target.getTargets")["targetInfos"]
        target = next(info["targetId"] for info in targets if info["type"] == "page")
        self._session = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Runtime", "Log", "Page", "Network"):
            self._call(f"{domain}.enable")
        self.resize(width, height)

    def resize(self, width: int, height: int) -> None:
        """Size of what is seen."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def open(self, file: Path, fragment: str = "paused") -> None:
        """Load a page from disk and wait until it has drawn itself."""
        self._call("Page.navigate", url="about:blank")
        self._call("Page.navigate", url=f"{file.resolve().as_uri()}#{fragment}")
        self.wait("['ready', 'failed'].includes(document.documentElement?.dataset.state)")
        self.settle()

    def wait(self, condition: str) -> None:
        """Until an expression is true in the page."""
        deadline = time.monotonic() + _ANSWER_S
        while not self.run(f"Boolean({condition})"):
            if time.monotonic() > deadline:
                raise TimeoutError(f"the page never came to: {condition}; problems: {self.problems}")
            self.settle()

    def settle(self) -> None:
        """Wait until the page has drawn two more frames."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def run(self, expression: str) -> Any:
        """The value of an expression in the page; promises are waited for."""
        result = self._call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def text(self, element: str) -> str:
        """What an element says, by its id."""
        return str(self.run(f"document.getElementById({element!r}).textContent"))

    def key(self, key: str, code: str = "", modifiers: int = 0) -> None:
        """Press and release a key, as a user does."""
        text = {"text": key} if len(key) == 1 else {}
        for kind in ("keyDown", "keyUp"):
            event = {"type": kind, "key": key, "code": code, "modifiers": modifiers}
            self._call("Input.dispatchKeyEvent", **event, **(text if kind == "keyDown" else {}))
        self.settle()

    def click(self, x: float, y: float) -> None:
        """Press and release the left mouse button."""
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            button = "none" if kind == "mouseMoved" else "left"
            self._call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button=button, clickCount=1)
        self.settle()

    def screenshot(self) -> bytes:
        """What is seen, as PNG."""
        return base64.b64decode(self._call("Page.captureScreenshot", format="png")["data"])

    def close(self) -> None:
        """End the browser, and see that all its processes end."""
        self._session = None
        family = psutil.Process(self._process.pid).children(recursive=True)
        try:
            self._call("Browser.close")
            self._process.wait(_ANSWER_S)
        finally:
            self._process.kill()
            self._process.wait()
            _, left = psutil.wait_procs(family, timeout=_ANSWER_S)
            for process in left:
                process.kill()
            os.close(self._to_browser)
            os.close(self._from_browser)
            shutil.rmtree(self._profile, ignore_errors=True)
        assert not left, f"the browser left {left} behind"

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to_browser, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + _ANSWER_S
        while True:
            answer = self._receive(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)

    def _receive(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._received:
            readable, _, _ = select.select([self._from_browser], [], [], max(deadline - time.monotonic(), 0.0))
            chunk = os.read(self._from_browser, 1 << 20) if readable else b""
            if not chunk:
                log = self._log.read_text(encoding="utf-8", errors="replace")
                raise TimeoutError(f"the browser did not answer within {_ANSWER_S} s:\n{log[-2000:]}")
            self._received += chunk
        message, _, self._received = self._received.partition(b"\0")
        return dict(json.loads(message))

    def _note(self, event: dict[str, Any]) -> None:
        method, details = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.problems.append(json.dumps(details["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and details["type"] in ("error", "warning", "assert"):
            self.problems.append(json.dumps(details["args"]))
        elif method == "Log.entryAdded" and details["entry"]["level"] in ("error", "warning"):
            self.problems.append(details["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            url = details["request"]["url"]
            if not url.startswith(("file:", "about:")):
                self.problems.append(f"request for {url[:100]}")


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    browser = next((found for name in _BROWSERS if (found := shutil.which(name))), None)
    if browser is None:
        pytest.skip(f"no browser: none of {', '.join(_BROWSERS)} is installed (Debian: apt-get install chromium)")
    opened = Page(browser)
    yield opened
    opened.close()


@pytest.fixture(autouse=True)
def no_problem_in_the_page(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every test that uses the browser fails on any error, warning or request in it."""
    uses_page = "page" in request.fixturenames
    if uses_page:
        request.getfixturevalue("page").problems.clear()
    yield
    if uses_page:
        assert request.getfixturevalue("page").problems == []


class Driver:
    """Steers robots with differential drive along the ``path`` block; slows down near what the lidar sees."""

    def __init__(self, spec: WorldSpec) -> None:
        self._spec = spec

    def act(self, arrays: RosterArrays) -> None:
        for role in self._spec.roles:
            values = arrays.roles[role.name]
            path = values.observations[..., role.observation.slice_of("path")]
            bearing = np.arctan2(path[..., 1], path[..., 0])
            values.continuous_actions[..., 0] = np.clip(1.0 - np.abs(bearing), 0.0, 1.0)
            values.continuous_actions[..., 1] = np.clip(2.0 * bearing, -1.0, 1.0)


def simulator_of(name: str) -> WarehouseSimulator:
    simulator = open_world(load_scenario(name)).roster(1)
    assert isinstance(simulator, WarehouseSimulator)
    return simulator


def make_policy(simulator: WarehouseSimulator, name: str) -> FleetPolicy:
    makers: dict[str, Callable[[], FleetPolicy]] = {
        "pibt": lambda: PibtPolicy(simulator),
        "random": lambda: RandomPolicy(simulator.spec, 3),
        "driver": lambda: Driver(simulator.spec),
    }
    return makers[name]()


class Episodes:
    """Records episodes, each only once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[str, str, int], tuple[Path, Recording]] = {}

    def __call__(self, scenario: str, policy: str, max_steps: int = 2_000) -> tuple[Path, Recording]:
        key = (scenario, policy, max_steps)
        if key not in self._made:
            path = self._folder / f"{scenario}_{policy}_{max_steps}.html"
            simulator = simulator_of(scenario)
            driver = make_policy(simulator, policy)
            recording = record_replay(
                simulator, driver, path, seed=5, max_steps=max_steps, scenario_name=scenario, policy_name=policy
            )
            simulator.close()
            self._made[key] = path, recording
        return self._made[key]


@pytest.fixture(scope="session")
def policies() -> Callable[[WarehouseSimulator, str], FleetPolicy]:
    """``policies(simulator, name)``: one of ``pibt``, ``random`` and ``driver``."""
    return make_policy


@pytest.fixture(scope="session")
def record(tmp_path_factory: pytest.TempPathFactory) -> Episodes:
    """``record(scenario, policy, max_steps)``: the page of an episode with seed 5, and the recording."""
    return Episodes(tmp_path_factory.mktemp("replays"))
