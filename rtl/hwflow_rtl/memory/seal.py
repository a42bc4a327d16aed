"""The seal behind an image of weights in a flash, and what checks both: nothing is read of an image that is not whole.

A seal is the digest of the image (16 bytes, what the host link calls it) and the CRC-32 of the design's mark, the image
and the digest.  It comes last, so an image that was cut has none, and the CRC begins with the mark, so an image for
another design has another one.  New weights for the same design need no new bitstream.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..io.link_bytes import Crc32
from ..vendor.base import Resources, Technology
from .flash import FlashController, FlashError
from .flash_part import FlashClocks, FlashPart
from .part import request_of

__all__ = ["DIGEST_BYTES", "MARK_BYTES", "SEAL_WORDS", "SealCheck", "SealedController", "SealedFlash"]

#: Length of what names an image (docs/host-link.md), and of what names the design that it is for.
DIGEST_BYTES, MARK_BYTES = 16, 8
#: Words of 32 bits: the digest and the CRC.
SEAL_WORDS = DIGEST_BYTES // 4 + 1


@dataclass(frozen=True)
class SealedFlash:
    """A `MemoryPart`: an image of `words` words at the beginning of what `flash` has for weights, and its seal.

    `mark` has 8 bytes that differ between designs whose images differ in more than the values of weights.
    """

    flash: FlashPart
    words: int
    mark: bytes

    def __post_init__(self):
        if len(self.mark) != MARK_BYTES:
            raise ValueError(f"mark must have {MARK_BYTES} bytes, not {len(self.mark)}")
        if not 1 <= self.words <= self.flash.words - SEAL_WORDS:
            raise ValueError(f"words must be from 1 to {self.flash.words - SEAL_WORDS}, so that they and a seal stand "
                             f"in the {self.flash.words} of {self.flash.name}, not {self.words}")

    @property
    def name(self) -> str:
        return self.flash.name

    @property
    def width(self) -> int:
        return self.flash.width

    @property
    def clock_mhz(self) -> float:
        return self.flash.clock_mhz

    @property
    def writable(self) -> bool:
        return False

    @property
    def clocks(self) -> FlashClocks:
        return self.flash.clocks

    def pins(self) -> wiring.Signature:
        return self.flash.pins()

    def controller(self, technology: Technology | None = None) -> SealedController:
        return SealedController(part=self, technology=technology)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        return SealedController.cost(part=self, technology=technology)

    def sealed(self, image: npt.NDArray[np.int64], digest: bytes) -> bytes:
        """What is written into the flash at its offset, for int64[words]."""
        if image.shape != (self.words,) or len(digest) != DIGEST_BYTES:
            raise ValueError(f"an image must have {self.words} words and a digest of {DIGEST_BYTES} bytes, not shape "
                             f"{image.shape} and {len(digest)} bytes")
        octets = image.astype("<u4").tobytes() + digest
        return octets + zlib.crc32(self.mark + octets).to_bytes(4, "little")


class SealCheck(wiring.Component):
    """Takes an image of `words` words and its seal, a bit in a cycle, and says whether they fit.

    Attributes
    ----------
    i : stream of words
    octet : Out(8)
    named : Out(1)
        A pulse for each byte of the digest, in order, which is in `octet` then.
    done, good : Out(1)
        All has come; the seal is right.
    """

    def __init__(self, *, words: int, mark: bytes):
        self.words = words
        self.mark = mark
        super().__init__({"i": In(stream.Signature(32)), "octet": Out(8), "named": Out(1), "done": Out(1),
                          "good": Out(1)})

    @staticmethod
    def cost(*, words: int) -> Resources:
        """LUT and FF estimated: the CRC, the word under way, the counter of words."""
        count = ceil_log2(words + SEAL_WORDS)
        return Resources(lut=110 + 2 * count, ff=80 + count)

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = Crc32(before=self.mark)
        left = Signal(range(self.words + SEAL_WORDS), init=self.words + SEAL_WORDS - 1)
        word, place = Signal(32), Signal(2)
        m.d.comb += [crc.byte.eq(word[:8]), crc.tail.eq(left == 0), self.octet.eq(word[:8]),
                     self.named.eq(crc.start & (left != 0) & (left < SEAL_WORDS))]
        with m.FSM():
            with m.State("WORD"):
                m.d.comb += self.i.ready.eq(1)
                m.d.sync += word.eq(self.i.payload)
                with m.If(self.i.valid):
                    m.next = "OCTET"
            with m.State("OCTET"):
                m.d.comb += crc.start.eq(1)
                m.next = "BITS"
            with m.State("BITS"), m.If(crc.done):
                m.d.sync += [word.eq(word >> 8), place.eq(place + 1)]
                m.next = "OCTET"
                with m.If(place.all()):
                    m.d.sync += left.eq(left - 1)
                    m.next = "WORD"
                    with m.If(left == 0):
                        m.next = "DONE"
            with m.State("DONE"):
                m.d.comb += [self.done.eq(1), self.good.eq(crc.good)]
        return m


class SealedController(wiring.Component):
    """A `FlashController` that is `initialized` when it has read the whole image once and found its seal right.

    The check takes about ten cycles a byte.

    Attributes
    ----------
    request : stream of `request_of(part)`
        Words of the image.
    read, restart, initialized, pins
        As of `FlashController`; a restart before the end of the check does nothing.
    error : Out(FlashError)
        `NOT_SEALED` besides those of `FlashController`.
    octet : Out(8)
    named : Out(1)
        The digest, as of `SealCheck`; it means nothing before `initialized`.
    """

    def __init__(self, *, part: SealedFlash, technology: Technology | None = None):
        self.part = part
        self.technology = technology
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.width)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "octet": Out(8), "named": Out(1),
            "pins": Out(part.pins())})

    @staticmethod
    def cost(*, part: SealedFlash, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated."""
        return (FlashController.cost(part=part.flash, technology=technology) + SealCheck.cost(words=part.words)
                + Resources(lut=2 * ceil_log2(part.words) + 8, ff=1))

    def elaborate(self, platform):
        m = Module()
        part, last = self.part, self.part.words + SEAL_WORDS - 1
        m.submodules.controller = controller = FlashController(part=part.flash, technology=self.technology)
        m.submodules.check = check = SealCheck(words=part.words, mark=part.mark)
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        asked, right, wrong = Signal(), Signal(), Signal()
        request, wanted = controller.request, self.request
        with m.If(request.valid & request.ready):
            m.d.sync += asked.eq(1)
        m.d.comb += [
            right.eq(check.done & check.good), wrong.eq(check.done & ~check.good),
            request.valid.eq(Mux(right, wanted.valid, ~asked)), wanted.ready.eq(request.ready & right),
            request.payload.first.eq(Mux(right, wanted.payload.first, 0)),
            request.payload.last.eq(Mux(right, wanted.payload.last, last)),
            check.i.payload.eq(controller.read.payload), check.i.valid.eq(controller.read.valid),
            self.read.payload.eq(controller.read.payload), self.read.valid.eq(controller.read.valid & right),
            controller.read.ready.eq(Mux(right, self.read.ready, check.i.ready)),
            controller.restart.eq(self.restart & right), self.initialized.eq(right),
            self.error.eq(Mux(wrong, FlashError.NOT_SEALED, controller.error)), self.octet.eq(check.octet),
            self.named.eq(check.named)]
        return m
