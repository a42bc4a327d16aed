"""Operators that compute each element from those at its place."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.onnx.errors import InvalidModel, Unsupported
from hwflow.onnx.tflite.conversion import Conversion, Layout
from hwflow.onnx.tflite.file import Operator, Tensor
from hwflow.onnx.tflite.schema import DTYPES

#: The largest number of 16 bits.
_MOST_STEPS = (1 << 15) - 1

#: Operators of one tensor that ONNX has under a name of its own.
UNARY = {
    "ABS": "Abs", "NEG": "Neg", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt", "SIN": "Sin", "COS": "Cos",
    "FLOOR": "Floor", "CEIL": "Ceil", "ROUND": "Round", "SIGN": "Sign", "RELU": "Relu", "LOGISTIC": "Sigmoid",
    "TANH": "Tanh", "ELU": "Elu", "HARD_SWISH": "HardSwish", "LOGICAL_NOT": "Not",
}  # fmt: skip

#: Operators of two tensors, the number of their options in the union where these have an activation.
BINARY = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "MINIMUM": "Min", "MAXIMUM": "Max", "POW": "Pow",
    "SQUARED_DIFFERENCE": "Mul", "LOGICAL_AND": "And", "LOGICAL_OR": "Or",
    "EQUAL": "Equal", "LESS": "Less", "GREATER": "Greater", "LESS_EQUAL": "LessOrEqual",
    "GREATER_EQUAL": "GreaterOrEqual", "NOT_EQUAL": "Equal",
}  # fmt: skip
WITH_ACTIVATION = {"ADD": "AddOptions", "SUB": "SubOptions", "MUL": "MulOptions", "DIV": "DivOptions"}


def unary(c: Conversion, operator: Operator) -> None:
    """One node, in the order in which its input lies."""
    (x,) = c.inputs(operator, 1)
    layout = c.common_layout([x])
    value = c.real(x, layout)
    if operator.kind == "ABS" and _is_wide(c, x):
        value = c.node("Sub", c.node("Mul", _positive(c, x, value), c.scalar(2.0)), value)
    else:
        value = c.node(UNARY[operator.kind], value)
    c.put(c.output(operator), value, layout)


def _is_wide(c: Conversion, x: Tensor) -> bool:
    """Whether it has more integers than hardware has tables for."""
    return c.is_quantized(x) and x.type_name == "INT16"


def _positive(c: Conversion, x: Tensor, value: str) -> str:
    """The numbers of `x` above 0, else 0: integers of its own scale, so nothing is rounded."""
    return c.requantized(x, c.node("Relu", value))


def _leaky(c: Conversion, x: Tensor, value: str, alpha: float) -> str:
    """alpha times what is below 0.  Of 16 bits as the sum of products that it is: alpha * x + (1 - alpha) * relu(x)."""
    if not _is_wide(c, x):
        return c.node("LeakyRelu", value, alpha=alpha)
    above = c.node("Mul", _positive(c, x, value), c.scalar(1.0 - alpha))
    return c.node("Add", c.node("Mul", value, c.scalar(alpha)), above)


def _squared(c: Conversion, tensors: Sequence[Tensor], y: Tensor, values: Sequence[str]) -> str:
    """(a - b)**2.  Of quantized tensors the difference has 16 bits, which hold all that there can be, of equal scales
    exactly; it is made twice, a - b and b - a, for layers multiply two tensors."""
    difference = c.node("Sub", *values)
    if not all(map(c.is_quantized, (*tensors, y))):
        return c.node("Mul", difference, difference)
    reach, scales = 0.0, []
    for x in tensors:
        quantization, info = x.quantization, np.iinfo(x.dtype.name)
        assert quantization is not None, "it is quantized"
        (zero,), scale = np.atleast_1d(quantization.zero_points(np.dtype(np.int64))), quantization.scale[0]
        reach += scale * max(int(info.max) - int(zero), int(zero) - int(info.min))
        scales.append(scale)
    exact = scales[0] == scales[1] and reach <= _MOST_STEPS * scales[0]
    step = scales[0] if exact else reach / _MOST_STEPS
    if not np.finfo(np.float32).tiny <= step <= np.finfo(np.float32).max:
        return c.node("Mul", difference, difference)
    steps = [c.constant(np.float32(step), "step"), c.constant(np.int16(0), "zero_point")]
    held = [c.node("DequantizeLinear", c.node("QuantizeLinear", value, *steps), *steps)
            for value in (difference, c.node("Sub", *values[::-1]))]
    return c.node("Neg", c.node("Mul", *held))


def composed(c: Conversion, operator: Operator) -> None:
    """Operators of one tensor that take several nodes."""
    (x,) = c.inputs(operator, 1)
    layout = c.common_layout([x])
    value = c.real(x, layout)
    kind = operator.kind
    if kind == "RSQRT":
        value = c.node("Reciprocal", c.node("Sqrt", value))
    elif kind == "SQUARE":
        value = c.node("Mul", value, value)
    elif kind == "GELU":
        approximate = operator.read("GeluOptions").flag("approximate")
        value = c.node("Gelu", value, approximate="tanh" if approximate else None)
    elif kind == "LEAKY_RELU":
        value = _leaky(c, x, value, operator.read("LeakyReluOptions").real("alpha"))
    else:
        low, high = {"RELU6": (0.0, 6.0), "RELU_N1_TO_1": (-1.0, 1.0), "RELU_0_TO_1": (0.0, 1.0)}[kind]
        value = c.clipped(value, low, high)
    c.put(c.output(operator), value, layout)


def binary(c: Conversion, operator: Operator) -> None:
    """Two tensors that broadcast against each other, and a fused activation."""
    tensors, y = c.inputs(operator, 2), c.output(operator)
    options = operator.kind in WITH_ACTIVATION and operator.read(WITH_ACTIVATION[operator.kind])
    layout = c.common_layout(tensors)
    node = BINARY[operator.kind]
    if node in ("Div", "Pow", "Min", "Max") and not c.is_quantized(y) and y.type_name != "FLOAT32":
        _require_onnx_type(y, node)
    values = [c.real(tensor, layout) for tensor in tensors]
    squared = operator.kind == "SQUARED_DIFFERENCE"
    value = _squared(c, tensors, y, values) if squared else c.node(node, *values)
    if operator.kind == "NOT_EQUAL":
        value = c.node("Not", value)
    c.put(y, value, layout, options.whole("activation") if options else 0)


def _require_onnx_type(y: Tensor, node: str) -> None:
    if y.type_name not in ("INT32", "INT64", "UINT32", "UINT64", "FLOAT16", "FLOAT64"):
        raise Unsupported(f"{y.label} must be quantized or of a type that ONNX' {node} has, not {y.type_name}")


def add_n(c: Conversion, operator: Operator) -> None:
    """The sum of any number of tensors of one shape."""
    tensors = c.all_inputs(operator)
    layout = c.common_layout(tensors)
    value = c.real(tensors[0], layout)
    for tensor in tensors[1:]:
        value = c.node("Add", value, c.real(tensor, layout))
    c.put(c.output(operator), value, layout)


def prelu(c: Conversion, operator: Operator) -> None:
    """Slopes broadcast against the tensor; mostly one a channel."""
    x, slope = c.inputs(operator, 2)
    layout = c.common_layout((x, slope))
    c.put(c.output(operator), c.node("PRelu", c.real(x, layout), c.real(slope, layout)), layout)


def softmax(c: Conversion, operator: Operator) -> None:
    """Over the last axis, of the input times beta."""
    (x,) = c.inputs(operator, 1)
    value = c.real(x)
    beta = operator.read("SoftmaxOptions").real("beta") if operator.kind == "SOFTMAX" else 1.0
    if beta != 1.0:
        value = c.node("Mul", value, c.scalar(beta))
    c.put(c.output(operator), c.node("Softmax" if operator.kind == "SOFTMAX" else "LogSoftmax", value, axis=-1))


def quantize(c: Conversion, operator: Operator) -> None:
    """Real numbers to integers, or integers to those of another scale."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    if not c.is_quantized(y):
        raise InvalidModel(f"{y.label} must be quantized, not {y.type_name} without a scale")
    layout = c.common_layout([x])
    c.put(y, c.real(x, layout), layout)


