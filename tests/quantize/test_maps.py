"""Classifiers as skl2onnx exports them: labels, ZipMap, votes of pairs of classes, texts and missing features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
import hwflow.onnx
from hwflow import golden
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.onnx.run.missing import missing_taken
from hwflow.quantize import quantize
from tests.e2e.command import Cli
from tests.strategies.classical import FEATURES, ML, classic_trees

F = np.float32
NAMES = ["ant", "bee", "cat"]


def classifier(*, names: list[Any] | None = None, keys: list[Any] | None = None, reads: str = "", op: str = "trees",
               default: bool = True) -> Model:
    """The end that skl2onnx writes: Cast or Identity of the label, Normalizer of the scores, ZipMap."""
    names, rng, b = names or [3, 5, 8], np.random.default_rng(3), Builder()
    words = "strings" if isinstance(names[0], str) else "ints"
    x = b.input("X", F, ("n", FEATURES))
    if op == "trees":
        kind = {"classlabels_strings" if words == "strings" else "classlabels_int64s": names}
        label, scores = b.nodes("TreeEnsembleClassifier", x, outputs=("label", "scores"), domain=ML, **kind,
                                post_transform="SOFTMAX", **classic_trees(rng, "class", 3, every_target=True))
    else:
        label, scores = b.nodes("LinearClassifier", x, outputs=("label", "scores"), domain=ML, post_transform="SOFTMAX",
                                coefficients=rng.normal(size=3 * FEATURES).tolist(), intercepts=[0.0, 0.5, -0.5],
                                **{f"classlabels_{words}": names})
    if default:
        label = b.node("Identity", label) if words == "strings" else b.node("Cast", label, to=7)
    b.output(label)
    keys = keys or names
    maps = {"classlabels_strings" if isinstance(keys[0], str) else "classlabels_int64s": keys}
    zipped, = b.nodes("ZipMap", scores, outputs=("maps",), domain=ML, **maps)
    b.output(b.node(reads, zipped) if reads else zipped)
    return b.model(opset=17, opsets={ML: 3})


def rows(count: int = 40, scale: Any = 1.0) -> np.ndarray:
    return (np.random.default_rng(0).normal(size=(count, FEATURES)) * scale).astype(F)


@pytest.mark.parametrize("names", [NAMES, [3, 5, 8]])
def test_maps_are_the_arrays_of_their_values(names: list[Any]) -> None:
    model, x = classifier(names=names), rows()
    quantized = hwflow.quantize_model(hwflow.onnx.simplify(hwflow.onnx.infer(model)), x)
    label, scores = golden.predict(quantized, {"X": x[:, None]}).values()
    said = [hwflow.onnx.evaluate(model, {"X": row[None]}) for row in x]
    maps = [next(value for value in each.values() if isinstance(value, list))[0] for each in said]
    assert [*maps[0]] == names
    assert quantized.classes == {"maps": tuple(names)}
    np.testing.assert_allclose(scores[:, 0], [list(each.values()) for each in maps], atol=1e-6)
    assert label.ravel().tolist() == [names[int(k)] for k in scores[:, 0].argmax(axis=1)]


def test_maps_that_are_refused() -> None:
    for made, message in ((classifier(keys=[1, 2]), "there must be a label for each of 3 columns, not 2"),
                          (classifier(keys=[1, 2, 2]), "the labels must differ, not be 1, 2, 2"),
                          (classifier(reads="SequenceLength"), "a sequence of maps ('maps') must be a result of the "
                           "model, not read by SequenceLength; end the model with it, or read the tensor in front")):
        with pytest.raises(HwflowError) as caught:
            hwflow.onnx.infer(made)
        assert message in str(caught.value)
    odd = hwflow.onnx.infer(classifier())
    odd = type(odd)(**{**odd.__dict__, "metadata": {"hwflow.classes": "[1]"}})
    with pytest.raises(HwflowError, match=r"the model's metadata 'hwflow\.classes' must be a JSON object of a list"):
        hwflow.onnx.inference.maps.class_names(odd)


def test_features_of_any_scale_keep_their_classes() -> None:
    """Six decades between features: one scale for all integers would leave the small ones none."""
    x, b, rng = rows(300, 10.0 ** np.arange(-2, FEATURES - 2)), Builder(), np.random.default_rng(1)
    weights = (rng.normal(size=(FEATURES, 3)) / 10.0 ** np.arange(-2, FEATURES - 2)[:, None]).astype(F)
    scores = b.node("MatMul", b.input("X", F, ("n", FEATURES)), b.constant("w", weights))
    best = b.node("ArgMax", scores, axis=1, keepdims=0)
    label, = b.nodes("ArrayFeatureExtractor", b.constant("names", np.array([7, 8, 9])), best, outputs=("y",), domain=ML)
    b.output(label)
    model = hwflow.onnx.infer(b.model(opset=17, opsets={ML: 3}))
    found = golden.predict(quantize(model, {"X": x[:, None]}), {"X": x[:, None]})["y"]
    assert np.array_equal(found.ravel(), 7 + (x @ weights).argmax(axis=1))
    eight = hwflow.quantize_model(model, x, bits=8)
    assert eight.graph.layers[0].weights.max() < 128  # widths that somebody chooses are taken


def test_layers_behind_maps_are_measured_against_the_scores() -> None:
    """The scores of a product carry the name of the maps in the file."""
    b, x = Builder(), rows()
    scores = b.node("MatMul", b.input("X", F, ("n", FEATURES)), b.constant("w", np.eye(FEATURES, 3, dtype=F)))
    b.output(*b.nodes("ZipMap", scores, outputs=("maps",), domain=ML, classlabels_strings=NAMES))
    source = b.model(opset=17, opsets={ML: 3})
    quantized = quantize(hwflow.onnx.simplify(hwflow.onnx.infer(source)), {"X": x[:, None]}, original=source)
    noises = hwflow.measure_layers(quantized, x)
    assert [noise.original for noise in noises if noise.layer] == [scores]


def test_missing_features_by_what_reads_them() -> None:
    both = frozenset({"NaN", "infinite"})

    def taken(*nodes: tuple[Any, ...]) -> frozenset[str]:
        b = Builder()
        x = b.input("X", F, (1, FEATURES))
        for op, domain, attributes, constants in nodes:
            x, = b.nodes(op, x, *(b.constant(f"{op}.{k}", c) for k, c in enumerate(constants)), outputs=("",),
                         domain=domain, **attributes)
        b.output(x)
        return missing_taken(b.model(opset=17, opsets={ML: 3}).graph)["X"]

    trees = ("TreeEnsembleRegressor", ML, classic_trees(np.random.default_rng(0), "target", 1), ())
    scaler = ("Scaler", ML, {"offset": [1.0], "scale": [2.0]}, ())
    matrix = ("MatMul", "", {}, (np.ones((FEATURES, 2), F),))
    imputer = ("Imputer", ML, {"imputed_value_floats": [0.0], "replaced_value_float": float("nan")}, ())
    other = ("Imputer", ML, {"imputed_value_floats": [0.0], "replaced_value_float": -1.0}, ())
    assert taken(trees) == taken(scaler, trees) == taken(imputer, trees) == both
    assert taken(imputer, matrix) == frozenset({"NaN"})
    assert taken(matrix) == taken(other, matrix) == taken(("Relu", "", {}, ()), trees) == frozenset()


def test_a_data_file_with_missing_features(tmp_path: Path) -> None:
    """Trees take them, and a linear model says in which row and column one is."""
    x = rows()
    x[7, 2], x[9, 0] = np.nan, np.inf
    np.savez(tmp_path / "data.npz", in_X=x)
    model = hwflow.onnx.simplify(hwflow.onnx.infer(classifier()))
    quantized = hwflow.quantize_model(model, hwflow.read_data(tmp_path / "data.npz", model))
    made = hwflow.run_golden(quantized, x)
    said = [hwflow.onnx.evaluate(classifier(), {"X": row[None]}) for row in x]
    assert np.array_equal(next(iter(made.values())).ravel(), [next(iter(each.values()))[0] for each in said])
    linear = hwflow.onnx.simplify(hwflow.onnx.infer(classifier(op="linear")))
    with pytest.raises(HwflowError) as caught:
        hwflow.read_data(tmp_path / "data.npz", linear)
    assert str(caught.value) == (f"{tmp_path / 'data.npz'}: array 'in_X' must hold finite numbers, not nan at "
                                 "[7, 0, 2] (2 such entries); fill missing values in; only trees and an Imputer take "
                                 "them as they are")


def text_model(path: Path) -> None:
    """A column of texts and one of numbers, as skl2onnx exports a ColumnTransformer; labels are texts."""
    b = Builder()
    colour, size = b.input("colour", np.object_, ("n", 1)), b.input("size", F, ("n", 1))
    hot, = b.nodes("OneHotEncoder", colour, outputs=("hot",), domain=ML, cats_strings=["red", "green", "blue"], zeros=1)
    flat = b.node("Reshape", hot, b.constant("shape", np.array([-1, 3])))
    x = b.node("Concat", flat, size, axis=1)
    trees = classic_trees(np.random.default_rng(2), "class", 3, every_target=True)
    trees["nodes_featureids"] = [k % 4 for k in trees["nodes_featureids"]]
    label, scores = b.nodes("TreeEnsembleClassifier", x, outputs=("label", "scores"), domain=ML,
                            classlabels_strings=NAMES, **trees)
    b.output(label)
    b.output(*b.nodes("ZipMap", scores, outputs=("maps",), domain=ML, classlabels_strings=NAMES))
    hwflow.onnx.save(b.model(opset=17, opsets={ML: 3}), path)


def answers(colours: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    model = hwflow.onnx.load("m.onnx")
    return np.array([hwflow.onnx.evaluate(model, {"colour": c[None], "size": s[None]})["label"][0]
                     for c, s in zip(colours, sizes, strict=True)])


def test_texts_in_and_out(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns, labels and expected outputs as texts of fixed width; from a table, in and out."""
    monkeypatch.chdir(tmp_path)
    text_model(Path("m.onnx"))
    rng = np.random.default_rng(0)
    colours, sizes = rng.choice(["red", "green", "blue"], (30, 1)), rng.normal(size=(30, 1)).astype(F)
    truth = answers(colours, sizes)
    np.savez("data.npz", in_colour=colours, in_size=sizes, labels=truth, out_label=truth)
    done = cli("golden", "m.onnx", "--data", "data.npz", "--json")
    assert done.code == 0, done.err
    assert done.json["accuracy"]["integer_top1"] == 1.0
    assert sorted(done.json["accuracy"]["names"]) == sorted(set(truth.tolist()))
    with np.load("build/m/golden/outputs.npz", allow_pickle=False) as kept:
        assert np.array_equal(kept["out_label"].ravel(), truth)
        assert kept["classes_maps"].tolist() == NAMES
        assert kept["out_maps"].shape == (30, 3)
    lines = [f"{c},{s!r},{y}" for c, s, y in zip(colours[:, 0], sizes[:, 0].tolist(), truth, strict=True)]
    Path("rows.csv").write_text("colour,size,answer\n" + "\n".join(lines) + "\n")
    assert cli("data", "m.onnx", "rows.csv", "--labels", "answer", "--output", "made.npz").code == 0
    with np.load("made.npz", allow_pickle=False) as made:
        assert made["in_colour"].dtype.kind == "U"
        assert set(made["in_colour"].ravel()) == set(colours.ravel())
    assert cli("golden", "m.onnx", "--data", "made.npz").code == 0
    np.savez("bad.npz", in_colour=np.zeros((3, 1)), in_size=sizes[:3])
    assert cli.refuses("golden", "m.onnx", "--data", "bad.npz") == (
        "bad.npz: array 'in_colour' must hold texts, not float64; give an array of numpy's texts: x.astype(str)")


@pytest.mark.slow
def test_a_simulation_of_texts(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text_model(Path("m.onnx"))
    colours, sizes = np.array([["red"], ["blue"], ["green"], ["grey"]]), np.array([[0.5], [-1], [2], [np.nan]], F)
    np.savez("data.npz", in_colour=colours, in_size=sizes, labels=answers(colours, sizes))
    done = cli("sim", "m.onnx", "--data", "data.npz")
    assert done.code == 0, done.err
    assert "equal: 1 stage" in done.out
