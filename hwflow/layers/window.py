"""Sliding windows over frames, shared by the layers that look at a neighbourhood of a pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.layers.formats import Frame, IntArray

__all__ = ["Window"]


@dataclass(frozen=True)
class Window:
    """Kernel size, strides and dilations as (height, width); pads as (top, left, bottom, right), never negative."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    def positions(self, frame: Frame) -> tuple[int, int]:
        """How many windows fit below and beside each other.  ValueError where not one does."""
        counts = []
        for axis, size in enumerate((frame.height, frame.width)):
            span = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            room = size + self.pads[axis] + self.pads[axis + 2] - span
            if room < 0:
                raise ValueError(f"a window of {span} must fit into {room + span} padded elements of axis {axis}")
            counts.append(room // self.strides[axis] + 1)
        return counts[0], counts[1]

    def view(self, x: IntArray, padding: int) -> IntArray:
        """All windows of `x` [n, h, w, c] as a read-only view [n, out_h, out_w, kh, kw, c]; pads hold `padding`."""
        top, left, bottom, right = self.pads
        if any(self.pads):
            edges = ((0, 0), (top, bottom), (left, right), (0, 0))
            x = np.pad(x, edges, constant_values=padding)
        span = [d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]
        windows = np.lib.stride_tricks.sliding_window_view(x, span, axis=(1, 2))
        windows = windows[:, :: self.strides[0], :: self.strides[1], :, :: self.dilations[0], :: self.dilations[1]]
        return np.moveaxis(windows, 3, 5)
