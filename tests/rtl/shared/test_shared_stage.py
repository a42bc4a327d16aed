"""The shared stage in simulation against the model of its program: values, order of writes, cycles."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import pytest
from amaranth.hdl import ResetInserter, Signal, signed, unsigned
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding
from hwflow_rtl.shared.program import Constants, Program
from hwflow_rtl.shared.shape import SharedShape, Sliding, Sums
from hwflow_rtl.shared.stage import SharedUnit, SharedUnitShape
from hwflow_rtl.shared.steps import Compute, Fill, Load, Operation, Step, Store
from hwflow_rtl.vendor.base import Timing
from hwflow_rtl.vendor.generic import Generic

from tests.rtl.harness import simulate, simulator
from tests.rtl.shared.steps import changed, compute

ROOM = RequantizerRoom(20, 18, 12, 15)
SHAPE = SharedShape(
    columns=4, lanes=1, interval=2, sums=Sums(28, ROOM, fraction=0, rounding=RequantizerRounding.HALF_EVEN),
    words=512, single_port=False, buffer=64, stream_rows=4)
FRAMES = 2
#: Cycles by which a bound of two frames may be late.
EARLY = 20


def conv(*, height: int, width: int, words: int, base: int, to: int, tiles: int, kernel: tuple[int, int] = (3, 3),
         pads: tuple[int, int] = (1, 1), strides: tuple[int, int] = (1, 1), depthwise: bool = False) -> Compute:
    """A convolution of a frame of `words` a pixel, with as many pads at the end as keep the output's size regular."""
    tall = (height + 2 * pads[0] - kernel[0]) // strides[0] + 1
    wide = (width + 2 * pads[1] - kernel[1]) // strides[1] + 1
    return compute(
        read_base=base - pads[0] * width * words - pads[1] * words, write_base=to, tiles=tiles, height=tall, width=wide,
        outer=kernel[0], inner=kernel[1], words=1 if depthwise else words, read_tile=int(depthwise),
        read_row=strides[0] * width * words, read_column=strides[1] * words, read_outer=width * words,
        read_inner=words, write_tile=1, write_row=wide * tiles, write_column=tiles, first_row=-pads[0],
        first_column=-pads[1], row_stride=strides[0], column_stride=strides[1], outer_rows=1, inner_columns=1,
        frame_height=height, frame_width=width, pad=-7, zero_point=3, low=-100, high=101)


