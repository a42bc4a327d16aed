"""Words in another order: the stage against plain loops, its pace, its times, its ring and its tables."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.back import rtlil
from amaranth.hdl import signed, unsigned
from amaranth.utils import ceil_log2
from hwflow_rtl.rearrange import rearrange
from hwflow_rtl.rearrange.rearrange import RearrangeStageShape, Ring, RingShape, counters_of, ring_parts
from hwflow_rtl.rearrange.selection import SelectionShape, SelectionStage
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
from tests.rtl.harness import run, simulate
from tests.rtl.units import ask

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
#: What half of the ring is too small for even without a pause; all others only take longer.
HALF_STOPS = ("resize x2", "resize x3, rows alone", "resize 5 to 8", "depth to space 2", "depth to space 2, CRD",
              "depth to space 3", "space to depth 3", "backwards", "reflect", "edge", "axes (1, 0, 2)")
#: Words that pass in order, without a ring.
IN_ORDER = ("crop", "every second", "channels in order", "one word", "as it is")
TIMINGS = [Timing(multiply=3, ram=ram, rom=rom) for ram, rom in ((1, 3), (2, 2), (3, 1))]


def naive(frames: np.ndarray, offsets: Offsets, padding: int) -> np.ndarray:
    """Frames [n, h, w, c] element by element, [n, out_h, out_w, out_c]."""
    return np.array([[[[
        padding if -1 in (r, c, k) else int(frame.reshape(-1)[r + c + k])
        for k in offsets.channels] for c in offsets.columns] for r in offsets.rows] for frame in frames])


def order_of(name: str) -> RearrangeShape:
    frame, offsets, lanes = OPERATIONS[name]
    return RearrangeShape.of(*offsets, elements=frame.elements, lanes=lanes)


def stage_shape(order: RearrangeShape, lanes: int, element=INT8) -> RearrangeStageShape:
    return RearrangeStageShape(name="move", order=order, element=element, lanes=lanes, padding=PADDING)


def frames_of(frame: Frame, count: int) -> np.ndarray:
    source = np.random.default_rng(frame.elements)
    return source.integers(-128, 128, (count, frame.height, frame.width, frame.channels))


def just_the_words(words: int, width: int, technology) -> tuple[int, ...]:
    return (words,)


def in_two(words: int, width: int, technology) -> tuple[int, ...]:
    """Three quarters of a power of two or half of it, and the others."""
    whole = 1 << ceil_log2(words)
    first = next((n for n in (whole // 4 * 3, whole // 2) if 0 < n < words), 0)
    return (first, words - first) if first else (words,)


#: With the ring that the technology makes, and with those that are no power of two.
RINGS_OF = {"whole": None, "just the words": just_the_words, "in two": in_two}


@pytest.mark.quick(14)
@pytest.mark.parametrize(("name", "ring"), [
    pytest.param(name, ring, marks=[pytest.mark.slow] if name in LONG or (j and (k + j) % 2) else [])
    for k, name in enumerate(OPERATIONS) for j, ring in enumerate(RINGS_OF)])
def test_every_operation(name, ring, monkeypatch):
    """All that a unit is asked.  Descriptions come in order also where a frame has fewer words than stand ready."""
    if RINGS_OF[ring]:
        monkeypatch.setattr(rearrange, "ring_parts", RINGS_OF[ring])
    frame, offsets, lanes = OPERATIONS[name]
    seed, frames = list(OPERATIONS).index(name), frames_of(frame, 6 if name in ("one word", "resize 10 to 24") else 3)
    technology = Generic(timing=TIMINGS[0 if len(frames) > 3 else seed % 3])
    ask(stage_shape(order_of(name), lanes), technology, [frames], naive(frames, offsets, PADDING).reshape(-1, lanes),
        seed=seed)


@pytest.mark.parametrize("name", IN_ORDER)
def test_a_selection(name):
    """Words in order need no ring."""
    frame, offsets, lanes = OPERATIONS[name]
    frames = frames_of(frame, 3)
    ask(SelectionShape(name="select", order=order_of(name), element=INT8, lanes=lanes), Generic(), [frames],
        naive(frames, offsets, PADDING).reshape(-1, lanes), seed=list(OPERATIONS).index(name))


def test_a_word_alone_passes_in_the_latency():
    stage = stage_shape(RearrangeShape.of(*picked(Frame(1, 1, 2)), elements=2, lanes=2), 2)
    assert stage.times(Generic(), np.arange(1)).departures == [1 + stage.latency(Generic())]


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
    frames = source.integers(-128, 128, (4, 1, shape.input_words, LANES))
    words = frames.reshape(4, -1, LANES)
    expected = np.array([[PADDING] * LANES if a is None else frame[a] for frame in words for a in addresses_of(shape)])
    ask(stage_shape(shape, LANES), Generic(timing=timing), [frames], expected, seed=seed)


def with_half_a_ring(name: str, monkeypatch) -> int:
    """Cycles of the last of three frames more than with the whole ring."""
    frame, _, lanes = OPERATIONS[name]
    whole = order_of(name)
    half = (1 << ceil_log2(whole.ring_words)) // 2
    monkeypatch.setattr(rearrange, "ring_parts", lambda words, width, technology: (half,))
    words, frames = whole.output_words, frames_of(frame, 3).reshape(-1, lanes)
    unit = stage_shape(whole, lanes).build(Generic(), "move")
    trace = simulate(unit, sends={"i": frames}, receives={"o": 3 * words}, patience=200)["o"]
    return trace.cycles[-1] - trace.cycles[-1 - words] - whole.cycles()


@pytest.mark.parametrize("name", [name for name in OPERATIONS if name not in (*HALF_STOPS, *LONG)])
def test_half_the_ring_takes_longer(name, monkeypatch):
    assert with_half_a_ring(name, monkeypatch) > 0


@pytest.mark.parametrize("name", HALF_STOPS)
def test_half_the_ring_stops(name, monkeypatch):
    with pytest.raises(AssertionError, match="no beat for 200 cycles"):
        with_half_a_ring(name, monkeypatch)


RINGS = {  # words of the ring and entries of the tables of groups, columns, rows
    "crop": (2, (1, 1, 2)), "every second": (2, (1, 1, 1)), "as it is": (2, (1, 1, 1)), "channels": (8, (1, 1, 1)),
    "resize x2": (8, (1, 2, 2)), "axes (1, 0, 2)": (32, (1, 1, 2)), "depth to space 2": (32, (1, 2, 2)),
    "resize 5 to 8": (16, (1, 8, 8)),
}


@pytest.mark.parametrize("name", RINGS)
def test_ring_and_tables_are_small(name):
    shape = order_of(name)
    tables = WalkerShape(order=shape).tables
    assert (1 << ceil_log2(shape.ring_words), tuple(table.size for table in tables)) == RINGS[name]


@pytest.mark.parametrize("family", [ECP5, Gowin])
def test_blocks_are_counted(family):
    frame, technology = Frame(40, 32, 8), family()
    offsets = picked(frame, np.random.default_rng(0).integers(0, 40, 200), up(32, 2))
    shape = stage_shape(RearrangeShape.of(*offsets, elements=frame.elements, lanes=8), 8)
    kinds = re.findall(r"^ *cell \\(\w+) ", rtlil.convert(shape.build(technology, "move")), re.MULTILINE)
    cost = shape.cost(technology)
    assert cost.ram == sum(kind in ("DP16KD", "SDPB", "SDPX9B") for kind in kinds) > 2
    assert cost.dsp == 0


FORMATS = [BIPOLAR, IntFormat(32, False), *(
    pytest.param(IntFormat(bits, signed), marks=pytest.mark.slow)
    for bits in (1, 2, 7, 8, 16, 32) for signed in (True, False) if signed or bits < 32)]


@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_layer_in_hardware(format):
    """The golden integers, their codes, and every folding's stage."""
    source = np.random.default_rng(format.bits)
    offsets = picked(DEEP, padded(4, 1, 0), [5, 0, 1], [4, 5, 6, 7, 2, 3])
    graph = graph_of(offsets, DEEP, format, format.low)
    layer, stage = graph.layers[0], stage_of(graph, graph.layers[0])
    assert [*stage.foldings()] == [Folding(1, 1, 1), Folding(1, 2, 2)]
    assert stage.hardware_problem() is None
    frames = format.low + format.step * source.integers(0, (format.high - format.low) // format.step + 1, (3, 4, 6, 8))
    golden = layer.evaluate(graph, frames)
    assert np.array_equal(golden, naive(frames, offsets, format.low))
    for folding in stage.foldings():
        shape = stage.unit(folding, Generic()).shape
        ask(shape, Generic(), [codes_of(frames, format)], codes_of(golden, format).reshape(-1, folding.lanes))
        assert stage.schedule(folding, REFERENCE).interval == shape.cycles


def test_names_what_no_device_holds():
    frame = Frame(512, 512, 4)
    graph = graph_of(transposed(frame, (1, 0, 2)), frame, IntFormat(8, True), 0)
    problem = stage_of(graph, graph.layers[0]).hardware_problem()
    assert problem == ("the elements that wait for their place in the output must fit 3833856 bits, the block RAM of "
                       "the largest device, not 16711808 (2088976 elements)")


WORDS = "lanes must be such that words of the output are words of the input, not 2"
NEIGHBOURS = "lanes must be such that channels move in words of neighbours, not 2"


@pytest.mark.parametrize(("tables", "message"), [
    (([0, 8], [0, 4], [0, 1, 2]), "lanes must divide the 3 output channels, not be 2"),
    (([0, 8], [0, 4], [0, 1, 3, 2]), NEIGHBOURS), (([0, 8], [0, 4], [0, 1, -1, 2]), NEIGHBOURS),
    (([0, 8], [0, 3], [0, 1]), WORDS), (([0, 8], [1, 3], [0, 1]), WORDS)])
def test_refuses_lanes(tables, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        RearrangeShape.of(*(np.array(table) for table in tables), elements=16, lanes=2)


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
        stage_shape(order_of("as it is"), 4, unsigned(8))


def test_only_words_in_order_are_a_selection():
    assert {name for name in OPERATIONS if order_of(name).in_order} == set(IN_ORDER)
    with pytest.raises(ValueError, match="words of selection 'select' must pass in order, each once"):
        SelectionShape(name="select", order=order_of("resize x2"), element=INT8, lanes=4)


def graph_of(offsets: Offsets, frame: Frame, format: IntFormat, padding: int) -> LayerGraph:
    layer = Rearrange("move", ("x",), "y", format, *offsets, padding)
    tensors = {"x": Tensor("x", frame, format, 0.5, 0), "y": Tensor("y", offsets.frame, format, 0.5, 0)}
    graph = LayerGraph("one", tensors, (layer,), ("x",), ("y",))
    graph.check()
    return graph


def test_a_crop_takes_no_memory():
    """The layer chooses the cheaper stage; its RAM is the description's alone."""
    frame = Frame(64, 64, 8)
    graph = graph_of(picked(frame, range(3, 60), range(1, 64, 3), range(4)), frame, IntFormat(8, True), 0)
    stage, folding = stage_of(graph, graph.layers[0]), Folding(1, 4, 4)
    unit = stage.unit(folding, ECP5())
    assert isinstance(unit, SelectionStage)
    assert stage.cost(folding, ECP5()).ram == 0
    assert stage.schedule(folding, REFERENCE).interval == unit.shape.cycles == 64 * 64 * 2
    arrivals = np.arange(64 * 64 * 2)
    times = stage.times(folding, ECP5(), arrivals)
    assert np.array_equal(times.taken[0], arrivals)
    assert times.departures[0] == 3 * 64 * 2 + 2 + unit.shape.LATENCY


# The memories of the ring of a `RearrangeStage`: which they are, and that they are one


@pytest.mark.parametrize(("words", "width", "parts", "blocks"), [
    (5000, 1, (8192,), 1), (8192, 36, (8192,), 16), (5000, 36, (4096, 904), 10), (6272, 64, (6144, 128), 26),
    (12544, 64, (12288, 256), 50), (4200, 64, (4096, 104), 18), (94088, 8, (94088,), 48), (3136, 64, (3072, 64), 14)])
def test_a_ring_is_no_power_of_two_where_that_saves_blocks(words: int, width: int, parts: tuple[int, ...],
                                                           blocks: int) -> None:
    """Of an ECP5: 2048 x 9, 1024 x 18 or 512 x 36 bits, and up to four of them one after the other."""
    assert ring_parts(words, width, ECP5()) == parts
    assert sum(ECP5().ram_cost(width=width, depth=depth).ram for depth in parts) == blocks


@pytest.mark.quick(6)
@pytest.mark.parametrize("latency", [1, 2, 3])
@pytest.mark.parametrize("parts", [(8,), (7,), (6, 1), (6, 2), (4, 3), (2, 1)])
def test_two_memories_are_one(parts: tuple[int, ...], latency: int) -> None:
    """What is read is what was written last, whatever is written elsewhere."""
    ring = Ring(shape=RingShape(width=8, parts=parts), technology=Generic(timing=Timing(multiply=1, ram=latency)),
                name="ring")
    rng, depth = np.random.default_rng(latency), sum(parts)
    words, asked = [0] * depth, []

    async def drive(ctx):
        for _ in range(300):
            write, read, data, enable = (int(n) for n in rng.integers(0, (depth, depth, 256, 2)))
            enable &= write != read
            for port, value in ((ring.write_addr, write), (ring.read_addr, read), (ring.write_data, data),
                                (ring.write_en, enable)):
                ctx.set(port, value)
            asked.append(words[read])
            if enable:
                words[write] = data
            given = (await ctx.tick().sample(ring.read_data))[-1]
            if len(asked) > latency:
                assert given == asked[-1 - latency]

    run(ring, drive)


def test_rows_that_come_often_need_no_larger_ring() -> None:
    """Of rows that follow each other three times or more, two say how large ring and counters are."""
    found = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        shape = random_shape(rng)
        if any((table < 0).all() for table in (shape.rows, shape.columns, shape.groups)):
            continue
        shape = replace(shape, rows=np.repeat(shape.rows, rng.integers(1, 6, len(shape.rows))))
        whole = replace(shape)
        whole.__dict__["essential"] = whole
        found += len(shape.essential.rows) < len(shape.rows)
        assert shape.ring_words >= whole.ring_words
        depth = shape.ring_words
        for counter, needed in zip(counters_of(shape, depth), counters_of(whole, depth), strict=True):
            assert counter.width >= needed.width
    assert found > 200
