"""Many environments at once: in this process, or in workers over shared memory."""

from bridge.vector.async_env import AsyncVectorEnv
from bridge.vector.protocol import VectorEnv, VectorState
from bridge.vector.serial import SerialVectorEnv

__all__ = ["AsyncVectorEnv", "SerialVectorEnv", "VectorEnv", "VectorState"]
