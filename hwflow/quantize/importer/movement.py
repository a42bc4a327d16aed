"""Nodes that move elements: only the index of a tensor changes, until a layer needs the elements in their place."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Graph, Node
from hwflow.onnx.operators import SAME
from hwflow.quantize.graphs import apply, moved_indices, producers
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.element_places import channel_order, is_whole, offsets, padding_of, places
from hwflow.quantize.importer.layer_anchors import TensorAnchor
from hwflow.quantize.importer.states import Held, Lacking, Moved, Rounded, Step, Unrounded
from hwflow.quantize.importer.steps import varies

#: What has an index.
Movable: TypeAlias = Held | Unrounded | Rounded

#: Axes of the longest tensor that is an image.
_IMAGE = 4


def renamed(by: Moved | None, output: str) -> Moved | None:
    """The node that moved the elements, when ONNX calls them `output` next."""
    return by and replace(by, output=output, computed=False)


class Movement:
    """Moves indices, and puts elements in place as layers of `building`."""

    def __init__(self, graph: Graph, opsets: Mapping[str, int], building: Building) -> None:
        self.graph, self.building = graph, building
        self._opsets, self._made = opsets, producers(graph)

    def maker(self, name: str) -> Node:
        """The node that makes the tensor `name`."""
        return self._made[name]

    def layout(self, node: Node, state: Movable) -> Movable:
        """The result of a node that keeps all elements."""
        if node.op_type in SAME:
            return state
        parameters = {name: self.graph.initializers[name] for name in node.inputs[1:] if name}

        def index_of(index: IntArray) -> IntArray:
            return np.asarray(apply(node, self._opsets, {node.inputs[0]: index, **parameters}), np.int64)

        index = index_of(state.index)
        if index.ndim > _IMAGE and (index < 0).any() and not isinstance(state, Unrounded):
            held = self.in_place(state, node.inputs[0])  # what pads and then shuffles is one layer and another
            return replace(held, index=index_of(held.index), moved=Moved(node, node.outputs[0]))
        padding = state.moved.padding if state.moved is not None else 0.0
        return replace(state, index=index, moved=Moved(node, node.outputs[0], padding, _is_computed(state)))

    def move(self, node: Node, state: Movable) -> dict[str, Movable]:
        """The results of a node that chooses, repeats and pads."""
        indices = moved_indices(node, state.index, self.graph, self._opsets)
        pads = any(np.count_nonzero(index < 0) > np.count_nonzero(state.index < 0) for index in indices.values())
        padding = state.moved.padding if state.moved is not None else 0.0
        fill = padding_of(node, self.graph)
        if pads and isinstance(state, Unrounded):
            why = f"pads the result of {state.anchor.node.label}, which no QuantizeLinear made integer"
            raise Lacking(why, (state.result,), remedy="put a QuantizeLinear and DequantizeLinear in front of it")
        mixed = pads and bool((state.index < 0).any()) and padding != fill
        if not isinstance(state, Unrounded) and (mixed or not self._stays_simple(state.index, indices)):
            return self.move(node, self.in_place(state, node.inputs[0]))
        by = Moved(node, "", fill if pads else padding, _is_computed(state))
        return {name: replace(state, index=index, moved=replace(by, output=name)) for name, index in indices.items()}

    def _stays_simple(self, before: IntArray, after: Mapping[str, IntArray]) -> bool:
        """False where one layer can put the elements in place before the node, but not after it."""
        if any(is_simple(index) for index in after.values()) or not is_simple(before):
            return True
        own = places(before)[2]
        return bool(np.array_equal(before, own))

    def in_place(self, state: Held | Rounded, name: str, flat: bool = False) -> Held:
        """The tensor `name` with its elements in ONNX's order, as an image where it is one; `flat`: as one row."""
        held = self.building.held(state) if isinstance(state, Rounded) else state
        return self.building.arranged(held, Moved(self._made[name], name), flat)

    def pixels(self, held: Held, name: str, axes: tuple[int, ...]) -> Held:
        """The tensor `name` with the elements along `axes` as the pixels of a frame, those of an image as they are."""
        if held.index.ndim <= _IMAGE and axes == tuple(range(2, held.index.ndim)):
            return self.in_place(held, name)
        return self.building.arranged(held, Moved(self._made[name], name), pixels=axes)

    def rows(self, held: Held, name: str, axis: int = -1, in_order: bool = True) -> Held:
        """The tensor `name` as pixels whose channels are its elements along `axis`, in order.

        The pixels are the elements along the other axes, in order, or (`in_order` False) in any order.  The frame stays
        where its raster is that already; else it has one row of pixels.
        """
        rank, size = held.index.ndim, held.index.shape[axis]
        frame = self.building.tensors[held.tensor].frame
        pixels = np.moveaxis(held.index, axis, -1).reshape(-1, size)
        if not in_order:
            pixels = pixels[np.argsort(pixels[:, 0])]
        if frame.channels == size and np.array_equal(pixels.ravel(), np.arange(frame.elements)):
            return held
        others = tuple(k for k in range(rank) if k != axis % rank)
        return self.building.arranged(held, Moved(self._made[name], name), pixels=others)

    def chosen(self, held: Held, name: str, at: IntArray) -> Held:
        """The elements of the tensor `name` at the places `at` [pixels, channels] of its frame, as a frame of them.

        Unlike the results of other methods it is no tensor of ONNX's in another order: elements may come again.
        """
        by = replace(held.moved or Moved(self._made[name], name), computed=True)
        return self.building.arranged(replace(held, index=at, moved=by), by, pixels=(0,))

    def whole(self, held: Held, name: str) -> Held:
        """`held`, with its elements in place unless they are all those of its frame, each once."""
        return held if is_whole(held.index, self.building.tensors[held.tensor].frame) else self.in_place(held, name)

    def image(self, held: Held, name: str) -> Held:
        """`held` as an image [1, C, W] or [1, C, H, W] whose channels are in any order."""
        frame = self.building.tensors[held.tensor].frame
        try:
            channel_order(frame, held.index)
        except ValueError:
            held = self.in_place(held, name)
            channel_order(self.building.tensors[held.tensor].frame, held.index)
        return held

    def unrounded_in_place(self, unrounded: Unrounded, name: str, flat: bool = False) -> Unrounded:
        """A function of a tensor as the same function of the tensor in place; anything else as it is."""
        anchor = unrounded.anchor
        if not isinstance(anchor, TensorAnchor) or varies(unrounded):
            return unrounded
        by = unrounded.moved or Moved(self._made[name], name, computed=_is_computed(unrounded))
        source = replace(anchor.source, index=unrounded.index, real=True, moved=by)
        held = self.in_place(source, name, flat)
        if held.tensor == anchor.source.tensor:
            return replace(unrounded, index=held.index, moved=None)
        return self._rebased(unrounded, anchor, held)

    def spread(self, unrounded: Unrounded, name: str, over: Unrounded) -> Unrounded:
        """A function of a tensor as the same function of a frame as that of `over`, at whose places each element stands
        as often as the shapes broadcast to each other; anything else as it is."""
        anchor, frame, index = unrounded.anchor, over.anchor.frame, over.index
        fits = index.size == frame.elements and np.broadcast_shapes(unrounded.index.shape, index.shape) == index.shape
        if not isinstance(anchor, TensorAnchor) or varies(unrounded) or not fits:
            return unrounded
        order = np.empty(frame.elements, np.int64)
        order[index.ravel()] = np.broadcast_to(unrounded.index, index.shape).ravel()
        by = replace(unrounded.moved or Moved(self._made[name], name), computed=True)
        source = replace(anchor.source, index=unrounded.index, real=True, moved=by)
        places = order.reshape(frame.height, frame.width, frame.channels)
        return self._rebased(unrounded, anchor, self.building.ordered(source, places, index, by, ".spread"))

    def _rebased(self, unrounded: Unrounded, anchor: TensorAnchor, held: Held) -> Unrounded:
        """The function `unrounded` of the tensor of `anchor`, of `held` instead."""
        frame = self.building.tensors[held.tensor].frame
        own = TensorAnchor(anchor.node, held.tensor, frame, (held,))

        def rebased(step: Step) -> Step:
            return Step(step.node, tuple(own.key if source == anchor.key else source for source in step.inputs))

        result = own.key if unrounded.result == anchor.key else unrounded.result
        return Unrounded(own, held.index, tuple(map(rebased, unrounded.steps)), result)


def _is_computed(state: Movable) -> bool:
    return isinstance(state, Unrounded) and bool(state.steps)


def is_simple(index: IntArray) -> bool:
    """True where one Rearrange puts the elements in place."""
    return offsets(places(index)[1]) is not None