def dequantize(c: Conversion, operator: Operator) -> None:
    """Integers, or numbers of 16 bits, to float32."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    layout = c.common_layout([x])
    value = c.real(x, layout)
    if not c.is_quantized(x):
        if x.dtype.kind != "f" and x.type_name != "BFLOAT16":
            raise InvalidModel(f"{x.label} must be quantized or FLOAT16, not {x.type_name} without a scale")
        value = c.node("Cast", value, to=1)
    c.put_raw(y, value, layout)


def densify(c: Conversion, operator: Operator) -> None:
    """A sparse constant with its zeros."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    if x.data is None:
        raise InvalidModel(f"{x.label} must be constant, not computed")
    c.put_raw(y, c.node("Identity", c.raw(x)))


#: ONNX' numbers of types.
_ONNX_TYPES = {"FLOAT32": 1, "UINT8": 2, "INT8": 3, "UINT16": 4, "INT16": 5, "INT32": 6, "INT64": 7, "BOOL": 9,
               "FLOAT16": 10, "FLOAT64": 11, "UINT32": 12, "UINT64": 13, "BFLOAT16": 16}


def cast(c: Conversion, operator: Operator) -> None:
    """To the type of the output; scales play no part."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    layout = c.common_layout([x])
    c.put_raw(y, cast_to(c, c.raw(x, layout), y), layout)


def cast_to(c: Conversion, value: str, y: Tensor) -> str:
    """`value` as elements of the type of `y`."""
    if y.type_name not in _ONNX_TYPES:
        raise Unsupported(f"{y.label} must have one of the types {', '.join(_ONNX_TYPES)}, not {y.type_name}")
    return c.node("Cast", value, to=_ONNX_TYPES[y.type_name])


def select(c: Conversion, operator: Operator) -> None:
    """Of two tensors that which a boolean says; SELECT may have one boolean for a whole row."""
    condition, x, y = c.inputs(operator, 3)
    value = c.raw(condition)
    rank = len(x.shape)
    if operator.kind == "SELECT" and len(condition.shape) == 1 and rank > 1:
        value = c.node("Reshape", value, c.wholes((condition.shape[0], *[1] * (rank - 1))))
    c.put(c.output(operator), c.node("Where", value, c.real(x), c.real(y)))


def l2_normalization(c: Conversion, operator: Operator) -> None:
    """Rows of length 1, but where all elements are nearly 0."""
    (x,) = c.inputs(operator, 1)
    value = c.real(x)
    length = c.node("ReduceL2", value, c.wholes([-1]), keepdims=1)
    length = c.node("Max", length, c.scalar(np.sqrt(1e-6)))
    activation = operator.read("L2NormOptions").whole("activation")
    c.put(c.output(operator), c.node("Div", value, length), activation=activation)


def zeros_like(c: Conversion, operator: Operator) -> None:
    """Zeros in the shape of a tensor."""
    (x,), y = c.inputs(operator, 1), c.output(operator)
    zero = np.zeros(1, DTYPES.get(x.type_name, np.dtype(np.float32)))
    c.put_raw(y, c.node("ConstantOfShape", c.node("Shape", c.raw(x, Layout.FILE)), value=zero))



def fill(c: Conversion, operator: Operator) -> None:
    """A tensor of one value in a shape that is an input."""
    shape, value = c.inputs(operator, 2)
    known = shape.data is not None
    sizes = c.wholes(c.fixed_wholes(shape, "the shape")) if known else c.node("Cast", c.raw(shape), to=7)
    c.put_raw(c.output(operator), c.node("Expand", c.raw(value), sizes))


def floor_divide(c: Conversion, operator: Operator) -> None:
    """FLOOR_DIV of real numbers, FLOOR_MOD of whole ones: ONNX' division of whole numbers rounds to zero."""
    x, z = c.inputs(operator, 2)
    y = c.output(operator)
    whole = y.dtype.kind in "iu"
    if (operator.kind == "FLOOR_MOD") != whole:
        raise Unsupported(f"{operator.kind} must be of {'whole' if not whole else 'real'} numbers, not {y.type_name}")
    a, b = c.real(x), c.real(z)
    c.put(y, c.node("Mod", a, b) if whole else c.node("Floor", c.node("Div", a, b)))


def cumsum(c: Conversion, operator: Operator) -> None:
    """Sums of all elements up to each, along an axis."""
    options = operator.read("CumsumOptions")
    x, axis = c.inputs(operator, 2)
    place = c.constant(np.array(c.fixed_whole(axis, "the axis"), np.int64), "axis")
    c.put(c.output(operator), c.node("CumSum", c.real(x), place, exclusive=int(options.flag("exclusive")),
                                     reverse=int(options.flag("reverse"))))
