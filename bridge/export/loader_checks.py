"""The checks of Unity's own model loader, made before Unity sees the file.

They follow ``SentisModelParamLoader`` and ``SentisModelInfo`` of
com.unity.ml-agents 3.0, which 4.x keeps and 2.x has under Barracuda's name.
Where the loader would stop at the first fault, these go on. Unity's wording is
quoted, so that a search for it ends here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from bridge.errors import SpecMismatchError
from bridge.export import contract
from bridge.export.findings import Finding, error, warning
from bridge.export.model_view import ModelView, TensorInfo
from bridge.specs import RoleSpec

__all__ = ["loader_findings"]

_OBSERVATION = re.compile(r"obs_(0|[1-9][0-9]*)")
_ACTION_PARTS = (
    ("continuous", contract.CONTINUOUS_ACTIONS, contract.DETERMINISTIC_CONTINUOUS, contract.CONTINUOUS_SHAPE),
    ("discrete", contract.DISCRETE_ACTIONS, contract.DETERMINISTIC_DISCRETE, contract.DISCRETE_SHAPE),
)


def loader_findings(view: ModelView, role: RoleSpec | None) -> Iterator[Finding]:
    """Everything that Unity's loader would refuse.

    Args:
        view: The model.
        role: Role that the model shall drive; None to compare it with its own metadata only.
    """
    yield from _version(view)
    yield from _memory(view)
    yield from _action_outputs(view)
    yield from _inputs(view)
    if role is not None:
        yield from _role(view, role)
    yield from _observations(view, role)
    yield from _action_sizes(view, role)


def _version(view: ModelView) -> Iterator[Finding]:
    name = contract.VERSION_NUMBER
    if name not in view.outputs:
        yield error(
            name,
            f"output {name!r}: expected one, got none. Unity: 'Required constant ... was not found'.",
        )
        return
    version = view.whole_number(name)
    if version is None:
        yield error(name, f"output {name!r}: expected a constant of one number, got none.")
    elif version < 2:
        yield error(name, f"output {name!r}: expected 3, got {version}. Unity: 'older version of the trainer'.")
    elif version > contract.MODEL_API_VERSION:
        yield error(name, f"output {name!r}: expected 3, got {version}. Unity: 'newer version of the trainer'.")
    elif version == 2 and (view.whole_number(contract.MEMORY_SIZE) or 0) > 0:
        yield error(name, f"output {name!r}: expected 3, got 2 with a memory. Unity takes no recurrent model of 1.x.")
    elif version == 2:
        yield warning(name, f"output {name!r}: expected 3, got 2, the format of 1.x. Only Unity's fallback reads it.")


def _memory(view: ModelView) -> Iterator[Finding]:
    name = contract.MEMORY_SIZE
    if name not in view.outputs:
        yield error(name, f"output {name!r}: expected one, got none. Unity: 'Required constant ... was not found'.")
        return
    size = view.whole_number(name)
    if size is None:
        yield error(name, f"output {name!r}: expected a constant of one number, got none.")
    elif size < 0:
        yield error(name, f"output {name!r}: expected a number >= 0, got {size}. Unity: 'Missing node in the model'.")
    elif size > 0:
        if contract.RECURRENT_IN not in view.inputs:
            yield error("recurrent", f"input {contract.RECURRENT_IN!r}: expected one for the memory, got none.")
        if contract.RECURRENT_OUT not in view.outputs:
            yield error("recurrent", f"output {contract.RECURRENT_OUT!r}: expected one for the memory, got none.")


def _action_outputs(view: ModelView) -> Iterator[Finding]:
    stochastic = [part for part in _ACTION_PARTS if part[1] in view.outputs]
    deterministic = [part for part in _ACTION_PARTS if part[2] in view.outputs]
    if not stochastic and not deterministic:
        yield from _legacy_outputs(view)
    for _, name, fixed, shape in _ACTION_PARTS:
        if fixed in view.outputs and name not in view.outputs:
            yield error(
                "deterministic-only",
                f"output {name!r}: expected one beside {fixed!r}, got none. Unity looks for the name inside other "
                "names, believes that it is there, and fails when it fetches it.",
            )
        if name in view.outputs and fixed not in view.outputs:
            yield warning(
                "deterministic-output",
                f"output {fixed!r}: expected one, got none. Unity with 'Deterministic Inference': "
                "'Uncheck `Deterministic inference` flag'.",
            )
        if name in view.outputs or fixed in view.outputs:
            yield from _action_shape(view, shape)


def _legacy_outputs(view: ModelView) -> Iterator[Finding]:
    if "action" not in view.outputs:
        yield error(
            "action-output",
            f"outputs: expected {contract.CONTINUOUS_ACTIONS!r} or {contract.DISCRETE_ACTIONS!r}, "
            f"got {', '.join(view.outputs) or 'none'}. Unity: 'The model does not contain any Action Output Node'.",
        )
        return
    for name in ("action_output_shape", "is_continuous_control"):
        if name not in view.outputs:
            yield error("legacy-output", f"output {name!r}: expected one beside 'action' (format of 1.x), got none.")


def _action_shape(view: ModelView, name: str) -> Iterator[Finding]:
    if name not in view.outputs:
        yield error("action-shape", f"output {name!r}: expected one, got none. Unity finds no action size.")
        return
    if view.sizes(name) is None:
        value = view.constant(name)
        found = "no constant" if value is None else str(value.ravel().tolist())
        yield error("action-shape", f"output {name!r}: expected constant whole numbers > 0, got {found}.")


def _inputs(view: ModelView) -> Iterator[Finding]:
    if contract.DISCRETE_ACTIONS in view.outputs and contract.ACTION_MASKS not in view.inputs:
        yield error(
            "action-mask",
            f"input {contract.ACTION_MASKS!r}: expected one for discrete actions, got none. Unity: "
            "'The model does not contain an Action Mask but is using Discrete Control'.",
        )
    for name in view.inputs:
        if not _OBSERVATION.fullmatch(name) and name not in contract.LEGAL_INPUTS:
            yield error(
                "unexpected-input",
                f"input {name!r}: expected obs_0, obs_1, ... or one of {', '.join(sorted(contract.LEGAL_INPUTS))}. "
                "Unity: 'Model contains an unexpected input'.",
            )
        elif name in ("sequence_length", contract.PREVIOUS_ACTION):
            yield warning("unusual-input", f"input {name!r}: expected none; packages 3.x and 4.x feed another type.")


def _role(view: ModelView, role: RoleSpec) -> Iterator[Finding]:
    """Compare the metadata with the role; the tensors are compared elsewhere."""
    metadata = view.metadata
    if metadata is None:
        return
    if role.observation.blocks[-1].name == contract.AGENT_ID_BLOCK:
        layout = metadata.observation
    else:
        layout = metadata.own_observation
    try:
        RoleSpec(metadata.role, metadata.agent_ids, layout, metadata.action).require_same_interface(role, "metadata")
    except SpecMismatchError as mismatch:
        yield error("layout", str(mismatch))
    if metadata.num_agent_ids and role.num_slots > metadata.num_agent_ids:
        yield error(
            "agent-id",
            f"role {role.name!r}: expected at most {metadata.num_agent_ids} robots, for the model knows each by its "
            f"id, got {role.num_slots}. Train with a larger fleet, or without the agent id.",
        )


def _observations(view: ModelView, role: RoleSpec | None) -> Iterator[Finding]:
    indices = {int(match[1]): name for name in view.inputs if (match := _OBSERVATION.fullmatch(name))}
    expected = view.expected(role)
    # An unknown scene has at least the sensors that the model names.
    num_sensors = len(expected.sensor_sizes) if expected else max(indices, default=0) + 1
    for index in range(num_sensors):
        if index not in indices:
            yield error(
                "observation-input",
                f"input 'obs_{index}': expected one, got none. Unity: 'The model does not contain an Observation "
                f"Placeholder Input for sensor component {index}'.",
            )
    for index, name in sorted(indices.items()):
        info = view.inputs[name]
        if index >= num_sensors:
            yield error("unexpected-input", f"input {name!r}: expected {num_sensors} sensors, got one more.")
        elif expected and info.dims[1:] != (expected.sensor_sizes[index],):
            wanted = TensorInfo(info.element_type, (None, expected.sensor_sizes[index]))
            yield error(
                "observation-shape",
                f"input {name!r}: expected the shape {wanted.shape_text}, got {info.shape_text}. Unity: 'Received "
                "TensorProxy of shape ... but was expecting ...'.",
            )


def _action_sizes(view: ModelView, role: RoleSpec | None) -> Iterator[Finding]:
    expected = view.expected(role)
    if expected is None:
        return
    action = expected.action
    wanted = {
        contract.CONTINUOUS_SHAPE: (action.num_continuous,) if action.num_continuous else (),
        contract.DISCRETE_SHAPE: action.discrete_branches,
    }
    for name, sizes in wanted.items():
        found = (view.sizes(name) or ()) if name in view.outputs else ()
        if found != sizes:
            yield error(
                "action-size",
                f"output {name!r}: expected {list(sizes) or 'none'}, got {list(found) or 'none'}. "
                "Unity: 'The number of Discrete Actions of branch ... does not match', or alike for continuous ones.",
            )
    previous = view.inputs.get(contract.PREVIOUS_ACTION)
    if previous is not None and previous.dims[-1:] != (action.num_branches,):
        yield error(
            "previous-action",
            f"input {contract.PREVIOUS_ACTION!r}: expected a last dimension of {action.num_branches}, "
            f"got {previous.shape_text}.",
        )
