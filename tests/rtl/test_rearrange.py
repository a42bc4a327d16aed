"""Words in another order: the stage against plain loops, its pace, its times, its ring and its tables."""

import re
from itertools import pairwise

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import signed, unsigned
from amaranth.utils import ceil_log2
from hwflow_rtl.rearrange import rearrange
from hwflow_rtl.rearrange.rearrange import RearrangeStageShape
from hwflow_rtl.rearrange.shape import RearrangeShape
from hwflow_rtl.rearrange.walk import WalkerShape
from hwflow_rtl.vendor import ECP5, Generic, Gowin, Timing

from hwflow.layers import Frame, IntFormat, LayerGraph, Rearrange, Tensor
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rearrange import Offsets, depth_to_space, picked, space_to_depth, transposed
from hwflow.stages.codes import codes_of
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.random_cases import seeds
from tests.rtl.harness import layout_of, pack, simulate

LANES = 2
INT8 = signed(8)
PADDING = -5


def padded(size: int, before: int, after: int, mode: str = "constant") -> np.ndarray:
    """Indices of a padded axis; -1 is constant padding."""
    return np.pad(np.arange(size), (before, after), mode, **({"constant_values": -1} if mode == "constant" else {}))


def up(size: int, factor: int) -> np.ndarray:
    return np.repeat(np.arange(size), factor)


