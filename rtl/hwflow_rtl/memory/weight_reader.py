"""`WeightReader`: an image in memory as a stream of weights, from front to back, again for each frame."""

from __future__ import annotations

from math import gcd, lcm

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, ResetInserter, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.gearbox import Gearbox
from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from .part import request_of
from .sdram_part import SdramPart

__all__ = ["WeightReader"]

#: Bits of the registers that a change of width goes through.
WIDEST_GROUP = 2048


class WeightReader(wiring.Component):
    """Reads `beats` beats of `lanes` elements for each frame, frame after frame without end.

    The image begins at address `first`; the elements follow each other without gaps, the first in the low bits of the
    first word.  It ends with the word in which a beat and a word end together: what that adds is read and dropped, so
    that every frame begins with a word of memory.

    It asks for the next frame before it is wanted, and reads as far as queues have room: it never overruns.

    Parameters
    ----------
    part
        The memory.
    shape, lanes
        Elements of a beat.
    beats
        In a frame.
    first
        Address of the image, where a row begins.

    Attributes
    ----------
    enable : In(1)
        The image is in the memory; must stay high until `restart`.
    restart : In(1)
        Begins with the first beat of a frame again; the same signal as the controller's.
    request, read
        The streams of the controller.
    o : stream of `lanes` elements of `shape`
    """

    def __init__(self, *, part: SdramPart, shape: ShapeLike, lanes: int, beats: int, first: int = 0):
        self.part = part
        self.shape = Shape.cast(shape)
        self.lanes = lanes
        self.beats = beats
        self.first = first
        if beats < 1:
            raise ValueError(f"beats must be at least 1, not {beats}")
        if self.group > WIDEST_GROUP:
            raise ValueError(f"beats of {self.width} bits must end with a word of {part.width} bits after at most "
                             f"{WIDEST_GROUP} bits, not {self.group}; choose another number of lanes")
        if not 0 <= first <= part.words - self.words:
            raise ValueError(f"first must be from 0 to {part.words - self.words}, so that {self.words} words stand in "
                             f"the {part.words} of {part.name}, not {first}")
        if first % part.columns:
            raise ValueError(f"first must be a multiple of {part.columns}, where a row begins, not {first}")
        super().__init__({
            "enable": In(1), "restart": In(1), "request": Out(stream.Signature(request_of(part))),
            "read": In(stream.Signature(part.width)), "o": Out(stream_of(shape, lanes))})

    @property
    def width(self) -> int:
        """Bits of a beat."""
        return self.shape.width * self.lanes

    @property
    def piece(self) -> int:
        """Bits in which beats and words are cut."""
        return gcd(self.width, self.part.width)

    @property
    def group(self) -> int:
        """Bits after which a beat and a word end together."""
        return lcm(self.width, self.part.width)

    @property
    def padded_beats(self) -> int:
        """Beats of a frame and those that are dropped."""
        together = self.group // self.width
        return -(-self.beats // together) * together

    @property
    def words(self) -> int:
        """Words of memory that the image takes."""
        return self.padded_beats * self.width // self.part.width

    def image(self, beats: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The words of memory, int64[words], for elements int64[beats, lanes]."""
        elements = np.zeros(self.padded_beats * self.lanes, dtype=np.int64)
        elements[:self.beats * self.lanes] = np.asarray(beats).reshape(-1)
        bits = elements[:, None] >> np.arange(self.shape.width) & 1
        return bits.reshape(self.words, self.part.width) @ (1 << np.arange(self.part.width, dtype=np.int64))

    def model(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The beats of a frame, int64[beats, lanes], for the words of the image."""
        bits = np.asarray(words, dtype=np.int64)[:, None] >> np.arange(self.part.width) & 1
        weights = 1 << np.arange(self.shape.width, dtype=np.int64)
        if self.shape.signed:
            weights[-1] = -weights[-1]
        elements = bits.reshape(-1, self.shape.width) @ weights
        return elements.reshape(self.padded_beats, self.lanes)[:self.beats]

    def cost(self, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: the change of width, and a counter of beats where some are dropped."""
        count = ceil_log2(self.padded_beats) if self.padded_beats > self.beats else 0
        return (Gearbox.cost(width=self.piece, lanes_in=self.part.width // self.piece,
                             lanes_out=self.width // self.piece, technology=technology)
                + Resources(lut=2 * count, ff=count + 1))

    def elaborate(self, platform):
        m = Module()
        piece = self.piece
        gearbox = Gearbox(shape=unsigned(piece), lanes_in=self.part.width // piece, lanes_out=self.width // piece)
        m.submodules.gearbox = ResetInserter(self.restart)(gearbox)
        asked = self.request.payload
        m.d.comb += [
            self.request.valid.eq(self.enable & ~self.restart), asked.first.eq(self.first),
            asked.last.eq(self.first + self.words - 1), asked.write.eq(0),
            gearbox.i.valid.eq(self.read.valid), Value.cast(gearbox.i.payload).eq(self.read.payload),
            self.read.ready.eq(gearbox.i.ready),
            Value.cast(self.o.payload).eq(Value.cast(gearbox.o.payload))]
        kept = Signal(init=1)
        m.d.comb += [self.o.valid.eq(gearbox.o.valid & kept), gearbox.o.ready.eq(self.o.ready | ~kept)]
        if self.padded_beats > self.beats:
            count, last = Signal(range(self.padded_beats)), Signal()
            m.d.comb += last.eq(count == self.padded_beats - 1)
            with m.If(gearbox.o.valid & gearbox.o.ready):
                m.d.sync += count.eq(count + 1)
                with m.If(count == self.beats - 1):
                    m.d.sync += kept.eq(0)
                with m.If(last):
                    m.d.sync += [count.eq(0), kept.eq(1)]
            with m.If(self.restart):
                m.d.sync += [count.eq(0), kept.eq(1)]
        return m
