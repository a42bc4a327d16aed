"""Routing of explored designs: what is proposed, what is kept, and that an interrupted command goes on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("optuna", reason="the extra explore is not installed")

from hwflow.search.exploration import routing
from hwflow.search.exploration.engine import Lost
from hwflow.search.exploration.point import Point
from hwflow.search.exploration.routing import Routed, Run, Runs, best_points, proposed
from hwflow.search.exploration.store import Store
from hwflow.search.exploration.tasks import DesignTask
from hwflow.stages.partition import Execution
from hwflow.synth import load_board
from hwflow.synth.options import AS_IT_IS, Placer, placer_of


def point(design: str, interval: int = 100) -> Point:
    return Point("icebreaker", "", "auto", False, False, interval, design=design, made_as="dataflow", interval=interval,
                 mhz=50.0, mhz_error=0.08)


def law(placer: Placer) -> float:
    """A made-up clock: 60 MHz with the best knobs, 40 MHz with those of nextpnr."""
    if placer == AS_IT_IS:
        return 40.0
    assert placer.beta is not None
    return 60.0 - 50.0 * abs(placer.beta - 0.8) - abs((placer.critexp or 0) - 4)


class Inline:
    """An engine that runs each task when its result is asked for; it breaks down after `lives` of them."""

    def __init__(self, lives: int = 1000):
        self.lives = lives
        self.ran: list[tuple[str, int, str]] = []

    def later(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return function, arguments

    def finished(self, promises: Mapping[Point, Any], then: Callable[[Point, Any], Mapping[Point, Any]]) -> Any:
        waiting = list(promises.items())
        while waiting:
            job, (_, (_, _, asked, seed, placer, _)) = waiting.pop(0)
            if len(self.ran) == self.lives:
                raise KeyboardInterrupt
            self.ran.append((asked.design, seed, placer))
            lost = asked.design == "lost"
            waiting += then(job, Lost("killed") if lost else vars(Run(seed, placer, law(placer_of(placer))))).items()
            yield job, None


@pytest.fixture
def wanted() -> dict[Point, DesignTask]:
    board = load_board("icebreaker")
    asked = DesignTask("icebreaker", board, "", "key", Execution.AUTO, False, False, 1, None)
    return {point("a"): asked, point("b", 200): asked}


def go(wanted: dict[Point, DesignTask], folder: Path, engine: Inline, count: int = 5) -> tuple[Runs, list[Lost]]:
    with Store(folder / "points.sqlite") as store:
        runs = Runs(wanted, store, count)
        return runs, runs.go(engine, {"": None}, None, lambda done, total: None)  # type: ignore[arg-type]


def test_the_first_run_is_as_synth_makes_it_and_others_depend_on_what_came_of_those_before() -> None:
    assert proposed([]) == (1, AS_IT_IS)
    runs = [Run(1, "", 40.0)]
    for seed in range(2, 26):
        number, placer = proposed(runs)
        assert (number, placer) == proposed(list(runs)), "the same runs, the same proposal"
        assert number == seed
        runs.append(Run(number, str(placer), law(placer)))
    first, last = (sum(run.mhz or 0.0 for run in part) / 8 for part in (runs[1:9], runs[-8:]))
    assert last > first + 1, "Optuna learned where the clock is high"


def test_every_design_has_its_runs_and_a_second_command_runs_none(wanted: dict[Point, DesignTask],
                                                                  tmp_path: Path) -> None:
    runs, lost = go(wanted, tmp_path, Inline())
    assert not lost
    assert [len(each) for each in runs.done.values()] == [5, 5]
    again = Inline()
    assert go(wanted, tmp_path, again)[0].done == runs.done
    assert not again.ran
    more = Inline()
    go(wanted, tmp_path, more, 6)
    assert [(design, seed) for design, seed, _ in more.ran] == [("a", 6), ("b", 6)]


def test_an_interrupted_command_goes_on_to_the_same_runs(wanted: dict[Point, DesignTask], tmp_path: Path) -> None:
    whole = go(wanted, tmp_path / "whole", Inline())[0].done
    with pytest.raises(KeyboardInterrupt):
        go(wanted, tmp_path / "parts", Inline(lives=3))
    rest = Inline()
    assert go(wanted, tmp_path / "parts", rest)[0].done == whole
    assert len(rest.ran) == 7


def test_a_lost_run_is_told_and_no_other_is_lost(wanted: dict[Point, DesignTask], tmp_path: Path) -> None:
    asked = next(iter(wanted.values()))
    runs, lost = go({point("lost"): asked, point("a"): asked}, tmp_path, Inline())
    assert lost == [Lost("killed")]
    assert [len(each) for each in runs.done.values()] == [0, 5]


def test_the_best_run_and_the_error_of_the_estimate() -> None:
    made = Routed(point("a"), (Run(1, "", 40.0, interval=100), Run(2, "critexp=3", None, "no route"),
                               Run(3, "critexp=4", 44.0, interval=110, memory_cycles=110)))
    assert made.best == made.runs[2]
    assert made.frames_per_second == pytest.approx(44e6 / 110), "the memory takes more cycles of a faster clock"
    assert made.error == pytest.approx(50 / 40 - 1)
    assert Routed(point("a"), (Run(1, "", None, "no route"),)).best is None


def test_designs_are_taken_evenly_from_the_frontier_with_both_ends() -> None:
    frontier = [point(str(k)) for k in range(9)]
    assert [each.design for each in best_points(frontier, 3)] == ["0", "4", "8"]
    assert best_points(frontier, 1) == (frontier[0],)
    assert best_points(frontier, 20) == tuple(frontier)
    assert best_points(frontier, 0) == ()


def test_a_failed_run_is_a_result(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Of which the reason is kept, and which no second command repeats."""
    from hwflow_base.errors import ToolFailed

    def fails(*_: Any, **__: Any) -> None:
        raise ToolFailed("place and route failed: nextpnr said:\n  no route")

    monkeypatch.setattr("hwflow.synth.bitstream.synthesize", fails)

    class Anything:
        board = None

        def __getattr__(self, name: str) -> Any:
            return lambda: None

    made = routing.made(Anything(), tmp_path, 2, "critexp=3")  # type: ignore[arg-type]
    assert made == Run(2, "critexp=3", None, "place and route failed: nextpnr said:")
