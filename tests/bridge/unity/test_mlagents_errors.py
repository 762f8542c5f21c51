"""Code that catches what ``mlagents_envs`` raises goes on working."""

from __future__ import annotations

import socket
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
import pytest

from bridge import errors
from bridge.unity.environment import UnityEnvironment
from bridge.unity.mlagents_errors import mlagents_errors
from bridge.unity.mlagents_types import ActionTuple, EngineConfigurationChannel

theirs: Any = import_module("mlagents_envs.exception")
BEHAVIORS = {"AGV": {"branches": [2]}}
FIRST = {"agents": {"AGV": [{"id": 1, "obs": [[1.0]]}]}, "behaviors": BEHAVIORS}


def opened(live_player: Callable[..., int], *exchanges: dict[str, Any], **arguments: Any) -> UnityEnvironment:
    port = live_player(list(exchanges), **arguments.pop("script", {}))
    return UnityEnvironment(base_port=port, timeout_wait=arguments.pop("timeout_wait", 20), **arguments)


def test_actions_and_calls_raise_both_kinds(live_player: Callable[..., int]) -> None:
    env = opened(live_player, FIRST)
    with pytest.raises(theirs.UnityEnvironmentException, match=r"set_actions: expected a reset first") as caught:
        env.set_actions("AGV", ActionTuple())
    assert isinstance(caught.value, errors.CallOrderError)
    env.reset()
    with pytest.raises(theirs.UnityActionException, match=r"branch 0: expected one of the allowed choices") as caught:
        env.set_actions("AGV", ActionTuple(discrete=np.array([[2]])))
    assert isinstance(caught.value, errors.ActionError)
    # The script has ended: the player says goodbye.
    with pytest.raises(theirs.UnityCommunicatorStoppedException, match=r"the player quit") as caught:
        env.step()
    assert isinstance(caught.value, errors.UnityPlayerDiedError)
    env.close()
    with pytest.raises(theirs.UnityEnvironmentException, match=r"expected an open session, got a closed one"):
        env.reset()


def test_connecting_raises_both_kinds(live_player: Callable[..., int], tmp_path: Any) -> None:
    with pytest.raises(theirs.UnityEnvironmentException, match=r"expected a Unity build") as caught:
        UnityEnvironment(str(tmp_path / "nothing"))
    assert isinstance(caught.value, errors.UnityPlayerDiedError)
    with pytest.raises(theirs.UnityEnvironmentException, match=r"expected protocol version") as caught:
        opened(live_player, script={"communication_version": "3.0.0"})
    assert isinstance(caught.value, errors.UnityVersionError)
    with pytest.raises(theirs.UnityTimeOutException, match=r"nobody pressed Play in the Editor") as caught:
        UnityEnvironment(base_port=free_port(), timeout_wait=0.2)
    assert isinstance(caught.value, TimeoutError)
    channels = [EngineConfigurationChannel(), EngineConfigurationChannel()]
    with pytest.raises(theirs.UnitySideChannelException, match=r"expected distinct ids") as caught:
        UnityEnvironment(base_port=free_port(), side_channels=channels)
    assert isinstance(caught.value, errors.SpecMismatchError)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def test_port_in_use_raises_both_kinds() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(
            theirs.UnityWorkerInUseException, match=rf"expected to listen on 127.0.0.1:{port}"
        ) as caught:
            UnityEnvironment(base_port=port)
    assert isinstance(caught.value, errors.UnityPortError)


def test_malformed_messages_raise_both_kinds(live_player: Callable[..., int]) -> None:
    env = opened(live_player, {"agents": {"Ghost": [{"id": 1, "obs": [[1.0]]}]}})
    with pytest.raises(theirs.UnityCommunicationException, match=r"got 'Ghost'") as caught:
        env.reset()
    assert isinstance(caught.value, errors.UnityProtocolError)


def test_other_errors_pass_unchanged_with_their_notes() -> None:
    with pytest.raises(errors.LayoutError, match="a map"), mlagents_errors():
        raise errors.LayoutError("a map")
    error = errors.UnityProtocolError("bytes")
    error.add_note("from a channel")
    with pytest.raises(theirs.UnityException) as caught, mlagents_errors():
        raise error
    assert caught.value.__notes__ == ["from a channel"]
