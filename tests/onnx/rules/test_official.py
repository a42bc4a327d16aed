"""Hostile files that onnx.checker.check_model(full_check=True) refuses, `check` refuses too."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Severity, check
from hwflow.onnx.container.files import read

#: Of the hostile files those that it refuses.
FILES = (
    "x01_dotdot",
    "x02_dotdot_inner",
    "x03_absolute",
    "x04_symlink",
    "x05_symlink_dir",
    "x06_hardlink",
    "x17_fifo",
    "t02_dims_overflow",
    "d02_subgraph_1500",
    "p01_empty",
    "p02_truncated",
    "p03_random",
    "p05_wiretype_graph",
)


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name: str, hostile_dir: Path) -> None:
    path = hostile_dir / f"{name}.onnx"
    try:
        found = check(read(path))
    except HwflowError:
        return
    assert any(finding.severity is Severity.ERROR for finding in found)
