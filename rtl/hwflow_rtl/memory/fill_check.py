"""`FillCheck`: whether what a memory gives is what was written into it, by sums of words that depend on their order."""

from __future__ import annotations

from amaranth.hdl import Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources

__all__ = ["FillCheck"]

#: Bits of each sum.
SUM = 32


class FillCheck(wiring.Component):
    """Compares two sequences of words.

    Of each it keeps the sum of all words and the sum of all such sums, modulo 2^32 (Fletcher, *An arithmetic checksum
    for serial transmissions*, 1982).  A line that is open or stuck, words in other places, or a memory that answers
    nothing give other sums, but for one case in about 2^32.

    Attributes
    ----------
    written, read : words, with `take_written` and `take_read` for each that counts
    clear : In(1)
        Both sequences begin anew.
    same : Out(1)
        From what came until the cycle before.
    """

    def __init__(self, *, width: int):
        self.width = width
        super().__init__({"written": In(width), "take_written": In(1), "read": In(width), "take_read": In(1),
                          "clear": In(1), "same": Out(1)})

    @staticmethod
    def cost() -> Resources:
        """Four sums and their comparison."""
        return Resources(lut=5 * SUM, ff=4 * SUM)

    def elaborate(self, platform):
        m = Module()
        first = self.sums(m, self.written, self.take_written, "written")
        second = self.sums(m, self.read, self.take_read, "read")
        m.d.comb += self.same.eq((first[0] == second[0]) & (first[1] == second[1]))
        return m

    def sums(self, m: Module, word: Value, take: Value, name: str) -> tuple[Signal, Signal]:
        plain, ordered = (Signal(SUM, name=f"{kind}_{name}") for kind in ("plain", "ordered"))
        with m.If(take):
            m.d.sync += [plain.eq(plain + word), ordered.eq(ordered + plain)]
        with m.If(self.clear):
            m.d.sync += [plain.eq(0), ordered.eq(0)]
        return plain, ordered
