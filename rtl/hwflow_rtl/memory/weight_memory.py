"""`WeightMemory`: weights of several stages in one memory outside of the FPGA, a stream for each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import gcd
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, DomainRenamer, Module, Mux, ResetInserter, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Member, Out
from amaranth.utils import ceil_log2

from ..io.link.image import MemoryState
from ..stream.crossing import StreamCrossing
from ..stream.gearbox import Gearbox
from ..stream.streams import BYTE, link, stream_of
from ..vendor.base import Resources, Technology
from ..vendor.generic import Generic
from .part import MemoryPart
from .seal import SealedFlash
from .shared_reader import SharedReader
from .weight_reader import BurstTurns, WeightReader
from .weight_sharing import WeightImage, WeightSharing, WeightStream

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


class WeightWords(wiring.Component):
    """Gives the words of each image again and again, once the memory has all of them.

    What was filled in is read once, and must be what was written: a memory that does not answer is never filled.

    Parameters
    ----------
    sharing
        Memory, images and bursts.
    technology
        Makes the queues.

    Attributes
    ----------
    o0, o1, ... : streams of words, one for each image
        Or of their pieces, as `read` of a controller.
    restart, pins
        As of `WeightMemory`.
    fill, clear, filled
        The same; `fill` and `clear` where the part is writable.
    initialized : Out(1)
        Of the controller.
    digest, state
        As of `SealedController`, for a `SealedFlash`.
    """

    def __init__(self, *, sharing: WeightSharing, technology: Technology | None = None):
        self.sharing = sharing
        self.technology = technology
        part = sharing.part
        self.controller = part.controller(technology)
        self.readers = [WeightReader(technology=technology, **numbers) for numbers in readers_of(sharing)]
        filling = {"fill": In(stream.Signature(part.width)), "clear": In(1)} if part.writable else {}
        pieces = stream.Signature(part.piece)
        super().__init__({
            **filling, **seal_ports(part), **{f"o{n}": Out(pieces) for n in range(len(sharing.streams))},
            "restart": In(1), "filled": Out(1), "initialized": Out(1), "pins": Out(part.pins())})

    @staticmethod
    def cost(sharing: WeightSharing, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated, RAM exact."""
        part, readers = sharing.part, readers_of(sharing)
        cost = part.controller_cost(technology).within("controller")
        if sharing.side_by_side:
            cost += SharedReader.cost(sharing=sharing, technology=technology or Generic()).within("reader")
        for n, numbers in enumerate(readers):
            cost += WeightReader.cost(technology=technology, **numbers).within(f"reader{n}")
        if len(readers) > 1:
            cost += BurstTurns.cost(part=part, readers=len(readers), longest=max(sharing.bursts), technology=technology)
        count = ceil_log2(sharing.words) if part.writable else 0
        check = FillCheck.cost() if part.writable else Resources()
        return cost + check + Resources(lut=2 * count + 10, ff=count + 5)

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller = controller = self.controller
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        restart = Signal()
        request, read = self.side_by_side(m, restart) if self.sharing.side_by_side else self.in_turns(m, restart)
        m.d.comb += [self.initialized.eq(controller.initialized), controller.restart.eq(restart)]
        if self.sharing.part.writable:
            self.filling(m, request, read, restart)
        else:
            wiring.connect(m, request, controller.request)
            wiring.connect(m, controller.read, read)
            m.d.comb += [self.filled.eq(controller.initialized), restart.eq(self.restart)]
        for name in seal_ports(self.sharing.part):
            forwarded(m, getattr(controller, name), getattr(self, name))
        return m

    def side_by_side(self, m: Module, restart: Signal):
        """One reader for all streams: its requests, and what takes the words for them."""
        reader = SharedReader(sharing=self.sharing, technology=self.technology or Generic())
        m.submodules.reader = ResetInserter(restart)(reader)
        for n in range(len(self.sharing.streams)):
            wiring.connect(m, getattr(reader, f"o{n}"), wiring.flipped(getattr(self, f"o{n}")))
        m.d.comb += reader.enable.eq(self.filled & ~restart)
        return reader.request, reader.read

    def in_turns(self, m: Module, restart: Signal):
        """A reader for each stream: the stream of requests of all of them, and what takes the words for them."""
        for n, reader in enumerate(self.readers):
            m.submodules[f"reader{n}"] = reader
            wiring.connect(m, reader.o, wiring.flipped(getattr(self, f"o{n}")))
            m.d.comb += [reader.restart.eq(restart), reader.enable.eq(self.filled)]
        if len(self.readers) == 1:
            return self.readers[0].request, self.readers[0].read
        turns = BurstTurns(part=self.sharing.part, readers=len(self.readers), longest=max(self.sharing.bursts))
        m.submodules.turns = ResetInserter(restart)(turns)
        for n, reader in enumerate(self.readers):
            wiring.connect(m, reader.request, getattr(turns, f"request{n}"))
            wiring.connect(m, getattr(turns, f"read{n}"), reader.read)
        return turns.request, turns.read

    def filling(self, m: Module, wanted, read, restart: Signal) -> None:
        """One request writes all words, the next one reads them for the check; then come those of the readers."""
        controller, last = self.controller, self.sharing.words - 1
        m.submodules.check = check = FillCheck(width=self.sharing.part.width)
        left, asked, missing = Signal(range(last + 1), init=last), Signal(), Signal(init=1)
        checking, came = Signal(), Signal()  # words come back; all have come
        request = controller.request
        moves = asked & missing  # words go to the controller
        m.d.comb += [
            restart.eq(self.clear | (self.restart & self.filled)),
            request.valid.eq(~self.clear & (~asked | (~missing & ~checking) | (self.filled & wanted.valid))),
            wanted.ready.eq(request.ready & self.filled), request.payload.eq(wanted.payload),
            controller.write.payload.eq(self.fill.payload), controller.write.valid.eq(self.fill.valid & moves),
            self.fill.ready.eq(controller.write.ready & moves),
            read.payload.eq(controller.read.payload), read.valid.eq(controller.read.valid & self.filled),
            controller.read.ready.eq(Mux(self.filled, read.ready, checking)),
            check.written.eq(self.fill.payload), check.take_written.eq(self.fill.valid & self.fill.ready),
            check.read.eq(controller.read.payload),
            check.take_read.eq(controller.read.valid & checking & ~came), check.clear.eq(self.clear)]
        with m.If(~checking):
            m.d.comb += [request.payload.first.eq(0), request.payload.last.eq(last), request.payload.write.eq(~asked)]
        with m.If(request.valid & request.ready):  # a read begins when all words are written
            m.d.sync += [asked.eq(1), checking.eq(asked)]
        with m.If(check.take_written | check.take_read):
            m.d.sync += left.eq(Mux(left == 0, last, left - 1))
            with m.If(left == 0):
                m.d.sync += [missing.eq(0), came.eq(checking)]
        m.d.sync += self.filled.eq(came & check.same)
        with m.If(self.clear):
            m.d.sync += [asked.eq(0), missing.eq(1), checking.eq(0), came.eq(0), left.eq(left.init), self.filled.eq(0)]


