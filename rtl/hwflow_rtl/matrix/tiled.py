"""A matrix stage that takes each weight once a frame, as a stream, and computes any number of output pixels with it.

    i ─▶ RearrangeStage ─▶ MatrixStage ─▶ RearrangeStage ─▶ o
         the frame, once   ▲  a tile of     the results of
         for each pass     │  channels      all passes, in
              weights ─────┘  in each pass  raster order
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..rearrange.rearrange import RearrangeStage, RearrangeStageShape
from ..rearrange.shape import RearrangeShape
from ..rescale.order import PassOrder
from ..rescale.rescaler import RescalerConstants
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, in_turn
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from ..vendor.known import once_known
from ..vendor.memory import Holds
from ..window.shape import WindowShape
from .shape import MatrixShape
from .stage import MatrixStageShape
from .streamed_weights import StreamSource, weight_beats
from .weights import BankWords

IntArray = npt.NDArray[np.int64]


@lru_cache(maxsize=1 << 13)  # the solver asks for the same sizes again and again
def pass_shape(layer: MatrixShape, window: WindowShape, source: StreamSource, passes: int) -> MatrixShape:
    return replace(layer, frame=window, outputs=layer.rows, source=source, passes=passes)


@dataclass(frozen=True)
class TiledShape:
    """A matrix stage with streamed weights whose frames have any number of output pixels.

    A frame is computed in *passes*: for each group and each tile of `rows` of its output channels, all output pixels.
    All passes are equally long; rows of the last pass of a group that have no output channel repeat the last one, and
    their results are dropped.

    layer
        The layer and its folding, one group at a time.
    source
        Where the weights of a pass come from.
    """

    layer: MatrixShape
    source: StreamSource

    def __post_init__(self) -> None:
        if self.layer.parallel != 1:
            raise ValueError(f"parallel groups of a TiledStage must be 1, not {self.layer.parallel}")
        assert self.of_pass.passes == self.passes  # refuses sources that do not fit

    @property
    def tiles(self) -> int:
        """Passes of a group."""
        return -(-self.layer.outputs // self.layer.rows)

    @property
    def passes(self) -> int:
        return self.layer.frame.groups * self.tiles

    @property
    def picks(self) -> bool:
        """Whether a pass has only the pixels that are wanted: those of a 1 x 1 kernel with a stride."""
        frame = self.layer.frame
        return frame.kernel == (1, 1) and frame.stride != (1, 1) and not any(frame.pads)

    @cached_property
    def window(self) -> WindowShape:
        """Over the pixels of a pass."""
        frame = replace(self.layer.frame, words=1, groups=1)
        if not self.picks:
            return frame
        return replace(frame, height=frame.out_height, width=frame.out_width, stride=(1, 1))

    @cached_property
    def of_pass(self) -> MatrixShape:
        """A pass: the `MatrixStage` treats it as a frame."""
        return pass_shape(self.layer, self.window, self.source, self.passes)

    @property
    def lanes_in(self) -> int:
        """Channels of an input beat."""
        return self.of_pass.lanes_in

    @property
    def drain_interval(self) -> int:
        """Cycles from result to result of a row of requantizers."""
        return self.of_pass.drain_interval

    @property
    def weight_lanes(self) -> int:
        """Weights of a beat of the stream `weights`."""
        return self.of_pass.weight_lanes

    @property
    def weight_beats(self) -> int:
        """Beats of the stream `weights` for a frame."""
        return self.of_pass.weight_beats

    @property
    def input_words(self) -> int:
        """Words of a frame on `i`."""
        frame = self.layer.frame
        return frame.height * frame.width * frame.groups * self.layer.depth // self.lanes_in

    @cached_property
    def replay(self) -> RearrangeShape:
        """From the words of a frame to those of its passes."""
        frame, words = self.layer.frame, self.layer.depth // self.lanes_in
        of_pixel = frame.groups * words
        step = frame.stride if self.picks else (1, 1)
        rows, columns = np.arange(0, frame.height, step[0]), np.arange(0, frame.width, step[1])
        pixels = rows[:self.window.height, None] * frame.width + columns[:self.window.width]
        return RearrangeShape(
            input_words=self.input_words, rows=np.repeat(np.arange(frame.groups) * words, self.tiles),
            columns=pixels.reshape(-1) * of_pixel, groups=np.arange(words))

    @cached_property
    def gather(self) -> RearrangeShape:
        """From the results of all passes to those of each pixel; results of unused rows are dropped."""
        shape = self.of_pass
        blocks, drain = self.passes * shape.pixels, shape.drain
        of_pass, beats = shape.pixels * drain, np.arange(self.layer.outputs // shape.out_lanes)
        come = np.add.outer(np.arange(blocks) * shape.block_interval, np.arange(drain) * shape.drain_interval)
        return RearrangeShape(
            input_words=self.passes * of_pass, rows=np.arange(shape.pixels) * drain,
            columns=np.arange(self.layer.frame.groups) * self.tiles * of_pass,
            groups=beats // drain * of_pass + beats % drain,
            earliest=np.append(come.reshape(-1), blocks * shape.block_interval))

    @property
    def replaying(self) -> RearrangeStageShape:
        """The memory for a frame at `i`."""
        shape = self.of_pass
        return RearrangeStageShape(order=self.replay, element=shape.element, lanes=shape.lanes_in, padding=0,
                                   holds=Holds.FRAMES)

    @property
    def gathering(self) -> RearrangeStageShape:
        """The memory for a frame at `o`."""
        shape = self.of_pass
        return RearrangeStageShape(order=self.gather, element=shape.output, lanes=shape.out_lanes, padding=0,
                                   holds=Holds.FRAMES)

    @cached_property
    def outputs(self) -> IntArray:
        """The output channel of each row of each pass, [passes * rows]."""
        rows = np.minimum(np.arange(self.tiles * self.layer.rows), self.layer.outputs - 1)
        return np.add.outer(np.arange(self.layer.frame.groups) * self.layer.outputs, rows).reshape(-1)

    def constants(self, rescaler: RescalerConstants) -> RescalerConstants:
        """The constants of all passes, made of the constants of all output channels."""
        order = PassOrder(self.passes, self.of_pass.pixels, self.layer.rows)
        return rescaler.picked_once(order, lambda: self.outputs)

    @property
    def work(self) -> int:
        """Cycles of a frame in which the multipliers work."""
        return self.passes * self.of_pass.work

    def cycles(self) -> int:
        """Cycles from frame to frame if neither source nor reader stalls the stage and weights arrive in time.

        A pass takes as long as its blocks, its words or its weights, whichever take longest.
        """
        return max(self.passes * self.of_pass.cycles(), self.input_words)


IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class TiledStageShape(UnitShape):
    """The passes of a layer, and its constants.

    tiled
        The layer's sizes, its folding, and its passes.
    weights, rescaler, pad_value
        As those of a `MatrixStageShape`, for the whole layer.  Only `model` uses the weights: the hardware reads them
        from the stream.
    """

    tiled: TiledShape
    weights: IntArray
    rescaler: RescalerConstants
    pad_value: int = 0

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.tiled.lanes_in,)

    @property
    def cycles(self) -> int:
        return self.tiled.cycles()

    @property
    def work(self) -> int:
        return self.tiled.work

    @property
    def multipliers(self) -> int:
        return self.tiled.of_pass.rows * self.tiled.of_pass.cols

    @property
    def ports(self) -> dict[str, Any]:
        of_pass = self.tiled.of_pass
        return {
            "i": In(stream_of(of_pass.element, of_pass.lanes_in)),
            "weights": In(stream_of(of_pass.weight, of_pass.weight_lanes)),
            "o": Out(stream_of(of_pass.output, of_pass.out_lanes)), "busy": Out(1)}

    @cached_property
    def of_pass(self) -> MatrixStageShape:
        """A pass, which the `MatrixStage` treats as a frame, without its weights."""
        return MatrixStageShape(
            matrix=self.tiled.of_pass, weights=NO_WEIGHTS, rescaler=self.tiled.constants(self.rescaler),
            pad_value=self.pad_value)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        """The second of `arrivals` is that of the stream `weights`; `taken` has it after `i`.

        Without it weights arrive as the source promises, and `taken` may have `i` alone.  With `left` the passes go on,
        into the ring of the results.
        """
        tiled, weights = self.tiled, arrivals[1:]
        if not weights and tiled.passes > len(played_passes(tiled)):
            return promised_times(tiled, self.rescaler, technology, arrivals[0], left)
        of_pass, begun = self.of_pass, None
        while True:  # each round lets words wait longer for those before them; most need two
            replayed = tiled.replaying.times(technology, arrivals[0], left=begun)
            computed = of_pass.times(technology, replayed.departures, *weights)
            if begun is not None and np.array_equal(begun, computed.taken[0]):
                break
            begun = computed.taken[0]
        # The ring of the results has room for all that come.
        gathered = tiled.gathering.times(technology, computed.departures, left=left)
        return StageTimes((replayed.taken[0], *computed.taken[1:]), gathered.departures)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        frames = frames_cost((self.tiled.layer, self.tiled.source), technology)
        return frames[0].within("input") + self.of_pass.cost(technology) + frames[1].within("output")

    def build(self, technology: Technology, name: str) -> TiledStage:
        return TiledStage(shape=self, technology=technology, name=name)


class TiledStage(wiring.Component):
    """A layer of a `MatrixStage` with its loops exchanged: tiles of output channels outside, pixels inside.

    `technology` and `name` as those of a `MatrixStage`.

    Ports: `i`, words of `lanes_in` channels in raster order; `weights`, the beats of `weight_beats`, again for each
    frame; `o`, `out_lanes` channels in raster order; `busy`, high while the multipliers compute a word.

    Initiation interval: `TiledShape.cycles()` from frame to frame, if source and reader never stall the stage, and
    weights arrive as fast as the source of weights says.
    """

    def __init__(self, *, shape: TiledStageShape, technology: Technology, name: str):
        self.shape = shape
        self.input = RearrangeStage(
            shape=shape.tiled.replaying, technology=technology, name=f"{name}_input", ring="input_ring")
        self.stage = replace(shape.of_pass, weights=shape.weights[shape.tiled.outputs]).build(technology, name)
        self.output = RearrangeStage(
            shape=shape.tiled.gathering, technology=technology, name=f"{name}_output", ring="output_ring")
        super().__init__(shape.ports)

    def model(self, frames: IntArray) -> IntArray:
        """[n, height, width, channels] as they are on `i` to the beats of `o`, [beats, out_lanes]."""
        tiled = self.shape.tiled
        window = tiled.window
        replayed = self.input.model(frames).reshape(-1, window.height, window.width, tiled.layer.depth)
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


def pass_beats(shape: TiledShape, weights: IntArray) -> IntArray:
    """Lay out what the stream `weights` has for a frame of the layer's `weights`: int64[beats, weight_lanes].

    In the order of passes; those of a pass as `matrix.streamed_weights.weight_beats` says.
    """
    return weight_beats(shape.of_pass, weights[shape.outputs])


@once_known
def frames_cost(sizes: tuple[MatrixShape, StreamSource], technology: Technology) -> tuple[Resources, Resources]:
    """The memories for a frame at `i` and for one at `o`, for the `TiledShape` of these `sizes`.

    The key of the cache are the sizes: the shape itself is too large to be kept."""
    shape = TiledShape(*sizes)
    return shape.replaying.cost(technology), shape.gathering.cost(technology)


#: For times, which do not depend on them.
NO_WEIGHTS = np.zeros(0, np.int64)


@dataclass(frozen=True)
class PromisedSource(StreamSource):
    """A source that lets the passes of a frame start `apart` cycles after the ones before them, at least."""

    apart: tuple[int, ...] = ()

    def starts(self, earliest: Times, pace: int, words: BankWords, arrivals: Times | None) -> tuple[Times, ...]:
        started = earliest.reshape(-1, words.pixels).copy()
        for n, blocks in enumerate(started):
            if n:
                apart = self.apart[n % len(self.apart)]
                blocks[0] = max(blocks[0], started[n - 1, -1] + pace, started[n - 1, 0] + apart)
            blocks[:] = in_turn(blocks, pace)
        return started.reshape(-1), np.zeros(0, dtype=np.int64)


def played_passes(shape: TiledShape) -> npt.NDArray[np.int64]:
    """The passes of a frame that are played: the first two, the last two, and the first and the last of each group."""
    groups = np.arange(shape.layer.frame.groups) * shape.tiles
    return np.unique([*groups, *(groups + shape.tiles - 1), 1, shape.passes - 2])


def promised_times(shape: TiledShape, rescaler: RescalerConstants, technology: Technology, arrivals: Times,
                   left: Times | None) -> StageTimes:
    """The times without arrivals of weights, for frames of more than two passes; `taken` has only `i`."""
    passes, begun, of_pass, replaying = played_passes(shape), None, shape.of_pass, shape.replaying
    steps = np.diff(passes, prepend=passes[-1] - shape.passes)
    # After passes that are left out the next one starts when these have ended.
    left_out = np.where(steps > 1, steps * of_pass.cycles(), 0)
    source = PromisedSource(shape.source.rows, shape.source.interval,
                            tuple(np.maximum(left_out, of_pass.tile_cycles).tolist()))
    played = MatrixStageShape(matrix=replace(of_pass, passes=len(passes), source=source), weights=NO_WEIGHTS,
                              rescaler=shape.constants(rescaler))
    depth = sum(replaying.ring_parts(technology))
    replay = replace(replaying.order, rows=replaying.order.rows[passes])
    replaying = replace(replaying, order=replay)
    while True:  # each round lets words wait longer for those before them; most need two
        replayed = replaying.times_with(depth, technology, arrivals, begun)
        computed = played.times(technology, replayed.departures)
        taken = computed.taken[0].reshape(-1, len(passes), replay.output_words // len(passes)).copy()
        for n in np.flatnonzero(left_out):  # no words ahead of those that are left out
            taken[:, n] = np.maximum(taken[:, n], taken[:, n - 1] + left_out[n])
        if begun is not None and np.array_equal(begun, taken.reshape(-1)):
            break
        begun = taken.reshape(-1)
    results = computed.departures.reshape(-1, len(passes), of_pass.pixels * of_pass.drain)
    every = np.arange(shape.passes)
    before = np.searchsorted(passes, every, side="right") - 1
    whole = results[:, before] + ((every - passes[before]) * of_pass.cycles())[:, None]
    # The ring of the results has room for all that come.
    gathered = shape.gathering.times(technology, whole.reshape(-1), left=left)
    return StageTimes((replayed.taken[0],), gathered.departures)
