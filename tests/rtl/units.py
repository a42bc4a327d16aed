"""What every unit of a stage is asked: its values, when its beats move, and how many cycles a frame takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from amaranth.hdl import Fragment, Value
from amaranth.lib import wiring
from hwflow_rtl.core import inputs_of, port_names
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.vendor import Technology

from tests.rtl.engine import Simulator
from tests.rtl.harness import Trace, layout_of, pack, receiver, simulator


@dataclass(frozen=True)
class Played:
    """When the beats of each input are taken, and what comes out when."""

    taken: list[np.ndarray]
    output: Trace


def play(unit: wiring.Component, beats: Sequence[np.ndarray], arrivals: Sequence[np.ndarray], count: int,
         ports: Sequence[str] = (), stall_out: float = 0.0, sim: Simulator | None = None) -> Played:
    """Beats that are valid from `arrivals` on, or from when the one before is taken.

    They are those of the inputs, or of `ports`.  `stall_out`: how probable it is that the output is not taken.  `sim`
    is a simulator of `unit` that has run before.
    """
    inputs = [getattr(unit, name) for name in ports] or inputs_of(unit)
    taken: list[list[int]] = [[] for _ in beats]
    found: list[Trace] = []

    def sender(port, words, cycles, log):
        shape = layout_of(port)[0]

        async def testbench(ctx):
            cycle = 0
            for word, arrival in zip(words, cycles, strict=True):
                if arrival > cycle:
                    await ctx.tick().repeat(int(arrival) - cycle)
                    cycle = int(arrival)
                ctx.set(Value.cast(port.payload), pack(word, shape))
                ctx.set(port.valid, 1)
                ready = False
                while not ready:
                    _, _, ready = await ctx.tick().sample(port.ready)
                    cycle += 1
                log.append(cycle - 1)
                ctx.set(port.valid, 0)
        return testbench

    if sim is None:
        sim = simulator(unit)
    for each in zip(inputs, beats, arrivals, taken, strict=True):
        sim.add_testbench(sender(*each))
    sim.add_testbench(receiver(unit.o, count, stall_out, 0, 5000, 20, found.append))
    sim.run()
    return Played([np.array(each) for each in taken], found[0])


def arrivals_of(kind: str, count: int, seed: int) -> np.ndarray:
    """Cycles in which `count` beats come: at once, now and then, late, in bursts."""
    source = np.random.default_rng([seed, count])
    gaps = {"at once": np.ones(count), "now and then": source.integers(1, 4, count),
            "late": source.choice([1, 1, 2, 25], count),
            "in bursts": np.where(np.arange(count) % 17, 1, source.integers(1, 60, count))}[kind]
    return np.cumsum(gaps.astype(np.int64)) - 1 + int(source.integers(0, 60))


ARRIVALS = ("at once", "now and then", "late", "in bursts")


def ask(shape: UnitShape, technology: Technology, frames: Sequence[np.ndarray], expected: np.ndarray, *,
        seed: int = 0, weights: np.ndarray | None = None, every: Fraction = Fraction(1)) -> wiring.Component:
    """All questions to a unit, which is made once; returns it.

    `frames` has for each input three frames or more, [frames, ...], and `expected` the beats of all of them,
    int[count, lanes], from an oracle that is no part of hwflow.  `weights` are the beats of its port `weights`, if it
    has one, for all frames; without a gap one comes in `every` cycles.

    The unit's model gives what is expected.  So does the simulation: without a gap, for arrivals at random, and for
    such arrivals and a reader that stalls.  In all three `times` says to the cycle when each beat moves; without a gap
    a frame takes `cycles`.
    """
    unit, count = shape.build(technology, "unit"), len(frames[0])
    beats = [each.reshape(-1, lanes) for each, lanes in zip(frames, shape.lanes_in, strict=True)]
    assert np.array_equal(np.asarray(unit.model(*frames)).reshape(expected.shape), expected), "the model"
    arrivals = [np.arange(len(each)) for each in beats]
    if weights is not None:
        beats.append(weights)
        arrivals.append(np.ceil(np.arange(len(weights)) * every).astype(np.int64))
    sim = simulator(unit)
    seen = _played(shape, technology, unit, sim, beats, arrivals, expected)
    ends = seen.output.cycles.reshape(count, -1)[:, -1]
    longest = max(shape.cycles, *(len(each) // count for each in (*beats, expected)))
    assert ends[-1] - ends[-2] == longest, f"a frame in {ends[-1] - ends[-2]} cycles, not {longest}"
    two = [each[:2 * len(each) // count] for each in beats]
    kinds = [ARRIVALS[(seed + k) % len(ARRIVALS)] for k in range(len(beats))]
    arrivals = [arrivals_of(kind, len(each), seed + k) for k, (kind, each) in enumerate(zip(kinds, two, strict=True))]
    for stall in (0.0, (0.7, 0.95, 0.98)[seed % 3]):
        sim.anew()
        _played(shape, technology, unit, sim, two, arrivals, expected[:2 * len(expected) // count], stall)
    return unit


def _played(shape: UnitShape, technology: Technology, unit: wiring.Component, sim: Simulator,
            beats: Sequence[np.ndarray], arrivals: Sequence[np.ndarray], expected: np.ndarray,
            stall_out: float = 0.0) -> Played:
    """Beats are those expected, and move when `times` says, for a reader that takes each at once or at random."""
    ports = [*port_names("i", len(shape.lanes_in)), "weights"] if len(beats) > len(shape.lanes_in) else []
    seen = play(unit, beats, arrivals, len(expected), ports, stall_out, sim)
    assert np.array_equal(seen.output.beats, expected)
    left = seen.output.cycles
    said = shape.times(technology, *arrivals, left=left if stall_out else None)
    offered = np.maximum(said.departures, np.append(0, left[:-1] + 1)) if stall_out else said.departures
    assert np.array_equal(offered, seen.output.offered)
    for ours, theirs in zip(said.taken, seen.taken, strict=True):
        assert np.array_equal(ours[:len(theirs)], theirs)
    return seen


def memories_asked(technology: Technology, make: Callable[[], wiring.Component]) -> Counter[tuple[str, int, int]]:
    """Names, widths and depths of the RAMs and ROMs that `technology` is asked for when a unit is elaborated."""
    asked: Counter[tuple[str, int, int]] = Counter()
    make_ram, make_rom = technology.ram, technology.rom

    def ram(*, width, depth, name=""):
        asked[name, width, depth] += 1
        return make_ram(width=width, depth=depth, name=name)

    def rom(*, width, contents, name):
        asked[name.removeprefix("stage_"), width, len(contents)] += 1
        return make_rom(width=width, contents=contents, name=name)

    technology.ram, technology.rom = ram, rom
    Fragment.get(make(), None)
    return asked
