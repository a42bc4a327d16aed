"""The two host programs around the integer graph, as ONNX models: floats to frames, frames to the model's outputs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from hwflow.layers import IntFormat, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import RANKINGS
from hwflow.onnx.run.sequences import state_pairs
from hwflow.quantize.dialects.standard import SIXTEEN_BITS
from hwflow.quantize.graphs import Additions, ancestors, producers
from hwflow.quantize.importer.importer import Importer
from hwflow.quantize.importer.layer_anchors import Matrix, raw_layer
from hwflow.quantize.importer.ranking import ranked
from hwflow.quantize.importer.states import (
    Broken,
    Entry,
    Held,
    Rounded,
    TensorState,
    Unrounded,
    Unsupported,
    image_index,
)
from hwflow.quantize.problems import Cause, Problem


def _frames_type(tensor: Tensor) -> TensorType:
    """The element type that holds a tensor's integers in a host program: the narrowest of ONNX's usual ones."""
    bits, signed = tensor.format.bits, tensor.format.signed
    width = next(w for w in (8, 16, 32, 64) if bits <= w)
    frame = tensor.frame
    return TensorType(np.dtype(f"{'' if signed else 'u'}int{width}"), (1, frame.height, frame.width, frame.channels))


def _used(nodes: tuple[Node, ...], graph: Graph, added: Additions) -> dict[str, Array]:
    """The initializers that `nodes` read."""
    read = {name for node in nodes for name in node.inputs}
    return {name: array for name, array in {**graph.initializers, **added.initializers}.items() if name in read}


def prologue(importer: Importer) -> Model:
    """The user's inputs in, without states; one integer frame [1, h, w, c] for each input of the layer graph out."""
    states = state_pairs(importer.model)
    inputs = tuple(value for value in importer.graph.inputs if value.name not in states)
    return _entering(importer, importer.inputs.of_the_host, inputs)


def entering_states(importer: Importer) -> Model:
    """The same for states of the graph: their inputs in, one integer frame for each that the layer graph reads out.

    Nobody runs it on a host; it says what the integers of a state are.
    """
    inputs = tuple(value for value in importer.graph.inputs if value.name in importer.graph.kept)
    return _entering(importer, importer.inputs.of_states, inputs)


def _entering(importer: Importer, names: Iterable[str], inputs: tuple[Value, ...]) -> Model:
    graph = importer.graph
    added, outputs = Additions(graph), []
    entries = {name: importer.inputs.entries[name] for name in names}
    for name, entry in entries.items():
        tensor, source = importer.tensors[name], entry.integers
        frames, sizes = _frames_type(tensor), (tensor.frame.height, tensor.frame.width, tensor.frame.channels)
        kind = graph.tensor_type(entry.integers)
        if kind is not None and kind.dtype in (np.int32, np.int64):  # numbers of rows, which ONNX wants wide
            code = element_type_of(frames.dtype, name).code
            source = added.emit("Cast", source, wish=f"{source}.narrow", to=code)
        placed = importer.inputs.placed[name]
        if not np.array_equal(placed.ravel(), np.arange(placed.size)):
            source = _in_frame(source, placed, tensor, added)
        added.reshaped(source, (1, *sizes), name, name)
        outputs.append(Value(name, frames))
    nodes = (*ancestors(graph, [entry.integers for entry in entries.values()]), *added.nodes)
    program = Graph(f"{graph.name}, before the hardware", nodes, inputs, tuple(outputs), _used(nodes, graph, added))
    return replace(importer.model, graph=program)


def _in_frame(source: str, placed: IntArray, tensor: Tensor, added: Additions) -> str:
    """The elements of `source` in the order of a frame, where `placed` says that they stand."""
    moved = added.new(f"{source}.channels_last")
    if np.array_equal(placed, image_index(tensor.frame, placed.ndim)):
        return added.emit("Transpose", source, output=moved, perm=(0, *range(2, placed.ndim), 1))
    row, order = added.reshaped(source, (-1,), f"{source}.row"), np.empty(placed.size, np.int64)
    order[placed.ravel()] = np.arange(placed.size)
    return added.emit("Gather", row, added.int64(f"{moved}.order", order), output=moved, axis=0)


def epilogue(importer: Importer, hardware_argmax: bool = False) -> tuple[Model, tuple[str, ...]]:
    """Integer frames in, the model's original outputs out, without next states; and the names of the frames.

    Besides the frames it reads those of the user's inputs that outputs depend on without a layer in between.

    With `hardware_argmax` an ArgMax, ArgMin or TopK that would be computed here becomes a layer of the importer.

    Adds a layer to the importer where the model's last product has no QuantizeLinear: its accumulator goes out as it
    is.  What cannot be is added to `importer.problems`.
    """
    graph = importer.graph
    builder = _Epilogue(importer, hardware_argmax)
    pairs = state_pairs(importer.model)
    users = [value.name for value in graph.outputs if value.name not in pairs.values()]
    for name in users:
        builder.make(name)
    handed = [output for name, output in pairs.items() if name in builder.read]
    for output in handed:  # states that the host keeps
        builder.make(output)
    outputs = tuple(value for value in graph.outputs if value.name in (*users, *handed))
    inputs = tuple(Value(name, _frames_type(importer.tensors[name])) for name in builder.frames)
    inputs += tuple(value for value in graph.inputs if value.name in builder.read)
    nodes = tuple(builder.added.nodes)
    constants = _used(nodes, graph, builder.added)  # an output may be one itself
    names = [value.name for value in outputs if value.name in graph.initializers]
    constants |= {name: graph.initializers[name] for name in names}
    program = Graph(f"{graph.name}, after the hardware", nodes, inputs, outputs, constants)
    return replace(importer.model, graph=program), tuple(builder.frames)


