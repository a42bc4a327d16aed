"""The importer as the handler of an operator (`importer/kinds`) sees it: its inputs as tensors of the graph."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from hwflow.layers import Frame, Tensor
from hwflow.onnx.model import Graph
from hwflow.quantize.constants import Quantity
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.inputs import Inputs
from hwflow.quantize.importer.joins import operand
from hwflow.quantize.importer.layer_anchors import TensorAnchor
from hwflow.quantize.importer.movement import Movement
from hwflow.quantize.importer.states import (
    Entry,
    Held,
    Joined,
    Lacking,
    OnHost,
    Rounded,
    TensorState,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.problems import Cause

#: Axes of the longest tensor that is an image.
_IMAGE = 4


@dataclass(frozen=True)
class NodeContext:
    """The importer at one node.  `metadata` is that of the model, `constants` has every constant, also behind a
    DequantizeLinear; `states` what is known of each computed tensor.

    Each method makes layers only where elements have to be put in place.  Unsupported: a tensor that the hardware
    cannot read.
    """

    graph: Graph
    opsets: Mapping[str, int]
    metadata: Mapping[str, str]
    constants: Mapping[str, Quantity]
    states: Mapping[str, TensorState]
    building: Building
    inputs: Inputs
    movement: Movement

    @property
    def tensors(self) -> Mapping[str, Tensor]:
        """The tensors of the layer graph so far."""
        return self.building.tensors

    def held(self, name: str, real: bool = True) -> Held:
        """The tensor `name`, its elements anywhere in its frame; one that the host makes enters as an image.

        `real`: ValueError where ONNX sees its integers, and not their dequantized values.
        """
        state = self._there(name)
        held = self.inputs.enter(state, None) if isinstance(state, Entry) else state
        return _real(held) if real else held

    def image(self, name: str, real: bool = True) -> Held:
        """The tensor `name` as [1, C, W] or [1, C, H, W] whose channels are in any order."""
        return self.movement.image(self.held(name, real), name)

    def flat(self, name: str) -> Held:
        """All elements of the tensor `name`, each once; one that the host makes enters as a row."""
        state = self._there(name)
        if isinstance(state, Entry):
            state = self.inputs.enter(state, Frame(1, 1, int(np.prod(state.shape))))
        return self.movement.whole(_real(state), name)

    def rows(self, name: str, axis: int = -1, in_order: bool = True) -> Held:
        """The tensor `name` as pixels whose channels are its elements along `axis`, in order.

        The pixels are the elements along all other axes, in order; the frame has one row of them, or is that of the
        tensor before where it is the same raster.  With `in_order` False they may be in any order: a layer that treats
        all pixels alike gives its result the same frame and the same index.
        """
        state = self._there(name)
        if isinstance(state, Entry):
            rank = len(state.shape)
            if 2 <= rank <= _IMAGE and axis % rank == 1:
                held = self.inputs.enter(state, None)
            else:
                last = state.shape[-1]
                held = self.inputs.enter(state, Frame(1, int(np.prod(state.shape)) // last, last))
        else:
            held = state
        return self.movement.rows(_real(held), name, axis, in_order)

    def operand(self, name: str) -> tuple[Held, Fraction]:
        """The tensor `name` as it is in the graph, and the constant factor of the nodes behind it."""
        state = self.states[name]
        if isinstance(state, Unrounded) and isinstance(state.anchor, TensorAnchor):
            return operand(state)
        return self.held(name), Fraction(1)

    def _there(self, name: str) -> Held | Entry:
        """The tensor `name` as something that a layer can read."""
        state = self.states[name]
        if isinstance(state, OnHost):
            if not state.in_epilogue:
                raise Lacking("reads values that are not quantized", (name,), Cause.NEIGHBOUR)
            raise Unsupported("comes after a node that runs on the host", "remove that node", Cause.NEIGHBOUR)
        if isinstance(state, Unrounded):
            if not isinstance(state.anchor, Joined) or state.steps:
                where = state.steps[-1].node if state.steps else state.anchor.node
                why = f"reads the result of {where.label}, which no QuantizeLinear made integer"
                raise Lacking(why, (name,))
            state = self.building.joined(state)
        if isinstance(state, Rounded):
            state = self.building.held(state)
        assert isinstance(state, Held | Entry)
        return state


def _real(held: Held) -> Held:
    if not held.real:
        raise ValueError("its input must be dequantized first (DequantizeLinear)")
    return held
