"""State on disk: what is written is read, what is damaged or of another version is refused with a message."""

from __future__ import annotations

from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.files.state import StateFile, StateLines

FIRST = StateFile("a list of names", "delete it")
THIRD = StateFile("a list of names", "delete it", version=3, oldest=2)


def test_facts_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "new" / "names.json"
    for form in (FIRST, THIRD):
        form.write(path, {"names": ["a"], "more": None})
        assert form.read(path) == {"names": ["a"], "more": None}
    assert [file.name for file in path.parent.iterdir()] == ["names.json"]


@pytest.mark.parametrize(("version", "age"), [(0, "an older"), (1, "an older"), (4, "a newer")])
def test_other_versions_are_refused(tmp_path: Path, version: int, age: str) -> None:
    path = tmp_path / "names.json"
    StateFile("a list of names", "delete it", version).write(path, {})
    with pytest.raises(HwflowError) as error:
        THIRD.read(path)
    assert str(error.value) == f"'{path}' must be a list of names of this hwflow, and is one of {age} hwflow; delete it"


def test_an_older_version_that_is_understood_is_read(tmp_path: Path) -> None:
    StateFile("a list of names", "delete it", 2).write(tmp_path / "names.json", {"names": []})
    assert THIRD.read(tmp_path / "names.json") == {"names": []}


@pytest.mark.parametrize("text", ["", "[]", "[" * 100_000, '{"version": "x"}', "\x00\xff"])
def test_damage_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names.json"
    path.write_text(text)
    with pytest.raises(HwflowError, match="must be a list of names, and is damaged; delete it"):
        FIRST.read(path)


def test_a_line_after_a_torn_one_is_a_line(tmp_path: Path) -> None:
    lines = StateLines(tmp_path / "lines.jsonl")
    lines.add({"a": 1})
    with lines.path.open("ab") as stream:
        stream.write(b'{"b": ')
    lines.add({"c": 3})
    assert list(lines) == [{"a": 1}, {"c": 3}]
