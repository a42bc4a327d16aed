"""Which ONNX operators the quantizer knows, by what it does with them.  All of the default domain."""

from __future__ import annotations

__all__ = [
    "AFFINE",
    "CLAMPS",
    "HOST_AFTER",
    "HOST_BEFORE",
    "HOST_ONLY",
    "KNOWN",
    "LAYOUT",
    "MATRIX",
    "POOLS",
    "QUANTIZERS",
    "UNARY",
]

#: Products with constant weights.
MATRIX = frozenset({"Conv", "Gemm", "MatMul"})

#: Windows without weights.
POOLS = frozenset({"MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool", "ReduceMean"})

#: a * x + b with constants.
AFFINE = frozenset({"Add", "Sub", "Mul", "Div", "BatchNormalization"})

#: Monotonous limits: they become the ends of a requantization's clamp.
CLAMPS = frozenset({"Relu", "Clip"})

#: Functions of one element; as a table where they are not fused.
UNARY = CLAMPS | frozenset(
    {
        "Abs", "Celu", "Ceil", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Log",
        "Mish", "Neg", "PRelu", "Reciprocal", "Round", "Selu", "Sigmoid", "Sign", "Softplus", "Softsign", "Sqrt",
        "Tanh", "ThresholdedRelu",
    }
)  # fmt: skip

#: Elements change places or shape, never value.
LAYOUT = frozenset({"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Identity", "Dropout"})

QUANTIZERS = frozenset({"QuantizeLinear", "DequantizeLinear"})

#: On the host, behind the hardware.
HOST_ONLY = frozenset({"Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "TopK", "Cast"})

#: What may run on the host before the first integer.
HOST_BEFORE = LAYOUT | AFFINE | frozenset({"QuantizeLinear", "Cast"})

#: What may run on the host after the last integer.
HOST_AFTER = LAYOUT | AFFINE | UNARY | QUANTIZERS | HOST_ONLY

KNOWN = MATRIX | POOLS | AFFINE | UNARY | LAYOUT | QUANTIZERS | HOST_ONLY
