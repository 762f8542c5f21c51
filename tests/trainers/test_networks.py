from __future__ import annotations

import pytest
import torch
from torch.nn import functional

from bridge.specs import ActionSpec
from trainers.networks import ActorNetwork, CriticNetwork, Dense, NetworkShape

SHAPE = NetworkShape((16, 8), "tanh", True)
ACTION = ActionSpec(num_continuous=2, discrete_branches=(3, 2))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def actor(**options: bool) -> ActorNetwork:
    choices = {"per_agent": False, "agent_id": True, **options}
    network = ActorNetwork(5, 4, ACTION, SHAPE, initial_std=0.5, generator=seeded(), **choices)
    with torch.no_grad():  # biases and norms start as constants: make them matter
        for parameter in network.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=seeded(1)) * 0.1)
    return network


def plain(layer: Dense, group: int, x: torch.Tensor, activate: bool = True) -> torch.Tensor:
    x = x @ layer.weight[group].T + layer.bias[group]
    if layer.norm_gain is not None and layer.norm_bias is not None:
        x = functional.layer_norm(x, x.shape[-1:], layer.norm_gain[group], layer.norm_bias[group])
    return torch.tanh(x) if activate else x


def test_per_agent_actor_equals_one_network_per_slot() -> None:
    network = actor(per_agent=True)
    observations = torch.randn(6, 4, 5, generator=seeded(2))
    mean, logits = network(observations)
    for slot in range(4):
        x = observations[:, slot]
        for layer in network.layers:
            x = plain(layer, slot, x)
        torch.testing.assert_close(mean[:, slot], plain(network.continuous_head, slot, x, activate=False))
        torch.testing.assert_close(logits[:, slot], plain(network.discrete_head, slot, x, activate=False))


def test_shared_actor_equals_a_network_over_the_observation_and_the_one_hot_slot() -> None:
    network = actor()
    observations = torch.randn(6, 4, 5, generator=seeded(2))
    mean, _ = network(observations)
    first, second = network.layers
    assert network.slot_weight is not None
    weight = torch.cat([first.weight[0], network.slot_weight.T], dim=1)
    x = torch.cat([observations, torch.eye(4).expand(6, 4, 4)], dim=-1) @ weight.T + first.bias[0]
    x = torch.tanh(functional.layer_norm(x, (16,), first.norm_gain[0], first.norm_bias[0]))
    x = plain(second, 0, x)
    torch.testing.assert_close(mean, plain(network.continuous_head, 0, x, activate=False))


def test_shared_actor_drives_any_number_of_robots_when_it_is_not_told_the_slot() -> None:
    network = actor(agent_id=False)
    observations = torch.randn(2, 9, 5, generator=seeded(2))
    assert network(observations)[0].shape == (2, 9, 2)


def test_new_actors_choose_nearly_uniformly() -> None:
    network = ActorNetwork(5, 4, ACTION, SHAPE, per_agent=False, agent_id=True, initial_std=0.5, generator=seeded())
    mean, logits = network(torch.randn(100, 4, 5, generator=seeded(2)))
    assert mean.abs().max() < 0.1
    assert logits.abs().max() < 0.1


@pytest.mark.parametrize(("state_size", "observation_size"), [(7, 5), (7, 0), (0, 5)])
@pytest.mark.parametrize("agent_id", [True, False])
def test_critic_equals_a_network_over_the_concatenated_inputs(
    state_size: int, observation_size: int, agent_id: bool
) -> None:
    critic = CriticNetwork(state_size, observation_size, 4, SHAPE, agent_id=agent_id, generator=seeded())
    state = torch.randn(6, 7, generator=seeded(2))
    observations = torch.randn(6, 4, 5, generator=seeded(3))
    inputs, weights = [], []
    if state_size:
        inputs.append(state.unsqueeze(1).expand(6, 4, 7))
        weights.append(critic.state_weight)
    if observation_size:
        inputs.append(observations)
        weights.append(critic.observation_weight)
    if agent_id:
        inputs.append(torch.eye(4).expand(6, 4, 4))
        weights.append(critic.slot_weight.T)
    x = torch.cat(inputs, dim=-1) @ torch.cat(weights, dim=1).T
    x = torch.tanh(functional.layer_norm(x, (16,)))
    for layer in critic.hidden:
        x = plain(layer, 0, x)
    values = critic(state if state_size else None, observations if observation_size else None)
    torch.testing.assert_close(values, plain(critic.head, 0, x, activate=False).squeeze(-1))


def test_networks_are_equal_when_the_seed_is() -> None:
    for first, second in zip(actor().parameters(), actor().parameters(), strict=True):
        assert torch.equal(first, second)
