"""The documentation site: every page is in the navigation, every link and anchor is there, nothing is stale."""

from __future__ import annotations

import importlib
import re
import runpy
import subprocess
import sys
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from hwflow.cli.commands import cli
from tests.project.shell import BLOCK, commands_of, documents
from tests.project.tree import ROOT

BUILD: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "site_build.py"))
PAGES: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "site_pages.py"))


def anchors(text: str) -> set[str]:
    """The anchors that code hosts make of headings: lower case, no punctuation, a hyphen for each space."""
    headings = re.findall(r"^#+ +(.*)$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    words = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower().strip() for heading in headings)
    return {re.sub(r"[^\w\- ]", "", word).replace(" ", "-") for word in words}


def test_anchors_of_links_are_headings() -> None:
    """The generated parts of pages have anchors as well; the whole site is checked by the slow test below."""
    dead = []
    for place, text in documents().items():
        for link in re.findall(r"\]\((?!https?:)([^)\s]*#[^)\s]+)\)", text):
            file, _, anchor = link.partition("#")
            target = (ROOT / place).parent / file if file else ROOT / place
            if anchor not in anchors(target.read_text(encoding="utf-8")):
                dead.append(f"{place}: {link}")
    assert dead == []


def test_the_navigation_has_every_page(tmp_path: Path) -> None:
    docs = ROOT / "docs"
    (tmp_path / "decisions").mkdir()
    for name in {str(page.relative_to(docs)) for page in docs.rglob("*.md")} | set(BUILD["BESIDE"].values()):
        (tmp_path / name).touch()
    assert list(BUILD["missing_pages"](tmp_path)) == []
    (tmp_path / "index.md").unlink()
    (tmp_path / "more.md").touch()
    assert list(BUILD["missing_pages"](tmp_path)) == [
        "zensical.toml: the navigation must name a page, not 'index.md'",
        "zensical.toml: the navigation must have the page 'more.md'"]


def test_a_report_of_ones_own_model_takes_six_commands_from_the_clone_on() -> None:
    words = list(commands_of(BLOCK.findall(documents()["docs/getting-started.md"])[0]))
    assert len(words) <= 6
    assert (words[0][:2], words[-1][:2]) == (["git", "clone"], ["make", "report"])


def test_marks_name_parts_that_are_made() -> None:
    marks = [mark for text in documents().values() for mark in BUILD["MARK"].findall(text)]
    assert sorted(marks) == sorted(PAGES["PARTS"])


def test_every_command_and_option_is_in_the_reference() -> None:
    text = PAGES["command_line"]()
    names = [f"## hwflow {name}\n" for name in cli.by_name]
    options = [max(option.opts, key=len) for command in cli.by_name.values() for option in command.params
               if option.param_type_name == "option" and not getattr(option, "hidden", False)]
    assert [name for name in [*names, *options] if name not in text.replace("&#95;", "_")] == []


def test_links_of_pages_beside_docs_lead_into_the_site() -> None:
    text = "[a](docs/memory.md#filling) [b](models/README.md) [c](README.md) [d](https://example.com/x.md)"
    assert BUILD["moved_links"]("[`a.json`](../hwflow/a.json) [b](memory.md)", "docs") == "`a.json` [b](memory.md)"
    assert BUILD["moved_links"](text, "") == "[a](memory.md#filling) [b](models.md) [c](index.md) [d](https://example.com/x.md)"


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<p id="x"><a href="b.html#y">1</a><a href="c.html">2</a><a href="#x">3</a>'
                                     '<script src="https://example.com/s.js"></script>')
    (tmp_path / "b.html").write_text('<a href="a.html#x">back</a><a href="https://example.com">elsewhere</a>')
    found = {page: BUILD["Anchors"](page) for page in sorted(tmp_path.iterdir())}
    assert list(BUILD["dead_links"](tmp_path, found)) == [
        "a.html: the link 'b.html#y' must lead to an anchor of that page",
        "a.html: the link 'c.html' must lead to a file of the site",
        "a.html: the link 'https://example.com/s.js' must be a file of the site: pages load nothing from elsewhere"]


@pytest.mark.slow
def test_the_site_is_built_without_a_warning() -> None:
    done = subprocess.run([sys.executable, str(ROOT / "tools" / "site_build.py")], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    site = ROOT / "build" / "site"
    interface = unescape((site / "python-api.html").read_text(encoding="utf-8"))
    for name in PAGES["MODULES"]:
        module = importlib.import_module(name)
        missing = [each for each in module.__all__ if PAGES["is_code"](module, each)
                   and f'id="{PAGES["path_of"](module, each)}"' not in interface]
        assert missing == []
    assert '<svg class="flow"' in (site / "index.html").read_text(encoding="utf-8")
