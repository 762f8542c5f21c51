from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.distributions import Categorical, Normal

from bridge.specs import ActionSpec
from trainers.distributions import ActionDistribution, squash


def generator() -> torch.Generator:
    return torch.Generator().manual_seed(3)


def logits_and_mask() -> tuple[torch.Tensor, torch.Tensor]:
    logits = torch.randn(50, 2, 7, generator=generator())
    mask = torch.rand(50, 2, 7, generator=generator()) < 0.6
    mask[..., 0] = mask[..., 3] = True
    return logits, mask


def test_branches_have_the_log_probs_and_entropy_of_torch_categoricals() -> None:
    logits, mask = logits_and_mask()
    distribution = ActionDistribution(ActionSpec(discrete_branches=(3, 4)), None, None, logits, mask)
    sample = distribution.sample(generator())
    log_probs, entropy = distribution.log_probs_and_entropy(sample.continuous, sample.discrete)
    lowest = torch.finfo(torch.float32).min
    branches = [Categorical(logits=part) for part in logits.masked_fill(~mask, lowest).split([3, 4], dim=-1)]
    expected = sum(branch.log_prob(sample.discrete[..., index]) for index, branch in enumerate(branches))
    torch.testing.assert_close(log_probs, expected)
    torch.testing.assert_close(sample.log_probs, expected)
    torch.testing.assert_close(entropy, sum(branch.entropy() for branch in branches))


def test_gaussian_has_the_log_probs_and_entropy_of_a_torch_normal() -> None:
    mean = torch.randn(50, 2, 3, generator=generator())
    log_std = torch.tensor([-0.5, 0.0, 0.3])
    distribution = ActionDistribution(ActionSpec(num_continuous=3), mean, log_std, None, None)
    sample = distribution.sample(generator())
    log_probs, entropy = distribution.log_probs_and_entropy(sample.continuous, sample.discrete)
    normal = Normal(mean, log_std.exp())
    torch.testing.assert_close(log_probs, normal.log_prob(sample.continuous).sum(-1))
    torch.testing.assert_close(entropy, normal.entropy().sum(-1))


def test_hybrid_adds_up_its_parts() -> None:
    mean, log_std = torch.zeros(5, 2, 1), torch.zeros(1)
    logits = torch.randn(5, 2, 3, generator=generator())
    both = ActionDistribution(ActionSpec(1, (3,)), mean, log_std, logits, None)
    sample = both.sample(generator())
    gaussian = ActionDistribution(ActionSpec(1), mean, log_std, None, None)
    branch = ActionDistribution(ActionSpec(0, (3,)), None, None, logits, None)
    none = torch.empty(5, 2, 0)
    first = gaussian.log_probs_and_entropy(sample.continuous, none)
    second = branch.log_probs_and_entropy(none, sample.discrete)
    result = both.log_probs_and_entropy(sample.continuous, sample.discrete)
    torch.testing.assert_close(result[0], first[0] + second[0])
    torch.testing.assert_close(result[1], first[1] + second[1])


def test_samples_have_the_frequencies_of_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -50.0]).expand(200_000, 1, 4)
    mask = torch.tensor([True, True, False, True]).expand(200_000, 1, 4)
    sample = ActionDistribution(ActionSpec(discrete_branches=(4,)), None, None, logits, mask).sample(generator())
    frequencies = np.bincount(sample.discrete.flatten().numpy(), minlength=4) / 200_000
    np.testing.assert_allclose(frequencies, [0.2689, 0.7311, 0.0, 0.0], atol=0.005)


@pytest.mark.parametrize("low", [-1e30, -3.0e38])
def test_a_forbidden_choice_is_never_taken_when_the_allowed_logits_are_very_low(low: float) -> None:
    logits = torch.full((10_000, 1, 3), low)
    logits[..., 2] = 1e30
    mask = torch.tensor([True, True, False]).expand(10_000, 1, 3)
    distribution = ActionDistribution(ActionSpec(discrete_branches=(3,)), None, None, logits, mask)
    sample = distribution.sample(generator())
    assert sample.discrete.max() < 2
    assert torch.isfinite(sample.log_probs).all()
    assert int(distribution.mode()[1].max()) == 0


def test_a_forbidden_choice_has_no_gradient_and_leaves_the_others_finite() -> None:
    logits, mask = logits_and_mask()
    logits.requires_grad_(True)
    distribution = ActionDistribution(ActionSpec(discrete_branches=(3, 4)), None, None, logits, mask)
    with torch.no_grad():
        sample = distribution.sample(generator())
    log_probs, entropy = distribution.log_probs_and_entropy(sample.continuous, sample.discrete)
    (log_probs.sum() + entropy.sum()).backward()
    assert logits.grad is not None
    assert torch.isfinite(logits.grad).all()
    assert not logits.grad[~mask].any()
    assert logits.grad[mask].abs().sum() > 0


def test_the_mode_takes_the_lowest_index_when_choices_are_equal() -> None:
    logits = torch.tensor([1.0, 2.0, 2.0, 2.0]).expand(3, 1, 4)
    mask = torch.tensor([True, False, True, True]).expand(3, 1, 4)
    distribution = ActionDistribution(ActionSpec(discrete_branches=(4,)), None, None, logits, mask)
    assert distribution.mode()[1].flatten().tolist() == [2, 2, 2]


def test_squash_cuts_off_at_the_unit_interval() -> None:
    assert squash(np.array([-3.0, -0.5, 2.0], np.float32)).tolist() == [-1.0, -0.5, 1.0]
