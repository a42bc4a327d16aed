"""Cores of several inputs and outputs, and what a run that stands still says about its links."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Core, Link
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.stream.streams import link, payload_of, stream_of
from hwflow_sim import Boundary, Deadlock, ElementShape, RunResult, Simulation, StallPattern, compile, run
from hwflow_sim.diagnosis import LinkState, Waiting

from tests.rtl.toys import INT8, Sum, wrapped

CORE, STAGE = Endpoint.core, Endpoint.stage

SHAPE = ElementShape(8, True)
ELEMENTS = 24


class Late(wiring.Component):
    """Gives what it took `words` beats ago, zeros first: has to take more before the reader has what it waits for."""

    def __init__(self, words: int):
        self.words = words
        super().__init__({"i": In(stream_of(INT8, 1)), "o": Out(stream_of(INT8, 1)), "busy": Out(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=2)
        missing = Signal(range(self.words + 1), init=self.words)
        kept = Signal(8 * self.words)
        word = self.i.payload.as_value()
        m.d.comb += [
            self.busy.eq(self.i.valid), self.i.ready.eq(queue.i.ready),
            queue.i.valid.eq(self.i.valid & (missing == 0)), queue.i.payload.as_value().eq(kept[:8])]
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [kept.eq(Cat(kept, word)[8:]), missing.eq(missing - (missing != 0))]
        link(m, queue.o, wiring.flipped(self.o))
        return m


def stream(name: str, lanes: int = 1) -> Boundary:
    return Boundary(name, name, lanes, SHAPE, ELEMENTS)


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Simulation:
    """sum = x + y, again = sum + x with other lanes; outputs: again, x itself, and sum."""
    core = Core(stages=[("sum", Sum(2)), ("again", Sum(4))], inputs=[stream_of(INT8, 2), stream_of(INT8, 4)], links=[
        Link(CORE(0), STAGE(0), 0), Link(CORE(1), STAGE(0), 1), Link(STAGE(0), STAGE(1), 0, depth=3),
        Link(CORE(0), STAGE(1), 1, depth=40), Link(STAGE(1), CORE(0)), Link(CORE(0), CORE(1)),
        Link(STAGE(0), CORE(2))])
    return compile(core, boundaries=[stream("sum", 2), stream("again", 4)], roms={}, inputs=("x", "y"),
                   outputs=("z", "same", "s"), folder=tmp_path_factory.mktemp("branches"), cache=cache, jobs=2)


def play(simulation: Simulation, **options) -> tuple[RunResult, list[np.ndarray]]:
    x, y = np.random.default_rng(1).integers(-128, 128, (2, 5, ELEMENTS))
    expected = [wrapped(x + y), wrapped(x + y + x)]
    return run(simulation, frames=[x, y], expected=expected, **options), [expected[1], x, expected[0]]


@pytest.mark.parametrize("stalls", [None, StallPattern(0.5, 0.5, 1), StallPattern(0.9, 0, 2), StallPattern(0, 0.9, 3)])
def test_several_inputs_and_outputs(branches: Simulation, stalls: StallPattern | None) -> None:
    result, outputs = play(branches, stalls=stalls)
    assert result.equal, result.failures()
    assert [output.name for output in result.outputs] == ["output 'z'", "output 'same'", "output 's'"]
    for output, expected in zip(result.outputs, outputs, strict=True):
        assert np.array_equal(output.values, expected)
    assert len(result.input_stall_cycles) == 2
    firsts = [output.first_cycle for output in result.outputs]
    assert result.first_output_cycle == max(firsts)
    ends = [max(cycles) for cycles in zip(*(output.done_cycles for output in result.outputs), strict=True)]
    assert list(result.frame_done_cycles) == ends
    assert result.interval == ELEMENTS // 2 or stalls is not None
    assert all(state.empty_since is not None and state.waiting == 0 for state in result.links)
    assert [state.capacity for state in result.links] == [2, 0, 3, 40, 0, 2, 2]


def test_a_wrong_output_is_named(branches: Simulation) -> None:
    x = np.zeros((1, ELEMENTS), np.int64)
    wrong = [x.copy(), x.copy()]
    wrong[0][0, 5] = 3
    result = run(branches, frames=[x, x], expected=wrong)
    assert [output.equal for output in result.outputs] == [True, True, False]
    assert result.failures() == ("stage 'sum': frame 0, element 5: expected 3, got 0",)


def test_frames_of_each_input_are_checked(branches: Simulation) -> None:
    x = np.zeros((2, ELEMENTS), np.int64)
    for frames, message in (
            ([x], "frames must be one array for each of the core's 2 inputs, not 1"),
            ([x, x[:1]], "frames of input 'y' must be 2 as those of input 'x', not 1"),
            ([x, x + 200], "frames of input 'y' must lie in -128 to 127, not 200 to 200")):
        with pytest.raises(ValueError, match=message):
            run(branches, frames=frames, expected=[x, x])


def test_a_run_can_be_stopped_to_look_at_its_links(branches: Simulation) -> None:
    result, _ = play(branches, stop_cycle=4)
    assert not result.equal
    assert result.deadlock is None
    assert sum(state.waiting for state in result.links) > 0
    assert [stage.beats > 0 for stage in result.boundaries.values()] == [True, False]


def shortcut(depth: int) -> Core:
    """s + s six beats late, where s = x + y: six beats must wait beside `late`."""
    return Core(stages=[("conv", Sum()), ("late", Late(6)), ("add", Sum())],
                inputs=[stream_of(INT8, 1), stream_of(INT8, 1)], links=[
        Link(CORE(0), STAGE(0), 0), Link(CORE(1), STAGE(0), 1), Link(STAGE(0), STAGE(1)),
        Link(STAGE(0), STAGE(2), 0, depth), Link(STAGE(1), STAGE(2), 1), Link(STAGE(2), CORE(0))])


def compiled_shortcut(depth: int, folder: Path, cache: Path) -> Simulation:
    names = ("conv", "late", "add")
    return compile(shortcut(depth), boundaries=[stream(name) for name in names], roms={}, inputs=("x", "y"),
                   folder=folder, cache=cache, jobs=2)


def play_shortcut(simulation: Simulation) -> RunResult:
    x, y = np.random.default_rng(1).integers(-128, 128, (2, 1, ELEMENTS))
    first = wrapped(x + y)
    late = np.concatenate([np.zeros((1, 6), np.int64), first[:, :-6]], axis=1)
    return run(simulation, frames=[x, y], expected=[first, late, wrapped(first + late)], timeout_cycles=200)


def test_a_queue_that_is_too_shallow_is_named(tmp_path: Path, cache: Path) -> None:
    """`late` gives nothing before it has taken seven beats, and the queue beside it takes two."""
    result = play_shortcut(compiled_shortcut(2, tmp_path, cache))
    dead = result.deadlock
    assert dead is not None
    full, empty = dead.links[3], dead.links[4]
    assert (full.name, full.waiting, full.capacity) == ("conv -> add", 2, 2)
    assert dead.reason == (
        f"'add' waits for 'late' (empty since cycle {empty.empty_since}) while the queue conv -> add (2 words) is full "
        f"since cycle {full.full_since}; a deeper queue there would help")
    # conv gives its first beat in cycle 1; the second fills the queue, which is seen one cycle later.
    assert (empty.empty_since, full.full_since) == (0, 3)
    assert dead.blocked_by is None
    assert f"deadlock: {dead.reason}" in "\n".join(result.failures())
    assert "  conv -> add: 2 of 2 words, full since cycle 3" in str(dead)


@pytest.mark.slow
def test_a_queue_that_is_deep_enough_is_not(tmp_path: Path, cache: Path) -> None:
    """Equal but for what `late` keeps at the end, which no later frame pushes out."""
    dead = play_shortcut(compiled_shortcut(8, tmp_path, cache)).deadlock
    assert dead is not None
    assert dead.circle == ()
    assert dead.reason == "no stage blocks: each waits for a beat that did not come"
    assert dead.links[3].waiting == 6


def deadlock(*links: LinkState, stalled: str) -> Deadlock:
    names = dict.fromkeys(name for link in links for name in (link.source, link.sink))
    streams = [Waiting(name, 1, 9, 1, stalled=name in stalled.split(), busy=False) for name in names]
    return Deadlock(100, 50, tuple(streams), links)


def test_the_queue_in_front_of_the_join_is_named_behind_a_stage_that_passes_on() -> None:
    """a feeds b and c; d joins them; b is stalled by the full link to d, and so a by the one to b."""
    dead = deadlock(LinkState("a", "b", 2, 2, 30, None), LinkState("a", "c", 2, 0, None, 20),
                    LinkState("b", "d", 0, 0, 10, None), LinkState("c", "d", 0, 0, None, 7), stalled="a b")
    assert dead.reason == ("'d' waits for 'c' (empty since cycle 7) while the link b -> d, which has no queue, is full "
                           "since cycle 10; a queue there would help")


def test_a_stage_that_hangs_is_named_behind_those_that_wait_for_it() -> None:
    dead = deadlock(LinkState("a", "b", 2, 2, 30, None), LinkState("b", "c", 0, 0, 20, None),
                    LinkState("c", "d", 0, 0, None, 7), stalled="a b")
    assert dead.blocked_by == "c"
    assert dead.reason == "'c' blocks: it is offered a beat, takes none and gives none"
