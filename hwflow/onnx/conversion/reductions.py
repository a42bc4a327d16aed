"""Operators along axes: sums and means, softmaxes, and the largest elements."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.elementwise import in_double
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import (
    AsAttribute,
    AsInput,
    Steps,
    axes_from_front,
    axis_from_front,
    constant_ints,
    narrow,
    newer,
)
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.operators import REDUCTIONS


def _over_one_axis(site: NodeConversion) -> None:
    """To 13: until then all axes from `axis` on were one, and those in front of it another."""
    x, axis = site.input(0), site.attribute("axis")
    rank = site.rank(x)
    if rank is not None and axis in (rank - 1, -1):
        site.keep(attributes=site.attributes(axis=axis))
        return
    flat = site.add("Flatten", x, axis=axis)
    over = site.add(site.node.op_type, flat, axis=1)
    site.result("Reshape", over, site.shape_value(x))


def _softmax(site: NodeConversion) -> None:
    """Below 13 the axes from `axis` on are one: the last axis alone has the same meaning, another one moves there."""
    site.require_types()
    x, axis = site.input(0), site.attribute("axis")
    if axis == -1:
        site.keep(attributes=site.attributes(axis=-1))
        return
    rank = site.needs_rank(x)
    axis %= rank
    shape = site.tensor(x)
    assert shape is not None
    assert shape.shape is not None
    if all(size == 1 for size in shape.shape[axis + 1 :]):
        site.keep(attributes=site.attributes(axis=axis))
        return
    order = [*range(rank)]
    order[axis], order[-1] = order[-1], order[axis]
    turned = site.add(site.node.op_type, site.add("Transpose", x, perm=tuple(order)), axis=-1)
    site.result("Transpose", turned, perm=tuple(order))


#: What is left of a reduction over no axis: the operators one after the other.
_ELEMENTS = {
    "ReduceL1": ("Abs",), "ReduceL2": ("Abs",), "ReduceLogSum": ("Log",), "ReduceSumSquare": ("Mul",),
    "ReduceLogSumExp": (),
}  # fmt: skip


def _reduced_axes(site: NodeConversion) -> None:
    """Reductions: the input `axes` becomes an attribute; over no axis the elements stay apart."""
    axes = constant_ints(site, 1)
    if not axes and site.attribute("noop_with_empty_axes"):
        x = site.input(0)
        for op in _ELEMENTS.get(site.node.op_type, ()):
            site.result(op, *((x, x) if op == "Mul" else (x,)))
            return
        site.result("Identity", x)
        return
    rest = site.attributes("noop_with_empty_axes")
    narrow(site, inputs=site.node.inputs[:1], attributes={**rest, "axes": axes} if axes else rest)


def _count_as_input(site: NodeConversion) -> None:
    k = site.attribute("k")
    site.keep(inputs=(site.input(0), site.constant([k], "int64")), attributes=site.attributes("k"))


#: Beyond all numbers of float32, and the operator set that has the operators for what is not a number.
_BEYOND, _KNOWS_NAN = 1e300, 9

#: Beyond all numbers of float32, and the operator set that has the operators for what is not a number.
_BEYOND, _KNOWS_NAN = 1e300, 9


def _smallest(site: NodeConversion) -> None:
    """The smallest elements are the largest of the negated ones, but NaN, which is last in both orders.

    So they are compared as float64: that has room for NaN below the negated infinity.
    """
    if site.attribute("largest"):
        narrow(site)
        return
    site.require_types()
    x, dtype = site.input(0), site.needs_dtype(site.input(0))
    if dtype.itemsize == 8:
        raise newer(site, f"attribute 'largest' (0) for {dtype}")
    if site.targets[""] < _KNOWS_NAN:
        raise site.refuse(
            "the smallest elements (attribute 'largest' 0) are those of an older TopK only where none is NaN, "
            f"and operator sets before {_KNOWS_NAN} cannot tell",
            f"convert to operator set {_KNOWS_NAN} or newer",
        )
    beyond, nan_key = site.constant(_BEYOND), site.constant(-np.inf)
    negated = site.add("Neg", site.add("Min", site.cast(x, np.float64), beyond))
    keys = site.add("Where", site.add("IsNaN", x), nan_key, negated)
    best, *indices = site.node.outputs
    chosen = site.fresh(f"{best}.keys")
    narrow(site, inputs=(keys, site.input(1)), outputs=(chosen, *indices), attributes=site.attributes("largest"))
    was_nan = site.add("Less", chosen, site.constant(-2 * _BEYOND))
    values = site.add("Cast", site.add("Neg", chosen), to=element_type_of(dtype, f"'{x}'").code)
    site.node_for(best, "Where", was_nan, site.constant(np.nan, dtype), values)


#: Left out or empty, the attribute means all axes, and so does an input that is left out.
_AXES = AsInput("axes", empty_too=False)

UP: Steps = {
    **{name: {13: _over_one_axis} for name in ("Hardmax", "LogSoftmax", "Softmax")},
    **{name: {18: _AXES} for name in REDUCTIONS},
    **{name: {18: _AXES, 28: in_double} for name in ("ReduceLogSum", "ReduceLogSumExp")},
    "ReduceSum": {13: _AXES},
    "TopK": {10: _count_as_input},
}

DOWN: Steps = {
    **{name: {11: axis_from_front, 13: _softmax} for name in ("Hardmax", "LogSoftmax", "Softmax")},
    **{name: {11: axes_from_front, 18: _reduced_axes} for name in REDUCTIONS},
    "ReduceSum": {11: axes_from_front, 13: _reduced_axes},
    "ArgMax": {11: axis_from_front}, "ArgMin": {11: axis_from_front},
    "TopK": {10: AsAttribute("k", is_list=False), 11: _smallest},
}
