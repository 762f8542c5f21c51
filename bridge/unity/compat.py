"""Makes Unity's own ``mlagents_envs`` importable on a current stack.

As published (0.28 to 1.1) the package cannot be imported with protobuf >= 4.21,
because its generated message code is older, nor on Python >= 3.12, because it
asks for ``distutils``. :func:`import_mlagents_envs` helps it over both:

- The modules ``mlagents_envs.communicator_objects.*_pb2`` are served from this
  project's own schema and stay in ``sys.modules``. Nothing else in the process
  sees these messages: they are in a descriptor pool of their own.
- ``distutils.version`` is stood in for while ``mlagents_envs.environment`` is
  being imported, and taken away afterwards.

These are all its side effects. Calling it again does nothing.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from google.protobuf.internal.enum_type_wrapper import EnumTypeWrapper

from bridge.unity.proto_schema import load_messages

__all__ = ["import_mlagents_envs"]

_PACKAGE = "mlagents_envs.communicator_objects"

# Unity's build makes one module per .proto file; this is which names are in which.
_MODULES: dict[str, tuple[str, ...]] = {
    "agent_action_pb2": ("AgentActionProto",),
    "agent_info_pb2": ("AgentInfoProto",),
    "agent_info_action_pair_pb2": ("AgentInfoActionPairProto",),
    "brain_parameters_pb2": ("ActionSpecProto", "BrainParametersProto"),
    "capabilities_pb2": ("UnityRLCapabilitiesProto",),
    "command_pb2": ("CommandProto",),
    "custom_reset_parameters_pb2": ("CustomResetParametersProto",),
    "demonstration_meta_pb2": ("DemonstrationMetaProto",),
    "engine_configuration_pb2": ("EngineConfigurationProto",),
    "header_pb2": ("HeaderProto",),
    "observation_pb2": ("CompressionTypeProto", "ObservationTypeProto", "ObservationProto"),
    "space_type_pb2": ("SpaceTypeProto",),
    "training_analytics_pb2": ("TrainingEnvironmentInitialized", "TrainingBehaviorInitialized"),
    "unity_input_pb2": ("UnityInputProto",),
    "unity_message_pb2": ("UnityMessageProto",),
    "unity_output_pb2": ("UnityOutputProto",),
    "unity_rl_initialization_input_pb2": ("UnityRLInitializationInputProto",),
    "unity_rl_initialization_output_pb2": ("UnityRLInitializationOutputProto",),
    "unity_rl_input_pb2": ("UnityRLInputProto",),
    "unity_rl_output_pb2": ("UnityRLOutputProto",),
    "unity_to_external_pb2": (),
}


def import_mlagents_envs() -> ModuleType:
    """Import ``mlagents_envs`` with its ``environment`` module, and return the package.

    Raises:
        ModuleNotFoundError: ``mlagents_envs`` is not installed.
    """
    package = importlib.import_module("mlagents_envs")
    if "mlagents_envs.environment" not in sys.modules:
        if not any(f"{_PACKAGE}.{name}" in sys.modules for name in _MODULES):
            _serve_messages()
        with _distutils_version():
            importlib.import_module("mlagents_envs.environment")
    return package


def _serve_messages() -> None:
    parent = importlib.import_module(_PACKAGE)
    # A pool of its own: these classes carry the names under which mlagents_envs pickles them.
    messages = load_messages("communicator.proto")
    enums = messages["UnityMessageProto"].DESCRIPTOR.file.enum_types_by_name
    for name, exports in _MODULES.items():
        module = ModuleType(f"{_PACKAGE}.{name}", "Served by bridge.unity.compat.")
        for export in exports:
            if export in enums:
                values = {value.name: value.number for value in enums[export].values}
                vars(module).update({export: EnumTypeWrapper(enums[export]), **values})
            else:
                message = messages[export]
                message.__module__ = module.__name__
                setattr(module, export, message)
        sys.modules[module.__name__] = module
        setattr(parent, name, module)


class _StrictVersion:
    """What ``mlagents_envs`` uses of ``distutils.version.StrictVersion``: the tuple of numbers."""

    def __init__(self, text: str) -> None:
        match = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?(?:[ab]\d+)?", text, re.ASCII)
        if match is None:
            raise ValueError(f"invalid version number '{text}'")
        self.version = (int(match[1]), int(match[2]), int(match[3] or 0))


@contextmanager
def _distutils_version() -> Iterator[None]:
    names = ("distutils", "distutils.version")
    saved = {name: sys.modules.get(name) for name in names}
    package, version = ModuleType(names[0]), ModuleType(names[1])
    vars(version)["StrictVersion"] = _StrictVersion
    vars(package).update(version=version, __path__=[])
    sys.modules.update({names[0]: package, names[1]: version})
    try:
        yield
    finally:
        for name, module in saved.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
