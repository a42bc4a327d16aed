"""The command line in a folder of the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.e2e.command import Cli


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    monkeypatch.chdir(tmp_path)
    return Cli(capsys)
