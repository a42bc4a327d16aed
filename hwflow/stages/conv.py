"""The stage of a convolution."""

from __future__ import annotations

import numpy as np

from hwflow.layers.conv import Conv
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
