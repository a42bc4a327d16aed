"""Layers, and the operators between them, to their next versions: modes, attributes that became inputs, other axes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.conversion.elementwise import in_double
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Stated, Steps, Without
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Node


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


def _scale_per_channel(site: NodeConversion) -> None:
    """GroupNormalization to 21: scale and bias have an element for each channel, no longer for each group."""
    x, groups = site.input(0), site.attribute("num_groups")
    shape = site.tensor(x)
    known = None if shape is None or shape.shape is None or len(shape.shape) < 2 else shape.shape[1]
    if isinstance(known, int):
        repeats = site.constant([known // groups], np.int64)
    else:
        channels = site.add("Shape", x, start=1, end=2)
        repeats = site.add("Div", channels, site.constant([groups], np.int64))
    repeated = site.add("Concat", site.constant([groups], np.int64), repeats, axis=0)

    def per_channel(name: str) -> str:
        column = site.add("Unsqueeze", name, site.constant([1], np.int64))
        return site.add("Reshape", site.add("Expand", column, repeated), site.constant([-1], np.int64))

    inputs = (x, *(per_channel(name) for name in site.node.inputs[1:]))
    double = site.dtype(x) == np.float64  # which the newer version would compute in float32
    site.keep(inputs=inputs, attributes=site.attributes(**({"stash_type": 11} if double else {})))


def _axes_as_input(site: NodeConversion) -> None:
    """Left out or empty, the attribute means all axes, and so does an input that is left out."""
    inputs = site.node.inputs[:1]
    if site.node.attributes.get("axes", ()) != ():
        inputs = (*inputs, site.moved("axes"))
    site.keep(inputs=inputs, attributes=site.attributes("axes"))


def _count_as_input(site: NodeConversion) -> None:
    k = site.attribute("k")
    site.keep(inputs=(site.input(0), site.constant([k], "int64")), attributes=site.attributes("k"))


_SINCE_18 = ("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSumSquare")


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _whole_norm(site: NodeConversion) -> None:
    """LpPool and GlobalLpPool to 2: the norm p became an integer.  Others are the p-th root of a sum of p-th powers."""
    p, x = site.attribute("p"), site.input(0)
    if float(p).is_integer():
        site.keep(attributes=site.attributes(p=int(p)))
        return
    dtype = site.needs_dtype(x)
    powers = site.add("Pow", site.add("Abs", x), site.constant(p, dtype), broadcast=1)
    total = site.add(site.node.op_type, powers, domain="", **site.attributes(p=1))
    site.result("Pow", total, site.constant(1 / p, dtype), broadcast=1)


def _modes_renamed(site: NodeConversion) -> None:
    """GridSample to 20."""
    mode = site.attribute("mode")
    site.keep(attributes=site.attributes(mode=_MODES.get(mode, mode)))


#: With the coordinates of tf_half_pixel_for_nn, (i + 0.5) / scale, and with those of half_pixel, which are smaller by
#: 0.5, these round to the same element.
_HALF_PIXEL = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}


def _scales_listed(site: NodeConversion) -> None:
    """Upsample to 7: scales of all axes, instead of height and width."""
    scales = (1.0, 1.0, site.attribute("height_scale"), site.attribute("width_scale"))
    mode = site.attribute("mode")
    others = site.attributes("height_scale", "width_scale", scales=scales)
    site.keep(attributes={**others, "mode": "linear" if mode == "bilinear" else mode})


def _scales_as_input(site: NodeConversion) -> None:
    """Upsample to 9."""
    inputs = (site.input(0), site.constant(site.attribute("scales"), np.float32))
    site.keep(inputs=inputs, attributes=site.attributes("scales"))


def _resize(site: NodeConversion) -> None:
    """Upsample to Resize-10, whose coordinates it has."""
    mode = site.attribute("mode")
    site.keep(op_type="Resize", attributes={"mode": "linear" if mode == "bilinear" else mode})


def _coordinates_stated(site: NodeConversion) -> None:
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


def _no_tf_half_pixel(site: NodeConversion) -> None:
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


def _of_one_type(site: NodeConversion) -> None:
    """To 19: an int32 input comes in the type of the scale, in which it was divided before."""
    x, scale = site.node.inputs[:2]
    dtype = site.dtype(x)
    if dtype is None or dtype.kind != "i":
        site.keep()
        return
    site.keep(inputs=(site.cast(x, site.needs_dtype(scale)), scale, *site.node.inputs[2:]))


_BY_NAME = Without(("output_sequence",))


def _spelled(site: NodeConversion) -> None:
    """GRU to 3: the default direction was misspelt in version 1."""
    direction = site.attribute("direction")
    site.keep(attributes=site.attributes(direction="forward" if direction == "foward" else direction))


def _axis_as_input(site: NodeConversion) -> None:
    inputs = (site.input(0), site.input(1), site.moved("axis"))
    site.keep(inputs=inputs, attributes=site.attributes("axis"))


def _batch_by_outputs(site: NodeConversion) -> None:
    """BatchNormalization to 7: until then `is_test` says which it is, afterwards outputs beyond the first."""
    attributes = site.attributes("is_test")
    if site.attribute("is_test"):
        site.keep(attributes=attributes, outputs=site.node.outputs[:1])
        return
    names = [*site.node.outputs, *[""] * (5 - len(site.node.outputs))]
    kinds = ("", "mean", "var", "saved_mean", "saved_var")
    named = (name or site.fresh(f"{names[0]}.{kind}") for name, kind in zip(names, kinds, strict=True))
    site.keep(attributes=attributes, outputs=tuple(named))


def _batch_per_channel(site: NodeConversion) -> None:
    """BatchNormalization to 9: with spatial=0 every element of a sample has statistics of its own, as channels have."""
    attributes = site.attributes("spatial")
    x, *parameters = site.node.inputs
    shape = site.shape(parameters[0])
    if site.attribute("spatial") or (shape is not None and len(shape) == 1):
        site.keep(attributes=attributes)
        return
    every = site.constant([-1], np.int64)
    flat = site.add("Flatten", x, axis=1)
    inputs = (flat, *(site.add("Reshape", name, every) for name in parameters))
    outputs = tuple(name and site.fresh(f"{name}.flat") for name in site.node.outputs)
    site.write(replace(site.node, inputs=inputs, outputs=outputs, attributes=attributes))
    shapes = [site.shape_value(x), site.shape_value(parameters[0])]
    for position, (result, name) in enumerate(zip(outputs, site.node.outputs, strict=True)):
        if name:
            site.write(Node("Reshape", (result, shapes[min(position, 1)]), (name,), {}, name))


def _batch_by_mode(site: NodeConversion) -> None:
    """BatchNormalization to 14: training is an attribute, and the statistics of the batch are no outputs any more."""
    if not any(site.names(position) for position in range(1, 5)):
        site.keep(outputs=site.node.outputs[:1])
        return
    for position in (3, 4):
        if site.names(position):
            _statistic(site, site.node.outputs[position], squared=position == 4)
    outputs = site.node.outputs[:3]
    site.keep(outputs=outputs, attributes=site.attributes(training_mode=1))


def _statistic(site: NodeConversion, result: str, squared: bool) -> None:
    """The mean or the variance of each channel over the batch, under the name `result`."""
    planes = site.add("Reshape", site.input(0), site.constant([0, 0, -1], np.int64))
    if squared:
        mean = site.add("ReduceMean", planes, axes=(0, 2), keepdims=1)
        centred = site.add("Sub", planes, mean)
        planes = site.add("Mul", centred, centred)
    site.write(Node("ReduceMean", (planes,), (result,), {"axes": (0, 2), "keepdims": 0}, result))


def _dropout_in_inference(site: NodeConversion) -> None:
    """Dropout to 7, which does not train.  From 12 on it can again."""
    others = site.attributes("is_test", "consumed_inputs")
    if site.attribute("is_test"):
        site.keep(attributes=others)
        return
    site.later(12, "it drops elements, as in training (is_test=0), which no version from 7 to 11 does")
    ratio = site.constant(site.attribute("ratio"), np.float32)
    inputs = (site.input(0), ratio, site.constant(True, np.bool_))
    _with_mask(site, inputs=inputs, attributes={})


def _boolean_mask(site: NodeConversion) -> None:
    """Dropout to 10: the mask became a tensor of bool."""
    _with_mask(site)


def _with_mask(site: NodeConversion, **changes: object) -> None:
    if not site.names(1):
        site.keep(outputs=site.node.outputs[:1], **changes)
        return
    result, mask = site.node.outputs
    code = element_type_of(site.needs_dtype(site.input(0)), f"'{site.input(0)}'").code
    bool_mask = site.fresh(f"{mask}.bool")
    site.keep(outputs=(result, bool_mask), **changes)
    site.write(Node("Cast", (bool_mask,), (mask,), {"to": code}, mask))


def _ratio_as_input(site: NodeConversion) -> None:
    """Dropout to 12.  Without its third input it still drops nothing."""
    inputs = site.node.inputs[:1]
    if site.has("ratio"):
        inputs = (*inputs, site.moved("ratio", np.float32))
    site.keep(inputs=inputs, attributes=site.attributes("ratio"))


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
    "BatchNormalization": {
        6: Without(("consumed_inputs",)),
        7: _batch_by_outputs,
        9: _batch_per_channel,
        14: _batch_by_mode,
    },
    "Dropout": {6: Without(("consumed_inputs",)), 7: _dropout_in_inference, 10: _boolean_mask, 12: _ratio_as_input},
}
