"""The importer: a QDQ graph in, integer layers and what is left for the host out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hwflow.layers import Frame, LayerGraph, MaxPool, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model, Node
from hwflow.quantize import operators
from hwflow.quantize.constants import quantities
from hwflow.quantize.graphs import (
    apply,
    as_ints,
    attribute,
    dynamic_inputs,
    host_prefix,
    host_suffix,
    producers,
    shape_of,
)
from hwflow.quantize.importer.building import Building
from hwflow.quantize.importer.channels import channel_order
from hwflow.quantize.importer.cores import average, matrix
from hwflow.quantize.importer.geometry import frame_of, window_of
from hwflow.quantize.importer.joins import concat, element_wise
from hwflow.quantize.importer.quantizers import integer_limits, parameters, selection
from hwflow.quantize.importer.states import (
    QUANTIZE_ALL,
    Broken,
    Entry,
    Held,
    Joined,
    Kept,
    OnHost,
    Parameters,
    Pending,
    Rounded,
    State,
    Unsupported,
    image_index,
)
from hwflow.quantize.problems import Problem
from hwflow.quantize.settings import OutputStage

__all__ = ["Importer"]


class Importer:
    """Walks a QDQ model once.  Then `states` says where every tensor is, and `building` holds the graph."""

    def __init__(self, model: Model, stage: Callable[[Node], OutputStage]) -> None:
        self.model, self.graph = model, model.graph
        self.constants = quantities(model.graph, model.opsets)
        self.front = host_prefix(model.graph)
        self.suffix = host_suffix(model.graph, operators.HOST_AFTER)
        self.states: dict[str, State] = {value.name: OnHost(behind=False) for value in model.graph.inputs}
        self.building = Building(model, self.suffix, stage)
        #: LayerGraph input to the ONNX integer tensor that feeds it.
        self.entries: dict[str, Entry] = {}
        self.problems: list[Problem] = []
        self._made = producers(model.graph)

    @property
    def tensors(self) -> dict[str, Tensor]:
        return self.building.tensors

    def walk(self) -> None:
        """Give every tensor a state.  Problems are collected, not raised."""
        for node in self.graph.nodes:
            dynamic = [name for name in dynamic_inputs(node, self.graph) if name not in self.constants]
            if not dynamic:
                continue
            state: State
            try:
                if any(isinstance(self.states[name], Broken) for name in dynamic):
                    state = Broken()
                else:
                    state = self._state(node, dynamic)
            except Unsupported as problem:
                if node.outputs[0] in self.suffix and not self._reads_host(dynamic):
                    state = OnHost(behind=True)
                else:
                    self.problems.append(Problem.of(node, problem.why, problem.remedy))
                    state = Broken()
            for name in filter(None, node.outputs):
                self.states[name] = state

    def _reads_host(self, dynamic: list[str]) -> bool:
        """Whether some input is made by the host in front of the hardware, which the host behind it cannot read."""
        return any(isinstance(self.states[name], (OnHost, Entry)) for name in dynamic)

    def layer_graph(self, outputs: tuple[str, ...]) -> LayerGraph:
        """The integer graph, once `walk` and the epilogue are done."""
        layers = tuple(self.building.layers)
        return LayerGraph(self.graph.name, dict(self.tensors), layers, tuple(self.entries), outputs)

    # One method per group of operators.

    def _state(self, node: Node, dynamic: list[str]) -> State:
        state, op = self.states[dynamic[0]], node.op_type
        if node.outputs[0] in self.front:
            return OnHost(behind=False)
        if op in operators.MATRIX or op in operators.POOLS:
            return self._compute(node, state)
        states = [self.states[name] for name in dynamic]
        if any(isinstance(other, OnHost) for other in states):
            return self._on_host(node, states)
        if op == "QuantizeLinear":
            return self._quantize(node, state)
        if op == "DequantizeLinear":
            return self._dequantize(node, state)
        if op in operators.LAYOUT:
            return self._layout(node, dynamic[0])
        if op in operators.JOINS:
            return self._concat(node, states)
        if op in operators.CLAMPS and isinstance(state, (Rounded, Held)) and not getattr(state, "real", False):
            return self._narrow(node, state)
        if op in operators.ELEMENTWISE:
            pendings = {name: self.pending(self.states[name]) for name in dynamic}
            made = element_wise(node, pendings, self.constants)
            return selection(node, made, self.constants) or made
        return OnHost(behind=True)

    def _on_host(self, node: Node, states: list[State]) -> State:
        if any(isinstance(state, OnHost) and state.behind for state in states):
            return OnHost(behind=True)
        if node.op_type == "DequantizeLinear":
            return self._enter(node)
        if any(not isinstance(state, OnHost) for state in states):
            raise Unsupported("joins values that are not quantized with integers", QUANTIZE_ALL)
        return OnHost(behind=False)

    def _enter(self, node: Node) -> Entry:
        shape = shape_of(self.graph, node.inputs[0])
        if shape is None:
            raise Unsupported("the shape of its input must be known", "fix the model's input shape with --input-shape")
        p, name = parameters(node, self.graph, self.constants), node.inputs[0]
        while name in self._made and self._made[name].op_type in operators.LAYOUT | {"Clip"}:
            before = self._made[name]
            if before.op_type == "Clip":
                low, high = integer_limits(before, self.constants, p)
                p = replace(p, low=low, high=high)
            name = before.inputs[0]
        return Entry(node.inputs[0], shape, p)

    def _quantize(self, node: Node, state: State) -> State:
        p = parameters(node, self.graph, self.constants)
        if isinstance(state, Entry):
            return OnHost(behind=False)
        if isinstance(state, Held):
            x = self.tensors[state.tensor]
            fits = p.format.low <= x.format.low and x.format.high <= p.format.high
            if (x.scale, x.zero_point) == (p.scale, p.zero_point) and fits:
                return replace(state, real=False)
        pending = self.pending(state)
        return Rounded(pending, node, node.outputs[0], p, pending.index)

    def _dequantize(self, node: Node, state: State) -> State:
        if isinstance(state, Rounded):
            state = self.building.held(state)
        if not isinstance(state, Held) or state.real:
            raise Unsupported("reads a tensor that no QuantizeLinear made integer", QUANTIZE_ALL)
        self.building.dequantize(state.tensor, parameters(node, self.graph, self.constants))
        return replace(state, real=True)

    def _narrow(self, node: Node, state: Rounded | Held) -> State:
        """A Clip or Relu on integers limits what the QuantizeLinear before it makes; elsewhere it is a table."""
        if isinstance(state, Rounded):
            low, high = integer_limits(node, self.constants, state.parameters)
            narrow = replace(state.parameters, low=low, high=high)
            moved = replace(state.pending, index=state.index)
            return Rounded(moved, state.node, node.outputs[0], narrow, state.index)
        x = self.tensors[state.tensor]
        p = Parameters.of(x)
        low, high = integer_limits(node, self.constants, p)
        if (low, high) == (p.low, p.high):
            return state
        kept = Kept(node, x.name, x.frame, state)
        narrow = replace(p, low=low, high=high)
        return Rounded(Pending.of(kept, state.index), node, node.outputs[0], narrow, state.index)

    def _layout(self, node: Node, source: str) -> State:
        state = self.states[source]
        if isinstance(state, Entry):
            state = self.enter(state, None)
        assert isinstance(state, (Held, Pending, Rounded))
        if node.op_type in ("Identity", "Dropout"):
            return state
        given = {n: self.graph.initializers[n] for n in node.inputs[1:] if n}
        index = apply(node, self.model.opsets, {source: state.index, **given})
        return replace(state, index=np.asarray(index, np.int64))

    def _concat(self, node: Node, states: list[State]) -> State:
        if len(states) < len([name for name in node.inputs if name]):
            raise Unsupported("joins constants with computed tensors", "remove the constant channels")
        integers = [isinstance(state, Rounded) or (isinstance(state, Held) and not state.real) for state in states]
        if any(integers) and not all(integers):
            raise Unsupported("joins integers with reals", QUANTIZE_ALL)
        if not any(integers):
            return concat(node, [self.pending(state) for state in states])
        held = [self.building.held(state) if isinstance(state, Rounded) else state for state in states]
        kept = [self.pending(replace(state, real=True)) for state in held if isinstance(state, Held)]
        return replace(self.building.joined(concat(node, kept)), real=False)

    def pending(self, state: State) -> Pending:
        """A state of reals as something that functions of one element can follow."""
        if isinstance(state, Entry):
            state = self.enter(state, None)
        if isinstance(state, Pending):
            return state
        if not isinstance(state, Held) or not state.real:
            raise Unsupported("computes with integers; they must be dequantized first", QUANTIZE_ALL)
        x = self.tensors[state.tensor]
        made = self._made.get(state.tensor.removesuffix(".frame")) or next(iter(self.graph.nodes))
        return Pending.of(Kept(made, x.name, x.frame, state), state.index)

    # Layers that compute.

    def _compute(self, node: Node, state: State) -> State:
        if isinstance(state, OnHost):
            raise Unsupported(
                "stands behind a node that runs on the host" if state.behind else "reads values that are not quantized",
                "remove that node" if state.behind else QUANTIZE_ALL,
            )
        if isinstance(state, Pending):
            if not isinstance(state.core, Joined) or state.steps:
                where = state.steps[-1].node if state.steps else state.core.node
                why = f"reads the result of {where.label}, which no QuantizeLinear made integer"
                raise Unsupported(why, QUANTIZE_ALL)
            state = self.building.joined(state)
        try:
            if node.op_type in ("Gemm", "MatMul"):
                return self._dense(node, state)
            if isinstance(state, Rounded):
                state = self.building.held(state)
            held = self.enter(state, None) if isinstance(state, Entry) else state
            assert isinstance(held, Held)
            if node.op_type in operators.MAX_POOLS:
                return self._max_pool(node, held)
            if node.op_type == "Conv":
                return matrix(node, held, self.image(held), self.constants)
            frame = self.tensors[held.tensor].frame if node.op_type == "ReduceMean" else self.image(held)
            return average(node, held, frame, self.graph)
        except ValueError as error:
            raise Unsupported(str(error), "change this layer in the model, or cut the model in front of it") from None

    def _dense(self, node: Node, state: State) -> State:
        if isinstance(state, Entry):
            elements = int(np.prod(state.shape))
            state = self.enter(state, Frame(1, 1, elements))
        if not isinstance(state, Held):
            raise ValueError("its input must be dequantized first (DequantizeLinear)")
        return matrix(node, state, None, self.constants)

    def _max_pool(self, node: Node, held: Held) -> State:
        if len([name for name in node.outputs if name]) > 1:
            raise Unsupported("the second output (indices) has no hardware", "use MaxPool without its indices")
        frame, x, rank = self.image(held), self.tensors[held.tensor], held.index.ndim
        spatial = (frame.height, frame.width)[4 - rank :]
        kernel = spatial if node.op_type == "GlobalMaxPool" else as_ints(node.attributes["kernel_shape"])
        if attribute(node, "storage_order", 0):
            raise Unsupported("storage_order must be 0", "export the model with storage_order 0")
        window = window_of(node, kernel, frame)
        made = Frame(*window.positions(frame), frame.channels)
        y = replace(x, name=self.building.tensor_name(node.outputs[0]), frame=made)
        sizes = (window.kernel, window.strides, window.dilations, window.pads)
        layer = MaxPool(self.building.name_of(node), (x.name,), y.name, x.format, *sizes)
        self.building.add(layer, y)
        index = image_index(y.frame, rank)[:, channel_order(frame, held.index)]
        self.building.sources[y.name] = (node.outputs[0], index)
        return Held(y.name, index, held.real)

    def image(self, held: Held) -> Frame:
        """The frame of a tensor that ONNX must see as [1, C, W] or [1, C, H, W], channels in any order."""
        frame = self.tensors[held.tensor].frame
        channel_order(frame, held.index)
        return frame

    def enter(self, entry: Entry, frame: Frame | None) -> Held:
        """The entry as an input of the layer graph: as an image, or as `frame` in the order of its elements.

        Where another layer has entered it already, its frame is taken as it is.
        """
        index: IntArray
        name = f"{entry.integers}.frame"
        if name in self.entries and frame is not None:
            frame = self.tensors[name].frame
            index = self.building.sources[name][1]
            return Held(name, index, real=True)
        if frame is None:
            frame = frame_of(entry.shape)
            if frame is None:
                raise Unsupported(
                    f"the first layer must read [1, C], [1, C, W] or [1, C, H, W], not {list(entry.shape)}",
                    "fix the batch to 1, or reshape the input on the host",
                )
            index = image_index(frame, len(entry.shape))
        else:
            index = np.arange(frame.elements, dtype=np.int64).reshape(entry.shape)
        if name in self.entries and self.tensors[name].frame != frame:
            name = f"{entry.integers}.image"
        if name not in self.entries:
            p = entry.parameters
            self.entries[name] = entry
            self.tensors[name] = Tensor(name, frame, p.narrow, p.scale, p.zero_point)
            self.building.sources[name] = (entry.integers, index)
        elif (self.tensors[name].scale, self.tensors[name].zero_point) != (
            entry.parameters.scale,
            entry.parameters.zero_point,
        ):
            raise Unsupported("dequantizes an input with another scale than its first reader", "use one scale")
        return Held(name, index, real=True)
