"""A function of a wide integer, as straight segments: a table of blocks, a table of lines, a product.

    element ─▶ block, fraction ─▶ ROM of blocks ─▶ fraction << zoom ─▶ ROM of lines ─▶ base + slope * rest ─▶ Queue

A block is the highest bits of the element.  With octaves the element is made a magnitude and its zeros on the left are
shifted out, half as many places in each cycle; how often that happens and the bits behind the first one are the block.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from ..join.multiply import BlockProduct
from ..join.tree import holding
from ..rescale.ranges import shape_range
from ..rows.product import ExactProduct
from ..stream.credit import CreditCounter
from ..stream.pipeline import adder_luts, delay
from ..stream.queue import Queue
from ..stream.times import StageTimes, Times
from ..stream.unit import ShapedUnit
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .lookup import FunctionShape, hand_over, octets_of

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Octaves:
    """Elements of the range `ends` less `origin`, as a sign, a number of zeros on the left, and the bits behind them.

    The number counts down: a magnitude whose first bit is the highest one has the largest.
    """

    ends: tuple[int, int]
    origin: int

    @property
    def far(self) -> Shape:
        """The shape of an element less the origin."""
        low, high = self.ends
        return holding(low - self.origin, high - self.origin)

    @property
    def is_signed(self) -> bool:
        return self.ends[0] < self.origin

    @property
    def width(self) -> int:
        """Bits of a magnitude."""
        return max(self.ends[1] - self.origin, self.origin - 1 - self.ends[0], 1).bit_length()

    @property
    def places(self) -> int:
        """Bits of the number of an octave."""
        return self.width.bit_length()

    @property
    def steps(self) -> list[int]:
        """By how many places each step may shift."""
        return [1 << place for place in reversed(range(self.places))]

    @property
    def latency(self) -> int:
        return 1 + len(self.steps)

    def moved(self, kept: int) -> list[int]:
        """Bits behind each step that something reads, where at the end these are the first one and `kept` more."""
        return [min(self.width, 1 + kept + step - 1) for step in self.steps]

    def number(self, bits: IntArray) -> IntArray:
        """The number of magnitudes of so many bits."""
        return np.where(bits > 0, bits + (1 << self.places) - 1 - self.width, 0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SegmentsShape(FunctionShape):
    """Every element becomes (base + (slope * rest >> fraction_bits)) >> shift.

    octaves
        None where the block is the highest bits of the element, from the lowest value on.
    index_bits, fraction_bits
        Bits of an element, or of a magnitude behind its first bit, that are the block, and those below.
    blocks
        int64[blocks, 2]: the first segment, and the zoom: the block has 2**zoom segments, the fraction that many parts.
        Behind the bits of the index, the number of a block has that of the octave, then the sign.
    lines
        int64[segments, 2]: base and slope.
    """

    octaves: Octaves | None
    index_bits: int
    fraction_bits: int
    blocks: IntArray
    lines: IntArray
    shift: int
    beats: int
    kind: ClassVar[str] = "segments"

    def __post_init__(self) -> None:
        places = 0 if self.octaves is None else self.octaves.places + self.octaves.is_signed
        if len(self.blocks) != 1 << self.index_bits + places:
            raise ValueError(f"blocks of {self.what} must be {1 << self.index_bits + places}, not {len(self.blocks)}")
        if self.octaves is None and self.index_bits + self.fraction_bits != self.element.width:
            raise ValueError(f"index and fraction of {self.what} must have the {self.element.width} bits of "
                             f"{self.element!r} together, not {self.index_bits} and {self.fraction_bits}")

    @property
    def cycles(self) -> int:
        return self.beats

    @property
    def multipliers(self) -> int:
        return self.lanes if self.has_product else 0

    @cached_property
    def is_direct(self) -> bool:
        """The segments are the blocks, in order: there is no table of blocks."""
        starts, zooms = self.blocks.T
        return not zooms.any() and np.array_equal(starts, np.arange(len(self.lines)))

    @property
    def zoom(self) -> int:
        """The largest zoom."""
        return int(self.blocks[:, 1].max())

    @property
    def segment_bits(self) -> int:
        """Bits of the number of a segment."""
        return max(1, (len(self.lines) - 1).bit_length())

    @property
    def zoom_bits(self) -> int:
        return self.zoom.bit_length()

    @cached_property
    def shapes(self) -> tuple[Shape, Shape]:
        """The shapes of base and slope."""
        base, slope = (holding(int(part.min()), int(part.max())) for part in self.lines.T)
        return base, slope

    @property
    def has_product(self) -> bool:
        return self.fraction_bits > 0 and bool(self.lines[:, 1].any())

    @cached_property
    def product(self) -> BlockProduct:
        """Slope times rest."""
        slopes = self.lines[:, 1]
        return BlockProduct(((int(slopes.min()), int(slopes.max())), (0, (1 << self.fraction_bits) - 1)))

    @cached_property
    def total(self) -> Shape:
        """The shape of base and product together."""
        (least, most), (low, high) = ((int(part.min()), int(part.max())) for part in self.lines.T)
        return holding(least + min(low, 0), most + max(high, 0))

    def product_latency(self, technology: Technology) -> int:
        return self.product.latency(technology) if self.has_product else 0

    def inner(self, technology: Technology) -> int:
        """Octaves, the table of blocks and the zoom, the table of lines, the product, the sum."""
        rom = technology.timing.rom
        begin = self.octaves.latency if self.octaves else 0
        return begin + (0 if self.is_direct else rom + 1) + rom + self.product_latency(technology) + 1

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        taken = self.reads(technology, arrivals[0], left)
        return StageTimes((taken,), taken + self.latency(technology))

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        rom, waits = technology.timing.rom, self.product_latency(technology)
        base, slope = self.shapes
        lane = technology.rom_cost(width=base.width + slope.width, depth=self.line_depth, name="lines")
        lane += Resources(lut=adder_luts(self.total.width, technology),
                          ff=base.width * waits + self.total.width + self.fraction_bits * rom)
        if self.has_product:
            lane += self.product.cost(technology)
        if self.octaves:
            far, places = self.octaves.far.width, self.octaves.places
            moved = sum(self.octaves.moved(self.index_bits + self.fraction_bits))
            lane += Resources(lut=adder_luts(far, technology) if self.octaves.origin else 0,
                              ff=far + moved + places * (places + 1) // 2 + places * self.octaves.is_signed)
            lane += fitted("Octaves", bits=moved)
        if not self.is_direct:
            moved = self.fraction_bits + self.zoom
            entry = self.segment_bits + self.zoom_bits
            lane += technology.rom_cost(width=entry, depth=len(self.blocks), name="blocks")
            lane += Resources(ff=self.fraction_bits * rom + moved + self.segment_bits)
            lane += fitted("Zoom", bits=moved * self.zoom_bits)
        return (lane.copies(self.lanes) + self.queue_cost(technology) + fitted("SegmentsStage")
                + Resources(ff=self.inner(technology)))

    def queue_cost(self, technology: Technology) -> Resources:
        depth = self.queue_depth(technology)
        return (Queue.cost(width=self.width, depth=depth, technology=technology) + CreditCounter.cost(words=depth))

    @property
    def line_depth(self) -> int:
        """Words of the table of lines."""
        return max(2, len(self.lines))

    def build(self, technology: Technology, name: str) -> SegmentsStage:
        return SegmentsStage(shape=self, technology=technology, name=name)


class SegmentsStage(ShapedUnit):
    """The segments of `shape`, for each lane.

    Latency `SegmentsShape.latency`; initiation interval 1.  `busy` says that a beat goes in.  `name` begins the names
    of the ROMs.
    """

    def model(self, beats: IntArray) -> IntArray:
        """[beats, lanes] to [beats, lanes]."""
        shape = self.shape
        block, fraction = self.addresses(np.asarray(beats, np.int64))
        place = fraction << shape.blocks[block, 1]
        segment = shape.blocks[block, 0] | place >> shape.fraction_bits
        rest = place & ((1 << shape.fraction_bits) - 1)
        base, slope = shape.lines[segment, 0], shape.lines[segment, 1]
        made: IntArray = base + (slope * rest >> shape.fraction_bits) >> shape.shift
        return made

    def addresses(self, x: IntArray) -> tuple[IntArray, IntArray]:
        """Blocks and fractions, by the steps of the pipeline."""
        shape, octaves = self.shape, self.shape.octaves
        if octaves is None:
            x = x - shape_range(shape.element)[0]
            return x >> shape.fraction_bits, x & ((1 << shape.fraction_bits) - 1)
        far = x - octaves.origin
        value, number = np.where(far < 0, -1 - far, far), np.zeros_like(far)
        for step in octaves.steps:
            stays = value >> octaves.width - step > 0
            value, number = np.where(stays, value, value << step), 2 * number + stays
        kept, there = shape.index_bits + shape.fraction_bits, octaves.width - 1
        level = value & ((1 << there) - 1)
        level = level >> there - kept if kept <= there else level << kept - there
        block = ((far < 0) << octaves.places) + number << shape.index_bits | level >> shape.fraction_bits
        return block, level & ((1 << shape.fraction_bits) - 1)

    def elaborate(self, platform):
        m, shape = Module(), self.shape
        words = []
        for lane in range(shape.lanes):
            came = Signal(shape.element, name=f"came{lane}")
            m.d.comb += came.eq(self.i.payload[lane])
            block, fraction = (self.levelled(m, came, lane) if shape.octaves else self.cut(came))
            segment, rest = (block, fraction) if shape.is_direct else self.zoomed(m, block, fraction, lane)
            words.append(self.line(m, segment, rest, lane))
        hand_over(self, m, words, of_family=True)
        return m

    def cut(self, came: Signal) -> tuple[Value, Value]:
        """Block and fraction of an element, counted from the lowest value."""
        bits = Cat(came[:-1], came[-1] ^ self.shape.element.signed)
        return bits[self.shape.fraction_bits:], bits[:self.shape.fraction_bits]

    def levelled(self, m: Module, came: Signal, lane: int) -> tuple[Value, Value]:
        """Block and fraction of a magnitude, `Octaves.latency` cycles later."""
        shape, octaves = self.shape, self.shape.octaves
        far = Signal(octaves.far, name=f"far{lane}", reset_less=True)
        m.d.sync += far.eq(came - octaves.origin)
        below = far[-1] if octaves.is_signed else Const(0, 1)
        value = (far ^ Mux(below, -1, 0))[:octaves.width] if octaves.is_signed else far[:octaves.width]
        number: Value = Const(0, 0)
        for place, step in enumerate(octaves.steps):
            stays = Signal(name=f"stays{lane}_{place}")
            moved = Signal(octaves.width, name=f"moved{lane}_{place}", reset_less=True)
            counted = Signal(place + 1, name=f"number{lane}_{place}", reset_less=True)
            m.d.comb += stays.eq(value[-step:].any())
            m.d.sync += [moved.eq(Mux(stays, value, value << step)), counted.eq(Cat(stays, number))]
            value, number = moved, counted
        signs = [delay(m, below, len(octaves.steps), f"below{lane}")] if octaves.is_signed else []
        kept, there = shape.index_bits + shape.fraction_bits, octaves.width - 1
        level = value[:there][there - kept:] if kept <= there else Cat(Const(0, kept - there), value[:there])
        return Cat(level[shape.fraction_bits:], number, *signs), level[:shape.fraction_bits]

    def zoomed(self, m: Module, block: Value, fraction: Value, lane: int) -> tuple[Value, Value]:
        """The number of the segment, and what lies behind its start."""
        shape, rom = self.shape, self.technology.timing.rom
        entries = shape.blocks[:, 0] | shape.blocks[:, 1] << shape.segment_bits
        entry = self.rom(m, block, entries, shape.segment_bits + shape.zoom_bits, f"blocks{lane}")
        place = Signal(shape.fraction_bits + shape.zoom, name=f"place{lane}", reset_less=True)
        start = Signal(shape.segment_bits, name=f"start{lane}", reset_less=True)
        waited = delay(m, fraction, rom, f"fraction{lane}") if shape.fraction_bits else fraction
        m.d.sync += [place.eq(waited << entry[shape.segment_bits:]), start.eq(entry[:shape.segment_bits])]
        return start | place[shape.fraction_bits:], place[:shape.fraction_bits]

    def line(self, m: Module, segment: Value, rest: Value, lane: int) -> Value:
        """The result."""
        shape, rom = self.shape, self.technology.timing.rom
        base_shape, slope_shape = shape.shapes
        base, slope = np.pad(shape.lines, ((0, shape.line_depth - len(shape.lines)), (0, 0))).T
        words = base & ((1 << base_shape.width) - 1) | slope << base_shape.width
        word = self.rom(m, segment, words, base_shape.width + slope_shape.width, f"lines{lane}")
        start, rise = (Signal(each, name=f"{name}{lane}") for each, name in zip(shape.shapes, ("base", "slope"),
                                                                                strict=True))
        m.d.comb += Cat(start, rise).eq(word)
        total = Signal(shape.total, name=f"total{lane}", reset_less=True)
        waited: Value = delay(m, start, shape.product_latency(self.technology), f"base{lane}_waits")
        if shape.has_product:
            m.submodules[f"product{lane}"] = unit = ExactProduct(shape.product, self.technology)
            m.d.comb += [unit.a.eq(rise), unit.b.eq(delay(m, rest, rom, f"rest{lane}"))]
            waited = waited + (unit.p >> shape.fraction_bits)
        m.d.sync += total.eq(waited)
        result = Signal(shape.output, name=f"result{lane}")
        m.d.comb += result.eq(total >> shape.shift)
        return Value.cast(result)

    def rom(self, m: Module, address: Value, words: IntArray, width: int, name: str) -> Value:
        m.submodules[name] = rom = self.technology.rom(
            width=width, contents=octets_of(words, width), name=f"{self.name}_{name}")
        m.d.comb += rom.addr.eq(address)
        return rom.data
