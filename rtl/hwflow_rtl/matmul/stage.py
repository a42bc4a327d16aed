"""The product of two computed matrices: the second one is held, the first one passes by.

    i0 ─▶ less its zero point ─▶ MatrixStage ─▶ o
                                     ▲
    i1 ─▶ less its zero point ─▶ its buffers of weights, with room for two matrices
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Shape, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..matrix.shape import MatrixShape
from ..matrix.stage import MatrixStageShape
from ..multiply.products import Operand
from ..multiply.style import MultiplierStyle
from ..rescale.ranges import union
from ..rescale.rescaler import RescalerConstants
from ..stream.pipeline import adder_luts
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from ..window.shape import WindowShape
from .operand import Loop, OperandSource


@dataclass(frozen=True)
class Centred:
    """An operand less its zero point."""

    operand: Operand
    zero_point: int = 0

    @property
    def shape(self) -> Shape:
        """The shape of what is multiplied."""
        low, high = self.operand.range
        if not self.zero_point and not self.operand.bipolar:
            return self.operand.shape
        low, high = low - self.zero_point, high - self.zero_point
        return union([(low, high)]) if low < 0 else Shape(max(1, high.bit_length()))

    @property
    def adds(self) -> bool:
        """Whether hardware makes it of the element; a bipolar element is two wires."""
        return bool(self.zero_point)

    def made(self, element: Value) -> Value:
        """Take the zero point off an element as it is on a stream."""
        if self.operand.bipolar:
            return (element << 1) - (1 + self.zero_point)
        return element - self.zero_point if self.zero_point else element


@dataclass(frozen=True, kw_only=True)
class MatMulShape:
    """The sizes and the folding of y[h] = a[h] @ b[h], for each head h: [rows, depth] times [depth, columns].

    heads, rows, depth, columns
        The sizes.
    interleaved
        The order of a and y: row by row, in a row head by head; else head by head.
    order
        The order of b, slowest first: the letters h (heads), k (depth) and n (columns).  Heads come first where a has
        them first; the last one is k or n.
    together, cols
        Columns, and steps of depth, that are multiplied at once: rows and columns of multipliers.  They divide
        `columns` and `depth`.
    lanes
        Results that leave at once; they divide `together`.
    a, b
        The operands.
    accumulator, output
        Shapes of the exact sums and of the results.
    style
        What multiplies.
    """

    heads: int
    rows: int
    depth: int
    columns: int
    interleaved: bool
    order: str
    together: int
    cols: int
    lanes: int
    a: Centred
    b: Centred
    accumulator: Shape
    output: Shape
    style: MultiplierStyle = MultiplierStyle.BLOCKS

    #: Orders of b where a is interleaved, and where it is not.
    ORDERS = ("hnk", "hkn", "nhk", "khn"), ("hnk", "hkn")

    def __post_init__(self) -> None:
        orders = self.ORDERS[not self.interleaved]
        if self.order not in orders:
            raise ValueError(f"order of a MatMulShape must be one of {', '.join(orders)}, not {self.order}")
        if self.columns % self.together or self.depth % self.cols:
            raise ValueError(f"together and cols of a MatMulShape must divide its {self.columns} columns and its depth "
                             f"of {self.depth}, not {self.together} and {self.cols}")
        if self.style is MultiplierStyle.PAIRS:
            raise ValueError("style of a MatMulShape must be blocks, macs or logic, not pairs: both factors change in "
                             "every cycle")
        assert self.matrix.weight_lanes == self.lanes_in[1]  # refuses what its own check does not allow

    @property
    def by_columns(self) -> bool:
        """Whether a beat of b has one step of depth of several columns."""
        return self.order.endswith("n")

    @property
    def lanes_in(self) -> tuple[int, int]:
        """Elements of a beat of a and of b."""
        return self.cols, self.together if self.by_columns else self.cols

    @property
    def passes(self) -> int:
        """Frames of the matrix stage for a frame of this one."""
        return 1 if self.interleaved else self.heads

    @cached_property
    def source(self) -> OperandSource:
        """The buffers of b: word w of tile t of head h is at (h * tiles + t) * words + w."""
        words, tiles = self.depth // self.cols, self.columns // self.together
        of_letter = {
            "h": [] if not self.interleaved else [Loop(self.heads, tiles * words)],
            "k": [Loop(words, 1)] if not self.by_columns else [Loop(self.cols, None), Loop(words, 1)],
            "n": [Loop(tiles, words)] if self.by_columns else [Loop(self.together, None), Loop(tiles, words)]}
        loops = [loop for letter in reversed(self.order) for loop in of_letter[letter]]
        return OperandSource(tuple(loops), self.by_columns, self.together)

    @cached_property
    def matrix(self) -> MatrixShape:
        """The stage inside: a 1 x 1 window over the rows of a, each head a group, or each head a pass."""
        groups = self.heads if self.interleaved else 1
        return MatrixShape(
            frame=WindowShape(height=1, width=self.rows, words=groups, groups=groups, kernel=(1, 1)), depth=self.depth,
            outputs=self.columns, lanes=self.cols, rows=self.together, out_lanes=self.lanes, element=self.a.shape,
            weight=self.b.shape, accumulator=self.accumulator, output=self.output, style=self.style,
            source=self.source, passes=self.passes)

    @property
    def work(self) -> int:
        """Cycles of a frame in which the multipliers have something to do."""
        return self.passes * self.matrix.work

    def cycles(self) -> int:
        """Cycles from frame to frame if neither sources nor reader stall the stage."""
        return self.passes * max(self.matrix.cycles(), self.source.beats)

    def heads_of_a(self, frames: np.ndarray) -> np.ndarray:
        """Elements of a in the order of the stream, [n, ...], as [n, heads, rows, depth]."""
        if self.interleaved:
            return frames.reshape(-1, self.rows, self.heads, self.depth).transpose(0, 2, 1, 3)
        return frames.reshape(-1, self.heads, self.rows, self.depth)

    def heads_of_b(self, frames: np.ndarray) -> np.ndarray:
        """Elements of b in the order of the stream, [n, ...], as [n, heads, depth, columns]."""
        sizes = {"h": self.heads, "k": self.depth, "n": self.columns}
        ordered = frames.reshape(-1, *(sizes[letter] for letter in self.order))
        return ordered.transpose(0, *(1 + self.order.index(letter) for letter in "hkn"))


IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class MatMulStageShape(UnitShape):
    """The folding of y[h] = rescale((a[h] - za) @ (b[h] - zb)) for each head h, and its constants.

    product
        The sizes and the folding.
    rescaler
        Constants that turn sums into results: one for each of the `lanes`, or those of a `PixelOrder`.
    """

    product: MatMulShape
    rescaler: RescalerConstants

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return self.product.lanes_in

    @property
    def cycles(self) -> int:
        return self.product.cycles()

    @property
    def work(self) -> int:
        return self.product.work

    @property
    def multipliers(self) -> int:
        return self.product.together * self.product.cols

    @cached_property
    def matrix(self) -> MatrixStageShape:
        """The second operand fills the buffers of weights; no memory has weights of its own."""
        matrix = self.product.matrix
        unused = np.zeros((matrix.passes * matrix.channels, 1, 1, matrix.depth), np.int64)
        return MatrixStageShape(matrix=matrix, weights=unused, rescaler=self.rescaler)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        return self.matrix.times(technology, *arrivals, left=left)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        shape = self.product
        less = sum(lanes * adder_luts(operand.shape.width, technology)
                   for operand, lanes in zip((shape.a, shape.b), shape.lanes_in, strict=True) if operand.adds)
        return self.matrix.cost(technology) + Resources(lut=less)

    def build(self, technology: Technology, name: str) -> MatMulStage:
        return MatMulStage(shape=self, technology=technology, name=name)


class MatMulStage(wiring.Component):
    """The product of `shape`; `name` begins the names of ROMs and is unique in the design.

    Ports: `i0`, a in beats of `lanes_in[0]`, and `i1`, b in beats of `lanes_in[1]`, both in the order of the shape;
    `o`, `lanes` results in the order of a; `busy`, high while the multipliers compute.

    A row of a is multiplied when its head of b is complete (all heads, where they are interleaved).  Initiation
    interval: exactly `MatMulShape.cycles()` from frame to frame, if sources and reader never stall the stage.
    """

    def __init__(self, *, shape: MatMulStageShape, technology: Technology, name: str):
        self.shape = shape
        self.stage = shape.matrix.build(technology, name)
        product = shape.product
        super().__init__({
            "i0": In(stream_of(product.a.operand.shape, product.lanes_in[0])),
            "i1": In(stream_of(product.b.operand.shape, product.lanes_in[1])),
            "o": Out(stream_of(product.output, product.lanes)),
            "busy": Out(1),
        })

    def model(self, a: IntArray, b: IntArray) -> IntArray:
        """The beats of `i0` and of `i1` of whole frames to the beats of `o`, [beats, lanes]."""
        shape = self.shape.product
        a, b = (operand.operand.decoded(np.asarray(beats, np.int64)) - operand.zero_point
                for operand, beats in zip((shape.a, shape.b), (a, b), strict=True))
        sums = np.einsum("zhmk,zhkn->zhmn", shape.heads_of_a(a), shape.heads_of_b(b))
        if shape.interleaved:
            sums = sums.transpose(0, 2, 1, 3)
        lanes = sums.reshape(-1, shape.lanes)
        return np.stack([unit.model(lanes[:, q]) for q, unit in enumerate(self.stage.rescalers)], axis=1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape.product
        m.submodules.stage = stage = self.stage
        for source, sink, operand in ((self.i0, stage.i, shape.a), (self.i1, stage.weights, shape.b)):
            m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
            for lane in range(len(Value.cast(source.payload)) // operand.operand.width):
                m.d.comb += Value.cast(sink.payload[lane]).eq(operand.made(source.payload[lane]))
        m.d.comb += [
            self.o.valid.eq(stage.o.valid), self.o.payload.eq(stage.o.payload), stage.o.ready.eq(self.o.ready),
            self.busy.eq(stage.busy)]
        return m
