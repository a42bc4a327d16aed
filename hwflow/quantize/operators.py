"""Which ONNX operators the quantizer knows, by what it does with them.  All of the default domain."""

from __future__ import annotations

__all__ = [
    "AFFINE",
    "BEST",
    "CLAMPS",
    "COMPUTED",
    "ELEMENTWISE",
    "HOST_AFTER",
    "HOST_BEFORE",
    "HOST_ONLY",
    "JOINS",
    "KNOWN",
    "LAYOUT",
    "MATRIX",
    "MAX_POOLS",
    "MOVES",
    "NEVER_ON_HOST",
    "ORDERLY",
    "POOLS",
    "QUANTIZERS",
    "RANKINGS",
    "SELECTIONS",
    "SUMS",
    "TURNING",
    "UNARY",
]

#: Products with constant weights.
MATRIX = frozenset({"Conv", "Gemm", "MatMul"})

#: The largest element of a window.
MAX_POOLS = frozenset({"MaxPool", "GlobalMaxPool"})

#: Windows without weights.
POOLS = MAX_POOLS | frozenset({"AveragePool", "GlobalAveragePool", "ReduceMean"})

#: The largest or smallest element along axes.
BEST = frozenset({"ReduceMax", "ReduceMin"})

#: Sums along axes, of elements, of functions of them, and functions of the sums.
SUMS = frozenset({"ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceMean", "ReduceSum", "ReduceSumSquare"})

#: a * x + b with constants; Add, Sub and Mul also of two computed tensors.
AFFINE = frozenset({"Add", "Sub", "Mul", "Div", "BatchNormalization"})

#: Monotonous limits: they become the ends of a requantization's clamp.
CLAMPS = frozenset({"Relu", "Clip"})

#: Functions of one element; as a table where they are not fused.
UNARY = CLAMPS | frozenset(
    {
        "Abs", "Asinh", "Atan", "Celu", "Ceil", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
        "LeakyRelu", "Log", "Mish", "Neg", "PRelu", "Reciprocal", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sinh",
        "Softplus", "Softsign", "Sqrt", "Swish", "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip

#: Functions of one element with constants that decide between values.
SELECTIONS = frozenset(
    {"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max", "Min", "Not", "Pow", "Where"}
)

#: Functions of one element that rise and fall, which no thresholds compute.
TURNING = frozenset({"Abs", "Equal", "Gelu", "HardSwish", "Mish", "Pow", "Reciprocal", "Swish", "Where"})

#: Element by element, of one computed tensor or (through `AFFINE`) of two.
ELEMENTWISE = UNARY | AFFINE | SELECTIONS

#: Tensors become one.
JOINS = frozenset({"Concat"})

#: Elements change places or shape, never value.
LAYOUT = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout"})

#: Elements are chosen, repeated or padded, never computed: with constant parameters, where they interpolate nothing.
MOVES = frozenset(
    {
        "CenterCropPad", "Compress", "DepthToSpace", "Expand", "Gather", "GatherElements", "GatherND", "Pad", "Resize",
        "ReverseSequence", "Slice", "SpaceToDepth", "Split", "Tile", "Upsample",
    }
)  # fmt: skip

QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})

#: The best elements along an axis: on the host, or as the last layer where the user wants that.
RANKINGS = frozenset({"ArgMax", "ArgMin", "TopK"})

#: Functions of a row that grow with each of its elements: they change no order.
ORDERLY = frozenset({"Softmax", "LogSoftmax"})

#: On the host, behind the hardware.
HOST_ONLY = RANKINGS | frozenset({"Softmax", "LogSoftmax", "Hardmax", "Cast"})

#: What may run on the host before the first integer.
HOST_BEFORE = LAYOUT | MOVES | AFFINE | frozenset({"QuantizeLinear", "Cast"})

#: What may run on the host after the last integer.
HOST_AFTER = LAYOUT | MOVES | ELEMENTWISE | QUANTIZERS | HOST_ONLY

#: Layers with weights of their own, and control flow: hardware computes them, or nothing does.
NEVER_ON_HOST = MATRIX | POOLS | frozenset(
    {
        "Attention", "CausalConvWithState", "ConvInteger", "ConvTranspose", "DeformConv", "Einsum", "GRU", "If", "LSTM",
        "LinearAttention", "LinearClassifier", "LinearRegressor", "Loop", "LpPool", "MatMulInteger", "MaxRoiPool",
        "QLinearConv", "QLinearMatMul", "RNN", "SVMClassifier", "SVMRegressor", "Scan", "SequenceMap", "TreeEnsemble",
        "TreeEnsembleClassifier", "TreeEnsembleRegressor",
    }
)  # fmt: skip

#: (domain, operator) that a handler of `importer/kinds` makes a layer of where layers follow.  Where none does, or in
#: front of the first layer, the host computes those that are not in `NEVER_ON_HOST`.
COMPUTED: frozenset[tuple[str, str]] = frozenset(
    {
        *(("", name) for name in (
            *BEST, *SUMS, "GRU", "GlobalLpPool", "GroupNormalization", "InstanceNormalization", "LayerNormalization",
            "LSTM", "LpNormalization", "LpPool",
            "MeanVarianceNormalization", "RMSNormalization", "RNN", "Softmax",
        )),
        ("ai.onnx.ml", "TreeEnsemble"), ("ai.onnx.ml", "TreeEnsembleRegressor"),
    }
)  # fmt: skip

KNOWN = MATRIX | POOLS | ELEMENTWISE | JOINS | LAYOUT | MOVES | QUANTIZERS | HOST_ONLY
