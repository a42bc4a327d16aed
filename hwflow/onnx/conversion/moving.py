"""Operators that move, choose, pad or repeat elements: their numbers became inputs, axes count from the end, too."""

from __future__ import annotations

import math

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import (
    AsAttribute,
    AsInput,
    Stated,
    Steps,
    WithoutValues,
    axes_from_front,
    axis_from_front,
    constant_ints,
    from_front,
    narrow,
    needs_constant,
    newer,
)
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import SparseTensor, TensorType
from hwflow.onnx.types import notation


def _pads_renamed(site: NodeConversion) -> None:
    site.keep(attributes=site.attributes("paddings", pads=site.attribute("paddings")))


def _paddings(site: NodeConversion) -> None:
    narrow(site, attributes=site.attributes("pads", paddings=site.attribute("pads")))


def _pads_as_input(site: NodeConversion) -> None:
    """Pad to 11.  The value has the type of the input; 0 is what the operator takes without one."""
    x, value = site.input(0), site.attribute("value")
    inputs = [x, site.constant(site.attribute("pads"), np.int64)]
    if value and site.attribute("mode") == "constant":
        inputs.append(site.constant(np.asarray(value, np.float32).astype(site.needs_dtype(x))))
    site.keep(inputs=tuple(inputs), attributes=site.attributes("pads", "value"))


def _pad(site: NodeConversion) -> None:
    pads, value = constant_ints(site, 1), needs_constant(site, 2)
    assert pads is not None
    more = {} if value is None else {"value": float(value.reshape(-1)[0])}
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes(pads=pads, **more))


#: Values that came with a version.
_NO_WRAP = WithoutValues("mode", ("wrap",))
_NO_EXTREMES = WithoutValues("reduction", ("max", "min"))


def _pad_axes(site: NodeConversion) -> None:
    """Version 18 pads some axes; before, numbers for all of them are given."""
    _NO_WRAP.require(site)
    if not site.reads(3):
        narrow(site)
        return
    rank = site.needs_rank(site.input(0))
    axes, widths = from_front(site, constant_ints(site, 3) or (), rank), constant_ints(site, 1) or ()
    pads = [0] * (2 * rank)
    for i, axis in enumerate(axes):
        pads[axis], pads[rank + axis] = widths[i], widths[len(axes) + i]
    narrow(site, inputs=(site.input(0), site.constant(pads, np.int64), site.input(2)))


def _shape_as_input(site: NodeConversion) -> None:
    """Reshape to 5.  Without the attribute the result is a scalar."""
    shape = site.constant(site.attribute("shape") or (), np.int64)
    site.keep(inputs=(site.input(0), shape), attributes=site.attributes("shape", "consumed_inputs"))


def _allow_zero(site: NodeConversion) -> None:
    """With allowzero a 0 in the shape is a size, without it takes the size of the input."""
    shape = site.value(site.input(1))
    if not site.attribute("allowzero") or (shape is not None and (shape != 0).all()):
        narrow(site, attributes=site.attributes("allowzero"))
        return
    raise newer(site, "attribute 'allowzero' (1)")


def _ends_as_inputs(site: NodeConversion) -> None:
    """Slice to 10."""
    moved = [site.moved(name) for name in ("starts", "ends", "axes")]
    inputs = (site.input(0), *(moved if moved[-1] else moved[:-1]))
    site.keep(inputs=inputs, attributes=site.attributes("starts", "ends", "axes"))


def _slice(site: NodeConversion) -> None:
    starts, ends, axes, steps = (constant_ints(site, i) for i in (1, 2, 3, 4))
    if steps is not None and any(step != 1 for step in steps):
        raise newer(site, f"input 'steps' ({list(steps)})")
    assert starts is not None
    assert ends is not None
    listed = {"starts": starts, "ends": ends} | ({} if axes is None else {"axes": from_front(site, axes)})
    narrow(site, inputs=site.node.inputs[:1], attributes=listed)


def _slice_axes(site: NodeConversion) -> None:
    """Version 11 counts axes from the back, too."""
    axes = constant_ints(site, 3) if site.value(site.input(3)) is not None else None
    if axes is None or min(axes, default=0) >= 0:
        narrow(site)
        return
    inputs = list(site.node.inputs)
    inputs[3] = site.constant(from_front(site, axes), np.int64)
    narrow(site, inputs=inputs)