class _Epilogue:
    """Makes tensors of the original graph from frames, on demand."""

    def __init__(self, importer: Importer, hardware_argmax: bool) -> None:
        self.importer, self.graph = importer, importer.graph
        self.rankings = RANKINGS if hardware_argmax else frozenset[str]()
        self.added = Additions(importer.graph)
        self.frames: list[str] = []
        #: Inputs of the model.
        self.read: set[str] = set()
        self._made = set[str]()
        self._producers = producers(importer.graph)

    def make(self, name: str) -> None:
        """Add the nodes that make the tensor `name` of the original graph, each after those that it reads."""
        todo: list[str | Node] = [name]  # no recursion: a model may end with thousands of nodes for the host
        while todo:
            item = todo.pop()
            if isinstance(item, Node):
                self.added.nodes.append(item)
            elif item and item not in self._made and item not in self.graph.initializers:
                self._made.add(item)
                todo += self._made_or_reported(item)

    def _made_or_reported(self, name: str) -> list[str | Node]:
        """Make a tensor; or else what is left to do for it, the last first."""
        node, state = self._producers.get(name), self.importer.states.get(name)
        try:
            if self._from_frame(name, state):
                return []
            if node is not None and node.op_type in self.rankings and node.domain == "":
                self._ranked(node, name)
                return []
        except Unsupported as problem:
            self.importer.problems.append(Problem.of_tensor(name, problem.why, problem.remedy) if node is None else
                                          problem.of(node))
            return []
        if node is None:  # an input of the model
            self.read.add(name)
            return []
        # It is made on the host, or it is a constant after a DequantizeLinear or a change of layout.
        self._made.update(node.outputs)
        return [node, *reversed(node.inputs)]

    def _from_frame(self, name: str, state: TensorState | None) -> bool:
        """Make a tensor that comes out of the hardware, or say nothing of a broken one; False for any other."""
        if name in self.graph.kept:
            raise Unsupported("is a state, which stays on the chip, and the host reads it",
                              "export the model with an input of its own for that", Cause.NEIGHBOUR)
        if isinstance(state, Entry):
            return False  # the host makes it again
        if isinstance(state, Rounded):
            state = self.importer.building.held(state)
        if isinstance(state, Held):
            if (state.index < 0).any():
                return False  # the host pads
            self._held(name, state.tensor, state.index, state.real)
        elif isinstance(state, Unrounded) and isinstance(state.anchor, Matrix) and name == state.anchor.key:
            self._accumulator(name, state, state.anchor)
        else:
            return isinstance(state, Broken)
        return True

    def _ranked(self, node: Node, name: str) -> None:
        """A result of an ArgMax, ArgMin or TopK that is made in hardware; ONNX wants its indices as int64."""
        ranking = ranked(self.importer, node, name, self.added.new(f"{name}.best"))
        if ranking.values:
            self._held(name, ranking.tensor.name, ranking.index, real=True)
            return
        integers = self.added.new(f"{name}.integers")
        self._place(ranking.tensor.name, ranking.index, integers)
        self.added.emit("Cast", integers, output=name, name=f"{name}.cast", to=7)

    def _held(self, name: str, tensor: str, index: IntArray, real: bool) -> None:
        integers = self.added.new(f"{name}.integers") if real else name
        self._place(tensor, index, integers)
        if not real:
            return
        y = self.importer.tensors[tensor]
        dtype = _frames_type(y).dtype
        if dtype.itemsize == 2 and self.importer.model.opsets[""] < SIXTEEN_BITS:
            # Sums of trees, which no quantizer has made: those of 16 bits bring the operator set that has them.
            integers, dtype = self.added.emit("Cast", integers, wish=f"{name}.wide", to=6), np.dtype(np.int32)
        parameters = (
            self.added.float32(f"{name}.scale", y.scale),
            self.added.constant(f"{name}.zero_point", np.array(y.zero_point, dtype)),
        )
        self.added.emit("DequantizeLinear", integers, *parameters, output=name, name=f"{name}.dequantize")

    def _place(self, tensor: str, index: IntArray, name: str) -> None:
        """Frames of `tensor` to the ONNX tensor `name`, whose elements are where `index` says."""
        frame, source, added = self.importer.tensors[tensor].frame, tensor, self.added
        if tensor not in self.frames:
            self.frames.append(tensor)
        flat = index.ravel()
        if not np.array_equal(flat, np.arange(frame.elements)):
            moved = added.new(f"{name}.moved")
            if np.array_equal(flat, image_index(frame, 4).ravel()):
                source = added.emit("Transpose", source, output=moved, perm=(0, 3, 1, 2))
            else:
                row = added.reshaped(source, (-1,), f"{name}.row")
                source = added.emit("Gather", row, added.int64(f"{name}.order", flat), output=moved, axis=0)
        added.reshaped(source, index.shape, name, name, f"{name}.reshape")

    def _accumulator(self, name: str, state: Unrounded, anchor: Matrix) -> None:
        """The exact accumulator as int32, then the scale of each channel."""
        building = self.importer.building
        x = building.tensors[anchor.source.tensor]
        layer, y, scales = raw_layer(anchor, x, building.name_of(anchor.node), self.added.new(f"{name}.accumulator"))
        if y.format.bits > 32:
            raise Unsupported(f"its accumulator must fit int32, not {y.format}", "quantize its output")
        building.add(layer, replace(y, format=IntFormat(y.format.bits, signed=True)))
        integers = self.added.new(f"{name}.integers")
        self._place(y.name, state.index, integers)
        real = self.added.emit("Cast", integers, wish=f"{name}.real", to=1)
        scale = self.added.float32(f"{name}.scale", scales[state.index % anchor.frame.channels])
        self.added.emit("Mul", real, scale, output=name, name=f"{name}.multiply")
