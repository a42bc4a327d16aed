"""The pages on how to extend hwflow: their examples run, and their lists of files are those of the code."""

from __future__ import annotations

import re

import pytest

from tests.project.test_documents import run_example
from tests.project.tree import ROOT, project_files

PRODUCT = ("hwflow/", "rtl/", "sim/", "base/")


@pytest.mark.parametrize("page", ["add-an-operator.md", "add-an-option.md"])
def test_the_example_runs(page, monkeypatch):
    run_example(page, monkeypatch, slice(None))  # the page ends with its own assertions


#: The page, the part of it that lists files, and what in a file's text shows that it knows the example.
@pytest.mark.parametrize(("page", "section", "mark"), [
    ("add-an-operator.md", "## An example: the files of one", r"QuickGelu"),
    ("add-a-transport.md", "## The files of one", r"\b[Ss][Pp][Ii]\b"),
])
def test_the_files_of_an_example_are_those_that_know_it(page, section, mark):
    text = (ROOT / "docs" / page).read_text().split(section)[1].split("\n## ")[0]
    listed = {path for path in re.findall(r"`([^`\s]+)`", text) if path.startswith(PRODUCT)}
    fitted = "rtl/hwflow_rtl/vendor/fitted.json"  # written by a program, as the page says
    knowing = {str(file.relative_to(ROOT)) for file in project_files()
               if str(file.relative_to(ROOT)).startswith(PRODUCT) and file.suffix in (".py", ".json", ".h", ".cpp")
               and re.search(mark, file.read_text(encoding="utf-8"))}
    assert listed - {fitted} == knowing - {fitted}
