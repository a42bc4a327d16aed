"""QOperator: the default domain's operators on integers become standard operators between quantizers.

    QLinearConv, QLinearMatMul    DequantizeLinear of x, w and bias -> Conv, MatMul -> QuantizeLinear
    ConvInteger, MatMulInteger    the same with weights of scale 1; the sum leaves in units of the product

A QLinear operator multiplies its exact sum by the float32 quotient of the scales; a QDQ model rounds the real sum.
Both mean the sum times the real quotient, and differ only where that lies within float32's error of a tie.

QOperator models pool what QuantizeLinear gives, so `dequantize_before_pool` is here, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.advice import STATIC
from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import BEST, HOST_BEFORE, LAYOUT, MAX_POOLS, row_of
from hwflow.onnx.ops.base import Arr
from hwflow.quantize.dialects.rewriting import (
    PER_TENSOR,
    Refused,
    Rewriting,
    Rule,
    Scaled,
    Table,
    dequantize,
    quantize,
    scaled,
)
from hwflow.quantize.graphs import Names, consumers, host_prefix, label_of, with_graph
from hwflow.quantize.scale import SMALLEST_NORMAL

#: ONNX's code of float32 in a Cast.
_FLOAT32 = 1
_INT32 = 6

#: Operators behind which integers mean what they meant before.
_KEEPING = LAYOUT | MAX_POOLS | BEST


def output_parameters(
    rewriting: Rewriting, node: Node, at: tuple[int, int], default: np.dtype[np.generic]
) -> tuple[Arr, Arr]:
    """Scale and zero point of the result; the zero point is 0 of the type `default` where it is left out."""
    scale = rewriting.one_scale(node.input(at[0]), "the scale of the result")
    name = node.input(at[1])
    zero = rewriting.parameter(name, "the zero point of the result") if name else np.zeros((), default)
    if zero.size != 1:
        raise Refused(
            f"the zero point '{name}' of the result must be one number, not {zero.size}",
            PER_TENSOR,
        )
    return scale, zero.reshape(())


def bias_operand(rewriting: Rewriting, name: str, x: Scaled, w: Scaled, factor: float = 1.0) -> Scaled:
    """An int32 bias along its last axis, in units of the products x times w times `factor`."""
    with np.errstate(over="ignore", under="ignore"):
        unit = np.asarray(np.float32(factor) * x.scale * w.scale, np.float32)
    if not np.all(np.isfinite(unit) & (unit >= SMALLEST_NORMAL)):
        raise Refused(
            f"the scale of the bias '{name}', that of the input times that of the weights, must be a normal float32, "
            f"not {unit.reshape(-1)[0]}"
        )
    shape = rewriting.shape(name)
    if unit.size > 1 and (not shape or shape[-1] != unit.size):
        value = rewriting.parameter(name, "bias")
        name = rewriting.constant(f"{name}.per_channel", np.broadcast_to(value, (*shape[:-1], unit.size)).copy())
        shape = (*shape[:-1], unit.size)
    zero = np.zeros(unit.shape, np.int32)
    return Scaled(name, unit, zero, len(shape) - 1 if unit.size > 1 else None)


def _qlinear_conv(rewriting: Rewriting, node: Node) -> None:
    base = label_of(node)
    x = scaled(rewriting, node, (0, 1, 2), "the input")
    w = scaled(rewriting, node, (3, 4, 5), "the weights", axis=0)
    scale, zero = output_parameters(rewriting, node, (6, 7), rewriting.dtype(node.inputs[0]))
    inputs = [dequantize(rewriting, x, f"{base}.input"), dequantize(rewriting, w, f"{base}.weights")]
    if node.input(8):
        bias = bias_operand(rewriting, node.input(8), x, w)
        inputs.append(dequantize(rewriting, bias, f"{base}.bias"))
    real = rewriting.emit("Conv", *inputs, wish=f"{base}.real", name=base, attributes=node.attributes)
    quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])


def _qlinear_matmul(rewriting: Rewriting, node: Node) -> None:
    base = label_of(node)
    a = scaled(rewriting, node, (0, 1, 2), "the left factor")
    b = scaled(rewriting, node, (3, 4, 5), "the right factor", axis=-1)
    scale, zero = output_parameters(rewriting, node, (6, 7), rewriting.dtype(node.inputs[0]))
    inputs = dequantize(rewriting, a, f"{base}.input"), dequantize(rewriting, b, f"{base}.weights")
    real = rewriting.emit("MatMul", *inputs, wish=f"{base}.real", name=base)
    quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])


def _integer_product(op: str, axis: int) -> Rule:
    """The rule of ConvInteger or MatMulInteger, whose weights have channels along `axis`.

    The input keeps the scale s that its quantizer gave it, so that the sum is s times the integer; a Div takes s away
    again, which costs nothing in hardware.  The result is float: a Cast to float behind it is left out, for other
    readers it is rounded and cast to int32.
    """

    def rule(rewriting: Rewriting, node: Node) -> None:
        if is_dynamic(rewriting, node):
            return
        base = label_of(node)
        x = _unscaled(rewriting, node, 0, 2, "the input", None)
        w = _unscaled(rewriting, node, 1, 3, "the weights", axis)
        step = _step_of(rewriting, x)
        x = Scaled(x.tensor, step, x.zero)
        inputs = dequantize(rewriting, x, f"{base}.input"), dequantize(rewriting, w, f"{base}.weights")
        real = rewriting.emit(op, *inputs, wish=f"{base}.real", name=base, attributes=node.attributes)
        if step != 1:
            real = rewriting.emit("Div", real, rewriting.constant(f"{base}.step", step), wish=f"{base}.sum")
        _hand_over(rewriting, node, real)

    return rule


def is_dynamic(rewriting: Rewriting, node: Node) -> bool:
    """True behind a DynamicQuantizeLinear, which is refused itself; once is enough."""
    makers = (rewriting.made.get(name) for name in node.inputs)
    return any(maker is not None and maker.op_type == "DynamicQuantizeLinear" for maker in makers)


def _unscaled(rewriting: Rewriting, node: Node, at: int, zero_at: int, what: str, axis: int | None) -> Scaled:
    """An operand that has a zero point but no scale."""
    tensor, zero_name = node.inputs[at], node.input(zero_at)
    zero = np.zeros((), rewriting.dtype(tensor))
    if zero_name:
        zero = rewriting.parameter(zero_name, f"the zero point of {what}")
    if zero.size == 1:
        return Scaled(tensor, np.ones((), np.float32), zero.reshape(()))
    shape = rewriting.shape(tensor)
    if axis is None or zero.ndim != 1 or not shape or zero.size != shape[axis]:
        raise Refused(
            f"the zero point '{zero_name}' of {what} must be one number, not have the shape {list(zero.shape)}",
            PER_TENSOR,
        )
    return Scaled(tensor, np.ones(zero.shape, np.float32), zero, axis % len(shape))


def _step_of(rewriting: Rewriting, x: Scaled) -> Arr:
    """The scale that the integers of `x` were made with; 1 where no quantizer made them or it had another zero point.

    They come from it unchanged but for their layout.
    """
    name, one = x.tensor, np.ones((), np.float32)
    while name in rewriting.made and rewriting.made[name].op_type in _KEEPING:
        name = rewriting.made[name].inputs[0]
    maker = rewriting.made.get(name)
    positions = None if maker is None else row_of(maker.domain, maker.op_type).integer_result
    if maker is None or positions is None:
        return one
    scale, zero = output_parameters(rewriting, maker, positions, x.zero.dtype)
    return scale if zero.dtype == x.zero.dtype and zero == x.zero else one


def _hand_over(rewriting: Rewriting, node: Node, real: str) -> None:
    """Give the float sums to those who read the int32 ones."""
    output, casts = node.outputs[0], []
    for reader in rewriting.read.get(output, []):
        if reader.op_type == "Cast" and not reader.domain and reader.attributes.get("to") == _FLOAT32:
            rewriting.instead[reader.outputs[0]] = Node("Identity", (real,), reader.outputs, {}, reader.name)
            casts.append(reader)
    if output in rewriting.outputs or len(casts) < len(rewriting.read.get(output, [])):
        whole = rewriting.emit("Round", real, wish=f"{output}.whole")
        rewriting.emit("Cast", whole, output=output, to=_INT32)


def refuse_dynamic(rewriting: Rewriting, node: Node) -> None:
    """The rule of operators that quantize with scales of their own finding."""
    raise Refused(
        f"measures the range of '{node.inputs[0]}' while the model runs; in hardware scales must be constants",
        STATIC.general,
    )


RULES: Table = {
    ("", "QLinearConv"): _qlinear_conv,
    ("", "QLinearMatMul"): _qlinear_matmul,
    ("", "ConvInteger"): _integer_product("Conv", 0),
    ("", "MatMulInteger"): _integer_product("MatMul", -1),
    ("", "DynamicQuantizeLinear"): refuse_dynamic,
}


def dequantize_before_pool(model: Model) -> Model:
    """MaxPool, then DequantizeLinear, becomes DequantizeLinear, then MaxPool, where the pool reads the host's integers.

    The integers of the hardware's input get their scale from a DequantizeLinear right behind it.  The largest of some
    integers has the largest real value, so the bits stay the same.  All readers of the pool must agree on the scale.
    """
    graph, read = model.graph, consumers(model.graph)
    host = host_prefix(graph, HOST_BEFORE)
    names, nodes = Names(graph), list[Node]()
    replaced: dict[str, list[Node]] = {}
    for node in graph.nodes:
        readers = read.get(node.outputs[0], [])
        if node.op_type in MAX_POOLS and node.inputs[0] in host and _agree(node, readers, graph):
            first, real = readers[0], names.new(f"{node.outputs[0]}.dequantized")
            nodes.append(replace(first, inputs=(node.inputs[0], *first.inputs[1:]), outputs=(real,)))
            nodes.append(replace(node, inputs=(real,), outputs=first.outputs))
            replaced[first.outputs[0]] = []
            for other in readers[1:]:
                replaced[other.outputs[0]] = [Node("Identity", first.outputs, other.outputs, {}, other.name)]
        else:
            nodes += replaced.get(node.outputs[0], [node])
    return simplify(infer(with_graph(model, nodes))) if replaced else model


def _agree(pool: Node, readers: Sequence[Node], graph: Graph) -> bool:
    """True where nothing but DequantizeLinear nodes of one scale and zero point reads the pool's first output."""
    if not readers or len(pool.outputs) > 1 or any(value.name == pool.outputs[0] for value in graph.outputs):
        return False
    first = readers[0]
    return all(
        node.op_type == "DequantizeLinear"
        and node.attributes == first.attributes
        and len(node.inputs) == len(first.inputs)
        and all(_same(a, b, graph) for a, b in zip(node.inputs[1:], first.inputs[1:], strict=True))
        for node in readers
    )


def _same(a: str, b: str, graph: Graph) -> bool:
    """True for one number, the same under both names."""
    values = [graph.initializers.get(name) for name in (a, b)]
    return all(v is not None and v.size == 1 for v in values) and np.array_equal(*map(np.ravel, values))  # type: ignore[arg-type]
