"""Parts of stages of rows: recurrences against exact integers, rings, chains of any length, and stages with gaps."""

from __future__ import annotations

import math

import numpy as np
import pytest
from amaranth.hdl import unsigned
from hwflow_rtl.rows.chain import Chain, ChainShape
from hwflow_rtl.rows.constants import WalkShape
from hwflow_rtl.rows.reciprocal import Division, Levelling, Root
from hwflow_rtl.rows.ring import RowRingShape
from hwflow_rtl.rows.shape import Phase, play_rows
from hwflow_rtl.vendor import ECP5, FAMILIES, Generic

from hwflow import golden
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from tests.rtl.harness import run
from tests.rtl.units import ask
from tests.synth.stage_samples import normalize_graph, softmax_graph


def through(chain: Chain, states: list[dict[str, int]], interval: int) -> list[dict[str, int]]:
    """What leaves a chain into which a state enters every `interval` cycles."""
    found, fields = [], chain.iteration.state.members

    async def feed(ctx):
        for state in states:
            ctx.set(chain.i_state, state)
            ctx.set(chain.i_valid, 1)
            await ctx.tick()
            if interval > 1:
                ctx.set(chain.i_valid, 0)
                ctx.set(chain.i_state, dict.fromkeys(fields, 0))
                await ctx.tick().repeat(interval - 1)
        ctx.set(chain.i_valid, 0)

    async def watch(ctx):
        ticks = aiter(ctx.tick().sample(chain.o_valid, chain.o_state))
        while len(found) < len(states):
            _, _, valid, state = await anext(ticks)
            if valid:
                found.append({name: int(state[name]) for name in fields})

    run(chain, feed, watch)
    return found


@pytest.mark.parametrize("interval", [1, 5, 16])
def test_bits_of_a_quotient(interval: int) -> None:
    rng = np.random.default_rng(interval)
    divisors = [*rng.integers(40_000, 1 << 20, 20).tolist(), 40_001, (1 << 20) - 1]
    chain = ChainShape(Division(width=20, bits=16), interval).build()
    made = through(chain, [{"rest": 40_000, "divisor": d, "quotient": 0} for d in divisors], interval)
    assert [each["quotient"] for each in made] == [(40_000 << 16) // d for d in divisors]


@pytest.mark.parametrize("bits, interval", [(16, 1), (16, 3), (20, 20)])
def test_bits_of_a_reciprocal_root(bits: int, interval: int) -> None:
    """The ends of the mantissa, where the root is highest and lowest, are among them."""
    rng = np.random.default_rng(bits)
    mantissas = [1 << bits, (1 << bits) + 1, (1 << bits + 2) - 1, *rng.integers(1 << bits, 4 << bits, 30).tolist()]
    chain = ChainShape(Root(bits), interval).build()
    made = through(chain, [{"rest": 1 << bits, "odd": m, "mantissa": m, "root": 0} for m in mantissas], interval)
    assert [each["root"] for each in made] == [min(math.isqrt(8**bits // m), (1 << bits) - 1) for m in mantissas]


def test_a_power_is_levelled() -> None:
    rng = np.random.default_rng(0)
    values = [0, 1, (1 << 30) - 1, *(int(n) >> int(s) for n, s in rng.integers((0, 0), (1 << 30, 30), (20, 2)))]
    chain = ChainShape(Levelling(30, 8, {"total": unsigned(4)}), 2).build()
    made = through(chain, [{"value": v, "place": 7, "total": 9} for v in values], 2)
    for value, each in zip(values, made, strict=True):
        moves = min(7, (30 - value.bit_length()) // 2)
        assert each == {"value": value << 2 * moves, "place": 7 - moves, "total": 9}


def test_a_ring_gives_what_it_took() -> None:
    ring, found = RowRingShape(width=8, depth=4, name="ring").build(Generic()), []

    async def bench(ctx):
        waiting = 0
        for k in range(60):
            room, read = ctx.get(ring.room), waiting and k % 3
            ctx.set(ring.reserve, room)
            ctx.set(ring.write, room)
            ctx.set(ring.written, k)
            ctx.set(ring.read, int(bool(read)))
            found.append((k if room else None, bool(read)))
            waiting += room - bool(read)
            assert 0 <= waiting <= 4
            await ctx.tick()

    words = []

    async def watch(ctx):
        reads = [False, False]
        async for _, _, read, word in ctx.tick().sample(ring.read, ring.word):
            if reads.pop(0):
                words.append(word)
            reads.append(bool(read))

    run(ring, bench, watchers=[watch])
    written = [word for word, _ in found if word is not None]
    assert words == written[:len(words)]
    assert len(words) > 30


def test_rows_play_in_phases() -> None:
    """Two words a row, a ring of two words: the second row comes when the first one starts."""
    given = play_rows(np.zeros(6, np.int64), np.zeros(6, np.int64), 2, [Phase(latency=5, depth=2, rows=2)])
    assert [each.tolist() for each in given] == [[0, 1, 7, 8, 14, 15], [6, 7, 13, 14, 20, 21]]
    room = np.array([0, 30, 0, 0, 0, 0])
    given = play_rows(np.zeros(6, np.int64), room, 2, [Phase(latency=5, depth=4, rows=3)])
    assert [each.tolist() for each in given] == [[0, 1, 2, 3, 7, 31], [6, 30, 31, 32, 36, 37]]


def test_constants_repeat() -> None:
    assert WalkShape(12, 2, 3, 4).loops == (2, 3, 3)
    assert (WalkShape(12, 4, 3, 1).together, WalkShape(12, 4, 3, 1).depth) == (1, 3)
    with pytest.raises(ValueError, match="lanes must divide a period of constants, 3, which divides the row"):
        WalkShape(12, 2, 1, 3)


@pytest.mark.quick(3)
@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("graph", [softmax_graph(32), normalize_graph(32), normalize_graph(24, centred=False)],
                         ids=["softmax", "layer", "rms"])
def test_a_word_in_every_cycle(graph, lanes: int) -> None:
    """Frames without a gap; the unit's model, from its own recurrences, and the unit give the golden integers."""
    (layer,), folding, t = graph.layers, Folding(1, lanes, lanes), graph.tensors["x"]
    rng = np.random.default_rng(lanes)
    frames = np.clip(rng.normal(0, 40, (4, 1, 4, t.frame.channels)).astype(np.int64), -128, 127)
    frames[1, 0, 0], frames[1, 0, 1], frames[1, 0, 2, ::2] = 7, -128, 127
    expected = golden.run(graph, {"x": frames})["y"].reshape(-1, lanes)
    shape = stage_of(graph, layer).unit(folding, Generic()).shape
    assert shape.cycles == len(expected) // 4
    ask(shape, Generic(), [frames], expected, seed=lanes)


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_cycles_are_those_of_generic_parts(family) -> None:
    technology, arrivals = family(), np.arange(64, dtype=np.int64)
    for graph in (softmax_graph(16), normalize_graph(16)):
        (layer,) = graph.layers
        own, generic = (stage_of(graph, layer).times(Folding(1, 1, 1), each, arrivals)
                        for each in (technology, Generic(timing=technology.timing)))
        assert np.array_equal(own.departures, generic.departures)


def test_few_multipliers() -> None:
    """One for each lane of a softmax, two of a normalization of 16 elements; squares and means are sums of rows."""
    for graph, blocks in ((softmax_graph(64), 1), (normalize_graph(16), 2)):
        (layer,) = graph.layers
        stage = stage_of(graph, layer)
        assert [stage.cost(Folding(1, lanes, lanes), ECP5()).dsp for lanes in (1, 4)] == [blocks, 4 * blocks]