FRAME = Frame(4, 6, 4)
DEEP = Frame(4, 6, 8)
WIDE = Frame(5, 10, 4)
#: Each with the most lanes.
OPERATIONS = {
    "resize x2": (FRAME, picked(FRAME, up(4, 2), up(6, 2)), 4),
    "resize x3, rows alone": (FRAME, picked(FRAME, up(4, 3)), 4),
    "resize 5 to 8": (WIDE, picked(WIDE, np.arange(8) * 5 // 8, np.arange(16) * 10 // 16), 4),
    "resize 10 to 24": (Frame(3, 10, 2), picked(Frame(3, 10, 2), columns=np.arange(24) * 10 // 24), 2),
    "depth to space 2": (DEEP, depth_to_space(DEEP, 2), 2),
    "depth to space 2, CRD": (DEEP, depth_to_space(DEEP, 2, channels_first=True), 1),
    "depth to space 3": (Frame(2, 3, 18), depth_to_space(Frame(2, 3, 18), 3), 2),
    "space to depth 2": (FRAME, space_to_depth(FRAME, 2), 4),
    "space to depth 3": (Frame(3, 6, 2), space_to_depth(Frame(3, 6, 2), 3), 2),
    "crop": (FRAME, picked(FRAME, range(1, 3), range(2, 5)), 4),
    "every second": (FRAME, picked(FRAME, range(1, 4, 2), range(0, 6, 2)), 4),
    "backwards": (WIDE, picked(WIDE, range(4, -1, -2), range(9, 2, -3)), 4),
    "channels": (DEEP, picked(DEEP, channels=[4, 5, 0, 1]), 2),
    "channels in order": (DEEP, picked(DEEP, channels=[0, 1, 6, 7]), 2),
    "shuffle": (DEEP, picked(DEEP, channels=np.arange(8).reshape(2, 4).T.reshape(-1)), 1),
    "vector": (Frame(1, 1, 48), picked(Frame(1, 1, 48), channels=np.random.default_rng(0).permutation(48)), 1),
    "pad": (DEEP, picked(DEEP, padded(4, 1, 2), padded(6, 3, 0), padded(8, 0, 4)), 4),
    "crop and pad": (FRAME, picked(FRAME, [-1, 2, 3, -1], [5, 4, -1, -1]), 4),
    "reflect": (FRAME, picked(FRAME, padded(4, 3, 1, "reflect"), padded(6, 2, 2, "reflect")), 4),
    "edge": (FRAME, picked(FRAME, padded(4, 3, 1, "edge"), padded(6, 0, 2, "edge")), 4),
    "nothing but padding": (FRAME, picked(FRAME, [-1, -1], [0, 3]), 4),
    "one word": (FRAME, picked(FRAME, [2], [1]), 4),
    "as it is": (FRAME, picked(FRAME), 4),
    **{f"axes {axes}": (FRAME, transposed(FRAME, axes), 4 if axes[2] == 2 else 1)
       for axes in ((0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))},
}
#: Long transposes of single elements are of one structure; one of them stands for all among the quick tests.
LONG = ("axes (2, 1, 0)", "axes (2, 0, 1)", "axes (0, 2, 1)", "depth to space 2, CRD", "depth to space 3")
QUICK = [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in OPERATIONS]
STALLS = [(0.3, 0.5), *(pytest.param(*stalls, marks=pytest.mark.slow) for stalls in ((0.7, 0), (0, 0.7)))]
#: What half of the ring is too small for even without a pause; all others only take longer.
HALF_STOPS = ("resize x2", "resize x3, rows alone", "resize 5 to 8", "depth to space 2", "depth to space 2, CRD",
              "depth to space 3", "space to depth 3", "backwards", "reflect", "edge", "axes (1, 0, 2)")
TIMINGS = [pytest.param(Timing(multiply=3, ram=ram, rom=rom), id=f"ram {ram}, rom {rom}",
                        marks=[] if ram == 2 else [pytest.mark.slow]) for ram, rom in ((2, 2), (1, 3), (3, 1))]
LONG_WAITS = [pytest.param(name, *stalls, marks=[] if name == "one word" else [pytest.mark.slow])
              for name in ("one word", "resize x2", "resize 5 to 8", "pad", "axes (1, 0, 2)")
              for stalls in ((0.98, 0), (0, 0.98))]


def naive(frames: np.ndarray, offsets: Offsets, padding: int) -> np.ndarray:
    """Frames [n, h, w, c] element by element, [n, out_h, out_w, out_c]."""
    return np.array([[[[
        padding if -1 in (r, c, k) else int(frame.reshape(-1)[r + c + k])
        for k in offsets.channels] for c in offsets.columns] for r in offsets.rows] for frame in frames])


def unit_of(frame: Frame, offsets: Offsets, lanes: int, technology=None, element=INT8):
    shape = RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)
    unit = RearrangeStageShape(name="move", order=shape, element=element, lanes=lanes, padding=PADDING)
    return unit.build(technology or Generic(), "move")


def frames_of(frame: Frame, count: int) -> np.ndarray:
    source = np.random.default_rng(frame.elements)
    return source.integers(-128, 128, (count, frame.height, frame.width, frame.channels))


@pytest.mark.quick(7)
@pytest.mark.parametrize(("stall_in", "stall_out"), STALLS)
@pytest.mark.parametrize("name", QUICK)
def test_moves_under_stalls(name, stall_in, stall_out):
    frame, offsets, lanes = OPERATIONS[name]
    stage, frames = unit_of(frame, offsets, lanes), frames_of(frame, 2)
    expected = naive(frames, offsets, PADDING).reshape(-1, lanes)
    traces = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": len(expected)}, stall_in=stall_in,
                      stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, expected)
    assert np.array_equal(stage.model(frames), expected)


@pytest.mark.parametrize(("name", "stall_in", "stall_out"), LONG_WAITS)
def test_waits_long(name, stall_in, stall_out):
    frame, offsets, lanes = OPERATIONS[name]
    stage, frames = unit_of(frame, offsets, lanes), frames_of(frame, 1)
    traces = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": stage.shape.order.output_words},
                      stall_in=stall_in, stall_out=stall_out)
    assert np.array_equal(traces["o"].beats, naive(frames, offsets, PADDING).reshape(-1, lanes))


@pytest.mark.quick(7)
@pytest.mark.parametrize("timing", TIMINGS)
@pytest.mark.parametrize("name", QUICK)
def test_keeps_pace(name, timing):
    """Frames follow each other at the stated interval, each beat at the stated time."""
    frame, offsets, lanes = OPERATIONS[name]
    stage, frames = unit_of(frame, offsets, lanes, Generic(timing=timing)), frames_of(frame, 3)
    words = stage.shape.order.output_words
    traces = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": 3 * words})
    ends = traces["o"].cycles[words - 1::words]
    assert ends[2] - ends[1] == stage.shape.cycles
    times = stage.shape.times(stage.technology, np.arange(3 * stage.shape.order.input_words))
    assert np.array_equal(times.taken[0], traces["i"].cycles)
    assert np.array_equal(times.departures, traces["o"].cycles)


def test_a_word_alone_passes_in_the_latency():
    frame = Frame(1, 1, 2)
    stage = unit_of(frame, picked(frame), 2)
    traces = simulate(stage, sends={"i": [[1, 2]]}, receives={"o": 1})
    assert traces["o"].cycles[0] - traces["i"].cycles[0] == 1 + stage.shape.latency(stage.technology)


def arriving(stage, frames: np.ndarray, arrivals: np.ndarray):
    """The cycles in which beats are taken and given, where each arrives as `arrivals` says, or behind those before."""
    shape, lanes = layout_of(stage.i)
    words = [pack(beat, shape) for beat in frames.reshape(-1, lanes)]
    taken: list[int] = []

    async def feed(ctx):
        cycle = 0
        for word, arrival in zip(words, arrivals.tolist(), strict=True):
            if arrival > cycle:
                await ctx.tick().repeat(arrival - cycle)
                cycle = arrival
            ctx.set(stage.i.payload.as_value(), word)
            ctx.set(stage.i.valid, 1)
            ready = False
            while not ready:
                _, _, ready = await ctx.tick().sample(stage.i.ready)
                cycle += 1
            taken.append(cycle - 1)
            ctx.set(stage.i.valid, 0)

    count = len(frames) * stage.shape.order.output_words
    trace = simulate(stage, sends={}, receives={"o": count}, testbenches=[feed])["o"]
    return np.array(taken), trace.cycles


@pytest.mark.quick(7)
@pytest.mark.parametrize("name", QUICK)
def test_times_are_exact(name):
    frame, offsets, lanes = OPERATIONS[name]
    stage, frames = unit_of(frame, offsets, lanes), frames_of(frame, 2)
    source = np.random.default_rng(len(name))
    arrivals = np.cumsum(source.choice([1, 2, 3, 30], 2 * stage.shape.order.input_words, p=[0.85, 0.1, 0.04, 0.01]))
    taken, given = arriving(stage, frames, arrivals)
    times = stage.shape.times(stage.technology, arrivals)
    assert np.array_equal(times.taken[0], taken)
    assert np.array_equal(times.departures, given)


def just_the_words(words: int, width: int, technology) -> tuple[int, ...]:
    return (words,)


def in_two(words: int, width: int, technology) -> tuple[int, ...]:
    """Three quarters of a power of two or half of it, and the others."""
    whole = 1 << ceil_log2(words)
    first = next((n for n in (whole // 4 * 3, whole // 2) if 0 < n < words), 0)
    return (first, words - first) if first else (words,)


def random_shape(source: np.random.Generator) -> RearrangeShape:
    """Tables in any order, in order, or all entries once, some of them padding."""
    cuts, tables = source.integers(0, 10, 3), []
    for cut in cuts:
        table = source.integers(0, cut + 1, source.integers(1, 7))
        table = [table, np.sort(table), np.arange(cut + 1)][source.integers(3)]
        tables.append(np.where(source.random(len(table)) < 0.15 * source.integers(2), -1, table))
    return RearrangeShape(input_words=int(cuts.sum() + 1 + source.integers(0, 12)), rows=tables[0], columns=tables[1],
                          groups=tables[2])


def addresses_of(shape: RearrangeShape) -> list[int | None]:
    """The input word of each output word, one by one; None is padding."""
    return [None if -1 in (r, c, g) else int(r + c + g)
            for r in shape.rows for c in shape.columns for g in shape.groups]


@seeds(quick=[0], slow=range(1, 6))
def test_steps_lead_to_the_words_and_free_no_word_that_is_wanted(seed):
    source, found = np.random.default_rng(seed), 0
    while found < 150:
        shape = random_shape(source)
        if any((table < 0).all() for table in (shape.rows, shape.columns, shape.groups)):
            continue
        found += 1
        expected = addresses_of(shape)
        assert [None if outside else int(address) for address, outside in zip(
            shape.addresses, shape.outside, strict=True)] == expected
        real = [address for address in expected if address is not None]
        for k, wanted in enumerate(shape.wanted.tolist()):
            later = [a for a in expected[k:] if a is not None]
            assert wanted <= min([*later, shape.input_words + min(real)])
        assert shape.freed.min() >= 0
        assert shape.steps.sum() == shape.freed.sum() == shape.input_words


@seeds(quick=[0], slow=range(1, 36))
def test_any_tables(seed, monkeypatch):
    if seed % 3:
        monkeypatch.setattr(rearrange, "ring_parts", (just_the_words, in_two)[seed % 3 - 1])
    source = np.random.default_rng([seed, 1])
    shapes = (random_shape(source) for _ in range(100))
    shape = next(s for s in shapes if 3 < s.output_words < 300 and not any((t < 0).all() for t in (s.rows, s.columns)))
    timing = Timing(multiply=3, ram=int(source.integers(1, 4)), rom=int(source.integers(1, 4)))
    stage = RearrangeStageShape(order=shape, element=INT8, lanes=LANES, padding=PADDING).build(
        Generic(timing=timing), "move")
    frames = source.integers(-128, 128, (4, 1, shape.input_words, LANES))
    words = frames.reshape(4, -1, LANES)
    expected = np.array([[PADDING] * LANES if a is None else frame[a] for frame in words for a in addresses_of(shape)])
    assert np.array_equal(stage.model(frames), expected)
    for stalls in ((0, 0), (0.4, 0.4)):
        trace = simulate(stage, sends={"i": frames.reshape(-1, LANES)}, receives={"o": len(expected)},
                         stall_in=stalls[0], stall_out=stalls[1], seed=seed)["o"]
        assert np.array_equal(trace.beats, expected)
        if stalls == (0, 0):
            ends = trace.cycles[shape.output_words - 1::shape.output_words]
            assert (np.diff(ends[1:]) == shape.cycles()).all()


def with_half_a_ring(name: str, monkeypatch) -> int:
    """Cycles of the last of three frames more than with the whole ring."""
    frame, offsets, lanes = OPERATIONS[name]
    whole = RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)
    half = (1 << ceil_log2(whole.ring_words)) // 2
    monkeypatch.setattr(rearrange, "ring_parts", lambda words, width, technology: (half,))
    words, frames = whole.output_words, frames_of(frame, 3).reshape(-1, lanes)
    trace = simulate(unit_of(frame, offsets, lanes), sends={"i": frames}, receives={"o": 3 * words}, patience=200)["o"]
    return trace.cycles[-1] - trace.cycles[-1 - words] - whole.cycles()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in (*HALF_STOPS, *LONG)])
def test_half_the_ring_takes_longer(name, monkeypatch):
    assert with_half_a_ring(name, monkeypatch) > 0


@pytest.mark.parametrize("name", HALF_STOPS)
def test_half_the_ring_stops(name, monkeypatch):
    with pytest.raises(AssertionError, match="no beat for 200 cycles"):
        with_half_a_ring(name, monkeypatch)


@pytest.mark.quick(7)
@pytest.mark.parametrize(("name", "parts"), [
    pytest.param(name, parts, marks=[pytest.mark.slow] if name in LONG or (k + j) % 2 else [])
    for k, name in enumerate(OPERATIONS) for j, parts in enumerate([just_the_words, in_two])])
def test_a_ring_of_just_the_words_that_it_needs(name, parts, monkeypatch):
    """No power of two: the same values at the same pace, and under stalls."""
    monkeypatch.setattr(rearrange, "ring_parts", parts)
    frame, offsets, lanes = OPERATIONS[name]
    frames = frames_of(frame, 3)
    expected = naive(frames, offsets, PADDING).reshape(-1, lanes)
    for stall in (0.0, 0.4):
        stage = unit_of(frame, offsets, lanes)
        trace = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": len(expected)}, stall_in=stall,
                         stall_out=stall)["o"]
        assert np.array_equal(trace.beats, expected)
        if not stall:
            times = stage.shape.times(stage.technology, np.arange(3 * stage.shape.order.input_words))
            assert np.array_equal(times.departures, trace.cycles)
            assert trace.cycles[-1] - trace.cycles[-1 - stage.shape.order.output_words] == stage.shape.cycles


