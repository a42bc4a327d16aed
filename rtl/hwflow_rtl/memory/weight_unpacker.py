"""`WeightUnpacker`: the words of an image as beats."""

from __future__ import annotations

from math import gcd

from amaranth.hdl import Module, ResetInserter, Signal, Value, unsigned
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.gearbox import Gearbox
from ..stream.streams import stream_of
from ..vendor.base import Resources, Technology
from .weight_image import WeightImage

__all__ = ["WeightUnpacker"]


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
