"""`hwflow report` as a user calls it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.command import Cli

DESIGN = ("small.onnx", "--data", "small.npz")


def test_the_page_of_a_design(cli: Cli, place: Path) -> None:
    done = cli("report", *DESIGN)
    page = place / "build/small/ulx3s_85f/report.html"
    assert (done.code, done.out) == (0, "report: build/small/ulx3s_85f/report.html\n")
    assert "<title>small on ulx3s_85f</title>" in page.read_text()


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
