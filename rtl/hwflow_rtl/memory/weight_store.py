"""`WeightStore`: an image of weights in SDRAM, filled from one stream, read by another."""

from __future__ import annotations

from amaranth.hdl import Module, ShapeLike, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.streams import link, stream_of
from ..vendor.base import Resources, Technology
from .sdram import SdramController
from .sdram_part import SdramPart
from .sdram_pins import sdram_pins
from .weight_reader import WeightReader

__all__ = ["WeightStore"]


class WeightStore(wiring.Component):
    """Controller and reader of an image that begins at address 0, and what fills it.

    Nothing comes at `o` before the whole image is in the memory.

    Parameters
    ----------
    part, shape, lanes, beats
        As of `WeightReader`.
    technology
        Decides what the queue of the controller is made of.

    Attributes
    ----------
    fill : stream of words of memory
        `reader.image`, the first word first.
    clear : In(1)
        Forgets the image, also one that is half filled; `fill` then begins with the first word.  From a register.
    restart : In(1)
        `o` begins with the first beat of a frame again; the image stays.  From a register; while the memory is filled
        it does nothing.
    filled : Out(1)
        The image is in the memory.
    o : stream of `lanes` elements of `shape`
        The beats of a frame, frame after frame.
    pins : Out(sdram_pins(part))
    """

    def __init__(self, *, part: SdramPart, shape: ShapeLike, lanes: int, beats: int,
                 technology: Technology | None = None):
        self.part = part
        self.reader = WeightReader(part=part, shape=shape, lanes=lanes, beats=beats)
        self.controller = SdramController(part=part, technology=technology)
        super().__init__({
            "fill": In(stream.Signature(part.width)), "clear": In(1), "restart": In(1), "filled": Out(1),
            "o": Out(stream_of(shape, lanes)), "pins": Out(sdram_pins(part))})

    def cost(self, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: controller, reader, and the counter of the words of an image."""
        count = ceil_log2(self.reader.words)
        return (SdramController.cost(part=self.part, technology=technology).within("controller")
                + self.reader.cost(technology) + Resources(lut=2 * count + 10, ff=count + 3))

    def elaborate(self, platform):
        m = Module()
        m.submodules.controller, m.submodules.reader = controller, reader = self.controller, self.reader
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        wiring.connect(m, controller.read, reader.read)
        link(m, reader.o, wiring.flipped(self.o))
        left = Signal(range(reader.words), init=reader.words - 1)
        asked, missing, restart = Signal(), Signal(init=1), Signal()
        request, wanted = controller.request, reader.request
        moves = asked & missing  # words go to the controller
        m.d.comb += [
            restart.eq(self.clear | (self.restart & self.filled)), controller.restart.eq(restart),
            reader.restart.eq(restart), reader.enable.eq(self.filled),
            request.valid.eq(~self.clear & (~asked | wanted.valid)), wanted.ready.eq(request.ready & asked),
            request.payload.first.eq(reader.first), request.payload.last.eq(reader.first + reader.words - 1),
            request.payload.write.eq(~asked), controller.write.payload.eq(self.fill.payload),
            controller.write.valid.eq(self.fill.valid & moves), self.fill.ready.eq(controller.write.ready & moves)]
        with m.If(request.valid & request.ready):
            m.d.sync += asked.eq(1)
        with m.If(self.fill.valid & self.fill.ready):
            m.d.sync += [left.eq(left - 1), missing.eq(left != 0)]
        with m.If(~missing & request.ready):  # the controller has written the last word
            m.d.sync += self.filled.eq(1)
        with m.If(self.clear):
            m.d.sync += [asked.eq(0), missing.eq(1), left.eq(left.init), self.filled.eq(0)]
        return m
