"""The layer graph while it grows: names, tensors, and the layers that make them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hwflow.layers import Layer, LayerGraph, Tensor
from hwflow.layers.concat import Concat
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Model, Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import label_of
from hwflow.quantize.importer.cores import identity
from hwflow.quantize.importer.finish import average_layer, matrix_layer, product_layer, sum_layer, table_layer
from hwflow.quantize.importer.states import (
    Average,
    Held,
    Joined,
    Kept,
    Matrix,
    Parameters,
    Pending,
    Product,
    Rounded,
    Step,
    Sum,
    Unsupported,
)
from hwflow.quantize.importer.steps import varies
from hwflow.quantize.settings import OutputStage

__all__ = ["Building"]

_TABLE_BITS = 8


class Building:
    """`tensors` and `layers` of the graph; `sources` gives the ONNX tensor behind each and its index (as in `Held`)."""

    def __init__(self, model: Model, suffix: set[str], stage: Callable[[Node], OutputStage]) -> None:
        self.tensors: dict[str, Tensor] = {}
        self.layers: list[Layer] = []
        self.sources: dict[str, tuple[str, IntArray]] = {}
        self._opsets, self._stage = model.opsets, stage
        self._taken: set[str] = set()
        self._made: dict[str, str] = {}
        self._read_as_real: set[str] = set()
        #: Result of a Concat to its parts.
        self._parts: dict[str, tuple[str, ...]] = {}
        self._host_reads = {value.name for value in model.graph.outputs}
        for node in model.graph.nodes:
            if suffix.intersection(node.outputs):
                self._host_reads.update(node.inputs)

    def add(self, layer: Layer, tensor: Tensor) -> None:
        self.layers.append(layer)
        self.tensors[tensor.name] = tensor

    def tensor_name(self, output: str) -> str:
        """The layer graph's name of an ONNX tensor: the same, except where the host may read that very tensor.

        Frames and the ONNX tensor that the host makes of them differ in layout, so they must differ in name.
        """
        return f"{output}.frame" if output in self._host_reads else output

    def name_of(self, node: Node) -> str:
        """A layer's name: the node's, made unique."""
        wish = name = label_of(node)
        count = 1
        while name in self._taken:
            count += 1
            name = f"{wish}_{count}"
        self._taken.add(name)
        return name

    def dequantize(self, tensor: str, p: Parameters) -> None:
        """Give the integers of `tensor` the meaning that their first DequantizeLinear states.  Unsupported: another."""
        x = self.tensors[tensor]
        same = (x.scale, x.zero_point) == (p.scale, p.zero_point)
        if not same and (tensor in self._read_as_real or not x.format.low <= p.zero_point <= x.format.high):
            raise Unsupported(
                f"scale and zero point must be those of the QuantizeLinear before it ({x.scale}, {x.zero_point}), "
                f"not {p.scale}, {p.zero_point}",
                "quantize the model again",
            )
        self._read_as_real.add(tensor)
        self._give_meaning(tensor, p)

    def _give_meaning(self, tensor: str, p: Parameters) -> None:
        """A Concat's parts mean what the whole means."""
        todo = [tensor]
        while todo:
            name = todo.pop()
            self.tensors[name] = replace(self.tensors[name], scale=p.scale, zero_point=p.zero_point)
            todo += self._parts.get(name, ())

    def held(self, rounded: Rounded) -> Held:
        """The tensor that `rounded` is, with its layer made at the first call."""
        if rounded.output not in self._made:
            try:
                self._made[rounded.output] = self._make(rounded)
            except (ValueError, OverflowError) as error:
                why, _, remedy = str(error).partition("; ")
                raise Unsupported(why, remedy or "quantize the model again; a scale is out of proportion") from None
        return Held(self._made[rounded.output], rounded.index, real=False)

    def _make(self, rounded: Rounded) -> str:
        pending, p = rounded.pending, rounded.parameters
        core = pending.core
        name = self.tensor_name(rounded.output)
        y = Tensor(name, core.frame, p.narrow, p.scale, p.zero_point)
        if isinstance(core, Joined):
            layer: Layer = self._concat(rounded, core, name)
        else:
            layer = self._layer(rounded, y)
        layer.check(LayerGraph("", {**self.tensors, name: y}, (), (), ()))
        self.add(layer, y)
        self.sources[name] = (rounded.output, pending.index)
        return name

    def _layer(self, rounded: Rounded, y: Tensor) -> Layer:
        pending, p = rounded.pending, rounded.parameters
        core = pending.core
        if isinstance(core, Kept):
            x = self.tensors[core.source.tensor]
            node = pending.steps[0].node if pending.steps else rounded.node
            if x.format.bits <= _TABLE_BITS and not varies(pending):
                return table_layer(pending, x, y, self.name_of(node), p, self._opsets)
            core = identity(node, core.key, core.source, core.frame)
        name, stage = self.name_of(core.node), self._stage(core.node)
        if isinstance(core, Matrix):
            x = self.tensors[core.source.tensor]
            return matrix_layer(pending, core, x, y, name, p, stage, self._opsets)
        if isinstance(core, Average):
            x = self.tensors[core.source.tensor]
            return average_layer(pending, core, x, y, name, p, stage, self._opsets)
        assert isinstance(core, (Sum, Product))
        a, b = (self.tensors[held.tensor] for held in core.sources)
        if isinstance(core, Sum):
            return sum_layer(pending, core, (a, b), y, name, p)
        return product_layer(pending, core, (a, b), y, name, p)

    def _concat(self, rounded: Rounded, core: Joined, name: str) -> Concat:
        """A Concat that makes `name`.  Where a part is a tensor of its own, the meaning of all is fixed."""
        before = {*self.tensors}
        parts = tuple(self._part(rounded, core, k) for k in range(len(core.parts)))
        self._parts[name] = parts
        if (before | self._read_as_real).intersection(parts):
            self._read_as_real.add(name)
        return Concat(self.name_of(core.node), parts, name)

    def _part(self, rounded: Rounded, core: Joined, number: int) -> str:
        """The tensor of one part of a Concat, with the functions behind the Concat applied and quantized as it is."""
        part, p = core.parts[number], rounded.parameters
        start = sum(other.core.frame.channels for other in core.parts[:number])
        pending = part
        for step in rounded.pending.steps:
            pending = pending.then(_sliced(step, core.key, part.result, start, part.core.frame.channels))
        if isinstance(part.core, Kept) and not pending.steps:
            x = self.tensors[part.core.source.tensor]
            inside = p.low <= x.format.low and x.format.high <= p.high
            if inside and (x.format, x.scale, x.zero_point) == (p.narrow, p.scale, p.zero_point):
                return x.name
        output = f"{rounded.output}.part{number}"
        made = Rounded(pending, rounded.node, output, p, pending.index)
        name = self.held(made).tensor
        if not rounded.pending.steps:
            plain = isinstance(part.core, Kept) and not part.steps
            self.sources[name] = self.sources[part.core.key] if plain else (part.result, part.index)
        else:
            self.sources.pop(name, None)  # a second attempt, after one of another reader failed
        return name

    def joined(self, pending: Pending) -> Held:
        """A Concat of tensors of one scale, as reals.  Unsupported where they differ."""
        core = pending.core
        assert isinstance(core, Joined)
        if core.key not in self._made:
            tensors = [self._plain(part) for part in core.parts]
            kinds = {(x.format, x.scale, x.zero_point) for x in tensors}
            if len(kinds) > 1:
                raise Unsupported(
                    f"joins tensors of different scales ({', '.join(f'{x.name!r}: {x.scale}' for x in tensors)})",
                    "put a QuantizeLinear and DequantizeLinear behind it",
                )
            name = self.tensor_name(core.key)
            layer = Concat(self.name_of(core.node), tuple(x.name for x in tensors), name)
            self.add(layer, replace(tensors[0], name=name, frame=core.frame))
            self.sources[name] = (core.key, core.index)
            self._read_as_real.add(name)
            self._made[core.key] = name
        return Held(self._made[core.key], pending.index, real=True)

    def _plain(self, part: Pending) -> Tensor:
        if not isinstance(part.core, Kept) or part.steps:
            raise Unsupported(
                f"joins the result of {part.core.node.label}, which no QuantizeLinear made integer",
                "put a QuantizeLinear and DequantizeLinear behind it",
            )
        return self.tensors[part.core.source.tensor]


def _sliced(step: Step, key: str, result: str, start: int, count: int) -> Step:
    """A step behind a Concat, for the channels of one part."""

    def moved(source: str | Quantity | None) -> str | Quantity | None:
        if isinstance(source, Quantity) and source.real.ndim > 0:
            return source.moved(lambda array: array[start : start + count])
        return result if source == key else source

    return Step(step.node, tuple(moved(source) for source in step.inputs))
