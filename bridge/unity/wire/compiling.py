"""Compiles the kernels of this package, or loads them from the cache, before a player waits for an answer."""

from __future__ import annotations

import numpy as np

from bridge.specs import ActionSpec
from bridge.unity.behaviors import Behavior, SensorSpec
from bridge.unity.messages import STATUS_OK, AgentInfo, Header, RLOutput, UnityMessage, UnityOutput
from bridge.unity.wire.actions import actions_to_bytes
from bridge.unity.wire.agents import AgentReader
from bridge.unity.wire.request import read_request

__all__ = ["compile_kernels"]


def compile_kernels() -> None:
    """Compile by use: ten seconds at the first call on a machine, nothing after the first call in a process."""
    behavior = Behavior("warm-up", (SensorSpec("sensor", (1,), (0,), 0),), ActionSpec(1, (2,)))
    agent = AgentInfo(id=1, action_mask=[True, False])
    agent.observations.add(shape=[1]).float_data.data.append(1.0)
    output = RLOutput()
    output.agentInfos[behavior.name].value.append(agent)
    message = UnityMessage(header=Header(status=STATUS_OK), unity_output=UnityOutput(rl_output=output))
    request = read_request(message.SerializeToString())
    request.first_agent(behavior.name)
    AgentReader(behavior).read(request)
    actions_to_bytes(np.zeros((1, 1), np.float32), np.zeros((1, 1), np.int32))
