"""A matrix stage that takes each weight once a frame, as a stream, and computes any number of output pixels with it.

    i ─▶ RearrangeStage ─▶ MatrixStage ─▶ RearrangeStage ─▶ o
         the frame, once   ▲  a tile of     the results of
         for each pass     │  channels      all passes, in
              weights ─────┘  in each pass  raster order
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..rearrange.rearrange import RearrangeStage
from ..rescale.rescaler import RescalerConstants
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from ..vendor.known import once_known
from ..vendor.memory import Holds
from .shape import MatrixShape
from .stage import MatrixStage
from .streamed_weights import StreamSource, weight_beats
from .tiled_shape import TiledShape
from .tiled_times import played_passes, promised_times

IntArray = npt.NDArray[np.int64]


class TiledStage(wiring.Component):
    """A layer of a `MatrixStage` with its loops exchanged: tiles of output channels outside, pixels inside.

    Parameters
    ----------
    shape
        The layer's sizes, its folding, and its passes.
    weights, rescaler, pad_value, technology, name
        As those of a `MatrixStage`, for the whole layer.  Only `model` uses the weights: the hardware reads them
        from the stream.

    Ports: `i`, words of `lanes_in` channels in raster order; `weights`, the beats of `weight_beats`, again for each
    frame; `o`, `out_lanes` channels in raster order; `busy`, high while the multipliers compute a word.

    Initiation interval: `TiledShape.cycles()` from frame to frame, if source and reader never stall the stage, and
    weights arrive as fast as the source of weights says.
    """

    def __init__(self, *, shape: TiledShape, weights: IntArray, rescaler: RescalerConstants, pad_value: int,
                 technology: Technology, name: str):
        self.shape = shape
        of_pass = shape.of_pass
        self.input = RearrangeStage(
            shape=shape.replay, element=of_pass.element, lanes=of_pass.lanes_in, padding=0, technology=technology,
            name=f"{name}_input", ring="input_ring")
        self.stage = MatrixStage(
            shape=of_pass, weights=weights[shape.outputs], rescaler=shape.constants(rescaler), pad_value=pad_value,
            technology=technology, name=name)
        self.output = RearrangeStage(
            shape=shape.gather, element=of_pass.output, lanes=of_pass.out_lanes, padding=0, technology=technology,
            name=f"{name}_output", ring="output_ring")
        super().__init__({
            "i": In(stream_of(of_pass.element, of_pass.lanes_in)),
            "weights": In(stream_of(of_pass.weight, of_pass.weight_lanes)),
            "o": Out(stream_of(of_pass.output, of_pass.out_lanes)),
            "busy": Out(1),
        })

    @staticmethod
    def weight_beats(shape: TiledShape, weights: IntArray) -> IntArray:
        """What the stream `weights` has for a frame of the layer's `weights`: int64[beats, weight_lanes].

        In the order of passes; those of a pass as `matrix.streamed_weights.weight_beats` says.
        """
        return weight_beats(shape.of_pass, weights[shape.outputs])

    @staticmethod
    def times(arrivals: Times, *, shape: TiledShape, rescaler: RescalerConstants, technology: Technology,
              weights: Times | None = None, left: Times | None = None) -> StageTimes:
        """The cycles in which words are taken and results given, if words arrive as `arrivals` says.

        `weights` are the arrivals of the stream `weights`; `taken` has it after `i`.  None: they arrive as the source
        promises, and `taken` may have `i` alone.  `left`: see `with_room`; under backpressure the passes go on, into
        the ring of the results.
        """
        if weights is None and shape.passes > len(played_passes(shape)):
            return promised_times(arrivals, shape=shape, rescaler=rescaler, technology=technology, left=left)
        constants, begun, (wide, narrow) = shape.constants(rescaler), None, shape.widths
        while True:  # each round lets words wait longer for those before them; most need two
            replayed = RearrangeStage.times(arrivals, shape=shape.replay, width=wide, technology=technology,
                                           left=begun)
            computed = MatrixStage.times(replayed.departures, shape=shape.of_pass, rescaler=constants,
                                         technology=technology, weights=weights)
            if begun is not None and np.array_equal(begun, computed.taken[0]):
                break
            begun = computed.taken[0]
        # The ring of the results has room for all that come.
        gathered = RearrangeStage.times(computed.departures, shape=shape.gather, width=narrow,
                                        technology=technology, left=left)
        return StageTimes((replayed.taken[0], *computed.taken[1:]), gathered.departures)

    @staticmethod
    def cost(*, shape: TiledShape, rescaler: RescalerConstants, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated; arguments as those of the stage."""
        frames = frames_cost((shape.layer, shape.source), technology)
        stage = MatrixStage.cost(shape=shape.of_pass, rescaler=shape.constants(rescaler), technology=technology)
        return frames[0].within("input") + stage + frames[1].within("output")

    def model(self, frames: IntArray) -> IntArray:
        """[n, height, width, channels] as they are on `i` to the beats of `o`, [beats, out_lanes]."""
        window = self.shape.window
        replayed = self.input.model(frames).reshape(-1, window.height, window.width, self.shape.layer.depth)
        return self.output.model(self.stage.model(replayed).reshape(len(frames), 1, 1, -1))

    def elaborate(self, platform):
        m = Module()
        m.submodules.input, m.submodules.stage, m.submodules.output = self.input, self.stage, self.output
        link(m, wiring.flipped(self.i), self.input.i)
        link(m, self.input.o, self.stage.i)
        link(m, wiring.flipped(self.weights), self.stage.weights)
        link(m, self.stage.o, self.output.i)
        link(m, self.output.o, wiring.flipped(self.o))
        m.d.comb += self.busy.eq(self.stage.busy)
        return m


@once_known
def frames_cost(sizes: tuple[MatrixShape, StreamSource], technology: Technology) -> tuple[Resources, Resources]:
    """The memories for a frame at `i` and for one at `o`, for the `TiledShape` of these `sizes`.

    The key of the cache are the sizes: the shape itself is too large to be kept."""
    shape = TiledShape(*sizes)
    before, after = (RearrangeStage.cost(shape=order, width=width, technology=technology, holds=Holds.FRAMES)
                     for order, width in zip((shape.replay, shape.gather), shape.widths, strict=True))
    return before, after
