"""What a user would run without learning, and the bound that nothing can beat."""

from bridge.planners.bound import ThroughputBound, throughput_bound
from bridge.planners.pibt import PibtPolicy

__all__ = ["PibtPolicy", "ThroughputBound", "throughput_bound"]