def _sizes_as_attribute(site: NodeConversion) -> None:
    """Split to 2, whose sizes are an attribute only, until they are an input from 13 on."""
    name = site.input(1)
    sizes = site.value(name) if name else None
    if not name or sizes is not None:
        other_attributes = {} if sizes is None else {"split": tuple(int(n) for n in sizes.reshape(-1))}
        site.keep(inputs=site.node.inputs[:1], attributes=site.attributes(**other_attributes))
        return
    site.later(13, f"the sizes of the parts are computed ('{name}'), and versions 2 to 12 take them as constants only")
    site.keep(inputs=(site.input(0), site.cast(name, np.int64)), attributes=site.attributes("split"))


def _counted(site: NodeConversion) -> None:
    """Split to 18: without sizes the number of parts must be told."""
    more = {} if site.reads(1) else {"num_outputs": len(site.node.outputs)}
    site.keep(attributes=site.attributes(**more))


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


def _axes_input(site: NodeConversion) -> None:
    """Squeeze, Unsqueeze: the input `axes` becomes an attribute."""
    axes = constant_ints(site, 1)
    if axes == () and site.node.op_type == "Squeeze":  # takes no axis away, where the attribute would take all
        site.result("Identity", site.input(0))
        return
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes() if axes is None else {"axes": axes})


def _tiled_everywhere(site: NodeConversion) -> None:
    """Tile to 6: one number for each axis, no longer an axis and its number.  Both were of the type of the input."""
    x, tiles, axis = site.node.inputs
    rank = site.needs_rank(x)
    places = np.arange(rank, dtype=np.int64)
    one = site.constant([1], np.int64)
    count, at = (site.add("Reshape", site.cast(name, np.int64), one) for name in (tiles, axis))
    if site.value(count) is None or site.value(at) is None:
        site.later(7, "the axis is computed, and operator set 6 compares no integers by broadcasting")
        chosen = [site.add("Equal", at, site.constant(p, np.int64)) for p in (places, places - rank)]
        here = site.add("Cast", site.add("Or", *chosen), to=element_type_of(np.dtype(np.int64), "").code)
        repeats = site.add("Add", site.add("Mul", here, site.add("Sub", count, one)), one)
    else:
        known = np.ones(rank, np.int64)
        known[int(np.asarray(site.value(at)).item())] = int(np.asarray(site.value(count)).item())
        repeats = site.constant(known)
    site.keep(inputs=(x, repeats))


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


def _scatter_elements(site: NodeConversion) -> None:
    """Scatter is ScatterElements under its first name."""
    site.keep(op_type="ScatterElements")


def _first_name(site: NodeConversion) -> None:
    """ScatterElements was called Scatter."""
    site.require_types()
    site.keep(op_type="Scatter")


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
    narrow(site, inputs=inputs, attributes=site.attributes(axis=from_front(site, [axis])[0]))


def _hot_axis(site: NodeConversion) -> None:
    """OneHot: the axis is one of the output's; version 9 knows -1, its default, but no other negative one."""
    axis = site.attribute("axis")
    if axis < -1:
        axis += site.needs_rank(site.input(0)) + 1
    narrow(site, attributes=site.attributes(axis=axis))


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


UP: Steps = {
    "Pad": {2: _pads_renamed, 11: _pads_as_input},
    "Reshape": {5: _shape_as_input},
    "Slice": {10: _ends_as_inputs},
    "Split": {2: _sizes_as_attribute, 13: AsInput("split", empty_too=False), 18: _counted},
    "Squeeze": {13: AsInput("axes")},
    "Unsqueeze": {13: AsInput("axes")},
    "Tile": {6: _tiled_everywhere},
    "Concat": {4: Stated({"axis": 1})},
    "Scatter": {11: _scatter_elements},
}

DOWN: Steps = {
    **{name: {11: axis_from_front} for name in ("Compress", "Concat", "Flatten")},
    "Squeeze": {11: axes_from_front, 13: _axes_input},
    "Unsqueeze": {11: axes_from_front, 13: _axes_input},
    "Split": {11: axis_from_front, 13: AsAttribute("split"), 18: _split_in_number},
    "Slice": {10: _slice, 11: _slice_axes},
    "Pad": {2: _paddings, 11: _pad, 18: _pad_axes, 19: _NO_WRAP},
    "Reshape": {5: AsAttribute("shape"), 14: _allow_zero},
    "Tile": {6: _tile},
    "Gather": {11: _gather},
    "OneHot": {11: _hot_axis},
    "DepthToSpace": {11: _blocks_to_space},
    "SpaceToDepth": {28: _blocks_to_space},
    "ScatterElements": {11: _first_name, 18: _NO_EXTREMES},
    "ScatterND": {18: _NO_EXTREMES},
    "Shape": {15: _shape_part},
    "Constant": {9: _typed_constant, 11: _dense, 12: _constant_tensor},
}
