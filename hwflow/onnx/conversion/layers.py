"""Layers and quantizers: training told in other ways, scales for other parts, types, other names of the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import AsAttribute, AsInput, Stated, Steps, Without, narrow, needs_constant, newer
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Node


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


def _batch_is_test(site: NodeConversion) -> None:
    """Below 7 an attribute says that the node does not train."""
    trains = any(site.names(position) for position in range(1, 5))
    narrow(site, attributes=site.attributes(is_test=0 if trains else 1))


def _batch_consumed(site: NodeConversion) -> None:
    """Version 1 demands to be told which inputs may be overwritten: the statistics."""
    narrow(site, attributes=site.attributes(consumed_inputs=(0, 0, 0, 1, 1)))


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


def _batch_trains(site: NodeConversion) -> None:
    """BatchNormalization below 14 trains where it names outputs beyond the first."""
    rest = site.attributes("training_mode")
    if not site.attribute("training_mode"):
        narrow(site, attributes=rest)
        return
    names = [*site.node.outputs, "", ""][:3]
    outputs = [name or site.fresh(f"{names[0]}.{kind}") for name, kind in zip(names, ("", "mean", "var"), strict=True)]
    outputs += [site.fresh(f"{names[0]}.saved_{kind}") for kind in ("mean", "var")]
    narrow(site, outputs=outputs, attributes=rest)


def _batch_types(site: NodeConversion) -> None:
    """Version 15 lets scale, bias and statistics have other types than the input; 14 the statistics."""
    kinds = {site.dtype(name) for name in site.node.inputs}
    if len(kinds) > 1:
        raise newer(site, "parameters of another element type than the input")
    narrow(site)


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


def _gemm_zero(site: NodeConversion) -> None:
    """Before version 11 there is always something to add."""
    if site.reads(2):
        narrow(site)
        return
    zero = site.constant(np.zeros(1), site.needs_dtype(site.input(0)))
    narrow(site, inputs=(*site.node.inputs[:2], zero))


def _gemm_broadcast(site: NodeConversion) -> None:
    """Before version 7 C must be told to be broadcast, from its last axis on."""
    c = site.input(2)
    shape = site.shape(c)
    column = shape is not None and len(shape) == 2 and shape[1] == 1 and shape[0] != 1
    if shape is None or column:
        raise newer(
            site, f"broadcasting of '{c}' along its columns" if column else f"'{c}' of a shape that is not known"
        )
    narrow(site, attributes=site.attributes(broadcast=1))


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


def _power_of_pool(site: NodeConversion) -> None:
    """The power p of version 1 is a float."""
    narrow(site, attributes=site.attributes(p=float(site.attribute("p"))))


def _of_one_type(site: NodeConversion) -> None:
    """To 19: an int32 input comes in the type of the scale, in which it was divided before."""
    x, scale = site.node.inputs[:2]
    dtype = site.dtype(x)
    if dtype is None or dtype.kind != "i":
        site.keep()
        return
    site.keep(inputs=(site.cast(x, site.needs_dtype(scale)), scale, *site.node.inputs[2:]))


def _per_tensor(site: NodeConversion) -> None:
    """Before version 13 there is one scale for all elements, and no axis."""
    shape = site.shape(site.input(1))
    if shape is None or shape not in ((), (1,)):
        raise newer(site, "a scale for each channel")
    x, *parameters = site.node.inputs
    if shape:
        parameters = [name and site.add("Squeeze", name, axes=(0,)) for name in parameters]
    narrow(site, inputs=(x, *parameters), attributes=site.attributes("axis"))


def _output_dtype(site: NodeConversion) -> None:
    """Before version 21 the zero point alone tells the type of the integers."""
    inputs = site.node.inputs
    if site.attribute("output_dtype") and not site.reads(2):
        dtype = site.needs_dtype(site.node.outputs[0])
        shape = site.shape(site.input(1))
        if shape is None:
            raise newer(site, "attribute 'output_dtype' with a scale of unknown shape")
        inputs = (*inputs[:2], site.constant(np.zeros(shape), dtype))
    narrow(site, inputs=inputs, attributes=site.attributes("output_dtype"))


def _scale_of_type(site: NodeConversion) -> None:
    """Before version 23 scale and input have one type; `precision` came with it."""
    x, scale = (site.needs_dtype(name) for name in site.node.inputs[:2])
    inputs: Sequence[str] = site.node.inputs
    if x != scale:
        if x.kind != "i":
            raise newer(site, "a scale of another type than the input")
        inputs = (site.cast(site.input(0), scale), *inputs[1:])
    narrow(site, inputs=inputs)


def _scale_decides(site: NodeConversion) -> None:
    """Before version 23 the result has the type of the scale."""
    stated = site.attribute("output_dtype")
    if stated and site.needs_dtype(site.node.outputs[0]) != site.needs_dtype(site.input(1)):
        raise newer(site, f"attribute 'output_dtype' ({stated})")
    narrow(site, attributes=site.attributes("output_dtype"))


_MODES = {"bilinear": "linear", "bicubic": "cubic"}


def _modes_renamed(site: NodeConversion) -> None:
    """GridSample to 20."""
    mode = site.attribute("mode")
    site.keep(attributes=site.attributes(mode=_MODES.get(mode, mode)))


def _mode_names(site: NodeConversion) -> None:
    """GridSample below 20 calls its modes by what they are for images, which is what it takes."""
    if site.needs_rank(site.input(0)) != 4:
        raise newer(site, "a grid for other inputs than images")
    names, mode = {new: old for old, new in _MODES.items()}, site.attribute("mode")
    narrow(site, attributes=site.attributes(mode=names.get(mode, mode)))


def _half_pixel(site: NodeConversion) -> None:
    """RoiAlign below 16 has no shift of half an element, which came as the default."""
    mode = site.attribute("coordinate_transformation_mode")
    if mode != "output_half_pixel":
        raise newer(site, f"attribute 'coordinate_transformation_mode' ('{mode}')")
    narrow(site, attributes=site.attributes("coordinate_transformation_mode"))


UP: Steps = {
    "BatchNormalization": {7: _batch_by_outputs, 9: _batch_per_channel, 14: _batch_by_mode},
    "Dropout": {7: _dropout_in_inference, 10: _boolean_mask, 12: AsInput("ratio", np.float32)},
    "Gemm": {7: Without(("broadcast",))},  # C was broadcast as numpy does it; the attribute only said that it may be
    "GroupNormalization": {21: _scale_per_channel},
    "LpPool": {2: _whole_norm},
    "GlobalLpPool": {2: _whole_norm},
    "RoiAlign": {16: Stated({"coordinate_transformation_mode": "output_half_pixel"})},
    "GridSample": {20: _modes_renamed},
    "QuantizeLinear": {19: _of_one_type},
    "DFT": {20: AsInput("axis", position=2, always=True)},
}

DOWN: Steps = {
    "BatchNormalization": {6: _batch_consumed, 7: _batch_is_test, 14: _batch_trains, 15: _batch_types},
    "Dropout": {7: _is_test, 10: _mask_of_type, 12: _dropout},
    "Gemm": {7: _gemm_broadcast, 11: _gemm_zero},
    "GlobalLpPool": {2: _power_of_pool},
    "LpPool": {2: _power_of_pool},
    "QuantizeLinear": {13: _per_tensor, 21: _output_dtype, 23: _scale_of_type},
    "DequantizeLinear": {13: _per_tensor, 23: _scale_decides},
    "GridSample": {20: _mode_names},
    "RoiAlign": {16: _half_pixel},
    "DFT": {20: AsAttribute("axis", 2, is_list=False, default=-2)},
}
