from __future__ import annotations

import numpy as np
import pytest
import torch

from trainers.networks import CriticNetwork, NetworkShape
from trainers.normalisation import RunningNormaliser, ValueNormaliser


def test_running_normaliser_has_the_moments_of_all_samples_when_they_come_in_parts() -> None:
    samples = np.random.default_rng(0).normal(100.0, 3.0, (1000, 4)).astype(np.float32)
    normaliser = RunningNormaliser(4, clip=10.0)
    for part in (samples[:1], samples[1:400], samples[400:400], samples[400:]):
        normaliser.update(torch.from_numpy(part))
    np.testing.assert_allclose(normaliser.mean, samples.mean(axis=0, dtype=np.float64), rtol=1e-6)
    np.testing.assert_allclose(normaliser.std, samples.std(axis=0, dtype=np.float64), rtol=1e-5)


def test_running_normaliser_is_the_identity_until_something_was_seen() -> None:
    values = torch.tensor([[0.5, -2.0]])
    assert torch.equal(RunningNormaliser(2, clip=10.0).normalise(values), values)


def test_running_normaliser_clips() -> None:
    normaliser = RunningNormaliser(1, clip=2.0)
    normaliser.update(torch.tensor([[0.0], [1.0]]))
    assert normaliser.normalise(torch.tensor([[100.0]])).item() == 2.0


def test_value_normaliser_weighs_updates_by_its_decay_without_start_up_bias() -> None:
    normaliser = ValueNormaliser(decay=0.5)
    normaliser.update(np.full(8, 4.0, np.float32))
    assert normaliser.mean == 4.0
    normaliser.update(np.array([6.0, 8.0], np.float32))
    # Weights 1/3 (old) and 2/3 (new): mean (4 + 2 * 7) / 3, mean square (16 + 2 * 50) / 3.
    assert normaliser.mean == pytest.approx(6.0)
    assert normaliser.std == pytest.approx(np.sqrt(116 / 3 - 36))


def test_value_normaliser_gives_back_what_it_was_given() -> None:
    normaliser = ValueNormaliser(decay=0.9)
    returns = np.random.default_rng(0).normal(-300.0, 20.0, 100).astype(np.float32)
    normaliser.update(returns)
    scaled = normaliser.normalise(returns)
    assert scaled.mean() == pytest.approx(0.0, abs=1e-3)
    assert scaled.std() == pytest.approx(1.0, abs=1e-3)
    np.testing.assert_allclose(normaliser.denormalise(scaled), returns, rtol=1e-5)


def test_value_normaliser_stays_the_identity_when_it_is_disabled() -> None:
    normaliser = ValueNormaliser(decay=0.9, enabled=False)
    normaliser.update(np.full(8, 4.0, np.float32))
    assert (normaliser.mean, normaliser.std) == (0.0, 1.0)


def test_popart_keeps_denormalised_values_when_statistics_change() -> None:
    critic = CriticNetwork(
        3, 0, 2, NetworkShape((8,), "tanh", True), agent_id=True, generator=torch.Generator().manual_seed(0)
    )
    state = torch.randn(10, 3, generator=torch.Generator().manual_seed(1))
    before = critic(state, None) * 2.0 + 5.0
    critic.rescale(5.0, 2.0, -100.0, 30.0)
    torch.testing.assert_close(critic(state, None) * 30.0 - 100.0, before, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("normaliser", [RunningNormaliser(2, 5.0), ValueNormaliser(0.9)])
def test_normalisers_go_through_a_checkpoint(normaliser: RunningNormaliser | ValueNormaliser) -> None:
    if isinstance(normaliser, RunningNormaliser):
        normaliser.update(torch.tensor([[1.0, 2.0], [5.0, 9.0]]))
        copy: RunningNormaliser | ValueNormaliser = RunningNormaliser(2, 5.0)
    else:
        normaliser.update(np.array([1.0, 5.0], np.float32))
        copy = ValueNormaliser(0.9)
    copy.load_state(normaliser.state())
    np.testing.assert_array_equal(copy.mean, normaliser.mean)
    np.testing.assert_array_equal(copy.std, normaliser.std)
