"""`hwflow report` as a user calls it."""

from __future__ import annotations

import html
import os
from pathlib import Path

import pytest

import hwflow
import hwflow.synth
from tests.e2e.command import Cli

DESIGN = ("small.onnx", "--data", "small.npz")


def test_the_page_of_a_design(cli: Cli, place: Path) -> None:
    done = cli("report", *DESIGN)
    page = place / "build/small/ulx3s_85f/report.html"
    assert (done.code, done.out) == (0, "report: build/small/ulx3s_85f/report.html\n")
    assert "<title>small on ulx3s_85f</title>" in page.read_text()


def test_the_page_from_python(cli: Cli, place: Path) -> None:
    """The same page, for a notebook in a frame of its own; errors are those of the command."""
    written = cli("report", *DESIGN).out.removeprefix("report: ").strip()
    text = Path(written).read_text()
    page = hwflow.report("small.onnx", "small.npz", output="python.html")
    assert (os.fspath(page), Path(page).read_text()) == ("python.html", text)
    assert hwflow.report(place / "small.onnx", data="small.npz", board=hwflow.synth.load_board("icebreaker")).path == (
        Path("build/small/icebreaker/report.html"))
    frame = page._repr_html_()
    assert (frame.count("<"), frame.count("</iframe>")) == (2, 1)
    assert html.unescape(frame[frame.index('"') + 1:frame.rindex('" style')]) == text
    with pytest.raises(hwflow.HwflowError, match=r"^small\.onnx: must not be the model itself; choose another name"):
        hwflow.report("small.onnx", output="small.onnx")
    with pytest.raises(hwflow.HwflowError, match=r"^data must be a path, as text or as a pathlib\.Path, not an int 3$"):
        hwflow.report("small.onnx", 3)  # type: ignore[arg-type]


def test_where_the_page_goes(cli: Cli, place: Path) -> None:
    assert cli("report", *DESIGN, "--output", "page.html", "--json").json["report"] == "page.html"
    assert (place / "page.html").read_text().endswith("</html>\n")
    assert cli.refuses("report", *DESIGN, "--output", "nowhere/page.html") == (
        "nowhere/page.html: the folder 'nowhere' must exist and be writable; make it, or choose another place with "
        "--output")
    assert cli.refuses("report", *DESIGN, "--output", "small.onnx") == (
        "small.onnx: must not be the model itself; choose another name with --output")
    assert cli.refuses("report", *DESIGN, "--output", "build") == (
        "build: must be the name of a file to write, not a folder; add the file's name")
