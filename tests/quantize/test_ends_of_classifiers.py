"""What classifiers of scikit-learn have behind their products, as skl2onnx writes it, against onnxruntime."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hwflow.onnx
import hwflow.onnx.advice
from hwflow import golden
from hwflow.layers import Dense
from hwflow.onnx.advice import Advice
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from tests.quantize.feature_rows import found, ort_outputs, quantized_on
from tests.strategies.classical import FEATURES, ML

F = np.float32
Rng = np.random.Generator


def machine(rng: Rng, classes: int) -> Model:
    """SVC(kernel="linear", probability=True)."""
    sizes, pairs, b = [3] * classes, classes * (classes - 1) // 2, Builder()
    label, scores = b.nodes(
        "SVMClassifier", b.input("x", F, ("n", FEATURES)), outputs=("label", "scores"), domain=ML,
        classlabels_ints=list(range(7, 7 + classes)), kernel_type="LINEAR", kernel_params=[0.1, 0.0, 3.0],
        vectors_per_class=sizes, support_vectors=rng.normal(size=3 * classes * FEATURES).tolist(),
        coefficients=rng.normal(size=(classes - 1) * 3 * classes).tolist(), rho=rng.normal(size=pairs).tolist(),
        post_transform="NONE", prob_a=rng.uniform(-2, -1, pairs).tolist(), prob_b=rng.normal(0, 0.2, pairs).tolist())
    b.output(label)
    b.output(scores)
    return b.model(opset=17, opsets={ML: 1})


@pytest.mark.parametrize("classes", [2, 3, pytest.param(6, marks=pytest.mark.slow)])
def test_probabilities_of_pairs(classes: int, tmp_path: Path) -> None:
    """hwflow solves the equations that onnxruntime comes near to by rounds, until it is 0.005 / classes away."""
    rng = np.random.default_rng(classes)
    model, x = machine(rng, classes), rng.normal(size=(200, FEATURES)).astype(F)
    quantized = quantized_on(model, x)
    assert [type(layer) for layer in quantized.graph.layers] == [Dense]
    label, probabilities = found(quantized, x)
    said = [hwflow.onnx.evaluate(model, {"x": row[None]}) for row in x]
    assert np.mean(label.ravel() == [each["label"][0] for each in said]) > 0.99
    exact = np.concatenate([each["scores"] for each in said])
    np.testing.assert_allclose(probabilities, exact, atol=2e-3)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(probabilities, ort_outputs(model, x, tmp_path)[1], atol=0.02)


def one_against_the_rest(rng: Rng) -> Model:
    """OneVsRestClassifier(LogisticRegression()): columns of several models, joined, and their share of the sum."""
    b = Builder()
    x, columns = b.input("x", F, ("n", FEATURES)), []
    one, two = (b.constant(f"c{k}", np.array([k], np.int64)) for k in (1, 2))
    for k in range(3):
        weights = rng.normal(size=FEATURES)
        scores = b.nodes("LinearClassifier", x, outputs=(f"label{k}", f"proba{k}"), domain=ML,
                         coefficients=[*-weights, *weights], intercepts=[-0.25, 0.25], classlabels_ints=[0, 1],
                         multi_class=1, post_transform="LOGISTIC")[1]
        columns.append(b.node("Slice", scores, one, two, one))
    joined = b.node("Concat", *columns, axis=1)
    chosen = b.node("ArgMax", joined, axis=1)
    label, = b.nodes("ArrayFeatureExtractor", b.constant("classes", np.array([4, 5, 9], np.int64)), chosen,
                     outputs=("label",), domain=ML)
    b.output(b.node("Reshape", label, b.constant("row", np.array([-1], np.int64))))
    b.output(b.node("Div", joined, b.node("ReduceSum", joined, one)))
    return b.model(opset=17, opsets={ML: 1})


def test_one_against_the_rest(tmp_path: Path) -> None:
    """Behind the products all is the host's, joins and sums too; the products have 16 bits."""
    rng = np.random.default_rng(3)
    model, x = one_against_the_rest(rng), rng.normal(size=(300, FEATURES)).astype(F)
    quantized = quantized_on(model, x)
    assert [type(layer) for layer in quantized.graph.layers] == [Dense] * 3
    assert {tensor.format.bits for tensor in quantized.graph.tensors.values()} == {16}
    label, shares = found(quantized, x)
    expected_label, expected = ort_outputs(model, x, tmp_path)
    np.testing.assert_allclose(shares, expected, atol=1e-3)
    assert np.array_equal(label.ravel(), expected_label)


def test_features_beyond_those_of_the_calibration() -> None:
    """A feature twice as large as any row had is not clipped."""
    rng, b = np.random.default_rng(5), Builder()
    y, = b.nodes("LinearRegressor", b.input("x", F, ("n", FEATURES)), outputs=("y",), domain=ML, targets=1,
                 coefficients=rng.normal(size=FEATURES).tolist(), intercepts=[0.5])
    b.output(y)
    x = rng.uniform(-1, 1, (100, FEATURES)).astype(F)
    quantized = quantized_on(b.model(opset=17, opsets={ML: 1}), x)
    far = np.zeros((2, FEATURES), F)
    far[:, 0] = 1.9, -1.9
    integers = golden.run_prologue(quantized, {"x": far[:, None]})
    (entry,) = (quantized.graph.tensors[name] for name in quantized.graph.inputs)
    (frames,) = integers.values()
    assert (frames < entry.format.high).all()
    assert (frames > entry.format.low).all()


def test_products_of_features_are_made_in_front(tmp_path: Path) -> None:
    """PolynomialFeatures: columns, products of them and a column of ones, joined, which only the host does."""
    rng, b = np.random.default_rng(6), Builder()
    x = b.input("x", F, ("n", FEATURES))
    places = [b.constant(f"k{k}", np.array([k], np.int64)) for k in range(2)]
    columns = [b.nodes("ArrayFeatureExtractor", x, place, outputs=(f"of_{place}",), domain=ML)[0] for place in places]
    ones = b.node("Add", b.node("Mul", columns[0], b.constant("none", F(0))), b.constant("one", F(1)))
    joined = b.node("Concat", ones, *columns, b.node("Mul", columns[0], columns[1]), axis=1)
    for name in b.nodes("LinearClassifier", joined, outputs=("label", "scores"), domain=ML, post_transform="NONE",
                        coefficients=rng.normal(size=12).tolist(), intercepts=[0.0, 0.1, 0.2],
                        classlabels_ints=[0, 1, 2]):
        b.output(name)
    model, rows = b.model(opset=17, opsets={ML: 1}), rng.normal(size=(300, FEATURES)).astype(F)
    quantized = quantized_on(model, rows)
    assert [type(layer) for layer in quantized.graph.layers] == [Dense]
    label, scores = found(quantized, rows)
    expected_label, expected = ort_outputs(model, rows, tmp_path)
    np.testing.assert_allclose(scores, expected, atol=2e-3)
    assert np.mean(label.ravel() == expected_label) > 0.99


@pytest.mark.parametrize("producer", ["skl2onnx", "OnnxMLTools", "CatBoost Git info:"])
def test_advice_for_models_of_tables(producer: str) -> None:
    """What is said of a pipeline names no call of a framework for networks."""
    for advice in (each for each in vars(hwflow.onnx.advice).values() if isinstance(each, Advice)):
        assert not re.search(r"torch|tf\.|tf2onnx|dynamo", advice.for_producer(producer)), advice
