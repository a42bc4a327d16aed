"""Trees exactly as CatBoost and skl2onnx's IsolationForest export them, against onnxruntime."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import hwflow.onnx
from hwflow import golden
from hwflow.layers import Trees
from hwflow.onnx.build import Builder, tensor_type
from hwflow.onnx.checker import check
from hwflow.onnx.model import Model, Value
from hwflow.onnx.run.missing import INFINITE, NAN, missing_taken
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.dialects.classical.leaves import sums_of_leaves
from tests.strategies.classical import FEATURES, ML, classic_trees, rows_of

F = np.float32


def ort_outputs(model: Model, x: np.ndarray, where: Path) -> list[Any]:
    hwflow.onnx.save(model, where / "model.onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    return onnxruntime.InferenceSession(str(where / "model.onnx"), options).run(None, {"features": x})


def found(quantized: Quantized, x: np.ndarray) -> list[np.ndarray]:
    return [value[:, 0] for value in golden.predict(quantized, {"features": x[:, None]}).values()]


def read(model: Model, where: Path) -> Model:
    """As of a file: hwflow's own objects know more than it says."""
    hwflow.onnx.save(model, where / "read.onnx")
    return hwflow.onnx.load(where / "read.onnx")


def catboost(op: str) -> Model:
    """A file of CatBoost's: IR version 3, no operator set but ai.onnx.ml, a ZipMap, a column stated as a list."""
    rng, b = np.random.default_rng(5), Builder()
    x = b.input("features", F, ("N", FEATURES))
    if op == "TreeEnsembleRegressor":
        y, = b.nodes(op, x, outputs=("predictions",), domain=ML, n_targets=1, base_values=[2.5],
                     **classic_trees(rng, "target", 1, ("BRANCH_GT",)))
        model = b.model(opset=17, opsets={ML: 2})
        outputs: tuple[Value, ...] = (Value(y, tensor_type(F, ("N",))),)
    else:
        trees = classic_trees(rng, "class", 3, ("BRANCH_GT",), every_target=True)
        label, scores = b.nodes(op, x, outputs=("label", "probability_tensor"), domain=ML, post_transform="SOFTMAX",
                                classlabels_int64s=[0, 1, 2], **trees)
        maps, = b.nodes("ZipMap", scores, outputs=("probabilities",), domain=ML, classlabels_int64s=[0, 1, 2])
        b.output(label)
        b.output(maps)
        model = b.model(opset=17, opsets={ML: 2})
        outputs = model.graph.outputs
    return replace(model, ir_version=3, opsets={ML: 2}, graph=replace(model.graph, outputs=outputs))


@pytest.mark.parametrize("op", ["TreeEnsembleClassifier", "TreeEnsembleRegressor"])
def test_catboost(op: str, tmp_path: Path) -> None:
    model, x = read(catboost(op), tmp_path), rows_of(np.random.default_rng(1))[:, 0]
    quantized = quantize(hwflow.onnx.infer(model))
    first, *others = found(quantized, x)
    expected, *more = ort_outputs(model, x, tmp_path)
    if op == "TreeEnsembleRegressor":
        assert expected.shape == first.shape == (len(x), 1)
        np.testing.assert_allclose(first, expected, atol=1e-5)
        return
    np.testing.assert_allclose(others[0], [[row[k] for k in range(3)] for row in more[0]], atol=1e-5)
    assert np.array_equal(first.ravel(), expected)


def test_a_column_that_is_stated_as_a_list() -> None:
    """A warning; strictly an error."""
    model = catboost("TreeEnsembleRegressor")
    for strict, severity in ((False, "warning"), (True, "error")):
        said = [str(each) for each in check(model, strict=strict) if "GR-21" in str(each)]
        assert said, severity
        assert "must be float32[N, 1], not float32[N] as the file states; nothing needs to be done" in said[0]


def isolation(trees: int, columns: list[list[int]], crossed: bool = False) -> Model:
    """The path length of each tree, its expectation for the samples of the leaf, and the power of their sum.

    `crossed`: one tree's result is multiplied by that of another, which is no function of a leaf.
    """
    rng, b = np.random.default_rng(7), Builder()
    x = b.input("features", F, ("n", FEATURES))
    one, two, zero = (b.constant(f"c{k}", np.array([k], F)) for k in (1, 2, 0))
    column, depths = b.constant("column", np.array([-1, 1], np.int64)), []
    for k in range(trees):
        chosen = b.node("Gather", x, b.constant(f"columns{k}", np.array(columns[k % len(columns)], np.int64)), axis=1)
        own = classic_trees(rng, "target", 1, ("BRANCH_LEQ",), 1, 4, missing=False)
        leaves = own["target_nodeids"]
        own["target_weights"] = [float(leaf) for leaf in leaves]
        number, = b.nodes("TreeEnsembleRegressor", chosen, outputs=(f"leaf{k}",), domain=ML, n_targets=1, **own)
        if crossed and k == 1:
            number = b.node("Mul", number, one if not depths else depths[0])
        integer = b.node("Cast", number, to=7)
        tables = {"samples": rng.integers(1, 9, len(leaves)), "lengths": rng.integers(1, 6, len(leaves))}
        samples, lengths = (b.node("Reshape", b.nodes(
            "LabelEncoder", integer, outputs=(f"{name}{k}",), domain=ML, keys_int64s=leaves, default_float=1.0,
            values_floats=values.astype(F).tolist())[0], column) for name, values in tables.items())
        is_two = b.node("Cast", b.node("Equal", samples, two), to=1)
        many = b.node("Cast", b.node("Greater", samples, two), to=1)
        logarithm = b.node("Mul", b.node("Log", b.node("Max", b.node("Sub", samples, one), one)), two)
        expected = b.node("Add", is_two, b.node("Mul", logarithm, many))
        depths.append(b.node("Sub", b.node("Add", lengths, expected), one))
    total = b.node("Sum", *depths)
    score = b.node("Neg", b.node("Pow", two, b.node("Neg", b.node("Div", total, b.constant("mean", F(4 * trees))))))
    scores = b.node("Add", score, b.constant("half", F(0.5)), output="scores")
    b.output(b.node("Cast", b.node("Less", scores, zero), to=7))
    b.output(scores)
    return b.model(opset=17, opsets={ML: 3})


