"""Names, versions and operators that Unity ML-Agents expects of a model file.

Constants only. ``writer`` obeys them, ``check`` enforces them. They hold for
the packages ``com.unity.ml-agents`` 2.0 to 4.x ("model API version 3"); the
reasons stand in ``docs/export.md``.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = [
    "ACTION_MASKS",
    "AGENT_ID_BLOCK",
    "BATCH",
    "CONTINUOUS_ACTIONS",
    "CONTINUOUS_SHAPE",
    "DETERMINISTIC_CONTINUOUS",
    "DETERMINISTIC_DISCRETE",
    "DISCRETE_ACTIONS",
    "DISCRETE_SHAPE",
    "ENGINE_ERAS",
    "FORBIDDEN_LOGIT",
    "IR_VERSION",
    "LEGAL_INPUTS",
    "MAX_MODEL_BYTES",
    "MEMORY_SIZE",
    "META_ACTION",
    "META_AGENT_IDS",
    "META_DIGEST",
    "META_LAYOUT",
    "META_ROLE",
    "META_SCENARIO",
    "META_VERSION",
    "MODEL_API_VERSION",
    "OPSET",
    "OPSET_RANGE",
    "PREVIOUS_ACTION",
    "RECURRENT_IN",
    "RECURRENT_OUT",
    "TRACE_LOGITS",
    "TRACE_MEAN",
    "TRACE_SAMPLE",
    "VERSION_NUMBER",
    "EngineEra",
]

# Unity's inference engines document opset 7 to 15. Every operator that the writer uses has had the
# same signature since opset 11, so that an importer made for an older opset reads the file alike.
OPSET = 15
OPSET_RANGE = (7, 15)
# The IR version that was current when opset 15 came out (ONNX 1.10): the lowest one that may
# declare it, hence the one that the most readers accept. Unity's importer does not look at it.
IR_VERSION = 8
MODEL_API_VERSION = 3
MAX_MODEL_BYTES = 256 * 1024 * 1024

BATCH = "batch"
ACTION_MASKS = "action_masks"
RECURRENT_IN = "recurrent_in"
RECURRENT_OUT = "recurrent_out"
PREVIOUS_ACTION = "prev_action"
LEGAL_INPUTS = frozenset({ACTION_MASKS, RECURRENT_IN, PREVIOUS_ACTION, "epsilon", "sequence_length"})

VERSION_NUMBER = "version_number"
MEMORY_SIZE = "memory_size"
CONTINUOUS_ACTIONS = "continuous_actions"
CONTINUOUS_SHAPE = "continuous_action_output_shape"
DETERMINISTIC_CONTINUOUS = "deterministic_continuous_actions"
DISCRETE_ACTIONS = "discrete_actions"
DISCRETE_SHAPE = "discrete_action_output_shape"
DETERMINISTIC_DISCRETE = "deterministic_discrete_actions"

# Tensors inside a written graph that the parity check taps; they are no outputs of the file.
TRACE_MEAN = "action_mean"
TRACE_SAMPLE = "action_sample"
TRACE_LOGITS = "action_logits"

# What a forbidden choice's logit becomes; the number that Unity's own exporter uses.
FORBIDDEN_LOGIT = -1e8

# The block of the one-hot robot id; always the last sensor of a layout that has it.
AGENT_ID_BLOCK = "agent_id"

META_VERSION = "agv_bridge.version"
META_SCENARIO = "agv_bridge.scenario"
META_ROLE = "agv_bridge.role"
META_AGENT_IDS = "agv_bridge.agent_ids"
META_LAYOUT = "agv_bridge.observation_layout"
META_DIGEST = "agv_bridge.observation_digest"
META_ACTION = "agv_bridge.action_spec"


class EngineEra(NamedTuple):
    """One of Unity's inference engines.

    Attributes:
        name: Engine and versions.
        packages: Versions of ``com.unity.ml-agents`` that run on it.
        operators: ONNX operators that its importer takes.
        current: False for an engine that no maintained package uses: what it lacks is only a warning.
    """

    name: str
    packages: str
    operators: frozenset[str]
    current: bool


_SENTIS_2_1 = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Bernoulli Cast CastLike
Ceil Celu Clip Compress Concat Constant ConstantOfShape Conv ConvTranspose Cos Cosh CumSum DepthToSpace Div Dropout
Einsum Elu Equal Erf Exp Expand Flatten Floor Gather GatherElements GatherND Gemm GlobalAveragePool GlobalMaxPool
Greater GreaterOrEqual GridSample HardSigmoid HardSwish Hardmax Identity InstanceNormalization IsInf IsNaN LRN LSTM
LayerNormalization LeakyRelu Less LessOrEqual Log LogSoftmax MatMul Max MaxPool Mean Min Mod Mul Multinomial Neg
NonMaxSuppression NonZero Not OneHot Or PRelu Pad Pow RandomNormal RandomNormalLike RandomUniform RandomUniformLike
Range Reciprocal ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
ReduceSumSquare Relu Reshape Resize RoiAlign Round Scatter ScatterElements ScatterND Selu Shape Shrink Sigmoid Sign
Sin Sinh Size Slice Softmax Softplus Softsign SpaceToDepth Split Sqrt Squeeze Sub Sum Tan Tanh ThresholdedRelu Tile
TopK Transpose Trilu Unsqueeze Upsample Where Xor
"""

_BARRACUDA_3_0 = """
Abs Acos Acosh Add And ArgMax ArgMin Asin Asinh Atan Atanh AveragePool BatchNormalization Cast Ceil Clip Concat
Constant ConstantOfShape Conv ConvTranspose Cos Cosh DepthToSpace Div Dropout Elu Equal Exp Expand Flatten Floor
Gather Gemm GlobalAveragePool GlobalMaxPool Greater Identity ImageScaler InstanceNormalization LRN LSTM LeakyRelu
Less LessOrEqual Log LogSoftmax MatMul Max MaxPool Mean Min Mul Multinomial Neg NonMaxSuppression NonZero Not OneHot
Or PRelu Pad Pow RandomNormal RandomNormalLike RandomUniform RandomUniformLike Reciprocal ReduceMax ReduceMean
ReduceMin ReduceProd ReduceSum Relu Reshape Resize Round Selu Shape Sigmoid Sin Sinh Slice Softmax SpaceToDepth
Split Sqrt Squeeze Sub Sum Tan Tanh Tile TopK Transpose Unsqueeze Upsample Where Xor
"""

# Sources: `Documentation~/supported-operators.md` of com.unity.sentis 2.1 and com.unity.ai.inference
# 2.2, and the operator page of com.unity.barracuda 3.0. Inference Engine 2.4 takes all of 2.2's.
ENGINE_ERAS = (
    EngineEra("Inference Engine 2.2 to 2.4", "4.0 and later", frozenset((*_SENTIS_2_1.split(), "Mish")), current=True),
    EngineEra("Sentis 2.1", "3.0", frozenset(_SENTIS_2_1.split()), current=True),
    EngineEra("Barracuda 3.0", "2.x", frozenset(_BARRACUDA_3_0.split()), current=False),
)
