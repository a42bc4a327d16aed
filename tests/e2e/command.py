"""The command line as a user calls it: in this process where that is enough, else as a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from hwflow.cli.entry import main

#: Messages are compared in one piece; tests/e2e/test_widths.py looks at how they are wrapped.
WIDE = "10000"


@dataclass(frozen=True)
class Outcome:
    """What a command left: its exit code and both streams."""

    code: int
    out: str
    err: str

    @property
    def message(self) -> str:
        """What follows "error: " on standard error."""
        return self.err.partition("error: ")[2].strip()

    @property
    def json(self) -> dict[str, Any]:
        """Standard output, which must be one JSON object and nothing else."""
        value = json.loads(self.out)
        assert isinstance(value, dict)
        return value


class Cli:
    """`cli("check", path)` runs the command in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self.capsys = capsys

    def __call__(self, *words: str | Path) -> Outcome:
        self.capsys.readouterr()
        wide = {"COLUMNS": WIDE, **os.environ}
        with pytest.raises(SystemExit) as ended, mock.patch.dict(os.environ, wide):
            main([str(word) for word in words])
        out, err = self.capsys.readouterr()
        return Outcome(ended.value.code or 0, out, err)

    def refuses(self, *words: str | Path, code: int = 2) -> str:
        """The message of a command that must fail with `code`: the same in both forms, and never a traceback."""
        plain, as_json = self(*words), self(*words, "--json")
        assert plain.code == as_json.code == code, plain
        assert "Traceback" not in plain.err + plain.out + as_json.err
        assert as_json.json == {"error": plain.message, "exit_code": code}
        return plain.message


def share(cache: Path, place: Path) -> None:
    """Simulations that are compiled at `place`, a folder that is not there yet, are those of the fixture `cache`."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(cache)


def environment(**changes: str) -> dict[str, str]:
    """The environment for a process that runs this checkout's code."""
    return {"COLUMNS": WIDE, **os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path), **changes}


def process(words: Sequence[str | Path], *, env: dict[str, str] | None = None, **options: Any) -> Outcome:
    """Run the command to its end as a process; `options` are those of subprocess.run."""
    done = subprocess.run([sys.executable, "-m", "hwflow.cli", *map(str, words)], env=env or environment(),
                          capture_output=True, text=True, timeout=300, **options)
    return Outcome(done.returncode, done.stdout, done.stderr)