@pytest.mark.parametrize("columns", [[[0, 1, 2, 3, 4]], [[0, 1, 2, 3, 4], [4, 3, 2, 1, 0]]])
def test_path_lengths_are_the_votes_of_leaves(columns: list[list[int]], tmp_path: Path) -> None:
    model, x = isolation(5, columns), rows_of(np.random.default_rng(1))[:, 0]
    quantized = quantize(hwflow.onnx.infer(model))
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Trees)
    assert len(layer.roots) == 5
    assert [node.op_type for node in quantized.epilogue.graph.nodes] == [
        "Reshape", "DequantizeLinear", "Mul", "Div", "Neg", "Pow", "Neg", "Add", "Less", "Cast"]
    label, scores = found(quantized, x)
    expected_label, expected = ort_outputs(model, x, tmp_path)
    np.testing.assert_allclose(scores, expected, atol=1e-6)
    clear = np.abs(expected) > 1e-5
    assert np.array_equal(label[clear], expected_label[clear])


def test_what_is_no_function_of_a_leaf_stays() -> None:
    """A tree whose result meets another's before the sum; and trees of different inputs."""
    model = hwflow.onnx.infer(isolation(3, [[0, 1, 2, 3, 4]], crossed=True))
    kept = sums_of_leaves(model)
    assert sum(node.op_type == "TreeEnsembleRegressor" for node in kept.graph.nodes) == 3


@pytest.mark.parametrize("opset", [9, 17, 21])
def test_sums_of_more_than_a_byte(opset: int, tmp_path: Path) -> None:
    """Integers of 10 bits, in operator sets with and without quantizers of 16 bits."""
    rng, b = np.random.default_rng(3), Builder()
    own = classic_trees(rng, "target", 1, ("BRANCH_LEQ",), 3, missing=False)
    own["target_weights"] = [float(round(40 * weight)) for weight in own["target_weights"]]
    b.output(*b.nodes("TreeEnsembleRegressor", b.input("features", F, ("n", FEATURES)), outputs=("y",), domain=ML,
                      n_targets=1, **own))
    model, x = b.model(opset=opset, opsets={ML: 1}), rows_of(rng)[:, 0]
    quantized = quantize(hwflow.onnx.infer(model))
    assert 8 < quantized.graph.tensors[quantized.graph.layers[0].output].format.bits <= 16
    assert not [each for each in check(read(quantized.epilogue, tmp_path)) if "error" in str(each.severity)]
    (y,) = found(quantized, x)
    assert np.array_equal(y, ort_outputs(model, x, tmp_path)[0])


@pytest.mark.parametrize(("producer", "ways", "gaps", "says"), [
    ("skl2onnx", [], True, True), ("skl2onnx", [1], True, False), ("skl2onnx", [], False, False),
    ("catboost", [], True, False)])
def test_a_note_on_ways_of_missing_values_that_an_export_lost(
        producer: str, ways: list[int], gaps: bool, says: bool) -> None:
    """Of skl2onnx alone: other files that send all of them to the false side mean it."""
    rng = np.random.default_rng(2)
    trees = classic_trees(rng, "target", 1, ("BRANCH_LEQ",))
    trees["nodes_missing_value_tracks_true"] = (ways + [0] * len(trees["nodes_modes"]))[: len(trees["nodes_modes"])]
    b = Builder()
    features = b.input("x", F, (1, FEATURES))
    b.output(*b.nodes("TreeEnsembleRegressor", features, outputs=("y",), domain=ML, name="trees", n_targets=1, **trees))
    model = replace(b.model(opset=17, opsets={ML: 3}), producer_name=producer)
    x = np.nan_to_num(rows_of(rng))
    x[0, 0, 1] = np.nan if gaps else 0
    notes = [note for note in quantize(hwflow.onnx.infer(model), {"x": x}).notes if "missing values" in note]
    assert notes == ([
        "trees of 'trees' send missing values, which the calibration data have, to the false side of every node, as "
        "the file says; scikit-learn's exporter writes that for DecisionTree, RandomForest and ExtraTrees, whatever "
        "they have learned: compare the classes with scikit-learn's, or put a SimpleImputer in front"] if says else [])


def test_missing_values_of_a_model_whose_types_nobody_has_inferred() -> None:
    """A Cast says of itself whether its result may be NaN."""
    b = Builder()
    cast = b.node("Cast", b.input("x", np.float64, (1, FEATURES)), to=1)
    trees = classic_trees(np.random.default_rng(2), "target", 1)
    b.output(*b.nodes("TreeEnsembleRegressor", cast, outputs=("y",), domain=ML, n_targets=1, **trees))
    model = b.model(opset=17, opsets={ML: 3})
    model = replace(model, graph=replace(model.graph, types={}))
    assert missing_taken(model.graph)["x"] == {NAN, INFINITE}