def constants_for(step: Compute, columns: int, random: np.random.Generator) -> Constants:
    """Constants with which results spread over the range of an element."""
    shape = step.loops.tiles, columns
    if step.operation is Operation.MAXIMUM:
        return Constants(np.zeros(shape, np.int64), np.full(shape, 1 << 12), np.zeros(shape, np.int64),
                         np.zeros((step.loops.tiles, 0, columns, columns), np.int64))
    reach = 4 if step.weighting.digits else 128
    return Constants(random.integers(-9000, 9000, shape), random.integers(1, 1 << 18, shape),
                     random.integers(6, 16, shape),
                     random.integers(-reach, reach, (
                         step.loops.tiles, step.weight_words // step.loops.tiles, columns, columns)))


@dataclass(frozen=True)
class Case:
    shape: SharedShape
    computes: tuple[Compute, ...]
    load: tuple[int, int]  # pixels and channels
    store: tuple[int, int, int]  # base, pixels, channels
    lanes_in: int
    lanes_out: int
    flip: bool = False
    second: tuple[int, int, int] | None = None  # a second output, with one lane
    wide: bool = False  # elements of the output have two bytes
    other: tuple[int, int, int, int, int] | None = None  # a second input: at step, base, pixels, channels, lanes
    opens: int | None = None
    base: int = 0  # of the first input
    fills: tuple[Fill, ...] = ()
    after: tuple[Compute, ...] = ()  # behind the stores: what moves states

    @property
    def stores(self) -> list[tuple[int, int, int]]:
        return [self.store] if self.second is None else [self.store, self.second]

    @property
    def lanes(self) -> list[int]:
        """Of each output."""
        return [self.lanes_out, 1][:len(self.stores)]

    @property
    def outputs(self) -> list[str]:
        return ["o"] if self.second is None else ["o0", "o1"]

    @property
    def steps(self) -> tuple[Step, ...]:
        found: list[Step] = [Load(0, self.base, *self.load, self.flip), *self.computes,
                             *(Store(port, *store, self.flip, self.wide) for port, store in enumerate(self.stores)),
                             *self.after]
        if self.other is not None:
            found.insert(self.other[0], Load(1, *self.other[1:4], self.flip))
        return (*self.fills, *found)

    @property
    def inputs(self) -> dict[str, tuple[int, int, int]]:
        """Pixels, channels and lanes by the name of the port."""
        if self.other is None:
            return {"i": (*self.load, self.lanes_in)}
        return {"i0": (*self.load, self.lanes_in), "i1": self.other[2:]}


TWO = (conv(height=5, width=4, words=2, base=0, to=100, tiles=2),
       conv(height=5, width=4, words=2, base=100, to=200, tiles=3, strides=(2, 2)))
POOLED = (changed(conv(height=4, width=4, words=2, base=0, to=100, tiles=2, kernel=(2, 2), pads=(0, 0), strides=(2, 2),
                       depthwise=True), operation=Operation.MAXIMUM, zero_point=0, low=-128, high=127),
          conv(height=2, width=2, words=2, base=100, to=200, tiles=2, depthwise=True),
          compute(read_base=0, write_base=300, tiles=1, height=1, width=8, outer=3, inner=2, read_column=1,
                  read_inner=8, write_column=1, digits=True, frame_width=8),
          compute(read_base=300, write_base=400, tiles=2, outer=2, inner=2, read_tile=1, read_outer=4, read_inner=2,
                  write_tile=1, repeated=True))
#: 3 x 3 windows of 2 words a pixel that move by one column, with padding; then by two, without.
SLIDING = (
    compute(read_base=-10, write_base=100, tiles=2, height=5, lead=2, width=4, outer=1, inner=3, read_tile=1,
            read_row=8, read_column=2, read_inner=8, write_tile=1, write_row=8, write_column=2, first_row=-1,
            first_column=-1, row_stride=1, column_stride=1, inner_rows=1, outer_columns=1, frame_height=5,
            frame_width=4, pad=-7, slides=True, zero_point=3, low=-100, high=101),
    compute(read_base=98, write_base=200, tiles=2, height=2, lead=1, width=1, outer=2, inner=3, read_tile=1,
            read_row=16, read_column=4, read_outer=2, read_inner=8, write_tile=1, write_row=2, write_column=2,
            first_row=0, first_column=-1, row_stride=2, column_stride=2, inner_rows=1, outer_columns=1,
            frame_height=5, frame_width=4, slides=True),
    conv(height=2, width=1, words=2, base=200, to=300, tiles=2))
GATED = (conv(height=4, width=3, words=2, base=0, to=100, tiles=2),
         compute(operation=Operation.PRODUCT, read_base=0, write_base=200, width=24, outer=2, inner=2, read_column=1,
                 read_inner=100, write_column=1, frame_width=24, zero_point=-5, table=1),
         compute(operation=Operation.MAXIMUM, read_base=200, write_base=300, width=24, read_column=1, write_column=1,
                 frame_width=24, table=0),
         conv(height=4, width=3, words=2, base=300, to=400, tiles=2, kernel=(1, 1), pads=(0, 0)))
WIDE = tuple(changed(conv(height=4, width=3, words=2, base=0, to=200 + byte, tiles=2), write_tile=2, write_row=12,
                     write_column=4, low=-128, high=127, byte=byte) for byte in range(2))
DENSE = (compute(read_base=0, write_base=300, tiles=5, outer=6, words=20, read_outer=20, write_tile=1, in_parts=True),)
#: Rows of 12 words: the upper four, which are a state, move down to words 0 to 47 when all is computed.
MOVED = compute(operation=Operation.MAXIMUM, read_base=12, write_base=0, width=48, read_column=1, write_column=1,
                frame_width=48)
FILLS = (Fill(0, 17, -5), Fill(17, 3, None), Fill(20, 1, 100), Fill(21, 27, None))
SHIFTED = conv(height=5, width=6, words=2, base=0, to=100, tiles=2)
JOINED = (TWO[0], conv(height=3, width=6, words=1, base=40, to=60, tiles=2), TWO[1])
CASES = {
    "two convolutions": Case(SHAPE, TWO, (20, 8), (200, 6, 12), 4, 4),
    "one lane, odd channels": Case(SHAPE, TWO, (20, 5), (200, 6, 9), 1, 1, flip=True),
    "two outputs": Case(SHAPE, TWO, (20, 8), (200, 6, 12), 4, 4, second=(100, 20, 7)),
    "single port": Case(replace(SHAPE, single_port=True), TWO, (20, 6), (200, 6, 10), 2, 2),
    "two banks": Case(replace(SHAPE, single_port=True, banks=2, words=256),
                      (TWO[0], changed(TWO[1], write_base=150)), (20, 6), (150, 6, 10), 2, 2),
    "two rescalers": Case(replace(SHAPE, lanes=2, interval=1), TWO, (20, 8), (200, 6, 12), 4, 2),
    "four rescalers, rows one by one": Case(replace(SHAPE, lanes=4, interval=1, stream_rows=1), TWO, (20, 8),
                                            (200, 6, 12), 4, 4, flip=True),
    "eight columns": Case(replace(SHAPE, columns=8, lanes=2, stream_rows=2),
                          (conv(height=4, width=3, words=1, base=0, to=100, tiles=2),), (12, 3), (100, 12, 13), 3, 1),
    "maximum, depthwise, digits": Case(SHAPE, POOLED, (16, 8), (400, 1, 8), 4, 4),
    "windows that slide": Case(replace(SHAPE, windows=Sliding(3, 3)), SLIDING, (20, 8), (300, 2, 8), 4, 4),
    "windows that slide, eight columns": Case(
        replace(SHAPE, columns=8, lanes=4, interval=1, stream_rows=2, windows=Sliding(3, 3)), SLIDING, (20, 16),
        (300, 2, 13), 1, 1),
    "words by words, tables": Case(replace(SHAPE, products=True, tables=2), GATED, (12, 8), (400, 12, 8), 4, 4),
    "words by words, tables, single port": Case(
        replace(SHAPE, products=True, tables=2, single_port=True, lanes=2, interval=1, stream_rows=2), GATED, (12, 8),
        (400, 12, 7), 4, 1),
    "two bytes": Case(replace(SHAPE, wide=True), WIDE, (12, 8), (200, 12, 7), 4, 1, wide=True),
    "two bytes, single port": Case(replace(SHAPE, wide=True, single_port=True, lanes=4, interval=1), WIDE, (12, 8),
                                   (200, 12, 8), 4, 4, wide=True),
    "dense in parts": Case(SHAPE, DENSE, (120, 4), (300, 1, 18), 4, 2),
    "dense in parts, single port": Case(replace(SHAPE, single_port=True, stream_rows=1, buffer=32), DENSE, (120, 4),
                                        (300, 1, 18), 4, 2),
    "two turns, maximum, depthwise, digits": Case(replace(SHAPE, turns=2, stream_rows=1), POOLED, (16, 8),
                                                  (400, 1, 8), 4, 4),
    "two turns, windows that slide, eight columns": Case(
        replace(SHAPE, columns=8, lanes=4, interval=1, stream_rows=2, windows=Sliding(3, 3), turns=2), SLIDING,
        (20, 16), (300, 2, 13), 1, 1),
    "four turns, two outputs": Case(replace(SHAPE, lanes=4, interval=1, turns=4, stream_rows=1), TWO, (20, 8),
                                    (200, 6, 12), 4, 4, second=(100, 20, 7)),
    "two turns, dense in parts": Case(replace(SHAPE, buffer=32, turns=2, stream_rows=2), DENSE, (120, 4),
                                      (300, 1, 18), 4, 2),
    "two turns, two bytes": Case(replace(SHAPE, wide=True, turns=2, stream_rows=2), WIDE, (12, 8), (200, 12, 7), 4, 1,
                                 wide=True),
    # of two inputs, which come in while others are computed: as soon as their words are free, later, and not before
    **{f"two inputs, from step {opens}": Case(
        replace(SHAPE, lanes=lanes), JOINED, (20, 8), (200, 6, 12), 1 + bool(opens), 4, flip=opens > 3,
        other=(2, 40, 18, 3, 1 if opens == 4 else 3), opens=opens) for opens, lanes in ((0, 1), (4, 4), (5, 2))},
    "a state": Case(SHAPE, (SHIFTED,), (6, 8), (100, 30, 8), 4, 4, fills=FILLS[:1], after=(MOVED,), base=48),
    "a state, its first value from an image, two turns": Case(
        replace(SHAPE, turns=2, stream_rows=2), (SHIFTED,), (6, 8), (100, 30, 7), 1, 1, fills=FILLS, after=(MOVED,),
        base=48, flip=True),
    "a state, single port": Case(replace(SHAPE, single_port=True), (SHIFTED,), (6, 8), (100, 30, 8), 4, 4, fills=FILLS,
                                 after=(MOVED,), base=48, opens=4),
    "a state, frames come in early": Case(SHAPE, (changed(SHIFTED, read_base=-14 + 200), MOVED), (6, 8), (100, 30, 8),
                                          4, 4, fills=FILLS, base=248, opens=6),
    "an input that follows the one before": Case(
        replace(SHAPE, lanes=4, interval=1), (
            compute(read_base=0, write_base=100, tiles=2, height=1, width=20, read_column=2, read_tile=1, write_tile=1,
                    write_column=2), *(changed(TWO[0], read_base=100 - 10 + 100 * k, write_base=200 + 100 * k)
                                       for k in range(2))), (20, 8), (300, 20, 8), 4, 4, opens=2),
}
#: One of each structure.
OFTEN = ("two inputs, from step 4", "two banks", "two outputs", "words by words, tables", "windows that slide",
         "four rescalers, rows one by one", "two bytes", "maximum, depthwise, digits",
         "two turns, windows that slide, eight columns")
#: Of these, those that take a quarter of a minute.
LONG = ("two inputs, from step 4", "four rescalers, rows one by one", "two banks",
        "two turns, windows that slide, eight columns")
TIMINGS = (Timing(multiply=2), Timing(multiply=4, rom=3), Timing(multiply=1, rom=1, ram=1))


def made(case: Case, timing: Timing, streamed: bool, seed: int) -> tuple[SharedUnit, Program]:
    random = np.random.default_rng(seed)
    steps = case.steps
    constants = [constants_for(step, case.shape.columns, random) if isinstance(step, Compute) else None
                 for step in steps]
    for step, given in zip(steps, constants, strict=True):
        if isinstance(step, Compute) and step.weighting.slides and given is not None:
            given.weights[..., case.shape.windows.taps:] = 0
        elif isinstance(step, Compute) and step.output.byte is not None and given is not None:
            given.extra[:] = 1  # numbers of two bytes and more
        elif isinstance(step, Compute) and step.operation is Operation.PRODUCT and given is not None:
            given.weights[:, -1] = 0
        for load in steps:  # lanes without a channel hold anything
            if (isinstance(load, Load) and load.channels % case.shape.columns and isinstance(step, Compute)
                    and given is not None and np.isin(case.shape.words_of(load), step.reads[0][step.reads[1]]).any()):
                words = -(-load.channels // case.shape.columns)
                given.weights[:, words - 1::words, :, load.channels % case.shape.columns:] = 0
    tables = tuple(random.integers(-128, 128, 256) for _ in range(case.shape.tables))
    words = sum(fill.words for fill in case.fills if fill.value is None)
    image = random.integers(-128, 128, (words, case.shape.columns)) if words else None
    program = Program(case.shape, steps, tuple(constants), tables, case.opens, image)
    element = unsigned(8) if case.flip else signed(8)
    output = signed(16) if case.wide else element
    shape = SharedUnitShape(
        program=program, elements=(element,) * len(case.inputs), outputs=(output,) * len(case.stores),
        lanes_in=tuple(lanes for _, _, lanes in case.inputs.values()), lanes_out=tuple(case.lanes),
        streamed=streamed, style=RequantizerStyle.FABRIC, interval=Fraction(1) if streamed else None)
    return shape.build(Generic(timing=timing), "shared0"), program


def played(case: Case, timing: Timing, streamed: bool, stalls: tuple[float, float], seed: int = 0):
    """Runs some frames; compares output and writes with the model; gives the traces."""
    unit, program = made(case, timing, streamed, seed)
    random = np.random.default_rng(seed + 1)
    low = 0 if case.flip else -128
    frames = {name: [random.integers(low, low + 256, (pixels, channels)) for _ in range(FRAMES)]
              for name, (pixels, channels, _) in case.inputs.items()}
    outputs = []
    memory, all_written = program.filled()
    for k in range(FRAMES):
        made_of, written = program.model([each[k] for each in frames.values()], memory)
        outputs.append(made_of)
        all_written += written
    expected = [(each.step, word) for each in all_written for word in each.elements.tolist()]
    found = []

    async def watch(ctx):
        async for _, _, wrote in ctx.tick().sample(unit.wrote):
            if wrote.valid:
                found.append((wrote.step, [byte - 256 if byte > 127 else byte
                                           for byte in wrote.word.to_bytes(case.shape.columns, "little")]))

    sends = {name: np.concatenate(each).reshape(-1, case.inputs[name][2]) for name, each in frames.items()}
    if streamed:
        sends["weights"] = np.concatenate([program.beats()] * FRAMES)
    beats = {name: np.concatenate(each).reshape(-1, lanes)
             for name, lanes, each in zip(case.outputs, case.lanes, zip(*outputs, strict=True), strict=True)}
    traces = simulate(unit, sends=sends, receives={name: len(each) for name, each in beats.items()},
                      stall_in=stalls[0], stall_out=stalls[1], seed=seed, watchers=[watch], patience=20000)
    behind = sum(step.loops.blocks for step in case.after)  # the last beat of all comes before them
    assert len(expected) - behind <= len(found) <= len(expected)
    for number, (got, wanted) in enumerate(zip(found, expected, strict=False)):
        assert got == wanted, f"word {number}"
    for name, expected_beats in beats.items():
        assert np.array_equal(traces[name].beats, expected_beats)
    if stalls == (0.0, 0.0) or not streamed:  # when weights come late is not known
        times = unit.unit.play(unit.technology, *(traces[name].offered for name in frames),
                               left=[traces[name].cycles for name in case.outputs] if stalls[1] else None)
        exact = not program.shape.ahead  # else a bound: even and odd cycles of the queue are not known
        for name, taken in zip(frames, times.taken, strict=True):
            assert not exact or np.array_equal(traces[name].cycles, taken)
        for name, departures in zip(case.outputs, times.departures, strict=True):
            early = departures - traces[name].offered
            assert not early.any() if exact else (early.min() >= 0 and early[-1] < EARLY)
    return traces


def is_quick(name: str, streamed: bool) -> bool:
    """Each structure once: its weights from a ROM, or streamed."""
    return name in OFTEN and name not in LONG and OFTEN.index(name) % 2 == streamed


@pytest.mark.quick(3)
@pytest.mark.parametrize(("name", "streamed"), [
    pytest.param(name, streamed, marks=() if is_quick(name, streamed) else pytest.mark.slow)
    for name in CASES for streamed in (False, True)])
def test_values_order_of_writes_and_cycles(name, streamed):
    played(CASES[name], TIMINGS[0], streamed, (0.0, 0.0))
    played(CASES[name], TIMINGS[0], streamed, (0.5, 0.6), seed=3)


@pytest.mark.parametrize("stalls", [(0.0, 0.0), pytest.param((0.5, 0.6), marks=pytest.mark.slow)])
def test_weights_that_come_ahead(stalls):
    case = Case(replace(SHAPE, ahead=64, stream_rows=4, single_port=True, interval=1), TWO, (20, 8), (200, 6, 12), 4, 4)
    played(case, TIMINGS[0], True, stalls)


@pytest.mark.slow
@pytest.mark.parametrize("timing", TIMINGS[1:])
def test_other_latencies(timing):
    played(CASES["maximum, depthwise, digits"], timing, True, (0.0, 0.0))
    played(CASES["two rescalers"], timing, False, (0.3, 0.3))
    played(CASES["words by words, tables"], timing, False, (0.0, 0.0))


def test_a_reset_begins_a_new_sequence():
    """In the middle of a frame, when the memory holds other states."""
    unit, program = made(CASES["a state, frames come in early"], TIMINGS[0], False, 0)
    random = np.random.default_rng(5)
    frames = random.integers(-128, 128, (2, 12, 4))
    memory, _ = program.filled()
    expected = [program.model([frame], memory)[0][0].reshape(-1, 4).tolist() for frame in frames]
    reset = Signal()

    async def testbench(ctx):
        for beats in (5, 1):
            for frame, wanted in zip(frames, expected, strict=True):
                await send(ctx, frame)
                ctx.set(unit.o.ready, 1)
                assert [list((await ctx.tick().sample(unit.o.payload).until(unit.o.valid))[0])
                        for _ in wanted] == wanted
                ctx.set(unit.o.ready, 0)
            await send(ctx, random.integers(-128, 128, (beats, 4)))
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    async def send(ctx, beats):
        ctx.set(unit.i.valid, 1)
        for beat in beats.tolist():
            ctx.set(unit.i.payload, beat)
            await ctx.tick().until(unit.i.ready)
        ctx.set(unit.i.valid, 0)

    sim = simulator(ResetInserter(reset)(unit))
    sim.add_testbench(testbench)
    sim.run()
