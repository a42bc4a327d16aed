"""How long work took before, by kind, so that later work of that kind can say how far it is.

A small JSON file in the cache of a build folder.  It is a help and nothing depends on it: a file that is damaged, or a
folder that cannot be written, counts as no file.
"""

from __future__ import annotations

import contextlib
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import filelock

from ..errors import HwflowError
from .state import StateFile
from .target import create_folder

#: The file; nobody is told of a damaged one.
FILE = StateFile("the seconds of earlier work", "delete it")
#: The last runs that count, and the kinds that are kept.
RUNS, KINDS = 5, 200
#: Seconds to wait for another run that writes at this moment.
PATIENCE = 1.0


class Durations:
    """Seconds by kind of work and phase, in `path`; a run of a kind takes about as long for each unit of its size."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def expected(self, kind: str, size: float, phases: Sequence[str]) -> dict[str, float]:
        """Seconds of each phase for work of this size: the median of the last runs, scaled.  Empty without any."""
        runs = [run for run in self.read().get(kind, []) if set(phases) <= set(run[1])]
        return {phase: statistics.median(run[1][phase] / run[0] for run in runs) * size for phase in phases
                } if runs and size > 0 else {}

    def keep(self, kind: str, size: float, seconds: Mapping[str, float]) -> None:
        """Add a run."""
        if size <= 0:
            return
        with contextlib.suppress(HwflowError, OSError):  # a full disk is told by the work itself
            create_folder(self.path.parent)
            with filelock.FileLock(self.path.with_suffix(".lock"), timeout=PATIENCE):
                known = self.read()
                runs = [*known.pop(kind, []), (size, dict(seconds))][-RUNS:]
                newest = dict([*known.items(), (kind, runs)][-KINDS:])
                FILE.write(self.path, newest)

    def read(self) -> dict[str, list[tuple[float, dict[str, float]]]]:
        """All kinds with their runs as (size, seconds by phase), the last ones last."""
        try:
            kinds: dict[str, Any] = FILE.read(self.path)
            return {kind: [run_of(*run) for run in runs] for kind, runs in kinds.items()}
        except (HwflowError, ValueError, TypeError, AttributeError):
            return {}


def run_of(size: float | str, seconds: Mapping[str, float | str]) -> tuple[float, dict[str, float]]:
    """ValueError and the like for what is no run."""
    run = float(size), {str(phase): float(value) for phase, value in seconds.items()}
    if not (0 < run[0] < math.inf and all(0 <= value < math.inf for value in run[1].values())):
        raise ValueError("no run takes such a time")
    return run
