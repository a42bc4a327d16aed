"""States of the memory: what the host link knows of the memory beside the FPGA: whether an image is in it, and which
one, by its digest."""

from __future__ import annotations

from enum import Enum

from amaranth.hdl import Cat, Module, Mux, Signal
from amaranth.lib import enum, memory, wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from ...stream.streams import BYTE, stream_of
from ...vendor.base import Technology

#: Length of what names an image.
DIGEST_BYTES = 16
#: Cycles that a RAM with two readers takes longer than one with a single one.
TURN_CYCLES = 2


class Beside(Enum):
    """Which memory with weights there is beside the FPGA: none, one that the host fills, or a flash with its image."""

    NOTHING = 0
    FILLED = 1
    SEALED = 2


class MemoryState(enum.Enum, shape=3):
    """The first byte of the payload of MEMORY (docs/host-link.md); from `NO_ANSWER` on of a flash alone."""

    EMPTY = 0
    FILLING = 1
    FILLED = 2
    NO_ANSWER = 3
    WRONG_PART = 4
    NOT_QUAD = 5
    OTHER_DESIGN = 6
    DAMAGED = 7


#: What packets say of the image.
#:
#: `write` is a byte of the payload of IMAGE; `place` counts down from 0, modulo 16.  `begin`, a pulse: another packet
#: begins.  `asked`, a pulse: the packet was an IMAGE without an error.  `resets`, a pulse: the host began a session,
#: with CLEAR where `clears`.  `filling`: DATA are bytes of an image.  `usable`: DATA may be taken, as bytes of an image
#: or as frames for the image that is there.
IMAGE_PACKETS = wiring.Signature({
    "write": Out(1), "place": Out(4), "byte": Out(8), "begin": Out(1), "asked": Out(1), "resets": Out(1),
    "clears": Out(1), "filling": In(1), "usable": In(1)})
#: The state of the memory, and the byte of the digest of its image at `place`, in the same cycle.
IMAGE_CONTENTS = wiring.Signature({"state": Out(MemoryState), "place": In(4), "byte": Out(8)})


class FilledImage(wiring.Component):
    """The state of a memory that the host fills, and the digest of its image.

    A digest is written half into a RAM before its checksum is known, and the other half has that of the image: so what
    is wrong changes nothing, and while one is written it is compared with the other.

    Attributes
    ----------
    packets : In(IMAGE_PACKETS)
        From the `PacketReceiver`.
    contents : Out(IMAGE_CONTENTS)
        For the `PacketSender`.
    complete : In(1)
        All words of an image are in the memory.
    """

    def __init__(self):
        super().__init__({"packets": In(IMAGE_PACKETS), "contents": Out(IMAGE_CONTENTS), "complete": In(1)})

    def elaborate(self, platform):
        m = Module()
        m.submodules.digests = digests = memory.Memory(shape=8, depth=2 * DIGEST_BYTES, init=[],
                                                       attrs={"ram_style": "distributed"})
        half, named, differs, matches = Signal(), Signal(), Signal(), Signal()
        new, old, sent = digests.write_port(), digests.read_port(domain="comb"), digests.read_port(domain="comb")
        packets, contents = self.packets, self.contents
        m.d.comb += [
            new.en.eq(packets.write), new.addr.eq(Cat(packets.place, ~half)), new.data.eq(packets.byte),
            old.addr.eq(Cat(packets.place, half)), sent.addr.eq(Cat(contents.place, half)),
            contents.byte.eq(sent.data), packets.usable.eq(packets.filling | matches), contents.state.eq(
                Mux(named, MemoryState.FILLED, Mux(packets.filling, MemoryState.FILLING, MemoryState.EMPTY)))]
        with m.If(packets.begin):
            m.d.sync += differs.eq(0)
        with m.Elif(packets.write):
            m.d.sync += differs.eq(differs | (old.data != packets.byte))
        with m.If(packets.asked):
            # An IMAGE names a complete image without a name; else it says which one the frames that follow are for.
            m.d.sync += matches.eq(named & ~differs & ~packets.filling)
            with m.If(packets.filling & self.complete & ~named):
                m.d.sync += [named.eq(1), half.eq(~half)]
        with m.If(packets.resets):
            m.d.sync += [matches.eq(0), packets.filling.eq(packets.clears), named.eq(named & ~packets.clears)]
        return m


