"""The stages of products with weights: convolutions and dense layers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from hwflow_rtl.window.shape import WindowShape

from hwflow.layers.base import LayerGraph
from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.window import Window
from hwflow.stages.codes import codes_of
from hwflow.stages.folding import Folding
from hwflow.stages.kept_rows import KeptRows
from hwflow.stages.matrix import MatrixStage
from hwflow.stages.names import name_of
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


@dataclass(frozen=True, eq=False)
class KeptConvStage(ConvStage):
    """The window of the layer over the new rows of a frame, and the rows before them, which its line buffer `kept`.

    Its frames are those of the input.
    """

    kept: KeptRows

    @classmethod
    def of(cls, graph: LayerGraph, kept: KeptRows) -> KeptConvStage:
        layer = kept.window
        return cls(graph, name_of(kept.last, layer), layer.kind, tuple(graph.layers[k] for k in kept.layers),
                   (kept.x,), (layer.output,), (layer.output,), layer, kept)

    @property
    def multiplications(self) -> int:
        """Those of the layers that its window is: it also multiplies by zeros where one of several is shorter."""
        return sum(layer.multiplications(self.graph) for layer in self.layers)

    @cached_property
    def frame(self) -> Frame:
        whole, rows = self.kept.frame, self.kept.rows
        if self.kept.axis:
            return replace(whole, width=whole.width - rows)
        return replace(whole, height=whole.height - rows)

    @cached_property
    def window(self) -> Window:
        """With the rows that are kept in place of padding."""
        _, left, _, right = self.layer.window.pads
        pads = (0, self.kept.rows, 0, 0) if self.kept.axis else (self.kept.rows, left, 0, right)
        return replace(self.layer.window, pads=pads)

    @cached_property
    def pixels(self) -> WindowShape:
        return replace(super().pixels, kept=True)

    @property
    def pad(self) -> int:
        """What the rows before the first frame are."""
        return int(codes_of(np.array(self.kept.initial), self.x.format))

    def weight_rows(self, folding: Folding) -> tuple[int, ...]:
        """None for several windows: those would be computed in passes, over a frame that is played again."""
        height, width = self.window.positions(self.frame)
        return super().weight_rows(folding) if height * width == 1 else ()


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
