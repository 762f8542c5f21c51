"""What a user would run without learning, and the bound that nothing can beat."""

from bridge.planners.bound import ThroughputBound, throughput_bound
from bridge.planners.each_variant import EachVariantPolicy
from bridge.planners.pibt import PibtPolicy
from bridge.planners.pibt_heading import PibtHeadingPolicy
from bridge.planners.token_passing import TokenPassingPolicy
from bridge.planners.well_formed import well_formed_faults

__all__ = [
    "EachVariantPolicy",
    "PibtHeadingPolicy",
    "PibtPolicy",
    "ThroughputBound",
    "TokenPassingPolicy",
    "throughput_bound",
    "well_formed_faults",
]
