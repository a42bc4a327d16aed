"""The layer of functions of wide integers: straight segments, whose lengths fit the function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import MAX_BITS, Frame, IntArray, IntFormat
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact

#: Inputs of up to so many bits are looked up in a table of all results when the layer is computed.
_TABLE_BITS = 16
#: Bits of a fraction, and of a number of a block.
_MOST_FRACTION, _MOST_INDEX = 16, 12


@dataclass(frozen=True, eq=False)
class Segments(Layer):
    """y = base + (slope * rest >> fraction_bits) >> shift, element by element; base and slope are of the segment of x.

    An element has a block and a fraction, of `fraction_bits`, in it.  Without `octaves`, the block is the highest
    `index_bits` of x - input_format.low, and the fraction the bits below.  With `octaves` these are the bits below the
    highest one of a magnitude, x - origin or, where that is negative, origin - 1 - x, filled with zeros on the right or
    cut off there; its block is that number, behind it the bits of the magnitude, behind that the sign (`block_of`).

    blocks[block] is (start, zoom): the block has 2**zoom segments of one length, from number `start` on.
    (fraction << zoom) has the number of the segment in its block above `fraction_bits`, and `rest` below.
    lines[segment] is (base, slope).  `bound` is how far the result is from the function at most (`deviation`).
    """

    kind: ClassVar[str] = "segments"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    octaves: bool
    origin: int
    index_bits: int
    fraction_bits: int
    blocks: IntArray
    lines: IntArray
    shift: int
    bound: int

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        return frame

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        self._check_sizes()
        start, zoom = self.blocks.T
        if zoom.min() < 0 or zoom.max() > self.fraction_bits or (start & ((1 << np.maximum(zoom, 0)) - 1)).any():
            raise ValueError(f"layer '{self.name}': blocks must have 1 to 2**{self.fraction_bits} segments, from a "
                             "multiple of their number on")
        if start.min() < 0 or (start + (1 << zoom)).max() > len(self.lines):
            raise ValueError(f"layer '{self.name}': blocks must be inside of the {len(self.lines)} segments")
        require(f"layer '{self.name}': result", self._ends, graph.tensors[self.output].format)

    def _check_sizes(self) -> None:
        if self.input_format.bipolar or self.input_format.bits > MAX_BITS:
            raise ValueError(f"layer '{self.name}': the input must be a number of up to {MAX_BITS} bits")
        if not (0 <= self.fraction_bits <= _MOST_FRACTION and 0 <= self.index_bits <= _MOST_INDEX
                and 0 <= self.shift <= 32):
            raise ValueError(f"layer '{self.name}': bits of fraction, index and shift are out of reach")
        if not self.octaves and self.index_bits + self.fraction_bits != self.input_format.bits:
            raise ValueError(f"layer '{self.name}': index and fraction must have the {self.input_format.bits} bits of "
                             "the input")
        for name, array, count in (("blocks", self.blocks, self.block_count), ("lines", self.lines, None)):
            if array.dtype != np.int64 or array.ndim != 2 or array.shape[1] != 2 or len(array) != (count or len(array)):
                raise ValueError(f"layer '{self.name}': {name} must be int64 [{count or 'segments'}, 2], not "
                                 f"{array.dtype} {list(array.shape)}")
        if np.abs(self.lines).max(initial=0) >= 1 << MAX_BITS:
            raise ValueError(f"layer '{self.name}': lines must fit {MAX_BITS + 1} bits")

    @property
    def magnitude_bits(self) -> int:
        """Bits of the largest magnitude."""
        format = self.input_format
        return max(format.high - self.origin, self.origin - 1 - format.low, 1).bit_length()

    @property
    def signs(self) -> int:
        """2 where elements are on both sides of the origin, else 1; with octaves."""
        return 2 if self.input_format.low < self.origin else 1

    @property
    def block_count(self) -> int:
        if not self.octaves:
            return 1 << self.index_bits
        places = self.magnitude_bits.bit_length()
        return self.signs << (places + self.index_bits)

    def block_of(self, x: IntArray) -> tuple[IntArray, IntArray]:
        """Block and fraction of integers of any shape."""
        if not self.octaves:
            u = x - self.input_format.low
            return u >> self.fraction_bits, u & ((1 << self.fraction_bits) - 1)
        far = x - self.origin
        magnitude, width = np.where(far < 0, ~far, far), self.magnitude_bits
        bits = np.frexp(magnitude.astype(np.float64))[1].astype(np.int64)  # exact below 2**53; 0 of 0
        kept = self.index_bits + self.fraction_bits
        level = (magnitude << (width - bits)) & ((1 << (width - 1)) - 1)
        level = level >> (width - 1 - kept) if kept < width else level << (kept - width + 1)
        index = level >> self.fraction_bits
        block = (((far < 0) << self.magnitude_bits.bit_length()) + bits << self.index_bits) + index
        return block, level & ((1 << self.fraction_bits) - 1)

    def values(self, x: IntArray) -> IntArray:
        """The results of integers of any shape."""
        block, fraction = self.block_of(x)
        start, zoom = self.blocks[block, 0], self.blocks[block, 1]
        place = fraction << zoom
        segment, rest = start + (place >> self.fraction_bits), place & ((1 << self.fraction_bits) - 1)
        rise = self.lines[segment, 1] * rest >> self.fraction_bits
        made: IntArray = self.lines[segment, 0] + rise >> self.shift
        return made

    @cached_property
    def _ends(self) -> IntArray:
        """The lowest and the highest result of any input."""
        made = self._table if self.input_format.bits <= _TABLE_BITS else self._corners()
        return np.array([made.min(), made.max()])

    def _corners(self) -> IntArray:
        """Results at both ends of every segment, which is straight between them."""
        zooms, made = self.blocks[:, 1], []
        rests = np.array([0, (1 << self.fraction_bits) - 1])
        for (start, _), zoom in zip(self.blocks, zooms, strict=True):
            lines = self.lines[start : start + (1 << zoom)]
            last = rests & -(1 << zoom)
            made.append(lines[:, :1] + (lines[:, 1:] * last >> self.fraction_bits) >> self.shift)
        return np.concatenate(made)

    @cached_property
    def _table(self) -> IntArray:
        return self.values(np.arange(self.input_format.low, self.input_format.high + 1))

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        kind = compact(graph.tensors[self.output].format)
        if self.input_format.bits > _TABLE_BITS:
            return self.values(x.astype(np.int64)).astype(kind)
        return np.take(self._table.astype(kind), x.astype(np.intp) - self.input_format.low)

    def deviation(self, graph: LayerGraph) -> int:
        return self.bound

    @property
    def rises(self) -> bool:
        return self.input_format.bits <= _TABLE_BITS and bool((np.diff(self._table) >= 0).all())

    def multiplications(self, graph: LayerGraph) -> int:
        return graph.tensors[self.output].frame.elements
