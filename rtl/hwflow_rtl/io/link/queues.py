"""The two queues of the host link: data wait until their packet was right, results until the host has them.

The fast ones are for a line that brings and takes a byte in every cycle.
"""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...stream.credit import CreditCounter
from ...stream.pipeline import delay
from ...stream.queue import Queue
from ...stream.streams import BYTE, link, payload_of, stream_of
from ...vendor.base import Technology
from .shape import LinkShape


class DataQueue(wiring.Component):
    """Bytes enter speculatively; `commit` makes them the core's, `rollback` forgets them.

    A `write` must come at least two cycles after the last one, a commit or a rollback two cycles after a write.

    Attributes
    ----------
    write, byte : In(1), In(8)
        Store a byte behind those written since the last commit or rollback.  There must be room for it.
    commit, rollback : In(1)
    room : Out(range(shape.room + 1))
        Bytes that can be written behind the last commit, as of the cycle before.
    o : stream of bytes
        The payload from a register without reset.
    """

    def __init__(self, *, shape: LinkShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        super().__init__({
            "write": In(1), "byte": In(8), "commit": In(1), "rollback": In(1), "room": Out(range(shape.room + 1)),
            "o": Out(stream_of(BYTE, 1)),
        })

    def elaborate(self, platform):
        m = Module()
        room = self.shape.room
        m.submodules.ram = ram = self.technology.ram(width=8, depth=room)
        # One bit more than an address has, so that full and empty differ.
        written, committed, read = (Signal(ceil_log2(room) + 1, name=name) for name in ("written", "committed", "read"))
        some, valid, word = Signal(), Signal(), Signal(8, reset_less=True)
        fetching = Signal(self.technology.timing.ram)
        m.d.comb += [
            ram.write_en.eq(self.write), ram.write_addr.eq(written[:-1]), ram.write_data.eq(self.byte),
            ram.read_addr.eq(read[:-1]), self.o.payload[0].eq(word), self.o.valid.eq(valid),
        ]
        m.d.sync += [self.room.eq(read + room - committed), some.eq(committed != read)]
        with m.If(self.rollback):
            m.d.sync += written.eq(committed)
        with m.Else():
            m.d.sync += written.eq(written + self.write)
        with m.If(self.commit):
            m.d.sync += committed.eq(written)
        with m.If(valid & self.o.ready):
            m.d.sync += [read.eq(read + 1), valid.eq(0), fetching.eq(-1)]
        with m.Else():
            m.d.sync += [fetching.eq(fetching >> 1), valid.eq(some & ~fetching[0])]
        with m.If(~valid):
            m.d.sync += word.eq(ram.read_data)
        return m


class ResultQueue(wiring.Component):
    """Bytes of results in slots, each for one packet; a slot is filled, read as often as is needed, and freed in order.

    A packet has `shape.payload` bytes, or fewer where a frame ends.  Slots are as large as the largest packet, rounded
    up to a power of two; there are as many as fit into the RAM, at most `MOST_SLOTS`.

    Parameters
    ----------
    shape
        The size of packets, and of the RAM.
    frame
        Bytes of a frame's results.

    Attributes
    ----------
    i : stream of bytes
    filled : Out(range(slots + 1))
        Slots that are filled and not yet freed.
    free : In(1)
        Free the oldest; there must be one.
    slot, place : In(range(slots)), In(range(slot size))
        What to read: slots count round from 0 at reset.
    byte : Out(8)
        `latency` cycles later.
    length, last : Out(shape.length_bits), Out(range(shape.payload))
        Bytes of `slot`, and the place of the last of them, in the same cycle.
    """

    #: More would hardly shorten the wait for acknowledgements.
    MOST_SLOTS = 8

    def __init__(self, *, shape: LinkShape, frame: int, technology: Technology):
        if frame < 1:
            raise ValueError(f"frame of a ResultQueue must be at least 1 byte, not {frame}")
        self.shape = shape
        self.frame = frame
        self.technology = technology
        self.size = max(1 << ceil_log2(min(frame, shape.payload)), 2)
        self.slots = min(shape.room // self.size, self.MOST_SLOTS)
        super().__init__({
            "i": In(stream_of(BYTE, 1)), "filled": Out(range(self.slots + 1)), "free": In(1),
            "slot": In(range(self.slots)), "place": In(range(self.size)), "byte": Out(8),
            "length": Out(shape.length_bits), "last": Out(range(shape.payload)),
        })

    @property
    def latency(self) -> int:
        return self.technology.timing.ram

    @property
    def packets(self) -> int:
        """Packets of a frame."""
        return -(-self.frame // self.shape.payload)

    @property
    def last_length(self) -> int:
        """Bytes of a frame's last packet."""
        return self.frame - (self.packets - 1) * self.shape.payload

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.ram(width=8, depth=self.shape.room)
        slot, place = Signal(range(self.slots)), Signal(range(self.size))
        opened, complete, wrote, shut = Signal(), Signal(), Signal(), Signal()
        last_place = self.lengths(m, complete, slot)
        m.d.comb += [
            ram.write_en.eq(self.i.valid & opened), ram.write_addr.eq(Cat(place, slot)),
            ram.write_data.eq(self.i.payload[0]), self.i.ready.eq(opened),
            ram.read_addr.eq(Cat(self.place, self.slot)), self.byte.eq(ram.read_data),
            complete.eq(wrote & (place == last_place)),
        ]
        # A byte comes in; then its place is counted; then it is known whether there is room for another.
        m.d.sync += [wrote.eq(ram.write_en), shut.eq(wrote)]
        m.d.sync += opened.eq(~(ram.write_en | wrote | shut | self.filled[-1]))
        with m.If(wrote):
            m.d.sync += place.eq(Mux(complete, 0, place + 1))
        m.d.sync += [slot.eq(slot + complete), self.filled.eq(self.filled + complete - self.free)]
        return m

    def lengths(self, m: Module, complete: Signal, slot: Signal):
        """Says how long the packets in the slots are; gives the last place of the packet that is being written."""
        payload = self.shape.payload
        if self.packets == 1 or self.last_length == payload:
            length = min(self.frame, payload)
            m.d.comb += [self.length.eq(length), self.last.eq(length - 1)]
            return length - 1
        # Down to its sign bit: the packets of the frame that follow this one, less one.
        left = Signal(range(-1, self.packets - 1), init=self.packets - 2)
        short = Signal(self.slots)
        is_short = short.bit_select(self.slot, 1)
        m.d.comb += [self.length.eq(Mux(is_short, self.last_length, payload)),
                     self.last.eq(Mux(is_short, self.last_length - 1, payload - 1))]
        with m.If(complete):
            m.d.sync += [left.eq(Mux(left[-1], self.packets - 2, left - 1)), short.bit_select(slot, 1).eq(left[-1])]
        return Mux(left[-1], self.last_length - 1, payload - 1)


# The same queues on a line that brings and takes a byte in every cycle.


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
