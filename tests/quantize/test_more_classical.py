"""Classical models that standard operators state: Gaussians of classes, and nearest neighbours, which are refused."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow import golden
from hwflow.layers import Dense
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Graph, Model, Node, TensorType, Value
from hwflow.quantize import quantize
from hwflow.quantize.support import operators_without_hardware

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


def neighbours() -> Model:
    """The distances from five rows of a training, as skl2onnx writes KNeighborsClassifier."""
    row, rows = TensorType(np.dtype(F), (1, FEATURES)), TensorType(np.dtype(F), (5, FEATURES))
    body = Graph("rounds", (
        Node("Identity", ("next_in",), ("next_out",)), Node("Sub", ("next_in", "next"), ("apart",)),
        Node("ReduceSumSquare", ("apart",), ("squares",), {"axes": (1,), "keepdims": 0})),
        (Value("next_in", rows), Value("next", TensorType(np.dtype(F), (FEATURES,)))),
        (Value("next_out", rows), Value("squares", TensorType(np.dtype(F), (5,)))), {})
    nodes = (Node("Scan", ("x", "training"), ("same", "distances"), {"body": body, "num_scan_inputs": 1}, "rounds"),
             Node("TopK", ("distances", "count"), ("near", "places"), {"axis": 0, "largest": 0}, "nearest"))
    constants = {"training": np.ones((5, FEATURES), F), "count": np.array([2], np.int64)}
    graph = Graph("ONNX(KNeighborsClassifier)", nodes, (Value("x", row),), (Value("places", None),), constants)
    return Model(graph, 8, {"": 17})


def test_nearest_neighbours_are_refused_in_one_message() -> None:
    model = neighbours()
    with pytest.raises(HwflowError) as refused:
        hwflow.onnx.infer(model)
    assert str(refused.value) == (
        "graph/node[0] 'rounds' (Scan): a model for hardware must not compare each row with the 5 rows of its training "
        "(nearest neighbours), which takes a loop and a sorted list; train trees (RandomForestClassifier, "
        "RandomForestRegressor) or a network (MLPClassifier, MLPRegressor) in place of nearest neighbours")
    assert operators_without_hardware(model) == []
