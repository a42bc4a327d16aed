"""An explored design space: its points, the frontier, and which board does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError

from ...outcome import OutcomeWarning
from ...synth import Board
from .boards import Answer, answer
from .point import Objective, Point, frontier_of
from .space import Explorer, Results, Space, Work
from .store import STORE, Store


@dataclass(frozen=True, eq=False)
class Exploration(ByValue):
    """The points of a design space in the order of its axes, and the `objectives` by which designs are compared.

    `boards` are those of the axes, by the names that the user gave.  `rate` is the frames a second that were asked for,
    `most_drop` the accuracy that designs may lose for it.  `table` is the database with everything.
    """

    model: str
    points: tuple[Point, ...]
    boards: Mapping[str, Board]
    objectives: tuple[Objective, ...]
    rate: float | None
    most_drop: float | None
    warnings: tuple[OutcomeWarning, ...]
    table: Path

    @cached_property
    def on_frontier(self) -> tuple[bool, ...]:
        """For each point whether it is on the frontier of its board: no other design there beats it in all objectives.
        """
        best: set[int] = set()
        for board in dict.fromkeys(point.board for point in self.points):
            own = [k for k, point in enumerate(self.points) if point.board == board]
            flags = frontier_of([self.points[k] for k in own], self.objectives)
            best |= {k for k, on in zip(own, flags, strict=True) if on}
        return tuple(k in best for k in range(len(self.points)))

    @cached_property
    def frontier(self) -> tuple[Point, ...]:
        """The designs on the frontiers of all boards, each once, the fastest first."""
        best_points = [point for point, best in zip(self.points, self.on_frontier, strict=True) if best]
        once = {(point.board, point.design): point for point in reversed(best_points)}
        return tuple(sorted(once.values(), key=lambda point: (-point.frames_per_second, point.lut, point.board)))

    @cached_property
    def answer(self) -> Answer | None:
        """Which board does it; None where no rate was asked for."""
        return None if self.rate is None else answer(self.points, self.boards, self.rate, self.most_drop)

    def __repr__(self) -> str:
        return (f"Exploration of '{self.model}': {len(self.points)} points, "
                f"{sum(point.fits for point in self.points)} of them fit, {len(self.frontier)} on the frontier")


def evaluate(run: Explorer) -> Results:
    """The points of its space; what its folder has of an earlier run is not computed again.

    HwflowError where tasks are lost, after all others are finished.
    """
    table = run.folder / STORE
    with Store(table) as store:
        work = Work(run.material, run.space, store)
        if work.left:
            title = "evaluate designs" + (
                f" anew, because another version of hwflow wrote {table}" if store.replaced else "")
            with run.running(title) as (running, show):
                work.run(running, show)
        results = work.found()
    if results.lost:
        raise HwflowError(f"{len(results.lost)} of {len(work.tasks)} tasks were not finished: {results.lost[0].why}",
                          "what is finished is kept: run the command again, with fewer --workers")
    return results


def default_objectives(points: Sequence[Point]) -> tuple[Objective, ...]:
    """Frames a second, accuracy where it is known, and logic cells."""
    measured = any(point.accuracy is not None for point in points)
    return (Objective.FRAMES, *([Objective.ACCURACY] if measured else []), Objective.LUT)


def exploration_of(space: Space, results: Results, folder: Path, *, objectives: Sequence[Objective] = (),
                   most_drop: float | None = None, model: str = "") -> Exploration:
    """The exploration with the frontier of `objectives` (none: the default ones)."""
    chosen = tuple(objectives) or default_objectives(results.points)
    return Exploration(model, results.points, space.boards, chosen, space.rate, most_drop, results.warnings,
                       folder / STORE)
