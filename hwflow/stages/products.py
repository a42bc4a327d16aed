"""The stages of products with weights: convolutions and dense layers."""

from __future__ import annotations

import numpy as np

from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.window import Window
from hwflow.stages.matrix import MatrixStage
from hwflow.stages.sweep import Line, Sweep


class ConvStage(MatrixStage[Conv]):
    """The window of the layer over its input."""

    @property
    def frame(self) -> Frame:
        return self.x.frame

    @property
    def window(self) -> Window:
        return self.layer.window

    @property
    def groups(self) -> int:
        return self.layer.groups

    @property
    def weights(self) -> IntArray:
        return self.layer.weights

    def sweeps(self) -> tuple[Sweep, ...]:
        layer, x, y = self.layer, self.x, self.y
        assert layer.multiplied is not None
        cout, _, _, depth = layer.weights.shape
        first = np.arange(cout) // (cout // layer.groups) * depth
        sweep = Sweep(
            layer=layer.name, inputs=(x,), output=y, rescale=layer.multiplied, rows=Line(0, y.frame.height),
            columns=Line(0, y.frame.width), weights=layer.weights, channels=first[:, None] + np.arange(depth),
            pad=x.zero_point if any(layer.pads) else 0)
        return (sweep.through(layer.window),)


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
