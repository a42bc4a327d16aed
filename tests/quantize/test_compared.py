"""The comparison of quantizers: what tools are given, how outputs are judged, what is kept, what the page says."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

import numpy as np
import onnxruntime as ort
import pytest
import yaml
from onnx import TensorProto, helper, numpy_helper, save

from bench.quantizers import cells, section, tools
from bench.quantizers.cells import Found, Tool, measured
from bench.quantizers.subjects import float_models, prepared
from bench.sections import Bench

ROWS, FEATURES, CLASSES = 60, 12, 4


@pytest.fixture
def models(tmp_path: Path) -> Path:
    """A folder of models with one: a layer, scores, their Softmax written as many nodes, and the label."""
    rng = np.random.default_rng(3)
    weights = rng.normal(size=(FEATURES, CLASSES)).astype(np.float32)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["scores"]),
             helper.make_node("ReduceMax", ["scores"], ["top"], axes=[1], keepdims=1),
             helper.make_node("Sub", ["scores", "top"], ["below"]), helper.make_node("Exp", ["below"], ["powers"]),
             helper.make_node("ReduceSum", ["powers", "axes"], ["sum"], keepdims=1),
             helper.make_node("Div", ["powers", "sum"], ["shares"]),
             helper.make_node("ArgMax", ["shares"], ["label"], axis=1, keepdims=0)]
    ends = [helper.make_tensor_value_info("label", TensorProto.INT64, [1]),
            helper.make_tensor_value_info("shares", TensorProto.FLOAT, [1, CLASSES])]
    graph = helper.make_graph(
        nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, FEATURES])], ends,
        [numpy_helper.from_array(weights, "w"), numpy_helper.from_array(np.array([1]), "axes")])
    folder = tmp_path / "models"
    folder.mkdir()
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), folder / "net.onnx")
    x = rng.uniform(-1, 1, size=(ROWS, 1, FEATURES)).astype(np.float32)
    np.savez(folder / "net.npz", in_x=x, labels=(x[:, 0] @ weights).argmax(1))
    hashes = {key: hashlib.sha256((folder / f"net.{ending}").read_bytes()).hexdigest()
              for key, ending in (("sha256", "onnx"), ("data_sha256", "npz"))}
    entry = {"id": "net", "file": "net.onnx", "data": "net.npz", "ops": {"MatMul": 1}, **hashes}
    others = [{"id": "trees", "ops": {"ai.onnx.ml::TreeEnsembleClassifier": 1}}, {"id": "q", "ops": {"QLinearConv": 1}},
              {"id": "qdq", "ops": {"QuantizeLinear": 1}}]
    (folder / "manifest.yaml").write_text(yaml.safe_dump({"models": [entry, *others]}))
    return folder


def test_tools_get_scores_and_rows_that_are_no_test(models: Path, tmp_path: Path) -> None:
    assert list(float_models(models)) == ["net"]
    subject = prepared(models, "net", tmp_path)
    assert (subject.inputs, subject.outputs, subject.scores) == (("x",), ("scores",), ("scores",))
    arrays, original = np.load(subject.data), np.load(models / "net.npz")
    assert np.array_equal(np.concatenate([arrays["calib_x"], arrays["in_x"]]), original["in_x"])
    assert len(arrays["calib_x"]) == ROWS // 2
    assert np.array_equal(arrays["labels"], original["labels"][ROWS // 2 :])
    session = ort.InferenceSession(str(models / "net.onnx"))
    shares = np.stack([session.run(["shares"], {"x": row})[0] for row in arrays["in_x"]])
    powers = np.exp(np.load(subject.folder / "float.npz")["scores"].astype(np.float64))
    assert np.allclose(powers / powers.sum(-1, keepdims=True), shares, atol=1e-6)
    assert prepared(models, "net", tmp_path) == subject


WORKER = """
import sys, json, pathlib, numpy as np
folder = pathlib.Path(sys.argv[1])
job = json.loads((folder / "job.json").read_text())
rows, w = np.load(job["data"])["in_x"], np.load(job["options"]["w"])
for weights, activations in job["widths"]:
    if weights == 3:
        sys.exit("the worker fell")
    name = f"W{weights}A{activations}"
    np.savez(folder / f"{name}.npz", **{"0": rows @ w + weights / 100})
    said = {"seconds": 1.5, "peak": 7 << 20, "version": "1", "left": ["Gemm"], "said": "so"}
    (folder / f"{name}.json").write_text(json.dumps(said))
