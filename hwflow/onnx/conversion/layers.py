"""Layers, and the operators between them, to their next versions: modes, attributes that became inputs, other axes."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.elementwise import in_double
from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Stated, Steps, Without


def _over_one_axis(site: Site) -> None:
    """To 13: until then all axes from `axis` on were one, and those in front of it another."""
    x, axis = site.input(0), site.attribute("axis")
    rank = site.rank(x)
    if rank is not None and axis in (rank - 1, -1):
        site.keep(attributes=site.attributes(axis=axis))
        return
    flat = site.add("Flatten", x, axis=axis)
    over = site.add(site.node.op_type, flat, axis=1)
    site.result("Reshape", over, site.shape_value(x))


def _scale_per_channel(site: Site) -> None:
    """GroupNormalization to 21: scale and bias have an element for each channel, no longer for each group."""
    x, groups = site.input(0), site.attribute("num_groups")
    shape = site.tensor(x)
    known = None if shape is None or shape.shape is None or len(shape.shape) < 2 else shape.shape[1]
    if isinstance(known, int):
        each = site.constant([known // groups], np.int64)
    else:
        channels = site.add("Shape", x, start=1, end=2)
        each = site.add("Div", channels, site.constant([groups], np.int64))
    repeated = site.add("Concat", site.constant([groups], np.int64), each, axis=0)

    def per_channel(name: str) -> str:
        column = site.add("Unsqueeze", name, site.constant([1], np.int64))
        return site.add("Reshape", site.add("Expand", column, repeated), site.constant([-1], np.int64))

    inputs = (x, *(per_channel(name) for name in site.node.inputs[1:]))
    double = site.dtype(x) == np.float64  # which the newer version would compute in float32
    site.keep(inputs=inputs, attributes=site.attributes(**({"stash_type": 11} if double else {})))


def _axes_as_input(site: Site) -> None:
    """Left out or empty, the attribute means all axes, and so does an input that is left out."""
    inputs = site.node.inputs[:1]
    if site.node.attributes.get("axes", ()) != ():
        inputs = (*inputs, site.moved("axes"))
    site.keep(inputs=inputs, attributes=site.attributes("axes"))


def _count_as_input(site: Site) -> None:
    k = site.attribute("k")
    site.keep(inputs=(site.input(0), site.constant([k], "int64")), attributes=site.attributes("k"))


_SINCE_18 = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare")


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _whole_norm(site: Site) -> None:
    """LpPool and GlobalLpPool to 2: the norm p became an integer.  Others are the p-th root of a sum of p-th powers."""
    p, x = site.attribute("p"), site.input(0)
    if float(p).is_integer():
        site.keep(attributes=site.attributes(p=int(p)))
        return
    dtype = site.needs_dtype(x)
    powers = site.add("Pow", site.add("Abs", x), site.constant(p, dtype), broadcast=1)
    total = site.add(site.node.op_type, powers, domain="", **site.attributes(p=1))
    site.result("Pow", total, site.constant(1 / p, dtype), broadcast=1)


def _modes_renamed(site: Site) -> None:
    """GridSample to 20."""
    mode = site.attribute("mode")
    site.keep(attributes=site.attributes(mode=_MODES.get(mode, mode)))


#: With the coordinates of tf_half_pixel_for_nn, (i + 0.5) / scale, and with those of half_pixel, which are smaller by
#: 0.5, these round to the same element.
_HALF_PIXEL = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}


def _scales_listed(site: Site) -> None:
    """Upsample to 7: scales of all axes, instead of height and width."""
    scales = (1.0, 1.0, site.attribute("height_scale"), site.attribute("width_scale"))
    mode = site.attribute("mode")
    kept = site.attributes("height_scale", "width_scale", scales=scales)
    site.keep(attributes={**kept, "mode": "linear" if mode == "bilinear" else mode})


def _scales_as_input(site: Site) -> None:
    """Upsample to 9."""
    inputs = (site.input(0), site.constant(site.attribute("scales"), np.float32))
    site.keep(inputs=inputs, attributes=site.attributes("scales"))


def _resize(site: Site) -> None:
    """Upsample to Resize-10, whose coordinates it has."""
    mode = site.attribute("mode")
    site.keep(op_type="Resize", attributes={"mode": "linear" if mode == "bilinear" else mode})


def _coordinates_stated(site: Site) -> None:
    """Resize to 11: element 0 stays where it is; nearest rounds down where an axis grows, and up where it shrinks."""
    x, scales = site.node.inputs
    mode = site.attribute("mode")
    empty, one = site.constant([], np.float32), site.constant([1.0], np.float32)
    known = site.value(scales)
    common = {"mode": mode, "coordinate_transformation_mode": "asymmetric"}
    if mode != "nearest" or (known is not None and (known >= 1).all()):
        site.keep(inputs=(x, empty, scales), attributes={**common, "nearest_mode": "floor"})
        return
    if known is None or (known > 1).any():
        x = site.add("Resize", x, empty, site.add("Max", scales, one), **common, nearest_mode="floor")
    smaller = site.add("Min", scales, one)
    site.keep(inputs=(x, empty, smaller), attributes={**common, "nearest_mode": "ceil"})


def _no_tf_half_pixel(site: Site) -> None:
    """Resize to 13: inputs may be left out, which were empty; and one kind of coordinates went."""
    inputs = list(site.node.inputs)
    for position in range(1, len(inputs)):
        value = site.value(inputs[position]) if inputs[position] else None
        if value is not None and not value.size:
            inputs[position] = ""
    while not inputs[-1]:
        inputs.pop()
    attributes = site.attributes()
    if site.attribute("coordinate_transformation_mode") == "tf_half_pixel_for_nn":
        rounding = _HALF_PIXEL.get(site.attribute("nearest_mode")) if site.attribute("mode") == "nearest" else None
        if rounding is None:
            raise site.refuse(
                "no coordinates from version 13 on are those of tf_half_pixel_for_nn with "
                f"mode '{site.attribute('mode')}' and nearest_mode '{site.attribute('nearest_mode')}'",
                "export the model with coordinate_transformation_mode half_pixel",
            )
        attributes |= {"coordinate_transformation_mode": "half_pixel", "nearest_mode": rounding}
    site.keep(inputs=tuple(inputs), attributes=attributes)


def _of_one_type(site: Site) -> None:
    """To 19: an int32 input comes in the type of the scale, in which it was divided before."""
    x, scale = site.node.inputs[:2]
    dtype = site.dtype(x)
    if dtype is None or dtype.kind != "i":
        site.keep()
        return
    site.keep(inputs=(site.cast(x, site.needs_dtype(scale)), scale, *site.node.inputs[2:]))


_BY_NAME = Without(("output_sequence",))


def _spelled(site: Site) -> None:
    """GRU to 3: the default direction was misspelt in version 1."""
    direction = site.attribute("direction")
    site.keep(attributes=site.attributes(direction="forward" if direction == "foward" else direction))


def _axis_as_input(site: Site) -> None:
    inputs = (site.input(0), site.input(1), site.moved("axis"))
    site.keep(inputs=inputs, attributes=site.attributes("axis"))


UP: Steps = {
    "Softmax": {13: _over_one_axis},
    "LogSoftmax": {13: _over_one_axis},
    "Hardmax": {13: _over_one_axis},
    "GroupNormalization": {21: _scale_per_channel},
    **{name: {18: _axes_as_input} for name in _SINCE_18},
    **{name: {18: _axes_as_input, 28: in_double} for name in ("ReduceLogSum", "ReduceLogSumExp")},
    "ReduceSum": {13: _axes_as_input},
    "TopK": {10: _count_as_input},
    "LpPool": {2: _whole_norm},
    "GlobalLpPool": {2: _whole_norm},
    "RoiAlign": {16: Stated({"coordinate_transformation_mode": "output_half_pixel"})},
    "GridSample": {20: _modes_renamed},
    "Upsample": {7: _scales_listed, 9: _scales_as_input, 10: _resize},
    "Resize": {11: _coordinates_stated, 13: _no_tf_half_pixel},
    "QuantizeLinear": {19: _of_one_type},
    "GRU": {3: _spelled, 7: _BY_NAME}, "LSTM": {7: _BY_NAME}, "RNN": {7: _BY_NAME},
    "DFT": {20: _axis_as_input},
}