RINGS = {  # words of the ring and entries of the tables of groups, columns, rows
    "crop": (2, (1, 1, 2)), "every second": (2, (1, 1, 1)), "as it is": (2, (1, 1, 1)), "channels": (8, (1, 1, 1)),
    "resize x2": (8, (1, 2, 2)), "axes (1, 0, 2)": (32, (1, 1, 2)), "depth to space 2": (32, (1, 2, 2)),
    "resize 5 to 8": (16, (1, 8, 8)),
}


@pytest.mark.parametrize("name", RINGS)
def test_ring_and_tables_are_small(name):
    frame, offsets, lanes = OPERATIONS[name]
    shape = RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)
    tables = WalkerShape(order=shape).tables
    assert (1 << ceil_log2(shape.ring_words), tuple(table.size for table in tables)) == RINGS[name]


@pytest.mark.parametrize("family", [ECP5, Gowin])
def test_blocks_are_counted(family):
    frame, technology = Frame(40, 32, 8), family()
    offsets = picked(frame, np.random.default_rng(0).integers(0, 40, 200), up(32, 2))
    text = rtlil.convert(unit_of(frame, offsets, 8, technology))
    kinds = re.findall(r"^ *cell \\(\w+) ", text, re.MULTILINE)
    shape = RearrangeShape.of(*offsets, elements=frame.elements, lanes=8)
    cost = RearrangeStageShape(order=shape, element=INT8, lanes=8, padding=0).cost(technology)
    assert cost.ram == sum(kind in ("DP16KD", "pROM", "pROMX9", "SDPB", "SDPX9B") for kind in kinds) > 2
    assert cost.dsp == 0


