"""Holds an exported file against its policy on random observations and masks.

The deterministic outputs are those of the file itself. What lies before the
sampling (the Gaussian's mean and the logits) is tapped in a copy in memory,
whose random operators are seeded, so that a report is the same every time.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper

from bridge.errors import ExportError
from bridge.export import contract
from bridge.export.distribution import choice_faults, gaussian_faults
from bridge.export.model_file import parse_model, read_bounded
from bridge.export.parameters import ActorParameters
from bridge.export.probes import feeds_of, random_masks, random_observations
from bridge.export.reference import ActorReference, PolicyFunction, PolicyOutputs
from bridge.export.sessions import open_session, run_session, with_seeds

__all__ = ["ParityReport", "check_parity", "require_parity"]

Bool = NDArray[np.bool_]
Float32 = NDArray[np.float32]

_CHUNK = 1000
_NUM_SPOTS = 4
_NUM_DRAWS = 4000


@dataclass(frozen=True)
class ParityReport:
    """How far a file is from its policy.

    Attributes:
        num_samples: Number of random observations.
        tolerance: Largest permitted scaled difference.
        max_difference: Largest absolute difference of means, of logits of allowed choices, and of
            deterministic continuous actions.
        max_scaled_difference: The same over ``max(1, |value|)``, for a float32 logit of 50 is not
            known to 1e-5; what ``tolerance`` bounds.
        num_argmax_differences: Deterministic choices that differ; none may.
        num_ties: Choices whose two best logits are equal; they are compared like all others.
        num_rounding_ties: Choices that differ while their logits are nearer to each other than twice
            the tolerance, where the rounding of float32 decides; not counted as differences.
        faults: What is wrong with the sampled actions; empty if nothing is.
    """

    num_samples: int
    tolerance: float
    max_difference: float
    max_scaled_difference: float
    num_argmax_differences: int
    num_ties: int
    num_rounding_ties: int
    faults: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether the file acts as the policy does; a NaN anywhere is a failure."""
        near = self.max_scaled_difference <= self.tolerance
        return near and self.num_argmax_differences == 0 and not self.faults


def check_parity(
    path: Path | str,
    parameters: ActorParameters,
    *,
    num_samples: int = 10_000,
    seed: int = 0,
    tolerance: float = 1e-5,
    policy_outputs: PolicyFunction | None = None,
) -> ParityReport:
    """Compare a file that agv-bridge wrote with its policy.

    Args:
        path: The file.
        parameters: The actor that was written.
        num_samples: Number of random observations and masks.
        seed: Seed of the observations, masks and samples.
        tolerance: Largest permitted difference before sampling: absolute up to a value of 1, relative above.
        policy_outputs: What the file is compared with; the numpy reference of ``parameters`` by default.

    Raises:
        ExportError: The file cannot be read or run, or was not written by agv-bridge.
    """
    where = str(path)
    data = read_bounded(Path(path))
    tapped = open_session(_tapped(with_seeds(parse_model(data, where), seed), parameters, where), where)
    rng = np.random.default_rng(seed)
    observations = random_observations(parameters, num_samples, rng)
    masks = random_masks(parameters.action, num_samples, rng)
    expected = (policy_outputs or ActorReference(parameters))(observations, masks)
    found = _outputs_of_file(open_session(data, where), tapped, parameters, observations, masks, where)
    absolute, scaled = _differences(found, expected, masks)
    choices = _compare_choices(found, expected, masks, parameters.action.discrete_branches, 2 * tolerance)
    faults = [
        f"observation {row}: {fault}"
        for row in range(min(_NUM_SPOTS, num_samples))
        for fault in _sampling_faults(tapped, parameters, observations[row], masks[row], expected, row, where)
    ]
    return ParityReport(num_samples, tolerance, absolute, scaled, *choices, tuple(faults))


def require_parity(path: Path | str, report: ParityReport) -> None:
    """Raise unless the report of a file is good.

    Raises:
        ExportError: Says what differs, and by how much.
    """
    if report.passed:
        return
    faults = "".join(f"\n  {fault}" for fault in report.faults)
    raise ExportError(
        f"{path}: expected the actions of the policy on {report.num_samples} random observations, got a difference of "
        f"{report.max_scaled_difference:.3g} (permitted {report.tolerance:.3g}), {report.num_argmax_differences} other "
        f"choices and {len(report.faults)} faults of sampling.{faults}"
    )


class _Choices(NamedTuple):
    differences: int
    ties: int
    rounding_ties: int


def _tapped(model: onnx.ModelProto, parameters: ActorParameters, where: str) -> bytes:
    """The model with the tensors before and after sampling as further outputs."""
    names: list[str] = []
    if parameters.action.num_continuous:
        names += [contract.TRACE_MEAN, contract.TRACE_SAMPLE]
    if parameters.action.num_branches:
        names += [contract.TRACE_LOGITS]
    made = {output for node in model.graph.node for output in node.output}
    missing = [name for name in names if name not in made]
    if missing:
        raise ExportError(f"{where}: expected a model that agv-bridge wrote, got one without {', '.join(missing)}.")
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names)
    return bytes(model.SerializeToString())


