"""The files by which a run and the process that simulates it talk: settings and a result in JSON, arrays beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import numpy as np
import numpy.typing as npt

from .results import Boundary, Element, ElementShape, RunResult, StallPattern
from .streams import Edge, Output

SETTINGS, RESULT = "settings.json", "result.json"
FRAMES, EXPECTED = "frames{}.npy", "expected{}.npy"
T = TypeVar("T")


@dataclass(frozen=True)
class Settings:
    """The settings that the simulating process has to know besides the arrays.  The run ends in `stop_cycle` if that is
    not None."""

    inputs: tuple[Boundary, ...]
    boundaries: tuple[Boundary, ...]
    outputs: tuple[Output, ...]
    edges: tuple[Edge, ...]
    weights: int
    stalls: StallPattern
    idle_limit: int
    stop_cycle: int | None

    @property
    def output_boundaries(self) -> tuple[Boundary, ...]:
        """The streams at the outputs: those of their sources, by the outputs' names."""
        sources = {boundary.tensor: boundary for boundary in (*self.inputs, *self.boundaries)}
        return tuple(replace(sources[output.tensor], name=output.name) for output in self.outputs)


def save(path: Path, facts: object) -> None:
    """Write a dataclass as JSON into `path`.  Its arrays go into files beside it; a shape may be any `Element`."""
    numbers = count()

    def plain(value: Any) -> object:
        if not isinstance(value, np.ndarray):
            return ElementShape(value.width, value.signed)
        name = f"{path.stem}{next(numbers)}.npy"
        np.save(path.with_name(name), value)
        return name

    path.write_bytes(msgspec.json.encode(facts, enc_hook=plain))


def load(path: Path, kind: type[T]) -> T:
    """Read the dataclass of this `kind` that `save` wrote."""
    def of_plain(field: Any, value: Any) -> object:
        return ElementShape(**value) if field is Element else np.load(path.with_name(value))

    return msgspec.json.decode(path.read_bytes(), type=kind, dec_hook=of_plain)


def save_run(place: Path, settings: Settings, frames: Sequence[npt.NDArray[np.int64]],
             expected: Sequence[npt.NDArray[np.int64]]) -> None:
    """Write what the simulating process reads into the folder of the run."""
    save(place / SETTINGS, settings)
    for pattern, group in ((FRAMES, frames), (EXPECTED, expected)):
        for k, array in enumerate(group):
            np.save(place / pattern.format(k), array.astype(np.int64, copy=False))


def load_result(place: Path, waves: Path | None) -> RunResult:
    """The result that the simulating process left in the folder of the run; `waves` is the file of its waves."""
    return replace(load(place / RESULT, RunResult), waves=waves)
