"""The operators of ai.onnx.ml against onnxruntime, and what they refuse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.ops import find_operator
from hwflow.onnx.schemas import SCHEMAS
from tests.onnx.neural import Case, draw, error_of, evaluated
from tests.onnx.neural import case as any_case
from tests.onnx.oracle import ChildOracle

ML = "ai.onnx.ml"


def case(op: str, opset: int, *inputs: Any, **others: Any) -> Case:
    return any_case(op, opset, *inputs, domain=ML, **others)


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


def same(wanted: Case, oracle: ChildOracle, tolerance: float = 1e-5) -> None:
    """Labels and texts are equal, numbers as near as float32 comes."""
    answers = oracle.run(*wanted.model()) if wanted.expected is None else wanted.expected
    for found, answer in zip(evaluated(wanted), answers, strict=True):
        answer = np.asarray(answer)
        assert found.shape == answer.shape
        if answer.dtype.kind in "OU":
            assert found.tolist() == answer.tolist()
        else:
            assert found.dtype == answer.dtype
            np.testing.assert_allclose(found, answer, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("op", sorted(op for domain, op in SCHEMAS if domain == ML))
def test_no_version_is_missing(op) -> None:
    for schema in SCHEMAS[ML, op]:
        assert find_operator(ML, op, schema.since) is not None


def words(*texts: str) -> np.ndarray:
    return np.array(texts, np.object_)


def simple() -> list[Case]:
    x, whole = 3 * draw(4, 3), np.array([[1, 5, 3], [2, 2, 9]])
    nan = np.array([[1, np.nan, 3], [np.nan, 5, 0]], np.float32)
    return [
        *(case("Scaler", 1, v, offset=[0.5, 1.0, -2.0], scale=[2.0, 0.5, 3.0])
          for v in (x, whole, whole.astype(np.int32), x.astype(np.float64))),
        case("Scaler", 1, x, offset=[0.5], scale=[2.0]),
        *(case("Normalizer", 1, v, norm=norm) for norm in ("L1", "L2") for v in (x, whole, x.astype(np.float64))),
        case("Normalizer", 1, abs(x), norm="MAX"),
        case("Normalizer", 1, np.zeros((1, 3), np.float32), norm="L1"),
        *(case("Binarizer", 1, v, threshold=1.5, expected=[(v > 1.5).astype(v.dtype)])
          for v in (x, whole, x.astype(np.float64), whole.astype(np.int32))),
        case("Imputer", 1, nan, imputed_value_floats=[7.0], replaced_value_float=float("nan")),
        case("Imputer", 1, nan, imputed_value_floats=[7.0, 8.0, 9.0], replaced_value_float=3.0),
        case("Imputer", 1, whole, imputed_value_int64s=[7], replaced_value_int64=2),
        case("FeatureVectorizer", 1, x, 2 * x[:, :2], inputdimensions=[3, 2]),
        case("FeatureVectorizer", 1, x, x.astype(np.float32)[:, :2], inputdimensions=[2, 2], expected=[
            np.concatenate((x[:, :2], x[:, :2]), axis=1)]),
        case("ArrayFeatureExtractor", 1, x, np.array([2, 0])),
        case("ArrayFeatureExtractor", 1, whole, np.array([[1]])),
        case("ArrayFeatureExtractor", 1, np.arange(5.0, dtype=np.float32), np.array([4, 1])),
        case("LabelEncoder", 1, words("b", "z", "a"), classes_strings=["a", "b"], default_int64=-7),
        case("LabelEncoder", 1, np.array([1, 9, 0]), classes_strings=["a", "b"], default_string="?"),
        case("LabelEncoder", 2, words("b", "z"), keys_strings=["a", "b"], values_int64s=[3, 4], default_int64=9),
        case("LabelEncoder", 2, words("b", "z"), keys_strings=["a", "b"], values_floats=[3.5, 4.5]),
        case("LabelEncoder", 2, np.array([5, 6]), keys_int64s=[6, 7], values_strings=["x", "y"]),
        case("LabelEncoder", 2, np.array([0.5, np.nan], np.float32), keys_floats=[0.5, float("nan")],
             values_strings=["half", "none"], expected=[words("half", "none")]),  # the bits decide
        case("LabelEncoder", 4, np.array([5, 6], np.int16), keys_tensor=np.array([6, 7], np.int16),
             values_tensor=np.array([1.5, 2.5]), default_tensor=np.array([-1.5]),
             expected=[np.array([-1.5, 1.5])]),
        case("LabelEncoder", 4, np.array([np.nan, 1.0]), keys_tensor=np.array([np.nan]),
             values_tensor=words("nan"), default_tensor=words("other")),
        case("CategoryMapper", 1, words("b", "z"), cats_strings=["a", "b"], cats_int64s=[3, 4], default_int64=9),
        case("CategoryMapper", 1, np.array([4, 5]), cats_strings=["a", "b"], cats_int64s=[3, 4], default_string="?"),
        case("OneHotEncoder", 1, np.array([[1, 5], [3, 3]]), cats_int64s=[5, 3, 1]),
        case("OneHotEncoder", 1, words("a", "q"), cats_strings=["q", "r"]),
        case("OneHotEncoder", 1, np.array([1.0, 5.0], np.float32), cats_int64s=[5, 3, 1], zeros=0),
        *(case("LinearRegressor", 1, x, coefficients=[0.5, -1.0, 2.0, 1.0, 1.0, 0.0], intercepts=[0.25, -1.0],
               targets=2, post_transform=kind) for kind in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")),
        case("LinearRegressor", 1, x, coefficients=[0.5, -1.0, 2.0]),
        *(case("LinearClassifier", 1, x, coefficients=[0.1 * i for i in range(-4, 5)], intercepts=[0.1, 0.0, -0.2],
               outputs=2, post_transform=kind, **labels) for kind in ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
          for labels in ({"classlabels_ints": [5, 7, 9]}, {"classlabels_strings": ["x", "y", "z"]})),
        *(case("LinearClassifier", 1, x, coefficients=[0.5, -0.5, 0.25], intercepts=[0.1], outputs=2,
               classlabels_ints=[5, 7], post_transform=kind) for kind in ("NONE", "LOGISTIC")),
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", simple(), ids=lambda c: c.label)
def test_simple_operators(wanted, oracle) -> None:
    same(wanted, oracle)


MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]


def grown(seed: int, trees: int, depth: int, features: int, modes: list[str]) -> dict[str, list[Any]]:
    """The nodes_* attributes of random trees; thresholds are whole, so that equality happens."""
    rng = np.random.default_rng(seed)
    table: dict[str, list[Any]] = {name: [] for name in (
        "treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")}  # fmt: skip
    for tree in range(trees):
        waiting, count = [(0, 0)], 1
        while waiting:
            node, level = waiting.pop(0)
            leaf = level == depth or (level > 0 and rng.random() < 0.2)
            below = (0, 0) if leaf else (count, count + 1)
            waiting += [] if leaf else [(count, level + 1), (count + 1, level + 1)]
            count += 0 if leaf else 2
            row = (tree, node, int(rng.integers(features)), 0.0 if leaf else float(rng.integers(-2, 3)),
                   "LEAF" if leaf else str(rng.choice(modes)), *below)  # fmt: skip
            for column, value in zip(table.values(), row, strict=True):
                column.append(value)
    return {f"nodes_{name}": column for name, column in table.items()}


def votes(nodes: dict[str, list[Any]], prefix: str, targets: int, seed: int, low: float = -1) -> dict[str, list[Any]]:
    """Each leaf votes for each target, in any order."""
    rng = np.random.default_rng(seed)
    table: dict[str, list[Any]] = {f"{prefix}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree, node, mode in zip(nodes["nodes_treeids"], nodes["nodes_nodeids"], nodes["nodes_modes"], strict=True):
        if mode == "LEAF":
            for target in rng.permutation(targets).tolist():
                row = (tree, node, target, float(rng.uniform(low, 1)))
                for column, value in zip(table.values(), row, strict=True):
                    column.append(value)
    return table


def rows(count: int, features: int, seed: int = 0) -> np.ndarray:
    """Whole and other numbers, and a few that are missing."""
    rng = np.random.default_rng(seed)
    whole, others = rng.integers(-2, 3, (count, features)), rng.normal(size=(count, features))
    x = np.where(rng.random((count, features)) < 0.5, whole, others)
    x[rng.random(x.shape) < 0.03] = np.nan
    return x.astype(np.float32)


@pytest.mark.parametrize("modes", [MODES[:1], MODES[:5]], ids=["leq", "mixed"])
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("opset", [1, 3])
def test_tree_regressor(oracle, modes, aggregate, opset) -> None:
    nodes = grown(opset, 7, 5, 4, modes)
    attributes = {**nodes, **votes(nodes, "target", 3, 1), "n_targets": 3, "base_values": [0.5, -0.25, 1.0]}
    tracks = [int(i % 3 == 0) for i in range(len(nodes["nodes_modes"]))]
    wanted = case("TreeEnsembleRegressor", opset, rows(200, 4), aggregate_function=aggregate, attributes=attributes,
                  nodes_missing_value_tracks_true=tracks)  # fmt: skip
    same(wanted, oracle)


def test_a_leaf_without_vote_for_a_target_adds_nothing() -> None:
    for opset in (1, 3):
        wanted = classic(n_targets=2, base_values=[0.5, 0.25], target_ids=[0, 1])
        found = evaluated(case(wanted.op, opset, *wanted.inputs, attributes=wanted.attributes))[0]
        assert found.tolist() == [[1.5, 0.25], [1.5, 0.25], [0.5, 2.25], [0.5, 2.25], [1.5, 0.25]]


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_tree_classifier_of_three_classes(oracle, kind) -> None:
    nodes = grown(3, 9, 4, 5, MODES[:4])
    attributes = {**nodes, **votes(nodes, "class", 3, 2), "classlabels_strings": ["x", "y", "z"]}
    same(case("TreeEnsembleClassifier", 1, rows(200, 5), outputs=2, attributes=attributes, post_transform=kind), oracle)


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "SOFTMAX"])
@pytest.mark.parametrize("low", [0.0, -1.0], ids=["positive", "mixed"])
@pytest.mark.parametrize("base", [[], [0.125]])
def test_tree_classifier_of_two_classes_with_one_score(oracle, kind, low, base) -> None:
    nodes = grown(4, 1, 4, 3, MODES[:1])
    attributes = {**nodes, **votes(nodes, "class", 1, 3, low), "classlabels_int64s": [5, 7]}
    if base:
        attributes["base_values"] = base
    same(case("TreeEnsembleClassifier", 3, rows(100, 3), outputs=2, attributes=attributes, post_transform=kind), oracle)


def test_tree_classifier_of_doubles(oracle) -> None:
    nodes = grown(5, 3, 4, 3, MODES[:1])
    attributes: dict[str, Any] = {**nodes, **votes(nodes, "class", 3, 3), "classlabels_int64s": [5, 7, 9]}
    for name in ("nodes_values", "class_weights"):
        attributes[f"{name}_as_tensor"] = np.array(attributes.pop(name), np.float64)
    same(case("TreeEnsembleClassifier", 3, rows(100, 3).astype(np.float64), outputs=2, attributes=attributes), oracle)


def ensemble(**changed: Any) -> dict[str, Any]:
    """One tree of three nodes: x[0] <= 1, then x[1] in {2, 3}, else x[1] > 0."""
    return {
        "nodes_featureids": [0, 1, 1], "nodes_modes": np.array([0, 6, 3], np.uint8),
        "nodes_splits": np.array([1, 0, 0], np.float32), "membership_values": np.array([2, 3, np.nan], np.float32),
        "nodes_truenodeids": [1, 0, 2], "nodes_trueleafs": [0, 1, 1],
        "nodes_falsenodeids": [2, 1, 3], "nodes_falseleafs": [0, 1, 1],
        "leaf_targetids": [0, 1, 0, 1], "leaf_weights": np.array([1, 2, 3, 4], np.float32),
        "tree_roots": [0], "n_targets": 2, **changed,
    }  # fmt: skip


X5 = np.array([[0, 2], [0, 4], [2, 1], [2, -1], [0, 3]], np.float32)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
@pytest.mark.parametrize("transform", [0, 2])
def test_tree_ensemble(dtype, transform) -> None:
    wanted = np.array([[1, 0], [0, 2], [3, 0], [0, 4], [1, 0]], np.float64)
    wanted = 1 / (1 + np.exp(-wanted)) if transform else wanted
    arrays = {name: value for name, value in ensemble().items() if isinstance(value, np.ndarray)}
    typed = {name: array.astype(dtype) for name, array in arrays.items() if array.dtype.kind == "f"}
    attributes = ensemble(post_transform=transform, **typed)
    found = evaluated(case("TreeEnsemble", 5, X5.astype(dtype), attributes=attributes))[0]
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted, rtol=1e-3 if dtype == np.float16 else 1e-6)


def classic(**changed: Any) -> Case:
    attributes = {
        "nodes_treeids": [0, 0, 0], "nodes_nodeids": [0, 1, 2], "nodes_featureids": [0, 0, 0],
        "nodes_values": [0.5, 0.0, 0.0], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"],
        "nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], "n_targets": 1,
        "target_treeids": [0, 0], "target_nodeids": [1, 2], "target_ids": [0, 0], "target_weights": [1.0, 2.0],
    }  # fmt: skip
    return case("TreeEnsembleRegressor", 1, X5, attributes={**attributes, **changed})


def modern(**changed: Any) -> Case:
    return case("TreeEnsemble", 5, X5, attributes=ensemble(**changed))


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (classic(nodes_truenodeids=[0, 0, 0]), "the nodes must be trees, not have several ways to node 0"),
        (classic(nodes_modes=["BRANCH_LEQ", "BRANCH_LT", "LEAF"], nodes_truenodeids=[1, 1, 0],
                 nodes_falsenodeids=[2, 2, 0]), "the nodes must be trees, not have several ways to node 1"),
        (classic(nodes_falsenodeids=[9, 0, 0]), "the children must be nodes of their tree, not node 9"),
        (classic(nodes_falsenodeids=[-1, 0, 0]), "the children must be nodes of their tree, not node -1"),
        (classic(nodes_nodeids=[0, 1, 1]), "each node id must be there once in a tree, not twice"),
        (classic(nodes_nodeids=[0, 1, 1 << 62]), "the node ids must be 0, 1, ... in each tree"),
        (classic(nodes_values=[0.5]), "attribute 'nodes_values' must have 3 elements, not 1"),
        (classic(nodes_modes=["BRANCH_LEQ", "LEAF", "LEAVE"]), "'nodes_modes' must be 3 of BRANCH_LEQ, BRANCH_LT"),
        (classic(nodes_featureids=[2, 0, 0]), "the features must be 0 to 1, not 2 to 2"),
        (classic(target_ids=[0, 5]), "the targets of leaves must be 0 to 0, not 0 to 5"),
        (classic(target_treeids=[0, 1]), "'target_treeids' must be ids of trees"),
        (classic(target_nodeids=[1, 7]), "the leaves with votes must be nodes of their tree, not node 7"),
        (classic(aggregate_function="MEDIAN"), "'aggregate_function' must be one of AVERAGE, SUM, MIN, MAX"),
        (classic(post_transform="TANH"), "attribute 'post_transform' must be NONE, LOGISTIC"),
        (modern(nodes_truenodeids=[0, 0, 2]), "the nodes must be trees, not have several ways to node 0"),
        (modern(nodes_truenodeids=[1, 0, 4]), "'nodes_truenodeids' must be nodes below 3 or leaves below 4"),
        (modern(tree_roots=[3]), "'tree_roots' must be nodes below 3, not [3]"),
        (modern(nodes_modes=np.array([0, 7, 3], np.uint8)), "'nodes_modes' must be 0 to 6, not 0 to 7"),
        (modern(leaf_targetids=[0, 1, 0, 2]), "the targets of leaves must be 0 to 1, not 0 to 2"),
        (case("LinearRegressor", 1, X5, coefficients=[1.0]), "there must be 1 x 2 coefficients and 1 intercepts"),
        (case("Scaler", 1, X5, scale=[1.0] * 3), "'scale' must have 1 element or one for each feature of [5, 2]"),
        (case("Normalizer", 1, X5, norm="L3"), "attribute 'norm' must be MAX, L1 or L2, not 'L3'"),
        (case("ArrayFeatureExtractor", 1, X5, np.array([2])), "the indices must be 0 to 1, not 2 to 2"),
        (case("OneHotEncoder", 1, np.array([3]), cats_int64s=[1], zeros=0), "the values must be among the categories"),
        (case("LabelEncoder", 2, np.array([3]), keys_int64s=[1, 2], values_strings=["a"]),
         "the keys must be of the input's type and as many as the values"),
        (case("ZipMap", 1, X5, classlabels_int64s=[1]), "there must be a label for each of 2 columns, not 1"),
    ],
    ids=lambda value: value.label if isinstance(value, Case) else "",
)  # fmt: skip
def test_what_does_not_fit(wanted, message) -> None:
    assert error_of(wanted).startswith(message)


def test_a_million_walks_take_no_python_loop(oracle) -> None:
    """200 trees for 5000 rows, in less time than a loop over rows would take for ten of them."""
    nodes = grown(6, 200, 8, 10, MODES[:1])
    attributes = {**nodes, **votes(nodes, "target", 1, 4), "n_targets": 1}
    same(case("TreeEnsembleRegressor", 1, rows(5000, 10), attributes=attributes), oracle, 1e-4)


def vectors(*shape: int, seed: int = 0) -> list[float]:
    return draw(*shape, seed=seed).reshape(-1).tolist()


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("one_class", [0, 1])
def test_svm_regressor(oracle, kernel, one_class) -> None:
    attributes = {"coefficients": vectors(6), "support_vectors": vectors(6, 3, seed=1), "rho": [0.1], "n_supports": 6}
    wanted = case("SVMRegressor", 1, draw(20, 3), kernel_type=kernel, kernel_params=[0.3, 0.5, 2.0],
                  one_class=one_class, attributes=attributes)  # fmt: skip
    same(wanted, oracle)


def test_svm_regressor_without_vectors(oracle) -> None:
    same(case("SVMRegressor", 1, draw(20, 3), coefficients=vectors(3), rho=[0.1], kernel_type="LINEAR",
              kernel_params=[0.0, 0.0, 0.0]), oracle)  # fmt: skip


@pytest.mark.parametrize("kernel", ["LINEAR", "POLY", "RBF", "SIGMOID"])
@pytest.mark.parametrize("classes", [2, 3, 4])
@pytest.mark.parametrize("probabilities", [False, True])
def test_svm_classifier(oracle, kernel, classes, probabilities) -> None:
    pairs = classes * (classes - 1) // 2
    sizes = [2, 3, 1, 2][:classes]
    attributes: dict[str, Any] = {
        "vectors_per_class": sizes, "support_vectors": vectors(sum(sizes), 3, seed=1), "rho": vectors(pairs, seed=2),
        "coefficients": vectors(classes - 1, sum(sizes), seed=3), "classlabels_ints": [5, 7, 9, 11][:classes],
        "kernel_type": kernel, "kernel_params": [0.3, 0.5, 2.0],
    }  # fmt: skip
    if probabilities:
        attributes |= {"prob_a": [-0.5 - 0.1 * i for i in range(pairs)], "prob_b": [0.1 * i for i in range(pairs)]}
    tolerance = 1e-2 if probabilities else 1e-5
    same(case("SVMClassifier", 1, draw(20, 3), outputs=2, attributes=attributes), oracle, tolerance)


def test_probabilities_of_two_classes_are_those_of_the_pair() -> None:
    """onnxruntime stops earlier, at 0.005 / classes."""
    shared: dict[str, Any] = {
        "vectors_per_class": [1, 1], "support_vectors": vectors(2, 3, seed=1), "rho": [0.2],
        "coefficients": [1.0, -1.0], "classlabels_ints": [5, 7],
    }  # fmt: skip
    x, asked = draw(9, 3), {"prob_a": [-0.5], "prob_b": [0.25]}
    decision = evaluated(case("SVMClassifier", 1, x, outputs=2, attributes=shared))[1][:, 1]
    found = evaluated(case("SVMClassifier", 1, x, outputs=2, attributes=shared | asked))[1]
    np.testing.assert_allclose(found[:, 0], 1 / (1 + np.exp(-0.5 * decision + 0.25)), rtol=1e-5)
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "SOFTMAX"])
def test_svm_classifier_without_vectors(oracle, kind) -> None:
    wanted = case("SVMClassifier", 1, draw(20, 3), coefficients=vectors(3, 3), rho=[0.1], kernel_type="LINEAR",
                  kernel_params=[0.0, 0.0, 0.0], classlabels_strings=["a", "b", "c"], outputs=2,
                  post_transform=kind)  # fmt: skip
    same(wanted, oracle)


def evaluate_untyped(op: str, value: Any, **attributes: Any) -> Any:
    """The output of a node whose input or output is a map."""
    b = Builder()
    b._inputs.append(hwflow.onnx.Value("x", None))
    b.nodes(op, "x", outputs=["y"], domain=ML, **attributes)
    b.output("y")
    return hwflow.onnx.evaluate(b.model(opsets={ML: 1}), {"x": value})["y"]


def test_zip_map() -> None:
    model, feeds = case("ZipMap", 1, X5[:2], classlabels_strings=["a", "b"]).model()
    found = hwflow.onnx.evaluate(model, feeds)["y0"]
    assert [{key: float(value) for key, value in row.items()} for row in found] == [{"a": 0, "b": 2}, {"a": 0, "b": 4}]


@pytest.mark.parametrize(
    ("op", "value", "attributes", "wanted"),
    [
        ("DictVectorizer", {"a": 1.5, "c": 2.5}, {"string_vocabulary": ["c", "b", "a"]}, [[2.5, 0, 1.5]]),
        ("DictVectorizer", {4: 1.0, 7: 2.0}, {"int64_vocabulary": [7, 4]}, [[2, 1]]),
        ("CastMap", {4: 1.5, 1: 2.5}, {"cast_to": "TO_FLOAT"}, [[2.5, 1.5]]),
        ("CastMap", {3: 1.5, 1: 2.5}, {"cast_to": "TO_INT64", "map_form": "SPARSE", "max_map": 5}, [[0, 2, 0, 1, 0]]),
        ("CastMap", {3: "x"}, {"cast_to": "TO_STRING"}, [["x"]]),
    ],
)
def test_maps(op, value, attributes, wanted) -> None:
    assert evaluate_untyped(op, value, **attributes).tolist() == wanted
