"""docs/export-your-model.md: each export is run with the real exporter, and its model as far as a plan.

The exporters are large and no dependency of the project.  HWFLOW_EXPORTERS names Pythons that have them, separated like
folders of PATH; this Python is tried as well.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest

import hwflow
from tests.e2e.command import Cli
from tests.project.tree import ROOT

PAGE = (ROOT / "docs" / "export-your-model.md").read_text()
#: The packages that the blocks of a section import, besides numpy.
NEEDS = {"PyTorch": ("torch", "onnxscript"), "Keras": ("keras", "tensorflow", "tf2onnx"),
         "scikit-learn": ("sklearn", "skl2onnx"), "TensorFlow Lite": ("tensorflow", "tf2onnx")}
#: What the reader has: something that gives batches.
BATCHES = {
    "PyTorch": "from torch.utils.data import DataLoader, TensorDataset\n"
               "loader = DataLoader(TensorDataset(images, labels), 64)\n",
    "Keras": "import tensorflow as tf\ndataset = tf.data.Dataset.from_tensor_slices((images, labels)).batch(64)\n"}
#: The numbers that TensorFlow Lite itself computes, for input rows of int8.
INTERPRETER = """
import tensorflow as tf
interpreter = tf.lite.Interpreter(model_path="net.tflite")
interpreter.allocate_tensors()
i, o = interpreter.get_input_details()[0], interpreter.get_output_details()[0]
rows = np.clip(np.round(images / i["quantization"][0] + i["quantization"][1]), -128, 127).astype(np.int8)
found = []
for row in rows:
    interpreter.set_tensor(i["index"], row[None])
    interpreter.invoke()
    found.append(interpreter.get_tensor(o["index"]))
np.savez("interpreter.npz", rows=rows, found=found)
"""


def blocks(section: str) -> list[str]:
    text = re.split(r"^## ", PAGE.partition(f"\n## {section}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]
    return re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


@cache
def python_with(packages: tuple[str, ...]) -> str | None:
    """A Python that has the packages."""
    finds = f"import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, {packages!r})))"
    named = os.environ.get("HWFLOW_EXPORTERS", "")
    for python in (sys.executable, *filter(None, named.split(os.pathsep))):
        if subprocess.run([python, "-c", finds], capture_output=True).returncode == 0:
            return python
    return None


def export(section: str, folder: Path, *code: str) -> str:
    """Run code in `folder` with the exporter; the Python that did it."""
    python = python_with(NEEDS[section])
    if python is None:
        pytest.skip(f"needs {', '.join(NEEDS[section])}, here or in a Python that HWFLOW_EXPORTERS names")
    (folder / "models").symlink_to(ROOT / "models")
    (folder / "export.py").write_text("\n".join(code))
    done = subprocess.run([python, "export.py"], cwd=folder, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return python


def test_every_framework_has_its_code() -> None:
    for section in NEEDS:
        assert all(compile(block, section, "exec") for block in blocks(section))
        assert any("onnx" in block or "tflite" in block for block in blocks(section))


@pytest.mark.slow  # they train
@pytest.mark.parametrize("section, models", [
    ("PyTorch", {"from_torch": "from_torch"}), ("Keras", {"from_keras": "from_keras"}),
    ("scikit-learn", {"forest": "digits", "network": "digits"})])
def test_an_exported_model_becomes_hardware(section: str, models: dict[str, str], cli: Cli, tmp_path: Path) -> None:
    export(section, tmp_path, blocks(section)[0])
    for model, data in models.items():
        assert cli("check", f"{model}.onnx", "--hardware").code == 0
        measure = cli("golden", f"{model}.onnx", "--data", f"{data}.npz", "--json").json["accuracy"]["metrics"][0]
        assert measure["real"] > 0.85, "the rows are those of the training"
        assert measure["real"] - measure["integer"] < 0.03
        assert cli("build", f"{model}.onnx", "--data", f"{data}.npz").code == 0


@pytest.mark.slow
@pytest.mark.parametrize("section", BATCHES)
def test_batches_become_a_data_file(section: str, tmp_path: Path) -> None:
    export(section, tmp_path, blocks(section)[0], BATCHES[section], blocks(section)[1])
    (file,) = tmp_path.glob("from_*.npz")
    model = hwflow.load(file.with_suffix(".onnx"))
    data = hwflow.read_data(file, model)
    assert data.rows == 450
    assert hwflow.measure_accuracy(model, hwflow.quantize_model(model, data), data).metrics[0].integer > 0.85


@pytest.mark.slow
def test_integers_of_tensorflow_lite(cli: Cli, tmp_path: Path) -> None:
    """With constants of 32 bits the golden model gives what TensorFlow Lite's interpreter gives."""
    section = "TensorFlow Lite"
    python = export(section, tmp_path, blocks("Keras")[0], blocks(section)[0], INTERPRETER)
    convert = [python, "-m", "tf2onnx.convert", "--tflite", "net.tflite", "--output", "from_tflite.onnx"]
    assert " ".join(convert[1:]) in PAGE
    subprocess.run(convert, cwd=tmp_path, check=True, capture_output=True)
    assert cli("check", "from_tflite.onnx", "--hardware").code == 0
    model = hwflow.load("from_tflite.onnx")
    theirs = np.load("interpreter.npz")
    quantized = hwflow.quantize_model(model, theirs["rows"], rescale_bits=32)
    (ours,) = hwflow.run_golden(quantized, theirs["rows"]).values()
    assert ours.dtype == np.int8
    assert np.array_equal(ours, np.concatenate(theirs["found"]))
