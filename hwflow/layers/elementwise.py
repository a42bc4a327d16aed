"""Layers that join two tensors element by element: their sum and their product."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import MAX_SHIFT, MULTIPLIER_BITS, shift_right

#: Every exact result stays inside int64 with the rounding's carry.
_BITS = 63

#: Integers below are exact in float64.
_EXACT = 1 << 53

#: Elements that are joined at once.
_BLOCK = 1 << 17


def significant_bits(multiplier: int) -> int:
    """Bits of the odd part of |multiplier|: those that a multiplier in hardware must have."""
    magnitude = abs(multiplier)
    return (magnitude >> ((magnitude & -magnitude).bit_length() - 1)).bit_length() if magnitude else 0


class Elementwise(Layer):
    """y = clamp(round_half_even(exact(a - za, b - zb) / 2**shift) + zero_point, low, high), element by element.

    za and zb are the zero points of the inputs' tensors.  The operands' frames are equal, or one of them is 1x1xC or
    1x1x1 and counts for all the elements of the other (of all pixels, of all channels).
    """

    shift: int
    zero_point: int
    low: int
    high: int

    @abstractmethod
    def exact(self, a: Planes, b: Planes) -> Planes:
        """The result in units of 2**-shift, of operands whose zero points are subtracted."""

    @abstractmethod
    def factors(self) -> tuple[int, ...]:
        """The constants that multiply the operands."""

    @abstractmethod
    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        """The lowest and the highest integer of `exact` and its partial sums, of operands between these ends."""

    def exact_format(self, graph: LayerGraph) -> IntFormat:
        """The narrowest format of everything that comes before the division by 2**shift."""
        return IntFormat.covering(*self.exact_ends(*(_ends(graph, name) for name in self.inputs)))

    def output_frame(self, *inputs: Frame) -> Frame:
        a, b = inputs
        for whole, part in ((a, b), (b, a)):
            if part == whole or part in (Frame(1, 1, whole.channels), Frame(1, 1, 1)):
                return whole
        raise ValueError(
            f"layer '{self.name}': the inputs must have equal frames, or one of them 1x1x1 or 1x1 pixels of the "
            f"other's channels, not {a} and {b}"
        )

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        if not 0 <= self.shift <= MAX_SHIFT:
            raise ValueError(f"layer '{self.name}': the shift must be from 0 to {MAX_SHIFT}, not {self.shift}")
        for factor in self.factors():
            if significant_bits(factor) > MULTIPLIER_BITS:
                raise ValueError(
                    f"layer '{self.name}': multipliers must have at most {MULTIPLIER_BITS} significant bits, not "
                    f"{significant_bits(factor)} ({factor})"
                )
        exact = self.exact_format(graph)
        if exact.bits > _BITS or abs(self.zero_point) >= 1 << 31:
            raise Refusal(
                f"layer '{self.name}': the exact result must fit {_BITS} bits, and the zero point 32, not {exact} and "
                f"{self.zero_point}", "use smaller multipliers and a smaller shift"
            )
        if self.low > self.high:
            raise ValueError(f"layer '{self.name}': low must not be above high, not {self.low} and {self.high}")
        ends, format = np.array([self.low, self.high], np.int64), graph.tensors[self.output].format
        require(f"layer '{self.name}': low and high", ends, format)
        if format.bipolar:
            raise ValueError(f"layer '{self.name}': a bipolar output has no 0 between -1 and +1")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        a, b = inputs
        shape = np.broadcast_shapes(a.shape, b.shape)
        made = np.empty(shape, compact(graph.tensors[self.output].format))
        step = max(1, _BLOCK // max(math.prod(shape[1:]), 1))  # channels: their float64 fit the cache
        for first in range(0, shape[0], step):
            parts = (x if len(x) < shape[0] else x[first : first + step] for x in inputs)
            made[first : first + step] = self._elements(graph, *parts)
        return made

    def _elements(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        exact = self.exact_format(graph)
        in_floats = 2 * max(-exact.low, exact.high) < _EXACT  # then each operation below is exact in float64
        kind: npt.DTypeLike = np.float64 if in_floats else np.int64
        a, b = (_centred(values, graph.tensors[n], kind) for n, values in zip(self.inputs, inputs, strict=True))
        values = self.exact(a, b)
        require(f"layer '{self.name}': exact result", values, exact)
        if in_floats:
            values *= np.ldexp(1.0, -self.shift)
            np.rint(values, out=values)
        else:
            values = shift_right(values, np.asarray(self.shift, np.int64))
        np.clip(values, self.low - self.zero_point, self.high - self.zero_point, out=values)
        values += self.zero_point
        return values


def _centred(planes: Planes, tensor: Tensor, kind: npt.DTypeLike) -> Planes:
    """The integers without their zero point."""
    return np.subtract(planes, tensor.zero_point, dtype=kind)


def _ends(graph: LayerGraph, name: str) -> tuple[int, int]:
    """The lowest and the highest integer of a tensor without its zero point."""
    tensor = graph.tensors[name]
    return tensor.format.low - tensor.zero_point, tensor.format.high - tensor.zero_point


@dataclass(frozen=True, eq=False)
class Add(Elementwise):
    """y = clamp(round_half_even((m0 * (a - za) + m1 * (b - zb)) / 2**shift) + zero_point, low, high).

    m0 and m1 are `multipliers`: the ratios s_a / s_y and s_b / s_y over the common denominator 2**shift, so that there
    is one rounding.  Each has at most 32 significant bits; a negative one subtracts.
    """

    kind: ClassVar[str] = "add"

    name: str
    inputs: tuple[str, ...]
    output: str
    multipliers: tuple[int, int]
    shift: int
    zero_point: int
    low: int
    high: int

    def exact(self, a: Planes, b: Planes) -> Planes:
        exact: Planes = self.multipliers[0] * a + self.multipliers[1] * b
        return exact

    def factors(self) -> tuple[int, ...]:
        return self.multipliers

    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        products = [[m * end for end in ends] for m, ends in zip(self.multipliers, (a, b), strict=True)]
        return sum(min(*ends, 0) for ends in products), sum(max(*ends, 0) for ends in products)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0


@dataclass(frozen=True, eq=False)
class Multiply(Elementwise):
    """y = clamp(round_half_even((a - za) * (b - zb) * multiplier / 2**shift) + zero_point, low, high).

    `multiplier` / 2**shift is the ratio s_a * s_b / s_y; the multiplier has at most 32 significant bits.
    """

    kind: ClassVar[str] = "multiply"

    name: str
    inputs: tuple[str, ...]
    output: str
    multiplier: int
    shift: int
    zero_point: int
    low: int
    high: int

    def exact(self, a: Planes, b: Planes) -> Planes:
        return a * b * self.multiplier

    def factors(self) -> tuple[int, ...]:
        return (self.multiplier,)

    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        products = [0, *(x * y * self.multiplier for x in a for y in b)]
        return min(products), max(products)

    def multiplications(self, graph: LayerGraph) -> int:
        return graph.tensors[self.output].frame.elements
