"""Support vector machines with kernels: a product, a table, a product; against onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
import hwflow.onnx
from hwflow.layers import Dense, Lookup
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import quantize
from tests.quantize.feature_rows import found, ort_outputs, quantized_on
from tests.strategies.classical import FEATURES, ML

F = np.float32
CENTRES = np.array([[0, 0, 900, 5, 0], [2, 1, 1000, 5, 0], [0, 3, 1100, 5, 0]], np.float64)
SCALES = np.array([1, 1, 60, 0.5, 0.01])


def rows(rng: np.random.Generator, count: int) -> np.ndarray:
    """Features of different scale, one far from 0."""
    noise = rng.normal(size=(count, FEATURES)) * SCALES
    return np.asarray(CENTRES[np.arange(count) % 3] + noise, F)


def machine(kind: str, op: str, *, dtype: Any = F, **more: Any) -> Model:
    """As skl2onnx writes SVC and SVR: `kernel_params` are gamma, a constant and a degree."""
    rng, b = np.random.default_rng(11), Builder()
    vectors = (rows(rng, 18).reshape(6, 3, FEATURES) / SCALES).swapaxes(0, 1).reshape(18, FEATURES)
    x = b.node("Mul", b.input("x", dtype, ("n", FEATURES)), b.constant("scale", (1 / SCALES)[None].astype(dtype)))
    if kind != "RBF":  # of features near 0
        x = b.node("Sub", x, b.constant("middle", vectors.mean(axis=0)[None].astype(dtype)))
        vectors = vectors - vectors.mean(axis=0)
    common = {"kernel_type": kind, "kernel_params": [0.2 if kind == "RBF" else 0.05, 0.5, 3.0],
              "support_vectors": vectors.astype(F).ravel().tolist(), "post_transform": "NONE"}
    if op == "SVMClassifier":
        alphas = rng.uniform(0.2, 1, (2, 18)) * [[1] * 6 + [-1] * 6 + [-1] * 6, [1] * 6 + [1] * 6 + [-1] * 6]
        names = b.nodes(op, x, outputs=("label", "scores"), domain=ML, name="svm", classlabels_ints=[3, 4, 8],
                        vectors_per_class=[6, 6, 6], coefficients=alphas.ravel().tolist(), rho=[0.02, -0.04, 0.03],
                        **common, **more)
    else:
        names = b.nodes(op, x, outputs=("y",), domain=ML, name="svm", n_supports=18, rho=[0.3],
                        coefficients=rng.normal(size=18).tolist(), **common, **more)
    for name in names:
        b.output(name)
    return b.model(opset=17, opsets={ML: 1})


@pytest.mark.parametrize("kind", ["RBF", "POLY", "SIGMOID"])
def test_kernels(kind: str, tmp_path: Path) -> None:
    """Calibrated on other rows than those that are compared."""
    rng = np.random.default_rng(2)
    model, x = machine(kind, "SVMClassifier"), rows(rng, 300)
    quantized = quantized_on(model, rows(rng, 600))
    inner, table, outer = quantized.graph.layers
    assert (type(inner), type(table), type(outer)) == (Dense, Lookup, Dense)
    assert isinstance(table, Lookup)
    assert table.input_format.bits == 14
    assert (inner.name, outer.name) == ("svm.kernel", "svm")
    label, decisions = found(quantized, x)
    expected_label, expected = ort_outputs(model, x, tmp_path)
    worst = np.abs(decisions - expected).max(axis=1)
    inside = worst < 5e-3 * max(1, np.abs(expected).max())
    assert inside.mean() > 0.97  # the others are far from all calibration rows
    clear = np.abs(expected).min(axis=1) > 5e-3 * max(1, np.abs(expected).max())
    assert clear.mean() > 0.8
    assert np.array_equal(label.ravel()[clear], expected_label[clear])


@pytest.mark.parametrize("more", [{}, {"one_class": 1}])
def test_regressors_and_one_class(more: dict[str, int], tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    model, x = machine("RBF", "SVMRegressor", **more), rows(rng, 200)
    (y,), (expected,) = found(quantized_on(model, x), x), ort_outputs(model, x, tmp_path)
    if more:
        assert np.mean(y == expected) > 0.98
    else:
        np.testing.assert_allclose(y, expected, atol=5e-3)


def test_sums_that_cancel() -> None:
    """Two support vectors in one place, whose coefficients of 100,000 leave 1 between them."""
    b = Builder()
    y, = b.nodes("SVMRegressor", b.input("x", F, ("n", FEATURES)), outputs=("y",), domain=ML, name="svm", n_supports=2,
                 kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0], support_vectors=[1.0] * (2 * FEATURES), rho=[0.0],
                 coefficients=[1e5, 1 - 1e5])
    b.output(y)
    with pytest.raises(HwflowError) as refused:
        quantize(hwflow.onnx.infer(b.model(opset=17, opsets={ML: 1})))
    assert str(refused.value).endswith(
        "'svm' (SVMRegressor): the sum of its coefficients must be within a factor of 1024 of its decisions, not 2e+05"
        ": they cancel, and integers of 16 bits have too few digits for the rest\n"
        "    train it with a smaller C (a larger nu), or behind a StandardScaler")


@pytest.mark.slow
def test_kernels_in_hardware() -> None:
    """A table of 16,384 entries, bit for bit, with random stalls."""
    x = rows(np.random.default_rng(2), 50)[:, None]
    quantized = quantize(hwflow.onnx.infer(machine("RBF", "SVMClassifier")), {"x": x})
    assert hwflow.simulate(quantized, hwflow.make_plan(quantized), {"x": x[:3]}).equal
