"""Classical models that standard operators state: Gaussians of classes, nearest neighbours, Gaussian processes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow import golden
from hwflow.layers import Dense, Lookup
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Graph, Model, Node, TensorType, Value
from hwflow.quantize import quantize

F = np.float32
ML = "ai.onnx.ml"
CLASSES, FEATURES = 3, 4


def gaussians(middles: np.ndarray, variances: np.ndarray) -> Model:
    """The label as skl2onnx writes that of GaussianNB."""
    b = Builder()
    rows = b.node("Reshape", b.input("x", F, (1, FEATURES)), b.constant("shape", np.array([-1, 1, FEATURES], np.int64)))
    apart = b.node("Pow", b.node("Sub", rows, b.constant("middles", middles[None].astype(F))), b.constant("two", F(2)))
    quotients = b.node("Div", apart, b.constant("variances", variances[None].astype(F)))
    sums = b.node("ReduceSum", quotients, b.constant("axis", np.array([2], np.int64)), keepdims=0, name="distances")
    logs = b.constant("logs", -0.5 * np.log(2 * np.pi * variances).sum(axis=1)[None].astype(F))
    scores = b.node("Sub", logs, b.node("Mul", sums, b.constant("half", F(0.5))))
    best = b.node("ArgMax", scores, axis=1, keepdims=1)
    (label,) = b.nodes("ArrayFeatureExtractor", b.constant("classes", np.array([4, 5, 9], np.int64)), best,
                       outputs=("label",), domain=ML)
    b.output(label)
    b.output(scores)
    return b.model(opset=17, opsets={ML: 1})


def test_gaussians_of_classes_are_a_product() -> None:
    """Features of different scale, far from 0; 16 bits leave the scores near enough for the label of nearly any row."""
    rng = np.random.default_rng(3)
    scales = np.array([0.1, 1, 40, 1000])
    middles = (5 + 2 * rng.normal(size=(CLASSES, FEATURES))) * scales
    variances = rng.uniform(0.5, 4, (CLASSES, FEATURES)) * scales**2
    x = (middles[rng.integers(CLASSES, size=400)] + rng.normal(size=(400, FEATURES)) * scales * 1.5)[:, None].astype(F)
    model = gaussians(middles, variances)
    quantized = quantize(hwflow.onnx.infer(model), {"x": x})
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Dense)
    assert layer.name == "distances"
    label, scores = (np.stack(each) for each in zip(
        *(hwflow.onnx.evaluate(model, {"x": row}).values() for row in x), strict=True))
    made = golden.predict(quantized, {"x": x})
    found_label, found_scores = (made[value.name] for value in quantized.epilogue.graph.outputs)
    ends = np.sort(scores.reshape(len(x), -1), axis=1)
    clear = ends[:, -1] - ends[:, -2] > 0.02
    assert clear.mean() > 0.95
    assert np.array_equal(label.ravel()[clear], found_label.ravel()[clear])
    assert np.abs(found_scores - scores).max() < 0.02


def test_variances_that_16_bits_do_not_hold() -> None:
    variances = np.ones((CLASSES, FEATURES))
    variances[1, 2] = 1e-9
    with pytest.raises(HwflowError) as refused:
        quantize(hwflow.onnx.infer(gaussians(np.zeros((CLASSES, FEATURES)), variances)))
    assert str(refused.value).endswith(
        "'distances' (ReduceSum): the variances of feature 2 must be within a factor of 100 in all classes, not 1e+09: "
        "one Gaussian for each class and feature (GaussianNB) needs more digits than integers of 16 bits have\n"
        "    train it with a larger var_smoothing (0.01), or train a LogisticRegression")


NEAR = 3


def neighbours(training: np.ndarray, distance: str = "ReduceSumSquare") -> Model:
    """The numbers of the nearest rows of a training and the mean of their values 0, 1, 2, ..., as skl2onnx writes
    KNeighborsRegressor."""
    row, rows = TensorType(np.dtype(F), (1, FEATURES)), TensorType(np.dtype(F), (FEATURES,))
    inner = [Node("Identity", ("next_in",), ("next_out",)), Node("Sub", ("next_in", "next"), ("apart",))]
    if distance != "ReduceSumSquare":
        inner.append(Node("Abs", ("apart",), ("size",)))
    axes = {} if distance == "ReduceSum" else {"axes": (1,)}
    last = (inner[-1].outputs[0], *(("along",) if distance == "ReduceSum" else ()))
    inner.append(Node(distance, last, ("sums",), {**axes, "keepdims": 0}))
    body = Graph("rounds", tuple(inner), (Value("next_in", row), Value("next", rows)),
                 (Value("next_out", row), Value("sums", TensorType(np.dtype(F), (1,)))), {"along": np.array([1])})
    b = Builder()
    x, places = b.input("x", F, (1, FEATURES)), b.constant("training", training.astype(F))
    _, sums = b.nodes("Scan", x, places, outputs=("same", "distances"), body=body, num_scan_inputs=1, name="rounds")
    roots = b.node("Sqrt", b.node("Transpose", sums, perm=(1, 0)))
    count = b.constant("count", np.array([NEAR]))
    _, near = b.nodes("TopK", roots, count, outputs=("roots", "near"), largest=0)
    values = b.constant("values", np.arange(len(training), dtype=F))
    (chosen,) = b.nodes("ArrayFeatureExtractor", values, near, outputs=("chosen",), domain=ML)
    b.output(near)
    b.output(b.node("ReduceMean", b.node("Reshape", chosen, b.constant("row", np.array([-1, NEAR]))), axes=(1,)))
    return replace(b.model(opset=17, opsets={ML: 1}), producer_name="skl2onnx")


def test_distances_from_rows_of_a_training_are_a_product() -> None:
    """Far from 0, with features of different scale; the host ranks the distances and takes the mean."""
    rng = np.random.default_rng(5)
    scales = np.array([1.0, 2.0, 5.0, 0.5])
    training = (20 + rng.normal(size=(40, FEATURES))) * scales
    x = ((20 + rng.normal(size=(100, FEATURES))) * scales)[:, None].astype(F)
    x[0] = training[0]  # a distance of 0, which float32 does not see
    quantized = quantize(hwflow.onnx.infer(neighbours(training)), {"x": x})
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Dense)
    assert layer.weights.shape[-1] == FEATURES + 1  # the sum of squares is one feature
    distances = np.sort(((x - training.astype(F)) ** 2).sum(axis=2), axis=1)
    order = np.argsort(((x.astype(np.float64) - training.astype(F)) ** 2).sum(axis=2), axis=1)[:, :NEAR]
    near, mean = (golden.predict(quantized, {"x": x})[value.name].reshape(len(x), -1)
                  for value in quantized.epilogue.graph.outputs)
    clear = (np.diff(distances[:, : NEAR + 1]) > 1e-4 * distances[:, -1:]).all(axis=1)
    assert clear.mean() > 0.8
    assert np.array_equal(near[clear], order[clear])
    np.testing.assert_allclose(mean[clear, 0], order[clear].mean(axis=1), rtol=1e-6)


@pytest.mark.parametrize("distance", ["ReduceSum", "ReduceMax"])
def test_other_distances_are_refused_in_one_message(distance: str) -> None:
    model = neighbours(np.eye(FEATURES), distance)
    with pytest.raises(HwflowError) as refused:
        quantize(hwflow.onnx.infer(model), {"x": np.ones((2, 1, FEATURES), F)})
    assert str(refused.value).endswith(
        f"({distance}): its distances from the 4 rows of its training must be sums of squares, not of other functions "
        "of a difference\n    train it with metric='euclidean', or train trees (RandomForestClassifier, "
        "RandomForestRegressor) or a network (MLPClassifier, MLPRegressor) in place of nearest neighbours")


def test_a_kernel_of_distances_is_a_table() -> None:
    """A Gaussian process: exp(-d / 2) of distances, and a product with a vector."""
    rng = np.random.default_rng(6)
    training, alpha = rng.normal(size=(20, FEATURES)).astype(F), rng.normal(size=20).astype(F)
    b = Builder()
    apart = b.node("Sub", b.input("x", F, (1, FEATURES)), b.constant("training", training[:, None]))
    sums = b.node("Transpose", b.node("ReduceSumSquare", apart, axes=(2,), keepdims=0, name="distances"), perm=(1, 0))
    near = b.node("Exp", b.node("Neg", b.node("Mul", sums, b.constant("half", F(0.5)))))
    b.output(b.node("MatMul", near, b.constant("alpha", alpha)))
    model = replace(b.model(opset=17), producer_name="skl2onnx")
    x = rng.normal(size=(200, 1, FEATURES)).astype(F)
    quantized = quantize(hwflow.onnx.infer(model), {"x": x[:50]})
    assert [type(layer) for layer in quantized.graph.layers] == [Dense, Lookup, Dense]
    assert [quantized.graph.tensors[layer.output].format.bits for layer in quantized.graph.layers] == [14, 16, 16]
    wanted = np.exp(-((x.astype(np.float64) - training) ** 2).sum(axis=2) / 2) @ alpha
    (found,) = golden.predict(quantized, {"x": x}).values()
    assert np.abs(found.ravel() - wanted).max() < 2e-3 * np.abs(wanted).max()