class SealedImage(wiring.Component):
    """The state of a flash, and the digest of its image, which came from there.

    The digest is in one RAM.  Its two readers take turns, a cycle each: their places change far more seldom.  Where a
    byte of an IMAGE may come in every cycle, the digest is in tables instead, with a port for each.

    An IMAGE that began before `FILLED` was not compared with a whole digest.  So until the next one `contents` say
    `FILLING`: a host that reads `FILLED` and the digest of its IMAGE may send frames.

    Parameters
    ----------
    technology
        Makes the RAM.
    fast
        Whether there is a byte in every cycle.

    Attributes
    ----------
    packets, contents
        As of `FilledImage`.
    digest : stream of bytes
        Once, before `state` is `FILLED`.
    state : In(MemoryState)
    """

    def __init__(self, *, technology: Technology, fast: bool = False):
        self.technology = technology
        self.fast = fast
        super().__init__({"packets": In(IMAGE_PACKETS), "contents": Out(IMAGE_CONTENTS),
                          "digest": In(stream_of(BYTE, 1)), "state": In(MemoryState)})

    def elaborate(self, platform):
        m = Module()
        place, old = Signal(4), Signal(8)
        differs, matches, whole, early = Signal(), Signal(), Signal(), Signal()
        packets, contents, filled = self.packets, self.contents, self.state == MemoryState.FILLED
        # As `IMAGE_PACKETS` counts.
        m.d.sync += place.eq(place - self.digest.valid)
        m.d.comb += [
            self.digest.ready.eq(1), packets.usable.eq(matches),
            contents.state.eq(Mux(early & filled, MemoryState.FILLING, self.state))]
        self.in_tables(m, place, old) if self.fast else self.in_ram(m, place, old)
        with m.If(packets.begin):
            m.d.sync += [differs.eq(0), whole.eq(filled)]
        with m.Elif(packets.write):
            m.d.sync += differs.eq(differs | (old != packets.byte))
        with m.If(packets.asked):
            m.d.sync += [matches.eq(whole & ~differs), early.eq(~whole)]
        with m.If(packets.resets):
            m.d.sync += [matches.eq(0), early.eq(0)]
        return m

    def in_ram(self, m: Module, place: Signal, old: Signal) -> None:
        """The digest's bytes to `contents` and, for the byte of an IMAGE, to `old`, some cycles behind their places."""
        m.submodules.digest = ram = self.technology.ram(width=8, depth=DIGEST_BYTES)
        turn = Signal()
        m.d.comb += [
            ram.write_en.eq(self.digest.valid), ram.write_addr.eq(place), ram.write_data.eq(self.digest.payload[0]),
            ram.read_addr.eq(Mux(turn, self.packets.place, self.contents.place))]
        m.d.sync += turn.eq(~turn)
        with m.If(delay(m, turn, self.technology.timing.ram, "turn_of_data")):
            m.d.sync += old.eq(ram.read_data)
        with m.Else():
            m.d.sync += self.contents.byte.eq(ram.read_data)

    def in_tables(self, m: Module, place: Signal, old: Signal) -> None:
        """The same in the cycle of the place."""
        m.submodules.digest = digest = memory.Memory(shape=8, depth=DIGEST_BYTES, init=[],
                                                     attrs={"ram_style": "distributed"})
        new, *reads = digest.write_port(), *(digest.read_port(domain="comb") for _ in range(2))
        m.d.comb += [
            new.en.eq(self.digest.valid), new.addr.eq(place), new.data.eq(self.digest.payload[0]),
            reads[0].addr.eq(self.packets.place), old.eq(reads[0].data),
            reads[1].addr.eq(self.contents.place), self.contents.byte.eq(reads[1].data)]
