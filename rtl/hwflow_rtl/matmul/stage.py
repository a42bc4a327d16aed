"""The product of two computed matrices: the second one is held, the first one passes by.

    i0 ─▶ less its zero point ─▶ MatrixStage ─▶ o
                                     ▲
    i1 ─▶ less its zero point ─▶ its buffers of weights, with room for two matrices
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..matrix.stage import MatrixStage
from ..rescale.rescaler import RescalerConstants
from ..stream.pipeline import adder_luts
from ..stream.streams import stream_of
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from .shape import MatMulShape

IntArray = npt.NDArray[np.int64]


class MatMulStage(wiring.Component):
    """y[h] = rescale((a[h] - za) @ (b[h] - zb)) for each head h.

    Parameters
    ----------
    shape
        The sizes and the folding.
    rescaler
        Constants that turn sums into results: one for each of the `lanes`, or those of a `PixelOrder`.
    technology, name
        `name` begins the names of ROMs and is unique in the design.

    Ports: `i0`, a in beats of `lanes_in[0]`, and `i1`, b in beats of `lanes_in[1]`, both in the order of the shape;
    `o`, `lanes` results in the order of a; `busy`, high while the multipliers compute.

    A row of a is multiplied when its head of b is complete (all heads, where they are interleaved).  Initiation
    interval: exactly `MatMulShape.cycles()` from frame to frame, if sources and reader never stall the stage.
    """

    def __init__(self, *, shape: MatMulShape, rescaler: RescalerConstants, technology: Technology, name: str):
        self.shape = shape
        matrix = shape.matrix
        # The second operand fills the buffers; no memory has weights of its own.
        unused = np.zeros((matrix.passes * matrix.channels, 1, 1, matrix.depth), np.int64)
        self.stage = MatrixStage(shape=matrix, weights=unused, rescaler=rescaler, pad_value=0, technology=technology,
                                 name=name)
        super().__init__({
            "i0": In(stream_of(shape.a.operand.shape, shape.lanes_in[0])),
            "i1": In(stream_of(shape.b.operand.shape, shape.lanes_in[1])),
            "o": Out(stream_of(shape.output, shape.lanes)),
            "busy": Out(1),
        })

    @staticmethod
    def times(a: Times, b: Times, *, shape: MatMulShape, rescaler: RescalerConstants, technology: Technology,
              left: Times | None = None) -> StageTimes:
        """The cycles in which beats are taken and given, if they arrive as `a` and `b` say.

        `left`: see `with_room`.
        """
        return MatrixStage.times(a, shape=shape.matrix, rescaler=rescaler, technology=technology, weights=b, left=left)

    @staticmethod
    def cost(*, shape: MatMulShape, rescaler: RescalerConstants, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated; arguments as those of the stage."""
        less = sum(lanes * adder_luts(operand.shape.width, technology)
                   for operand, lanes in zip((shape.a, shape.b), shape.lanes_in, strict=True) if operand.adds)
        return MatrixStage.cost(shape=shape.matrix, rescaler=rescaler, technology=technology) + Resources(lut=less)

    def model(self, a: IntArray, b: IntArray) -> IntArray:
        """The beats of `i0` and of `i1` of whole frames to the beats of `o`, [beats, lanes]."""
        shape, (a, b) = self.shape, (operand.operand.decoded(np.asarray(beats, np.int64)) - operand.zero_point
                                     for operand, beats in zip((self.shape.a, self.shape.b), (a, b), strict=True))
        sums = np.einsum("zhmk,zhkn->zhmn", shape.heads_of_a(a), shape.heads_of_b(b))
        if shape.interleaved:
            sums = sums.transpose(0, 2, 1, 3)
        lanes = sums.reshape(-1, shape.lanes)
        return np.stack([unit.model(lanes[:, q]) for q, unit in enumerate(self.stage.rescalers)], axis=1)

    def elaborate(self, platform):
        m = Module()
        m.submodules.stage = stage = self.stage
        for source, sink, operand in ((self.i0, stage.i, self.shape.a), (self.i1, stage.weights, self.shape.b)):
            m.d.comb += [sink.valid.eq(source.valid), source.ready.eq(sink.ready)]
            for lane in range(len(Value.cast(source.payload)) // operand.operand.width):
                m.d.comb += Value.cast(sink.payload[lane]).eq(operand.made(source.payload[lane]))
        m.d.comb += [
            self.o.valid.eq(stage.o.valid), self.o.payload.eq(stage.o.payload), stage.o.ready.eq(self.o.ready),
            self.busy.eq(stage.busy)]
        return m
