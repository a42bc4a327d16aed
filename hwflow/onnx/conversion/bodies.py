"""Operators below their first version: what ONNX defines them to be, with the operators that there were before."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps, newer
from hwflow.onnx.dtypes import element_type_of, find_element_type
from hwflow.onnx.model import DType, OptionalType, TensorType


def _scalar(site: NodeConversion, value: float, like: str) -> str:
    """A number of the type of a value."""
    return site.constant(np.asarray(value, np.float64), site.needs_dtype(like))


def _wide(site: NodeConversion, name: str) -> tuple[str, DType]:
    """The value in the type in which `stash_type` says that sums are made, and that type."""
    entry = find_element_type(site.attribute("stash_type"))
    assert entry is not None
    dtype = site.needs_dtype(name)
    wide = entry.dtype if dtype.itemsize < entry.dtype.itemsize else dtype
    return site.cast(name, wide), wide


def _code(dtype: DType) -> int:
    return element_type_of(dtype, "a value").code


def _layer_normalization(site: NodeConversion) -> None:
    if site.names(1) or site.names(2):
        raise newer(site, "the statistics as outputs")
    x, scale, bias = site.input(0), site.input(1), site.input(2)
    dtype, rank = site.needs_dtype(x), site.needs_rank(x)
    axes = tuple(range(site.attribute("axis") % rank, rank))
    values, _ = _wide(site, x)
    centred = site.add("Sub", values, site.add("ReduceMean", values, axes=axes))
    variance = site.add("ReduceMean", site.add("Mul", centred, centred), axes=axes)
    epsilon = _scalar(site, site.attribute("epsilon"), values)
    normal = site.add("Div", centred, site.add("Sqrt", site.add("Add", variance, epsilon)))
    if site.dtype(values) != dtype:
        normal = site.add("Cast", normal, to=_code(dtype))
    if bias:
        site.result("Add", site.add("Mul", normal, scale), bias)
    else:
        site.result("Mul", normal, scale)


def _rms_normalization(site: NodeConversion) -> None:
    x, scale = site.input(0), site.input(1)
    dtype, rank = site.needs_dtype(x), site.needs_rank(x)
    if dtype != site.needs_dtype(scale):
        raise newer(site, "a scale of another type than the input")
    axes = site.constant(range(site.attribute("axis") % rank, rank), np.int64)
    values, _ = _wide(site, x)
    mean = site.add("ReduceMean", site.add("Mul", values, values), axes)
    epsilon = _scalar(site, site.attribute("epsilon"), values)
    normal = site.add("Div", values, site.add("Sqrt", site.add("Add", mean, epsilon)))
    if site.dtype(values) != dtype:
        normal = site.add("Cast", normal, to=_code(dtype))
    site.result("Mul", normal, scale)


def _group_normalization(site: NodeConversion) -> None:
    """Groups are normalized as channels of InstanceNormalization are; then scale and bias for each channel."""
    x, groups = site.input(0), site.attribute("num_groups")
    dtype, rank = site.needs_dtype(x), site.needs_rank(x)
    values, wide = _wide(site, x)
    parts = site.add("Reshape", values, site.constant([0, groups, -1], np.int64))
    one, zero = site.constant(np.ones(groups), wide), site.constant(np.zeros(groups), wide)
    normal = site.add("InstanceNormalization", parts, one, zero, epsilon=site.attribute("epsilon"))
    if wide != dtype:
        normal = site.add("Cast", normal, to=_code(dtype))
    normal = site.add("Reshape", normal, site.shape_value(x))
    column = site.constant([-1, *(1,) * (rank - 2)], np.int64)
    scale, bias = (site.add("Reshape", name, column) for name in site.node.inputs[1:])
    site.result("Add", site.add("Mul", normal, scale), bias)


def _mean_variance(site: NodeConversion) -> None:
    x, axes = site.input(0), site.attribute("axes")
    rank = site.needs_rank(x)
    axes = tuple(axis % rank for axis in axes)
    centred = site.add("Sub", x, site.add("ReduceMean", x, axes=axes))
    variance = site.add("ReduceMean", site.add("Mul", centred, centred), axes=axes)
    spread = site.add("Add", site.add("Sqrt", variance), _scalar(site, 1e-9, x))
    site.result("Div", centred, spread)


def _gelu(site: NodeConversion) -> None:
    x = site.input(0)
    if site.attribute("approximate") == "tanh":
        cube = site.add("Mul", site.add("Mul", x, x), x)
        inner = site.add("Add", x, site.add("Mul", cube, _scalar(site, 0.044715, x)))
        bent = site.add("Tanh", site.add("Mul", inner, _scalar(site, np.sqrt(2 / np.pi), x)))
    else:
        bent = site.add("Erf", site.add("Mul", x, _scalar(site, np.sqrt(0.5), x)))
    half = site.add("Mul", x, _scalar(site, 0.5, x))
    site.result("Mul", half, site.add("Add", bent, _scalar(site, 1, x)))


def _mish(site: NodeConversion) -> None:
    x = site.input(0)
    site.result("Mul", x, site.add("Tanh", site.add("Softplus", x)))


def _hard_swish(site: NodeConversion) -> None:
    x = site.input(0)
    site.result("Mul", x, site.add("HardSigmoid", x, alpha=1 / 6, beta=0.5))


def _swish(site: NodeConversion) -> None:
    x, alpha = site.input(0), site.attribute("alpha")
    scaled = x if alpha == 1 else site.add("Mul", x, _scalar(site, alpha, x))
    site.result("Mul", x, site.add("Sigmoid", scaled))


def _swiglu(site: NodeConversion) -> None:
    a, b = site.node.inputs
    alpha = site.attribute("alpha")
    scaled = a if alpha == 1 else site.add("Mul", a, _scalar(site, alpha, a))
    site.result("Mul", site.add("Mul", a, site.add("Sigmoid", scaled)), b)


def _celu(site: NodeConversion) -> None:
    """alpha * Elu(x / alpha) where that is below 0, and x above."""
    x = site.input(0)
    alpha = _scalar(site, site.attribute("alpha"), x)
    site.result("Mul", site.add("Elu", site.add("Div", x, alpha), alpha=1.0), alpha)


def _or_equal(site: NodeConversion) -> None:
    strict = "Greater" if site.node.op_type == "GreaterOrEqual" else "Less"
    a, b = site.node.inputs
    site.result("Or", site.add(strict, a, b), site.add("Equal", a, b))


def _cast_like(site: NodeConversion) -> None:
    site.result("Cast", site.input(0), to=_code(site.needs_dtype(site.input(1))))


def _thresholded_relu(site: NodeConversion) -> None:
    x = site.input(0)
    alpha = _scalar(site, site.attribute("alpha"), x)
    dtype = site.needs_dtype(x)
    site.result("Mul", x, site.add("Cast", site.add("Greater", x, alpha), to=_code(dtype)))


def _shrink(site: NodeConversion) -> None:
    """Elements between -lambd and lambd become 0, the rest comes nearer to 0 by bias."""
    x = site.input(0)
    dtype = site.needs_dtype(x)
    if dtype.kind != "f":
        raise newer(site, f"an input of {dtype}")
    bias = _scalar(site, site.attribute("bias"), x)
    limit = site.attribute("lambd")
    parts = []
    for op, end, shifted in (("Less", -limit, "Add"), ("Greater", limit, "Sub")):
        chosen = site.add("Cast", site.add(op, x, _scalar(site, end, x)), to=_code(dtype))
        parts.append(site.add("Mul", site.add(shifted, x, bias), chosen))
    site.result("Add", *parts)


def _optional_element(site: NodeConversion) -> None:
    """Below version 18 only an optional has an element."""
    kind = site.scope.type_of(site.input(0))
    if isinstance(kind, OptionalType):
        site.keep()
        return
    if kind is None:
        raise newer(site, f"'{site.input(0)}' of unknown type")
    if isinstance(kind, TensorType):
        site.require_types()
    site.result("Identity", site.input(0))


def _has_element(site: NodeConversion) -> None:
    """Below version 18 it is asked of optionals only: any other value is there, and one that is left out is not."""
    kind = site.scope.type_of(site.input(0)) if site.reads(0) else None
    if isinstance(kind, OptionalType):
        site.keep()
        return
    if site.reads(0) and kind is None:
        raise newer(site, f"'{site.input(0)}' of unknown type")
    site.result("Constant", value=np.array(site.reads(0)))


DOWN: Steps = {
    "LayerNormalization": {17: _layer_normalization},
    "RMSNormalization": {23: _rms_normalization},
    "GroupNormalization": {21: _group_normalization},
    "MeanVarianceNormalization": {9: _mean_variance},
    "Gelu": {20: _gelu},
    "Mish": {18: _mish},
    "HardSwish": {14: _hard_swish},
    "Swish": {24: _swish},
    "SwiGLU": {28: _swiglu},
    "Celu": {12: _celu},
    "GreaterOrEqual": {12: _or_equal},
    "LessOrEqual": {12: _or_equal},
    "CastLike": {15: _cast_like},
    "ThresholdedRelu": {10: _thresholded_relu},
    "Shrink": {9: _shrink},
    "OptionalGetElement": {18: _optional_element},
    "OptionalHasElement": {18: _has_element},
}
