"""What runs inside of the simulation of a design with AXI4-Stream ports: cocotbext-axi's sources and sinks around it.

The file in the environment variable HWFLOW_AXI says what goes in and what has to come out.
"""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import cocotb
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, RisingEdge
from cocotb.utils import get_sim_time
from cocotbext.axi import AxiStreamBus, AxiStreamFrame, AxiStreamSink, AxiStreamSource

PERIOD = 10
#: Cycles in which a small network has come to rest.
REST = 1500


class Port:
    """One of the ports: its prefix, bytes of a beat, and the frames [frame] that go in or have to come out."""

    def __init__(self, dut, facts: dict):
        self.dut, self.name, self.beat = dut, facts["name"], facts["beat_bytes"]
        self.frames = [bytes.fromhex(text) for text in facts["frames"]]

    @property
    def bus(self) -> AxiStreamBus:
        return AxiStreamBus.from_prefix(self.dut, self.name)


class Bench:
    def __init__(self, dut):
        self.dut, self.facts = dut, json.loads(Path(os.environ["HWFLOW_AXI"]).read_text())
        inputs, outputs = ([Port(dut, each) for each in self.facts[kind]] for kind in ("inputs", "outputs"))
        self.inputs, self.outputs = inputs, outputs
        # The clock comes first: what a source drives before its first edge would be lost in the initial values.
        cocotb.start_soon(Clock(dut.aclk, PERIOD, unit="step").start())
        dut.aresetn.value, self.driven = 0, False
        reset = {"reset": dut.aresetn, "reset_active_level": False}
        self.sources = [AxiStreamSource(port.bus, dut.aclk, **reset) for port in inputs]
        self.sinks = [AxiStreamSink(port.bus, dut.aclk, **reset) for port in outputs]

    async def reset(self, cycles: int = 1) -> None:
        self.dut.aresetn.value = 0
        if not self.driven:  # the first edge comes before what is written here, and finds random values at all pins
            await RisingEdge(self.dut.aclk)
            self.driven = True
        await ClockCycles(self.dut.aclk, cycles)
        self.dut.aresetn.value = 1

    def pause(self, seed: int, often: float) -> None:
        for k, end in enumerate([*self.sources, *self.sinks]):
            end.set_pause_generator(pauses(seed + k, often))

    def send(self, frames: range) -> list[AxiStreamFrame]:
        """Put frames into all sources; those of the first one."""
        sent = [[AxiStreamFrame(port.frames[k]) for k in frames] for port in self.inputs]
        for source, group in zip(self.sources, sent, strict=True):
            for frame in group:
                source.send_nowait(frame)
        return sent[0]

    async def require(self, frames: range) -> list[AxiStreamFrame]:
        """These frames, with TLAST at their ends, at all outputs; those of the first output."""
        first = []
        for sink, port in zip(self.sinks, self.outputs, strict=True):
            for k in frames:
                found = await sink.recv()
                assert bytes(found) == port.frames[k], f"{port.name}, frame {k}"
                if sink is self.sinks[0]:
                    first.append(found)
        return first

    async def require_rest(self, *, error: int = 0) -> None:
        """Nothing comes any more, no frame has begun."""
        await ClockCycles(self.dut.aclk, REST)
        assert all(sink.empty() for sink in self.sinks)
        assert self.dut.frame_error.value == error


def pauses(seed: int, often: float) -> Iterator[bool]:
    """Random, in bursts."""
    chance = random.Random(seed)
    while True:
        yield from [chance.random() < often] * chance.choice((1, 1, 1, 2, 7))


def cycle_of(time: float) -> int:
    return round(time / PERIOD)


@cocotb.test()
@cocotb.parametrize(often=[0.0, 0.4, 0.9])
async def frames_are_golden(dut, often: float) -> None:
    bench = Bench(dut)
    bench.pause(5, often)
    await bench.reset(3)
    count = range(len(bench.inputs[0].frames))
    bench.send(count)
    await bench.require(count)
    await bench.require_rest()


