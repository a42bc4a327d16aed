"""An explored design space: its points, the frontier, and which board does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hwflow_base.by_value import ByValue
from hwflow_base.errors import HwflowError
from hwflow_base.printable import rate_text

from ...outcome import OutcomeWarning
from ...synth import Board
from .point import Objective, Point, frontier_of
from .space import Explorer, Results, Space, Work
from .store import STORE, Store


@dataclass(frozen=True)
class Verdict:
    """The answer of a board to a rate.

    `design` is the smallest one that is fast enough; where there is none, the fastest, None where nothing fits.
    `lacks` says what is missing, "" where nothing is.
    """

    board: str
    design: Point | None
    lacks: str

    @property
    def enough(self) -> bool:
        """Whether the board does it."""
        return not self.lacks


@dataclass(frozen=True)
class Answer:
    """The boards for `rate` frames a second, the smallest first, each with its verdict."""

    rate: float
    verdicts: tuple[Verdict, ...]

    @property
    def smallest(self) -> Verdict | None:
        """The smallest board that does it; None where none does."""
        return next((verdict for verdict in self.verdicts if verdict.enough), None)

    @property
    def next_smaller(self) -> Verdict | None:
        """The largest of the boards that are smaller than the smallest one that does it, or of all where none does."""
        before = [verdict for verdict in self.verdicts if not verdict.enough]
        if self.smallest is not None:
            before = list(self.verdicts[:self.verdicts.index(self.smallest)])
        return before[-1] if before else None

    @property
    def is_close(self) -> bool:
        """Whether the answer could be another one within the error of the estimated clock."""
        smallest = self.smallest
        return (smallest is not None and smallest.design is not None
                and smallest.design.frames_per_second * (1 - smallest.design.mhz_error) < self.rate)


def size_of(board: Board) -> tuple[int, ...]:
    """The order of boards: logic cells, then RAM blocks, multiplier blocks and flip-flops."""
    have = board.resources
    return have.lut, have.ram, have.dsp, have.ff, have.spram


def answer(points: Sequence[Point], boards: Mapping[str, Board], rate: float, most_drop: float | None = None) -> Answer:
    """The verdict of each board on `rate` frames a second.

    With `most_drop`, only designs count whose accuracy is at most so much (in the unit of the metric) below that of the
    float model.
    """
    order = sorted(boards, key=lambda name: (size_of(boards[name]), name))
    return Answer(rate, tuple(verdict(name, [point for point in points if point.board == name], rate, most_drop)
                              for name in order))


def verdict(name: str, points: Sequence[Point], rate: float, most_drop: float | None) -> Verdict:
    """The verdict on one board, whose designs are `points`."""
    exact = [point for point in points if is_exact(point, most_drop)]
    fitting = [point for point in exact if point.fits]
    if not fitting:
        return Verdict(name, None, nothing_fits(points, exact, most_drop))
    fastest = max(fitting, key=lambda point: point.frames_per_second)
    enough = [point for point in fitting if point.frames_per_second >= rate]
    if not enough:
        return Verdict(name, fastest, too_slow(fastest, exact))
    design = min(enough, key=lambda point: (point.filled, point.lut))
    if design.link < rate:
        return Verdict(name, design, f"no line to the host carries more than {rate_text(design.link)} frames/s")
    return Verdict(name, design, "")


def is_exact(point: Point, most_drop: float | None) -> bool:
    """Whether the accuracy of a design, or of one that was refused, is good enough."""
    if most_drop is None:
        return True
    return point.accuracy is not None and point.reference is not None and (
        point.reference - point.accuracy <= most_drop)


def nothing_fits(points: Sequence[Point], exact: Sequence[Point], most_drop: float | None) -> str:
    """Why a board has no design at all."""
    if not exact and points:
        return f"no integers lose at most {most_drop:g} of the accuracy"
    return next((point.lacks or point.refused for point in exact if point.refused), "nothing was evaluated")


def too_slow(fastest: Point, points: Sequence[Point]) -> str:
    """The lack of a board whose fastest design is too slow: what a design for the rate was refused for, if there was
    one, else the resources that are used up."""
    asked = [point.lacks or point.refused for point in points if point.refused and point.asked is not None
             and point.asked < fastest.interval]
    return f"{rate_text(fastest.frames_per_second)} frames/s at most" + (f"; more take {asked[0]}" if asked else "")


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
