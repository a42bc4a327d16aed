"""The stage of recurrent layers: every cell on every family, sequences over frames, resets, paces, wide products."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from amaranth.hdl import Module, ResetInserter, Signal, signed, unsigned
from hwflow_rtl.multiply.products import WideMultipliers, WideProductShape
from hwflow_rtl.recurrent.shape import LoopPace
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin

from hwflow.layers import Frame, IntFormat, LayerGraph, Recurrent, Tensor
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.layers.recurrent_cases import random_layer
from tests.layers.recurrent_reference import recurrent
from tests.random_cases import seeds
from tests.rtl.harness import run
from tests.rtl.units import ask

FAMILIES = {"ecp5": ECP5(), "gowin": Gowin(), "ice40": ICE40(), "hx8k": ICE40(has_multipliers=False)}
CELLS = {"rnn": ("rnn", None), "gru, reset before": ("gru", False), "gru, reset after": ("gru", True),
         "lstm": ("lstm", None)}
INT8 = IntFormat(8, True)


def as_simulated(name: str) -> Generic:
    """The latencies of a family in portable hardware."""
    return Generic(timing=FAMILIES[name].timing, like=FAMILIES[name])


def graph_of(layer: Recurrent, steps: int) -> LayerGraph:
    x = Tensor("x", Frame(1, steps, len(layer.hidden_weights)), layer.input_format, 0.5, 0)
    y = Tensor("y", Frame(1, steps, layer.hidden), INT8, 0.25, 0)
    graph = LayerGraph("one", {"x": x, "y": y}, (layer,), ("x",), ("y",))
    graph.check()
    return graph


def frames_of(rng: np.random.Generator, layer: Recurrent, count: int, steps: int) -> np.ndarray:
    format = layer.input_format
    return rng.integers(format.low // 3, format.high // 3 + 1, (count, 1, steps, len(layer.hidden_weights)))


def any_folding(rng: np.random.Generator, graph: LayerGraph, name: str) -> Folding:
    """One that is quick enough for a simulator in Python."""
    layer = graph.layers[0]
    assert isinstance(layer, Recurrent)
    stage, technology = stage_of(graph, layer), FAMILIES[name]
    found = [each for each in stage.foldings_on(technology) if each.rows * each.cols <= 8 and each.lanes <= 2
             and stage.schedule(each, technology).interval < 400]
    return found[int(rng.integers(len(found)))]


def prove(cell: str, name: str, seed: int, weight: IntFormat | None = None) -> None:
    """Stage and model are the plain loops, with stalls and without; the interval is that of the schedule.

    With `weight`, those of the states are what is left of them in that format.
    """
    kind, after = CELLS[cell]
    rng = np.random.default_rng([seed, list(CELLS).index(cell)])
    steps, hidden = int(rng.integers(1, 5)), int(rng.choice([4, 6, 8]))
    layer = random_layer(rng, cell=kind, hidden=hidden, y=INT8, after=after, streaming=bool(rng.integers(2)))
    if weight is not None:
        layer = replace(layer, weight_format=weight, hidden_weights=layer.hidden_weights.clip(weight.low, weight.high))
    graph = graph_of(layer, steps)
    folding, frames = any_folding(rng, graph, name), frames_of(rng, layer, 3, steps)
    expected = recurrent(layer, frames)[0].reshape(-1, folding.lanes)
    technology = as_simulated(name)
    shape = stage_of(graph, layer).unit(folding, technology).shape
    ask(shape, technology, [frames], expected, seed=seed)
    assert shape.cycles == stage_of(graph, layer).schedule(folding, REFERENCE).interval, folding


@pytest.mark.parametrize("cell", [
    pytest.param(cell, marks=[pytest.mark.slow] if cell.startswith("gru") else []) for cell in CELLS])
@seeds(quick=[0], slow=range(1, 10))
def test_a_stage_is_the_plain_loop(cell: str, seed: int) -> None:
    names = list(FAMILIES)
    prove(cell, names[(seed + 3 * list(CELLS).index(cell)) % len(names)], seed)


def test_narrow_weights_where_a_device_has_no_multipliers() -> None:
    """Their products are made in tables, in the style that this has everywhere."""
    prove("rnn", "hx8k", 0, IntFormat(2, True))


@pytest.mark.parametrize("streaming", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_reset_begins_a_sequence_anew(streaming: bool) -> None:
    """Also where states were just written, and words of an operand were half complete."""
    rng = np.random.default_rng(5)
    layer = random_layer(rng, cell="lstm", hidden=6, y=INT8, streaming=streaming)
    layer = replace(layer, initial=layer.initial // 2 + 3)
    graph = graph_of(layer, 3)
    folding, frames = Folding(2, 6, 2), frames_of(rng, layer, 2, 3)
    stage = stage_of(graph, layer).unit(folding, Generic())
    expected = recurrent(layer, frames)[0].reshape(-1, 2)
    beats, seen = frames.reshape(-1, 2), []

    async def drive(ctx):
        for stop in (40, 117, 260, 5000):
            sent, seen_now = 0, []
            ctx.set(stage.o.ready, 1)
            for _ in range(stop):
                ctx.set(stage.i.valid, sent < len(beats))
                if sent < len(beats):
                    for lane in range(2):
                        ctx.set(stage.i.payload[lane], int(beats[sent, lane]))
                _, _, ready, valid, *word = await ctx.tick().sample(
                    stage.i.ready, stage.o.valid, stage.o.payload[0], stage.o.payload[1])
                sent += bool(ready and sent < len(beats))
                if valid:
                    seen_now.append(word)
                if len(seen_now) == len(expected):
                    break
            seen.append(seen_now)
            ctx.set(reset, 1)
            await ctx.tick()
            ctx.set(reset, 0)

    reset, m = Signal(), Module()
    m.submodules.stage = ResetInserter(reset)(stage)
    run(m, drive)
    for part in seen:
        assert part == expected[:len(part)].tolist()
    assert [len(part) == len(expected) for part in seen] == [False, False, False, True]
    assert len(seen[2]) > 0


def test_paces_that_are_too_short_are_refused() -> None:
    layer = random_layer(np.random.default_rng(0), cell="gru", hidden=4, y=INT8)
    graph, folding = graph_of(layer, 2), Folding(4, 2, 2)
    hardware = stage_of(graph, layer)
    hardware.pace = lambda folding: LoopPace(4, 9, 9)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=re.escape("pace of 'stage0_loop' must be at least LoopPace(block=")):
        stage_of(graph, layer).unit(folding, Generic())


@pytest.mark.parametrize("change, message", [
    ({"rows": 3}, "rows and cols of a recurrent stage must divide its 8 units, and lanes both, not 3, 4 and 2"),
    ({"rows": 8, "cols": 4, "lanes": 2}, "lanes of a recurrent stage must be at least 8 * 4 / 8, not 2"),
    ({"reset_after": True, "cell": "rnn"}, "reset_after of a recurrent stage must be of a gru, not of cell 'rnn'"),
])
def test_shapes_that_contradict_themselves(change: dict, message: str) -> None:
    layer = random_layer(np.random.default_rng(0), cell="gru", hidden=8, y=INT8)
    shape = stage_of(graph_of(layer, 2), layer).loop_shape(Folding(4, 4, 2))
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(shape, **change)


@pytest.mark.quick(6)
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("width", [5, 15, 17, 24, 31])
def test_wide_products(name: str, width: int) -> None:
    """Both ends of each operand, one part or two."""
    technology, a, b = as_simulated(name), signed(width), signed(15)
    shape = WideProductShape(a, b)
    unit, latency = WideMultipliers(shape=shape, count=2, technology=technology), shape.latency(technology)
    rng = np.random.default_rng(width)
    low, high = -1 << (width - 1), (1 << (width - 1)) - 1
    left = [low, high, -1, 0, *(int(n) for n in rng.integers(low, high + 1, 20))]
    right = [-(1 << 14), (1 << 14) - 1, -1, 1, *(int(n) for n in rng.integers(-(1 << 14), 1 << 14, 20))]
    pairs, seen = [(x, y) for x in left[:4] for y in right[:4]] + list(zip(left, right, strict=True)), []

    async def drive(ctx):
        for x, y in [*pairs, *[(0, 0)] * (latency + 1)]:
            for n, (one, two) in enumerate(((x, y), (y % 8, x % (1 << 14)))):
                ctx.set(unit.a[n], one)
                ctx.set(unit.b[n], two)
            seen.append((ctx.get(unit.p[0]), ctx.get(unit.p[1])))
            await ctx.tick()

    run(unit, drive)
    for (x, y), made in zip(pairs, seen[latency:], strict=False):
        assert made == (x * y, y % 8 * (x % (1 << 14)))


@pytest.mark.parametrize("a, b", [(signed(40), signed(16)), (signed(20), signed(19)), (unsigned(8), signed(8))])
def test_products_that_are_too_wide(a, b) -> None:
    with pytest.raises(ValueError, match=r"operands of a wide multiplier must be signed, of at most 35 and 18 bits on"):
        WideMultipliers(shape=WideProductShape(a, b), count=1, technology=ECP5())
