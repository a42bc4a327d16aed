"""`WeightWords`: the memory's side of `WeightMemory`: controller, readers, and what fills the memory."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Module, Mux, ResetInserter, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Member, Out
from amaranth.utils import ceil_log2

from ..io.link_image import MemoryState
from ..io.uart import BYTE
from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from ..vendor.generic import Generic
from .burst_turns import BurstTurns
from .fill_check import FillCheck
from .part import MemoryPart
from .seal import SealedFlash
from .shared_reader import SharedReader
from .weight_reader import WeightReader
from .weight_sharing import WeightSharing

__all__ = ["WeightWords", "forwarded", "seal_ports"]


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
    """What a `SealedFlash` says of its image, as ports of what has its controller; none of another memory."""
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