count = folder.parent / "count"
count.write_text(str(int(count.read_text()) + 1 if count.exists() else 1))
"""


@pytest.fixture
def tool(models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    """A tool that adds hundredths to every score, and has no 2 bits."""
    workers = tmp_path / "workers"
    workers.mkdir()
    (workers / "of_fake.py").write_text(WORKER)
    (workers / "common.py").write_text("")
    session = ort.InferenceSession(str(prepared(models, "net", tmp_path).model))
    weights = np.concatenate([session.run(["scores"], {"x": row[None]})[0] for row in np.eye(FEATURES, dtype="f")])
    np.save(tmp_path / "w.npy", weights)
    monkeypatch.setattr(cells, "WORKERS", workers)
    monkeypatch.setitem(cells.PACKAGES, "fake", ())
    return Tool("fake", "fake", Path(sys.executable), {"w": str(tmp_path / "w.npy")}, bits=(3, 4, 8))


def test_a_cell_is_judged_kept_and_not_measured_again(models: Path, tmp_path: Path, tool: Tool) -> None:
    subject = prepared(models, "net", tmp_path)
    found = measured(subject, tool, [(8, 8), (4, 8), (2, 8)], tmp_path)
    real = np.load(subject.folder / "float.npz")["scores"].astype(np.float64)
    power = np.sum(real**2) / real.size
    for bits in (8, 4):
        assert found[bits, 8].db == pytest.approx(10 * np.log10(power / (bits / 100) ** 2), abs=1e-3)
    assert found[8, 8].accuracy == found[8, 8].agreement == 1.0
    assert (found[8, 8].seconds, found[8, 8].peak, found[8, 8].said) == (1.5, 7 << 20, "so")
    assert found[8, 8].left == ("Gemm",)
    assert found[2, 8] == Found(why="has 3, 4, 8 bits alone")
    assert measured(subject, tool, [(4, 8), (8, 8)], tmp_path) == {w: found[w] for w in ((4, 8), (8, 8))}
    assert (tmp_path / "work" / "count").read_text() == "1", "the second time nothing runs"
    fallen = measured(subject, tool, [(8, 4), (3, 8), (4, 4)], tmp_path)
    assert fallen[8, 4].why == ""
    assert fallen[3, 8] == fallen[4, 4] == Found(why="the worker fell")


def test_hwflow_and_onnxruntime_quantize_the_same_layer(models: Path, tmp_path: Path) -> None:
    subject = prepared(models, "net", tmp_path)
    for each in (*tools.OWN, tools.ONNXRUNTIME[0]):
        found = measured(subject, each, [(8, 8)], tmp_path)[8, 8]
        assert (found.why, found.left) == ("", ())
        assert found.db is not None
        assert 15 < found.db < 60, "8 bits, and test rows beyond those of the calibration"


def page_of(rows: dict[str, dict[str, Found]]) -> str:
    return section.page({(8, 8): rows, (4, 8): rows}, ["hwflow", "other"], "")


def test_the_page_says_where_another_is_better_and_what_stays_in_float() -> None:
    good, poor = (Found(db=db, agreement=0.5, accuracy=0.25, seconds=2.0, peak=3 << 20) for db in (31.0, 28.0))
    page = page_of({"a": {"hwflow": poor, "other": good}, "b": {"hwflow": good, "other": poor},
                    "c": {"hwflow": good, "other": Found(why="it fell")},
                    "d": {"hwflow": poor, "other": Found(db=50.0, left=("GRU",))}})
    assert "| W8A8 | a | 28.0 | other 31.0 |" in page
    assert "| W8A8 | other | 2 | +0.0 | -3.0 | +3.0 | 1 | 1 |" in page, "d is not comparable, c has no number"
    assert "| a | 28.0 | **31.0** |" in page
    assert "| d | **28.0** | 50.0* |" in page
    assert "| c | 25.0 / 50.0 | – |" in page
    assert "| b | 2.0 / 3 | 2.0 / 3 |" in page
    assert "| other | it fell | c | all |" in page
    assert "| other | in float: GRU | d | all |" in page
    assert "Nowhere." in page_of({"b": {"hwflow": good, "other": poor}})


@pytest.mark.parametrize("value, said", [
    (None, "HWFLOW_QUANTIZERS must name the python of an environment with `pip install aimet-onnx brevitas`."),
    ("/no/python", "HWFLOW_QUANTIZERS must name a python that can be run, not /no/python."),
    (sys.executable, f"AIMET is not measured: `{sys.executable} -m pip install aimet-onnx`. Brevitas is not measured: "
                     f"`{sys.executable} -m pip install brevitas onnx2torch`.")])
def test_an_environment_that_is_not_there_is_named(value: str | None, said: str,
                                                   monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(tools.VARIABLE, raising=False)
    if value:
        monkeypatch.setenv(tools.VARIABLE, value)
    found = tools.elsewhere()
    assert found.tools == ()
    assert found.why.endswith(said)


def test_without_models_nothing_is_measured(tmp_path: Path) -> None:
    assert section.quantizers(Bench(None, tmp_path)) == section.NO_MODELS
