"""Resize in mode nearest from the formulas of ONNX's text: in exact fractions, or in float32 as a runtime computes.

onnxruntime leaves an axis that keeps its size as it is, whatever region tf_crop_and_resize looks at, and takes some of
the region's ends for outside.  `with_places` writes such a Resize as the elements that it takes, one axis after the
other, so that onnxruntime can run the rest.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from hwflow.onnx import infer
from hwflow.onnx.model import Array, Model, Node

CROP = "tf_crop_and_resize"

Number = Callable[[Any], Any]

_NEAREST: dict[str, Callable[[Any, Any], int]] = {
    "floor": lambda x, half: math.floor(x),
    "ceil": lambda x, half: math.ceil(x),
    "round_prefer_floor": lambda x, half: math.ceil(x - half),
    "round_prefer_ceil": lambda x, half: math.floor(x + half),
}


def places(
    coordinates: str, nearest: str, old: int, new: int, scale: Fraction, region: Sequence[float],
    number: Number = Fraction,
) -> list[int | None]:
    """For each of `new` elements which of `old` it is; None outside of the region's tensor.  `number`: in which
    arithmetic, Fraction or np.float32."""
    half, s, made = number(Fraction(1, 2)), number(scale), list[int | None]()
    start, end = (number(Fraction(end)) for end in region)
    for y in map(number, range(new)):
        if coordinates == CROP:
            x = (start * (old - 1) + y * (end - start) * (old - 1) / number(new - 1) if new > 1
                 else half * (start + end) * (old - 1))  # fmt: skip
            if x < 0 or x > old - 1:
                made.append(None)
                continue
        elif coordinates == "align_corners":
            x = y * (old - 1) / number(new - 1) if new > 1 else number(0)
        elif coordinates == "asymmetric":
            x = y / s
        elif coordinates == "pytorch_half_pixel" and new == 1:
            x = number(0)
        else:
            x = (y + half) / s - half
            if coordinates == "half_pixel_symmetric":
                x = number(old) * half * (1 - number(new) / (s * old)) + x
        made.append(min(max(_NEAREST[nearest](x, half), 0), old - 1))
    return made


def agree(coordinates: str, nearest: str, old: int, new: int, scale: Fraction, region: Sequence[float]) -> bool:
    """Whether float32 finds the places that exact arithmetic finds, and the length is not a rounded one.

    Runtimes disagree whether formulas with lengths mean the rounded one.
    """
    if coordinates not in ("asymmetric", "half_pixel", "pytorch_half_pixel") and scale * old != new:
        return False
    both = (places(coordinates, nearest, old, new, scale, region, number) for number in (Fraction, _float32))
    return next(both) == next(both)


def _float32(value: Any) -> np.float32:
    return np.float32(float(value))


def with_places(model: Model) -> Model:
    """`model` with Resizes in mode tf_crop_and_resize that take their elements with Gather."""
    crops = [n.outputs[0] for n in model.graph.nodes if n.attributes.get("coordinate_transformation_mode") == CROP]
    if not crops:
        return model
    model = infer(model)
    graph, nodes, added = model.graph, list[Node](), dict[str, Array]()
    for node in graph.nodes:
        nodes += _gathered(node, model, added) if node.outputs[0] in crops else [node]
    return replace(model, graph=replace(graph, nodes=tuple(nodes), initializers={**graph.initializers, **added}))


def _gathered(node: Node, model: Model, added: dict[str, Array]) -> list[Node]:
    graph = model.graph
    kinds = [graph.tensor_type(name) for name in (node.inputs[0], node.outputs[0])]
    old, new = ([int(n) for n in kind.shape] for kind in kinds)  # type: ignore[union-attr]
    axes = [int(k) % len(old) for k in node.attributes.get("axes", range(len(old)))]  # type: ignore[union-attr]
    roi = graph.initializers[node.inputs[1]].reshape(2, -1)
    scales = graph.initializers.get(node.inputs[2]) if node.inputs[2] else None
    made, name = list[Node](), node.inputs[0]
    for k, axis in enumerate(axes):
        scale = Fraction(new[axis], old[axis]) if scales is None else Fraction(float(scales[k]))
        nearest = str(node.attributes["nearest_mode"])
        found = places(CROP, nearest, old[axis], new[axis], scale, [float(end) for end in roi[:, k]])
        label = node.outputs[0] if k == len(axes) - 1 else f"{node.outputs[0]}.axis{axis}"
        added[f"{label}.places"] = np.array([place or 0 for place in found])
        shape = [-1 if other == axis else 1 for other in range(len(old))]
        added[f"{label}.inside"] = np.array([place is not None for place in found]).reshape(shape)
        added[f"{label}.outside"] = np.zeros((), kinds[0].dtype)  # type: ignore[union-attr]
        made.append(Node("Gather", (name, f"{label}.places"), (f"{label}.taken",), {"axis": axis}, f"{label}.gather"))
        inputs = (f"{label}.inside", f"{label}.taken", f"{label}.outside")
        made.append(Node("Where", inputs, (label,), {}, f"{label}.where"))
        name = label
    return made
