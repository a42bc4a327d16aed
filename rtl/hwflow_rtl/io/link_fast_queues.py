"""The queues of `link_queues` on a line that brings and takes a byte in every cycle."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal
from amaranth.lib import wiring
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, payload_of
from .link_queues import DataQueue, ResultQueue

__all__ = ["FastDataQueue", "FastResultQueue"]


class FastDataQueue(DataQueue):
    """A `DataQueue` that takes and gives a byte in every cycle; the room is that of two cycles before."""

    def elaborate(self, platform):
        m = Module()
        latency, bits = self.technology.timing.ram, ceil_log2(self.shape.room)
        m.submodules.ram = ram = self.technology.ram(width=8, depth=self.shape.room)
        # One bit more than an address has, so that full and empty differ.
        written, committed, read, left = (Signal(bits + 1, name=name) for name in (
            "written", "committed", "read", "left"))
        m.d.comb += [ram.write_en.eq(self.write), ram.write_addr.eq(written[:-1]), ram.write_data.eq(self.byte)]
        with m.If(self.rollback):
            m.d.sync += written.eq(committed)
        with m.Else():
            m.d.sync += written.eq(written + self.write)
        with m.If(self.commit):
            m.d.sync += committed.eq(written)
        # The place behind the last one that is free is a whole turn ahead of what leaves next.
        m.d.sync += [left.eq(left + (self.o.valid & self.o.ready)),
                     self.room.eq((Cat(left[:-1], ~left[-1]) - committed)[:bits + 1])]

        words = latency + 5  # from a credit to the same one again
        m.submodules.credits = credits = CreditCounter(words=words, take=1)
        m.submodules.queue = queue = Queue(shape=payload_of(self.o), depth=words, technology=self.technology)
        step = Signal()
        m.d.comb += [step.eq((read != committed) & credits.credit), ram.read_addr.eq(read[:-1]),
                     credits.taken.eq(step), credits.given.eq(self.o.valid & self.o.ready)]
        m.d.sync += read.eq(read + step)
        m.d.comb += [queue.i.valid.eq(delay(m, step, latency, "step", reset_less=False)),
                     queue.i.payload[0].eq(ram.read_data)]
        link(m, queue.o, wiring.flipped(self.o))
        return m


class FastResultQueue(ResultQueue):
    """A `ResultQueue` that takes a byte in every cycle but three behind each packet."""

    MOST_SLOTS = 16

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.ram(width=8, depth=self.shape.room)
        slot, place = Signal(range(self.slots)), Signal(range(self.size))
        complete, opened, begins = Signal(), Signal(), Signal()
        last_place = self.lengths(m, complete, slot)
        left = Signal(range(-1, self.size))  # down to its sign bit: the bytes that follow this one, less one
        m.d.comb += [
            self.i.ready.eq(opened), ram.write_en.eq(self.i.valid & opened), ram.write_addr.eq(Cat(place, slot)),
            ram.write_data.eq(self.i.payload[0]), complete.eq(ram.write_en & left[-1]),
            ram.read_addr.eq(Cat(self.place, self.slot)), self.byte.eq(ram.read_data)]
        # Behind a packet: its slot counts; then it is known whether there is another; then that begins.
        m.d.sync += begins.eq(delay(m, complete, 1, "complete", reset_less=False))
        with m.If(complete):
            m.d.sync += [opened.eq(0), place.eq(0)]
        with m.Elif(ram.write_en):
            m.d.sync += [place.eq(place + 1), left.eq(left - 1)]
        with m.Elif(~opened & ~complete & ~begins):
            m.d.sync += [opened.eq(~self.filled[-1]), left.eq(last_place - 1)]
        m.d.sync += [slot.eq(slot + complete), self.filled.eq(self.filled + complete - self.free)]
        return m
