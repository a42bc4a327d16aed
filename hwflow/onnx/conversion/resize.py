"""Resize, and Upsample as it was called first: where coordinates come from, and sizes of some axes."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import AsInput, Steps, WithoutValues, constant_ints, narrow, newer


def _scales_listed(site: NodeConversion) -> None:
    """Upsample to 7: scales of all axes, instead of height and width."""
    scales = (1.0, 1.0, site.attribute("height_scale"), site.attribute("width_scale"))
    mode = site.attribute("mode")
    others = site.attributes("height_scale", "width_scale", scales=scales)
    site.keep(attributes={**others, "mode": "linear" if mode == "bilinear" else mode})


def _height_and_width(site: NodeConversion) -> None:
    scales = site.attribute("scales")
    if len(scales) != 4 or scales[:2] != (1.0, 1.0):
        raise newer(site, f"attribute 'scales' {list(scales)}")
    mode = site.attribute("mode")
    named = {"height_scale": scales[2], "width_scale": scales[3], "mode": "bilinear" if mode == "linear" else mode}
    narrow(site, attributes=named)


def _scales(site: NodeConversion) -> None:
    factors = site.value(site.input(1))
    if factors is None:
        constant_ints(site, 1)
    assert factors is not None
    scales = tuple(float(v) for v in factors.reshape(-1))
    narrow(site, inputs=site.node.inputs[:1], attributes=site.attributes(scales=scales))


def _resize(site: NodeConversion) -> None:
    """Upsample to Resize-10, whose coordinates it has."""
    mode = site.attribute("mode")
    site.keep(op_type="Resize", attributes={"mode": "linear" if mode == "bilinear" else mode})


def _upsample(site: NodeConversion) -> None:
    """Upsample 9 is Resize 10 where no axis shrinks."""
    factors = site.value(site.input(1))
    if factors is None or (factors < 1).any():
        raise newer(site, "an axis that shrinks, or a computed scale,")
    dtype = site.needs_dtype(site.input(0))
    if dtype.kind == "V":
        raise newer(site, f"an input of {dtype}")
    site.keep(op_type="Upsample")


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


#: With the coordinates of tf_half_pixel_for_nn, (i + 0.5) / scale, and with those of half_pixel, which are smaller by
#: 0.5, these round to the same element.
_HALF_PIXEL = {"floor": "round_prefer_ceil", "round_prefer_floor": "ceil"}


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


def _empty(site: NodeConversion) -> None:
    """Version 11 has no inputs that are left out: they are empty."""
    inputs = [*site.node.inputs, "", "", ""][:4]
    dtype = site.dtype(inputs[1]) if inputs[1] else np.dtype(np.float32)
    inputs[1] = inputs[1] or site.constant(np.zeros(0), dtype)
    inputs[2] = inputs[2] or site.constant(np.zeros(0), np.float32)
    narrow(site, inputs=inputs)


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


UP: Steps = {
    "Upsample": {7: _scales_listed, 9: AsInput("scales", np.float32, always=True), 10: _resize},
    "Resize": {11: _coordinates_stated, 13: _no_tf_half_pixel},
}

DOWN: Steps = {
    "Resize": {
        10: _upsample, 11: _first, 13: _empty, 18: _all_axes,
        19: WithoutValues("coordinate_transformation_mode", ("half_pixel_symmetric",)),
    },
    "Upsample": {7: _height_and_width, 9: _scales},
}
