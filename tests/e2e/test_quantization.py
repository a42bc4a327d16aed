"""`hwflow quantize` and `hwflow golden` where all is well: what they print and write, and settings that come back."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import yaml

import hwflow
from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.quantize import load_quantized
from tests.e2e.command import Cli
from tests.e2e.conftest import prepare

SMALL = ("small.onnx", "--data", "small.npz")
QUANTIZED = Path("build/small/quantized")


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """The command line in a folder with the small model and its data, in which nothing ran before."""
    prepare(tmp_path)
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)


def test_golden_for_people(cli: Cli) -> None:
    done = cli("golden", *SMALL)
    assert done.code == 0
    assert "classification on 12 rows" in done.out
    assert re.search(r"top-1 +\d+\.\d\d % +\d+\.\d\d % +[+-]\d+\.\d\d points", done.out)
    assert "both models give the same class to " in done.out
    assert re.search(r"label +0 +1 +2", done.out), "the confusion table"
    assert "output 'fc_out' against the float model: " in done.out
    assert done.out.endswith("outputs written to build/small/golden/outputs.npz\n")


def test_golden_as_json(cli: Cli) -> None:
    facts = cli("golden", *SMALL, "--layer-rows", "5", "--json").json
    accuracy = facts["accuracy"]
    assert (accuracy["rows"], accuracy["task"], accuracy["output"], accuracy["classes"]) == (
        12, "classification", "fc_out", 3)
    top1, = accuracy["metrics"]
    assert top1 == {"name": "top-1", "output": "fc_out", "real": accuracy["float_top1"],
                    "integer": accuracy["integer_top1"], "share": True, "chance": 0.0}
    assert sum(pair["integer"] for pair in accuracy["confusion"]) == 12
    right = sum(pair["integer"] for pair in accuracy["confusion"] if pair["label"] == pair["found"])
    assert right / 12 == top1["integer"]
    assert facts["layer_rows"] == 5
    assert [layer["layer"] for layer in facts["layers"]] == ["", "conv", "pool", "fc"]


def test_layers_for_people_and_as_json(cli: Cli) -> None:
    short = [re.split(r"\s{2,}", line.strip()) for line in cli("golden", *SMALL).out.splitlines()]
    assert [line[:2] for line in short if "int8" in line] == [
        ["input x", "int8"], ["conv", "conv"], ["pool", "max pool"], ["fc", "dense"]]
    lines = [re.split(r"\s{2,}", line.strip()) for line in cli("golden", *SMALL, "--verbose").out.splitlines()]
    rows = [line[1:3] for line in lines if line and line[0] in tuple("0123") and "int8" in line]
    assert rows == [["input x", "int8"], ["conv", "conv"], ["pool", "max pool"], ["fc", "dense"]]
    layers = cli("golden", *SMALL, "--json").json["layers"]
    assert all(10 < layer["snr_db"] < 80 for layer in layers), layers
    assert all(0 <= layer["saturated"] < 0.1 for layer in layers)
    none = cli("golden", *SMALL, "--layer-rows", "0")
    assert "layer by layer" not in none.out + none.err


def test_outcomes_that_nobody_wants_are_warnings(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert cli("golden", *SMALL, "--json").json["warnings"] == []
    arrays = dict(np.load("small.npz"))
    np.savez("far.npz", **{**arrays, "in_x": arrays["in_x"] * 300})
    for command in ("golden", "quantize", "build"):
        done = cli(command, "small.onnx", "--data", "far.npz", "--json")
        assert done.code == 0
        first = done.json["warnings"][0]
        assert (first["code"], first["where"]) == ("range-exceeded", "input 'x'")
        lines = done.err.splitlines()
        text = " ".join(line.strip() for line in lines[lines.index(next(x for x in lines if "warning:" in x)):])
        assert text.startswith(
            f"warning: {first['where']} {first['seen']}; {first['remedy']} [range-exceeded]"), "once, on standard error"
        assert text.count("[range-exceeded]") == 1
        assert max(len(line) for line in lines) <= 80
    np.savez("flat.npz", **{**arrays, "calib_x": np.zeros_like(arrays["calib_x"])})
    for command in ("quantize", "build"):  # which reads it from the first one's folder
        warnings = cli(command, "small.onnx", "--data", "flat.npz", "--json").json["warnings"]
        assert warnings[0]["code"] == "equal-calibration"


def test_without_data_the_accuracy_is_not_measured(cli: Cli) -> None:
    done = cli("quantize", "small.onnx")
    assert "  accuracy: not measured; give rows and their labels with --data (docs/data-files.md)\n" in done.out
    assert "golden must have inputs to run on; give an NPZ file with --data" in cli.refuses("golden", "small.onnx")


@pytest.mark.parametrize(("outputs", "arrays", "words"), [
    (1, {"labels": np.arange(12) % 2}, ["binary score on 12 rows", "AUC"]),
    (1, {"labels": np.linspace(0, 1, 12)}, ["values on 12 rows", "R2", "MSE", "largest error"]),
    (4, {"labels": np.arange(12) % 2}, ["reconstruction on 12 rows", "AUC", "reconstruction error, label 1"]),
    (3, {"out_y": np.ones((12, 1, 3))}, ["values on 12 rows", "not defined", "MSE"]),
    (3, {}, ["no labels and no expected outputs"]),
], ids=["score", "regression", "reconstruction", "expected", "nothing"])
def test_what_the_data_asks_for(cli: Cli, outputs: int, arrays: dict[str, np.ndarray], words: list[str]) -> None:
    b = Builder("other")
    weights = b.constant("w", np.random.default_rng(0).standard_normal((outputs, 4)).astype(np.float32))
    b.output(b.node("Gemm", b.input("x", np.float32, (1, 4)), weights, name="fc", transB=1, output="y"))
    onnx.save(onnx.infer(b.model()), "other.onnx")
    rows = np.random.default_rng(1).standard_normal((12, 1, 4)).astype(np.float32)
    np.savez("other.npz", allow_pickle=False, in_x=rows, **arrays)
    done = cli("golden", "other.onnx", "--data", "other.npz")
    assert done.code == 0, done
    for word in words:
        assert word in done.out
    assert cli("golden", "other.onnx", "--data", "other.npz", "--json").json["accuracy"]["snr_db"] > 20


def test_a_second_run_computes_nothing_again(cli: Cli) -> None:
    first = cli("golden", *SMALL)
    again = cli("golden", *SMALL)
    assert again.out == first.out
    for step in ("calibrate", "float model", "golden model", "layer by layer"):
        assert step in first.err
        assert step not in again.err
    other = cli("golden", *SMALL, "--bits", "4")
    assert "calibrate" in other.err
    assert "float model" not in other.err, "widths change nothing of the float model"


def test_the_file_that_reproduces_a_run(cli: Cli) -> None:
    done = cli("quantize", *SMALL, "--bits", "5")
    assert "every choice of this run: build/small/quantize.yaml; edit a copy of it" in done.out
    written = Path("build/small/quantize.yaml").read_bytes()
    graph = load_quantized(QUANTIZED).graph
    settings = Path("mine.yaml")
    settings.write_bytes(written)
    facts = cli("quantize", *SMALL, "--settings", settings, "--build", "again", "--json").json
    assert load_quantized(Path("again/small/quantized")).graph == graph
    assert Path(facts["settings"]).read_bytes() == written


def test_settings_change_the_layer_that_they_name(cli: Cli) -> None:
    quick = (*SMALL, "--effort", "quick")  # or other choices go with other widths
    assert cli("quantize", *quick).code == 0
    before = load_quantized(QUANTIZED).graph
    Path("s.yaml").write_text("layers: {fc: {weights: {bits: 2}}}")
    for command in ("quantize", "golden", "build"):
        done = cli(command, *quick, "--settings", "s.yaml")
        assert done.code == 0, done
        after = load_quantized(QUANTIZED).graph
        assert after.layers[:2] == before.layers[:2]
        assert set(np.unique(after.layers[2].weights)) == {-1, 0, 1}
        assert cli(command, *quick).code == 0
        assert load_quantized(QUANTIZED).graph == before, "without the file everything is as it was"


def test_settings_in_their_own_place_stay_as_they_are(cli: Cli) -> None:
    assert cli("quantize", *SMALL).code == 0
    path = Path("build/small/quantize.yaml")
    document = yaml.safe_load(path.read_text())
    document["layers"]["fc"]["weights"]["bits"] = 3
    path.write_text(yaml.safe_dump(document))
    text = path.read_text()
    assert cli("quantize", *SMALL, "--settings", path).code == 0
    assert path.read_text() == text


@pytest.mark.parametrize("words", [(), ("--bits", "4")], ids=["8 bits", "4 bits"])
def test_export(cli: Cli, words: tuple[str, ...]) -> None:
    """Another runtime takes the file, and hwflow makes the same integers of it."""
    Path("new").mkdir(exist_ok=True)
    done = cli("quantize", *SMALL, *words, "--export", "new/q.onnx")
    assert done.code == 0
    assert done.out.splitlines()[-1].startswith("exported to new/q.onnx: standard ONNX with QuantizeLinear")
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession("new/q.onnx", options, providers=["CPUExecutionProvider"])
    rows = np.load("small.npz")["in_x"]
    expected = np.concatenate([session.run(None, {"x": row})[0] for row in rows])
    assert cli("golden", "new/q.onnx", "--data", "small.npz").code == 0
    found = np.load("build/q/golden/outputs.npz")["out_fc_out"]
    graph = load_quantized(Path("build/q/quantized")).graph
    assert graph == load_quantized(QUANTIZED).graph
    steps = (found - expected) / graph.tensors[graph.outputs[0]].scale
    assert np.abs(steps).max() < 1.5
    assert np.mean(np.abs(steps) < 0.5) > 0.9


def test_widths_of_a_quantized_model_are_those_of_its_file(cli: Cli) -> None:
    assert cli("quantize", *SMALL, "--export", "q.onnx").code == 0
    facts = cli("quantize", "q.onnx", "--data", "small.npz", "--json").json
    assert facts["settings"] is None
    message = cli.refuses("quantize", "q.onnx", "--bits", "4")
    assert message.startswith(
        "q.onnx: settings of a model that is quantized already must be output stages and bits of rescaling alone, not "
        "default/")


def test_bits_of_rescaling(cli: Cli) -> None:
    """They are kept in the settings file that reproduces a run, and replace those of a given file."""
    for bits in ("17", "33", "2x", "-20"):
        message = cli.refuses("quantize", *SMALL, "--rescale-bits", bits)
        assert f"'{bits}' must be auto, or a whole number from 18 to 32" in message

    def widest() -> int:
        found = (getattr(layer, "requantize", None) for layer in load_quantized(QUANTIZED).graph.layers)
        return max(int(each.multiplier.max()).bit_length() for each in found if each is not None)

    assert cli("quantize", *SMALL, "--rescale-bits", "27").code == 0
    assert widest() == 27
    kept = Path("build/small/quantize.yaml").read_text()
    assert yaml.safe_load(kept)["default"]["rescale_bits"] == 27
    Path("kept.yaml").write_text(kept)
    for more, expected in ((("--rescale-bits", "18"), 18), ((), 27), (("--rescale-bits", "auto"), "auto")):
        assert cli("quantize", *SMALL, "--settings", "kept.yaml", *more).code == 0
        settings = yaml.safe_load(Path("build/small/quantize.yaml").read_text())
        assert {layer["rescale_bits"] for layer in settings["layers"].values()} == {expected}
        assert widest() == expected or expected == "auto"


def test_the_same_from_a_script(cli: Cli) -> None:
    assert cli("golden", *SMALL, "--bits", "4").code == 0
    model = hwflow.load("small.onnx")
    data = hwflow.read_data("small.npz", model)
    quantized = hwflow.quantize_model(model, data, bits=4)
    assert quantized.graph == load_quantized(QUANTIZED).graph
    facts = cli("golden", *SMALL, "--bits", "4", "--json").json
    assert json.loads(json.dumps(hwflow.measure_accuracy(model, quantized, data).facts())) == facts["accuracy"]
    assert len(hwflow.measure_layers(quantized, data)) == len(facts["layers"])
    Path("s.yaml").write_text(quantized.settings)
    assert hwflow.quantize_model(model, data, settings="s.yaml").graph == quantized.graph
    exported = onnx.load(hwflow.export_model(quantized, "q.onnx"))
    assert exported.graph.nodes == quantized.qdq.graph.nodes
    read = {name for node in exported.graph.nodes for name in node.inputs}
    assert set(exported.graph.initializers) <= read, "no float weights go along"
    assert hwflow.quantize_model(exported).graph == quantized.graph
    for bits, said in ((0, "weights must be from 1 to 8, not 0"), (9, "weights must be from 1 to 8, not 9"),
                       ((4, 0), "activations must be from 1 to 16, not 0"),
                       ((8, 17), "activations must be from 1 to 16, not 17")):
        with pytest.raises(hwflow.HwflowError, match=f"bits of {said}"):
            hwflow.quantize_model(model, data, bits=bits)
    with pytest.raises(hwflow.HwflowError, match="must not be given together"):
        hwflow.quantize_model(model, data, bits=4, settings="s.yaml")
