"""The compiled reader against protobuf and mlagents_envs, on random requests in every legal form."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge.errors import UnityProtocolError
from bridge.unity.behaviors import Behavior
from bridge.unity.compat import import_mlagents_envs
from bridge.unity.decode import OutputDecoder, PlayerOutput
from bridge.unity.messages import UnityMessage
from bridge.unity.steps import batch_to_steps
from bridge.unity.wire import AgentReader, read_request

COLUMNS = ("agent_id", "done", "interrupted", "reward", "group_id", "group_reward", "observations", "action_mask")


def knowing(behaviors: list[Behavior]) -> OutputDecoder:
    """A decoder to which the behaviors have been described."""
    decoder = OutputDecoder()
    for behavior in behaviors:
        decoder.behaviors[behavior.name] = behavior
        decoder._readers[behavior.name] = AgentReader(behavior)
    return decoder


def read(data: bytes, behaviors: list[Behavior]) -> PlayerOutput:
    return knowing(behaviors).decode(read_request(data))


def expected_columns(agents: list[Any], behavior: Behavior) -> dict[str, Any]:
    """The same with protobuf and plain loops; ValueError where something does not fit."""
    for agent in agents:
        if len(agent.observations) != len(behavior.sensors):
            raise ValueError("sensors")
        for observation, sensor in zip(agent.observations, behavior.sensors, strict=True):
            if list(observation.shape) not in ([], list(sensor.shape)):
                raise ValueError("shape")
            if observation.compression_type != 0 or len(observation.float_data.data) != sensor.size:
                raise ValueError("size")
        if (
            not agent.done
            and behavior.action.mask_size
            and len(agent.action_mask) not in (0, behavior.action.mask_size)
        ):
            raise ValueError("mask")
    size = behavior.action.mask_size
    rows = [[value for o in agent.observations for value in o.float_data.data] for agent in agents]
    masks = [
        [True] * size if agent.done or not agent.action_mask or not size else [not bit for bit in agent.action_mask]
        for agent in agents
    ]
    columns = {
        "agent_id": [agent.id for agent in agents],
        "done": [agent.done for agent in agents],
        "interrupted": [agent.max_step_reached for agent in agents],
        "reward": [agent.reward for agent in agents],
        "group_id": [agent.group_id for agent in agents],
        "group_reward": [agent.group_reward for agent in agents],
        "observations": np.array(rows, np.float32).reshape(len(agents), behavior.observation_size),
        "action_mask": np.array(masks, bool).reshape(len(agents), size),
    }
    if not all(np.isfinite(columns[name]).all() for name in ("reward", "group_reward", "observations")):
        raise ValueError("value")
    return columns


def check(data: bytes, behaviors: list[Behavior]) -> bool:
    """Compare on one request; whether all its agents fit."""
    output = UnityMessage.FromString(data).unity_output.rl_output
    try:
        expected = {
            behavior.name: expected_columns(list(output.agentInfos[behavior.name].value), behavior)
            for behavior in behaviors
            if behavior.name in output.agentInfos and len(output.agentInfos[behavior.name].value)
        }
    except ValueError:
        with pytest.raises(UnityProtocolError, match=r"^behavior '.*': agent -?\d+: .*expected .*, got "):
            read(data, behaviors)
        return False
    found = read(data, behaviors)
    assert found.side_channel == output.side_channel
    assert set(found.batches) == set(expected)
    for name, columns in expected.items():
        for column in COLUMNS:
            np.testing.assert_array_equal(getattr(found.batches[name], column), columns[column], column)
    return True


@pytest.mark.parametrize(("strange", "groups"), [(0.0, False), (0.1, False), (0.4, False), (0.1, True)])
def test_reader_equals_protobuf_when_requests_have_any_legal_form(
    random_requests: ModuleType, strange: float, groups: bool
) -> None:
    for seed in range(100):
        rng = np.random.default_rng([seed, int(100 * strange), groups])
        behaviors = [random_requests.random_behavior(rng, f"behavior {i}?team=0") for i in range(rng.integers(1, 4))]
        assert check(random_requests.RequestWriter(rng, strange, groups=groups).request(behaviors), behaviors)


def test_reader_refuses_what_protobuf_shows_to_be_wrong_when_agents_do_not_fit(random_requests: ModuleType) -> None:
    outcomes = set()
    for seed in range(200):
        rng = np.random.default_rng([seed, 7])
        behaviors = [random_requests.random_behavior(rng, f"behavior {i}") for i in range(2)]
        outcomes.add(check(random_requests.RequestWriter(rng, 0.1, misfits=True).request(behaviors), behaviors))
    assert outcomes == {True, False}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    seed=st.integers(0, 2**63),
    strange=st.floats(0, 1),
    misfits=st.booleans(),
    groups=st.booleans(),
    max_agents=st.integers(0, 40),
)
def test_reader_equals_protobuf_when_hypothesis_chooses(
    random_requests: ModuleType, seed: int, strange: float, misfits: bool, groups: bool, max_agents: int
) -> None:
    rng = np.random.default_rng(seed)
    behaviors = [random_requests.random_behavior(rng, name) for name in ("", "Ä", "AGV?team=1")]
    writer = random_requests.RequestWriter(rng, strange, misfits, groups)
    check(writer.request(behaviors, max_agents), behaviors)


def test_steps_equal_those_of_mlagents_envs_when_requests_have_any_legal_form(random_requests: ModuleType) -> None:
    import_mlagents_envs()
    oracle = import_module("mlagents_envs.rpc_utils").steps_from_proto
    theirs = import_module("mlagents_envs.communicator_objects.unity_message_pb2").UnityMessageProto
    for seed in range(100):
        rng = np.random.default_rng([seed, 9])
        behaviors = [random_requests.random_behavior(rng, "AGV?team=0")]
        behaviors = [b for b in behaviors if all(len(sensor.shape) != 3 for sensor in b.sensors)]
        data = random_requests.RequestWriter(rng).request(behaviors)
        output = theirs.FromString(data).unity_output.rl_output
        found = read(data, behaviors).batches
        for behavior in behaviors:
            if behavior.name not in found:
                continue
            agents = output.agentInfos[behavior.name].value
            expected = oracle(agents, behavior.to_mlagents())
            for mine, its in zip(batch_to_steps(found[behavior.name], behavior), expected, strict=True):
                for name in ("reward", "agent_id", "group_id", "group_reward"):
                    np.testing.assert_array_equal(getattr(mine, name), getattr(its, name))
                for values, its_values in zip(mine.obs, its.obs, strict=True):
                    np.testing.assert_array_equal(values, its_values)
