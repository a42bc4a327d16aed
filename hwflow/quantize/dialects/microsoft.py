"""com.microsoft: what onnxruntime's quantizer writes becomes standard operators between quantizers.

The definitions: https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md.  QLinearAdd, Mul, Concat,
Sigmoid, LeakyRelu and Softmax compute on dequantized values in float32 and quantize the result, so their rewritten form
gives the same bits; QGemm and the average pools scale an exact sum, as `qoperator` describes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx.model import Node
from hwflow.quantize.dialects.qoperator import bias_operand, is_dynamic, output_parameters, refuse_dynamic
from hwflow.quantize.dialects.rewriting import Refused, Rewriting, Rule, Table, dequantize, quantize, scaled
from hwflow.quantize.graphs import attribute, label_of

DOMAIN = "com.microsoft"


def _as_standard(rewriting: Rewriting, node: Node) -> None:
    """The operator that com.microsoft copied, with its wider list of types."""
    for position, what in ((1, "scale"), (2, "zero point")):
        if node.input(position):
            (rewriting.scale if position == 1 else rewriting.parameter)(node.input(position), what)
    rewriting.nodes.append(replace(node, domain=""))


def _qgemm(rewriting: Rewriting, node: Node) -> None:
    base, alpha = label_of(node), attribute(node, "alpha", 1.0)
    a = scaled(rewriting, node, (0, 1, 2), "A")
    b = scaled(rewriting, node, (3, 4, 5), "B", axis=0 if attribute(node, "transB", 0) else 1)
    inputs = [dequantize(rewriting, a, f"{base}.input"), dequantize(rewriting, b, f"{base}.weights")]
    if node.input(6):
        inputs.append(dequantize(rewriting, bias_operand(rewriting, node.input(6), a, b, alpha), f"{base}.bias"))
    factors = {key: value for key, value in node.attributes.items() if key in ("alpha", "transA", "transB")}
    if not node.input(7):  # the result is float32
        rewriting.emit("Gemm", *inputs, output=node.outputs[0], name=base, attributes=factors)
        return
    scale, zero = output_parameters(rewriting, node, (7, 8), rewriting.dtype(node.inputs[0]))
    real = rewriting.emit("Gemm", *inputs, wish=f"{base}.real", name=base, attributes=factors)
    quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])


def _binary(op: str) -> Rule:
    def rule(rewriting: Rewriting, node: Node) -> None:
        base = label_of(node)
        a, b = scaled(rewriting, node, (0, 1, 2), "A"), scaled(rewriting, node, (3, 4, 5), "B")
        scale, zero = output_parameters(rewriting, node, (6, 7), rewriting.dtype(node.inputs[0]))
        inputs = dequantize(rewriting, a, f"{base}.a"), dequantize(rewriting, b, f"{base}.b")
        real = rewriting.emit(op, *inputs, wish=f"{base}.real", name=base)
        quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])

    return rule


def _unary(op: str, *same: str) -> Rule:
    """x, its scale and zero point, those of the result; the attributes `same` mean the same in `op`."""

    def rule(rewriting: Rewriting, node: Node) -> None:
        base = label_of(node)
        x = scaled(rewriting, node, (0, 1, 2), "the input")
        scale, zero = output_parameters(rewriting, node, (3, 4), rewriting.dtype(node.inputs[0]))
        attributes = {key: value for key, value in node.attributes.items() if key in same}
        if not attribute(node, "channels_last", 0):
            real_x = dequantize(rewriting, x, f"{base}.input")
            real = rewriting.emit(op, real_x, wish=f"{base}.real", name=base, attributes=attributes)
            quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])
            return
        rank = len(rewriting.shape(node.inputs[0]))
        to_first, to_last = (0, rank - 1, *range(1, rank - 1)), (0, *range(2, rank), 1)
        moved = rewriting.emit("Transpose", x.tensor, wish=f"{base}.channels_first", perm=to_first)
        real_x = dequantize(rewriting, replace(x, tensor=moved), f"{base}.input")
        real = rewriting.emit(op, real_x, wish=f"{base}.real", name=base, attributes=attributes)
        result = quantize(rewriting, real, scale, zero, f"{base}.result")
        rewriting.emit("Transpose", result, output=node.outputs[0], perm=to_last)

    return rule


_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")


def _softmax(rewriting: Rewriting, node: Node) -> None:
    """Below operator set 13 Softmax normalised all axes from `axis` on at once; the same where that is the last."""
    rank = len(rewriting.shape(node.inputs[0]))
    opset = attribute(node, "opset", 13)
    axis = attribute(node, "axis", -1)
    if opset < 13 and rank and axis % rank != rank - 1:
        raise Refused(
            f"'axis' of a Softmax of operator set {opset} must be the last of {rank} axes, not {axis}",
            "export the float model with operator set 13 or newer, and quantize it again",
        )
    _unary("Softmax", "axis")(rewriting, replace(node, attributes={**node.attributes, "axis": axis}))


def _concat(rewriting: Rewriting, node: Node) -> None:
    base = label_of(node)
    scale, zero = output_parameters(rewriting, node, (0, 1), rewriting.dtype(node.inputs[2]))
    parts = [
        dequantize(rewriting, scaled(rewriting, node, (k, k + 1, k + 2), f"part {k // 3}"), f"{base}.part{k // 3}")
        for k in range(2, len(node.inputs), 3)
    ]
    real = rewriting.emit("Concat", *parts, wish=f"{base}.real", name=base, axis=attribute(node, "axis", 0))
    quantize(rewriting, real, scale, zero, f"{base}.result", node.outputs[0])


def _matmul_to_float(rewriting: Rewriting, node: Node) -> None:
    """A, B, their scales, their zero points, a float bias."""
    if is_dynamic(rewriting, node):
        return
    base = label_of(node)
    a = scaled(rewriting, node, (0, 2, 4), "A")
    b = scaled(rewriting, node, (1, 3, 5), "B", axis=-1)
    inputs = dequantize(rewriting, a, f"{base}.input"), dequantize(rewriting, b, f"{base}.weights")
    bias = node.input(6)
    product = rewriting.emit(
        "MatMul", *inputs, wish=f"{base}.product", output="" if bias else node.outputs[0], name=base
    )
    if bias:
        rewriting.emit("Add", product, bias, output=node.outputs[0])


def _gelu(rewriting: Rewriting, node: Node) -> None:
    """x times the normal distribution function of x, after a bias: Gelu and BiasGelu."""
    x, base = _biased(rewriting, node), label_of(node)
    scaled_x = rewriting.emit("Mul", x, _number(rewriting, node, "root", 0.5**0.5), wish=f"{base}.scaled")
    _times_share(rewriting, node, x, rewriting.emit("Erf", scaled_x, wish=f"{base}.erf"))


def _fast_gelu(rewriting: Rewriting, node: Node) -> None:
    """Gelu by the hyperbolic tangent of sqrt(2 / pi) (x + 0.044715 x^3): FastGelu."""
    x, base = _biased(rewriting, node), label_of(node)
    cube = rewriting.emit("Pow", x, _number(rewriting, node, "three", 3), wish=f"{base}.cube")
    part = rewriting.emit("Mul", cube, _number(rewriting, node, "share", 0.044715), wish=f"{base}.part")
    total = rewriting.emit("Add", x, part, wish=f"{base}.sum")
    factor = _number(rewriting, node, "factor", (2 / np.pi) ** 0.5)
    inner = rewriting.emit("Mul", total, factor, wish=f"{base}.inner")
    _times_share(rewriting, node, x, rewriting.emit("Tanh", inner, wish=f"{base}.tanh"))


def _number(rewriting: Rewriting, node: Node, wish: str, value: float) -> str:
    return rewriting.float32(f"{label_of(node)}.{wish}", value)


def _biased(rewriting: Rewriting, node: Node) -> str:
    bias = node.input(1)
    if not bias:
        return node.inputs[0]
    return rewriting.emit("Add", node.inputs[0], bias, wish=f"{label_of(node)}.biased")


def _times_share(rewriting: Rewriting, node: Node, x: str, share: str) -> None:
    """x times (1 + share) / 2, the output of the node."""
    base = label_of(node)
    above = rewriting.emit("Add", share, _number(rewriting, node, "one", 1), wish=f"{base}.above")
    doubled = rewriting.emit("Mul", x, above, wish=f"{base}.doubled")
    half = _number(rewriting, node, "half", 0.5)
    rewriting.emit("Mul", doubled, half, output=node.outputs[0], name=base)


def _quick_gelu(rewriting: Rewriting, node: Node) -> None:
    """x times sigmoid(alpha x)."""
    base, x = label_of(node), node.inputs[0]
    alpha = _number(rewriting, node, "alpha", attribute(node, "alpha", 1.702))
    gate = rewriting.emit("Sigmoid", rewriting.emit("Mul", x, alpha, wish=f"{base}.scaled"), wish=f"{base}.gate")
    rewriting.emit("Mul", x, gate, output=node.outputs[0], name=base)


RULES: Table = {
    (DOMAIN, "Gelu"): _gelu,
    (DOMAIN, "BiasGelu"): _gelu,
    (DOMAIN, "FastGelu"): _fast_gelu,
    (DOMAIN, "QuickGelu"): _quick_gelu,
    (DOMAIN, "QuantizeLinear"): _as_standard,
    (DOMAIN, "DequantizeLinear"): _as_standard,
    (DOMAIN, "QGemm"): _qgemm,
    (DOMAIN, "QLinearAdd"): _binary("Add"),
    (DOMAIN, "QLinearMul"): _binary("Mul"),
    (DOMAIN, "QLinearConcat"): _concat,
    (DOMAIN, "QLinearGlobalAveragePool"): _unary("GlobalAveragePool"),
    (DOMAIN, "QLinearAveragePool"): _unary("AveragePool", *_POOL),
    (DOMAIN, "QLinearSigmoid"): _unary("Sigmoid"),
    (DOMAIN, "QLinearLeakyRelu"): _unary("LeakyRelu", "alpha"),
    (DOMAIN, "QLinearSoftmax"): _softmax,
    (DOMAIN, "MatMulIntegerToFloat"): _matmul_to_float,
    (DOMAIN, "DynamicQuantizeMatMul"): refuse_dynamic,
}