def seal_ports(part: MemoryPart) -> dict[str, Member]:
    """Connect what a `SealedFlash` says of its image, as ports of what has its controller; none of another memory."""
    if not isinstance(part, SealedFlash):
        return {}
    return {"digest": Out(stream_of(BYTE, 1)), "state": Out(MemoryState)}


def forwarded(m: Module, inner: Any, outer: Any) -> None:
    """Makes a stream or a value of a part one of the whole."""
    if isinstance(inner, stream.Interface):
        wiring.connect(m, inner, wiring.flipped(outer))
    else:
        m.d.comb += outer.eq(inner)


def readers_of(sharing: WeightSharing) -> list[dict[str, Any]]:
    """The arguments of the `WeightReader` of each image; none where one reader is for all."""
    if sharing.side_by_side:
        return []
    return [{"part": sharing.part, "first": first, "words": image.words, "burst": burst, "depth": depth}
            for first, image, burst, depth in zip(sharing.firsts, sharing.images, sharing.bursts, sharing.depths,
                                                  strict=True)]


class WeightUnpacker(wiring.Component):
    """Takes the words of `image` again and again and gives the beats of its stream.

    It takes a piece of a word or gives a beat in each cycle, whichever are more.  Beats that only fill the image are
    dropped.

    Parameters
    ----------
    image
        The words.
    piece
        Bits of a word that come at once, the low ones first; None for all of them.

    Attributes
    ----------
    restart : In(1)
        The next word is the first one of the image.
    i : stream of pieces of words
    o : stream of `lanes` elements of `shape`
    """

    def __init__(self, *, image: WeightImage, piece: int | None = None):
        self.image = image
        self.width = image.word if piece is None else piece
        shape, lanes = image.stream.shape, image.stream.lanes
        super().__init__({"restart": In(1), "i": In(stream.Signature(self.width)), "o": Out(stream_of(shape, lanes))})

    def model(self, words):
        """int64[beats, lanes] for the words of the image."""
        return self.image.model(words)

    @staticmethod
    def cost(*, image: WeightImage, piece: int | None = None, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: the change of width, and a counter of beats where some are dropped."""
        count = ceil_log2(image.padded_beats) + 1 if image.padded_beats > image.stream.beats else 0
        width = image.word if piece is None else piece
        part = gcd(width, image.stream.width)
        return (Gearbox.cost(width=part, lanes_in=width // part, lanes_out=image.stream.width // part,
                             technology=technology)
                + Resources(lut=2 * count, ff=count))

    def elaborate(self, platform):
        m = Module()
        image = self.image
        part, beats, padded = gcd(self.width, image.stream.width), image.stream.beats, image.padded_beats
        gearbox = Gearbox(shape=unsigned(part), lanes_in=self.width // part, lanes_out=image.stream.width // part)
        m.submodules.gearbox = ResetInserter(self.restart)(gearbox)
        kept = Signal(init=1)
        m.d.comb += [
            gearbox.i.valid.eq(self.i.valid), Value.cast(gearbox.i.payload).eq(self.i.payload),
            self.i.ready.eq(gearbox.i.ready), Value.cast(self.o.payload).eq(Value.cast(gearbox.o.payload)),
            self.o.valid.eq(gearbox.o.valid & kept), gearbox.o.ready.eq(self.o.ready | ~kept)]
        if padded > beats:
            count = Signal(range(padded))
            with m.If(gearbox.o.valid & gearbox.o.ready):
                m.d.sync += count.eq(count + 1)
                with m.If(count == beats - 1):
                    m.d.sync += kept.eq(0)
                with m.If(count == padded - 1):
                    m.d.sync += [count.eq(0), kept.eq(1)]
            with m.If(self.restart):
                m.d.sync += [count.eq(0), kept.eq(1)]
        return m


class WeightMemory(wiring.Component):
    """Gives each stream its beats, frame after frame without end, at its own pace: no stream ever waits for another one
    to be read.

    Nothing comes before the whole memory is filled.  A memory that cannot be written has been filled elsewhere.

    Parameters
    ----------
    part
        The memory.
    streams
        What each stage takes for a frame.
    technology
        Makes the queues.
    domain
        The clock domain of the memory and its controller.  If it is not `sync`, words cross to `sync`: they are seldom
        wider than beats, and never more.

    Attributes
    ----------
    o0, o1, ... : streams of `lanes` elements of `shape`
        In `sync`, as all ports but `pins`.
    fill : stream of words of memory
        `image(...)`, the first word first.  Where the part is writable.
    clear : In(1)
        Forgets the images, also half of them; `fill` then begins with the first word.  From a register.  Where the part
        is writable.
    restart : In(1)
        All streams begin with the first beat of a frame again; the images stay.  From a register; while the memory is
        filled it does nothing.
    filled : Out(1)
        The images are in the memory, or what cannot be written may be read.
    digest, state
        As of `SealedController`, for a `SealedFlash`; in the clock domain of the memory.
    pins : Out(part.pins())
    """

    def __init__(self, *, part: MemoryPart, streams: Sequence[WeightStream], technology: Technology | None = None,
                 domain: str = "sync"):
        self.part = part
        self.streams = tuple(streams)
        self.domain = domain
        self.technology = technology
        self.sharing = WeightSharing(part, self.streams)
        if self.words > part.words:
            raise ValueError(f"{part.name} has {part.words} words, and the weights of all streams take {self.words}")
        self.memory = WeightWords(sharing=self.sharing, technology=technology)
        filling = {"fill": In(stream.Signature(part.width)), "clear": In(1)} if part.writable else {}
        super().__init__({
            **filling, **{f"o{n}": Out(stream_of(each.shape, each.lanes)) for n, each in enumerate(self.streams)},
            **seal_ports(part), "restart": In(1), "filled": Out(1), "pins": Out(part.pins())})

    @property
    def words(self) -> int:
        """Words of memory that the images of all streams take."""
        return self.sharing.words

    def image(self, beats: Sequence[npt.NDArray[np.int64]]) -> npt.NDArray[np.int64]:
        """The words of memory, int64[words], for int64[beats, lanes] of each stream."""
        return self.sharing.image(beats)

    def guaranteed(self, ratio: Fraction | int = 1) -> tuple[Fraction, ...]:
        """Ask `WeightSharing.guaranteed`."""
        return self.sharing.guaranteed(ratio)

    @staticmethod
    def cost(*, part: MemoryPart, streams: Sequence[WeightStream], technology: Technology | None = None,
             domain: str = "sync") -> Resources:
        """LUT and FF estimated, RAM exact."""
        sharing = WeightSharing(part, tuple(streams))
        cost = WeightWords.cost(sharing, technology)
        for image in sharing.images:
            cost += WeightUnpacker.cost(image=image, piece=part.piece, technology=technology)
        if domain != "sync":
            cost += StreamCrossing.cost(width=part.piece, technology=technology).copies(len(sharing.streams))
            if part.writable:
                cost += StreamCrossing.cost(width=part.width, technology=technology)
            cost += Resources(lut=6, ff=10)
        return cost

    def elaborate(self, platform):
        m = Module()
        here, memory = self.domain == "sync", self.memory
        m.submodules.memory = memory if here else DomainRenamer(self.domain)(memory)
        wiring.connect(m, wiring.flipped(self.pins), memory.pins)
        for name in seal_ports(self.part):
            forwarded(m, getattr(memory, name), getattr(self, name))
        restart = Signal()
        words = self.joined(m, restart) if here else self.crossed(m, restart)
        for n, (image, each) in enumerate(zip(self.sharing.images, words, strict=True)):
            m.submodules[f"unpacker{n}"] = unpacker = WeightUnpacker(image=image, piece=self.part.piece)
            m.d.comb += unpacker.restart.eq(restart)
            wiring.connect(m, each, unpacker.i)
            link(m, unpacker.o, wiring.flipped(getattr(self, f"o{n}")))
        return m

    def joined(self, m: Module, restart: Signal) -> list[stream.Interface]:
        """All in one clock domain; the streams of words."""
        memory, wanted = self.memory, self.restart & self.memory.filled
        m.d.comb += [memory.restart.eq(self.restart), self.filled.eq(memory.filled), restart.eq(wanted)]
        if self.part.writable:
            wiring.connect(m, wiring.flipped(self.fill), memory.fill)
            m.d.comb += [memory.clear.eq(self.clear), restart.eq(self.clear | wanted)]
        return [getattr(memory, f"o{n}") for n in range(len(self.streams))]

    def crossed(self, m: Module, restart: Signal) -> list[stream.Interface]:
        """Two clock domains; the streams of words in `sync`.

        When a restart ends, each stream's crossing takes it to the memory's side.  There they arrive about together,
        and as long as one of them is restarted, all readers are.
        """
        memory, wanted, before = self.memory, Signal(), Signal()
        clearing, filled, again = Signal(), Signal(), Signal()
        m.submodules.filled = FFSynchronizer(memory.filled, filled)
        m.d.sync += before.eq(wanted)
        m.d.comb += [wanted.eq(self.restart), restart.eq(wanted | before), self.filled.eq(filled & ~clearing),
                     memory.restart.eq(again)]
        if self.part.writable:
            m.d.comb += wanted.eq(self.restart | self.clear | clearing)
            self.fill_crossed(m, clearing)
        restarted, words = [], []
        for n in range(len(self.streams)):
            crossing = StreamCrossing(shape=self.part.piece, source=self.domain, target="sync")
            m.submodules[f"crossing{n}"] = crossing
            wiring.connect(m, getattr(memory, f"o{n}"), crossing.i)
            each = stream.Signature(self.part.piece).create(path=(f"words{n}",))
            m.d.comb += [crossing.restart.eq(before & ~wanted), each.payload.eq(crossing.o.payload),
                         each.valid.eq(crossing.o.valid & ~restart), crossing.o.ready.eq(each.ready)]
            restarted.append(crossing.restarted)
            words.append(each)
        m.d.comb += again.eq(Cat(restarted).any())
        return words

    def fill_crossed(self, m: Module, clearing: Signal) -> None:
        """`clearing` is high from `clear` until the memory's side has forgotten its images and the words on their way.

        The crossing is restarted once for that: words that it took between two restarts would be lost.  So a `clear`
        while it is still restarted, when nothing was filled since, does nothing.
        """
        memory, there, before = self.memory, self.domain, Signal(name="cleared_before")
        m.submodules.fill = fill = StreamCrossing(shape=self.part.width, source="sync", target=there)
        m.submodules.clear = FFSynchronizer(clearing, memory.clear, o_domain=there)
        m.d[there] += before.eq(memory.clear)
        m.d.comb += [
            fill.i.payload.eq(self.fill.payload), fill.i.valid.eq(self.fill.valid & ~clearing),
            self.fill.ready.eq(fill.i.ready & ~clearing), fill.restart.eq(memory.clear & ~before)]
        wiring.connect(m, fill.o, memory.fill)
        with m.If(fill.restarted):
            m.d.sync += clearing.eq(0)
        with m.Elif(self.clear):
            m.d.sync += clearing.eq(1)
