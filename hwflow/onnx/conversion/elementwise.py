"""Functions of elements: the limited broadcasting of old operator sets, bounds, defaults, types."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps, narrow, newer
from hwflow.onnx.dtypes import ELEMENT_TYPES, find_element_type
from hwflow.onnx.model import Dim
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.schemas import versions_of

#: Operators of two operands that broadcast since version 7 (PRelu in its own way), and others since version 8.
_BINARY, _VARIADIC = (
    [name for (domain, name), row in OPERATORS.items()
     if row.broadcasts == since and not domain and versions_of("", name)[0].since < since] for since in (7, 8)
)  # fmt: skip

#: Elements of a constant of int64 ones.
_ONE = np.ones(1, np.int64)


def _broadcast_to_first(site: NodeConversion) -> None:
    """Binary operators to 7: until then the second operand was broadcast to the first one, from `axis` on."""
    a, b = site.node.inputs
    others = site.attributes("broadcast", "axis", "consumed_inputs")
    axis, shape = site.attribute("axis"), site.shape(b)
    if not site.attribute("broadcast"):
        site.keep(attributes=others)
    elif shape is not None and all(size == 1 for size in shape):
        rank = site.rank(a)
        if len(shape) and (rank is None or rank < len(shape)):  # it must not add axes to the first operand
            b = site.add("Squeeze", b, axes=tuple(range(len(shape))))
        site.keep(inputs=(a, b), attributes=others)
    elif axis is None:
        site.keep(attributes=others)
    else:
        site.keep(inputs=(a, _with_axes_behind(site, a, b, axis)), attributes=others)


def _with_axes_behind(site: NodeConversion, a: str, b: str, axis: int) -> str:
    """`b`, whose axes are those of `a` from `axis` on, with axes of one element up to the last one of `a`."""
    rank, inner = site.rank(a), site.rank(b)
    if rank is not None and inner is not None:
        behind = rank - (axis + rank if axis < 0 else axis) - inner
        if behind < 0:
            raise site.refuse(
                f"'{b}' has {inner} axes, which do not fit into the {rank} axes of '{a}' from {axis} on",
                "the file breaks the rule of the operator; export the model again",
            )
        return site.add("Unsqueeze", b, axes=tuple(range(inner, inner + behind))) if behind else b
    start = site.constant([axis], np.int64)
    end = site.add("Sub", _rank_of(site, a), start) if axis >= 0 else site.constant([-axis], np.int64)
    return _followed_by_ones(site, b, site.add("Sub", end, _rank_of(site, b)))


def _rank_of(site: NodeConversion, name: str) -> str:
    return site.add("Shape", site.add("Shape", name))


def _followed_by_ones(site: NodeConversion, name: str, count: str, shape: str = "") -> str:
    """`name` in its shape (or `shape`) with `count`, a computed number, of axes of one element behind it."""
    site.later(9, "the ranks of its inputs are not known, and no operator before set 9 makes a shape of them")
    ones = site.add("ConstantOfShape", count, value=_ONE)
    return site.add("Reshape", name, site.add("Concat", shape or site.add("Shape", name), ones, axis=0))


_COMMUTES = frozenset({"Add", "Mul", "And", "Or", "Xor", "Equal"})


def _dims(site: NodeConversion, name: str) -> tuple[Dim, ...] | None:
    tensor = site.tensor(name)
    return None if tensor is None else tensor.shape


def _equal(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    return len(a) == len(b) and all(x is not None and x == y for x, y in zip(a, b, strict=True))


def _broadcast(site: NodeConversion) -> None:
    """Below version 7 the second operand is broadcast to the first, from an axis on, where the node says so."""
    a, b = site.node.inputs
    first, second = _dims(site, a), _dims(site, b)
    if first is None or second is None:
        raise newer(site, f"broadcasting of '{a}' and '{b}', whose shapes are not known,")
    if _equal(first, second):
        narrow(site)
        return
    if _smaller(first, second) and site.node.op_type in _COMMUTES:
        a, b, first, second = b, a, second, first
    if all(size == 1 for size in second):
        if len(second) > len(first):
            raise newer(site, f"broadcasting of {list(first)} to {list(second)}")
        narrow(site, inputs=(a, b), attributes={"broadcast": 1})
        return
    padded = (1,) * (len(first) - len(second)) + second
    inside = [i for i, size in enumerate(padded) if size != 1]
    start, end = inside[0], inside[-1] + 1
    if len(padded) != len(first) or not _equal(first[start:end], padded[start:end]):
        raise newer(site, f"broadcasting of {list(first)} and {list(second)}")
    outside = len(first) - len(second)
    alone = [i - outside for i in (*range(outside, start), *range(end, len(first)))]
    if alone:
        b = site.add("Squeeze", b, axes=tuple(alone))
    narrow(site, inputs=(a, b), attributes={"broadcast": 1} | ({} if end == len(first) else {"axis": start}))


def _smaller(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> bool:
    """Whether the first shape has to be broadcast to the second."""
    return len(a) < len(b) or (len(a) == len(b) and any(x == 1 and y != 1 for x, y in zip(a, b, strict=True)))


def _variadic(site: NodeConversion) -> None:
    """Before version 8 all operands have one shape; sums can be made of pairs."""
    shapes = [_dims(site, name) for name in site.node.inputs]
    if all(x is not None and y is not None and _equal(x, y) for x, y in pairwise(shapes)):
        narrow(site)
        return
    if site.node.op_type not in ("Sum", "Mean"):
        raise newer(site, "broadcasting of operands, or operands of unknown shape,")
    site.require_types()
    total, *others = site.node.inputs
    for name in others[:-1]:
        total = site.add("Add", total, name)
    if site.node.op_type == "Sum":
        site.result("Add", total, others[-1])
        return
    count = site.constant(len(site.node.inputs), site.needs_dtype(site.input(0)))
    site.result("Div", site.add("Add", total, others[-1]), count)


def _slope_per_channel(site: NodeConversion) -> None:
    """PRelu to 7: slopes are one number or one per channel, not a tensor that is broadcast from the last axis on."""
    x, slope = site.node.inputs
    rank, slope_rank, size = site.rank(x), site.rank(slope), site.shape(slope)
    if size is not None and all(n == 1 for n in size) and rank is not None and len(size) <= rank:
        site.keep()
    elif rank is None:
        behind = site.add("Sub", _rank_of(site, x), site.constant([2], np.int64))
        site.keep(inputs=(x, _followed_by_ones(site, slope, behind, site.constant([-1], np.int64))))
    elif rank <= 2 and slope_rank == 1:
        site.keep()
    elif slope_rank == 1:
        site.keep(inputs=(x, site.add("Unsqueeze", slope, axes=tuple(range(1, rank - 1)))))
    else:
        shape = site.constant([-1, *(1,) * max(rank - 2, 0)], np.int64)
        site.keep(inputs=(x, site.add("Reshape", slope, shape)))


def _slopes(site: NodeConversion) -> None:
    """PRelu below 7: one slope, or one for each channel."""
    x, slope = site.node.inputs
    shape = site.shape(slope)
    if shape is not None and all(size == 1 for size in shape):
        slope_in_shape = slope if len(shape) == 1 else site.add("Reshape", slope, site.constant([1], np.int64))
        narrow(site, inputs=(x, slope_in_shape))
        return
    rank = site.needs_rank(x)
    full = None if shape is None else (1,) * (rank - len(shape)) + shape
    if full is None or len(full) != rank or rank < 2 or any(n != 1 for i, n in enumerate(full) if i != 1):
        raise newer(site, f"slopes '{slope}' that are neither one nor one for each channel")
    slope_in_shape = slope if len(shape or ()) == 1 else site.add("Reshape", slope, site.constant([-1], np.int64))
    narrow(site, inputs=(x, slope_in_shape))


def _clip_without_defaults(site: NodeConversion) -> None:
    """Clip to 6: bounds that are left out were none, and become the ends of float32."""
    bounds = {"min": float("-inf"), "max": float("inf")}
    site.keep(attributes={**bounds, **site.attributes("consumed_inputs")})


def _clip_by_inputs(site: NodeConversion) -> None:
    """Clip to 11.  A bound at infinity is stated: runtimes take one that is left out for the end of the type."""
    x, dtype = site.input(0), site.needs_dtype(site.input(0))
    with np.errstate(over="ignore"):
        low, high = (np.asarray(site.attribute(name), np.float32).astype(dtype) for name in ("min", "max"))
    if low == -np.inf and high == np.inf:
        site.result("Identity", x)
        return
    site.keep(inputs=(x, site.constant(low), site.constant(high)), attributes=site.attributes("min", "max"))


def _clip(site: NodeConversion) -> None:
    """Constant limits become attributes; computed ones, and those that float32 cannot hold, are two operators.

    A limit that is left out is stated as infinity: without it versions 6 to 10 have the ends of float32.
    """
    names = {"min": site.input(1), "max": site.input(2)}
    values = {key: site.value(name) for key, name in names.items() if name}
    limits = {"min": -math.inf, "max": math.inf}
    limits |= {key: float(value.reshape(-1)[0]) for key, value in values.items() if value is not None}
    with np.errstate(over="ignore"):
        held = all(np.float32(limit) == limit or math.isnan(limit) for limit in limits.values())
    if held and None not in values.values():
        narrow(site, inputs=site.node.inputs[:1], attributes=limits)
        return
    site.require_types()
    x = site.input(0)
    if names["min"] and names["max"]:
        x = site.add("Max", x, names["min"])
    site.result(*(("Min", x, names["max"]) if names["max"] else ("Max", x, names["min"])))


def _cast_by_number(site: NodeConversion) -> None:
    """Cast to 6: the type is told by its number, no longer by its name."""
    codes = {entry.name.upper(): entry.code for entry in ELEMENT_TYPES}
    name = site.attribute("to")
    if str(name).upper() not in codes:
        raise site.refuse(f"'{name}' is no element type of ONNX", "export the model again")
    site.keep(attributes=site.attributes(to=codes[str(name).upper()]))


def _type_by_name(site: NodeConversion) -> None:
    """Cast 1 has the type's name."""
    entry = find_element_type(site.attribute("to"))
    if entry is None:
        raise site.refuse(f"{site.attribute('to')} is no element type", "export the model again")
    narrow(site, attributes={"to": entry.name.upper()})


