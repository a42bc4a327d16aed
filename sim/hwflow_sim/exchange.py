"""The files by which a run and the process that simulates it talk: settings and arrays in, a result and arrays out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .results import (
    Boundary,
    Deadlock,
    Difference,
    ElementShape,
    RunResult,
    StageResult,
    StallPattern,
    Waiting,
)

__all__ = ["EXPECTED", "FRAMES", "RESULT", "SETTINGS", "Settings", "load_result", "save_result"]

SETTINGS, RESULT = "settings.json", "result.json"
FRAMES, EXPECTED, OUTPUT = "frames.npy", "expected{}.npy", "output.npy"


@dataclass(frozen=True)
class Settings:
    """What the simulating process has to know besides the arrays."""

    input_lanes: int
    input_shape: ElementShape
    boundaries: tuple[Boundary, ...]
    stalls: StallPattern
    idle_limit: int

    def save(self, path: Path) -> None:
        boundaries = [{"name": b.name, "lanes": b.lanes, "width": b.shape.width, "signed": b.shape.signed,
                       "elements_per_frame": b.elements_per_frame} for b in self.boundaries]
        path.write_text(json.dumps({
            "input_lanes": self.input_lanes, "input_shape": asdict(self.input_shape), "boundaries": boundaries,
            "stalls": asdict(self.stalls), "idle_limit": self.idle_limit}))

    @classmethod
    def load(cls, path: Path) -> Settings:
        values = json.loads(path.read_text())
        boundaries = tuple(Boundary(b["name"], b["lanes"], ElementShape(b["width"], b["signed"]),
                                    b["elements_per_frame"]) for b in values["boundaries"])
        return cls(values["input_lanes"], ElementShape(**values["input_shape"]), boundaries,
                   StallPattern(**values["stalls"]), values["idle_limit"])


def save_result(place: Path, result: RunResult) -> None:
    """Write `result` into the folder of the run; the output goes into a file of its own."""
    np.save(place / OUTPUT, result.output)
    values = {name: value for name, value in vars(result).items() if name not in ("output", "waves")}
    values["stages"] = [asdict(stage) for stage in result.stages]
    values["deadlock"] = None if result.deadlock is None else asdict(result.deadlock)
    (place / RESULT).write_text(json.dumps(values))


def load_result(place: Path, waves: Path | None) -> RunResult:
    values = json.loads((place / RESULT).read_text())
    output: npt.NDArray[np.int64] = np.load(place / OUTPUT)
    values["stages"] = tuple(load_stage(stage) for stage in values["stages"])
    values["frame_done_cycles"] = tuple(values["frame_done_cycles"])
    dead = values["deadlock"]
    if dead is not None:
        values["deadlock"] = Deadlock(**{**dead, "streams": tuple(Waiting(**stream) for stream in dead["streams"])})
    return RunResult(**values, output=output, waves=waves)


def load_stage(values: Mapping[str, Any]) -> StageResult:
    first = values["first_difference"]
    return StageResult(**{**values, "first_difference": first and Difference(**first),
                          "first_cycles": tuple(values["first_cycles"]), "done_cycles": tuple(values["done_cycles"])})
