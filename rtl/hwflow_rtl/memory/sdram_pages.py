"""`PageWalk` goes through the words of a request: page by page, column by column."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .part import request_of
from .sdram_part import SdramPart

__all__ = ["PageWalk"]


class PageWalk(wiring.Component):
    """Goes through the words of a request.  A page is a row of a bank, its number without the bits of the column.

    Attributes
    ----------
    request
        As of the controller.
    enable, restart : In(1)
        Requests are taken; the one under way is dropped.
    busy, write : Out(1)
        There are words left, which are to be written.
    page, column : Out
        Of the next word.
    next_page : Out
        The page after it.
    ready : Out(1)
        `page` is open.
    wants : Out(1)
        A page that is needed is not known to be open: `page` where it is not `ready`, else `next_page`.
    opened : In(1)
        The page that was wanted is open.
    forget : In(1)
        No page is open any more.
    step : In(1)
        The word is asked for.
    """

    def __init__(self, *, part: SdramPart):
        self.part = part
        self.column_bits = ceil_log2(part.columns)
        page = ceil_log2(part.words) - self.column_bits
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "enable": In(1), "restart": In(1), "busy": Out(1),
            "write": Out(1), "page": Out(page), "column": Out(self.column_bits), "next_page": Out(page),
            "ready": Out(1), "wants": Out(1), "opened": In(1), "forget": In(1), "step": In(1)})

    def split(self, page: Value) -> tuple[Value, Value]:
        """Bank and row of a page."""
        bits = ceil_log2(self.part.banks)
        return page[:bits], page[bits:]

    def elaborate(self, platform):
        m = Module()
        last, final, next_final, ahead = Signal.like(self.request.payload.last), Signal(), Signal(), Signal()
        fresh, taken = Signal(), Signal()
        last_page = last[self.column_bits:]
        m.d.comb += [
            self.request.ready.eq(self.enable & ~self.busy & ~fresh),
            taken.eq(self.request.valid & self.request.ready),
            self.wants.eq(self.busy & (~self.ready | (~final & ~ahead)))]
        m.d.sync += [fresh.eq(taken), next_final.eq(self.next_page == last_page)]
        with m.If(taken):
            asked = self.request.payload
            m.d.sync += [
                Cat(self.column, self.page).eq(asked.first), last.eq(asked.last), self.write.eq(asked.write),
                self.ready.eq(0), ahead.eq(0)]
        with m.If(fresh):
            m.d.sync += [self.busy.eq(1), final.eq(self.page == last_page), self.next_page.eq(self.page + 1)]
        with m.If(self.opened):
            m.d.sync += [self.ready.eq(1), ahead.eq(self.ready)]
        with m.If(self.forget):
            m.d.sync += [self.ready.eq(0), ahead.eq(0)]
        with m.If(self.step):
            m.d.sync += self.column.eq(self.column + 1)
            with m.If(final & (self.column == last[:self.column_bits])):
                m.d.sync += self.busy.eq(0)
            with m.Elif(self.column.all()):
                m.d.sync += [
                    self.page.eq(self.next_page), self.next_page.eq(self.next_page + 1), final.eq(next_final),
                    self.ready.eq(ahead), ahead.eq(0)]
        with m.If(self.restart):
            m.d.sync += [self.busy.eq(0), fresh.eq(0)]
        return m
