"""Policies as ONNX files that Unity accepts, their offline check, and the decentralised runner."""

from bridge.export.check import check_model, require_unity_model
from bridge.export.exporter import export_policy
from bridge.export.findings import Finding
from bridge.export.manifest import ExportedFile, ExportedFleet, load_exported
from bridge.export.parameters import ActorParameters, DenseLayer
from bridge.export.parity import ParityReport, check_parity
from bridge.export.reference import ActorReference, PolicyFunction, PolicyOutputs
from bridge.export.runner import ActorSession, OnnxFleetPolicy
from bridge.export.writer import write_actor

__all__ = [
    "ActorParameters",
    "ActorReference",
    "ActorSession",
    "DenseLayer",
    "ExportedFile",
    "ExportedFleet",
    "Finding",
    "OnnxFleetPolicy",
    "ParityReport",
    "PolicyFunction",
    "PolicyOutputs",
    "check_model",
    "check_parity",
    "export_policy",
    "load_exported",
    "require_unity_model",
    "write_actor",
]