def _outputs_of_file(
    session: Any, tapped: Any, parameters: ActorParameters, observations: Float32, masks: Bool, where: str
) -> PolicyOutputs:
    num_rows, action = len(observations), parameters.action
    mean = np.zeros((num_rows, action.num_continuous), np.float32)
    continuous = np.zeros_like(mean)
    logits = np.zeros((num_rows, action.mask_size), np.float32)
    discrete = np.zeros((num_rows, action.num_branches), np.int64)
    for start in range(0, num_rows, _CHUNK):
        rows = slice(start, start + _CHUNK)
        feeds = feeds_of(parameters.observation, action, observations[rows], masks[rows])
        if action.num_continuous:
            mean[rows] = run_session(tapped, [contract.TRACE_MEAN], feeds, where)[0]
            continuous[rows] = run_session(session, [contract.DETERMINISTIC_CONTINUOUS], feeds, where)[0]
        if action.num_branches:
            logits[rows] = run_session(tapped, [contract.TRACE_LOGITS], feeds, where)[0]
            discrete[rows] = run_session(session, [contract.DETERMINISTIC_DISCRETE], feeds, where)[0]
    return PolicyOutputs(mean, continuous, logits, discrete)


def _differences(found: PolicyOutputs, expected: PolicyOutputs, masks: Bool) -> tuple[float, float]:
    absolute, scaled = 0.0, 0.0
    for ours, theirs, counted in (
        (found.continuous_mean, expected.continuous_mean, None),
        (found.continuous, expected.continuous, None),
        (found.logits, expected.logits, masks),
    ):
        if ours.shape != theirs.shape:
            raise ExportError(f"parity: expected outputs of shape {ours.shape} from the policy, got {theirs.shape}.")
        if counted is not None:
            ours, theirs = ours[counted], theirs[counted]
        difference = np.abs(ours.astype(np.float64) - theirs)
        if difference.size:
            relative = difference / np.maximum(1.0, np.abs(theirs))
            # max() of Python would lose a NaN; numpy's keeps it.
            absolute = float(np.maximum(absolute, difference.max()))
            scaled = float(np.maximum(scaled, relative.max()))
    return absolute, scaled


def _compare_choices(
    found: PolicyOutputs, expected: PolicyOutputs, masks: Bool, branches: tuple[int, ...], rounding: float
) -> _Choices:
    if found.discrete.shape != expected.discrete.shape:
        raise ExportError(
            f"parity: expected choices of shape {found.discrete.shape} from the policy, got {expected.discrete.shape}."
        )
    differences = ties = rounding_ties = start = 0
    for branch, size in enumerate(branches):
        part = slice(start, start + size)
        scores = np.where(masks[:, part], expected.logits[:, part].astype(np.float64), -np.inf)
        ours, theirs = found.discrete[:, branch, None], expected.discrete[:, branch, None]
        differ = (ours != theirs)[:, 0]
        at_ours = np.take_along_axis(scores, np.clip(ours, 0, size - 1), axis=1)[:, 0]
        best = scores.max(axis=1)
        scale = np.maximum(1.0, np.abs(best))
        with np.errstate(invalid="ignore"):
            # A row without allowed choices gives NaN, which is never near.
            near = differ & (at_ours != best) & (best - at_ours <= rounding * scale)
        ties += int((((scores == best[:, None]).sum(axis=1) > 1) & np.isfinite(best)).sum())
        rounding_ties += int(near.sum())
        differences += int((differ & ~near).sum())
        start += size
    return _Choices(differences, ties, rounding_ties)


def _sampling_faults(
    tapped: Any,
    parameters: ActorParameters,
    observation: Float32,
    mask: Bool,
    expected: PolicyOutputs,
    row: int,
    where: str,
) -> list[str]:
    """Faults of many samples for one observation."""
    action = parameters.action
    repeated = np.tile(observation, (_NUM_DRAWS, 1)), np.tile(mask, (_NUM_DRAWS, 1))
    feeds = feeds_of(parameters.observation, action, *repeated)
    faults: list[str] = []
    if parameters.log_std is not None:
        names = [contract.TRACE_SAMPLE, contract.CONTINUOUS_ACTIONS]
        samples, actions = (np.asarray(a, np.float32) for a in run_session(tapped, names, feeds, where))
        faults.extend(gaussian_faults(samples, expected.continuous_mean[row], parameters.log_std))
        # Whatever the policy is, its squashed samples are what the parameters say.
        if not np.allclose(actions, ActorReference(parameters).squash(samples), rtol=0, atol=1e-6):
            faults.append(f"{contract.CONTINUOUS_ACTIONS}: expected the samples squashed by {parameters.squash}.")
    if action.num_branches:
        (drawn,) = run_session(tapped, [contract.DISCRETE_ACTIONS], feeds, where)
        faults.extend(choice_faults(np.asarray(drawn, np.int64), expected.logits[row], mask, action.discrete_branches))
    return faults
