"""A core that uses each kind of unit once: a byte in, times a row of a ROM, the sum through a RAM, a byte out."""

from __future__ import annotations

import numpy as np
from amaranth.hdl import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Resources, Technology

BYTE = signed(8)


class SmallCore(wiring.Component):
    """`products` multipliers, a ROM of `rows` rows, a RAM of `words` words of 16 bits.  One byte at a time."""

    def __init__(self, technology: Technology, *, products: int = 4, rows: int = 300, words: int = 600):
        self.technology = technology
        self.products = products
        self.rows = rows
        self.words = words
        super().__init__({"i": In(stream_of(BYTE, 1)), "o": Out(stream_of(BYTE, 1))})

    @staticmethod
    def cost(technology: Technology, *, products: int = 4, rows: int = 300, words: int = 600) -> Resources:
        """What its units should take."""
        return (technology.multipliers_cost(count=products, a=BYTE, b=BYTE)
                + technology.rom_cost(width=8 * products, depth=rows) + technology.ram_cost(width=16, depth=words))

    def elaborate(self, platform):
        m = Module()
        technology, timing = self.technology, self.technology.timing
        weights = np.random.default_rng(1).integers(0, 256, (self.rows, self.products), dtype=np.uint8)
        m.submodules.rom = rom = technology.rom(width=8 * self.products, contents=weights, name="weights")
        m.submodules.multipliers = multipliers = technology.multipliers(count=self.products, a=BYTE, b=BYTE)
        m.submodules.ram = ram = technology.ram(width=16, depth=self.words)
        row, place = Signal(range(self.rows), name="row"), Signal(range(self.words), name="place")
        byte, answer = Signal(BYTE, name="byte"), Signal(BYTE, name="answer")
        busy, full, start = Signal(name="busy"), Signal(name="full"), Signal(name="start")
        total, levels = tree(m, [multipliers.p[k] for k in range(self.products)])
        written = timing.rom + timing.multiply + levels
        since = Signal(written + timing.ram + 2, name="since")
        m.d.comb += [start.eq(self.i.valid & self.i.ready), self.i.ready.eq(~busy & ~full), self.o.valid.eq(full),
                     self.o.payload[0].eq(answer), rom.addr.eq(row)]
        m.d.sync += since.eq(Cat(start, since))
        with m.If(start):
            m.d.sync += [byte.eq(self.i.payload[0]), busy.eq(1)]
            m.d.sync += [row.eq(row + 1), place.eq(place + 1)]
        for k in range(self.products):
            m.d.comb += [multipliers.a[k].eq(byte), multipliers.b[k].eq(rom.data.word_select(k, 8).as_signed())]
        m.d.comb += [ram.write_en.eq(since[written]), ram.write_addr.eq(place), ram.write_data.eq(total[:16]),
                     ram.read_addr.eq(place)]
        with m.If(since[-1]):
            m.d.sync += [answer.eq(ram.read_data[8:] ^ ram.read_data[:8]), full.eq(1), busy.eq(0)]
        with m.If(full & self.o.ready):
            m.d.sync += full.eq(0)
        return m


def tree(m: Module, terms: list) -> tuple[Signal, int]:
    """The sum of `terms` through a register after each addition, and how many of them a term passes."""
    levels = 0
    while len(terms) > 1 or levels == 0:
        sums = []
        for k in range(0, len(terms), 2):
            value = sum(terms[k:k + 2])
            register = Signal(value.shape(), name=f"sum{levels}_{k // 2}", reset_less=True)
            m.d.sync += register.eq(value)
            sums.append(register)
        terms, levels = sums, levels + 1
    return terms[0], levels
