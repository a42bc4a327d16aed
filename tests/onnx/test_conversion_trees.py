"""TreeEnsembleRegressor and -Classifier as TreeEnsemble, against onnxruntime on the node as it was."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from hwflow import onnx
from hwflow.onnx import convert_opset
from hwflow.onnx.errors import ConversionError
from hwflow.onnx.rules.finding import Severity
from tests.onnx.neural import Case
from tests.onnx.oracle import ChildOracle
from tests.onnx.test_ops_ml import MODES, case, classic, grown, rows, votes

BASE = [0.5, -0.25, 1.0]


@pytest.fixture(scope="module")
def oracle() -> Iterator[ChildOracle]:
    with ChildOracle() as started:
        yield started


def require_same(one: Case, oracle: ChildOracle) -> None:
    model, feeds = one.model()
    made = convert_opset(model, {"ai.onnx.ml": 5})
    assert "TreeEnsemble" in [node.op_type for node in made.graph.nodes]
    assert [str(f) for f in onnx.check(made) if f.severity is Severity.ERROR and f.rule != "GR-17"] == []
    for name, answer in zip(onnx.evaluate(made, feeds).items(), oracle.run(model, feeds), strict=True):
        found, answer = name[1], np.asarray(answer)
        assert found.shape == answer.shape
        if answer.dtype.kind in "OUi":
            assert found.tolist() == answer.tolist()
        else:
            assert found.dtype == answer.dtype
            np.testing.assert_allclose(found, answer, rtol=1e-5, atol=1e-5)


def forest(prefix: str, targets: int, seed: int = 1, low: float = -1, **attributes: Any) -> dict[str, Any]:
    nodes = grown(seed, 5, 4, 4, MODES[:5])
    return {**nodes, **votes(nodes, prefix, targets, seed, low), **attributes}


@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE", "MIN", "MAX"])
@pytest.mark.parametrize("targets", [1, 3])
def test_regressor(oracle: ChildOracle, aggregate: str, targets: int) -> None:
    attributes = forest("target", targets, n_targets=targets, base_values=BASE[:targets])
    tracks = [int(i % 3 == 0) for i in range(len(attributes["nodes_modes"]))]
    one = case("TreeEnsembleRegressor", 1, rows(100, 4), attributes=attributes, aggregate_function=aggregate,
               nodes_missing_value_tracks_true=tracks)  # fmt: skip
    require_same(one, oracle)


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO"])
def test_classifier_of_three_classes(oracle: ChildOracle, kind: str) -> None:
    attributes = forest("class", 3, classlabels_strings=["x", "y", "z"], post_transform=kind)
    if kind in ("NONE", "LOGISTIC"):
        attributes["base_values"] = BASE
    require_same(case("TreeEnsembleClassifier", 1, rows(100, 4), outputs=2, attributes=attributes), oracle)


@pytest.mark.parametrize("kind", ["NONE", "LOGISTIC"])
@pytest.mark.parametrize("low", [0.0, -1.0], ids=["positive", "mixed"])
@pytest.mark.parametrize("base", [[], [0.125]])
def test_classifier_of_two_classes(oracle: ChildOracle, kind: str, low: float, base: list[float]) -> None:
    attributes = forest("class", 1, 4, low, classlabels_int64s=[5, 7], post_transform=kind)
    if base:
        attributes["base_values"] = base
    require_same(case("TreeEnsembleClassifier", 3, rows(60, 4), outputs=2, attributes=attributes), oracle)


def test_doubles_and_integers(oracle: ChildOracle) -> None:
    attributes = forest("class", 3, classlabels_int64s=[5, 7, 9])
    for name in ("nodes_values", "class_weights"):
        attributes[f"{name}_as_tensor"] = np.array(attributes.pop(name), np.float64)
    x = rows(50, 4).astype(np.float64)
    require_same(case("TreeEnsembleClassifier", 3, x, outputs=2, attributes=attributes), oracle)
    whole = np.random.default_rng(0).integers(-2, 3, (50, 4))
    attributes = forest("class", 3, classlabels_int64s=[5, 7, 9])
    require_same(case("TreeEnsembleClassifier", 3, whole, outputs=2, attributes=attributes), oracle)


def test_a_tree_that_is_a_leaf(oracle: ChildOracle) -> None:
    single = {"nodes_treeids": [0], "nodes_nodeids": [0], "nodes_featureids": [0], "nodes_values": [0.0],
              "nodes_modes": ["LEAF"], "nodes_truenodeids": [0], "nodes_falsenodeids": [0], "target_treeids": [0],
              "target_nodeids": [0], "target_ids": [0], "target_weights": [1.5], "n_targets": 1}  # fmt: skip
    require_same(case("TreeEnsembleRegressor", 1, rows(5, 2), attributes=single), oracle)


@pytest.mark.parametrize(
    ("one", "why"),
    [
        (classic(aggregate_function="MIN", target_nodeids=[1, 1]), "a leaf of tree 0 has no vote"),
        (classic(base_values=[1.0], post_transform="PROBIT"), "post_transform PROBIT after base values"),
        (classic(nodes_falsenodeids=[0, 0, 0]), "several ways lead to node 0 of tree 0"),
        (classic(nodes_values=[0.5]), "'nodes_values' must have 3 elements, not 1"),
    ],
)
def test_what_has_no_form(one: Case, why: str) -> None:
    with pytest.raises(ConversionError, match=why):
        convert_opset(one.model()[0], {"ai.onnx.ml": 5})
