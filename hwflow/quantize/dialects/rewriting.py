"""A graph on its way from one dialect to another: its constants, its new nodes, and what cannot be rewritten.

A rule rewrites one node: it reads parameters through the methods here, which refuse what no hardware can have, and
emits standard nodes, the last of which gives the node's output.

`quantize` and `dequantize` make the nodes that the rules put around standard operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from hwflow.onnx import evaluate
from hwflow.onnx.model import Attribute, Model, Node, Value
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.rewrite.passes import remove_unused
from hwflow.onnx.schemas import find_schema
from hwflow.quantize.graphs import Additions, consumers, producers, with_graph
from hwflow.quantize.problems import Problem, raise_all
from hwflow.quantize.scale import SMALLEST_NORMAL

#: The remedy where a parameter is unusable.
RECALIBRATE = "quantize the model again, statically: its scales and zero points must be constants"


#: The remedy where an activation has parameters per channel.
PER_TENSOR = "quantize activations per tensor; weights may have a scale and zero point per output channel"


class Refused(Exception):
    """Raised by a rule: this node has no standard form, and why; the walk collects it as a Problem."""

    def __init__(self, why: str, remedy: str = RECALIBRATE) -> None:
        super().__init__(why)
        self.why, self.remedy = why, remedy


class Rewriting(Additions):
    """One walk over a graph.  `model` is the model before it."""

    def __init__(self, model: Model) -> None:
        super().__init__(model.graph)
        self.model = model
        self.read, self.made = consumers(model.graph), producers(model.graph)
        self.outputs = {value.name for value in model.graph.outputs}
        #: Nodes (by their first output) that an earlier rule has given another form.
        self.instead: dict[str, Node] = {}
        self._fixed = self._constant_names()
        self._computed: dict[str, Arr] = {}

    def run(self, rules: Table) -> Model:
        """The model with every node rewritten that has a rule.  HwflowError: all nodes that cannot be, at once."""
        problems = []
        for node in self.graph.nodes:
            rule = rules.get((node.domain, node.op_type))
            if rule is None:
                self.nodes.append(self.instead.get(node.outputs[0], node))
                continue
            try:
                rule(self, node)
            except Refused as refusal:
                problems.append(Problem.of(node, refusal.why, refusal.remedy))
        raise_all(problems)
        return with_graph(self.model, _distinct(self.nodes), self.initializers)

    # What is known of tensors.

    def _constant_names(self) -> set[str]:
        """Tensors that depend on initializers alone."""
        names = set(self.graph.initializers)
        for node in self.graph.nodes:
            schema = find_schema(node.domain, node.op_type, self.model.opsets.get(node.domain, 1))
            if all(name in names for name in node.inputs if name) and not (schema is not None and schema.random):
                names.update(filter(None, node.outputs))
        return names

    def is_constant(self, name: str) -> bool:
        return name in self._fixed

    def value(self, name: str) -> Arr | None:
        """The elements of a constant tensor, computed where nodes make them; None for one that is not constant."""
        if name in self.graph.initializers:
            return self.graph.initializers[name]
        if name not in self._fixed:
            return None
        if name not in self._computed:
            graph = replace(self.graph, inputs=(), outputs=(Value(name, None),))
            self._computed[name] = evaluate(remove_unused(replace(self.model, graph=graph)), {})[name]
        return self._computed[name]

    def parameter(self, name: str, what: str) -> Arr:
        """A constant parameter of the node; refused where the model computes it."""
        array = self.value(name)
        if array is None:
            raise Refused(f"{what} '{name}' must be constant, not computed by the model")
        return array

    def scale(self, name: str, what: str = "scale") -> Arr:
        """A scale, float32, of its own shape; refused where an entry is not finite and positive."""
        scales = self.parameter(name, what).astype(np.float32)
        bad = scales[~(np.isfinite(scales) & (scales >= SMALLEST_NORMAL))]
        if bad.size or not scales.size:
            shown = f"{bad.reshape(-1)[0]}" if bad.size else "empty"
            raise Refused(f"{what} '{name}' must be finite and positive, not {shown}")
        return scales

    def one_scale(self, name: str, what: str = "scale") -> Arr:
        """The one scale of an activation, of shape []."""
        scales = self.scale(name, what)
        if scales.size != 1:
            raise Refused(
                f"{what} '{name}' must be one number, not {scales.size}: an activation has no scale per channel",
                PER_TENSOR,
            )
        return scales.reshape(())

    def dtype(self, name: str) -> np.dtype[np.generic]:
        """The element type of a tensor of the graph."""
        if name in self.graph.initializers:
            return self.graph.initializers[name].dtype
        known = self.graph.tensor_type(name)
        if known is None:
            raise Refused(f"the type of '{name}' must be known", "infer the types of the model first")
        return known.dtype

    def shape(self, name: str) -> tuple[int, ...]:
        """The static shape of a tensor of the graph."""
        if name in self.graph.initializers:
            return self.graph.initializers[name].shape
        known = self.graph.tensor_type(name)
        if known is None or known.shape is None or not known.is_static:
            raise Refused(f"the shape of '{name}' must be known", "fix the shapes of the inputs with --input-shape")
        return tuple(int(size) for size in known.shape if isinstance(size, int))


def _distinct(nodes: Iterable[Node]) -> list[Node]:
    """The nodes with names of their own, which runtimes ask for: of a rewritten node without a name several parts would
    be called like its result.
    """
    taken, named = set[str](), list[Node]()
    for node in nodes:
        name = node.name
        while name and name in taken:
            name = f"{name}.{node.op_type}"
        taken.add(name)
        named.append(replace(node, name=name))
    return named


#: Rewrites one node.
Rule: TypeAlias = Callable[[Rewriting, Node], None]

#: (domain, operator) to the rule for it.
Table: TypeAlias = Mapping[tuple[str, str], Rule]


@dataclass(frozen=True)
class Scaled:
    """An integer tensor with its scale (float32) and zero point (of the tensor's type), both [] or [n] along an axis.

    `axis` is None where both are one number.
    """

    tensor: str
    scale: Arr
    zero: Arr
    axis: int | None = None


def scaled(
    rewriting: Rewriting, node: Node, at: tuple[int, int, int], what: str, axis: int | None = None
) -> Scaled:
    """The operand whose tensor, scale and zero point are the inputs at these positions; the zero point may be left out.

    `axis` is where a scale per channel lies; None refuses one.  Refused: parameters of another shape, or computed.
    """
    tensor, scale_name, zero_name = (node.input(position) for position in at)
    dtype = rewriting.dtype(tensor)
    if axis is None:
        scale = rewriting.one_scale(scale_name, f"the scale of {what}")
    else:
        scale = rewriting.scale(scale_name, f"the scale of {what}")
    zero = np.zeros((), dtype)
    if zero_name:
        zero = rewriting.parameter(zero_name, f"the zero point of {what}")
    return _aligned(rewriting, Scaled(tensor, scale, zero, axis), zero_name or scale_name, what)


def _aligned(rewriting: Rewriting, operand: Scaled, name: str, what: str) -> Scaled:
    """Scale and zero point in one shape: [] or [n]."""
    scale, zero = (array.reshape(-1) for array in (operand.scale, operand.zero))
    count = max(scale.size, zero.size)
    if not scale.size or not zero.size:
        raise Refused(f"scale and zero point of {what} ('{name}') must have elements, not none")
    if count == 1:
        return Scaled(operand.tensor, scale.reshape(()), zero.reshape(()))
    if operand.axis is None:
        raise Refused(
            f"the zero point '{name}' of {what} must be one number, not {count}: an activation has none per channel",
            PER_TENSOR,
        )
    shape = rewriting.shape(operand.tensor)
    axis = operand.axis % max(1, len(shape))
    if axis >= len(shape) or {scale.size, zero.size} - {1, shape[axis]}:
        raise Refused(
            f"scale and zero point of {what} ('{name}') must be one number or one per channel of {list(shape)} "
            f"along axis {axis}, not {scale.size} and {zero.size}",
        )
    return Scaled(operand.tensor, np.broadcast_to(scale, (count,)), np.broadcast_to(zero, (count,)), axis)


def dequantize(rewriting: Rewriting, operand: Scaled, wish: str, output: str = "") -> str:
    """A DequantizeLinear of the operand; the name of the real tensor."""
    parts = (("scale", operand.scale), ("zero_point", operand.zero))
    names = (rewriting.constant(f"{wish}.{what}", value.copy()) for what, value in parts)
    along: dict[str, Attribute] = {} if operand.axis is None else {"axis": operand.axis}
    return rewriting.emit("DequantizeLinear", operand.tensor, *names, wish=wish, output=output, attributes=along)


def quantize(rewriting: Rewriting, real: str, scale: Arr, zero: Arr, wish: str, output: str = "") -> str:
    """A QuantizeLinear with one scale and zero point; the name of the integer tensor, of the zero point's type."""
    names = (rewriting.constant(f"{wish}.scale", scale), rewriting.constant(f"{wish}.zero_point", zero))
    return rewriting.emit("QuantizeLinear", real, *names, wish=wish, output=output)
