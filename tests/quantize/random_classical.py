"""Random tree models in every form of ai.onnx.ml, and rows that meet their thresholds, are missing or infinite.

Left out is what onnxruntime computes otherwise than the standard says (docs/trees.md): transforms of one target,
numbers of transforms of TreeEnsemble, sets with a 0 or less.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from tests.quantize.classical_models import FEATURES, ML, MODES, Rng, classic_trees, modern_trees, threshold

F = np.float32
TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclass(frozen=True)
class ClassicalCase:
    """`x` is [n, 1, FEATURES]; `description` names the choices that were made."""

    model: Model
    x: np.ndarray
    description: str


def random_case(seed: int) -> ClassicalCase:
    rng = np.random.default_rng(seed)
    form = str(rng.choice(["TreeEnsembleClassifier", "TreeEnsembleRegressor", "TreeEnsemble"]))
    dtype = (F, F, np.float64, np.int64) if form == "TreeEnsembleClassifier" else (F, np.float64)
    kind = dtype[int(rng.integers(len(dtype)))]
    modes = tuple(rng.choice(MODES, int(rng.integers(1, len(MODES) + 1)), replace=False).tolist())
    b = Builder()
    x = b.input("x", kind, ("n", FEATURES))
    makers = {"TreeEnsembleClassifier": classifier, "TreeEnsembleRegressor": regressor, "TreeEnsemble": ensemble}
    version, chosen = makers[form](b, x, rng, modes, kind)
    model = b.model(opset=17, opsets={ML: version})
    return ClassicalCase(model, rows_of(rng, kind), f"{form} {version} {np.dtype(kind)} {modes} {chosen}")


def rows_of(rng: Rng, kind: Any, count: int = 60) -> np.ndarray:
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
