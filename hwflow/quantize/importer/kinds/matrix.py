"""Products with constant weights: Conv, Gemm, MatMul."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Node
from hwflow.quantize.importer.anchors import is_pointwise, matrix
from hwflow.quantize.importer.element_places import pixel_places
from hwflow.quantize.importer.layer_anchors import Average, Matrix
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import TensorState, Unrounded


def conv(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A Conv over an image or a signal; of single pixels these may stand in any order."""
    held = context.held(dynamic[0], real=False)
    frame = context.tensors[held.tensor].frame
    if not is_pointwise(node, context.constants) or pixel_places(frame, held.index) is None:
        held = context.movement.image(held, dynamic[0])
    return padded(context, node, matrix(node, held, context.tensors[held.tensor].frame, context.constants))


def dense(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A Gemm or MatMul of one row."""
    return matrix(node, context.flat(dynamic[0]), None, context.constants)


def padded(context: NodeContext, node: Node, unrounded: Unrounded) -> Unrounded:
    """A Conv or mean of `node` whose input has the zero that its window pads with."""
    anchor = unrounded.anchor
    if not isinstance(anchor, (Matrix, Average)) or anchor.window is None or not any(anchor.window.pads):
        return unrounded
    return replace(unrounded, anchor=replace(anchor, sources=(context.building.holding_zero(anchor.source, node),)))
