"""Inputs that older versions have as attributes, and axes that they count from the front only."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hwflow.onnx.conversion.downward.narrow import constant_ints, narrow, needs_constant, newer
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Step, Steps
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Node


def _positive(site: NodeConversion, axes: Sequence[int], rank: int | None = None) -> tuple[int, ...]:
    """Axes counted from the front; the rank is asked for only where it matters."""
    if all(axis >= 0 for axis in axes):
        return tuple(axes)
    rank = site.needs_rank(site.input(0)) if rank is None else rank
    return tuple(axis % rank for axis in axes)


def _axis(site: NodeConversion) -> None:
    """Before version 11 `axis` counts from the front."""
    axis = site.attribute("axis")
    narrow(site, attributes=site.attributes() if axis is None else site.attributes(axis=_positive(site, [axis])[0]))


def _hot_axis(site: NodeConversion) -> None:
    """OneHot: the axis is one of the output's; version 9 knows -1, its default, but no other negative one."""
    axis = site.attribute("axis")
    if axis < -1:
        axis += site.needs_rank(site.input(0)) + 1
    narrow(site, attributes=site.attributes(axis=axis))


def _axes(site: NodeConversion) -> None:
    """Before version 11 `axes` count from the front."""
    axes = site.attribute("axes")
    if axes is None:
        narrow(site)
        return
    rank = site.needs_rank(site.input(0)) + len(axes) if site.node.op_type == "Unsqueeze" and min(axes) < 0 else None
    narrow(site, attributes=site.attributes(axes=_positive(site, axes, rank)))


def _axes_input(site: NodeConversion) -> None:
    """Squeeze, Unsqueeze: the input `axes` becomes an attribute."""
    axes = constant_ints(site, 1)
    if axes == () and site.node.op_type == "Squeeze":  # takes no axis away, where the attribute would take all
        site.result("Identity", site.input(0))
        return
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes() if axes is None else {"axes": axes})


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


def _split(site: NodeConversion) -> None:
    sizes = constant_ints(site, 1)
    rest = site.attributes()
    narrow(site, inputs=site.node.inputs[:1], attributes=rest if sizes is None else {**rest, "split": sizes})


def _split_in_number(site: NodeConversion) -> None:
    """Version 18: `num_outputs` parts, of which the last one may be smaller."""
    if not site.has("num_outputs"):
        narrow(site)
        return
    count, axis = site.attribute("num_outputs"), site.attribute("axis")
    tensor = site.tensor(site.input(0))
    size = None if tensor is None or tensor.shape is None else tensor.shape[axis]
    if not isinstance(size, int):
        raise newer(site, "parts of a size that the file does not give (attribute 'num_outputs')")
    part = math.ceil(size / count)
    sizes = [max(0, min(part, size - part * i)) for i in range(count)]
    narrow(site, inputs=(site.input(0), site.constant(sizes, np.int64)), attributes=site.attributes("num_outputs"))


def _slice(site: NodeConversion) -> None:
    starts, ends, axes, steps = (constant_ints(site, i) for i in (1, 2, 3, 4))
    if steps is not None and any(step != 1 for step in steps):
        raise newer(site, f"input 'steps' ({list(steps)})")
    assert starts is not None
    assert ends is not None
    listed = {"starts": starts, "ends": ends} | ({} if axes is None else {"axes": _positive(site, axes)})
    narrow(site, inputs=site.node.inputs[:1], attributes=listed)


def _slice_axes(site: NodeConversion) -> None:
    """Version 11 counts axes from the back, too."""
    axes = constant_ints(site, 3) if site.value(site.input(3)) is not None else None
    if axes is None or min(axes, default=0) >= 0:
        narrow(site)
        return
    inputs = list(site.node.inputs)
    inputs[3] = site.constant(_positive(site, axes), np.int64)
    narrow(site, inputs=inputs)


def _pad_axes(site: NodeConversion) -> None:
    """Version 18 pads some axes; before, numbers for all of them are given."""
    if site.attribute("mode") == "wrap":
        raise newer(site, "attribute 'mode' ('wrap')")
    if not site.reads(3):
        narrow(site)
        return
    rank = site.needs_rank(site.input(0))
    axes, widths = _positive(site, constant_ints(site, 3) or (), rank), constant_ints(site, 1) or ()
    pads = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = widths[i], widths[len(axes) + i]
    narrow(site, inputs=(site.input(0), site.constant(pads, np.int64), site.input(2)))


def _pad_wrap(site: NodeConversion) -> None:
    if site.attribute("mode") == "wrap":
        raise newer(site, "attribute 'mode' ('wrap')")
    narrow(site)


def _pad(site: NodeConversion) -> None:
    pads, value = constant_ints(site, 1), needs_constant(site, 2)
    assert pads is not None
    more = {} if value is None else {"value": float(value.reshape(-1)[0])}
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes(pads=pads, **more))


def _paddings(site: NodeConversion) -> None:
    narrow(site, attributes=site.attributes("pads", paddings=site.attribute("pads")))


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


def _reshape(site: NodeConversion) -> None:
    shape = constant_ints(site, 1)
    assert shape is not None
    narrow(site, inputs=site.node.inputs[:1], attributes={"shape": shape})


