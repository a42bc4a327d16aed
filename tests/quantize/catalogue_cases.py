"""For each operator of the catalogue small models in which it stands between two layers; see operators.txt, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Model
from tests.quantize.dialects.cases import QONNX, Maker
from tests.quantize.operator_cases import networks, weights
from tests.strategies.classical import OPERATORS as CLASSICAL
from tests.strategies.classical import classical_model

F, MS = np.float32, "com.microsoft"
#: The layer in front of every operator.
HEAD = "head"

#: Makes the operator behind a tensor [1, 4, 6, 6]; gives its results.
Make = Callable[[Maker, str], Any]


class Case(Protocol):
    def model(self) -> Model: ...


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


class Integers:
    """A model of another dialect: `make` gives the whole of it behind the input of `dtype`."""

    def __init__(self, make: Make, dtype: Any = F, domains: Mapping[str, int] | None = None, opset: int = 13) -> None:
        self.make, self.dtype, self.domains, self.opset = make, dtype, domains, opset

    def model(self) -> Model:
        m = Maker((1, 4, 6, 6), self.dtype)
        return onnx.infer(m.model(self.make(m, m.x), opset=self.opset, domains=self.domains))


STANDARD = [one for one in networks() if not one.old]
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


def microsoft(op: str, *others: Any, size: int = 144, **attributes: Any) -> Case:
    """An operator of com.microsoft of one sequence, as each of its first inputs, between two layers."""
    def make(m: Maker, x: str) -> str:
        rows = m.node("Reshape", m.node("Conv", x, weights(4, 4, 3, 3), name=HEAD, pads=[1] * 4), ints(1, 24, 6))
        inputs = [rows if other is None else other for other in others]
        made = m.node("Flatten", m.node(op, rows, *inputs, domain=MS, **attributes))
        return m.node("Gemm", made, weights(size, 3))
    return Integers(make, domains={MS: 1}, opset=24)


def fused_gemm(m: Maker, x: str) -> str:
    flat = m.node("Flatten", m.node("Conv", x, weights(4, 4, 3, 3), name=HEAD, pads=[1] * 4))
    made = m.node("FusedGemm", flat, weights(144, 6), weights(6), domain=MS, activation="Relu")
    return m.node("Gemm", made, weights(6, 3))


LEVELS = np.sort(weights(4, 3), axis=1)
MICROSOFT: Mapping[str, list[Case]] = {
    "QuantizeLinear": [Integers(lambda m, x: quantized_conv(m, x, MS))],
    "DequantizeLinear": [Integers(lambda m, x: quantized_conv(m, x, MS))],
    "Attention": [microsoft("Attention", weights(6, 12), size=96, num_heads=2)],
    "MultiHeadAttention": [microsoft("MultiHeadAttention", None, None, num_heads=2)],
    "SkipLayerNormalization": [microsoft("SkipLayerNormalization", None, np.ones(6, F))],
    "FusedConv": [microsoft("FusedConv", weights(24, 24, 1), activation="LeakyRelu", activation_params=[0.25])],
    "FusedGemm": [Integers(fused_gemm, domains={MS: 1}, opset=24)],
    "FusedMatMul": [microsoft("FusedMatMul", weights(6, 6), alpha=0.5, transB=1)],
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


@dataclass(frozen=True)
class Classical:
    """A model of one operator of ai.onnx.ml alone."""

    op: str

    def model(self) -> Model:
        return onnx.infer(classical_model(self.op, np.random.default_rng(0)))


CASES: Mapping[tuple[str, str], list[Case]] = {
    **{("", op): [one for one in STANDARD if one.op == op] for op in dict.fromkeys(one.op for one in STANDARD)},
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
