"""The command line, called in an empty folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import Cli


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Messages name files as the user did."""
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)
