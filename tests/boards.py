"""All boards for `parametrize`: one of each family, and one without multipliers, stand among the fast tests."""

from __future__ import annotations

import pytest

from hwflow.synth import list_boards

QUICK = ("icebreaker", "ice40hx8k", "tangnano9k", "ulx3s_85f")
BOARDS = [pytest.param(name, marks=[] if name in QUICK else [pytest.mark.slow]) for name in list_boards()]
