"""Classical models of ai.onnx.ml: the integers against the model of floats, every comparison and every bad file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow import golden
from hwflow.layers import Trees
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.dialects.classical.features import TRANSFORMS
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings
from tests.random_cases import seeds
from tests.strategies.classical import (
    FEATURES,
    MODES,
    OPERATORS,
    bag,
    classic_trees,
    classical_model,
    modern_trees,
    one_node,
    rows_of,
)

F = np.float32


def outputs(model: Model, x: np.ndarray) -> list[np.ndarray]:
    """What the model of floats computes, [n, ...] for each output."""
    made = [hwflow.onnx.evaluate(model, {"x": row}) for row in x]
    return [np.stack([row[value.name] for row in made]) for value in model.graph.outputs]


def found(quantized: Quantized, x: np.ndarray) -> list[np.ndarray]:
    made = golden.predict(quantized, {"x": x})
    return [made[value.name] for value in quantized.epilogue.graph.outputs]


def same_type(a: np.ndarray, b: np.ndarray) -> bool:
    """The golden model gives texts in a fixed width."""
    return b.dtype.kind == "U" if a.dtype == np.object_ else a.dtype == b.dtype


def check_trees(model: Model, x: np.ndarray, quantized: Quantized | None = None) -> Quantized:
    """Scores as near as the votes are; the same labels where scores are further apart than that."""
    quantized = quantized or quantize(hwflow.onnx.infer(model))
    (layer,) = quantized.graph.layers
    assert isinstance(layer, Trees)
    *labels, expected = outputs(model, x)
    *integer_labels, scores = found(quantized, x)
    (scale,) = (value for name, value in quantized.epilogue.graph.initializers.items()
                if name.endswith(".scale") and value.size == 1 and name.count(".") == 1)
    bound = len(layer.roots) / 2 * float(scale) + 3e-6  # each vote is half a step off at most; then float32
    np.testing.assert_allclose(scores, expected, rtol=1e-5, atol=bound)
    for a, b in zip(labels, integer_labels, strict=True):
        assert same_type(a, b)
        ends = np.sort(expected.reshape(len(x), -1), axis=1)
        clear = ends[:, -1] - ends[:, -2] > 4 * bound
        assert clear.mean() > 0.5
        assert np.array_equal(a[clear], b[clear])
    return quantized


@pytest.mark.parametrize("op", OPERATORS[4:])
@seeds(quick=[0], slow=range(1, 40))
def test_trees_of_all_operators(op: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    check_trees(classical_model(op, rng), rows_of(rng))


@pytest.mark.parametrize("of", ["classes", "two classes", "targets"])
def test_a_bag_of_trees_is_one_layer(of: str) -> None:
    """Members read columns of their own; two classes share one score, which the mean keeps."""
    rng = np.random.default_rng(23)
    columns, members = [[], [4, 0, 2, 2, 1], [3, 1, 4, 0, 0]], []
    for count in (1, 3, 2):
        if of == "targets":
            members.append(one_node("TreeEnsembleRegressor", 3, ("y",), n_targets=2, base_values=[0.5, -1.0],
                                    **classic_trees(rng, "target", 2, trees=count)))
            continue
        trees = classic_trees(rng, "class", 3 if of == "classes" else 1, trees=count)
        weights = [abs(weight) / 8 for weight in trees.pop("class_weights")]
        members.append(one_node("TreeEnsembleClassifier", 3, ("label", "scores"), post_transform="NONE",
                                classlabels_int64s=[4, 5, 9] if of == "classes" else [4, 5], class_weights=weights,
                                **trees))
    model = bag(members, columns)
    (layer,) = check_trees(model, rows_of(rng)).graph.layers
    assert isinstance(layer, Trees)
    assert len(layer.roots) == 6


def test_the_mean_of_other_models_is_the_host_s() -> None:
    """Linear models, and trees with a function behind their sums."""
    rng = np.random.default_rng(24)
    trees = one_node("TreeEnsembleClassifier", 3, ("label", "scores"), classlabels_int64s=[4, 5, 9],
                     post_transform="SOFTMAX", **classic_trees(rng, "class", 3))
    x = rows_of(rng)
    quantized = quantize(hwflow.onnx.infer(bag([trees, trees], [[], [4, 3, 2, 1, 0]])))
    assert [type(layer) for layer in quantized.graph.layers] == [Trees, Trees]
    np.testing.assert_allclose(found(quantized, x)[0], outputs(bag([trees, trees], [[], [4, 3, 2, 1, 0]]), x)[0],
                               atol=1e-5)
    linear = [classical_model("LinearClassifier", rng) for _ in range(3)]
    x = rng.normal(size=(100, 1, FEATURES)).astype(F)
    model = bag(linear, [[], [0, 0, 3, 2, 1], []])
    quantized = quantize(hwflow.onnx.infer(model), {"x": x})
    assert len(quantized.graph.layers) == 3
    assert np.abs(found(quantized, x)[0] - outputs(model, x)[0]).max() < 1e-3  # 16 bits


def only_infinity_decides(mode: str, threshold: float) -> bool:
    """Whether finite numbers are all on one side, but not because the threshold is beyond them all."""
    if mode in ("BRANCH_EQ", "BRANCH_NEQ"):
        return abs(threshold) == np.inf or threshold == np.finfo(F).max
    return threshold == (np.finfo(F).max if mode in ("BRANCH_LEQ", "BRANCH_GT") else np.inf)


@pytest.mark.quick(6)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("missing", [False, True])
def test_every_comparison_is_exact(mode: str, missing: bool) -> None:
    """A tree of one node, whose leaves vote 1 and 2; with not-a-number on either side."""
    for threshold in (0.5, -0.0, F(1e-45), F(-1e30), np.finfo(F).max, np.inf, -np.inf):
        attributes = {
            "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_modes": [mode, "LEAF", "LEAF"],
            "nodes_featureids": [3, 0, 0], "nodes_values": [float(threshold), 0.0, 0.0],
            "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0],
            "nodes_missing_value_tracks_true": [int(missing), 0, 0], "target_treeids": [0, 0],
            "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0], "n_targets": 1}
        model = one_node("TreeEnsembleRegressor", 3, ("y",), **attributes)
        x = np.zeros((12, 1, FEATURES), F)
        near = F(threshold)
        with np.errstate(over="ignore"):
            x[:, 0, 3] = [near, np.nextafter(near, F(np.inf)), np.nextafter(near, F(-np.inf)), 0.0, -0.0, 1.0, -1.0,
                          np.nan, np.inf, -np.inf, np.finfo(F).max, np.finfo(F).min]
        if only_infinity_decides(mode, float(threshold)):
            with pytest.raises(HwflowError, match="thresholds must tell finite numbers apart"):
                quantize(hwflow.onnx.infer(model))
            continue
        quantized = quantize(hwflow.onnx.infer(model))
        assert np.array_equal(found(quantized, x)[0], outputs(model, x)[0]), threshold


@pytest.mark.quick(3)
@pytest.mark.parametrize("transform", TRANSFORMS)
@pytest.mark.parametrize("targets", [1, pytest.param(3, marks=pytest.mark.slow)])
def test_every_transform(transform: str, targets: int) -> None:
    """Votes between 0 and 1, which PROBIT wants; two classes with one score, and three."""
    rng = np.random.default_rng(len(transform))
    trees = classic_trees(rng, "class", targets, MODES[:4], depth=2, every_target=True)
    trees["class_weights"] = [0.05 + 0.04 * abs(float(np.tanh(w))) for w in trees["class_weights"]]
    labels = {"classlabels_strings": ["no", "yes"] if targets == 1 else ["a", "b", "c"]}
    for base in ([], [0.25] * targets):
        model = one_node("TreeEnsembleClassifier", 1, ("label", "scores"), post_transform=transform, **labels,
                         **trees, **({"base_values": base} if base else {}))
        check_trees(model, rows_of(rng, 50))


@pytest.mark.quick(1)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
def test_every_aggregate(aggregate: str) -> None:
    rng = np.random.default_rng(1)
    trees = classic_trees(rng, "target", 2, every_target=True)
    model = one_node("TreeEnsembleRegressor", 3, ("y",), n_targets=2, aggregate_function=aggregate,
                     base_values=[1.5, -2.0], **trees)
    (layer,) = check_trees(model, rows_of(rng)).graph.layers
    assert layer.aggregate == ("sum" if aggregate == "AVERAGE" else aggregate.lower())


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.float64])
def test_other_features(dtype: Any) -> None:
    rng = np.random.default_rng(5)
    model = one_node("TreeEnsembleRegressor", 1, ("y",), dtype, n_targets=2, **classic_trees(rng, "target", 2))
    check_trees(model, rng.integers(-3, 4, (50, 1, FEATURES)).astype(dtype))


def test_votes_that_are_integers_stay_as_they_are() -> None:
    rng = np.random.default_rng(3)
    trees = classic_trees(rng, "target", 1)
    trees["target_weights"] = [float(w) for w in rng.integers(-5, 6, len(trees["target_weights"]))]
    made = check_trees(one_node("TreeEnsembleRegressor", 1, ("y",), n_targets=1, **trees), rows_of(rng))
    (layer,) = made.graph.layers
    assert set(np.unique(layer.leaves)) <= set(range(-5, 6))


def test_the_quantized_model_gives_the_same_graph_again() -> None:
    """In both forms of a tree: its features, thresholds and votes are integers, and stay so."""
    for op in OPERATORS[4:]:
        made = quantize(hwflow.onnx.infer(classical_model(op, np.random.default_rng(0))))
        assert quantize(hwflow.onnx.infer(made.qdq)).graph == made.graph


def test_more_than_255_thresholds_of_a_feature() -> None:
    """Ranks of 16 bits."""
    rng = np.random.default_rng(0)
    trees = classic_trees(rng, "target", 1, ("BRANCH_LT",), trees=120, depth=3)
    trees["nodes_featureids"] = [0] * len(trees["nodes_featureids"])
    trees["nodes_values"] = rng.normal(size=len(trees["nodes_values"])).astype(F).tolist()
    made = check_trees(one_node("TreeEnsembleRegressor", 1, ("y",), n_targets=1, **trees), rows_of(rng))
    assert made.graph.tensors[made.graph.inputs[0]].format.bits > 8


@pytest.mark.parametrize("op", OPERATORS[:4])
def test_linear_models(op: str) -> None:
    """As near as int8 comes; labels are those of the scores."""
    rng = np.random.default_rng(2)
    model = classical_model(op, rng)
    x = rng.normal(size=(100, 1, FEATURES)).astype(F)
    quantized = quantize(hwflow.onnx.infer(model), {"x": x})
    *labels, expected = outputs(model, x)
    *integer_labels, scores = found(quantized, x)
    assert np.abs(scores - expected).max() < 0.05 * np.ptp(expected)
    for a, b in zip(labels, integer_labels, strict=True):
        assert same_type(a, b)
        assert np.mean(a == b) > 0.9


def test_two_classes_of_a_linear_svm_and_their_probabilities() -> None:
    rng = np.random.default_rng(4)
    model = one_node(
        "SVMClassifier", 1, ("label", "scores"), classlabels_ints=[0, 1], kernel_type="LINEAR",
        vectors_per_class=[1, 2], support_vectors=rng.normal(size=3 * FEATURES).tolist(),
        coefficients=[0.5, -0.25, -0.75], rho=[0.125],
        prob_a=[-1.5], prob_b=[0.25])
    x = rng.normal(size=(100, 1, FEATURES)).astype(F)
    made = found(quantize(hwflow.onnx.infer(model), {"x": x}), x)
    expected = outputs(model, x)
    assert np.mean(made[0] == expected[0]) > 0.97
    assert np.abs(made[1] - expected[1]).max() < 0.05


def regressor(**changes: Any) -> Model:
    """A tree of one node, with some attributes changed."""
    attributes = {
        "nodes_treeids": [0] * 3, "nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_featureids": [0, 0, 0], "nodes_values": [0.5, 0.0, 0.0], "nodes_truenodeids": [1, 0, 0],
        "nodes_falsenodeids": [2, 0, 0], "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0],
        "target_weights": [1.0, 2.0], "n_targets": 1}
    return one_node("TreeEnsembleRegressor", 1, ("y",), **{**attributes, **changes})


LARGE = 1_000_000
BAD = {
    "a circle": ({"nodes_modes": ["BRANCH_LEQ", "BRANCH_LT", "LEAF"], "nodes_falsenodeids": [2, 2, 0]},
                 "the nodes must be trees, not have several ways to node"),
    "a missing node": ({"nodes_falsenodeids": [7, 0, 0]}, "the children must be nodes of their tree, not node 7"),
    "a missing leaf": ({"target_nodeids": [1, 9]}, "the leaves with votes must be nodes of their tree, not node 9"),
    "no roots": ({"nodes_nodeids": [1, 2, 2]}, "each node id must be there once in a tree, not twice"),
    "a NaN threshold": ({"nodes_values": [float("nan"), 0.0, 0.0]},
                        "thresholds must be numbers, not NaN as in a node of feature 0"),
    "a NaN vote": ({"target_weights": [1.0, float("nan")]}, "the votes of leaves and base values must be finite"),
    "a huge target": ({"target_ids": [0, 1 << 40]}, "the targets of leaves must be 0 to 0, not 0 to 1099511627776"),
    "a missing feature": ({"nodes_featureids": [99, 0, 0]}, "features must be 0 to 4, not 99"),
    "an unknown mode": ({"nodes_modes": ["BRANCH_UP", "LEAF", "LEAF"]}, "the value must be one of BRANCH_EQ"),
    "lists of different lengths": ({"nodes_truenodeids": [1]}, "'nodes_truenodeids' must have 3 elements, not 1"),
    "leaves alone": ({"nodes_modes": ["LEAF"] * 3, "target_nodeids": [0, 0]},
                     "trees must compare features, not give the same for all of them"),
    "a million nodes": ({
        "nodes_treeids": list(range(LARGE)), "nodes_nodeids": [0] * LARGE, "nodes_modes": ["LEAF"] * LARGE,
        "nodes_featureids": [0] * LARGE, "nodes_values": [0.0] * LARGE, "nodes_truenodeids": [0] * LARGE,
        "nodes_falsenodeids": [0] * LARGE}, "trees must have at most 131072 nodes in all, not 1000000"),
}


@pytest.mark.parametrize("name", [
    pytest.param(name, marks=[pytest.mark.slow] if "million" in name else []) for name in BAD])
def test_bad_trees(name: str) -> None:
    """One message that names the node, says what is wrong and what to do."""
    changes, message = BAD[name]
    with pytest.raises(HwflowError) as caught:
        quantize(hwflow.onnx.infer(regressor(**changes)))
    assert message in str(caught.value), str(caught.value)
    assert "classical" in str(caught.value)


def test_what_is_refused_by_name() -> None:
    rng = np.random.default_rng(0)
    bare = one_node("SVMRegressor", 1, ("y",), kernel_type="RBF", kernel_params=[0.1, 0.0, 3.0],
                    coefficients=[1.0] * FEATURES, rho=[0.0])
    with pytest.raises(HwflowError, match="'kernel_type' must be LINEAR without support vectors, not RBF"):
        quantize(hwflow.onnx.infer(bare))
    lone = classic_trees(rng, "target", 2)
    lone["target_ids"] = [n % 2 for n in range(len(lone["target_ids"]))]
    with pytest.raises(HwflowError, match="with aggregate_function MIN there must be a tree all of whose leaves vote"):
        quantize(hwflow.onnx.infer(one_node("TreeEnsembleRegressor", 1, ("y",), n_targets=2, aggregate_function="MIN",
                                            **lone)))


def test_modern_trees_with_sets() -> None:
    """A node that asks whether a feature is in a set."""
    rng = np.random.default_rng(12)
    attributes = modern_trees(rng, 1)
    assert len(MODES) in attributes["nodes_modes"]
    model = one_node("TreeEnsemble", 5, ("y",), n_targets=1, aggregate_function=1, post_transform=0, **attributes)
    check_trees(model, rows_of(rng))


WIDE = QuantizationSettings(LayerSettings(output=ActivationSettings(bits=10)))


@pytest.mark.parametrize("name, settings", [
    ("cancer_gb", None), ("digits_rf", None), ("wine_logreg_scaler", None), ("digits_mlp_sklearn", WIDE)])
def test_the_class_is_that_of_onnxruntime_on_every_row(
    models_dir: Path, name: str, settings: QuantizationSettings | None
) -> None:
    """The files hold onnxruntime's labels."""
    model = hwflow.onnx.load(models_dir / "models" / f"{name}.onnx")
    with np.load(models_dir / "data" / f"{name}.npz") as data:
        x, labels = data["in_X"], data["out_label"]
    quantized = quantize(model, {"X": x}, settings=settings, input_shapes={"X": x[0].shape})
    assert np.array_equal(golden.predict(quantized, {"X": x})["label"].reshape(-1), labels.reshape(-1))
