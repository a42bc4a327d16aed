"""Resize, and Upsample, which it took the place of."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.site import Site
from hwflow.onnx.conversion.steps import Steps

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


UP: Steps = {
    "Upsample": {7: _scales_listed, 9: _scales_as_input, 10: _resize},
    "Resize": {11: _coordinates_stated, 13: _no_tf_half_pixel},
}
