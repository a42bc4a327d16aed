"""A host link between a Python core and a line of bytes, and the board of docs/host-link.md to compare it with."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

from amaranth.hdl import Module, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io import HostLink
from hwflow_rtl.io.link.bytes import TOKEN, Deframer, Framer
from hwflow_rtl.io.link.image import Beside
from hwflow_rtl.io.link.shape import LinkShape
from hwflow_rtl.stream.streams import link, stream_of
from hwflow_rtl.vendor import Generic

from tests.rtl.harness import run

from .link_host import DATA, ESCAPE, FLAG, IDENTITY, LINE, POLL, RESET, SETTINGS, STATUS, Seen, packets_in

#: Of an FPGA whose RAM blocks have 512 bytes.
SMALL = LinkShape()
DESIGN = bytes(range(0x7A, 0x82))  # with a flag and an escape in it
#: Cycles of a byte: faster than any line.
PACE = 16


def answers(frames: bytes, frame: int, out: int) -> bytes:
    """What the core of these tests makes of whole frames of `frame` bytes: `out` bytes for each."""
    whole = (frames[k:k + frame] for k in range(0, len(frames) // frame * frame, frame))
    return b"".join(bytes((sum(one) + 31 * k) & 255 for k in range(out)) for one in whole)


class OnBytes(wiring.Component):
    """A link with the framing of a line of bytes."""

    def __init__(self, link: HostLink):
        self.link = link
        super().__init__({"i": In(stream_of(8, 1)), "o": Out(stream_of(8, 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.deframer, m.submodules.framer = deframer, framer = Deframer(), Framer()
        m.submodules.link = self.link
        for source, sink in ((wiring.flipped(self.i), deframer.i), (deframer.o, self.link.i), (self.link.o, framer.i),
                             (framer.o, wiring.flipped(self.o))):
            link(m, source, sink)
        return m


    @property
    def given(self) -> Value:
        return self.i.payload[0]

    @property
    def got(self) -> Value:
        return self.o.payload[0]

    @staticmethod
    def of(octets: bytes) -> Iterable[int]:
        """What goes over the line for them."""
        return octets

    @staticmethod
    def arrived(came: bytearray, value: int) -> None:
        came.append(value)


class OnTokens(wiring.Component):
    """A link on a line of packets, of which the bench makes bytes with flags and escapes."""

    def __init__(self, link: HostLink):
        self.link = link
        super().__init__({"i": In(stream.Signature(TOKEN)), "o": Out(stream.Signature(TOKEN))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.link = self.link
        link(m, wiring.flipped(self.i), self.link.i)
        link(m, self.link.o, wiring.flipped(self.o))
        return m

    @property
    def given(self) -> Value:
        return Value.cast(self.i.payload)

    @property
    def got(self) -> Value:
        return Value.cast(self.o.payload)

    @staticmethod
    def of(octets: bytes) -> Iterable[int]:
        flip = 0
        for octet in octets:
            if octet == FLAG:
                yield 1 << 8 | bool(flip) << 9
            elif octet != ESCAPE or flip:
                yield octet ^ flip
            flip = 0x20 if octet == ESCAPE and not flip else 0

    @staticmethod
    def arrived(came: bytearray, value: int) -> None:
        octet, flag, bad = value & 255, value >> 8 & 1, value >> 9
        if flag:
            if bad:
                del came[came.rfind(FLAG) + 1:]
            came.append(FLAG)
        else:
            came += bytes([ESCAPE, octet ^ 0x20]) if octet in (FLAG, ESCAPE) else bytes([octet])


class Bench:
    """A link between a Python core, whose input is kept in `seen`, and a line of bytes each way; where the link is fast
    a byte may pass in every cycle, and there is a gap behind one of `1 / gaps`.

    A line with settings takes the low 24 bits of them; `settings` are those that it was told to have.
    """

    def __init__(self, frame: int = 4, out: int = 3, stall: float = 0.0, seed: int = 0, listens: bool = True,
                 image: int = 0, shape: LinkShape = SMALL, gaps: float = 0.0):
        self.link = HostLink(shape=shape, technology=Generic(), identity=DESIGN, bytes_in=frame, bytes_out=out,
                             memory=Beside.FILLED if image else Beside.NOTHING, image_bytes=image)
        self.line = OnTokens(self.link) if shape.fast else OnBytes(self.link)
        self.shape, self.settings, self.gaps, self.pace = shape, [], gaps, 0 if shape.fast else PACE
        #: Cycles that have passed.
        self.cycles = 0
        self.image, self.memory = image, bytearray()
        self.frame, self.out, self.stall = frame, out, stall
        self.noise = random.Random(seed)
        self.seen, self.came, self.errors, self.moves = bytearray(), bytearray(), 0, 0
        self.listens = listens

    async def core(self, ctx) -> None:
        """The core, and the line, which takes a byte in `PACE` cycles."""
        link, line, owes, begun, pause = self.link, self.line, bytearray(), bytearray(), 0
        while True:
            pause -= pause > 0
            ctx.set(line.o.ready, not pause)
            ctx.set(link.stopped, ctx.get(link.restart))  # a cycle later
            if self.shape.settings:
                taken = ctx.get(link.settings) & 0xFFFFFF
                ctx.set(link.settings_taken, taken)
                self.settings += [taken] * ctx.get(link.settings_changed)
            filling = bool(self.image) and ctx.get(link.filling)
            if self.image:
                if ctx.get(link.clear):
                    self.memory.clear()
                ctx.set(link.cleared, ctx.get(link.clear))
                ctx.set(link.complete, len(self.memory) == self.image)
            ready = len(owes) < 2 * self.out and self.listens and self.noise.random() >= self.stall
            valid = bool(owes) and self.noise.random() >= self.stall
            ctx.set(link.data.ready, ready)
            ctx.set(link.results.valid, valid)
            ctx.set(link.results.payload[0], owes[0] if valid else self.noise.randrange(256))
            _, _, offered, byte, taken, restart, error, sends, sent = await ctx.tick().sample(
                link.data.valid, link.data.payload[0], link.results.ready, link.restart, link.error, line.o.valid,
                line.got)
            self.cycles += 1
            self.errors += error
            self.moves += (sends and not pause) + (taken and valid) + (offered and ready)
            if sends and not pause:
                line.arrived(self.came, sent)
                pause = self.pace
            if restart:
                owes.clear()
                begun.clear()
                self.seen.clear()
                continue
            if taken and valid:
                del owes[0]
            if offered and ready and filling:
                self.memory.append(byte)
            elif offered and ready:
                self.seen.append(byte)
                begun.append(byte)
                if len(begun) == self.frame:
                    owes += answers(bytes(begun), self.frame, self.out)
                    begun.clear()

    async def send(self, ctx, octets: bytes) -> None:
        for value in self.line.of(octets):
            ctx.set(self.line.given, value)
            ctx.set(self.line.i.valid, 1)
            await ctx.tick().until(self.line.i.ready)
            ctx.set(self.line.i.valid, 0)
            if self.pace or self.noise.random() < self.gaps:
                await ctx.tick().repeat(2)

    async def quiet(self, ctx, cycles: int = 12 * PACE) -> None:
        """Until nothing has moved for so long."""
        count = -1
        while count != self.moves:
            count = self.moves
            await ctx.tick().repeat(cycles)

    async def ask(self, ctx, octets: bytes) -> list[Seen]:
        """What comes back."""
        self.came.clear()
        await self.send(ctx, octets)
        await self.quiet(ctx)
        found, wrong, rest = packets_in(self.came)
        assert (wrong, rest) == (0, b"")
        return found

    def run(self, host: Callable) -> None:
        run(self.line, host, watchers=[self.core])


def identity(sequence: int, frame: int, out: int, expected: int = 0, shape: LinkShape = SMALL) -> Seen:
    numbers = b"".join(number.to_bytes(size, "little") for number, size in (
        (frame, 4), (out, 4), (shape.room, 2), (shape.payload, 2)))
    return Seen(IDENTITY, sequence, expected, b"\2" + DESIGN + numbers)


def short(found: list[Seen]) -> list[tuple]:
    """Packets without what says nothing: the sequence of a STATUS."""
    return [(STATUS, seen.acknowledge, int.from_bytes(seen.payload, "little")) if seen.kind == STATUS
            else (seen.kind, seen.sequence, seen.acknowledge, seen.payload) for seen in found]


class Page:
    """The board as the page has it, with a core that takes nothing: what it answers to the packets of the host."""

    def __init__(self, frame: int, out: int, shape: LinkShape = SMALL):
        self.frame, self.out, self.shape = frame, out, shape
        self.awake, self.expected, self.room = False, 0, shape.room

    def answer(self, octets: bytes) -> list[tuple]:
        answers = []
        for seen in packets_in(octets)[0]:
            if seen.kind == RESET and not seen.payload:
                self.awake, self.expected, self.room = True, 0, self.shape.room
                answers.append(identity(seen.sequence, self.frame, self.out, shape=self.shape))
            elif (seen.kind, bool(seen.payload)) in ((DATA, True), (POLL, False)):
                size = len(seen.payload)
                if size > self.shape.payload:
                    continue
                if not self.awake:
                    answers.append(identity(seen.sequence, self.frame, self.out, shape=self.shape))
                    continue
                if seen.kind == DATA and seen.sequence == self.expected and size <= self.room:
                    self.expected, self.room = self.expected + 1 & 255, self.room - size
                answers.append(Seen(STATUS, 0, self.expected, self.room.to_bytes(2, "little")))
            elif seen.kind == LINE and len(seen.payload) == 4 and self.shape.settings:
                answers.append(Seen(SETTINGS, seen.sequence, self.expected, seen.payload[:3] + b"\0"))
        return short(answers)
