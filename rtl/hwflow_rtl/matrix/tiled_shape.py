"""The numbers of a `TiledStage`: its passes, and the order of their input words and results, in numpy."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from ..rearrange.rearrange import RearrangeStageShape
from ..rearrange.shape import RearrangeShape
from ..rescale.order import PassOrder
from ..rescale.rescaler import RescalerConstants
from ..vendor.memory import Holds
from ..window.shape import WindowShape
from .shape import MatrixShape
from .streamed_weights import StreamSource

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
        """Those of all passes, of the constants of all output channels."""
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
