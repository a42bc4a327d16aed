"""Runs a unit in Amaranth's simulator with a sender or a receiver at each of its streams.

Senders and receivers stall at random, from a seed.  Every receiver checks that a word that waits stays as it is, and
that nothing follows the last word that was asked for.  A sender puts noise on the payload while valid is low.

The simulator settles the whole design after each `set`: payload and valid are one, and what stays is not set again.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data
from amaranth.sim.pysim import PySimEngine

from tests.rtl.engine import QuickEngine, Simulator

STALLS = (0.0, 0.3, 0.9, 0.98)


@dataclass(frozen=True)
class Trace:
    """The beats of one stream, int64[count, lanes], and the cycle of each transfer, int64[count] (0 is the first).

    `offered` are the cycles in which the beats were valid first.
    """

    beats: np.ndarray
    cycles: np.ndarray
    offered: np.ndarray

    @property
    def span(self) -> int:
        """Cycles from the first transfer to the last, both included."""
        return int(self.cycles[-1] - self.cycles[0]) + 1


def pack(values: Sequence[int], shape: Shape) -> int:
    """Elements of `shape`, the first in the low bits."""
    mask = (1 << shape.width) - 1
    word = 0
    for value in reversed([int(v) for v in values]):
        word = word << shape.width | value & mask
    return word


def unpack(word: int, shape: Shape, lanes: int) -> list[int]:
    mask = (1 << shape.width) - 1
    values = [word >> (k * shape.width) & mask for k in range(lanes)]
    if shape.signed and shape.width:
        values = [v - (1 << shape.width) if v >> (shape.width - 1) else v for v in values]
    return values


def layout_of(port) -> tuple[Shape, int]:
    """Shape and number of the elements of a stream's payload; anything but an array is one element."""
    shape = port.signature.members["payload"].shape
    if isinstance(shape, data.ArrayLayout):
        return Shape.cast(shape.elem_shape), shape.length
    return Shape.cast(shape), 1


def staller(stall: float, seed: object) -> Callable[[], bool]:
    """Says whether to stall, at random with the probability `stall`."""
    source = random.Random(repr(seed))
    return lambda: stall > 0 and source.random() < stall


def sender(port, beats, stall: float, seed: object, done: Callable[[np.ndarray, np.ndarray], None]):
    """A testbench that sends `beats`, int[count, lanes]; calls `done` with the cycles of the transfers and the offers.
    """
    shape, lanes = layout_of(port)
    words = [pack(beat, shape) for beat in np.asarray(beats).reshape(len(beats), lanes)]
    payload, noise, wait = Value.cast(port.payload), random.Random(repr(seed)), staller(stall, (seed, "send"))
    offer, valid = Cat(payload, port.valid), 1 << len(payload)

    async def testbench(ctx):
        cycle, cycles, offered, ticks = 0, [], [], aiter(ctx.tick().sample(port.ready))
        for word in words:
            while wait():
                ctx.set(offer, noise.getrandbits(len(payload)))
                await anext(ticks)
                cycle += 1
            ctx.set(offer, valid | word)
            offered.append(cycle)
            ready = False
            while not ready:
                _, _, ready = await anext(ticks)
                cycle += 1
            cycles.append(cycle - 1)
        ctx.set(port.valid, 0)
        done(np.array(cycles, dtype=np.int64), np.array(offered, dtype=np.int64))
    return testbench


def receiver(port, count: int, stall: float, seed: object, patience: int, settle: int, done: Callable[[Trace], None]):
    """A testbench that takes `count` beats and `settle` cycles more, and calls `done` with their trace."""
    shape, lanes = layout_of(port)
    payload, wait = Value.cast(port.payload), staller(stall, (seed, "receive"))

    async def testbench(ctx):
        beats, cycles, offered, cycle, since, held, took = [], [], [], 0, 0, None, False
        ticks = aiter(ctx.tick().sample(port.valid, payload))
        while len(beats) < count or since < settle:
            take = not wait()
            if take is not took:
                ctx.set(port.ready, take)
            took = take
            _, _, valid, word = await anext(ticks)
            if held is not None:
                assert valid, f"cycle {cycle}: valid fell before the transfer"
                assert word == held, f"cycle {cycle}: payload changed from {held:#x} to {word:#x} before the transfer"
            if valid and held is None:
                offered.append(cycle)
            held = word if valid and not take else None
            since += 1
            if valid and take:
                beats.append(unpack(word, shape, lanes))
                cycles.append(cycle)
                since = 0
                assert len(beats) <= count, f"cycle {cycle}: beat {len(beats)} of {count}: {beats[-1]}"
            assert len(beats) == count or since < patience, (
                f"no beat for {patience} cycles, after {len(beats)} of {count}")
            cycle += 1
        done(Trace(np.array(beats, dtype=np.int64).reshape(count, lanes), np.array(cycles, dtype=np.int64),
                   np.array(offered, dtype=np.int64)))
    return testbench


