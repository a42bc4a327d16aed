"""Forms of ai.onnx.ml: encoders, linear models, trees with each way to compare, support vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.onnx.forms.form import Case, draw, words
from tests.onnx.forms.form import case as any_case

ML = "ai.onnx.ml"
MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
KINDS = ("NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO")
X5 = np.array([[0, 2], [0, 4], [2, 1], [2, -1], [0, 3]], np.float32)
BASE = [0.5, -0.25, 1.0]


def case(op: str, opset: int, *inputs: Any, **others: Any) -> Case:
    return any_case(op, opset, *inputs, domain=ML, **others)


def cases() -> Iterator[Case]:
    yield from simple()
    yield from _regressors()
    yield from _classifiers()
    yield from _ensembles()
    yield from _support_vectors()
    yield from _support_classifiers()


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


def vectors(*shape: int, seed: int = 0) -> list[float]:
    return draw(*shape, seed=seed).reshape(-1).tolist()


def forest(prefix: str, targets: int, seed: int = 1, low: float = -1, modes: int = 5, **others: Any) -> dict[str, Any]:
    nodes = grown(seed, 5, 4, 4, MODES[:modes])
    return {**nodes, **votes(nodes, prefix, targets, seed, low), **others}


def _regressors() -> Iterator[Case]:
    for opset in (1, 3):
        for aggregate in ("SUM", "AVERAGE", "MIN", "MAX"):
            for targets, modes in ((3, 5), (3, 1), (1, 5)):
                how = forest("target", targets, opset, modes=modes, n_targets=targets, base_values=BASE[:targets])
                tracks = [int(i % 3 == 0) for i in range(len(how["nodes_modes"]))]
                for missing in ({}, {"nodes_missing_value_tracks_true": tracks}):
                    yield case("TreeEnsembleRegressor", opset, rows(60, 4), aggregate_function=aggregate,
                               attributes={**how, **missing})  # fmt: skip
        # A leaf without vote for a target adds nothing.
        how = classic(n_targets=2, base_values=[0.5, 0.25], target_ids=[0, 1]).attributes
        answer = np.array([[1.5, 0.25], [1.5, 0.25], [0.5, 2.25], [0.5, 2.25], [1.5, 0.25]], np.float32)
        yield case("TreeEnsembleRegressor", opset, X5, attributes=how, expected=answer, own=True)
    leaf = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_featureids": [0], "nodes_values": [0.0],
            "nodes_modes": ["LEAF"], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "target_treeids": [0],
            "target_nodeids": [0], "target_ids": [0], "target_weights": [1.5], "n_targets": 1}  # fmt: skip
    yield case("TreeEnsembleRegressor", 1, rows(5, 2), attributes=leaf)


def _classifiers() -> Iterator[Case]:
    for opset in (1, 3):
        for kind in KINDS:
            how = forest("class", 3, classlabels_strings=["x", "y", "z"], post_transform=kind)
            yield case("TreeEnsembleClassifier", opset, rows(60, 4), outputs=2, attributes=how)
            if kind in ("NONE", "LOGISTIC"):
                yield case("TreeEnsembleClassifier", opset, rows(60, 4), outputs=2, base_values=BASE, attributes=how)
    for kind in KINDS[:3]:  # two classes with one score
        for low in (0.0, -1.0):
            for base in ({}, {"base_values": [0.125]}):
                for modes in (1, 5):
                    how = forest("class", 1, 4, low, modes, classlabels_int64s=[5, 7], post_transform=kind)
                    yield case("TreeEnsembleClassifier", 3, rows(60, 4), outputs=2, attributes={**how, **base})
    how = forest("class", 3, classlabels_int64s=[5, 7, 9])
    whole = np.random.default_rng(0).integers(-2, 3, (50, 4))
    yield case("TreeEnsembleClassifier", 3, whole, outputs=2, attributes=how)
    for name in ("nodes_values", "class_weights"):
        how[f"{name}_as_tensor"] = np.array(how.pop(name), np.float64)
    yield case("TreeEnsembleClassifier", 3, rows(50, 4).astype(np.float64), outputs=2, attributes=how)


def _ensembles() -> Iterator[Case]:
    plain = np.array([[1, 0], [0, 2], [3, 0], [0, 4], [1, 0]], np.float64)
    for transform, answer in ((0, plain), (2, 1 / (1 + np.exp(-plain)))):
        for dtype in (np.float32, np.float64, np.float16):
            typed = {name: value.astype(dtype) for name, value in ensemble().items()
                     if isinstance(value, np.ndarray) and value.dtype.kind == "f"}  # fmt: skip
            yield case("TreeEnsemble", 5, X5.astype(dtype), own=True, expected=answer.astype(dtype),
                       attributes=ensemble(post_transform=transform, **typed))  # fmt: skip


def _support_vectors() -> Iterator[Case]:
    for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
        for one_class in (0, 1):
            yield case("SVMRegressor", 1, draw(20, 3), coefficients=vectors(6), support_vectors=vectors(6, 3, seed=1),
                       rho=[0.1], n_supports=6, kernel_type=kernel, kernel_params=[0.3, 0.5, 2.0],
                       one_class=one_class)  # fmt: skip
    linear = {"rho": [0.1], "kernel_type": "LINEAR", "kernel_params": [0.0, 0.0, 0.0]}
    yield case("SVMRegressor", 1, draw(20, 3), coefficients=vectors(3), attributes=linear)
    for kind in KINDS[:3]:
        yield case("SVMClassifier", 1, draw(20, 3), coefficients=vectors(3, 3), outputs=2, post_transform=kind,
                   classlabels_strings=["a", "b", "c"], attributes=linear)  # fmt: skip


def _support_classifiers() -> Iterator[Case]:
    for classes in (2, 3, 4):
        pairs, sizes = classes * (classes - 1) // 2, [2, 3, 1, 2][:classes]
        how = {"vectors_per_class": sizes, "support_vectors": vectors(sum(sizes), 3, seed=1),
               "rho": vectors(pairs, seed=2), "coefficients": vectors(classes - 1, sum(sizes), seed=3),
               "classlabels_ints": [5, 7, 9, 11][:classes], "kernel_params": [0.3, 0.5, 2.0]}  # fmt: skip
        asked = {"prob_a": [-0.5 - 0.1 * i for i in range(pairs)], "prob_b": [0.1 * i for i in range(pairs)]}
        for kernel in ("LINEAR", "POLY", "RBF", "SIGMOID"):
            yield case("SVMClassifier", 1, draw(20, 3), outputs=2, kernel_type=kernel, attributes=how)
            yield case("SVMClassifier", 1, draw(20, 3), outputs=2, kernel_type=kernel, tolerance=1e-2,
                       attributes={**how, **asked})  # fmt: skip
