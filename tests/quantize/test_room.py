"""Room in the ranges of regressors: what they give for rows beyond the calibration data is not cut off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hwflow.onnx
from hwflow import golden
from hwflow.layers import Dense
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model
from hwflow.quantize import quantize
from tests.strategies.classical import one_node

F = np.float32
FEATURES = 5


def linear(rng: np.random.Generator) -> Model:
    """As skl2onnx writes Ridge."""
    weights = rng.normal(size=FEATURES).astype(F)
    return one_node("LinearRegressor", 1, ("y",), coefficients=weights.tolist(), intercepts=[0.25])


def network(rng: np.random.Generator, function: str) -> Model:
    """A network as skl2onnx writes MLPRegressor: standard operators alone."""
    b = Builder()
    sums = b.node("Add", b.node("MatMul", b.input("x", F, (1, FEATURES)), b.constant(
        "w", rng.normal(size=(FEATURES, 12)).astype(F))), b.constant("b", rng.normal(size=(1, 12)).astype(F)))
    hidden = b.node(function, sums)
    b.output(b.node("Gemm", hidden, b.constant("v", rng.normal(size=(12, 1)).astype(F))))
    return replace(b.model(opset=17), producer_name="skl2onnx")


def worst(model: Model, x: Array, calibration: Array) -> float:
    """The largest error of the golden model on `x`, of its largest result."""
    name = model.graph.inputs[0].name
    quantized = quantize(hwflow.onnx.infer(model), {name: calibration})
    assert all(isinstance(layer, Dense) for layer in quantized.graph.layers)
    assert {quantized.graph.tensors[layer.output].format.bits for layer in quantized.graph.layers} == {16}
    wanted = np.stack([next(iter(hwflow.onnx.evaluate(model, {name: row}).values())) for row in x])
    (found,) = golden.predict(quantized, {name: x}).values()
    return float(np.abs(found.reshape(wanted.shape) - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("kind", ["linear", "Relu", "Identity"])
def test_results_beyond_the_calibration_rows(kind: str) -> None:
    """The rows are up to 1.9 times as large as those of the calibration, about the same middle."""
    rng = np.random.default_rng(11)
    model = linear(rng) if kind == "linear" else network(rng, kind)
    calibration = rng.uniform(-1, 1, (60, 1, FEATURES)).astype(F)
    x = (1.9 * calibration).astype(F)
    assert worst(model, x, calibration) < 3e-4


def test_a_table_has_all_values_of_its_function() -> None:
    """Rows between those of the calibration, for which a table gives more than for any of them."""
    rng = np.random.default_rng(12)
    model = one_node("SVMRegressor", 1, ("y",), kernel_type="RBF", kernel_params=[0.5, 0.0, 3.0], n_supports=1,
                     support_vectors=[0.0] * FEATURES, coefficients=[2.0], rho=[0.0])
    name = model.graph.inputs[0].name
    calibration = rng.normal(size=(60, 1, FEATURES)).astype(F)
    calibration *= 0.8 / np.sqrt((calibration**2).sum(axis=2, keepdims=True))
    quantized = quantize(hwflow.onnx.infer(model), {name: calibration})
    (found,) = golden.predict(quantized, {name: np.zeros((1, 1, FEATURES), F)}).values()
    assert found.item() == pytest.approx(2.0, rel=1e-3)
