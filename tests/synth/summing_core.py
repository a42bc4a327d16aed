"""A core with an adder behind two multipliers: a byte in, times two bytes of a row of a ROM, twice, the sum out."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Technology

BYTE, TOTAL = signed(8), signed(20)
ROWS = 200
WEIGHTS = np.random.default_rng(2).integers(0, 256, (ROWS, 2), dtype=np.uint8)


class SummingCore(wiring.Component):
    """The sum is the one of two cycles, the second of which goes on with the first.  One byte at a time."""

    def __init__(self, technology: Technology):
        self.technology = technology
        super().__init__({"i": In(stream_of(BYTE, 1)), "o": Out(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        technology, timing = self.technology, self.technology.timing
        m.submodules.rom = rom = technology.rom(width=16, contents=WEIGHTS, name="weights")
        m.submodules.sums = sums = technology.multiply_accumulate(count=1, a=BYTE, b=BYTE, total=TOTAL)
        row, byte, answer = Signal(range(ROWS)), Signal(BYTE), Signal(BYTE)
        busy, full, start = Signal(), Signal(), Signal()
        first = timing.rom + 1
        since = Signal(first + 2 + timing.accumulate)
        m.d.comb += [start.eq(self.i.valid & self.i.ready), self.i.ready.eq(~busy & ~full), self.o.valid.eq(full),
                     self.o.payload[0].eq(answer), rom.addr.eq(row), sums.more.eq(since[first + 1])]
        m.d.comb += [signal for k in range(2) for signal in (
            sums.a[k].eq(byte), sums.b[k].eq(rom.data.word_select(k, 8).as_signed()))]
        m.d.sync += since.eq(Cat(start, since))
        with m.If(start):
            m.d.sync += [byte.eq(self.i.payload[0]), busy.eq(1), row.eq(row + 1)]
        with m.If(since[-1]):
            m.d.sync += [answer.eq(sums.t[0][12:] ^ sums.t[0][:8]), full.eq(1), busy.eq(0)]
        with m.If(full & self.o.ready):
            m.d.sync += full.eq(0)
        return m


def summed(data: bytes) -> bytes:
    """What the core makes of so many bytes since its start, in numpy."""
    assert len(data) < ROWS
    weights = WEIGHTS.view(np.int8).astype(int)[1:len(data) + 1]
    sums = 2 * np.frombuffer(data, np.int8).astype(int) * weights.sum(axis=1)
    return ((sums >> 12 ^ sums) & 0xFF).astype(np.uint8).tobytes()
