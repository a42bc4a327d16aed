"""The folder of an export is written as a whole, and never in place of anything else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hwflow_base.errors import HwflowError

from hwflow.export import network as folders
from hwflow.export.network import FACTS, digest_of, write_folder


def facts(**files: bytes) -> str:
    return json.dumps({"files": {name: digest_of(contents) for name, contents in files.items()}})


def write(folder: Path, **files: bytes) -> None:
    write_folder(folder, files, facts(**files))


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*")
            if path.is_file() and path.name != FACTS}


def test_a_later_export_replaces_an_earlier_one_and_keeps_what_was_made_beside_it(tmp_path: Path) -> None:
    place = tmp_path / "a" / "export"
    write(place, one=b"1", two=b"2")
    (place / "obj_dir").mkdir()
    (place / "obj_dir" / "simulation").write_bytes(b"made")
    write(place, one=b"other", three=b"3")
    assert contents(place) == {"one": b"other", "three": b"3", "obj_dir/simulation": b"made"}
    assert [path.name for path in place.parent.iterdir()] == ["export"]


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    write(tmp_path, one=b"1")
    assert contents(tmp_path) == {"one": b"1"}


@pytest.mark.parametrize("present", ["file", "link", "other", "edited"])
def test_something_else_is_not_replaced(tmp_path: Path, present: str) -> None:
    place = tmp_path / "export"
    if present == "file":
        place.write_text("mine")
        message = "an export must go into a folder, not into a file or a link; choose another --output"
    elif present == "link":
        (tmp_path / "real").mkdir()
        place.symlink_to("real")
        message = "an export must go into a folder, not into a file or a link; choose another --output"
    elif present == "other":
        place.mkdir()
        (place / "thesis.tex").write_text("mine")
        message = (f"the folder must be empty, or an earlier export with its {FACTS}; choose another --output, or "
                   "empty it")
    else:
        write(place, one=b"1", two=b"2")
        (place / "one").write_text("mine")
        message = ("files of an earlier export must not have been edited, but one was: they would be lost; move the "
                   "folder, or choose another --output")
    with pytest.raises(HwflowError) as error:
        write(place, one=b"new")
    assert str(error.value) == f"{place}: {message}"
    if place.is_file():
        assert place.read_text() == "mine"
    else:
        assert b"new" not in contents(place).values()


def test_an_export_that_is_cut_off_leaves_the_earlier_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "export"
    write(place, one=b"1")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(folders, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write(place, one=b"new", two=b"2")
    assert contents(place) == {"one": b"1"}
    assert [path.name for path in tmp_path.iterdir()] == ["export"]
