"""Which features a scenario uses."""

from __future__ import annotations

from bridge.specs import MetricSpec
from bridge.warehouse.charging import CHARGING_METRICS, Charging
from bridge.warehouse.config import WarehouseConfig
from bridge.warehouse.feature import Feature, Parts
from bridge.warehouse.service import SERVICE_METRICS, Service

__all__ = ["feature_metrics", "holds_robots", "make_features"]


def feature_metrics(config: WarehouseConfig) -> tuple[MetricSpec, ...]:
    """The figures of the features that a scenario uses, in the order of :func:`make_features`."""
    metrics: tuple[MetricSpec, ...] = ()
    if config.tasks.service is not None:
        metrics += SERVICE_METRICS
    if config.charges:
        metrics += CHARGING_METRICS
    return metrics


def make_features(parts: Parts) -> tuple[Feature, ...]:
    """The features that a scenario uses, in the order in which they act."""
    features: list[Feature] = []
    if parts.config.tasks.service is not None:
        features.append(Service(parts, parts.config.tasks.service))
    if parts.config.charges:
        features.append(Charging(parts))
    return tuple(features)


def holds_robots(config: WarehouseConfig) -> bool:
    """Some feature lets robots stand whatever they are told."""
    return config.tasks.service is not None
