"""What the banks of an SDR SDRAM allow: which rows are open, and how long each command must still wait."""

from __future__ import annotations

from collections.abc import Sequence

from amaranth.hdl import Array, Cat, Module, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .sdram_part import SdramPart

__all__ = ["SdramBanks"]


def pause(m: Module, name: str, loads: Sequence[tuple[Value, int]]) -> Value:
    """High where a command must wait: of each load (event, clocks), `clocks` have not passed since the event.

    A register that shifts out ones: several events are combined by OR, and no number is compared.
    """
    longest = max(clocks for _, clocks in loads) - 1
    left = Signal(max(longest, 1), name=name)
    after = left >> 1
    for event, clocks in loads:
        after |= ((1 << clocks - 1) - 1) & event.replicate(len(left))
    m.d.sync += left.eq(after)
    return left[0]


class SdramBanks(wiring.Component):
    """Follows the commands and says in each cycle which ones the timing of the part allows.

    Attributes
    ----------
    activate, precharge, read, write : In(1)
        The command that is decided in this cycle, for `bank`; with `activate`, `row` is opened.
    precharge_all, refresh, set_mode : In(1)
        The same for all banks.
    bank, row : In
        Of the command.
    may_activate, may_precharge, may_access : Out(banks)
        A bit for each bank: the command may be decided for it in this cycle.  Whether the bank is open is not asked.
    may_write : Out(1)
        The chip has left the data lines to the FPGA.
    may_precharge_all, may_refresh : Out(1)
        The same for all banks; `may_refresh` holds for the mode register too.
    is_open : Out(banks)
    open_row : Out
        For each bank the row that was opened last.
    """

    def __init__(self, *, part: SdramPart):
        self.part = part
        banks, row_bits = part.banks, ceil_log2(part.rows)
        inputs = ("activate", "precharge", "read", "write", "precharge_all", "refresh", "set_mode")
        super().__init__({
            **{name: In(1) for name in inputs}, "bank": In(ceil_log2(banks)), "row": In(row_bits),
            "may_activate": Out(banks), "may_precharge": Out(banks), "may_access": Out(banks), "may_write": Out(1),
            "may_precharge_all": Out(1), "may_refresh": Out(1), "is_open": Out(banks),
            "open_row": Out(row_bits).array(banks)})

    def elaborate(self, platform):
        m = Module()
        clocks = self.part.clocks
        activate_pauses = []
        for bank in range(self.part.banks):
            here = self.bank == bank
            activate, precharge = self.activate & here, (self.precharge & here) | self.precharge_all
            before_activate = pause(m, f"before_activate{bank}", [
                (precharge, clocks.rp), (activate, clocks.rc), (self.refresh, clocks.rfc),
                (self.set_mode, clocks.mrd)])
            before_precharge = pause(m, f"before_precharge{bank}", [
                (activate, clocks.ras), (self.write & here, clocks.wr)])
            before_access = pause(m, f"before_access{bank}", [(activate, clocks.rcd)])
            activate_pauses.append(before_activate)
            m.d.comb += [
                self.may_precharge[bank].eq(~before_precharge), self.may_access[bank].eq(~before_access)]
            with m.If(precharge):
                m.d.sync += self.is_open[bank].eq(0)
            with m.If(activate):
                m.d.sync += [self.is_open[bank].eq(1), self.open_row[bank].eq(self.row)]
        other = pause(m, "before_other_activate", [(self.activate, clocks.rrd)])
        # The word of a read leaves the chip `cas` clocks later; after it the lines are free for a clock.
        turn = pause(m, "before_write", [(self.read, clocks.cas + 2)])
        m.d.comb += [
            self.may_activate.eq(~(Cat(activate_pauses) | other.replicate(self.part.banks))),
            self.may_precharge_all.eq(self.may_precharge.all()), self.may_refresh.eq(~Cat(activate_pauses).any()),
            self.may_write.eq(~turn)]
        return m

    def row_at(self, bank: Value) -> Value:
        return Array(self.open_row)[bank]
