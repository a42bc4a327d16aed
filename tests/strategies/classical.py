"""Small random models of ai.onnx.ml: trees of any shape and comparison, linear models and linear SVM; and tree models
in every form, with rows that meet their thresholds, are missing or infinite.

Of the latter is left out what onnxruntime computes otherwise than the standard says (docs/trees.md): transforms of one
target, numbers of transforms of TreeEnsemble, sets with a 0 or less.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model

ML = "ai.onnx.ml"
FEATURES = 5
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")
OPERATORS = ("LinearClassifier", "LinearRegressor", "SVMClassifier", "SVMRegressor", "TreeEnsemble",
             "TreeEnsembleClassifier", "TreeEnsembleRegressor")

F = np.float32
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")

Rng = np.random.Generator


def one_node(op: str, version: int, outputs: tuple[str, ...], dtype: Any = np.float32, **attributes: Any) -> Model:
    """A model of `op` alone, with the input x [1, FEATURES]."""
    b = Builder()
    x = b.input("x", dtype, (1, FEATURES))
    for name in b.nodes(op, x, outputs=outputs, name="classical", domain=ML, **attributes):
        b.output(name)
    return b.model(opset=17, opsets={ML: version})


def threshold(rng: Rng) -> float:
    """Few different ones, so that features meet them."""
    return float(np.float32(rng.integers(-4, 5) / 2))


def grown(rng: Rng, depth: int, modes: tuple[str, ...], missing: bool) -> list[dict[str, Any]]:
    """The nodes of a tree, the root first: leaves have the mode LEAF."""
    nodes: list[dict[str, Any]] = [{}]
    if depth == 0 or rng.random() < 0.15:
        nodes[0] = {"mode": "LEAF"}
        return nodes
    sides = []
    for _ in range(2):
        sides.append(len(nodes))
        below = grown(rng, depth - 1, modes, missing)
        nodes += [{**node, **{key: node[key] + sides[-1] for key in ("true", "false") if key in node}}
                  for node in below]
    nodes[0] = {"mode": str(rng.choice(modes)), "feature": int(rng.integers(FEATURES)), "value": threshold(rng),
                "true": sides[0], "false": sides[1], "missing": int(missing and rng.random() < 0.5)}
    return nodes


def classic_trees(rng: Rng, prefix: str, targets: int, modes: tuple[str, ...] = MODES, trees: int = 4, depth: int = 4,
                  missing: bool = True, every_target: bool = False) -> dict[str, Any]:
    """The attributes of TreeEnsembleClassifier (prefix class) or -Regressor (target) that are trees."""
    found: dict[str, list[Any]] = {f"nodes_{name}": [] for name in (
        "treeids", "nodeids", "modes", "featureids", "values", "truenodeids", "falsenodeids",
        "missing_value_tracks_true")}
    found |= {f"{prefix}_{name}": [] for name in ("treeids", "nodeids", "ids", "weights")}
    for tree in range(trees):
        for number, node in enumerate(grown(rng, depth, modes, missing)):
            values = {"treeids": tree, "nodeids": number, "modes": node["mode"], "featureids": node.get("feature", 0),
                      "values": node.get("value", 0.0), "truenodeids": node.get("true", 0),
                      "falsenodeids": node.get("false", 0), "missing_value_tracks_true": node.get("missing", 0)}
            for name, value in values.items():
                found[f"nodes_{name}"].append(value)
            if node["mode"] == "LEAF":
                count = targets if every_target else int(rng.integers(1, targets + 1))
                for target in rng.choice(targets, count, replace=False):
                    for name, value in (("treeids", tree), ("nodeids", number), ("ids", int(target)),
                                        ("weights", float(np.float32(rng.normal())))):
                        found[f"{prefix}_{name}"].append(value)
    if all(mode == "LEAF" for mode in found["nodes_modes"]):
        return classic_trees(rng, prefix, targets, modes, trees, depth, missing, every_target)
    return found


def modern_trees(rng: Rng, targets: int, trees: int = 4, depth: int = 4, members: bool = True) -> dict[str, Any]:
    """The attributes of a TreeEnsemble that are trees; some of its nodes ask whether a feature is in a set."""
    inner: list[dict[str, Any]] = []
    roots, leaves = [], []
    for _ in range(trees):
        nodes = grown(rng, depth, MODES, True)
        while nodes[0]["mode"] == "LEAF":
            nodes = grown(rng, depth, MODES, True)
        place = {}
        for number, node in enumerate(nodes):
            group = leaves if node["mode"] == "LEAF" else inner
            place[number] = len(group)
            group.append({**node, "tree": len(roots), "number": number})
        roots.append(place[0])
        for node in inner:
            if node["tree"] == len(roots) - 1:
                node["places"] = {side: (place[node[side]], int(nodes[node[side]]["mode"] == "LEAF"))
                                  for side in ("true", "false")}
    modes = [MODES.index(node["mode"]) for node in inner]
    sets: list[float] = []
    for number in range(len(modes)):
        if members and rng.random() < 0.2:
            modes[number] = len(MODES)
            sets += [threshold(rng) for _ in range(int(rng.integers(1, 4)))] + [float("nan")]
    attributes: dict[str, Any] = {
        "tree_roots": roots, "nodes_featureids": [node["feature"] for node in inner],
        "nodes_modes": np.array(modes, np.uint8),
        "nodes_splits": np.array([node["value"] for node in inner], np.float32),
        "nodes_missing_value_tracks_true": [node["missing"] for node in inner],
        "leaf_targetids": [int(rng.integers(targets)) for _ in leaves],
        "leaf_weights": rng.normal(size=len(leaves)).astype(np.float32),
    }
    for side in ("true", "false"):
        attributes[f"nodes_{side}nodeids"] = [node["places"][side][0] for node in inner]
        attributes[f"nodes_{side}leafs"] = [node["places"][side][1] for node in inner]
    return {**attributes, "membership_values": np.array(sets, np.float32)} if sets else attributes


def normal(rng: Rng, count: int) -> list[float]:
    return rng.normal(size=count).astype(np.float32).tolist()


def linear_classifier(rng: Rng) -> Model:
    return one_node("LinearClassifier", 1, ("label", "scores"), coefficients=normal(rng, 3 * FEATURES),
                    intercepts=normal(rng, 3), classlabels_ints=[3, 1, 7], post_transform="SOFTMAX")


def svm_classifier(rng: Rng) -> Model:
    sizes = [2, 1, 3]
    return one_node("SVMClassifier", 1, ("label", "scores"), classlabels_strings=["a", "b", "c"], kernel_type="LINEAR",
                    vectors_per_class=sizes, support_vectors=normal(rng, 6 * FEATURES), rho=normal(rng, 3),
                    coefficients=normal(rng, 12), post_transform="NONE")


MAKERS: dict[str, Callable[[Rng], Model]] = {
    "LinearClassifier": linear_classifier,
    "LinearRegressor": lambda rng: one_node(
        "LinearRegressor", 1, ("y",), coefficients=normal(rng, 2 * FEATURES), intercepts=normal(rng, 2), targets=2),
    "SVMClassifier": svm_classifier,
    "SVMRegressor": lambda rng: one_node(
        "SVMRegressor", 1, ("y",), kernel_type="LINEAR", n_supports=4, support_vectors=normal(rng, 4 * FEATURES),
        coefficients=normal(rng, 4), rho=[0.5]),
    "TreeEnsemble": lambda rng: one_node("TreeEnsemble", 5, ("y",), n_targets=3, aggregate_function=1, post_transform=0,
                                         **modern_trees(rng, 3)),
    "TreeEnsembleClassifier": lambda rng: one_node(
        "TreeEnsembleClassifier", 3, ("label", "scores"), classlabels_int64s=[4, 5, 9], post_transform="SOFTMAX",
        **classic_trees(rng, "class", 3)),
    "TreeEnsembleRegressor": lambda rng: one_node(
        "TreeEnsembleRegressor", 1, ("y",), n_targets=2, **classic_trees(rng, "target", 2)),
}


def classical_model(op: str, rng: Rng) -> Model:
    """Any model of the operator `op` alone."""
    return MAKERS[op](rng)


def bag(members: list[Model], columns: list[list[int]]) -> Model:
    """The mean of the scores of models of one node, each of which reads some columns of x, as scikit-learn has it."""
    b = Builder()
    x, scores = b.input("x", np.float32, (1, FEATURES)), []
    for k, (member, chosen) in enumerate(zip(members, columns, strict=True)):
        (node,), count = member.graph.nodes, len(member.graph.outputs)
        own = b.node("Gather", x, b.constant(f"columns{k}", np.array(chosen, np.int64)), axis=1) if chosen else x
        made = b.nodes(node.op_type, own, outputs=tuple(f"{kind}{k}" for kind in ("label", "scores")[-count:]),
                       name=f"member{k}", domain=ML, **node.attributes)
        scores.append(b.node("Unsqueeze", made[-1], b.constant(f"axis{k}", np.array([0], np.int64))))
    b.output(b.node("ReduceMean", b.node("Concat", *scores, axis=0), output="mean", axes=[0], keepdims=0))
    return b.model(opset=17, opsets={ML: 3})


@dataclass(frozen=True)
class ClassicalCase:
    """`x` is [n, 1, FEATURES]; `description` names the choices that were made."""

    model: Model
    x: np.ndarray
    description: str


def random_case(rng: Rng) -> ClassicalCase:
    form = str(rng.choice(["TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"]))
    dtype = (F, F, np.float64, np.int64) if form == "TreeEnsembleClassifier" else (F, np.float64)
    kind = dtype[int(rng.integers(len(dtype)))]
    modes = tuple(rng.choice(MODES, int(rng.integers(1, len(MODES) + 1)), replace=False).tolist())
    b = Builder()
    x = b.input("x", kind, ("n", FEATURES))
    makers = {"TreeEnsembleClassifier": classifier, "TreeEnsembleRegressor": regressor, "TreeEnsemble": ensemble}
    version, chosen = makers[form](b, x, rng, modes, kind)
    model = b.model(opset=17, opsets={ML: version})
    return ClassicalCase(model, rows_of(rng, 60, kind), f"{form} {version} {np.dtype(kind)} {modes} {chosen}")


def rows_of(rng: Rng, count: int = 200, kind: Any = F) -> np.ndarray:
    """Thresholds, their neighbours, numbers between, zeros of both signs; floats are missing or infinite at times."""
    x = (rng.integers(-4, 5, (count, 1, FEATURES)) / 2).astype(F)
    if kind == np.int64:
        return np.rint(x).astype(kind)
    way = rng.random(x.shape)
    x = np.where(way < 0.2, np.nextafter(x, F(np.inf)), np.where(way < 0.4, np.nextafter(x, F(-np.inf)), x))
    x = np.where(way > 0.85, rng.normal(0, 2, x.shape).astype(F), x)
    for value in (np.nan, np.inf, -np.inf, -0.0):
        x[rng.random(x.shape) < 0.05] = value
    return x.astype(kind)


def trees(rng: Rng, prefix: str, targets: int, modes: tuple[str, ...], every_target: bool) -> dict[str, Any]:
    return classic_trees(rng, prefix, targets, modes, int(rng.integers(1, 9)), int(rng.integers(1, 5)),
                         missing=bool(rng.integers(2)), every_target=every_target)


def classifier(b: Builder, x: str, rng: Rng, modes: tuple[str, ...], kind: Any) -> tuple[int, str]:
    """Two classes with one score or two, or several; labels are integers or texts, scores a tensor or maps."""
    classes, single = int(rng.integers(2, 5)), False
    if classes == 2:
        single = bool(rng.integers(2))
    transform = TRANSFORMS[int(rng.integers(5 if classes > 2 or single else 4))]  # onnxruntime's PROBIT of two is NaN
    attributes = trees(rng, "class", 1 if single else classes, modes, every_target=True)
    if single:
        attributes["class_ids"] = [int(rng.integers(2))] * len(attributes["class_ids"])
    if transform == "PROBIT":  # of numbers between 0 and 1
        attributes["class_weights"] = [(0.05 + 0.02 * float(np.tanh(w))) for w in attributes["class_weights"]]
    numbers = rng.permutation(20)[:classes].tolist()
    names = [f"c{n}" for n in numbers] if rng.integers(2) else []
    attributes |= {"classlabels_strings": names} if names else {"classlabels_int64s": numbers}
    if rng.integers(2):
        attributes["base_values"] = [0.0625] if single else rng.uniform(0, 0.125, classes).astype(F).tolist()
    version = int(rng.choice([1, 3]))
    label, scores = b.nodes("TreeEnsembleClassifier", x, outputs=("label", "scores"), name="classical", domain=ML,
                            post_transform=transform, **attributes)
    b.output(label)
    mapped = bool(rng.integers(2))
    if mapped:
        keys = {"classlabels_strings": names} if names else {"classlabels_int64s": numbers}
        scores, = b.nodes("ZipMap", scores, outputs=("maps",), domain=ML, **keys)
    b.output(scores)
    return version, f"{transform} classes {classes} single {single} maps {mapped} texts {bool(names)}"


def regressor(b: Builder, x: str, rng: Rng, modes: tuple[str, ...], kind: Any) -> tuple[int, str]:
    targets, aggregate = int(rng.integers(1, 4)), AGGREGATES[int(rng.integers(4))]
    transform = str(rng.choice(["NONE", "LOGISTIC", "SOFTMAX"])) if targets > 1 else "NONE"
    attributes = trees(rng, "target", targets, modes, every_target=True)
    if rng.integers(2):
        attributes["base_values"] = rng.normal(size=targets).astype(F).tolist()
    y, = b.nodes("TreeEnsembleRegressor", x, outputs=("y",), name="classical", domain=ML, n_targets=targets,
                 aggregate_function=aggregate, post_transform=transform, **attributes)
    b.output(y)
    return int(rng.choice([1, 3])), f"{aggregate} {transform} targets {targets}"


def ensemble(b: Builder, x: str, rng: Rng, modes: tuple[str, ...], kind: Any) -> tuple[int, str]:
    """Of version 5; nodes may ask for members of sets, or all of them do."""
    targets, aggregate = int(rng.integers(1, 4)), int(rng.integers(2))
    only = rng.random() < 0.2
    attributes = modern_trees(rng, targets, int(rng.integers(1, 7)), int(rng.integers(1, 5)), not only)
    if only:
        count = len(attributes["nodes_modes"])
        attributes["nodes_modes"] = np.full(count, len(MODES), np.uint8)
        sets = [[threshold(rng), threshold(rng), np.nan] for _ in range(count)]
        attributes["membership_values"] = np.array(sets, F).ravel()
    if "membership_values" in attributes:  # onnxruntime has sets of integers above 0 alone
        attributes["membership_values"] = 1 + np.rint(np.abs(attributes["membership_values"]))
    if kind == np.float64:
        for name in ("nodes_splits", "leaf_weights", "membership_values"):
            if name in attributes:
                attributes[name] = attributes[name].astype(np.float64)
    y, = b.nodes("TreeEnsemble", x, outputs=("y",), name="classical", domain=ML, n_targets=targets,
                 aggregate_function=aggregate, post_transform=0 if targets == 1 else 3, **attributes)
    b.output(y)
    return 5, f"aggregate {aggregate} targets {targets} members only {only}"
