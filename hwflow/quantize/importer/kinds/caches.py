"""Rows that replace others where a number of the host says: TensorScatter, as caches of keys and values are written."""

from __future__ import annotations

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import Frame, WriteRow
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.kinds.products import numbers_of
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import Entry, Held, Lacking

#: The remedy for a cache that is written in another way.
ONE_ROW = "write one row of the cache at a time, at a position that is an input of the model"


def tensor_scatter(context: NodeContext, node: Node, dynamic: list[str]) -> Held:
    """A TensorScatter of one row: a layer at once, because integers only change places."""
    cache, row = _cache(context, node.inputs[0]), context.held(node.inputs[1])
    axis = attribute(node, "axis", -2) % cache.index.ndim
    if not node.input(2) or row.index.shape[axis] != 1 or cache.index.shape[0] != 1:
        raise Refusal(f"must write one row of one sequence at a time, not {row.index.shape[axis]} of "
                      f"{cache.index.shape[0]}, at a computed position", ONE_ROW)
    x, new = (context.tensors[held.tensor] for held in (cache, row))
    if (x.format, x.scale, x.zero_point) != (new.format, new.scale, new.zero_point):
        raise Lacking(f"puts a row of another scale into a cache ({new.scale} and {x.scale})",
                      (node.inputs[0], node.inputs[1]), remedy="quantize a cache and its rows with one scale")
    cache, blocks = _in_blocks(context, cache, node.inputs[0], axis)
    rows = cache.index.shape[axis]
    order = _of_row(cache.index, row.index, axis)
    if not np.array_equal(order, np.arange(context.tensors[row.tensor].frame.elements)):
        row = context.movement.chosen(row, node.inputs[1], order.reshape(blocks, -1))
    position = numbers_of(context, node, node.inputs[2], rows)
    name = context.building.tensor_name(node.outputs[0])
    x = context.tensors[cache.tensor]
    layer = WriteRow(context.building.name_of(node), (x.name, row.tensor, position.tensor), name, blocks, rows)
    y = type(x)(name, x.frame, x.format, x.scale, x.zero_point)
    return context.building.made(layer, y, node.outputs[0], cache.index)


def _cache(context: NodeContext, name: str) -> Held:
    """The cache; one that the host makes enters with its last axis as channels."""
    state = context.states[name]
    if not isinstance(state, Entry):
        return context.held(name)
    last = state.shape[-1]
    return context.inputs.enter(state, Frame(1, int(np.prod(state.shape)) // last, last))


def _in_blocks(context: NodeContext, cache: Held, name: str, axis: int) -> tuple[Held, int]:
    """The cache in a frame whose raster is [blocks, rows, elements of a row], and how many blocks it has."""
    for held in (cache, None):
        held = held or context.movement.in_place(cache, name, flat=True)
        rows, frame = held.index.shape[axis], context.tensors[held.tensor].frame
        number = np.empty(frame.elements, np.int64)
        number[held.index.ravel()] = np.broadcast_to(
            np.arange(rows).reshape(-1, *(1,) * (held.index.ndim - 1 - axis)), held.index.shape).ravel()
        changes = np.flatnonzero(np.diff(number))
        width = int(changes[0]) + 1 if rows > 1 and len(changes) else frame.elements
        blocks = frame.elements // (rows * width)
        if np.array_equal(number, np.tile(np.repeat(np.arange(rows), width), blocks)):
            return held, blocks
    raise AssertionError("an order as in ONNX has its rows in blocks")


def _of_row(cache: IntArray, row: IntArray, axis: int) -> IntArray:
    """The places of the elements of the row, in the order in which those that they replace are in the cache."""
    first = np.take(cache, [0], axis)
    order: IntArray = row.ravel()[np.argsort(first.ravel(), kind="stable")]
    return order
