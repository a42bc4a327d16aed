"""BatchNormalization and Dropout: how operator sets tell training from inference."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps, Without
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Node


def _batch_by_outputs(site: Site) -> None:
    """BatchNormalization to 7: until then `is_test` says which it is, afterwards outputs beyond the first."""
    attributes = site.attributes("is_test")
    if site.attribute("is_test"):
        site.keep(attributes=attributes, outputs=site.node.outputs[:1])
        return
    given = [*site.node.outputs, *[""] * (5 - len(site.node.outputs))]
    kinds = ("", "mean", "var", "saved_mean", "saved_var")
    named = (name or site.fresh(f"{given[0]}.{kind}") for name, kind in zip(given, kinds, strict=True))
    site.keep(attributes=attributes, outputs=tuple(named))


def _batch_per_channel(site: Site) -> None:
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
    for position, (made, name) in enumerate(zip(outputs, site.node.outputs, strict=True)):
        if name:
            site.write(Node("Reshape", (made, shapes[min(position, 1)]), (name,), {}, name))


def _batch_by_mode(site: Site) -> None:
    """BatchNormalization to 14: training is an attribute, and the statistics of the batch are no outputs any more."""
    if not any(site.names(position) for position in range(1, 5)):
        site.keep(outputs=site.node.outputs[:1])
        return
    for position in (3, 4):
        if site.names(position):
            _statistic(site, site.node.outputs[position], squared=position == 4)
    outputs = site.node.outputs[:3]
    site.keep(outputs=outputs, attributes=site.attributes(training_mode=1))


def _statistic(site: Site, result: str, squared: bool) -> None:
    """The mean or the variance of each channel over the batch, under the name `result`."""
    planes = site.add("Reshape", site.input(0), site.constant([0, 0, -1], np.int64))
    if squared:
        mean = site.add("ReduceMean", planes, axes=(0, 2), keepdims=1)
        centred = site.add("Sub", planes, mean)
        planes = site.add("Mul", centred, centred)
    site.write(Node("ReduceMean", (planes,), (result,), {"axes": (0, 2), "keepdims": 0}, result))


def _dropout_in_inference(site: Site) -> None:
    """Dropout to 7, which does not train.  From 12 on it can again."""
    kept = site.attributes("is_test", "consumed_inputs")
    if site.attribute("is_test"):
        site.keep(attributes=kept)
        return
    site.later(12, "it drops elements, as in training (is_test=0), which no version from 7 to 11 does")
    ratio = site.constant(site.attribute("ratio"), np.float32)
    inputs = (site.input(0), ratio, site.constant(True, np.bool_))
    _with_mask(site, inputs=inputs, attributes={})


def _boolean_mask(site: Site) -> None:
    """Dropout to 10: the mask became a tensor of bool."""
    _with_mask(site)


def _with_mask(site: Site, **changes: object) -> None:
    if not site.names(1):
        site.keep(outputs=site.node.outputs[:1], **changes)
        return
    result, mask = site.node.outputs
    code = element_type_of(site.needs_dtype(site.input(0)), f"'{site.input(0)}'").code
    kept = site.fresh(f"{mask}.bool")
    site.keep(outputs=(result, kept), **changes)
    site.write(Node("Cast", (kept,), (mask,), {"to": code}, mask))


def _ratio_as_input(site: Site) -> None:
    """Dropout to 12.  Without its third input it still drops nothing."""
    inputs = site.node.inputs[:1]
    if site.has("ratio"):
        inputs = (*inputs, site.moved("ratio", np.float32))
    site.keep(inputs=inputs, attributes=site.attributes("ratio"))


UP: Steps = {
    "BatchNormalization": {
        6: Without(("consumed_inputs",)),
        7: _batch_by_outputs,
        9: _batch_per_channel,
        14: _batch_by_mode,
    },
    "Dropout": {6: Without(("consumed_inputs",)), 7: _dropout_in_inference, 10: _boolean_mask, 12: _ratio_as_input},
}
