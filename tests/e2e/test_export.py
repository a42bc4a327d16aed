"""`hwflow build --export`: what it refuses.  tests/export looks at what it writes."""

from __future__ import annotations

import shutil
from pathlib import Path

from tests.e2e.command import Cli


def test_options_that_cannot_be_together_or_are_unknown(cli: Cli) -> None:
    assert cli.refuses("build", "small.onnx", "--output", "x") == (
        "--output must be given together with --export; see `hwflow build --help`")
    assert "'vhdl' is not one of" in cli.refuses("build", "small.onnx", "--export", "vhdl")


def test_another_folder_is_refused_before_any_work(cli: Cli, place: Path) -> None:
    other = place / "theirs" / "verilog"
    other.mkdir(parents=True)
    (other / "x").write_text("")
    try:
        message = cli.refuses("build", "small.onnx", "--export", "verilog", "--output", "theirs", "--build", "unused")
    finally:
        shutil.rmtree(other.parent)
    assert message.startswith("theirs/verilog: the folder must be empty, or an earlier export")
    assert not (place / "unused" / "small").exists()
