"""Every Python example of the documents and of the docstrings runs, in a folder with the shipped models.

Examples that another test runs, or that cannot run here, stand in ELSEWHERE with the reason.
"""

from __future__ import annotations

import ast
import re
import shutil
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import hwflow
import hwflow.backend
import hwflow.host
from hwflow.quantize import Quantized
from tests.host.models import Terminal, board_with, leave_design
from tests.project.tree import PACKAGES, ROOT, project_files, python_files

MODEL, DATA = ROOT / "models" / "digits_cnn.onnx", ROOT / "models" / "digits_cnn.npz"

#: Documents and modules, each with the number of its example from 0 on.
ELSEWHERE = {
    ("README.md", 0): "test_documents.py simulates it",
    ("docs/tutorial.md", 0): "test_documents.py simulates it",
    ("hwflow/__init__.py", 0): "tests/e2e/test_api.py simulates it",
    ("docs/add-a-layer.md", 0): "test_documents.py runs the five as one module",
    ("docs/add-a-layer.md", 1): "test_documents.py runs the five as one module",
    ("docs/add-a-layer.md", 2): "test_documents.py runs the five as one module",
    ("docs/add-a-layer.md", 3): "test_documents.py runs the five as one module",
    ("docs/add-a-layer.md", 4): "test_documents.py runs the five as one module",
    **{(f"docs/add-an-{what}.md", k): "test_extending.py runs the two as one module"
       for what in ("operator", "option") for k in range(2)},
    ("docs/language-model.md", 0): "torch is no dependency; tests/quantize/test_caches.py makes such models",
    ("docs/language-model.md", 1): "needs a board: tests/host/test_text.py has the golden model in its place",
    **{("docs/wake-word.md", k): "pymicro-features is no dependency; tests/e2e/test_wake_words.py runs both"
       for k in range(2)},
    ("docs/streaming.md", 0): "torch is no dependency; tests/e2e/test_streaming.py makes such a model",
    ("docs/streaming.md", 1): "tests/e2e/test_streaming.py runs it; the shipped models have no state",
    ("docs/serve.md", 0): "tests/serve/serving.py has such a pool",
    ("docs/embedding.md", 0): "test_documents.py runs it and compares its bytes",
    **{("docs/export-your-model.md", k): "the exporters are no dependencies; test_export_guide.py" for k in range(6)},
    ("docs/onnx.md", 1): "tests/onnx/test_conformance.py runs ONNX's whole suite, which takes minutes",
    ("hwflow/onnx/run/trainer.py", 0): "the shipped models have no training information; tests/onnx/test_training.py",
}


def in_documents() -> Iterator[tuple[str, int, str]]:
    for file in project_files():
        if file.suffix == ".md":
            blocks = re.findall(r"^```python\n(.*?)^```", file.read_text(), re.MULTILINE | re.DOTALL)
            yield from ((str(file.relative_to(ROOT)), k, block) for k, block in enumerate(blocks))


def in_docstrings() -> Iterator[tuple[str, int, str]]:
    """The indented blocks of docstrings that are Python and do something."""
    for file in python_files(*(PACKAGES[name] for name in ("hwflow", "hwflow_rtl", "hwflow_sim"))):
        found = []
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
                blocks = re.findall(r"(?:^(?:    .*)?\n)+", (ast.get_docstring(node) or "") + "\n", re.MULTILINE)
                found += [block for block in map(textwrap.dedent, blocks) if is_code(block)]
        yield from ((str(file.relative_to(ROOT)), k, block) for k, block in enumerate(found))


def is_code(text: str) -> bool:
    if not re.search(r"[(=]|import", text):  # as prose is, mostly; to parse it takes long
        return False
    try:
        tree = ast.parse(text.strip())
    except SyntaxError:
        return False
    return any(isinstance(node, ast.Assign | ast.Import | ast.ImportFrom | ast.Call) for node in ast.walk(tree))


EXAMPLES = {(place, number): text for place, number, text in (*in_documents(), *in_docstrings())}
HERE = [key for key in EXAMPLES if key not in ELSEWHERE]
#: Half a minute to compile a whole board; tests/e2e/test_simulated_design.py has a small one.
LONG = [("docs/running-on-a-board.md", 0), ("docs/explore.md", 0)]


def test_the_list_is_of_examples_that_are_there() -> None:
    assert set(ELSEWHERE) <= set(EXAMPLES)
    assert {("hwflow/onnx/__init__.py", 0), ("docs/running-on-a-board.md", 0), ("README.md", 1)} <= set(HERE)


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    model = hwflow.load(MODEL)
    return hwflow.quantize_model(model, hwflow.read_data(DATA, model))


@pytest.mark.parametrize("place, number", [
    pytest.param(*key, marks=[pytest.mark.slow] if key in LONG else []) for key in HERE], ids=str)
def test_example(place: str, number: int, quantized: Quantized, tmp_path: Path,
                 monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files, ports and tensors that stand for the reader's own are replaced by those of the shipped model."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").symlink_to(ROOT / "models")
    for name in ("model", "mymodel"):
        (tmp_path / f"{name}.onnx").symlink_to(MODEL)
    shutil.copy(DATA, tmp_path / "mydata.npz")  # an example writes a file of this name
    images = np.load(DATA)["in_image"]
    names: dict[str, Any] = {
        "hwflow": hwflow, "images": images, "x": images[0], "model": hwflow.load(MODEL),
        "camera": lambda: [images], "labels": np.load(DATA)["labels"],
        "loader": [(images[k:k + 50, 0], np.load(DATA)["labels"][k:k + 50]) for k in range(0, 450, 50)],
        "test_pictures": np.zeros((3, 32, 32, 3), np.uint8), "test_classes": np.arange(3),
        "test_images": images[:, 0], "train_images": images[:, 0], "test_labels": np.load(DATA)["labels"]}
    text = EXAMPLES[place, number].replace('{"x": (1, 3, 32, 32)}', '{"image": (1, 1, 8, 8)}')
    text = text.replace('{"x": x}', '{"image": x}').replace('{"input": x}', '{"image": x}')
    text = text.replace('["scores"]', '["logits"]').replace("conv3_out", "pool1")
    if "/dev/ttyUSB0" in text:
        folder = leave_design(quantized, tmp_path / "build")
        with Terminal(board_with(quantized, folder)) as terminal:
            exec(compile(text.replace("/dev/ttyUSB0", terminal.port), place, "exec"), names)
        found = names.get("scores", names.get("outputs", {}).get("logits"))
        assert np.array_equal(found, hwflow.run_golden(quantized, images)["logits"])
    elif "frames.bin" in text:
        folder = leave_design(quantized, tmp_path / "build", board="icebreaker")
        exec(compile(text.replace("build/model/icebreaker/synth", str(folder)).replace("data.npz", str(DATA)), place,
                     "exec"), names)
        assert len((tmp_path / "frames.bin").read_bytes()) == 10 * names["design"].facts.bytes_in
    elif "onnxruntime" in text:
        import onnxruntime

        exec(compile(text, place, "exec"), {**names, "onnxruntime": onnxruntime})
    else:
        exec(compile(text, place, "exec"), names)
