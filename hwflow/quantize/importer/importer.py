"""The importer: a QDQ graph in, integer layers and what is left for the host out."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hwflow.layers import Frame, IntFormat, Layer, LayerGraph, MaxPool, Tensor
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model, Node
from hwflow.quantize import operators
from hwflow.quantize.constants import quantities
from hwflow.quantize.graphs import apply, as_ints, attribute, dynamic_inputs, host_suffix
from hwflow.quantize.importer.finish import average_layer, matrix_layer, table_layer
from hwflow.quantize.importer.geometry import frame_of, window_of
from hwflow.quantize.importer.pending import average, clamp_ends, matrix, with_bias
from hwflow.quantize.importer.states import (
    Average,
    Broken,
    Entry,
    Held,
    Matrix,
    OnHost,
    Pending,
    State,
    Table,
    image_index,
)
from hwflow.quantize.passes.normalise import shape_of
from hwflow.quantize.problems import Problem

__all__ = ["Importer", "Unsupported"]

_QUANTIZE_ALL = "quantize the whole model: a QuantizeLinear and DequantizeLinear behind every layer"


class Unsupported(Exception):
    """Raised inside the importer for one node; the walk collects it as a Problem and goes on."""

    def __init__(self, why: str, remedy: str) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


@dataclass(frozen=True)
class Parameters:
    """Scale, zero point and format of a QuantizeLinear or DequantizeLinear node."""

    scale: float
    zero_point: int
    format: IntFormat


class Importer:
    """Walks a QDQ model once.  Then `states` says where every tensor is, `layers` and `tensors` hold the graph."""

    def __init__(self, model: Model) -> None:
        self.model, self.graph = model, model.graph
        self.constants = quantities(model.graph, model.opsets)
        self.suffix = host_suffix(model.graph, operators.HOST_AFTER)
        self.states: dict[str, State] = {value.name: OnHost(behind=False) for value in model.graph.inputs}
        self.tensors: dict[str, Tensor] = {}
        self.layers: list[Layer] = []
        #: LayerGraph input to the ONNX integer tensor that feeds it.
        self.entries: dict[str, Entry] = {}
        self.problems: list[Problem] = []

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
                    state = self._state(node, dynamic[0])
            except Unsupported as problem:
                self.problems.append(Problem.of(node, problem.why, problem.remedy))
                state = Broken()
            for name in filter(None, node.outputs):
                self.states[name] = state

    def layer_graph(self, outputs: tuple[str, ...]) -> LayerGraph:
        """The integer graph, once `walk` and the epilogue are done."""
        return LayerGraph(self.graph.name, dict(self.tensors), tuple(self.layers), tuple(self.entries), outputs)

    def add(self, layer: Layer, tensor: Tensor) -> None:
        self.layers.append(layer)
        self.tensors[tensor.name] = tensor

    def tensor_name(self, output: str) -> str:
        """The layer graph's name of an ONNX tensor: the same, except where the host may read that very tensor.

        Frames and the ONNX tensor that the host makes of them differ in layout, so they must differ in name.
        """
        readers = [node for node in self.graph.nodes if output in node.inputs]
        on_host = any(value.name == output for value in self.graph.outputs) or any(
            self.suffix.intersection(node.outputs) for node in readers
        )
        return f"{output}.frame" if on_host else output

    def name_of(self, node: Node) -> str:
        """The layer's name: the node's, made unique."""
        name, taken, count = node.name or node.outputs[0], {layer.name for layer in self.layers}, 1
        wish = name
        while name in taken:
            count += 1
            name = f"{wish}_{count}"
        return name

    # One method per group of operators.

    def _state(self, node: Node, source: str) -> State:
        state, op = self.states[source], node.op_type
        if op in operators.MATRIX or op in operators.POOLS:
            return self._compute(node, state)
        if isinstance(state, OnHost):
            if op == "DequantizeLinear" and not state.behind:
                return self._enter(node)
            return state
        if op == "QuantizeLinear":
            return self._quantize(node, state)
        if op == "DequantizeLinear":
            return self._dequantize(node, state)
        if op in operators.LAYOUT:
            return self._layout(node, source)
        if op in operators.UNARY or op in operators.AFFINE:
            return self._function(node, source)
        return OnHost(behind=True)

    def parameters(self, node: Node) -> Parameters:
        """The parameters of a QuantizeLinear or DequantizeLinear of an activation."""
        scale = self.constants[node.inputs[1]].real
        zero_name = node.inputs[2] if len(node.inputs) > 2 else ""
        if scale.size != 1:
            raise Unsupported(
                "activations must have one scale per tensor, not one per channel",
                "quantize the model with per-tensor activations",
            )
        zero = self.graph.initializers.get(zero_name)
        dtype = zero.dtype if zero is not None else self._integer_dtype(node)
        if dtype.name not in ("int8", "uint8", "int16", "uint16"):
            raise Unsupported(f"activations must be int8, uint8, int16 or uint16, not {dtype.name}", "quantize to int8")
        format = IntFormat(dtype.itemsize * 8, dtype.kind == "i")
        return Parameters(float(scale.reshape(())), int(zero.reshape(())) if zero is not None else 0, format)

    def _integer_dtype(self, node: Node) -> np.dtype[np.generic]:
        name = node.outputs[0] if node.op_type == "QuantizeLinear" else node.inputs[0]
        known = self.graph.tensor_type(name)
        return known.dtype if known is not None else np.dtype(np.uint8)

    def _enter(self, node: Node) -> Entry:
        shape = shape_of(self.graph, node.inputs[0])
        if shape is None:
            raise Unsupported("the shape of its input must be known", "fix the model's input shape with --input-shape")
        p = self.parameters(node)
        return Entry(node.inputs[0], shape, p.format, p.scale, p.zero_point)

    def _quantize(self, node: Node, state: State) -> State:
        p = self.parameters(node)
        if isinstance(state, Entry):
            return OnHost(behind=False)
        if isinstance(state, Held):
            x = self.tensors[state.tensor]
            if (x.scale, x.zero_point, x.format) == (p.scale, p.zero_point, p.format):
                return replace(state, real=False)
            state = Table(node, state, x.frame, state.index, ())
        assert isinstance(state, Pending)
        return self.finish(state, node.outputs[0], p)

    def finish(self, pending: Pending, output: str, p: Parameters) -> Held:
        """Make the layer of a pending result."""
        x = self.tensors[pending.source.tensor]
        y = Tensor(self.tensor_name(output), pending.frame, p.format, p.scale, p.zero_point)
        name = self.name_of(pending.node)
        try:
            if isinstance(pending, Matrix):
                layer = matrix_layer(pending, x, y, name)
            elif isinstance(pending, Average):
                layer = average_layer(pending, x, y, name)
            else:
                assert isinstance(pending, Table)
                layer = table_layer(pending, x, y, name, self.model.opsets, self.constants)
        except ValueError as error:
            raise Unsupported(str(error), "quantize the model again; a scale is out of proportion") from None
        self.add(layer, y)
        return Held(y.name, pending.index, real=False)

    def _dequantize(self, node: Node, state: State) -> State:
        p = self.parameters(node)
        if not isinstance(state, Held) or state.real:
            raise Unsupported("reads a tensor that no QuantizeLinear made integer", _QUANTIZE_ALL)
        x = self.tensors[state.tensor]
        if (x.scale, x.zero_point, x.format) != (p.scale, p.zero_point, p.format):
            raise Unsupported(
                f"scale and zero point must be those of the QuantizeLinear before it ({x.scale}, {x.zero_point}), "
                f"not {p.scale}, {p.zero_point}",
                "quantize the model again",
            )
        return replace(state, real=True)

    def _layout(self, node: Node, source: str) -> State:
        state = self.states[source]
        if isinstance(state, Entry):
            state = self.enter(state, None)
        assert isinstance(state, (Held, Pending))
        if node.op_type in ("Identity", "Dropout"):
            return state
        parameters = {n: self.graph.initializers[n] for n in node.inputs[1:] if n}
        index = apply(node, self.model.opsets, {source: state.index, **parameters})
        return replace(state, index=np.asarray(index, np.int64))

    def _function(self, node: Node, source: str) -> State:
        state = self.states[source]
        if isinstance(state, Entry):
            state = self.enter(state, None)
        fixed = [self.constants[n] for n in node.inputs if n in self.constants]
        if isinstance(state, (Matrix, Average)):
            if node.op_type in operators.CLAMPS:
                low, high = clamp_ends(node, self.constants)
                return state.limited(low, high)
            biased = with_bias(state, fixed[0]) if node.op_type == "Add" and isinstance(state, Matrix) else None
            if biased is not None:
                return biased
        elif all(c.real.size == 1 for c in fixed) or node.op_type in operators.CLAMPS:
            if isinstance(state, Held):
                state = Table(node, state, self.tensors[state.tensor].frame, state.index, ())
            assert isinstance(state, Table)
            return replace(state, functions=(*state.functions, node))
        if node.outputs[0] in self.suffix:
            return OnHost(behind=True)
        raise Unsupported("has no form as a table or as a bias where it stands", _QUANTIZE_ALL)

    # Layers that compute.

    def _compute(self, node: Node, state: State) -> State:
        if isinstance(state, OnHost):
            raise Unsupported(
                "stands behind a node that runs on the host" if state.behind else "reads values that are not quantized",
                "remove that node" if state.behind else _QUANTIZE_ALL,
            )
        if isinstance(state, Pending):
            why = f"reads the result of {state.node.label}, which no QuantizeLinear made integer"
            raise Unsupported(why, _QUANTIZE_ALL)
        try:
            if node.op_type in ("Gemm", "MatMul"):
                return self._dense(node, state)
            held = self.enter(state, None) if isinstance(state, Entry) else state
            assert isinstance(held, Held)
            if node.op_type in ("MaxPool", "GlobalMaxPool"):
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
        assert isinstance(state, Held)
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
        y = replace(x, name=self.tensor_name(node.outputs[0]), frame=made)
        sizes = (window.kernel, window.strides, window.dilations, window.pads)
        layer = MaxPool(self.name_of(node), (x.name,), y.name, x.format, *sizes)
        self.add(layer, y)
        return Held(y.name, image_index(y.frame, rank), held.real)

    def image(self, held: Held) -> Frame:
        """The frame of a tensor that ONNX must see as [1, C, W] or [1, C, H, W]."""
        frame, index = self.tensors[held.tensor].frame, held.index
        if index.ndim not in (3, 4) or (index.ndim == 3 and frame.height != 1):
            raise ValueError(f"its input must be [1, C, H, W] or [1, C, W], not {list(index.shape)}")
        if not np.array_equal(index, image_index(frame, index.ndim)):
            raise ValueError(
                f"its input is a frame {frame} whose elements a Transpose or Reshape has put into another order "
                f"({list(index.shape)}); between such layers the order must stay [1, C, H, W]"
            )
        return frame

    def enter(self, entry: Entry, frame: Frame | None) -> Held:
        """The entry as an input of the layer graph: as an image, or as `frame` in the order of its elements."""
        index: IntArray
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
        name = f"{entry.integers}.frame"
        if name not in self.entries:
            self.entries[name] = entry
            self.tensors[name] = Tensor(name, frame, entry.format, entry.scale, entry.zero_point)
        elif self.tensors[name].frame != frame:
            raise Unsupported("reads the same input as another layer", "use a model whose layers form one chain")
        return Held(name, index, real=True)
