"""`WeightMemory`: weights of several stages in one memory outside of the FPGA, a stream for each."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, DomainRenamer, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.crossing import StreamCrossing
from ..stream.streams import link, stream_of
from ..vendor.base import Resources, Technology
from .part import MemoryPart
from .weight_sharing import WeightSharing
from .weight_stream import WeightStream
from .weight_unpacker import WeightUnpacker
from .weight_words import WeightWords, forwarded, seal_ports

__all__ = ["WeightMemory"]


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
        """As `WeightSharing.guaranteed`."""
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
