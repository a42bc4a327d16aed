"""Rewrites are compared on few rows."""

from __future__ import annotations

import pytest

from hwflow.quantize.checks import meaning

#: Tests of the comparison itself, which take all rows.
OF_THE_COMPARISON = ("test_meaning", "test_telling_rows", "test_loop_steps", "test_deviations")


@pytest.fixture(autouse=True)
def few_rows_are_looked_at(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 32 rows that `quantize` compares its rewrites on, 6: these tests compare the whole with another runtime."""
    if request.module.__name__.rpartition(".")[2] not in OF_THE_COMPARISON:
        monkeypatch.setattr(meaning, "_LOOKED_AT", 6)
