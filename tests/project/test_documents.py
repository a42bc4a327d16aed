"""README and docs name only what exists, and no file names the machine it was written on."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest

from tests.project.tree import ROOT, project_files

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
