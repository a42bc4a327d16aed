"""A core of two toy stages with the ports of `hwflow_rtl.core.Core`, for tests of the simulation.

Stage "bias" adds a word out of a ROM, by the position in the frame, to each of two lanes of uint8; stage "sum" sums the
lanes of a beat as signed(11) and is busy for a while.  A second ROM says what is wrong with the core, so that every
fault runs in the same executable.
"""

from __future__ import annotations

import enum

import numpy as np
from amaranth.hdl import Module, Shape, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.core import Link
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.queue import Queue
from hwflow_rtl.vendor.generic import Generic
from hwflow_sim import Boundary

CORE, STAGE = Endpoint.core, Endpoint.stage

LANES = 2
BEATS = 8
ELEMENTS = LANES * BEATS
NAMES = ("bias", "sum")
BIAS, FAULT = "toy_bias", "toy_fault"
FAULT_BEAT = 5


class Fault(enum.Enum):
    """What stage "bias" does wrong with beat FAULT_BEAT of the run, or the output with every beat."""

    NONE = 0
    DROP = 1
    REPEAT = 2
    HANG = 3
    UNSTEADY = 4


def noise_frames(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, ELEMENTS))


def roms(seed: int = 1, fault: Fault = Fault.NONE) -> dict[str, np.ndarray]:
    bias = np.random.default_rng(seed).integers(0, 256, (BEATS, 1), dtype=np.uint8)
    return {BIAS: bias, FAULT: np.full((2, 1), fault.value, dtype=np.uint8)}


def golden(frames: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    """The outputs of both stages, int64[n, ELEMENTS] and int64[n, BEATS]."""
    added = (frames.reshape(-1, BEATS, LANES) + bias) & 0xFF
    return [added.reshape(len(frames), -1), added.sum(axis=2) - 256]


def boundaries() -> list[Boundary]:
    return [Boundary(f"{NAMES[0]}_out", NAMES[0], LANES, unsigned(8), ELEMENTS),
            Boundary(f"{NAMES[1]}_out", NAMES[1], 1, signed(11), BEATS)]


class ToyCore(wiring.Component):
    """A beat takes four cycles in the first stage and `1 + work` in the second.

    With work <= 3 the first stage is the slower one: frames follow each other every 4 * BEATS cycles.
    """

    def __init__(self, *, work: int = 2):
        self.work = work
        technology = Generic(hex_roms=True)
        blank = roms()
        self.bias = technology.rom(width=8, contents=blank[BIAS], name=BIAS)
        self.fault = technology.rom(width=8, contents=blank[FAULT], name=FAULT)
        self.wide, self.narrow = data.ArrayLayout(unsigned(8), LANES), data.ArrayLayout(signed(11), 1)
        ports = {"i": In(stream.Signature(self.wide)), "o": Out(stream.Signature(self.narrow))}
        for k, layout in enumerate((self.wide, self.narrow)):
            ports |= {f"probe{k}_valid": Out(1), f"probe{k}_data": Out(Shape.cast(layout).width),
                      f"busy{k}": Out(1), f"stall{k}": Out(1)}
        self.links = (Link(CORE(0), STAGE(0)), Link(STAGE(0), STAGE(1)), Link(STAGE(1), CORE(0)))
        self.input_names, self.output_names, self.probes = ["i"], ["o"], (0, 1)
        for e in range(len(self.links)):
            ports |= {f"full{e}": Out(1), f"empty{e}": Out(1), f"level{e}": Out(0)}
        super().__init__(ports)

    def capacity(self, e: int) -> int:
        return 0

    def elaborate(self, platform):
        m = Module()
        m.submodules.bias, m.submodules.fault = self.bias, self.fault
        m.submodules.front = front = Queue(shape=self.wide, depth=4)
        m.submodules.back = back = Queue(shape=self.narrow, depth=2)
        self.add(m, front)
        self.sum(m, front, back)
        payload, flip = back.o.payload.as_value(), Signal()
        m.d.sync += flip.eq(~flip & self.stall1 & self.has(Fault.UNSTEADY))
        m.d.comb += [
            self.o.valid.eq(back.o.valid), self.o.payload.as_value().eq(payload ^ flip),
            back.o.ready.eq(self.o.ready),
            self.probe0_valid.eq(front.o.valid & front.o.ready), self.probe0_data.eq(front.o.payload.as_value()),
            self.stall0.eq(front.o.valid & ~front.o.ready),
            self.probe1_valid.eq(back.o.valid & self.o.ready), self.probe1_data.eq(payload),
            self.stall1.eq(back.o.valid & ~self.o.ready),
        ]
        for e, stream_of_link in enumerate((self.i, front.o, self.o)):
            m.d.comb += [getattr(self, f"full{e}").eq(stream_of_link.valid & ~stream_of_link.ready),
                         getattr(self, f"empty{e}").eq(~stream_of_link.valid)]
        return m

    def has(self, fault: Fault):
        return self.fault.data == fault.value

    def add(self, m, front):
        """Four steps a beat: take it, two for the ROM, give it."""
        held, place, count = Signal(self.wide), Signal(range(BEATS)), Signal(16)
        step, again = Signal(range(4)), Signal()
        hit = count == FAULT_BEAT
        m.d.comb += [
            self.bias.addr.eq(place), self.busy0.eq(step != 0),
            self.i.ready.eq((step == 0) & ~(hit & self.has(Fault.HANG))),
        ]
        for lane in range(LANES):
            m.d.comb += front.i.payload[lane].eq(held[lane] + self.bias.data)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [held.eq(self.i.payload), step.eq(1)]
        with m.If((step == 1) | (step == 2)):
            m.d.sync += step.eq(step + 1)
        with m.Elif(step == 3):
            m.d.comb += front.i.valid.eq(~(hit & self.has(Fault.DROP)))
            with m.If(front.i.ready):
                m.d.sync += again.eq(hit & self.has(Fault.REPEAT) & ~again)
                with m.If(again | ~(hit & self.has(Fault.REPEAT))):
                    m.d.sync += [step.eq(0), place.eq(place + 1), count.eq(count + 1)]

    def sum(self, m, front, back):
        left = Signal(range(self.work + 1))
        m.d.comb += [
            self.busy1.eq(left != 0),
            back.i.payload[0].eq(front.o.payload[0] + front.o.payload[1] - 256),
            back.i.valid.eq(front.o.valid & (left == 0)),
            front.o.ready.eq(back.i.ready & (left == 0)),
        ]
        with m.If(left != 0):
            m.d.sync += left.eq(left - 1)
        with m.Elif(front.o.valid & back.i.ready):
            m.d.sync += left.eq(self.work)
