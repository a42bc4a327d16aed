"""What onnx.checker.check_model(full_check=True) refuses, `check` refuses too; the exceptions are listed."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from hwflow_base.errors import HwflowError

from hwflow.onnx import Severity, check
from hwflow.onnx.container.files import read
from tests.onnx.rules.official_cases import CASES
from tests.onnx.rules.protos import findings

#: Real files do it, and what they mean is clear: warnings, errors in strict mode.  M-nodealias is one in both.
WARNED = {"G-inshape", "G-noname", "G-outshape", "I-ir3", "M-ir1", "M-nodealias", "N-dimneg", "SG-noname"}

#: Valid, and refused by the official checker nevertheless: an implied operator set, an empty list, a sparse weight.
ACCEPTED = {"A-emptylist", "M-ir2no", "SP-ok"}

#: Of the hostile files those that it refuses too.
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


def refused(proto: onnx.ModelProto) -> bool:
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception:
        return True
    return False


@pytest.mark.rule("GR-12", "GR-16", "GR-21", "ND-05", "SH-08", "LM-02")
@pytest.mark.parametrize("name", CASES)
def test_what_is_refused(name: str) -> None:
    proto = CASES[name]()
    assert refused(proto), "a case is one that the official checker refuses"
    found = {finding.severity for finding in findings(proto)}
    expected = None if name in ACCEPTED else Severity.WARNING if name in WARNED else Severity.ERROR
    assert (expected in found) if expected else not found - {Severity.WARNING}
    assert expected is Severity.ERROR or Severity.ERROR not in found


@pytest.mark.parametrize("name", FILES)
def test_files_that_are_refused(name: str, hostile_dir: Path) -> None:
    path = hostile_dir / f"{name}.onnx"
    try:
        found = check(read(path))
    except HwflowError:
        return
    assert any(finding.severity is Severity.ERROR for finding in found)
