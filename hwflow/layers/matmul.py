"""The product of two computed matrices, for each of several heads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.matrix import errors_of, exact_type, require
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import Rescale
from hwflow.layers.rescale_planes import PlanesRescaler

#: Sums up to here are exact in float64, in every order.
_EXACT = 1 << 53


@dataclass(frozen=True, eq=False)
class MatMul(Layer):
    """y[h] = requantize((a[h] - za) @ (b[h] - zb)), for each head h: [rows, depth] times [depth, columns].

    za and zb are the zero points of the tensors.  The rasters of the three frames say where elements are, whatever
    their heights and widths: a is [heads, rows, depth] and y [heads, rows, columns]; with `interleaved` they are
    [rows, heads, depth] and [rows, heads, columns].  `order` is that of b, slowest first, of the letters h (heads),
    k (depth) and n (columns): hnk or hkn, and nhk or khn as well where a is interleaved.  `frame` is that of y.

    `requantize` has the constants of all sums, or one for each place of a head, [rows * columns], row by row.
    """

    kind: ClassVar[str] = "matmul"

    name: str
    inputs: tuple[str, ...]
    output: str
    heads: int
    rows: int
    depth: int
    columns: int
    interleaved: bool
    order: str
    frame: Frame
    requantize: Rescale

    @property
    def constants(self) -> int:
        """1, or those of all places."""
        q = self.requantize
        return len(q.values) if hasattr(q, "values") else len(q.bias)

    def accumulator(self, graph: LayerGraph) -> IntFormat:
        """The narrowest format of every partial sum, with or without the bias."""
        a, b = (ends_of(graph.tensors[name]) for name in self.inputs)
        ends = [self.depth * p * q for p in a for q in b]
        bias = self.requantize.whole_bias
        low, high = min(*ends, 0) + min(int(bias[0].min()), 0), max(*ends, 0) + max(int(bias[1].max()), 0)
        return IntFormat.covering(low, high)

    def output_frame(self, *inputs: Frame) -> Frame:
        a, b = inputs
        stated = {"a": self.rows * self.depth, "b": self.depth * self.columns}
        for what, frame, count in zip(stated, (a, b), stated.values(), strict=True):
            if frame.elements != self.heads * count:
                raise ValueError(f"layer '{self.name}': input {what} must have {self.heads} x {count} elements, not "
                                 f"{frame} = {frame.elements}")
        if self.frame.elements != self.heads * self.rows * self.columns:
            raise ValueError(f"layer '{self.name}': frame must have {self.heads} x {self.rows * self.columns} "
                             f"elements, not {self.frame} = {self.frame.elements}")
        return self.frame

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        orders = ("hnk", "hkn", "nhk", "khn") if self.interleaved else ("hnk", "hkn")
        if self.order not in orders:
            raise ValueError(f"layer '{self.name}': order must be one of {', '.join(orders)}, not '{self.order}'")
        count, places = self.constants, self.rows * self.columns
        if count not in (1, places):
            raise ValueError(f"layer '{self.name}': the constants of requantize must be 1 or {places}, not {count}")
        accumulator = self.accumulator(graph)
        if max(-accumulator.low, accumulator.high) >= _EXACT:
            raise ValueError(f"layer '{self.name}': sums must stay below 2**53 in magnitude, not reach {accumulator}")
        with errors_of(self.name):
            self.requantize.check(count, accumulator, graph.tensors[self.output].format)

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        accumulator = self.accumulator(graph)
        kind = exact_type(accumulator)  # then every partial sum is exact, and so are differences of elements
        a, b = (_raster(planes, graph.tensors[name], kind) for name, planes in zip(self.inputs, inputs, strict=True))
        count = len(a)
        order = (count, self.rows, self.heads) if self.interleaved else (count, self.heads, self.rows)
        a = a.reshape(*order, self.depth)
        a = a.transpose(0, 2, 1, 3) if self.interleaved else a
        sizes = {"h": self.heads, "k": self.depth, "n": self.columns}
        b = b.reshape(count, *(sizes[letter] for letter in self.order))
        b = b.transpose(0, *(1 + self.order.index(letter) for letter in "hkn"))
        sums = np.matmul(a, b)  # [frames, heads, rows, columns]
        require(f"layer '{self.name}': accumulator", sums, accumulator)
        rescale = PlanesRescaler(self.requantize, accumulator, kind, graph.tensors[self.output].format)
        if self.constants == 1:
            made = rescale(sums.reshape(1, sums.size)).reshape(sums.shape)
        else:
            places = sums.transpose(2, 3, 0, 1)
            made = rescale(places.reshape(self.constants, count * self.heads)).reshape(places.shape)
            made = made.transpose(2, 3, 0, 1)
        made = made.transpose(0, 2, 1, 3) if self.interleaved else made
        frames = made.reshape(count, self.frame.height, self.frame.width, self.frame.channels)
        return np.ascontiguousarray(frames.transpose(3, 1, 2, 0))

    def multiplications(self, graph: LayerGraph) -> int:
        return self.heads * self.rows * self.depth * self.columns


def ends_of(x: Tensor) -> tuple[int, int]:
    """The lowest and the highest integer of `x` without its zero point."""
    return x.format.low - x.zero_point, x.format.high - x.zero_point


def _raster(planes: Planes, x: Tensor, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The integers of `x` without its zero point, [frames, elements] in raster order."""
    frames = planes.transpose(3, 1, 2, 0).reshape(planes.shape[3], x.frame.elements)
    return np.subtract(frames, x.zero_point, dtype=kind)
