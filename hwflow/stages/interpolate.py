"""The stage of frames of another size whose elements lie between those of the input."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from itertools import product

import numpy as np
from hwflow_rtl.rearrange.interpolate import AxisWeights, InterpolateShape
from hwflow_rtl.rearrange.shape import RearrangeShape
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.vendor import Technology

from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.interpolate import Between, Interpolate
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.rearrange import MOST_BITS, MOST_SWEEPS, Move, fewest_moves
from hwflow.stages.rescalers import rescale_problem, rescaler_constants
from hwflow.stages.stage import LayerStage
from hwflow.stages.sweep import MovingWindow, Sweep, multiplication_problem, weight_problem


class InterpolateStage(LayerStage[Interpolate]):
    """A ring plays the neighbours of a word, a multiplier for each lane weighs them."""

    @property
    def taps(self) -> int:
        """Neighbours of an element."""
        rows, columns = self.layer.between
        return rows.taps * columns.taps

    def hardware_problem(self) -> str | None:
        channels = self.x.frame.channels
        bits = self._order(channels).ring_words * channels * self.layer.input_format.bits
        if bits > MOST_BITS:
            return (f"the rows that wait for the next must fit {MOST_BITS} bits, the block RAM of the largest device, "
                    f"not {bits}")
        return rescale_problem(self.layer.requantize, self.y.format)

    def shared_problem(self) -> str | None:
        count = math.prod(map(len, self.moves))
        if count > MOST_SWEEPS:
            return (f"elements must lie between others in at most {MOST_SWEEPS} ways in a shared stage, not in {count} "
                    "(with half pixels an integer factor has few)")
        return weight_problem(np.array([self.layer.total])) or multiplication_problem(self.layer.multiplied)

    @cached_property
    def moves(self) -> tuple[list[Move], list[Move]]:
        """The rows and the columns of the output in few moves, each with one weight."""
        rows, columns = (fewest_moves(between.places * (between.total + 1) + between.weights,
                                      Frame(size, 1, between.total + 1))
                         for between, size in zip(self.layer.between, (self.x.frame.height, self.x.frame.width),
                                                  strict=True))
        return rows, columns

    def sweeps(self) -> tuple[Sweep, ...]:
        """A product with constant weights for each rectangle of pixels that have the same."""
        return tuple(self._sweep(rows, columns) for rows, columns in product(*self.moves))

    def _sweep(self, rows: Move, columns: Move) -> Sweep:
        layer, channels = self.layer, self.y.frame.channels
        assert layer.multiplied is not None
        down, across = (_kernel(between, int(move.start[2]))
                        for between, move in zip(layer.between, (rows, columns), strict=True))
        return Sweep(
            layer=layer.name, inputs=(self.x,), output=self.y, rescale=layer.multiplied, rows=rows.line,
            columns=columns.line, weights=np.tile(np.outer(down, across)[None, :, :, None], (channels, 1, 1, 1)),
            channels=np.arange(channels)[:, None],
            window=MovingWindow(
                kernel=(len(down), len(across)), row_step=(rows.step[0], 0), column_step=(0, columns.step[0]),
                origin=(int(rows.start[0]), int(columns.start[0]))))

    def foldings(self) -> Iterator[Folding]:
        """Any divisor of the channels is weighed at once, and leaves while the next is."""
        return (Folding(1, cols, lanes) for cols in divisors(self.y.frame.channels) for lanes in divisors(cols)
                if cols // lanes <= self.taps)

    def shape(self, folding: Folding, technology: Technology) -> InterpolateShape:
        layer = self.layer
        rows, columns = (AxisWeights(between.weights, between.total) for between in layer.between)
        return InterpolateShape(
            name=self.name, order=self._order(folding.cols), lanes=folding.cols, element=shape_of(layer.input_format),
            accumulator=shape_of(layer.accumulator), out_lanes=folding.lanes, output=shape_of(self.y.format),
            rescaler=self._rescaler(technology), bipolar=self.x.format.bipolar, rows=rows, columns=columns)

    @cached_property
    def _rescalers(self) -> dict[Technology, RescalerConstants]:
        """Keeps what `_rescaler` has given."""
        return {}

    def _rescaler(self, technology: Technology) -> RescalerConstants:
        if technology not in self._rescalers:
            self._rescalers[technology] = rescaler_constants(
                self.layer.requantize, self.layer.accumulator, self.y.format, technology)
        return self._rescalers[technology]

    @cached_property
    def _orders(self) -> dict[int, RearrangeShape]:
        """Keeps what `_order` has given."""
        return {}

    def _order(self, lanes: int) -> RearrangeShape:
        """The words of `lanes` neighbours: of a word of the output those of the first row first."""
        if lanes not in self._orders:
            frame, (rows, columns) = self.x.frame, self.layer.between
            row, pixel = frame.width * frame.channels, frame.channels
            near = [i * row + j * pixel for i in range(rows.taps) for j in range(columns.taps)]
            first = np.arange(0, pixel, lanes)[:, None, None]
            channels = (first + np.array(near)[:, None] + np.arange(lanes)).reshape(-1)
            self._orders[lanes] = RearrangeShape.of(rows.places * row, columns.places * pixel, channels,
                                                    elements=frame.elements, lanes=lanes)
        return self._orders[lanes]


def _kernel(between: Between, weight: int) -> IntArray:
    """The weights of neighbours along one axis."""
    return np.array([between.total - weight, weight] if between.taps > 1 else [1], np.int64)
