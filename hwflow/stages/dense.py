"""The stage of a matrix times all the elements of a frame."""

from __future__ import annotations

import numpy as np

from hwflow.layers.dense import Dense
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.window import Window
from hwflow.stages.matrix import MatrixStage
from hwflow.stages.sweep import Line, Sweep


class DenseStage(MatrixStage[Dense]):
    """A window of one pixel over a pixel that has all elements as channels."""

    @property
    def frame(self) -> Frame:
        return Frame(1, 1, self.x.frame.elements)

    @property
    def window(self) -> Window:
        return Window((1, 1))

    @property
    def groups(self) -> int:
        return 1

    @property
    def weights(self) -> IntArray:
        return self.layer.weights[:, None, None]

    def sweeps(self) -> tuple[Sweep, ...]:
        """The frame is one window."""
        layer, frame, count = self.layer, self.x.frame, len(self.layer.weights)
        assert layer.multiplied is not None
        sweep = Sweep(
            layer=layer.name, inputs=(self.x,), output=self.y, rescale=layer.multiplied, rows=Line(0, 1),
            columns=Line(0, 1), weights=layer.weights.reshape(count, frame.height, frame.width, frame.channels),
            channels=np.broadcast_to(np.arange(frame.channels), (count, frame.channels)))
        return (sweep.through(Window((frame.height, frame.width))),)
