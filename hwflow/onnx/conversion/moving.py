"""Operators that move, choose, pad or repeat elements: their numbers became inputs."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Stated, Steps
from hwflow.onnx.dtypes import element_type_of


def _pads_renamed(site: NodeConversion) -> None:
    site.keep(attributes=site.attributes("paddings", pads=site.attribute("paddings")))


def _pads_as_input(site: NodeConversion) -> None:
    """Pad to 11.  The value has the type of the input; 0 is what the operator takes without one."""
    x, value = site.input(0), site.attribute("value")
    inputs = [x, site.constant(site.attribute("pads"), np.int64)]
    if value and site.attribute("mode") == "constant":
        inputs.append(site.constant(np.asarray(value, np.float32).astype(site.needs_dtype(x))))
    site.keep(inputs=tuple(inputs), attributes=site.attributes("pads", "value"))


def _shape_as_input(site: NodeConversion) -> None:
    """Reshape to 5.  Without the attribute the result is a scalar."""
    shape = site.constant(site.attribute("shape") or (), np.int64)
    site.keep(inputs=(site.input(0), shape), attributes=site.attributes("shape", "consumed_inputs"))


def _ends_as_inputs(site: NodeConversion) -> None:
    """Slice to 10."""
    moved = [site.moved(name) for name in ("starts", "ends", "axes")]
    inputs = (site.input(0), *(moved if moved[-1] else moved[:-1]))
    site.keep(inputs=inputs, attributes=site.attributes("starts", "ends", "axes"))


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


def _sizes_as_input(site: NodeConversion) -> None:
    """Split to 13."""
    inputs = site.node.inputs[:1]
    if site.node.attributes.get("split", ()) != ():
        inputs = (*inputs, site.moved("split"))
    site.keep(inputs=inputs, attributes=site.attributes("split"))


def _counted(site: NodeConversion) -> None:
    """Split to 18: without sizes the number of parts must be told."""
    more = {} if site.reads(1) else {"num_outputs": len(site.node.outputs)}
    site.keep(attributes=site.attributes(**more))


def _axes_as_input(site: NodeConversion) -> None:
    """Squeeze and Unsqueeze to 13."""
    inputs = site.node.inputs[:1]
    if site.has("axes"):
        inputs = (*inputs, site.moved("axes"))
    site.keep(inputs=inputs, attributes=site.attributes("axes"))


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


def _scatter_elements(site: NodeConversion) -> None:
    """Scatter is ScatterElements under its first name."""
    site.keep(op_type="ScatterElements")


UP: Steps = {
    "Pad": {2: _pads_renamed, 11: _pads_as_input},
    "Reshape": {5: _shape_as_input},
    "Slice": {10: _ends_as_inputs},
    "Split": {2: _sizes_as_attribute, 13: _sizes_as_input, 18: _counted},
    "Squeeze": {13: _axes_as_input},
    "Unsqueeze": {13: _axes_as_input},
    "Tile": {6: _tiled_everywhere},
    "Concat": {4: Stated({"axis": 1})},
    "Scatter": {11: _scatter_elements},
}