def simulator(unit, engine: type[PySimEngine] = QuickEngine,
              clocks: Mapping[str, float | tuple[float, float]] | None = None) -> Simulator:
    """Amaranth's simulator of `unit` with its clocks (see `run`), which run even if the unit is nothing but wires."""
    m, clocks = Module(), {"sync": 1000.0} if clocks is None else clocks
    m.submodules.unit = unit
    for domain in clocks:
        heartbeat = Signal(name=f"heartbeat_{domain}")
        m.d[domain] += heartbeat.eq(~heartbeat)
    sim = Simulator(m, engine=engine)
    for domain, times in clocks.items():
        period, phase = times if isinstance(times, tuple) else (times, None)
        sim.add_clock(period * 1e-9, phase=None if phase is None else phase * 1e-9, domain=domain)
    return sim


def run(unit, *testbenches, watchers: Sequence = (), clocks: Mapping[str, float | tuple[float, float]] | None = None
        ) -> None:
    """Play `testbenches` on `unit` with a clock, and `watchers`, which need not end.

    `clocks` has the domains of a unit with several, with their periods in ns, or periods and phases.
    """
    sim = simulator(unit, clocks=clocks)
    for testbench in testbenches:
        sim.add_testbench(testbench)
    for watcher in watchers:
        sim.add_testbench(watcher, background=True)
    sim.run()


def simulate(unit, *, sends: Mapping[str, np.ndarray], receives: Mapping[str, int],
             stall_in: float = 0.0, stall_out: float = 0.0, seed: int = 0, patience: int = 5000, settle: int = 20,
             testbenches: Sequence = (), watchers: Sequence = (), vcd: str | None = None) -> dict[str, Trace]:
    """Send `sends` (port name to int[count, lanes]) into `unit`, take `receives` (port name to count of beats) from it.

    Returns the trace of every port.  `testbenches` are added as they are (the ports without a stream are theirs), and
    `watchers`, which need not end, as well; `patience` is the number of cycles without a beat that fails the test;
    `vcd` names a file for the waveform.
    """
    traces: dict[str, Trace] = {}
    sim = simulator(unit, QuickEngine if vcd is None else PySimEngine)
    for name, beats in sends.items():
        def sent(cycles, offered, name=name, beats=beats):
            traces[name] = Trace(np.asarray(beats, dtype=np.int64), cycles, offered)
        sim.add_testbench(sender(getattr(unit, name), beats, stall_in, (seed, name), sent))
    for name, count in receives.items():
        def received(trace, name=name):
            traces[name] = trace
        sim.add_testbench(receiver(getattr(unit, name), count, stall_out, (seed, name), patience, settle, received))
    for testbench in testbenches:
        sim.add_testbench(testbench)
    for watcher in watchers:
        sim.add_testbench(watcher, background=True)
    if vcd is None:
        sim.run()
    else:
        with sim.write_vcd(vcd):
            sim.run()
    return traces


def play(unit, values: list[int], interval: int, seed: int | None = None) -> tuple[list[int], list[int]]:
    """Results of an output stage and their latencies.

    Values come every `interval` cycles, or with a seed at random, no faster.
    """
    start = unit.plan.technology.timing.rom + getattr(unit.plan, "in_halves", False)  # the ROM has given the first word
    gaps, results, starts, ends = random.Random(seed), [], [], []

    given, width = Cat(unit.i_value, unit.i_valid), len(unit.i_value)

    async def feed(ctx):
        await ctx.tick().repeat(start)
        cycle, ticks = start, aiter(ctx.tick())
        for value in values:
            ctx.set(given, 1 << width | value & (1 << width) - 1)
            starts.append(cycle)
            await anext(ticks)
            wait = interval - 1 + (gaps.choice([0, 0, 1, 2, 5]) if seed is not None else 0)
            if wait:
                ctx.set(given, gaps.getrandbits(width))
            for _ in range(wait):
                await anext(ticks)
            cycle += wait + 1
        ctx.set(given, gaps.getrandbits(width))

    async def watch(ctx):
        cycle, ticks = 0, aiter(ctx.tick().sample(unit.o_valid, unit.o_value))
        while len(results) < len(values) or cycle < ends[-1] + 10:
            _, _, valid, value = await anext(ticks)
            if valid:
                results.append(value)
                ends.append(cycle)
            cycle += 1
            assert cycle < (interval + 6) * len(values) + 500

    run(unit, feed, watch)
    return results, [end - begin for begin, end in zip(starts, ends, strict=True)]
