"""Products with constant weights: Conv, Gemm, MatMul."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Node
from hwflow.quantize.importer.anchors import is_pointwise, matrix
from hwflow.quantize.importer.element_places import pixel_places
from hwflow.quantize.importer.layer_anchors import Average, Matrix
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import Pending, State


def conv(site: Site, node: Node, dynamic: list[str]) -> State:
    """A Conv over an image or a signal; of single pixels these may stand in any order."""
    held = site.held(dynamic[0], real=False)
    if not is_pointwise(node, site.constants) or pixel_places(site.tensors[held.tensor].frame, held.index) is None:
        held = site.movement.image(held, dynamic[0])
    return padded(site, node, matrix(node, held, site.tensors[held.tensor].frame, site.constants))


def dense(site: Site, node: Node, dynamic: list[str]) -> State:
    """A Gemm or MatMul of one row."""
    return matrix(node, site.flat(dynamic[0]), None, site.constants)


def padded(site: Site, node: Node, made: Pending) -> Pending:
    """A Conv or mean of `node` whose input has the zero that its window pads with."""
    anchor = made.anchor
    if not isinstance(anchor, (Matrix, Average)) or anchor.window is None or not any(anchor.window.pads):
        return made
    return replace(made, anchor=replace(anchor, sources=(site.building.holding_zero(anchor.source, node),)))