@cocotb.test()
async def pace_is_that_of_the_plan(dut) -> None:
    """A frame alone takes the latency and a register at each end; frames follow each other in the interval."""
    bench = Bench(dut)
    await bench.reset()
    await ClockCycles(dut.aclk, 50)
    watchers = [cocotb.start_soon(first_beats(dut, port.name)) for port in (*bench.inputs, *bench.outputs)]
    bench.send(range(1))
    await bench.require(range(1))
    times = [await watcher for watcher in watchers]
    began = times[0][0]
    found = [each[0] - began for each in times[len(bench.inputs):]]
    assert found == [cycles + 2 for cycles in bench.facts["latency"]], (found, bench.facts["latency"])
    frames = range(1, len(bench.inputs[0].frames))
    bench.send(frames)
    ends = [cycle_of(frame.sim_time_end) for frame in await bench.require(frames)]
    intervals = [b - a for a, b in itertools.pairwise(ends)]
    assert set(intervals[5:]) == {bench.facts["interval"]}, intervals


async def first_beats(dut, name: str) -> list[int]:
    """The cycle of the first beat that passes a port."""
    while True:
        await RisingEdge(dut.aclk)
        if getattr(dut, f"{name}_tvalid").value and getattr(dut, f"{name}_tready").value:
            return [cycle_of(get_sim_time("step"))]


@cocotb.test()
@cocotb.parametrize(seed=list(range(6)))
async def a_wrong_tlast_stops_the_frame(dut, seed: int) -> None:
    """TLAST too early, or missing, on any input: the frames before come, that one never, and reset helps."""
    chance = random.Random(seed)
    bench = Bench(dut)
    bench.pause(seed, chance.choice((0.0, 0.5)))
    await bench.reset()
    victim, wrong = chance.randrange(len(bench.inputs)), 3
    early = seed % 2 and len(bench.inputs[victim].frames[0]) > bench.inputs[victim].beat
    for k, (source, port) in enumerate(zip(bench.sources, bench.inputs, strict=True)):
        frames = list(port.frames[:8])
        if k == victim:
            cut = port.beat * chance.randrange(1, len(frames[wrong]) // port.beat) if early else 0
            frames[wrong:wrong + 2] = ([frames[wrong][:cut], frames[wrong][cut:], frames[wrong + 1]] if early
                                       else [frames[wrong] + frames[wrong + 1]])
        for frame in frames:
            source.send_nowait(AxiStreamFrame(frame))
    await bench.require(range(wrong))
    assert await settled(bench)
    assert dut.frame_error.value == 1
    assert getattr(dut, f"{bench.inputs[victim].name}_tready").value == 0
    for sink, port in zip(bench.sinks, bench.outputs, strict=True):
        later = [bytes(sink.recv_nowait()) for _ in range(sink.count())]
        # An output that needs nothing of this input goes on, and is right; another has no frame more.
        assert later == (port.frames[wrong:wrong + len(later)])
        assert not later or victim not in bench.facts["needs"][bench.outputs.index(port)]
    await again(bench)


async def settled(bench: Bench) -> bool:
    await ClockCycles(bench.dut.aclk, 2 * REST)
    return True


async def again(bench: Bench) -> None:
    """Reset, and everything is as at the start."""
    for end in (*bench.sources, *bench.sinks):
        end.clear()
    await bench.reset()
    await RisingEdge(bench.dut.aclk)
    assert bench.dut.frame_error.value == 0
    frames = range(5, 9)
    bench.send(frames)
    await bench.require(frames)
    await bench.require_rest()


@cocotb.test()
@cocotb.parametrize(cycles=[1, 40], after=[0, 3, 57, 200, 501])
async def a_reset_in_the_middle(dut, cycles: int, after: int) -> None:
    bench = Bench(dut)
    bench.pause(after, 0.3)
    await bench.reset()
    bench.send(range(9))
    await ClockCycles(dut.aclk, after)
    dut.aresetn.value = 0
    for source in bench.sources:
        source.clear()
    quiet = cocotb.start_soon(quiet_in_reset(bench, cycles))
    await ClockCycles(dut.aclk, cycles)
    dut.aresetn.value = 1
    await FallingEdge(dut.aclk)
    for sink in bench.sinks:  # now, because a frame may have ended at the very edge that began the reset
        sink.clear()
    frames = range(9, 13)
    bench.send(frames)
    await bench.require(frames)
    await quiet
    await bench.require_rest()


async def quiet_in_reset(bench: Bench, cycles: int) -> None:
    """From the cycle behind the first edge in reset on, no VALID; and no READY until the core has run dry."""
    await RisingEdge(bench.dut.aclk)
    for _ in range(cycles + 30):
        await RisingEdge(bench.dut.aclk)
        assert not any(getattr(bench.dut, f"{port.name}_tvalid").value for port in bench.outputs)
        assert not any(getattr(bench.dut, f"{port.name}_tready").value for port in bench.inputs)
