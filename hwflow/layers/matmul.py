"""The product of two computed matrices, for each of several heads."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.matrix import errors_of, exact_type, require
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import Rescale
from hwflow.layers.rescale_planes import PlanesRescaler

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.matmul.shape import Centred, MatMulShape
    from hwflow_rtl.multiply.products import ProductShape
    from hwflow_rtl.multiply.style import MultiplierStyle
    from hwflow_rtl.rescale.rescaler import RescalerConstants
    from hwflow_rtl.stream.times import StageTimes, Times
    from hwflow_rtl.vendor import Resources, Technology

#: Sums up to here are exact in float64, in every order.
_EXACT = 1 << 53
#: Bits of an operand of a multiplier that every family has.
_WIDEST = 16


@dataclass(frozen=True, eq=False)
class MatMul(HardwareLayer):
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
        a, b = (_ends(graph.tensors[name]) for name in self.inputs)
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

    def hardware_problem(self, graph: LayerGraph) -> str | None:
        from hwflow.layers.hardware import rescale_problem

        low, high = -(1 << (_WIDEST - 1)), (1 << (_WIDEST - 1)) - 1
        ends = {name: _ends(graph.tensors[name]) for name in self.inputs}
        wide = [name for name, (least, most) in ends.items() if least < low or most > high]
        if wide:
            return f"elements of '{wide[0]}' less their zero point must have at most {_WIDEST} bits, with a sign"
        return rescale_problem(self.requantize, graph.tensors[self.output].format)

    def likeness(self, graph: LayerGraph) -> Hashable:
        return (self.kind, self.heads, self.rows, self.depth, self.columns, self.interleaved, self.order,
                *((x.format, x.zero_point) for x in (graph.tensors[name] for name in self.inputs)))

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Rows of multipliers divide the columns, columns of multipliers the depth."""
        styles = self._all_styles(graph)
        for rows in divisors(self.columns):
            for lanes in divisors(rows):
                for cols in divisors(self.depth):
                    for style in styles:
                        if style.value != "macs" or cols % 2 == 0:
                            yield Folding(rows, cols, lanes, style)

    def styles(self, graph: LayerGraph, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """Both factors change in every cycle, so no two products share one in a pair."""
        from hwflow_rtl.multiply.style import MultiplierStyle

        found = self._products(graph).styles(technology)
        return tuple(style for style in found if style is not MultiplierStyle.PAIRS)

    @property
    def rescale_styles(self) -> tuple[MultiplierStyle, ...]:
        from hwflow_rtl.multiply.style import MultiplierStyle

        return (MultiplierStyle.LOGIC,)

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        shape = self._shape(graph, folding)
        return Schedule(work=shape.work, interval=shape.cycles(), multipliers=folding.rows * folding.cols,
                        lanes_in=shape.lanes_in)

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.matmul.stage import MatMulStage

        return MatMulStage.cost(**self._arguments(graph, folding, technology))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.matmul.stage import MatMulStage

        return MatMulStage(**self._arguments(graph, folding, technology), name=name)

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.matmul.stage import MatMulStage

        return MatMulStage.times(*arrivals, **self._arguments(graph, folding, technology), left=left)

    def _operands(self, graph: LayerGraph) -> tuple[Centred, ...]:
        from hwflow_rtl.matmul.shape import Centred
        from hwflow_rtl.multiply.products import Operand

        from hwflow.layers.hardware import shape_of

        return tuple(Centred(Operand(shape_of(x.format), x.format.bipolar), x.zero_point)
                     for x in (graph.tensors[name] for name in self.inputs))

    def _products(self, graph: LayerGraph) -> ProductShape:
        from hwflow_rtl.multiply.products import Operand, ProductShape

        a, b = self._operands(graph)
        return ProductShape(Operand(a.shape), Operand(b.shape))

    def _all_styles(self, graph: LayerGraph) -> tuple[MultiplierStyle, ...]:
        """Those that some family offers."""
        from hwflow_rtl.multiply.style import MultiplierStyle
        from hwflow_rtl.vendor import FAMILIES

        offered = {style for family in FAMILIES.values() for style in self.styles(graph, family())}
        return tuple(style for style in MultiplierStyle if style in offered)

    def _shape(self, graph: LayerGraph, folding: Folding) -> MatMulShape:
        from hwflow_rtl.matmul.shape import MatMulShape

        from hwflow.layers.hardware import shape_of

        a, b = self._operands(graph)
        return MatMulShape(
            heads=self.heads, rows=self.rows, depth=self.depth, columns=self.columns, interleaved=self.interleaved,
            order=self.order, together=folding.rows, cols=folding.cols, lanes=folding.lanes, a=a, b=b,
            accumulator=shape_of(self.accumulator(graph)), output=shape_of(graph.tensors[self.output].format),
            style=folding.style)

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        shape = self._shape(graph, folding)
        return {"shape": shape, "technology": technology, "rescaler": self._rescaler(graph, shape, folding, technology)}

    def _rescaler(self, graph: LayerGraph, shape: MatMulShape, folding: Folding,
                  technology: Technology) -> RescalerConstants:
        """One constant for each lane; or those of the places of a head, which come again in the order of y."""
        from hwflow_rtl.rescale.order import PixelOrder

        from hwflow.layers.hardware import rescaler_constants

        made = rescaler_constants(self.requantize, self.accumulator(graph), graph.tensors[self.output].format,
                                  technology, shape.matrix.drain_interval, folding.rescale)
        if self.constants == 1:
            return made.picked(np.zeros(folding.lanes, np.int64), None)
        heads = self.heads if self.interleaved else 1
        places = np.arange(self.constants).reshape(self.rows, 1, self.columns)
        order = PixelOrder(tuple(range(self.rows)), (0,), heads * self.columns)
        return made.picked(np.broadcast_to(places, (self.rows, heads, self.columns)).reshape(-1), order)


def _ends(x: Tensor) -> tuple[int, int]:
    """The lowest and the highest integer of `x` without its zero point."""
    return x.format.low - x.zero_point, x.format.high - x.zero_point


def _raster(planes: Planes, x: Tensor, kind: np.dtype[Any]) -> npt.NDArray[Any]:
    """The integers of `x` without its zero point, [frames, elements] in raster order."""
    frames = planes.transpose(3, 1, 2, 0).reshape(planes.shape[3], x.frame.elements)
    return np.subtract(frames, x.zero_point, dtype=kind)
