"""The importer: a QDQ graph in, integer layers and what is left for the host out."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from hwflow_base.errors import reason_of

from hwflow.layers import Frame, LayerGraph, Tensor
from hwflow.layers.base import Origin, State
from hwflow.onnx import operators
from hwflow.onnx.model import Model, Node
from hwflow.quantize.constants import quantities
from hwflow.quantize.graphs import (
    dynamic_inputs,
    host_prefix,
    host_suffix,
    is_computed,
    moves,
    producers,
)
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.element_places import frame_of, in_vectors, places
from hwflow.quantize.importer.inputs import Inputs, integer_limits, parameters, selection
from hwflow.quantize.importer.joins import broadcast, concat, element_wise
from hwflow.quantize.importer.kinds import HANDLERS
from hwflow.quantize.importer.layer_anchors import TensorAnchor
from hwflow.quantize.importer.movement import Movement, renamed
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import (
    QUANTIZE_ALL,
    Broken,
    Entry,
    Held,
    Lacking,
    Misplaced,
    OnHost,
    Parameters,
    Rounded,
    TensorState,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.importer.steps import varies
from hwflow.quantize.problems import Cause, Problem
from hwflow.quantize.settings import LayerSettings


class Importer:
    """Walks a QDQ model once.  Then `states` says where every tensor is, and `building` holds the graph.

    `ranks`: an ArgMax, ArgMin or TopK at the end becomes a layer.
    """

    def __init__(self, model: Model, chosen: Callable[[Node], LayerSettings], ranks: bool = False) -> None:
        self.model, self.graph = model, model.graph
        self.constants = quantities(model.graph, model.opsets)
        self.front = host_prefix(model.graph)
        layers = operators.RANKINGS if ranks else frozenset[str]()
        self.suffix = host_suffix(model.graph, operators.HOST_AFTER, never=layers)
        self._behind = host_suffix(model.graph, operators.HOST_AFTER)
        self.states: dict[str, TensorState] = {value.name: OnHost(in_epilogue=False) for value in model.graph.inputs}
        self.building = Building(model, self.suffix, chosen)
        self.inputs = Inputs(model, self.constants, self.building)
        self.problems: list[Problem] = []
        #: What the problems come from that a quantizer would solve.
        self.lacking: list[str] = []
        self.movement = Movement(model.graph, model.opsets, self.building)
        self._made = producers(model.graph)
        self.context = NodeContext(
            model.graph, model.opsets, model.metadata, self.constants, self.states, self.building, self.inputs,
            self.movement,
        )  # fmt: skip

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.building.tensors

    def walk(self) -> None:
        """Give every tensor a state.  Problems are collected, not raised."""
        for node in self.graph.nodes:
            dynamic = [name for name in dynamic_inputs(node, self.graph) if name not in self.constants]
            if not dynamic:
                continue
            state: TensorState | dict[str, TensorState]
            try:
                if any(isinstance(self.states[name], Broken) for name in dynamic):
                    state = Broken()
                else:
                    state = self._state(node, dynamic)
            except Unsupported as problem:
                if node.outputs[0] in self.suffix and not (isinstance(problem, Lacking) and self._reads_host(dynamic)):
                    state = OnHost(in_epilogue=True)
                else:
                    self.problems.append(problem.of(node))
                    self.lacking += problem.names if isinstance(problem, Lacking) else ()
                    state = Broken()
            for name in filter(None, node.outputs):
                self.states[name] = state[name] if isinstance(state, dict) else state

    def _reads_host(self, dynamic: list[str]) -> bool:
        """Whether some input is made in the prologue."""
        return any(isinstance(self.states[name], (OnHost, Entry)) for name in dynamic)

    def layer_graph(self, outputs: tuple[str, ...], states: tuple[State, ...] = ()) -> LayerGraph:
        """The integer graph, once `walk`, the epilogue and the states are done."""
        layers = tuple(self.building.layers)
        named = {read: Origin(name, "") for read, name in self.inputs.of_states.items()}
        return LayerGraph(self.graph.name, dict(self.tensors), layers, self.inputs.of_the_host, outputs, states, named)

    # One method per group of operators.

    def _state(self, node: Node, dynamic: list[str]) -> TensorState | dict[str, TensorState]:
        """The state of the node's results: one for all, or one for each."""
        state, op = self.states[dynamic[0]], node.op_type
        if node.outputs[0] in self.front:
            return OnHost(in_epilogue=False)
        handled = self._handled(node, dynamic)
        if handled is not None:
            return handled
        states = [self.states[name] for name in dynamic]
        if any(isinstance(other, OnHost) for other in states):
            return self._on_host(node, dict(zip(dynamic, states, strict=True)))
        if op == "QuantizeLinear":
            return self._quantize(node, dynamic[0])
        if op == "DequantizeLinear":
            return self._dequantize(node, state)
        if op in operators.LAYOUT:
            return self.movement.layout(node, self._movable(state))
        if moves(node, self.graph):
            return dict(self.movement.move(node, self._movable(state)))
        if op in operators.JOINS:
            return self._concat(node, dynamic)
        if op in operators.CLAMPS and isinstance(state, (Rounded, Held)) and not getattr(state, "real", False):
            return self._narrow(node, state)
        if op in operators.ELEMENTWISE:
            unrounded = self._element_wise(node, dynamic)
            return selection(node, unrounded, self.constants) or unrounded
        return OnHost(in_epilogue=True)

    def _on_host(self, node: Node, states: dict[str, TensorState]) -> TensorState:
        reals = tuple(name for name, state in states.items() if isinstance(state, OnHost))
        if any(isinstance(state, OnHost) and state.in_epilogue for state in states.values()):
            return OnHost(in_epilogue=True)
        if node.op_type == "DequantizeLinear":
            return self.inputs.read_by(node)
        if len(reals) < len(states):
            raise Lacking("joins values that are not quantized with integers", reals, Cause.NEIGHBOUR)
        return OnHost(in_epilogue=False)

    def _quantize(self, node: Node, name: str) -> TensorState:
        p, state = parameters(node, self.graph, self.constants), self.states[name]
        if isinstance(state, Entry):
            return OnHost(in_epilogue=False)
        if not isinstance(state, Held) or not state.real:
            unrounded = self.unrounded(name)
            moved = renamed(unrounded.moved, node.outputs[0])
            return Rounded(unrounded, node, node.outputs[0], p, unrounded.index, moved)
        x, by = self.tensors[state.tensor], renamed(state.moved, node.outputs[0])
        if by is not None:
            by = replace(by, padding=p.integer_of(by.padding))
        fits = p.format.low <= x.format.low and x.format.high <= p.format.high
        if (x.scale, x.zero_point) == (p.scale, p.zero_point) and fits:
            return replace(state, real=False, moved=by)
        return Rounded(self.kept(state, node), node, node.outputs[0], p, state.index, by)

    def _dequantize(self, node: Node, state: TensorState) -> TensorState:
        if isinstance(state, Rounded):
            state = self.building.held(state)
        if not isinstance(state, Held) or state.real:
            raise Unsupported("reads a tensor that no QuantizeLinear made integer", QUANTIZE_ALL)
        p, by = parameters(node, self.graph, self.constants), state.moved
        self.building.dequantize(state.tensor, p)
        if by is not None:
            by = replace(by, padding=float(np.float32((by.padding - p.zero_point) * p.scale)))
        return replace(state, real=True, moved=by)

    def _narrow(self, node: Node, state: Rounded | Held) -> TensorState:
        """A Clip or Relu on integers limits what the QuantizeLinear before it makes; elsewhere it is a table."""
        p = state.parameters if isinstance(state, Rounded) else Parameters.of(self.tensors[state.tensor])
        low, high = integer_limits(node, self.constants, p)
        by, narrow = renamed(state.moved, node.outputs[0]), replace(p, low=low, high=high)
        if by is not None:
            by = replace(by, padding=min(max(by.padding, low), high))
        if isinstance(state, Rounded):
            unrounded, quantizer = replace(state.unrounded, index=state.index), state.node
        elif (low, high) == (p.low, p.high):
            return replace(state, moved=by)
        else:
            unrounded, quantizer = self.kept(state, node), node
        return Rounded(unrounded, quantizer, node.outputs[0], narrow, state.index, by)

    def _movable(self, state: TensorState) -> Held | Unrounded | Rounded:
        if isinstance(state, Entry):
            state = self._entered(state)
        assert isinstance(state, (Held, Unrounded, Rounded))
        return state

    def _entered(self, entry: Entry) -> Held:
        """The entry in a frame: an image, or a row where it is none."""
        row = Frame(1, 1, int(np.prod(entry.shape)))
        return self.inputs.enter(entry, None if frame_of(entry.shape) is not None else row)

    def _element_wise(self, node: Node, dynamic: list[str]) -> Unrounded:
        operands = {name: self.unrounded(name) for name in dynamic}
        try:
            return element_wise(node, operands, self.constants)
        except Misplaced:
            if len(operands) == 1 and node.outputs[0] in self.suffix and not self._reads_host(dynamic):
                raise  # the host computes it without another layer
            if len(operands) == 1 and not self._fits_in_place(node, *operands.values()):
                return element_wise(node, operands, self.constants, per_element=True)
            if len(operands) == 2 and len({unrounded.index.size for unrounded in operands.values()}) > 1:
                operands = self._spread(operands)
                with contextlib.suppress(Misplaced):
                    return element_wise(node, operands, self.constants)
            return element_wise(node, self._in_one_place(operands), self.constants)

    def _in_one_place(self, operands: Mapping[str, Unrounded]) -> dict[str, Unrounded]:
        """The operands with their elements in place; in one shape where those of a smaller one must come again."""
        if len(operands) == 2:
            a, b = ((frame, index) for frame, _, index in (places(operand.index) for operand in operands.values()))
            if broadcast(a, b) is None:
                shape = np.broadcast_shapes(a[1].shape, b[1].shape)
                operands = {name: replace(operand, index=np.broadcast_to(operand.index, shape))
                            for name, operand in operands.items()}
        return {name: self.movement.unrounded_in_place(operand, name) for name, operand in operands.items()}

    def _spread(self, operands: Mapping[str, Unrounded]) -> dict[str, Unrounded]:
        """Both operands of a join, the smaller one over the frame of the other."""
        (small, part), (_, whole) = sorted(operands.items(), key=lambda item: item[1].index.size)
        spread = self.movement.spread(part, small, whole)
        return {name: spread if name == small else unrounded for name, unrounded in operands.items()}

    def _fits_in_place(self, node: Node, unrounded: Unrounded) -> bool:
        """True where elements that stand across each other's pixels have, once in order, one constant per channel."""
        anchor = unrounded.anchor
        if not isinstance(anchor, TensorAnchor) or varies(unrounded) or in_vectors(unrounded.index, anchor.frame):
            return False
        own = places(unrounded.index)
        moved = Unrounded.of(replace(unrounded.anchor, frame=own[0]), own[2])
        try:
            element_wise(node, {name: moved for name in node.inputs if name not in self.constants}, self.constants)
        except Misplaced:
            return False
        return True

    def _concat(self, node: Node, dynamic: list[str]) -> TensorState:
        states = [self.states[name] for name in node.inputs if name in self.states]
        if len(states) < len([name for name in node.inputs if name]):
            raise Unsupported("joins constants with computed tensors", "remove the constant channels")
        integers = [isinstance(state, Rounded) or (isinstance(state, Held) and not state.real) for state in states]
        if any(integers) and not all(integers):
            raise Unsupported("joins integers with reals", QUANTIZE_ALL)
        names = [name for name in node.inputs if name]
        if not any(integers):
            return self._joined(node, names, [self.unrounded(name) for name in names])
        parts = []
        for name, state in zip(names, states, strict=True):
            held = self.building.held(state) if isinstance(state, Rounded) else state
            assert isinstance(held, Held)
            parts.append(self.kept(replace(self.movement.whole(held, name), real=True), node))
        return replace(self.building.joined(self._joined(node, names, parts)), real=False)

    def _joined(self, node: Node, names: list[str], parts: list[Unrounded]) -> Unrounded:
        """Concat of frames that have the same height and width; where they do not, of images or of rows."""
        try:
            return concat(node, parts)
        except Misplaced:
            images = [self.movement.unrounded_in_place(part, name) for part, name in zip(parts, names, strict=True)]
        try:
            return concat(node, images)
        except Misplaced:
            return concat(
                node,
                [self.movement.unrounded_in_place(part, name, True) for part, name in zip(images, names, strict=True)],
            )

    def unrounded(self, name: str) -> Unrounded:
        """The reals of the tensor `name` as something that functions of one element can follow."""
        state = self.states[name]
        if isinstance(state, Entry):
            state = self._entered(state)
        if isinstance(state, Unrounded):
            return state
        if not isinstance(state, Held) or not state.real:
            raise Unsupported("computes with integers; they must be dequantized first", QUANTIZE_ALL)
        held = self.movement.whole(state, name)
        return self.kept(held, self._made.get(held.tensor.removesuffix(".frame")) or self.graph.nodes[0])

    def kept(self, held: Held, node: Node) -> Unrounded:
        x = self.tensors[held.tensor]
        return replace(Unrounded.of(TensorAnchor(node, x.name, x.frame, (held,)), held.index), moved=held.moved)

    # Operators that become layers of their own.

    def _handled(self, node: Node, dynamic: list[str]) -> TensorState | dict[str, TensorState] | None:
        """The states that the handler of `node` gives; None where it has none, or leaves it to others."""
        handler = HANDLERS.get((node.domain, node.op_type))
        if handler is None or (is_computed(node) and self._is_for_host(node)):
            return None
        try:
            return handler(self.context, node, dynamic)
        except ValueError as error:
            why, remedy = reason_of(error)
            if remedy:
                raise Unsupported(why, remedy) from None
            raise Unsupported(why, "", cut="") from None

    def _is_for_host(self, node: Node) -> bool:
        """True for what the host computes behind the last layer."""
        # What ranks the result of such a function leaves it out.
        ranked = node.op_type in operators.ORDERLY and node.outputs[0] in self._behind
        return (ranked or node.outputs[0] in self.suffix) and node.op_type not in operators.NEVER_ON_HOST
