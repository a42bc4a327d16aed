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
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..matrix.stage import MatrixStageShape
from ..rescale.rescaler import RescalerConstants
from ..stream.pipeline import adder_luts
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from .shape import MatMulShape

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