def _power_of_type(site: NodeConversion) -> None:
    """Before version 12 the exponent has the type of the base."""
    base, exponent = (site.needs_dtype(name) for name in site.node.inputs)
    if base == exponent:
        narrow(site)
        return
    if base.kind != "f":
        raise newer(site, f"a base of {base} with an exponent of {exponent}")
    narrow(site, inputs=(site.input(0), site.cast(site.input(1), base)))


def _selu_constants(site: NodeConversion) -> None:
    """Selu to 6: the constants got more digits, which are not those that the model was trained with."""
    old = {name: site.attribute(name) for name in ("alpha", "gamma")}
    site.keep(attributes=site.attributes("consumed_inputs", **old))


def in_double(site: NodeConversion) -> None:
    """Integers, which the newer version does not take, are computed in float64 and lose their fraction at the end."""
    dtype = site.dtype(site.input(0))
    if dtype is None or dtype.kind not in "iu":
        site.keep()
        return
    inputs = (site.cast(site.input(0), np.float64), *site.node.inputs[1:])
    between = site.add(site.node.op_type, *inputs, domain="", **site.attributes())
    code = next(entry.code for entry in ELEMENT_TYPES if entry.dtype == dtype)
    site.result("Cast", between, to=code)


UP: Steps = {
    **{name: {7: _broadcast_to_first} for name in _BINARY},
    "PRelu": {7: _slope_per_channel},
    "Clip": {6: _clip_without_defaults, 11: _clip_by_inputs},
    "Cast": {6: _cast_by_number},
    "Selu": {6: _selu_constants},
    "Erf": {13: in_double},
}

DOWN: Steps = {
    **{name: {7: _broadcast} for name in _BINARY},
    **{name: {8: _variadic} for name in _VARIADIC},
    "Pow": {7: _broadcast, 12: _power_of_type},
    "PRelu": {7: _slopes},
    "Clip": {11: _clip},
    "Cast": {6: _type_by_name},
}
