"""Planning ends: deep networks within the budget of steps, and what is said of a search that ended early."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo

from hwflow.cli.entry import explain
from hwflow.cli.interrupts import SIGNALS, Interrupted, interruptible
from hwflow.hls.foldings.effort import STEPS, Effort
from hwflow.hls.partition import executions
from hwflow.hls.partition.bounds import SharedBounds
from hwflow.hls.partition.executions import Executions
from hwflow.hls.partition.options import thinned
from hwflow.hls.partition.search import PartitionSearch
from hwflow.hls.plan.plan import Plan
from hwflow.hls.plan.plan_file import plan_from_yaml, plan_to_yaml
from hwflow.layers.base import LayerGraph
from hwflow.pipeline.planning import executions_of
from hwflow.stages.partition import SHARED, Execution, Group
from hwflow.synth import load_board
from hwflow.synth.expected_clock import outside_of
from tests.random_cases import seeds
from tests.strategies.deep_graphs import deep_network, landmarks

#: Steps of a search that ends early.
FEW = 30
#: Steps that one try may take more than there are: it is not cut short where it counts beats.
ONE_TRY = 2 * STEPS


def searches(graph: LayerGraph, board: str, steps: float = STEPS) -> tuple[Executions, list[str]]:
    """What makes plans, and what it says of long searches."""
    said: list[str] = []
    made = executions_of(graph, graph, load_board(board), say=said.append)
    made.effort.steps = steps
    return made, said


def answer(made: Executions) -> Plan | str:
    try:
        return made.plan(Execution.AUTO, None)
    except AnswerIsNo as error:
        return str(error)


@seeds(quick=(25,), slow=range(0, 30, 3))
@pytest.mark.quick(1)
@pytest.mark.parametrize("board", ["ulx3s_85f", "colorlight_i5", "icebreaker"])
def test_planning_a_deep_network_ends(seed: int, board: str) -> None:
    """In so many steps, whatever the machine; the plan fits, or the refusal says what is short."""
    made, _ = searches(deep_network(seed), board)
    found = answer(made)
    assert made.effort.spent <= STEPS + ONE_TRY
    if isinstance(found, Plan):
        assert made.target.budget.fits(found.resources) or found.execution == SHARED
    else:
        assert " does not fit " in found


@pytest.mark.slow
def test_planning_many_separable_blocks_ends() -> None:
    graph = landmarks()
    assert (len(graph.layers), sum(layer.multiplications(graph) for layer in graph.layers)) == (72, 55_201_920)
    made, _ = searches(graph, "ulx3s_85f")
    plan = answer(made)
    assert isinstance(plan, Plan)
    assert made.effort.spent <= STEPS + ONE_TRY


def long_searched() -> LayerGraph:
    """A network for which a search is long."""
    return deep_network(25)


@pytest.mark.slow
def test_a_search_that_ends_early_says_so_and_how_much_better_a_plan_may_be() -> None:
    """The same number of steps gives the same plan; with more of them it is as fast or faster."""
    graph = long_searched()
    (few, said), (again, _), (more, _) = (searches(graph, "colorlight_i5", steps) for steps in (FEW, FEW, 10 * FEW))
    plan = answer(few)
    assert isinstance(plan, Plan)
    assert plan.why.endswith("; the search for shared stages ended early, after 30 steps, and at least about "
                             f"{few.effort.bound:,} cycles a frame are needed")
    assert plan == answer(again)
    better = answer(more)
    assert isinstance(better, Plan)
    assert few.effort.bound is not None
    assert few.effort.bound <= better.interval * 1.1
    assert better.interval <= plan.interval
    assert said == []


def test_a_long_search_says_where_it_is() -> None:
    said: list[str] = []
    effort = Effort(2000, said.append)
    effort.tell(1000, None)
    for spent, best in ((700, None), (100, 3210), (500, 3210)):
        effort.spend(spent)
        effort.tell(1000, best)
    assert said == [
        "shared stages beside others: at least about 1,000 cycles a frame, none found yet (700 of 2,000 steps)",
        "shared stages beside others: at least about 1,000 cycles a frame, the fastest one so far has 3,210 "
        "(1,300 of 2,000 steps)"]


@pytest.fixture
def handlers() -> Iterator[None]:
    """`interruptible` leaves a process that ignores signals; this one goes on."""
    before = {number: signal.getsignal(number) for number in (*SIGNALS, signal.SIGALRM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_an_interrupt_keeps_the_best_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    graph, board, kept = long_searched(), load_board("colorlight_i5"), tmp_path / "plan-so-far.yaml"

    def keep(plan: Plan) -> str:
        kept.write_text(plan_to_yaml(plan))
        return "plan-so-far.yaml"

    def interrupted(*_: object) -> Plan:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal arrives")

    monkeypatch.setattr(PartitionSearch, "faster", interrupted)
    made = executions_of(graph, graph, board, keep=keep)
    with pytest.raises(Interrupted) as caught, interruptible():
        made.plan(Execution.AUTO, None)
    assert made.effort.best is not None
    best = made.effort.best()
    assert explain(caught.value) == (
        f"interrupted; nothing is half-written, the best plan so far, of {best.interval:,} cycles a frame, is in "
        "'plan-so-far.yaml': --plan takes it", 130)
    again = plan_from_yaml(kept.read_text(), graph, board.technology(), source="plan-so-far.yaml",
                           outside=outside_of(board))
    assert again == replace(best, board=again.board)


@pytest.mark.usefixtures("handlers")
def test_an_interrupt_before_any_plan_says_that_the_next_run_plans_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object) -> Plan:
        signal.raise_signal(signal.SIGINT)
        raise AssertionError("the signal arrives")

    monkeypatch.setattr(executions.Executions, "dataflow", interrupted)
    with pytest.raises(Interrupted) as caught, interruptible():
        searches(long_searched(), "colorlight_i5")[0].plan(Execution.AUTO, None)
    assert explain(caught.value) == ("interrupted; nothing is half-written, and the next run plans anew", 130)
    assert explain(KeyboardInterrupt())[0] == (
        "interrupted; nothing is half-written, and the next run goes on from what was finished")


def words(bounds: SharedBounds, first: int, end: int, columns: int) -> Iterator[int]:
    """Of the tensors that are needed when each layer of a run is computed."""
    layers = bounds.graph.layers[first:end]
    leaving = Group(SHARED, tuple(range(first, end))).outputs(bounds.graph)
    for k in range(len(layers)):
        needed = dict[str, int]()
        for j, layer in enumerate(layers):
            part = bounds.part(first + j, columns)
            assert part is not None
            later = layer.output in leaving or any(layer.output in each.inputs for each in layers[k:])
            if j == k or (j < k and later):
                needed[layer.output] = part.words[-1]
            for name, size in zip(layer.inputs, part.words, strict=False):
                if name not in {each.output for each in layers} and j <= k and any(
                        name in each.inputs for each in layers[k:]):
                    needed.setdefault(name, size)
        yield sum(needed.values())


def test_bounds_of_runs_grow_as_if_each_was_counted_alone() -> None:
    graph = deep_network(12)
    made, _ = searches(graph, "colorlight_i5")
    search = made.search(logic=False, outside=made.target.outside)
    bounds, last = search.bounds, len(graph.layers)
    assert len(bounds.runs) == len(bounds.columns) * 2 * last * (last - 1) // 2
    for columns in bounds.columns:
        for first in range(0, last, 5):
            parts = [each for k in range(first, last) if (each := bounds.part(k, columns)) is not None]
            for end, (held, moving) in enumerate(bounds.held(first, parts), first + 1):
                layers = graph.layers[first:end]
                group = Group(SHARED, tuple(range(first, end)))
                entering = {name: cycles for layer, part in zip(layers, parts, strict=False)
                            for name, cycles in zip(layer.inputs, part.moving, strict=False)
                            if name in group.inputs(graph)}
                leaving = [part.moving[-1] for layer, part in zip(layers, parts, strict=False)
                           if layer.output in group.outputs(graph)]
                assert (held, moving) == (max(words(bounds, first, end, columns)),
                                          sum(entering.values()) + sum(leaving))


def test_of_many_runs_the_cheapest_for_each_layer_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    layers, prices = np.array([0, 0, 0, 1, 1, 1, 2]), np.array([3.0, 1, 2, 5, 1, 1, 9])
    assert thinned(np.arange(7), layers, prices).tolist() == list(range(7))
    monkeypatch.setattr("hwflow.hls.partition.options.SIDE", 6)
    assert thinned(np.arange(7), layers, prices).tolist() == [1, 2, 4, 5, 6]
    assert thinned(np.array([0, 2, 3, 4, 5, 6]), layers, prices).tolist() == [0, 2, 3, 4, 5, 6]
