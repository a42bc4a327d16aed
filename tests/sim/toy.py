"""A core of two toy stages with the ports of `hwflow_rtl.core.Core`, for tests of the simulation.

Stage 0 adds a bias out of a ROM, by the position in the frame, to each of two lanes of uint8; stage 1 sums the lanes
of a beat as signed(11) after a few cycles of work.  Faults can be asked for.
"""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Const, Module, Shape, Signal, signed, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.streams import Queue
from hwflow_rtl.vendor.generic import Generic
from hwflow_sim import Boundary

LANES = 2
BEATS = 8
ELEMENTS = LANES * BEATS
NAMES = ("bias", "sum")
ROM = "toy_bias"

#: What can be wrong with it.
FAULTS = ("drop", "repeat", "hang", "unsteady")


def biases(seed: int) -> np.ndarray:
    """uint8[BEATS, 1]: the words of the ROM."""
    return np.random.default_rng(seed).integers(0, 256, (BEATS, 1), dtype=np.uint8)


def golden(frames: np.ndarray, bias: np.ndarray) -> list[np.ndarray]:
    """The outputs of both stages, int64[n, ELEMENTS] and int64[n, BEATS]."""
    added = (frames.reshape(-1, BEATS, LANES) + bias) & 0xFF
    return [added.reshape(len(frames), -1), added.sum(axis=2) - 256]


def boundaries() -> list[Boundary]:
    return [Boundary(NAMES[0], LANES, unsigned(8), ELEMENTS), Boundary(NAMES[1], 1, signed(11), BEATS)]


class ToyCore(wiring.Component):
    """`work` is the number of cycles for which stage 1 is busy with a beat.

    `fault` starts at beat number `fault_beat` (from 0) of stage 0: "drop" loses that beat, "repeat" sends it twice,
    "hang" never takes another beat; "unsteady" lets the output change while it waits.
    """

    def __init__(self, *, bias: np.ndarray, work: int = 3, fault: str | None = None, fault_beat: int = 5):
        self.work = work
        self.fault = fault
        self.fault_beat = fault_beat
        self.technology = Generic(hex_roms=True)
        self.rom = self.technology.rom(width=8, contents=bias, name=ROM)
        self.wide, self.narrow = data.ArrayLayout(unsigned(8), LANES), data.ArrayLayout(signed(11), 1)
        ports = {"i": In(stream.Signature(self.wide)), "o": Out(stream.Signature(self.narrow))}
        for k, layout in enumerate((self.wide, self.narrow)):
            ports |= {f"probe{k}_valid": Out(1), f"probe{k}_data": Out(Shape.cast(layout).width), f"busy{k}": Out(1),
                      f"stall{k}": Out(1)}
        super().__init__(ports)

    def elaborate(self, platform):
        m = Module()
        m.submodules.rom = self.rom
        m.submodules.front = front = Queue(shape=self.wide, depth=4)
        m.submodules.back = back = Queue(shape=self.narrow, depth=2)
        self.first(m, front)
        self.second(m, front, back)
        valid, payload = back.o.valid, back.o.payload.as_value()
        m.d.comb += [
            self.o.valid.eq(valid), self.o.payload.as_value().eq(payload), back.o.ready.eq(self.o.ready),
            self.probe0_valid.eq(front.o.valid & front.o.ready), self.probe0_data.eq(front.o.payload.as_value()),
            self.stall0.eq(front.o.valid & ~front.o.ready),
            self.probe1_valid.eq(valid & self.o.ready), self.probe1_data.eq(payload),
            self.stall1.eq(valid & ~self.o.ready),
        ]
        if self.fault == "unsteady":
            flip = Signal()
            m.d.sync += flip.eq(~flip & valid & ~self.o.ready)
            m.d.comb += self.o.payload.as_value().eq(payload ^ flip)
        return m

    def first(self, m, front):
        """Three steps a beat: take it, wait for the ROM, give it."""
        held, place, seen = Signal(self.wide), Signal(range(BEATS)), Signal(16)
        step, repeated = Signal(range(4)), Signal()
        m.d.comb += [self.rom.addr.eq(place), self.i.ready.eq(step == 0), self.busy0.eq(step != 0)]
        for lane in range(LANES):
            m.d.comb += front.i.payload[lane].eq(held[lane] + self.rom.data)
        hit = seen == self.fault_beat
        with m.If(step == 0):
            with m.If(self.i.valid):
                m.d.sync += [held.eq(self.i.payload), step.eq(1)]
            if self.fault == "hang":
                with m.If(hit):
                    m.d.comb += self.i.ready.eq(0)
                    m.d.sync += step.eq(0)
        with m.Elif(step != 3):
            m.d.sync += step.eq(step + 1)
        with m.Else():
            m.d.comb += front.i.valid.eq(~hit if self.fault == "drop" else 1)
            with m.If(front.i.ready):
                again = hit & ~repeated if self.fault == "repeat" else Const(0)
                m.d.sync += repeated.eq(again)
                with m.If(~again):
                    m.d.sync += [step.eq(0), place.eq(place + 1), seen.eq(seen + 1)]

    def second(self, m, front, back):
        """Sums a beat, then is busy for `work` cycles."""
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
