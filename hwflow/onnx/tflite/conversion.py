"""The graph that grows while a subgraph is converted: which ONNX value stands for which tensor.

A quantized tensor has two values: its integers (what the file stores) and its real numbers (through a
DequantizeLinear).  A tensor of four axes may also lie with its channels first, as ONNX' convolutions want it; a
Transpose is made only where somebody reads the other order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx.build import make_node
from hwflow.onnx.errors import InvalidModel, LimitError, Unsupported
from hwflow.onnx.model import Array, AttributeLike, Node
from hwflow.onnx.rewrite.renaming import Fresh, fresh_names
from hwflow.onnx.tflite.file import File, Operator, Subgraph, Tensor
from hwflow.onnx.tflite.schema import ACTIVATIONS

_AGAIN = "the file is damaged: copy or export it again"

#: Types of quantized integers that ONNX has.
QUANTIZED = frozenset({"INT8", "UINT8", "INT16", "INT4"})


class Layout(Enum):
    """The order of the axes of a tensor."""

    FILE = "file"  # [batch, height, width, channels], or whatever the file has
    CHANNELS_FIRST = "channels first"  # [batch, channels, height, width]


#: Axes of the file's layout in the order of the other one, and where each of them went.
TO_CHANNELS_FIRST, TO_FILE = (0, 3, 1, 2), (0, 2, 3, 1)


@dataclass
class Held:
    """The ONNX values of a tensor, by layout: as the file stores it, and as real numbers."""

    raw: dict[Layout, str] = field(default_factory=dict)
    real: dict[Layout, str] = field(default_factory=dict)


@dataclass
class OwnState:
    """What a layer keeps from run to run: its tensor, the input and the output of the graph, its shape there."""

    tensor: Tensor
    source: str
    shape: tuple[int, ...]
    target: str = ""


class Conversion:
    """One subgraph on its way to a graph of ONNX."""

    def __init__(self, file: File, graph: Subgraph, around: Conversion | None = None) -> None:
        """`around` is the conversion of the graph that has this one as a branch: names are new in both."""
        self.file, self.graph = file, graph
        self.depth: int = around.depth + 1 if around else 0
        self._around = around
        #: Operators of branches that were converted; the outermost conversion counts.
        self._called = 0
        self.nodes: list[Node] = []
        self.constants: dict[str, Array] = {}
        self._held: dict[int, Held] = {}
        self._fresh: Fresh = around._fresh if around else fresh_names(())
        self._fresh_node: Fresh = around._fresh_node if around else fresh_names(())
        self.names = [self._fresh(tensor.name or f"tensor_{tensor.index}") for tensor in graph.tensors]
        #: What values are called in the end, for those that are a tensor of the file.
        self.final_names: dict[str, str] = {}
        #: Inputs of the graph that are what a run before left, by the tensor that has it.
        self.states: dict[int, str] = {}
        #: States of layers: the tensor, the input of the graph, and the value that is the next state.
        self.own_states: dict[int, OwnState] = {}
        #: What is to be said about the conversion.
        self.notes: list[str] = []
        self._operator: Operator | None = None

    # What an operator reads.

    def at(self, operator: Operator) -> None:
        """Nodes from now on are those of `operator`."""
        self._operator = operator

    def operands(self, operator: Operator, least: int, most: int | None = None) -> tuple[Tensor | None, ...]:
        """Its input tensors, `most` of them (`least` by default); None for those left out, of which `least` may not."""
        most = least if most is None else most
        found = [None if k < 0 else self.graph.tensors[k] for k in operator.inputs]
        if not least <= len(found) <= most or None in found[:least]:
            wanted = f"{least}" if most == least else f"{least} to {most}"
            given = sum(tensor is not None for tensor in found)
            raise InvalidModel(f"must have {wanted} inputs, not {given}", _AGAIN)
        return tuple(found + [None] * (most - len(found)))

    def inputs(self, operator: Operator, count: int) -> tuple[Tensor, ...]:
        """Its `count` input tensors, all of them there."""
        return tuple(tensor for tensor in self.operands(operator, count) if tensor is not None)

    def all_inputs(self, operator: Operator) -> tuple[Tensor, ...]:
        """Its input tensors, at least one and none left out."""
        if not operator.inputs or -1 in operator.inputs:
            raise InvalidModel("must have an input, and none left out", _AGAIN)
        return tuple(self.graph.tensors[k] for k in operator.inputs)

    def output(self, operator: Operator) -> Tensor:
        """Its only output."""
        return self.outputs(operator, 1)[0]

    def outputs(self, operator: Operator, count: int) -> tuple[Tensor, ...]:
        if len(operator.outputs) != count:
            raise InvalidModel(f"must have {count} outputs, not {len(operator.outputs)}", _AGAIN)
        return tuple(self.graph.tensors[k] for k in operator.outputs)

    def rank(self, tensor: Tensor, *ranks: int) -> int:
        """How many axes it has, which must be one of `ranks`."""
        rank = len(tensor.shape)
        if ranks and rank not in ranks:
            raise InvalidModel(
                f"{tensor.label} must have {' or '.join(map(str, ranks))} axes, not the shape {list(tensor.shape)}",
                _AGAIN,
            )
        return rank

    def fixed(self, tensor: Tensor, what: str) -> Array:
        """The elements of a constant.  Unsupported where they are computed."""
        if tensor.data is None:
            raise Unsupported(
                f"{what} must be constant, not computed ({tensor.label})", "export the model with it fixed"
            )
        return tensor.constant

    def fixed_wholes(self, tensor: Tensor, what: str) -> list[int]:
        """The elements of a constant of whole numbers."""
        array = self.fixed(tensor, what)
        if array.dtype.kind not in "iu":
            raise InvalidModel(f"{what} must be whole numbers, not {tensor.type_name}", _AGAIN)
        return [int(value) for value in array.ravel()]

    @property
    def current(self) -> str:
        """How messages name the operator that is converted."""
        return self._operator.label if self._operator else "the model"

    def fixed_whole(self, tensor: Tensor, what: str) -> int:
        """The only element of a constant of whole numbers."""
        found = self.fixed_wholes(tensor, what)
        if len(found) != 1:
            raise InvalidModel(f"{what} must be one number, not {len(found)}", _AGAIN)
        return found[0]

    # Values of tensors.

    def holds(self, tensor: Tensor, layout: Layout) -> bool:
        """Whether a value lies in this order already."""
        held = self._held.get(tensor.index)
        return held is not None and (layout in held.raw or layout in held.real)

    def is_quantized(self, tensor: Tensor) -> bool:
        return tensor.quantization is not None and tensor.type_name in QUANTIZED

    def raw(self, tensor: Tensor, layout: Layout = Layout.FILE) -> str:
        """The value that has the tensor as the file stores it."""
        held = self._source(tensor)
        if layout not in held.raw:
            held.raw[layout] = self._turned(tensor, next(iter(held.raw.values())), layout)
            if layout is Layout.FILE:
                self._name(tensor, held.raw[layout])
        return held.raw[layout]

    def real(self, tensor: Tensor, layout: Layout = Layout.FILE) -> str:
        """The value that has its real numbers; of a tensor without scale what the file stores."""
        if not self.is_quantized(tensor):
            return self.raw(tensor, layout)
        held = self._source(tensor)
        if layout not in held.real:
            held.real[layout] = self.dequantized(tensor, self.raw(tensor, layout), layout)
        return held.real[layout]

    def count_called(self, operators: int) -> None:
        """So many operators of a branch are about to be converted: branches in branches grow fast."""
        if self._around is not None:
            self._around.count_called(operators)
            return
        self._called, most = self._called + operators, self.file.limits.inlined_nodes
        if self._called > most:
            raise LimitError(
                f"all branches must have at most {most:,} operators (inlined_nodes), not more",
                "if you trust the model, raise it with --limit inlined_nodes=NUMBER",
            )

    def bind(self, tensor: Tensor, value: str) -> None:
        """`tensor` is a value of the graph around, whose name stays."""
        self._held[tensor.index] = Held(raw={Layout.FILE: value})
        self.names[tensor.index] = value

    def put(self, tensor: Tensor, value: str, layout: Layout = Layout.FILE, activation: int = 0) -> None:
        """`value` has the real numbers of `tensor`, before the activation that the operator's options name."""
        value = self.activated(value, activation)
        if self.is_quantized(tensor):
            self.put_raw(tensor, self._quantized(tensor, value), layout)
        else:
            self.put_raw(tensor, value, layout)

    def put_raw(self, tensor: Tensor, value: str, layout: Layout = Layout.FILE) -> None:
        """`value` has `tensor` as the file would store it."""
        if tensor.index in self._held or tensor.data:  # no bytes: a constant without elements, or computed
            raise InvalidModel(f"{tensor.label} must be computed once, not twice", _AGAIN)
        self._held[tensor.index] = Held(raw={layout: value})
        if layout is Layout.FILE:
            self._name(tensor, value)

    def activated(self, value: str, activation: int) -> str:
        """`value` after a fused activation, by its number."""
        kind = ACTIVATIONS[activation] if 0 <= activation < len(ACTIVATIONS) else f"number {activation}"
        if kind == "NONE":
            return value
        if kind == "RELU":
            return self.node("Relu", value)
        if kind == "TANH":
            return self.node("Tanh", value)
        if kind in ("RELU6", "RELU_N1_TO_1"):
            low, high = (0.0, 6.0) if kind == "RELU6" else (-1.0, 1.0)
            return self.clipped(value, low, high)
        raise Unsupported(f"the activation must be NONE, RELU, RELU6, RELU_N1_TO_1 or TANH, not {kind}")

    def clipped(self, value: str, low: float, high: float) -> str:
        return self.node("Clip", value, self.scalar(low), self.scalar(high))

    def common_layout(self, tensors: Sequence[Tensor]) -> Layout:
        """The order in which an operator that treats all axes alike computes on `tensors` without turning them."""
        first = [self.holds(tensor, Layout.CHANNELS_FIRST) for tensor in tensors if len(tensor.shape) == 4]
        suits = all(len(tensor.shape) == 4 or tensor.data is not None for tensor in tensors)
        return Layout.CHANNELS_FIRST if suits and any(first) else Layout.FILE

    def state_input(self, tensor: Tensor, wish: str) -> str:
        """What the run before left in a variable that is stored as `tensor`, as the file stores it."""
        name = self._fresh(wish)
        self.states[tensor.index] = name
        return self._quantized(tensor, name) if self.is_quantized(tensor) else name

    def kept(self, tensor: Tensor, shape: tuple[int, ...]) -> str:
        """The real numbers that the run before left in a layer's own variable, as an input of this shape."""
        if tensor.index in self.own_states or tensor.index in self._held or tensor.data is not None:
            raise InvalidModel(f"{tensor.label} must be the variable of one layer", _AGAIN)
        if np.prod(tensor.shape) != np.prod(shape):
            raise InvalidModel(f"{tensor.label} must have as many elements as {list(shape)}", _AGAIN)
        source = self._fresh(tensor.name or f"state_{tensor.index}")
        self.own_states[tensor.index] = OwnState(tensor, source, shape)
        return self.requantized(tensor, source)

    def keep(self, tensor: Tensor, value: str) -> str:
        """`value` is what the next run finds; it is given as the variable stores it."""
        self.own_states[tensor.index].target = stored = self.requantized(tensor, value)
        return stored

    def requantized(self, tensor: Tensor, value: str) -> str:
        """`value` rounded to the integers of a quantized tensor; itself where it is not quantized."""
        return self.dequantized(tensor, self._quantized(tensor, value)) if self.is_quantized(tensor) else value

    # Nodes and constants.

    def name(self, wish: str) -> str:
        """A name that no value has yet."""
        return self._fresh(wish)

    def node(self, kind: str, *inputs: str, **attributes: AttributeLike) -> str:
        """A node with one output, whose name is given."""
        return self.node_of(kind, inputs, 1, **attributes)[0]

    def node_of(self, kind: str, inputs: Sequence[str], count: int, **attributes: AttributeLike) -> tuple[str, ...]:
        """A node with `count` outputs, whose names are given."""
        name = self._fresh_node(self._node_name(kind))
        outputs = tuple(self._fresh(f"{name}/out{k or ''}") for k in range(count))
        made: dict[str, Any] = dict(attributes)
        self.nodes.append(make_node(kind, inputs, outputs, name=name, **made))
        return outputs

    def _node_name(self, kind: str) -> str:
        """After the operator's output, whose name may be those of several layers in one."""
        operator = self._operator
        if operator is None or not operator.outputs:
            return f"state/{kind}"
        stem = (operator.name or f"tensor_{operator.outputs[0]}").partition(";")[0]
        return stem if kind.upper() in operator.kind.replace("_", "") else f"{stem}/{kind}"

    def constant(self, array: npt.ArrayLike, wish: str = "constant") -> str:
        """An initializer."""
        name = self._fresh(wish)
        self.constants[name] = np.asarray(array)
        return name

    def wholes(self, values: Sequence[int] | Array) -> str:
        """An initializer of int64."""
        return self.constant(np.array(values, np.int64), "numbers")

    def scalar(self, value: float) -> str:
        """An initializer of one float32."""
        return self.constant(np.float32(value), "number")

    # How values are made.

    def _source(self, tensor: Tensor) -> Held:
        """The values of a tensor that is constant, fed or computed before."""
        if tensor.index not in self._held:
            if tensor.data is None:
                raise InvalidModel(
                    f"{tensor.label} must be an input, a constant or computed by an operator before, not none of them",
                    _AGAIN,
                )
            name = self.names[tensor.index]
            self.constants[name] = tensor.constant
            self._held[tensor.index] = Held(raw={Layout.FILE: name})
        return self._held[tensor.index]

    def _turned(self, tensor: Tensor, value: str, layout: Layout) -> str:
        """`value` with its axes in the order of `layout`; a constant of fewer axes gets those in front."""
        first = layout is Layout.CHANNELS_FIRST
        if value in self.constants:
            array = self.constants[value]
            array = array.reshape((1,) * (4 - array.ndim) + array.shape)
            return self.constant(np.ascontiguousarray(array.transpose(TO_CHANNELS_FIRST)), f"{value}/nchw")
        self.rank(tensor, 4)
        return self.node("Transpose", value, perm=TO_CHANNELS_FIRST if first else TO_FILE)

    def scales(self, tensor: Tensor) -> tuple[str, str]:
        """The scale and the zero point of a quantized tensor as initializers."""
        quantization = tensor.quantization
        assert quantization is not None, "only of quantized tensors"
        dtype, (low, high) = tensor.dtype, range_of(tensor)
        if any(not low <= zero <= high for zero in quantization.zero_point):
            wrong = next(zero for zero in quantization.zero_point if not low <= zero <= high)
            raise InvalidModel(f"the zero point of {tensor.label} must be {low} to {high}, not {wrong}", _AGAIN)
        name = self.names[tensor.index]
        return (self.constant(quantization.scales, f"{name}/scale"),
                self.constant(quantization.zero_points(dtype), f"{name}/zero_point"))

    def dequantized(self, tensor: Tensor, value: str, layout: Layout = Layout.FILE) -> str:
        """The real numbers of `value`, which has the integers of `tensor` in some order."""
        quantization = tensor.quantization
        assert quantization is not None, "only of quantized tensors"
        axis = None
        if quantization.per_axis:
            axis = quantization.axis
            if layout is Layout.CHANNELS_FIRST:
                axis = TO_CHANNELS_FIRST.index(axis + 4 - len(tensor.shape))
        return self.dequantized_along(tensor, value, axis)

    def dequantized_along(self, tensor: Tensor, value: str, axis: int | None) -> str:
        """The same where scales are along `axis`.  A constant of a subgraph is given as real numbers: what a round of a
        loop computes of constants is known then."""
        quantization = tensor.quantization
        assert quantization is not None, "only of quantized tensors"
        if not self.depth or value not in self.constants:
            return self.node("DequantizeLinear", value, *self.scales(tensor), axis=axis)
        array = self.constants[value].astype(np.float32)
        shape = (1,) * array.ndim if axis is None else tuple(-1 if k == axis else 1 for k in range(array.ndim))
        zero = quantization.zero_points(tensor.dtype).astype(np.float32).reshape(shape)
        return self.constant((array - zero) * quantization.scales.reshape(shape), f"{value}/real")

    def _quantized(self, tensor: Tensor, value: str) -> str:
        quantization = tensor.quantization
        assert quantization is not None, "only of quantized tensors"
        if quantization.per_axis or not quantization.scale[0] > 0:
            raise InvalidModel(
                f"{tensor.label} must have one scale above 0, because it is computed, not "
                f"{'several' if quantization.per_axis else quantization.scale[0]}", _AGAIN
            )
        if tensor.type_name == "INT4":
            raise Unsupported(f"{tensor.label} must be constant, because it has elements of INT4")
        return self.node("QuantizeLinear", value, *self.scales(tensor))

    def _name(self, tensor: Tensor, value: str) -> None:
        """`value` is called as the tensor in the end, unless it has a name already."""
        if value not in self.constants and value not in self.names:
            self.final_names.setdefault(value, self.names[tensor.index])

    def values_named(self) -> Iterator[tuple[Tensor, str]]:
        """Tensors that have a value in the file's own order, with it."""
        for index, held in self._held.items():
            if Layout.FILE in held.raw:
                yield self.graph.tensors[index], held.raw[Layout.FILE]


def range_of(tensor: Tensor) -> tuple[int, int]:
    """The least and the largest integer of its type."""
    if tensor.type_name == "INT4":
        return -8, 7
    info = np.iinfo(tensor.dtype.name)
    return int(info.min), int(info.max)
