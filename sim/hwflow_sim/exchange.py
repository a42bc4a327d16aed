"""The files by which a run and the process that simulates it talk: settings and arrays in, a result and arrays out."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from .diagnosis import Deadlock, LinkState, Waiting
from .results import (
    Boundary,
    BoundaryResult,
    Difference,
    ElementShape,
    MemoryOrder,
    OutputResult,
    RunResult,
    StallPattern,
)
from .streams import Edge, Output

SETTINGS, RESULT = "settings.json", "result.json"
FRAMES, EXPECTED, OUTPUT, BOUNDARY = "frames{}.npy", "expected{}.npy", "output{}.npy", "boundary{}.npy"
PLACES = "places{}.npy"


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
        found = {each.tensor: each for each in (*self.inputs, *self.boundaries)}
        return tuple(replace(found[each.tensor], name=each.name) for each in self.outputs)

    def save(self, path: Path) -> None:
        """Write `path`, and beside it the places of each `MemoryOrder`."""
        for k, each in enumerate(self.boundaries):
            if each.order is not None:
                np.save(path.with_name(PLACES.format(k)), each.order.places)
        path.write_text(json.dumps({
            **asdict(self), "inputs": [facts(each) for each in self.inputs],
            "boundaries": [facts(each) for each in self.boundaries]}))

    @classmethod
    def load(cls, path: Path) -> Settings:
        values = json.loads(path.read_text())
        ends = {key: tuple(boundary_of(each, path.with_name(PLACES.format(k))) for k, each in enumerate(values[key]))
                for key in ("inputs", "boundaries")}
        return cls(**ends, outputs=tuple(Output(**each) for each in values["outputs"]),
                   edges=tuple(Edge(**each) for each in values["edges"]), weights=values["weights"],
                   stalls=StallPattern(**values["stalls"]),
                   idle_limit=values["idle_limit"], stop_cycle=values["stop_cycle"])


def facts(boundary: Boundary) -> dict[str, object]:
    """A boundary for JSON; its shape may be any object with a width and a sign."""
    order = boundary.order
    shape = [boundary.shape.width, boundary.shape.signed]
    return {**vars(boundary), "shape": shape,
            "order": order and {"shape": [order.shape.width, order.shape.signed], "offset": order.offset}}


def boundary_of(values: Mapping[str, Any], places: Path) -> Boundary:
    """The inverse of `facts`; the file `places` has those of its order."""
    order = values["order"]
    if order is not None:
        order = MemoryOrder(np.load(places), ElementShape(*order["shape"]), order["offset"])
    return Boundary(**{**values, "shape": ElementShape(*values["shape"]), "order": order})


def save_run(place: Path, settings: Settings, frames: Sequence[npt.NDArray[np.int64]],
             expected: Sequence[npt.NDArray[np.int64]]) -> None:
    """Write what the simulating process reads into the folder of the run."""
    settings.save(place / SETTINGS)
    for pattern, group in ((FRAMES, frames), (EXPECTED, expected)):
        for k, array in enumerate(group):
            np.save(place / pattern.format(k), array.astype(np.int64, copy=False))


def save_result(place: Path, result: RunResult) -> None:
    """Write `result` into the folder of the run; the values of each output and boundary go into files of their own."""
    for k, output in enumerate(result.outputs):
        np.save(place / OUTPUT.format(k), output.values)
    for k, boundary in enumerate(result.boundaries.values()):
        np.save(place / BOUNDARY.format(k), boundary.values)
    values = {name: value for name, value in vars(result).items() if name not in ("waves", "values")}
    values["links"] = [asdict(each) for each in result.links]
    values["boundaries"] = [asdict(replace(each, values=np.zeros((0, 0), np.int8))) | {"values": None}
                            for each in result.boundaries.values()]
    values["outputs"] = [asdict(replace(output, values=np.zeros((0, 0), np.int64))) | {"values": None}
                         for output in result.outputs]
    values["deadlock"] = None if result.deadlock is None else asdict(result.deadlock)
    (place / RESULT).write_text(json.dumps(values))


def load_result(place: Path, waves: Path | None) -> RunResult:
    values = json.loads((place / RESULT).read_text())
    found = [BoundaryResult(**{**with_tuples(each), "values": np.load(place / BOUNDARY.format(k))})
             for k, each in enumerate(values["boundaries"])]
    values["boundaries"] = {each.tensor: each for each in found}
    values["outputs"] = tuple(OutputResult(**{**with_tuples(output), "values": np.load(place / OUTPUT.format(k))})
                              for k, output in enumerate(values["outputs"]))
    values["input_stall_cycles"] = tuple(values["input_stall_cycles"])
    values["links"] = tuple(LinkState(**link) for link in values["links"])
    dead = values["deadlock"]
    if dead is not None:
        values["deadlock"] = Deadlock(
            dead["cycle"], dead["idle_cycles"], tuple(Waiting(**stream) for stream in dead["streams"]),
            tuple(LinkState(**link) for link in dead["links"]))
    return RunResult(**values, waves=waves)


def with_tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a boundary's or an output's result: lists back to tuples, the difference to an object."""
    first = values["first_difference"]
    fields = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    return {**fields, "first_difference": first and Difference(**first)}
