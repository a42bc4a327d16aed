"""Layers: training told in other ways, other names of the same, and forms that older versions write with more nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from hwflow.onnx.conversion.downward.narrow import constant_ints, narrow, newer
from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps
from hwflow.onnx.model import Node, SparseTensor, TensorType
from hwflow.onnx.types import notation


def _batch_by_outputs(site: NodeConversion) -> None:
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


def _batch_is_test(site: NodeConversion) -> None:
    """Below 7 an attribute says that the node does not train."""
    trains = any(site.names(position) for position in range(1, 5))
    narrow(site, attributes=site.attributes(is_test=0 if trains else 1))


def _batch_consumed(site: NodeConversion) -> None:
    """Version 1 demands to be told which inputs may be overwritten: the statistics."""
    narrow(site, attributes=site.attributes(consumed_inputs=(0, 0, 0, 1, 1)))


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


def _softmax_axis(site: NodeConversion) -> None:
    """Before version 11 `axis` counts from the front."""
    axis = site.attribute("axis")
    if axis < 0:
        axis += site.needs_rank(site.input(0))
    narrow(site, attributes=site.attributes(axis=axis))


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


def _power_of_pool(site: NodeConversion) -> None:
    """The power p of version 1 is a float."""
    narrow(site, attributes=site.attributes(p=float(site.attribute("p"))))


def _output_sequence(site: NodeConversion) -> None:
    """Below version 7 an attribute says, besides its name, whether the whole sequence is an output."""
    narrow(site, attributes=site.attributes(output_sequence=int(site.names(0))))


def _gru_first(site: NodeConversion) -> None:
    outputs = [*site.node.outputs, ""][:2]
    outputs[1] = outputs[1] or site.fresh(f"{outputs[0] or 'gru'}.last")
    narrow(site, outputs=outputs, attributes=site.attributes(direction=site.attribute("direction")))


def _time_first(site: NodeConversion) -> None:
    """Before version 14 time is the first axis of a sequence, and directions that of a state."""
    if not site.attribute("layout"):
        narrow(site)
        return
    site.require_types()
    states = (5, 6) if site.node.op_type == "LSTM" else (5,)
    inputs = [
        site.add("Transpose", name, perm=(1, 0, 2)) if name and position in (0, *states) else name
        for position, name in enumerate(site.node.inputs)
    ]
    moved = [name and site.fresh(f"{name}.time_first") for name in site.node.outputs]
    narrow(site, inputs=inputs, outputs=moved, attributes=site.attributes("layout"))
    for position, (result, name) in enumerate(zip(moved, site.node.outputs, strict=True)):
        if name:
            order = (2, 0, 1, 3) if position == 0 else (1, 0, 2)
            site.write(Node("Transpose", (result,), (name,), {"perm": order}, name))


def _blocks_to_space(site: NodeConversion) -> None:
    """DepthToSpace and SpaceToDepth in the other order of channels (mode CRD): a Reshape, a Transpose, a Reshape."""
    if site.attribute("mode") == "DCR":
        narrow(site, attributes=site.attributes("mode"))
        return
    site.require_types()
    x, size = site.input(0), site.attribute("blocksize")
    shape = site.shape(x)
    if shape is None or len(shape) != 4:
        raise newer(site, "attribute 'mode' ('CRD') for a shape that is not known")
    n, c, h, w = shape
    if site.node.op_type == "DepthToSpace":
        parts, order = (n, c // size**2, size, size, h, w), (0, 1, 4, 2, 5, 3)
        result = (n, c // size**2, h * size, w * size)
    else:
        parts, order = (n, c, h // size, size, w // size, size), (0, 1, 3, 5, 2, 4)
        result = (n, c * size**2, h // size, w // size)
    apart = site.add("Reshape", x, site.constant(parts, np.int64))
    site.result("Reshape", site.add("Transpose", apart, perm=order), site.constant(result, np.int64))


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


def _mode_names(site: NodeConversion) -> None:
    """GridSample below 20 calls its modes by what they are for images, which is what it takes."""
    if site.needs_rank(site.input(0)) != 4:
        raise newer(site, "a grid for other inputs than images")
    names = {"linear": "bilinear", "cubic": "bicubic"}
    mode = site.attribute("mode")
    narrow(site, attributes=site.attributes(mode=names.get(mode, mode)))


def _half_pixel(site: NodeConversion) -> None:
    """RoiAlign below 16 has no shift of half an element, which came as the default."""
    mode = site.attribute("coordinate_transformation_mode")
    if mode != "output_half_pixel":
        raise newer(site, f"attribute 'coordinate_transformation_mode' ('{mode}')")
    narrow(site, attributes=site.attributes("coordinate_transformation_mode"))


def _no_reduction(*values: str) -> Callable[[NodeConversion], None]:
    """Values of `reduction` that came with a version."""

    def step(site: NodeConversion) -> None:
        if site.attribute("reduction") in values:
            raise newer(site, f"attribute 'reduction' ('{site.attribute('reduction')}')")
        narrow(site)

    return step


def _shape_part(site: NodeConversion) -> None:
    """Shape below 15 gives all sizes."""
    start, end = site.attribute("start"), site.attribute("end")
    if not start and end is None:
        narrow(site, attributes={})
        return
    whole = site.add("Shape", site.input(0))
    ends = [site.constant([n], np.int64) for n in (start, np.iinfo(np.int64).max if end is None else end)]
    site.result("Slice", whole, *ends)


#: Attributes of Constant for elements that are no tensor.
_PLAIN = (
    ("value_float", np.float32), ("value_floats", np.float32), ("value_int", np.int64), ("value_ints", np.int64),
    ("value_string", np.object_), ("value_strings", np.object_),
)  # fmt: skip


def _constant_tensor(site: NodeConversion) -> None:
    """Before version 12 Constant holds a tensor."""
    for name, dtype in _PLAIN:
        if site.has(name):
            site.keep(attributes={"value": np.array(site.attribute(name), dtype)})
            return
    narrow(site)


def _typed_constant(site: NodeConversion) -> None:
    """Before version 9 Constant holds floats; other elements become an initializer, where there can be one."""
    value = site.node.attributes["value"]
    assert isinstance(value, np.ndarray)
    assert site.wanted is not None
    if notation(TensorType(value.dtype, None)) in site.wanted.allowed(site.wanted.outputs[0]):
        site.keep()
    elif site.scope.path.startswith("function "):
        raise newer(site, f"elements of {value.dtype} in a function")
    else:
        site.scope.initializers[site.node.outputs[0]] = value


def _first_name(site: NodeConversion) -> None:
    """ScatterElements was called Scatter."""
    site.require_types()
    site.keep(op_type="Scatter")


def _dense(site: NodeConversion) -> None:
    """Before version 11 Constant holds no sparse tensor."""
    sparse = site.node.attributes.get("sparse_value")
    if not isinstance(sparse, SparseTensor):
        narrow(site)
        return
    array = np.zeros(sparse.shape, sparse.values.dtype)
    indices = sparse.indices
    array[tuple(indices.T) if indices.ndim == 2 else np.unravel_index(indices, array.shape)] = sparse.values
    site.keep(attributes={"value": array})


def _scan_with_batch(site: NodeConversion) -> None:
    """Scan 8 goes over a batch of sequences: here one of them."""
    states = len(site.node.inputs) - site.attribute("num_scan_inputs")
    rows = len(site.node.outputs) - states
    for name in ("scan_input_axes", "scan_output_axes", "scan_output_directions"):
        if any(site.attribute(name) or ()):
            raise newer(site, f"attribute '{name}' ({site.attribute(name)})")
    inputs = ["", *(site.add("Unsqueeze", name, axes=(0,)) for name in site.node.inputs)]
    outputs = tuple(name and site.fresh(f"{name}.batch") for name in site.node.outputs)
    directions = site.attribute("scan_input_directions")
    same = {name: site.node.attributes[name] for name in ("body", "num_scan_inputs")}
    more = {} if directions is None else {"directions": tuple(directions)}
    assert rows >= 0
    site.write(replace(site.node, inputs=tuple(inputs), outputs=outputs, attributes={**same, **more}))
    for result, name in zip(outputs, site.node.outputs, strict=True):
        if name:
            site.write(Node("Squeeze", (result,), (name,), {"axes": (0,)}, name))


def _values(site: NodeConversion) -> None:
    """Version 19 brought coordinates of its own."""
    mode = site.attribute("coordinate_transformation_mode")
    if mode == "half_pixel_symmetric":
        raise newer(site, f"attribute 'coordinate_transformation_mode' ('{mode}')")
    narrow(site)


def _all_axes(site: NodeConversion) -> None:
    """Version 18 resizes some axes, and can keep the aspect ratio; before, numbers for all axes are given."""
    policy = site.attribute("keep_aspect_ratio_policy")
    if policy != "stretch" and site.reads(3):
        raise newer(site, f"attribute 'keep_aspect_ratio_policy' ('{policy}')")
    rest = site.attributes("axes", "keep_aspect_ratio_policy")
    axes = site.attribute("axes")
    if axes is None:
        narrow(site, attributes=rest)
        return
    if site.reads(1) and site.attribute("coordinate_transformation_mode") == "tf_crop_and_resize":
        raise newer(site, "attribute 'axes' with input 'roi'")
    rank = site.needs_rank(site.input(0))
    places = [axis % rank for axis in axes]
    inputs = [site.input(0), "", "", ""]
    if site.reads(2):
        inputs[2] = _spread(site, 2, places, [1.0] * rank)
    else:
        shape = site.shape(site.input(0))
        if shape is None:
            raise newer(site, "attribute 'axes' for a shape that is not known")
        inputs[3] = _spread(site, 3, places, list(shape))
    narrow(site, inputs=inputs, attributes=rest)


def _spread(site: NodeConversion, position: int, places: list[int], rest: list[float]) -> str:
    """The constant input with an entry for every axis."""
    values = site.value(site.input(position))
    if values is None:
        raise newer(site, "attribute 'axes' with a computed size")
    for place, value in zip(places, values.reshape(-1), strict=True):
        rest[place] = value.item()
    return site.constant(np.array(rest, values.dtype))


def _empty(site: NodeConversion) -> None:
    """Version 11 has no inputs that are left out: they are empty."""
    inputs = [*site.node.inputs, "", "", ""][:4]
    dtype = site.dtype(inputs[1]) if inputs[1] else np.dtype(np.float32)
    inputs[1] = inputs[1] or site.constant(np.zeros(0), dtype)
    inputs[2] = inputs[2] or site.constant(np.zeros(0), np.float32)
    narrow(site, inputs=inputs)


def _factors(site: NodeConversion) -> np.ndarray | None:
    """The factors of all axes as far as constants tell them; those of sizes where they are whole numbers."""
    scales, sizes = (site.value(name) if name else None for name in (site.input(2), site.input(3)))
    if scales is not None and scales.size:
        return np.asarray(scales, np.float32)
    shape = site.shape(site.input(0))
    if sizes is None or shape is None or any(n == 0 or m % n for m, n in zip(sizes.tolist(), shape, strict=True)):
        return None
    return np.asarray(sizes // np.array(shape), np.float32)


def _first(site: NodeConversion) -> None:
    """Resize 10: element 0 stays where it is; nearest rounds down where an axis grows, and up where it shrinks."""
    factors = _factors(site)
    mode, where = site.attribute("mode"), site.attribute("coordinate_transformation_mode")
    if factors is None:
        raise newer(site, "a size that is no whole multiple of the input's, or is computed,")
    whole = bool((factors == np.rint(factors)).all() and (factors >= 1).all())
    rounding = site.attribute("nearest_mode")
    if mode == "nearest":
        grows, shrinks = bool((factors >= 1).all()), bool((factors <= 1).all())
        fits = where == "asymmetric" and ((rounding == "floor" and grows) or (rounding == "ceil" and shrinks))
        # Centres of elements of a whole multiple lie strictly within the element that they are a part of.
        fits |= whole and where in ("half_pixel",) and rounding.startswith("round_prefer")
    else:
        fits = mode == "linear" and where == "asymmetric"
    if not fits:
        raise newer(site, f"mode '{mode}' with coordinates '{where}'" + (f" and '{rounding}'" * (mode == "nearest")))
    narrow(site, inputs=(site.input(0), site.constant(factors)), attributes={"mode": mode})


def _upsample(site: NodeConversion) -> None:
    """Upsample 9 is Resize 10 where no axis shrinks."""
    factors = site.value(site.input(1))
    if factors is None or (factors < 1).any():
        raise newer(site, "an axis that shrinks, or a computed scale,")
    dtype = site.needs_dtype(site.input(0))
    if dtype.kind == "V":
        raise newer(site, f"an input of {dtype}")
    site.keep(op_type="Upsample")


def _scales(site: NodeConversion) -> None:
    factors = site.value(site.input(1))
    if factors is None:
        constant_ints(site, 1)
    assert factors is not None
    scales = tuple(float(v) for v in factors.reshape(-1))
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes(scales=scales))


def _height_and_width(site: NodeConversion) -> None:
    scales = site.attribute("scales")
    if len(scales) != 4 or scales[:2] != (1.0, 1.0):
        raise newer(site, f"attribute 'scales' {list(scales)}")
    mode = site.attribute("mode")
    named = {"height_scale": scales[2], "width_scale": scales[3], "mode": "bilinear" if mode == "linear" else mode}
    narrow(site, attributes=named)


STEPS: Steps = {
    "BatchNormalization": {6: _batch_consumed, 7: _batch_is_test, 14: _batch_by_outputs, 15: _batch_types},
    **{name: {11: _softmax_axis, 13: _softmax} for name in ("Hardmax", "LogSoftmax", "Softmax")},
    "Gemm": {7: _gemm_broadcast, 11: _gemm_zero},
    "PRelu": {7: _slopes},
    "GlobalLpPool": {2: _power_of_pool},
    "LpPool": {2: _power_of_pool},
    "GRU": {3: _gru_first, 7: _output_sequence, 14: _time_first},
    "LSTM": {7: _output_sequence, 14: _time_first},
    "RNN": {7: _output_sequence, 14: _time_first},
    "DepthToSpace": {11: _blocks_to_space},
    "SpaceToDepth": {28: _blocks_to_space},
    "QuantizeLinear": {13: _per_tensor, 21: _output_dtype, 23: _scale_of_type},
    "DequantizeLinear": {13: _per_tensor, 23: _scale_decides},
    "GridSample": {20: _mode_names},
    "RoiAlign": {16: _half_pixel},
    "ScatterElements": {11: _first_name, 18: _no_reduction("max", "min")},
    "ScatterND": {18: _no_reduction("max", "min")},
    "Shape": {15: _shape_part},
    "Constant": {9: _typed_constant, 11: _dense, 12: _constant_tensor},
    "Scan": {9: _scan_with_batch},
    "Resize": {10: _upsample, 11: _first, 13: _empty, 18: _all_axes, 19: _values},
    "Upsample": {7: _height_and_width, 9: _scales},
}