FORMATS = [BIPOLAR, IntFormat(32, False), *(
    pytest.param(IntFormat(bits, signed), marks=pytest.mark.slow)
    for bits in (1, 2, 7, 8, 16, 32) for signed in (True, False) if signed or bits < 32)]


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_layer_in_hardware(format):
    """The golden integers, their codes, and every folding's stage."""
    source = np.random.default_rng(format.bits)
    offsets, frame = picked(DEEP, padded(4, 1, 0), [5, 0, 1], [4, 5, 6, 7, 2, 3]), DEEP
    layer = Rearrange("move", ("x",), "y", format, *offsets, format.low)
    tensors = {"x": Tensor("x", frame, format, 0.5, 0), "y": Tensor("y", offsets.frame, format, 0.5, 0)}
    graph = LayerGraph("one", tensors, (layer,), ("x",), ("y",))
    graph.check()
    assert [*stage_of(graph, layer).foldings()] == [Folding(1, 1, 1), Folding(1, 2, 2)]
    assert stage_of(graph, layer).hardware_problem() is None
    frames = format.low + format.step * source.integers(0, (format.high - format.low) // format.step + 1, (2, 4, 6, 8))
    golden = layer.evaluate(graph, frames)
    assert np.array_equal(golden, naive(frames, offsets, format.low))
    for folding in stage_of(graph, layer).foldings():
        unit, lanes = stage_of(graph, layer).unit(folding, Generic()), folding.lanes
        expected = codes_of(golden, format).reshape(-1, lanes)
        sent = codes_of(frames, format).reshape(-1, lanes)
        traces = simulate(unit, sends={"i": sent}, receives={"o": len(expected)}, stall_in=0.2, stall_out=0.2)
        assert np.array_equal(traces["o"].beats, expected)
        assert stage_of(graph, layer).schedule(folding, REFERENCE).interval == unit.shape.cycles


def test_names_what_no_device_holds():
    frame = Frame(512, 512, 4)
    layer = Rearrange("turn", ("x",), "y", IntFormat(8, True), *transposed(frame, (1, 0, 2)), 0)
    tensors = {name: Tensor(name, frame, IntFormat(8, True), 1.0, 0) for name in "xy"}
    problem = stage_of(LayerGraph("one", tensors, (layer,), ("x",), ("y",)), layer).hardware_problem()
    assert problem == ("the elements that wait for their place in the output must fit 3833856 bits, the block RAM of "
                       "the largest device, not 16711808 (2088976 elements)")


@pytest.mark.parametrize(("tables", "lanes", "message"), [
    (([0, 8], [0, 4], [0, 1, 2]), 2, "lanes must divide the 3 output channels, not be 2"),
    (([0, 8], [0, 4], [0, 1, 3, 2]), 2, "lanes must be such that channels move in words of neighbours, not 2"),
    (([0, 8], [0, 3], [0, 1]), 2, "lanes must be such that words of the output are words of the input, not 2"),
    (([0, 8], [1, 3], [0, 1]), 2, "lanes must be such that words of the output are words of the input, not 2"),
    (([0, 8], [0, 4], [0, 1, -1, 2]), 2, "lanes must be such that channels move in words of neighbours, not 2"),
])
def test_refuses_lanes(tables, lanes, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RearrangeShape.of(*(np.array(table) for table in tables), elements=16, lanes=lanes)


@pytest.mark.parametrize(("change", "message"), [
    ({"rows": np.array([0, -2])}, "rows of a RearrangeShape must be words, or -1 for padding, and at least one"),
    ({"columns": np.array([], dtype=np.int64)}, "columns of a RearrangeShape must be words"),
    ({"groups": np.array([7])}, "rows, columns and groups of a RearrangeShape must lead to one of the 8 words of a "
                                "frame, not to word 8"),
])
def test_refuses_tables(change, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RearrangeShape(**{"input_words": 8, "rows": np.array([1]), "columns": np.array([0]), "groups": np.array([0]),
                          **change})


def test_refuses_padding():
    with pytest.raises(ValueError, match="padding of rearrangement 'move' must be from 0 to 255, not -5"):
        unit_of(FRAME, picked(FRAME), 1, element=unsigned(8))


def test_descriptions_come_in_order_from_reset_on():
    """Also where a frame has fewer words than descriptions stand ready."""
    for name in ("one word", "nothing but padding", "resize 10 to 24"):
        frame, offsets, lanes = OPERATIONS[name]
        shape = RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)
        stage = unit_of(frame, offsets, lanes, Generic(timing=Timing(multiply=3, rom=3)))
        frames = frames_of(frame, 6)
        trace = simulate(stage, sends={"i": frames.reshape(-1, lanes)}, receives={"o": 6 * shape.output_words})["o"]
        assert np.array_equal(trace.beats, naive(frames, offsets, PADDING).reshape(-1, lanes))
        assert all(a < b for a, b in pairwise(trace.cycles.tolist()))
