"""Sliding windows over frames, shared by the layers that look at a neighbourhood of a pixel."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.planes import Planes


@dataclass(frozen=True)
class Window:
    """Kernel size, strides and dilations as (height, width); pads as (top, left, bottom, right), never negative."""

    kernel: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)

    def positions(self, frame: Frame) -> tuple[int, int]:
        """How many windows fit below and beside each other.  ValueError where not one does."""
        if min(*self.kernel, *self.strides, *self.dilations) < 1 or min(self.pads) < 0:
            raise ValueError(f"kernel, strides and dilations must be positive and pads not negative, not {self}")
        counts = []
        for axis, size in enumerate((frame.height, frame.width)):
            span = self.dilations[axis] * (self.kernel[axis] - 1) + 1
            room = size + self.pads[axis] + self.pads[axis + 2] - span
            if room < 0:
                raise ValueError(f"a window of {span} must fit into {room + span} padded elements of axis {axis}")
            counts.append(room // self.strides[axis] + 1)
        return counts[0], counts[1]

    def view(self, x: IntArray, padding: int) -> IntArray:
        """All windows of frames `x` [n, h, w, c] as a read-only view [n, out_h, out_w, kh, kw, c].

        Pads hold `padding`.
        """
        return self.windows(x.transpose(3, 1, 2, 0), padding).transpose(5, 3, 4, 1, 2, 0)

    def windows(self, planes: Planes, padding: int) -> Planes:
        """All windows of planes [c, h, w, n] as a read-only view [c, kh, kw, out_h, out_w, n]; pads hold `padding`."""
        height, width = (d * (k - 1) + 1 for k, d in zip(self.kernel, self.dilations, strict=True))
        view = np.lib.stride_tricks.sliding_window_view(self._pad(planes, padding), (height, width), axis=(1, 2))
        view = view[:, :: self.strides[0], :: self.strides[1], :, :: self.dilations[0], :: self.dilations[1]]
        return np.moveaxis(view, (4, 5), (1, 2))

    def reduce(self, planes: Planes, padding: int, combine: np.ufunc) -> Planes:
        """`combine` (of two numbers, associative and commutative) over each window: [c, out_h, out_w, n].

        The rows of a window first, then the columns: as many steps as the kernel is high and wide, not their product.
        """
        result = self._pad(planes, padding)
        for axis in (1, 2):
            taps, stride, dilation = (pair[axis - 1] for pair in (self.kernel, self.strides, self.dilations))
            room = result.shape[axis] - dilation * (taps - 1)
            before = (slice(None),) * axis
            parts = [result[(*before, slice(k * dilation, k * dilation + room, stride))] for k in range(taps)]
            result = parts[0].copy()
            for part in parts[1:]:
                combine(result, part, out=result)
        return result

    def _pad(self, planes: Planes, padding: int) -> Planes:
        if not any(self.pads):
            return planes
        top, left, bottom, right = self.pads
        c, h, w, n = planes.shape
        padded = np.full((c, top + h + bottom, left + w + right, n), padding, planes.dtype)
        padded[:, top : top + h, left : left + w] = planes
        return padded
