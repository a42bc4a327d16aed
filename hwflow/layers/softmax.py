"""Softmax of rows, in integers: a table of exponentials, one exact reciprocal, one rounding."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat, Tensor
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import shift_right
from hwflow.layers.rows import rows_mapped

#: Bits of an exponential in rows of up to 64 elements, and of a reciprocal.
PRECISION = 16
#: Elements of a row whose exponentials' rounding errors together stay below half a step of 8 bits.
FEW = 64
#: Bits of an input whose differences are in a table.
WIDEST_INPUT = 12


@dataclass(frozen=True, eq=False)
class Softmax(Layer):
    """y[c] = clamp(round_half_even(e[c] * r / 2**shift) + zero_point, low, high), for each row.

    A row are `elements` of the raster: the channels of a pixel, or of several, or some of them.
    e[c] = table[largest x - x[c]], r = floor(numerator * 2**precision / sum of e).  `table` is int64
    [2**input_format.bits], not above table[0] and not below 0.  docs/integer-functions.md has the derivation.
    """

    kind: ClassVar[str] = "softmax"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    elements: int
    table: IntArray
    numerator: int
    precision: int
    shift: int
    zero_point: int
    low: int
    high: int

    @staticmethod
    def of(name: str, x: Tensor, y: Tensor, elements: int = 0, factor: Fraction = Fraction(1)) -> Softmax:
        """The softmax of `factor` * `x` over rows of `elements`, quantized as `y` says.  0: over the channels.

        ValueError where no integers are near it.
        """
        if x.format.bits > WIDEST_INPUT or x.format.bipolar:
            raise ValueError(f"the input of a Softmax must have 2 to {WIDEST_INPUT} bits, not {x.format}: its "
                             f"differences are looked up in a table")
        if factor <= 0:
            raise ValueError("what a Softmax reads must not be negated, or made 0, behind its DequantizeLinear")
        elements = elements or x.frame.channels
        bits = PRECISION + max(0, math.ceil(math.log2(elements / FEW)))
        largest = (1 << bits) - 1
        distances = np.arange(1 << x.format.bits)
        table = np.rint(largest * np.exp(-x.scale * float(factor) * distances)).astype(np.int64)
        precision = PRECISION if y.format.bits <= 10 else 20
        # The largest reciprocal is that of a sum of one exponential; it has `precision` bits.
        shift = math.floor(math.log2(y.scale * largest)) + precision
        numerator = round(2.0 ** (shift - precision) / y.scale)
        if numerator >= largest:  # the logarithm was rounded up, or the quotient
            shift, numerator = shift - 1, round(2.0 ** (shift - 1 - precision) / y.scale)
        return Softmax(name, (x.name,), y.name, x.format, elements, table, numerator, precision, shift, y.zero_point,
                       y.format.low, y.format.high)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        if self.table.shape != (1 << self.input_format.bits,):
            raise ValueError(f"layer '{self.name}': the table must have {1 << self.input_format.bits} entries")
        if frame.elements % self.elements:
            raise ValueError(f"layer '{self.name}': rows must have a divisor of {frame.elements} elements, not "
                             f"{self.elements}")
        return frame

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        y, first = graph.tensors[self.output].format, int(self.table[0])
        if self.input_format.bits > WIDEST_INPUT or self.input_format.bipolar or y.bipolar:
            raise ValueError(f"layer '{self.name}': formats must be integers, of the input up to {WIDEST_INPUT} bits")
        if self.table.dtype != np.int64 or first < 2 or self.table.min() < 0 or self.table.max() > first:
            raise ValueError(f"layer '{self.name}': the table must be int64 from 0 to its first entry, and that be "
                             f"above 1")
        total = first * self.elements
        if not (0 < self.numerator < first and 1 <= self.precision <= 24) or total >> 40:
            raise ValueError(f"layer '{self.name}': the numerator must be from 1 to {first - 1}, the precision from 1 "
                             f"to 24, and sums below 2**40")
        if not (1 <= self.shift <= 62 and y.low <= self.low <= self.high <= y.high and abs(self.zero_point) < 1 << 31):
            raise ValueError(f"layer '{self.name}': the shift must be from 1 to 62, the ends inside {y}")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        return rows_mapped(x, self.elements, graph.tensors[self.output].format, self._rows)

    def _rows(self, x: IntArray, first: int) -> IntArray:
        found = self.table[x.max(axis=1, keepdims=True) - x]
        reciprocal = (self.numerator << self.precision) // found.sum(axis=1, keepdims=True)
        rounded = shift_right(found * reciprocal, np.int64(self.shift))  # type: ignore[arg-type]
        made: IntArray = np.clip(rounded + self.zero_point, self.low, self.high)
        return made

    def error(self, graph: LayerGraph) -> float:
        """Steps of the output by which it differs at most from the quotient in reals, before that is rounded."""
        first, y = int(self.table[0]), graph.tensors[self.output]
        largest = 1 / y.scale
        # An entry is the exponential rounded.  One is off by `table` of the largest, which is exact, and so the sum,
        # which is 1 at least, by as much for each of the others.
        table = 0.5 / first
        quotient = table * self.elements * largest
        constant = abs(self.numerator * y.scale / 2.0 ** (self.shift - self.precision) - 1) * largest
        return quotient + constant + first / 2.0**self.shift

    def deviation(self, graph: LayerGraph) -> int:
        return math.ceil(self.error(graph))

    def multiplications(self, graph: LayerGraph) -> int:
        return graph.tensors[self.output].frame.elements
