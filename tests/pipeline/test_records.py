"""Records of what commands found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hwflow import HwflowError
from hwflow.pipeline.records import keep, kept


def test_a_record_is_read_back(tmp_path: Path) -> None:
    assert kept(tmp_path, "simulation") is None
    keep(tmp_path, "simulation", "1234", {"equal": True}, {"Verilator": "5.38"})
    record = kept(tmp_path, "simulation")
    assert record is not None
    assert (record.key, record.facts, record.tools["Verilator"]) == ("1234", {"equal": True}, "5.38")
    assert record.made.endswith("+00:00")
    keep(tmp_path, "simulation", "5678", {})
    assert kept(tmp_path, "simulation").key == "5678"
    assert [path.name for path in (tmp_path / "records").iterdir()] == ["simulation.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"kind": "simulation", "key": "1", "facts": 3}',
                                  json.dumps({"kind": "other", "key": "1", "facts": {}}), "\x00\xff"])
def test_a_damaged_record_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / "simulation.json").write_text(text)
    with pytest.raises(HwflowError, match=r"must be a record of hwflow, and is damaged; delete it"):
        kept(tmp_path, "simulation")
