"""Softmax and its relatives, and GroupNormalization."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps


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


UP: Steps = {
    "Softmax": {13: _over_one_axis},
    "LogSoftmax": {13: _over_one_axis},
    "Hardmax": {13: _over_one_axis},
    "GroupNormalization": {21: _scale_per_channel},
}
