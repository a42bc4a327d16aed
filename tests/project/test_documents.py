"""README and docs name only what exists, and no file names the machine it was written on."""

from __future__ import annotations

import re
import runpy
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hwflow_rtl.vendor import Generic

from hwflow import golden, onnx
from hwflow.quantize import quantize, save_quantized
from hwflow.stages.kinds import stage_of
from tests.e2e.networks import rows_for, small_network
from tests.project.tree import ROOT, project_files
from tests.rtl.harness import simulate

DOCUMENTS = [file for file in project_files() if file.suffix == ".md"]
TARGETS = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
#: A home folder, or this checkout's own.
MACHINE_PATH = re.compile(rf"/(?:home|root|Users)/\w|{re.escape(str(ROOT))}\b")

names = [str(file.relative_to(ROOT)) for file in DOCUMENTS]


def code(text: str) -> str:
    """The fenced blocks and code spans of a Markdown text."""
    pieces = re.findall(r"^```[a-z]*\n(.*?)^```|`([^`\n]+)`", text, re.MULTILINE | re.DOTALL)
    return "\n".join(block or span for block, span in pieces)


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_make_targets_exist(document):
    used = set(re.findall(r"^make ([a-z][a-z-]*)", code(document.read_text()), re.MULTILINE))
    assert used <= TARGETS


@pytest.mark.parametrize("document", DOCUMENTS, ids=names)
def test_links_lead_somewhere(document):
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#]+)", document.read_text())
    assert [link for link in links if not (document.parent / link).exists()] == []


@pytest.mark.slow  # tests/e2e/test_api.py runs the same calls
@pytest.mark.parametrize("document", ["README.md", "docs/tutorial.md"])
def test_python_example_runs(document, tmp_path, monkeypatch):
    """Each example simulates the shipped model; the file names in it are replaced where they stand for the user's."""
    block = re.search(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    example = block.group(1).replace("mymodel.onnx", "models/digits_cnn.onnx").replace("mydata", "models/digits_cnn")
    (tmp_path / "models").symlink_to(ROOT / "models")
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(example, document, "exec"), names)  # ends with its own assertion
    assert "plan" in names


def run_example(document: str, monkeypatch: pytest.MonkeyPatch, blocks: slice) -> dict[str, Any]:
    """The names that the Python blocks of a page define, run one after another as one module."""
    text = (ROOT / "docs" / document).read_text()
    example = types.ModuleType("example")
    monkeypatch.setitem(sys.modules, "example", example)
    for block in re.findall(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[blocks]:
        exec(compile(block, document, "exec"), example.__dict__)
    return example.__dict__


def test_the_example_of_a_layer_kind(tmp_path, monkeypatch):
    """Golden and plan as the page says; and its stage is as exact as the contract tests ask of every kind."""
    monkeypatch.chdir(tmp_path)
    names = run_example("add-a-layer.md", monkeypatch, slice(-1))
    graph, technology, frames = names["graph"], Generic(), names["frames"]
    layer = graph.layers[0]
    for folding in stage_of(graph, layer).foldings():
        beats = frames.reshape(-1, folding.lanes)
        unit = stage_of(graph, layer).unit(folding, technology)
        expected = layer.evaluate(graph, frames).reshape(-1, folding.lanes)
        assert np.array_equal(unit.model(beats), expected)
        stalled = simulate(unit, sends={"i": beats}, receives={"o": len(beats)}, stall_in=0.4, stall_out=0.4)
        assert np.array_equal(stalled["o"].beats, expected)
        full = simulate(stage_of(graph, layer).unit(folding, technology), sends={"i": beats},
                        receives={"o": len(beats)})
        said = stage_of(graph, layer).times(folding, technology, full["i"].cycles)
        assert np.array_equal(full["o"].offered, said.departures)


@pytest.mark.slow
def test_the_example_of_a_layer_kind_is_simulated(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "result" in run_example("add-a-layer.md", monkeypatch, slice(None))  # which ends with its own assertions


def test_the_example_of_embedding(tmp_path, monkeypatch):
    """Bytes for the ports and back give what the golden model gives."""
    model, rows = small_network(), rows_for(small_network(), 7)
    (name, values), = rows.items()
    quantized = quantize(onnx.simplify(model), rows)
    (tmp_path / "build" / "mymodel" / "quantized").mkdir(parents=True)
    save_quantized(quantized, tmp_path / "build" / "mymodel" / "quantized")
    np.savez(tmp_path / "mydata.npz", **{f"in_{name}": values})
    monkeypatch.chdir(tmp_path)
    block = re.search(r"^```python\n(.*?)^```", (ROOT / "docs" / "embedding.md").read_text(), re.MULTILINE | re.DOTALL)
    assert block is not None
    names: dict[str, Any] = {}
    example = block.group(1).replace('"x"', f'"{name}"').replace("in_x", f"in_{name}")
    exec(compile(example, "embedding.md", "exec"), names)
    assert [data.shape for data in names["sent"].values()] == [(7, 32)]
    expected = golden.predict(quantized, rows)
    assert names["scores"].keys() == expected.keys()
    assert all(np.array_equal(names["scores"][key], expected[key]) for key in expected)


def test_the_table_of_operators_is_that_of_the_code():
    tool = runpy.run_path(str(ROOT / "tools" / "operator_support.py"))
    assert (ROOT / "docs" / "operators.md").read_text(encoding="utf-8") == tool["text"](), (
        "docs/operators.md is stale; `make docs` writes it again")


def test_readme_gives_the_command_that_ci_runs():
    assert "make test\n" in (ROOT / "README.md").read_text()
    assert re.search(r"\bmake test\b", (ROOT / ".ci" / "run").read_text())


def text_of(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        return file.read_bytes().decode("latin-1")


def test_no_file_names_a_folder_of_this_machine():
    found = {str(f.relative_to(ROOT)): m.group() for f in project_files() if (m := MACHINE_PATH.search(text_of(f)))}
    assert found == {}


def test_the_architecture_is_read_in_one_go():
    """What has more words is a decision or belongs to the page of its subject."""
    assert len((ROOT / "docs" / "architecture.md").read_text(encoding="utf-8").split()) <= 4000