def _allow_zero(site: NodeConversion) -> None:
    """With allowzero a 0 in the shape is a size, without it takes the size of the input."""
    shape = site.value(site.input(1))
    if not site.attribute("allowzero") or (shape is not None and (shape != 0).all()):
        narrow(site, attributes=site.attributes("allowzero"))
        return
    raise newer(site, "attribute 'allowzero' (1)")


def _top_k(site: NodeConversion) -> None:
    count = constant_ints(site, 1)
    assert count is not None
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes(k=count[0]))


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


def _dropout(site: NodeConversion) -> None:
    """Only what drops nothing: older versions do not say whether they train, and are evaluated as inference."""
    training = needs_constant(site, 2)
    ratio = needs_constant(site, 1)
    if training is not None and bool(training.reshape(-1)[0]) and (ratio is None or float(ratio.reshape(-1)[0])):
        raise newer(site, "a node that drops elements (input 'training_mode')")
    ratio_stated = {} if ratio is None else {"ratio": float(ratio.reshape(-1)[0])}
    narrow(site, inputs=site.node.inputs[:1], attributes=ratio_stated)


def _mask_of_type(site: NodeConversion) -> None:
    """Before version 10 the mask has the type of the data."""
    if not site.names(1):
        narrow(site)
        return
    mask = site.node.outputs[1]
    number = site.fresh(f"{mask}.number")
    site.keep(outputs=(site.node.outputs[0], number))
    site.write(Node("Cast", (number,), (mask,), {"to": element_type_of(np.dtype(np.bool_), mask).code}, mask))


def _is_test(site: NodeConversion) -> None:
    """Before version 7 a node drops elements unless it says that it does not, and then it gives no mask."""
    if site.names(1):
        shape = site.shape(site.input(0))
        if shape is None:
            raise newer(site, "the mask of an input whose shape is not known")
        result, mask = site.node.outputs
        site.write(Node("Constant", (), (mask,), {"value": np.ones(shape, site.needs_dtype(site.input(0)))}, mask))
        narrow(site, outputs=(result,), attributes=site.attributes(is_test=1))
        return
    narrow(site, attributes=site.attributes(is_test=1))


def _tile(site: NodeConversion) -> None:
    """Version 1 repeats along one axis."""
    repeats = constant_ints(site, 1)
    assert repeats is not None
    dtype = site.needs_dtype(site.input(0))
    if dtype.kind != "f":
        raise newer(site, f"an input of {dtype}")
    steps = [(axis, count) for axis, count in enumerate(repeats) if count != 1]
    x = site.input(0)
    for axis, count in steps[:-1]:
        x = site.add("Tile", x, site.constant(count, dtype), site.constant(axis, dtype))
    if steps:
        axis, count = steps[-1]
        site.result("Tile", x, site.constant(count, dtype), site.constant(axis, dtype))
    else:
        site.result("Identity", x)


def _gather(site: NodeConversion) -> None:
    """Before version 11 indices, like the axis, count from the front."""
    indices, axis = site.value(site.input(1)), site.attribute("axis")
    inputs = list(site.node.inputs)
    if indices is not None and indices.size and int(indices.min()) < 0:
        tensor = site.tensor(site.input(0))
        size = None if tensor is None or tensor.shape is None else tensor.shape[axis]
        if not isinstance(size, int):
            raise newer(site, "an index that counts from the end")
        inputs[1] = site.constant(np.where(indices < 0, indices + size, indices), indices.dtype)
    narrow(site, inputs=inputs, attributes=site.attributes(axis=_positive(site, [axis])[0]))


def _dft_axis(site: NodeConversion) -> None:
    axis = constant_ints(site, 2)
    narrow(site, inputs=site.node.inputs[:2], attributes=site.attributes(axis=-2 if axis is None else axis[0]))


def _for(names: str, since: int, step: Step) -> dict[str, dict[int, Step]]:
    return {name: {since: step} for name in names.split()}


_REDUCTIONS = "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSumSquare"

STEPS: Steps = {
    **_for("ArgMax ArgMin Compress Concat Flatten", 11, _axis),
    **{name: {11: _axes, 18: _reduced_axes} for name in _REDUCTIONS.split()},
    "ReduceSum": {11: _axes, 13: _reduced_axes},
    "Squeeze": {11: _axes, 13: _axes_input},
    "Unsqueeze": {11: _axes, 13: _axes_input},
    "Split": {11: _axis, 13: _split, 18: _split_in_number},
    "Slice": {10: _slice, 11: _slice_axes},
    "Pad": {2: _paddings, 11: _pad, 18: _pad_axes, 19: _pad_wrap},
    "Clip": {11: _clip},
    "Reshape": {5: _reshape, 14: _allow_zero},
    "TopK": {10: _top_k, 11: _smallest},
    "Dropout": {7: _is_test, 10: _mask_of_type, 12: _dropout},
    "Tile": {6: _tile},
    "Gather": {11: _gather},
    "OneHot": {11: _hot_axis},
    "DFT": {20: _dft_axis},
}
