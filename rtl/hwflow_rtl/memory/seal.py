"""The seal around an image of weights in a flash, and what checks both: nothing is read of an image that is not whole.

The mark of the design is in front of the image (8 bytes).  Behind it are the digest of the image (16 bytes, as in the
host link) and the CRC-32 of mark, image and digest.  So a flash without an image, an image for another design and one
that was cut or damaged are told apart.  New weights for the same design need no new bitstream.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..io.link.bytes import Crc32
from ..io.link.image import DIGEST_BYTES, MemoryState
from ..stream.gearbox import Gearbox
from ..stream.streams import BYTE, stream_of
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.pads import Pads
from .flash import FlashError, FlashPads, FlashPart
from .part import MemoryClocks, request_of
from .user_flash import UserFlashCell, UserFlashPart

#: What only a programmer writes, so that an image in it has a seal.
AnyFlash: TypeAlias = FlashPart | UserFlashPart
#: Length of what names the design that an image is for.
MARK_BYTES = 8
#: Words of 32 bits: the mark in front of an image, the digest and the CRC behind it, and all of these.
FRONT_WORDS, BACK_WORDS = MARK_BYTES // 4, DIGEST_BYTES // 4 + 1
SEAL_WORDS = FRONT_WORDS + BACK_WORDS
#: What a host hears of an error.
STATES = {
    FlashError.NO_ANSWER: MemoryState.NO_ANSWER, FlashError.WRONG_PART: MemoryState.WRONG_PART,
    FlashError.NOT_QUAD: MemoryState.NOT_QUAD, FlashError.EMPTY: MemoryState.EMPTY,
    FlashError.OTHER_DESIGN: MemoryState.OTHER_DESIGN, FlashError.DAMAGED: MemoryState.DAMAGED}


@dataclass(frozen=True)
class SealedFlash:
    """A `MemoryPart`: an image of `words` words, with its seal at the beginning of what `flash` has for weights.

    `mark` has 8 bytes that differ between designs whose images differ in more than the values of weights.
    """

    flash: AnyFlash
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
    def piece(self) -> int:
        return self.flash.piece

    @property
    def clock_mhz(self) -> float:
        return self.flash.clock_mhz

    @property
    def writable(self) -> bool:
        return False

    @property
    def clocks(self) -> MemoryClocks:
        return self.flash.clocks

    def pins(self) -> wiring.Signature:
        return self.flash.pins()

    def pad_registers(self, pads: Pads | None) -> FlashPads | None:
        return self.flash.pad_registers(pads)

    def cell(self) -> UserFlashCell | None:
        return self.flash.cell()

    def controller(self, technology: Technology | None = None) -> SealedController:
        return SealedController(part=self, technology=technology)

    def controller_cost(self, technology: Technology | None = None) -> Resources:
        return SealedController.cost(part=self, technology=technology)

    def sealed(self, image: npt.NDArray[np.int64], digest: bytes) -> bytes:
        """The words that are written into the flash at its offset, for int64[words]."""
        if image.shape != (self.words,) or len(digest) != DIGEST_BYTES:
            raise ValueError(f"an image must have {self.words} words and a digest of {DIGEST_BYTES} bytes, not shape "
                             f"{image.shape} and {len(digest)} bytes")
        octets = self.mark + image.astype("<u4").tobytes() + digest
        return octets + zlib.crc32(octets).to_bytes(4, "little")


class SealCheck(wiring.Component):
    """Takes an image of `words` words with its seal, a bit in a cycle, and says whether they fit.

    `erased` are the values of bytes where nothing was written.

    Attributes
    ----------
    i : stream of bytes
        All of them, but no more than the mark where that is another one.
    digest : stream of bytes
        From registers that nothing resets.
    done, error : Out(1), Out(FlashError)
        All has come, and what is wrong: `NONE`, `EMPTY`, `OTHER_DESIGN` or `DAMAGED`.
    """

    def __init__(self, *, words: int, mark: bytes, erased: tuple[int, ...] = (0xFF,)):
        self.words = words
        self.mark = mark
        self.values = erased
        super().__init__({"i": In(stream.Signature(8)), "digest": Out(stream_of(BYTE, 1)), "done": Out(1),
                          "error": Out(FlashError)})

    @staticmethod
    def cost(*, words: int) -> Resources:
        """LUT and FF: the CRC, the byte under way, the mark; the counter of words."""
        count = ceil_log2(words + SEAL_WORDS)
        return fitted("SealCheck", counter=count)

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = crc = Crc32()
        left = Signal(range(self.words + SEAL_WORDS), init=self.words + SEAL_WORDS - 1)
        octet, place = Signal(8, reset_less=True), Signal(2)
        digests = (left != 0) & (left < BACK_WORDS)
        m.d.comb += [crc.byte.eq(octet), crc.tail.eq(left == 0), self.digest.payload[0].eq(octet)]
        other, ends = self.mark_check(m, octet, place, crc.start), Signal()
        # A register: what it follows from stands still while the bits of a byte are taken, but for the first cycle.
        m.d.sync += ends.eq(place.all() & ((left == 0) | ((left == self.words + BACK_WORDS) & other)))
        with m.FSM():
            with m.State("WAIT"):
                m.d.comb += self.i.ready.eq(1)
                with m.If(self.i.valid):
                    m.next = "OCTET"
            with m.State("OCTET"):
                m.d.comb += [self.digest.valid.eq(digests), crc.start.eq(~digests | self.digest.ready)]
                with m.If(crc.start):
                    m.next = "BITS"
            with m.State("BITS"), m.If(crc.done):
                m.d.comb += self.i.ready.eq(~ends)
                m.d.sync += [place.eq(place + 1), left.eq(left - place.all())]
                with m.If(ends):
                    m.next = "DONE"
                with m.Elif(self.i.valid):
                    m.next = "OCTET"
                with m.Else():
                    m.next = "WAIT"
            with m.State("DONE"):
                m.d.comb += self.done.eq(1)
                with m.If(~other & ~crc.good):
                    m.d.comb += self.error.eq(FlashError.DAMAGED)
        with m.If(self.i.ready):
            m.d.sync += octet.eq(self.i.payload)
        with m.If(self.done & other):
            m.d.comb += self.error.eq(Mux(self.erased, FlashError.EMPTY, FlashError.OTHER_DESIGN))
        return m

    def mark_check(self, m: Module, octet: Value, place: Signal, takes: Signal) -> Signal:
        """Whether a byte of the mark was another one; `self.erased` while all of them were as in an empty flash."""
        front, second = Signal(init=1), Signal()
        other, self.erased = Signal(), Signal()
        empty = Cat(octet == value for value in self.values)
        erased = Signal(len(self.values), init=-1)
        m.d.comb += self.erased.eq(erased.any())
        expected = Signal(8)
        with m.Switch(Cat(place, second)):
            for n, each in enumerate(self.mark):
                with m.Case(n):
                    m.d.comb += expected.eq(each)
        with m.If(takes & front):
            m.d.sync += [other.eq(other | (octet != expected)), erased.eq(erased & empty)]
            with m.If(place.all()):
                m.d.sync += [second.eq(1), front.eq(~second)]
        return other


class SealedController(wiring.Component):
    """The controller of a flash that is `initialized` when it has read the whole image once and found its seal right.

    The check takes about ten cycles a byte.

    Attributes
    ----------
    request : stream of `request_of(part)`
        Words of the image.
    read, restart, initialized, pins
        As of the controller; a restart before the end of the check does nothing.
    error : Out(FlashError)
        Those of the controller and of `SealCheck`.
    digest : stream of bytes
        The digest of the image, once, before `initialized`.  Whoever does not take it stops the check.
    state : Out(MemoryState)
        The same for the host: `FILLING` until the end of the check, `FILLED`, or what is wrong.
    """

    def __init__(self, *, part: SealedFlash, technology: Technology | None = None):
        self.part = part
        self.technology = technology
        super().__init__({
            "request": In(stream.Signature(request_of(part))), "read": Out(stream.Signature(part.piece)),
            "restart": In(1), "initialized": Out(1), "error": Out(FlashError), "digest": Out(stream_of(BYTE, 1)),
            "state": Out(MemoryState), "pins": Out(part.pins())})

    @staticmethod
    def cost(*, part: SealedFlash, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated."""
        return (part.flash.controller_cost(technology) + SealCheck.cost(words=part.words)
                + Gearbox.cost(width=8, lanes_in=part.piece // 8, lanes_out=1, technology=technology)
                + Resources(lut=3 * ceil_log2(part.words) + 8, ff=1))

    def elaborate(self, platform):
        m = Module()
        part, last = self.part, self.part.words + SEAL_WORDS - 1
        m.submodules.controller = controller = part.flash.controller(self.technology)
        m.submodules.check = check = SealCheck(words=part.words, mark=part.mark, erased=part.flash.erased)
        wiring.connect(m, wiring.flipped(self.pins), controller.pins)
        wiring.connect(m, check.digest, wiring.flipped(self.digest))
        # The bytes of a memory that gives whole words.
        m.submodules.octets = octets = Gearbox(shape=BYTE, lanes_in=part.piece // 8, lanes_out=1)
        asked, right = Signal(), Signal()
        request, wanted = controller.request, self.request
        with m.If(request.valid & request.ready):
            m.d.sync += asked.eq(1)
        m.d.comb += [
            right.eq(check.done & (check.error == FlashError.NONE)),
            request.valid.eq(Mux(right, wanted.valid, ~asked)), wanted.ready.eq(request.ready & right),
            request.payload.first.eq(Mux(right, wanted.payload.first + FRONT_WORDS, 0)),
            request.payload.last.eq(Mux(right, wanted.payload.last + FRONT_WORDS, last)),
            Value.cast(octets.i.payload).eq(controller.read.payload), octets.i.valid.eq(controller.read.valid & ~right),
            check.i.payload.eq(Value.cast(octets.o.payload)), check.i.valid.eq(octets.o.valid),
            octets.o.ready.eq(check.i.ready),
            self.read.payload.eq(controller.read.payload), self.read.valid.eq(controller.read.valid & right),
            controller.read.ready.eq(Mux(right, self.read.ready, octets.i.ready)),
            controller.restart.eq(self.restart & right), self.initialized.eq(right),
            self.error.eq(Mux(check.done, check.error, controller.error))]
        m.d.comb += self.state.eq(Mux(right, MemoryState.FILLED, MemoryState.FILLING))
        with m.Switch(self.error):
            for error, state in STATES.items():
                with m.Case(error):
                    m.d.comb += self.state.eq(state)
        return m
