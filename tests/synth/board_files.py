"""Board files of the tests: a board's own with other values, and what is said of one that is wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hwflow_base.errors import HwflowError

from hwflow.synth.boards import boards_folder, load_board


def content(name: str = "ulx3s_85f") -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((boards_folder() / f"{name}.yaml").read_text())
    return loaded


def written(folder: Path, data: object) -> Path:
    """`mine.yaml`, of a text or of what a text means."""
    path = folder / "mine.yaml"
    path.write_text(data if isinstance(data, str) else yaml.safe_dump(data))
    return path


def refusal(path: Path | str) -> str:
    with pytest.raises(HwflowError) as caught:
        load_board(path)
    assert caught.value.exit_code == 2
    return str(caught.value)


def complaints(folder: Path, data: object) -> list[str]:
    path = written(folder, data)
    first, *rest = refusal(path).splitlines()
    assert first == f"the board file '{path}' must have the keys of those in {boards_folder()}, with valid values:"
    return [line.strip() for line in rest]
