"""Actors with random weights, of every shape that the exporter knows."""

from collections.abc import Callable

import numpy as np
import pytest

from bridge.export import ActorParameters, DenseLayer
from bridge.specs import ActionSpec, ObservationBlock, ObservationLayout, RoleSpec

MakeActor = Callable[..., ActorParameters]

LAYOUT = ObservationLayout(
    (
        ObservationBlock("self", 4, unit="m", low=-2.0, high=2.0),
        ObservationBlock("target", 2),
        ObservationBlock("lidar", 6, low=0.0, high=1.0, sensor=1),
    )
)


def random_actor(
    *,
    seed: int = 0,
    role: str = "carrier",
    num_continuous: int = 2,
    branches: tuple[int, ...] = (3, 5),
    hidden: tuple[int, ...] = (16, 12),
    activation: str = "tanh",
    squash: str = "clip",
    layer_norm: bool = True,
    normaliser: bool = True,
    num_ids: int = 3,
    agent_ids: tuple[str, ...] | None = None,
) -> ActorParameters:
    """An actor with random weights; ``num_ids=0`` leaves the agent id out."""
    rng = np.random.default_rng(seed)

    def values(*shape: int) -> np.ndarray:
        return (rng.standard_normal(shape) / np.sqrt(shape[-1])).astype(np.float32)

    layout = LAYOUT.with_agent_id(num_ids) if num_ids else LAYOUT
    width = layout.size
    layers = []
    for size in hidden:
        gain, bias = (1 + values(size), values(size)) if layer_norm else (None, None)
        layers.append(DenseLayer(values(size, width), values(size), gain, bias))
        width = size
    mask_size = sum(branches)
    return ActorParameters(
        role=role,
        agent_ids=agent_ids or tuple(f"{role}_{index}" for index in range(num_ids or 3)),
        observation=layout,
        action=ActionSpec(num_continuous, branches, ()),
        normaliser_mean=values(layout.size) if normaliser else None,
        normaliser_std=np.abs(values(layout.size)) + np.float32(0.5) if normaliser else None,
        normaliser_clip=5.0,
        hidden=tuple(layers),
        activation=activation,  # type: ignore[arg-type]
        norm_epsilon=1e-5,
        continuous_head=DenseLayer(values(num_continuous, width), values(num_continuous)) if num_continuous else None,
        log_std=values(num_continuous) if num_continuous else None,
        squash=squash,  # type: ignore[arg-type]
        discrete_head=DenseLayer(values(mask_size, width), values(mask_size)) if branches else None,
    )


@pytest.fixture
def make_actor() -> MakeActor:
    return random_actor


@pytest.fixture
def world_role() -> Callable[..., RoleSpec]:
    """The role of a world for the actors above: without the agent id, which no world gives."""

    def make(num_slots: int = 3, name: str = "carrier", actor: ActorParameters | None = None) -> RoleSpec:
        action = actor.action if actor else ActionSpec(2, (3, 5))
        return RoleSpec(name, tuple(f"{name}_{index}" for index in range(num_slots)), LAYOUT, action)

    return make
