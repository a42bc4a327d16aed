"""The command line, called in an empty folder."""

from __future__ import annotations

import pytest

from tests.e2e.command import WIDE


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables and messages are looked at in one piece."""
    monkeypatch.setenv("COLUMNS", WIDE)
