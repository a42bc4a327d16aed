"""For each operator of the catalogue small models in which it stands between two layers, and what it becomes there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Model
from tests.quantize.dialects.cases import QONNX, Maker
from tests.strategies.classical import OPERATORS as CLASSICAL
from tests.strategies.classical import classical_model

F, MS = np.float32, "com.microsoft"
#: The layer in front of every operator.
HEAD = "head"

#: Makes the operator behind a tensor [1, 4, 6, 6]; gives its results.
Make = Callable[[Maker, str], Any]


class Case:
    """A model whose first layer is `HEAD`; `make` follows, and a layer follows what that gives."""

    def __init__(self, make: Make, domains: Mapping[str, int] | None = None) -> None:
        self.make, self.domains = make, domains or {}

    def model(self) -> Model:
        tails: list[tuple[int, ...]] = []
        for _ in range(2):  # the second time the shapes are known, and layers follow
            m = Maker((1, 4, 6, 6))
            x = m.node("Conv", m.x, weights(4, 4, 3, 3), name=HEAD, pads=[1, 1, 1, 1])
            made = self.make(m, x)
            results = [made] if isinstance(made, str) else list(made)
            ends = [tail(m, name, shape) for name, shape in zip(results, tails, strict=True)] if tails else results
            found = onnx.infer(m.model(*ends, opset=24, domains=self.domains))
            tails = [shape_of(found, name) for name in results]
        return found


def shape_of(model: Model, name: str) -> tuple[int, ...]:
    kind = model.graph.tensor_type(name)
    assert kind is not None
    return tuple(int(size) for size in kind.shape)


def tail(m: Maker, name: str, shape: tuple[int, ...]) -> str:
    if len(shape) == 4:
        return m.node("Conv", name, weights(2, shape[1], 1, 1))
    size = int(np.prod(shape))
    return m.node("Gemm", m.node("Flatten", name), weights(size, 3))


def weights(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(0, 1, shape).astype(F)


def unary(op: str, **attributes: Any) -> Case:
    return Case(lambda m, x: m.node(op, x, **attributes))


def limited(op: str, low: float) -> Case:
    """A function of what is at least `low`."""
    return Case(lambda m, x: m.node(op, m.node("Clip", x, F(low), F(6))))


def chosen(op: str) -> Case:
    """A comparison decides between a tensor and a number."""
    return Case(lambda m, x: m.node("Where", m.node(op, x, F(0.5)), x, F(0.25)))


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def second(m: Maker, x: str) -> str:
    """Another tensor of the shape of `x`."""
    return m.node("Conv", x, weights(4, 4, 1, 1))


def with_rows(m: Maker, x: str) -> str:
    """The sum of `x` and a row of a table."""
    row = m.node("Gather", weights(10, 144), m.b.input("numbers", np.int64, (1,)))
    return m.node("Add", x, m.node("Reshape", row, ints(1, 4, 6, 6)))


def transformed(op: str, *constants: Any) -> Case:
    """A Fourier transform of all elements behind one another."""
    return Case(lambda m, x: m.node(op, m.node("Reshape", x, ints(1, 144, 1)), *constants, onesided=1))


def two(op: str) -> Case:
    return Case(lambda m, x: m.node(op, x, second(m, x)))


def recurrent(op: str, gates: int) -> Case:
    """Over the six columns of the image, whose 24 rows and channels are the input."""
    def make(m: Maker, x: str) -> str:
        steps = m.node("Transpose", m.node("Reshape", x, ints(1, 24, 6)), perm=[2, 0, 1])
        y = m.b.nodes(op, steps, m.constant(weights(1, 5 * gates, 24)), m.constant(weights(1, 5 * gates, 5)),
                      outputs=("cell_y", "cell_h"), name="cell", hidden_size=5)[0]
        return m.node("Reshape", y, ints(1, 30))

    return Case(make)


STANDARD: Mapping[str, list[Case]] = {
    "RNN": [recurrent("RNN", 1)],
    "GRU": [recurrent("GRU", 3)],
    "LSTM": [recurrent("LSTM", 4)],
    "STFT": [transformed("STFT", np.int64(16), np.ones(32, F))],
    "DFT": [transformed("DFT", np.int64(32)), Case(lambda m, x: m.node(
        "DFT", m.node("Reshape", x, ints(1, 4, 36, 1)), axis=2))],
    "Attention": [Case(lambda m, x: m.node("Attention", x, x, x, is_causal=1))],
    "Einsum": [Case(lambda m, x: m.node("Einsum", x, x, equation="bcij,bckj->bcik")),
               Case(lambda m, x: m.node("Einsum", x, weights(4, 3), equation="bcij,cd->bdij"))],
    "Conv": [Case(lambda m, x: m.node("Conv", x, weights(4, 1, 3, 3), group=4, dilations=[2, 2], strides=[2, 1]))],
    "ConvTranspose": [Case(lambda m, x: m.node("ConvTranspose", x, weights(4, 3, 2, 2), strides=[2, 2]))],
    "Gemm": [Case(lambda m, x: m.node("Gemm", m.node("Flatten", x), weights(144, 5), weights(5)))],
    "MatMul": [Case(lambda m, x: m.node("MatMul", m.node("Flatten", x), weights(144, 5))),
               Case(lambda m, x: m.node("Flatten", m.node("MatMul", x, weights(6, 5)))),
               Case(lambda m, x: m.node("MatMul", x, m.node("Transpose", x, perm=[0, 1, 3, 2])))],
    "MaxPool": [unary("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, dilations=[1, 2])],
    "GlobalMaxPool": [unary("GlobalMaxPool")],
    "AveragePool": [
        unary("AveragePool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], count_include_pad=n) for n in (0, 1)
    ],
    "GlobalAveragePool": [unary("GlobalAveragePool")],
    "ReduceMean": [
        Case(lambda m, x, axes=axes: m.node("ReduceMean", x, ints(*axes), keepdims=0)) for axes in ((2, 3), (1,))
    ],
    "CumSum": [
        Case(lambda m, x: m.node("CumSum", x, np.array(1))),
        Case(lambda m, x: m.node("CumSum", x, np.array(-1), reverse=1, exclusive=1))],
    "Softmax": [Case(lambda m, x: m.node("Softmax", x, axis=1)), Case(lambda m, x: m.node("Softmax", x))],
    "LayerNormalization": [
        Case(lambda m, x: m.node("LayerNormalization", x, weights(6), weights(6))),
        Case(lambda m, x: m.node("LayerNormalization", x, weights(4, 6, 6), axis=1))],
    "RMSNormalization": [Case(lambda m, x: m.node("RMSNormalization", x, weights(6, 6), axis=2))],
    "GroupNormalization": [
        Case(lambda m, x: m.node("GroupNormalization", x, weights(4), weights(4), num_groups=2))],
    "InstanceNormalization": [Case(lambda m, x: m.node("InstanceNormalization", x, weights(4), weights(4)))],
    "MeanVarianceNormalization": [Case(lambda m, x: m.node("MeanVarianceNormalization", x))],
    "LpNormalization": [Case(lambda m, x: m.node("LpNormalization", x, axis=1))],
    **{name: [Case(lambda m, x, name=name, axes=axes: m.node(name, x, ints(*axes), keepdims=0))
              for axes in ((2, 3), (1,))]
       for name in ("ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceMax", "ReduceMin", "ReduceSum")},
    "ReduceLogSum": [Case(lambda m, x: m.node("ReduceLogSum", m.node("Sigmoid", x), ints(2, 3), keepdims=0))],
    "LpPool": [unary("LpPool", kernel_shape=[3, 3], pads=[1, 1, 1, 1], p=p) for p in (1, 2)],
    "GlobalLpPool": [unary("GlobalLpPool", p=p) for p in (1, 2)],
    "Add": [two("Add"), Case(lambda m, x: m.node("Add", x, F(0.5)))],
    "Sub": [two("Sub"), Case(lambda m, x: m.node("Sub", x, weights(1, 4, 1, 1)))],
    "Sum": [two("Sum")],
    "Mul": [two("Mul"), Case(lambda m, x: m.node("Mul", x, m.node("Sigmoid", m.node("GlobalAveragePool", x)))),
            Case(lambda m, x: m.node("Mul", x, F(0.5)))],
    "Div": [Case(lambda m, x: m.node("Div", x, F(3))), two("Div")],
    "BatchNormalization": [Case(lambda m, x: m.node("BatchNormalization", x, *([np.ones(4, F)] * 4)))],
    "Relu": [unary("Relu")],
    "Clip": [Case(lambda m, x: m.node("Clip", x, F(0), F(1)))],
    "PRelu": [Case(lambda m, x: m.node("PRelu", x, np.abs(weights(4, 1, 1)))),
              Case(lambda m, x: m.node("PRelu", m.node("MaxPool", x, kernel_shape=[2, 2]), np.abs(weights(4, 1, 1))))],
    "Concat": [
        Case(lambda m, x, axis=axis: m.node("Concat", x, second(m, x), axis=axis)) for axis in (1, 2)
    ],
    "Identity": [unary("Identity")],
    "Dropout": [unary("Dropout")],
    "Pad": [Case(lambda m, x: m.node("Pad", x, ints(0, 0, 1, 1, 0, 0, 1, 1))),
            Case(lambda m, x: m.node("Pad", x, ints(0, 0, 1, 1, 0, 0, 1, 1), mode="reflect"))],
    "Resize": [Case(lambda m, x: m.node("Resize", x, "", np.array([1, 1, 2, 2], F), mode="nearest"))],
    "Flatten": [unary("Flatten")],
    "Reshape": [Case(lambda m, x: m.node("Reshape", x, ints(1, 144)))],
    "Squeeze": [Case(lambda m, x: m.node("Squeeze", m.node("GlobalMaxPool", x), ints(2, 3)))],
    "Unsqueeze": [Case(lambda m, x: m.node("Unsqueeze", m.node("GlobalMaxPool", x), ints(2)))],
    "Transpose": [unary("Transpose", perm=[0, 1, 3, 2])],
    "CenterCropPad": [Case(lambda m, x: m.node("CenterCropPad", x, ints(4, 4), axes=[2, 3]))],
    "Compress": [Case(lambda m, x: m.node("Compress", x, np.array([1, 0, 1, 0], np.bool_), axis=1))],
    "DepthToSpace": [unary("DepthToSpace", blocksize=2)],
    "SpaceToDepth": [unary("SpaceToDepth", blocksize=2)],
    "Expand": [Case(lambda m, x: m.node("Expand", m.node("GlobalMaxPool", x), ints(1, 4, 3, 3)))],
    "Gather": [Case(lambda m, x: m.node("Gather", x, ints(3, 1), axis=1)), Case(with_rows)],
    "GatherElements": [Case(lambda m, x: m.node("GatherElements", x, np.zeros((1, 4, 6, 2), np.int64), axis=3))],
    "GatherND": [Case(lambda m, x: m.node("GatherND", x, np.array([[[2], [0]]], np.int64), batch_dims=1))],
    "ReverseSequence": [Case(lambda m, x: m.node("ReverseSequence", x, ints(4), batch_axis=0, time_axis=1))],
    "Slice": [Case(lambda m, x: m.node("Slice", x, ints(1), ints(5), ints(2), ints(2)))],
    "Split": [Case(lambda m, x: m.b.nodes("Split", x, m.constant(ints(1, 3)), outputs=("s0", "s1"), axis=1))],
    "Tile": [Case(lambda m, x: m.node("Tile", x, ints(1, 1, 2, 1)))],
    **{op: [Case(lambda m, x, op=op: m.node(op, x, F(0.5))), two(op)] for op in ("Max", "Min")},
    "Not": [Case(lambda m, x: m.node("Where", m.node("Not", m.node("Less", x, F(0.5))), x, F(0.25)))],
    "Where": [chosen("Less")],
    "Pow": [Case(lambda m, x: m.node("Pow", x, F(2)))],
    "Log": [limited("Log", 0.5)],
    "Sqrt": [limited("Sqrt", 0.0)],
    "Reciprocal": [limited("Reciprocal", 0.5)],
    **{op: [chosen(op)] for op in ("Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual")},
    **{op: [unary(op)] for op in (
        "Abs", "Asinh", "Atan", "Celu", "Ceil", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish",
        "LeakyRelu", "Mish", "Neg", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sinh", "Softplus", "Softsign",
        "Swish", "Tanh", "ThresholdedRelu")},
}  # fmt: skip


class Integers(Case):
    """A model of another dialect: `make` gives the whole of it behind the input of `dtype`."""

    def __init__(self, make: Make, dtype: Any = F, shape: tuple[int, ...] = (1, 4, 6, 6),
                 domains: Mapping[str, int] | None = None) -> None:
        super().__init__(make)
        self.dtype, self.shape, self.domains = dtype, shape, domains

    def model(self) -> Model:
        m = Maker(self.shape, self.dtype)
        return onnx.infer(m.model(self.make(m, m.x), opset=13, domains=self.domains))


STEP, ZERO = F(0.25), np.int8(3)
SCALED = STEP, ZERO


def whole(*shape: int) -> np.ndarray:
    return np.random.default_rng(1).integers(-100, 100, shape, dtype=np.int8)


def qlinear_conv(m: Maker, x: str) -> str:
    return m.node("QLinearConv", x, *SCALED, whole(4, 4, 1, 1), F(2.0**-6), np.int8(0), *SCALED, name=HEAD)


def behind(make: Make) -> Case:
    """Integers behind a QLinearConv."""
    return Integers(lambda m, x: m.node("DequantizeLinear", make(m, qlinear_conv(m, x)), *SCALED), np.int8)


def qdq(m: Maker, x: str, domain: str = "") -> str:
    return m.node("DequantizeLinear", m.node("QuantizeLinear", x, *SCALED, domain=domain), *SCALED, domain=domain)


def quantized_conv(m: Maker, x: str, domain: str) -> str:
    w = m.node("DequantizeLinear", whole(4, 4, 1, 1), F(0.01), np.int8(0))
    return qdq(m, m.node("Conv", qdq(m, x, domain), w, name=HEAD), domain)


def product_of_integers(op: str, w: np.ndarray, flat: bool) -> Case:
    def make(m: Maker, x: str) -> str:
        integers = m.node("QuantizeLinear", x, *SCALED)
        integers = m.node("Flatten", integers) if flat else integers
        total = m.node("Cast", m.node(op, integers, w, ZERO, name=HEAD), to=1)
        return qdq(m, m.node("Mul", total, F(2.0**-9)))
    return Integers(make)


def matmul_to_float(m: Maker, x: str) -> str:
    flat = m.node("Flatten", m.node("QuantizeLinear", x, *SCALED))
    return qdq(m, m.node("MatMulIntegerToFloat", flat, whole(144, 3), STEP, F(0.01), ZERO, domain=MS, name=HEAD))


def quant(activation: Make, domain: str) -> Case:
    def make(m: Maker, x: str) -> str:
        def as_integers(value: Any, step: float, bits: float) -> str:
            return m.node("Quant", value, F(step), F(0), F(bits), domain=domain)
        y = m.node("Conv", as_integers(x, 0.25, 8), as_integers(weights(4, 4, 3, 3), 0.25, 4), name=HEAD)
        y = m.node("Conv", activation(m, y), as_integers(weights(5, 4, 1, 1), 0.25, 3))
        return as_integers(y, 0.25, 8)
    return Integers(make, domains={domain: 1})


def trunc(domain: str) -> Case:
    def make(m: Maker, x: str) -> str:
        y = m.node("Quant", x, F(0.5), F(0), F(4), domain=domain, signed=0)
        mean = m.node("AveragePool", y, kernel_shape=[2, 2], strides=[2, 2], name=HEAD)
        y = m.node("Trunc", m.node("Mul", mean, F(4)), F(0.5), F(0), F(6), F(4), domain=domain)
        y = m.node("Conv", y, m.node("Quant", weights(5, 4, 1, 1), F(0.25), F(0), F(3), domain=domain))
        return m.node("Quant", y, F(0.25), F(0), F(8), domain=domain)
    return Integers(make, domains={domain: 1})


def flat_gemm(m: Maker, x: str) -> str:
    return m.node("QGemm", m.node("Flatten", x), *SCALED, whole(144, 5), F(0.01), np.int8(0), "", *SCALED, domain=MS)


def other(m: Maker, x: str) -> tuple[Any, ...]:
    """A second tensor of integers, of its own scale."""
    y = m.node("QLinearConv", x, *SCALED, whole(4, 4, 1, 1), F(2.0**-5), np.int8(0), F(0.125), np.int8(-4))
    return y, F(0.125), np.int8(-4)


def average(op: str, **attributes: Any) -> Case:
    return behind(lambda m, x: m.node(op, x, *SCALED, *SCALED, domain=MS, **attributes))


def microsoft(op: str, *others: Any, **attributes: Any) -> Case:
    """An operator of com.microsoft of one sequence, as each of its first inputs."""
    def make(m: Maker, x: str) -> str:
        rows = m.node("Reshape", x, ints(1, 24, 6))
        inputs = [rows if other is None else other for other in others]
        return m.node(op, rows, *inputs, domain=MS, **attributes)
    return Case(make, {MS: 1})


LEVELS = np.sort(weights(4, 3), axis=1)
MICROSOFT: Mapping[str, list[Case]] = {
    "QuantizeLinear": [Integers(lambda m, x: quantized_conv(m, x, MS))],
    "DequantizeLinear": [Integers(lambda m, x: quantized_conv(m, x, MS))],
    "Attention": [microsoft("Attention", weights(6, 12), num_heads=2)],
    "MultiHeadAttention": [microsoft("MultiHeadAttention", None, None, num_heads=2)],
    "SkipLayerNormalization": [microsoft("SkipLayerNormalization", None, np.ones(6, F))],
    "Gelu": [microsoft("Gelu")],
    "QuickGelu": [microsoft("QuickGelu")],
    "BiasGelu": [microsoft("BiasGelu", weights(6))],
    "FastGelu": [microsoft("FastGelu"), microsoft("FastGelu", weights(6))],
    "QGemm": [behind(flat_gemm)],
    "QLinearAdd": [behind(lambda m, x: m.node("QLinearAdd", x, *SCALED, *other(m, x), *SCALED, domain=MS))],
    "QLinearMul": [behind(lambda m, x: m.node("QLinearMul", x, *SCALED, *other(m, x), *SCALED, domain=MS))],
    "QLinearConcat": [behind(lambda m, x: m.node("QLinearConcat", *SCALED, x, *SCALED, *other(m, x), domain=MS,
                                                 axis=1))],
    "QLinearAveragePool": [average("QLinearAveragePool", kernel_shape=[2, 2])],
    "QLinearGlobalAveragePool": [average("QLinearGlobalAveragePool")],
    "QLinearLeakyRelu": [average("QLinearLeakyRelu", alpha=0.25)],
    "QLinearSigmoid": [average("QLinearSigmoid")],
    "MatMulIntegerToFloat": [Integers(matmul_to_float)],
}
QONNX_CASES: Mapping[str, Callable[[str], Case]] = {
    "Quant": lambda d: quant(lambda m, y: m.node("Quant", y, F(0.5), F(0), F(4), domain=d), d),
    "IntQuant": lambda d: quant(lambda m, y: m.node("IntQuant", y, F(0.5), F(0), F(4), domain=d), d),
    "BipolarQuant": lambda d: quant(lambda m, y: m.node("BipolarQuant", y, F(0.5), domain=d), d),
    "MultiThreshold": lambda d: quant(
        lambda m, y: m.node("MultiThreshold", y, LEVELS, domain=d, out_scale=0.25, out_bias=-0.5, out_dtype="INT4"), d),
    "Trunc": trunc,
}


class Classical(Case):
    """A model of one operator of ai.onnx.ml alone."""

    def __init__(self, op: str) -> None:
        super().__init__(lambda m, x: x)
        self.op = op

    def model(self) -> Model:
        return onnx.infer(classical_model(self.op, np.random.default_rng(0)))


CASES: Mapping[tuple[str, str], list[Case]] = {
    **{("", op): cases for op, cases in STANDARD.items()},
    ("", "QuantizeLinear"): [Integers(lambda m, x: quantized_conv(m, x, ""))],
    ("", "DequantizeLinear"): [Integers(lambda m, x: quantized_conv(m, x, ""))],
    ("", "QLinearConv"): [behind(lambda m, x: x)],
    ("", "QLinearMatMul"): [behind(lambda m, x: m.node(
        "QLinearMatMul", m.node("Flatten", x), *SCALED, whole(144, 5), F(0.01), np.int8(0), *SCALED))],
    ("", "ConvInteger"): [product_of_integers("ConvInteger", whole(4, 4, 3, 3), flat=False)],
    ("", "MatMulInteger"): [product_of_integers("MatMulInteger", whole(144, 3), flat=True)],
    **{("ai.onnx.ml", op): [Classical(op)] for op in CLASSICAL},
    **{(MS, op): cases for op, cases in MICROSOFT.items()},
    **{(d, op): [case(d)] for op, case in QONNX_CASES.items() for d in (QONNX, "onnx.brevitas",
                                                                        "finn.custom_op.general")},
}  # fmt: skip
