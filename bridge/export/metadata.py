"""What an exported file says about itself: who made it, for which role and which observation."""

from __future__ import annotations

import json
from dataclasses import dataclass

import onnx

from bridge.errors import ExportError, SpecMismatchError
from bridge.export import contract
from bridge.specs import ActionSpec, ObservationLayout

__all__ = ["ModelMetadata", "read_metadata"]


@dataclass(frozen=True)
class ModelMetadata:
    """The metadata of a file written by agv-bridge.

    Attributes:
        version: Version of agv-bridge that wrote it.
        scenario: Name of the scenario that it was trained on.
        role: Role that it drives.
        agent_ids: Slots that it was trained for.
        observation: Layout of its input, with the ``agent_id`` block where it has one.
        action: Action that it chooses.
    """

    version: str
    scenario: str
    role: str
    agent_ids: tuple[str, ...]
    observation: ObservationLayout
    action: ActionSpec

    @property
    def num_agent_ids(self) -> int:
        """Size of the one-hot robot id that the model wants; 0 if it wants none."""
        last = self.observation.blocks[-1]
        return last.size if last.name == contract.AGENT_ID_BLOCK else 0

    @property
    def own_observation(self) -> ObservationLayout:
        """The layout without the ``agent_id`` block: what the world gives."""
        return ObservationLayout(self.observation.blocks[:-1]) if self.num_agent_ids else self.observation


def read_metadata(model: onnx.ModelProto, where: str) -> ModelMetadata | None:
    """The metadata of a model, or None for a file that agv-bridge did not write.

    Raises:
        ExportError: The metadata is there but damaged or incomplete.
    """
    values = {entry.key: entry.value for entry in model.metadata_props}
    if not any(key.startswith("agv_bridge.") for key in values):
        return None
    try:
        metadata = ModelMetadata(
            version=values[contract.META_VERSION],
            scenario=values[contract.META_SCENARIO],
            role=values[contract.META_ROLE],
            agent_ids=tuple(json.loads(values[contract.META_AGENT_IDS])),
            observation=ObservationLayout.from_json(json.loads(values[contract.META_LAYOUT])),
            action=ActionSpec.from_json(json.loads(values[contract.META_ACTION])),
        )
        digest = values[contract.META_DIGEST]
    except (KeyError, TypeError, ValueError, AttributeError, SpecMismatchError) as error:
        raise ExportError(
            f"{where}: expected the metadata of agv-bridge, got {type(error).__name__}: {error}. Export again."
        ) from error
    if not metadata.observation.blocks or digest != metadata.observation.digest:
        raise ExportError(
            f"{where}: expected the layout's digest {metadata.observation.digest}, got {digest}. Export again."
        )
    return metadata
