"""Functions of elements: the limited broadcasting of old operator sets, bounds that became inputs, defaults, types."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps, Without
from hwflow.onnx.dtypes import ELEMENT_TYPES

#: What early versions said of memory: which inputs an implementation may overwrite.
_CONSUMED = Without(("consumed_inputs",))

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


def _clip_without_defaults(site: NodeConversion) -> None:
    """Clip to 6: bounds that are left out were none, and become the ends of float32."""
    bounds = {"min": float("-inf"), "max": float("inf")}
    site.keep(attributes={**bounds, **site.attributes("consumed_inputs")})


def _clip_by_inputs(site: NodeConversion) -> None:
    """Clip to 11.  A bound at infinity bounds nothing and is left out."""
    dtype, inputs = site.needs_dtype(site.input(0)), [site.input(0)]
    for name, nothing in (("min", -np.inf), ("max", np.inf)):
        with np.errstate(over="ignore"):
            bound = np.asarray(site.attribute(name), np.float32).astype(dtype)
        inputs.append("" if bound == nothing else site.constant(bound))
    while not inputs[-1]:
        inputs.pop()
    site.keep(inputs=tuple(inputs), attributes=site.attributes("min", "max"))


def _cast_by_number(site: NodeConversion) -> None:
    """Cast to 6: the type is told by its number, no longer by its name."""
    codes = {entry.name.upper(): entry.code for entry in ELEMENT_TYPES}
    name = site.attribute("to")
    if str(name).upper() not in codes:
        raise site.refuse(f"'{name}' is no element type of ONNX", "export the model again")
    site.keep(attributes=site.attributes(to=codes[str(name).upper()]))


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


_WITHOUT_CONSUMED = (
    "Abs", "Ceil", "Elu", "Exp", "Floor", "HardSigmoid", "InstanceNormalization", "LeakyRelu", "Log", "Max", "Mean",
    "Min", "Neg", "Reciprocal", "Relu", "Sigmoid", "Sqrt", "Sum", "Tanh",
)  # fmt: skip

UP: Steps = {
    **{name: {6: _CONSUMED} for name in _WITHOUT_CONSUMED},
    **{name: {6: _CONSUMED, 7: _broadcast_to_first} for name in ("Add", "Div", "Mul", "Sub")},
    **{name: {7: _broadcast_to_first} for name in ("And", "Equal", "Greater", "Less", "Or", "Pow", "Xor")},
    "PRelu": {6: _CONSUMED, 7: _slope_per_channel},
    "Gemm": {7: Without(("broadcast",))},  # C was broadcast as numpy does it; the attribute only said that it may be
    "Clip": {6: _clip_without_defaults, 11: _clip_by_inputs},
    "Cast": {6: _cast_by_number},
    "Selu": {6: _selu_constants},
    "Erf": {13: in_double},
}
