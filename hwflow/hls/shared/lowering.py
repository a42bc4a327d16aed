"""From a sweep to the steps that compute it: tiles of the output's channels, and the words of the input for each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_rtl.shared.program import Constants
from hwflow_rtl.shared.shape import Sliding, Sums
from hwflow_rtl.shared.steps import Compute, Loops, Operation, Output, Padding, ReadWalk, Weighting, WriteWalk

from hwflow.stages.sweep import Sweep, is_wide

from ...layers.formats import IntArray
from .constants import SweepConstants, digits_of, held_less, held_zero_point, sweep_constants
from .layout import Operand
from .sliding import Way, way_of


@dataclass(frozen=True)
class Tiles:
    """`count` words of the output from `first` on; tile k reads `length` words of each pixel from `low + k * step` on.
    """

    first: int
    count: int
    low: int
    step: int
    length: int


@dataclass(frozen=True, eq=False)
class Lowering:
    """The steps of one sweep; the stage has room for `buffer` words of weights and for windows as `sliding` says;
    `table` is the number of the sweep's table."""

    sweep: Sweep
    inputs: tuple[Operand, ...]
    output: Operand
    needs: Sums
    buffer: int
    sliding: Sliding
    table: int | None = None

    def steps(self) -> Iterator[tuple[Compute, Constants]]:
        """HwflowError where the weights of a window do not fit the buffer.

        An output with elements of two bytes is computed twice, the words with its low bytes first.
        """
        if not is_wide(self.sweep.output):
            yield from self.whole_steps()
            return
        base = self.output.base
        for byte in range(2):
            for step, constants in self.whole_steps():
                walk = step.write
                wide = WriteWalk(base=base + 2 * (walk.base - base) + byte, tile=2 * walk.tile, row=2 * walk.row,
                                 column=2 * walk.column)
                yield replace(step, write=wide, output=replace(step.output, byte=byte)), constants

    def whole_steps(self) -> Iterator[tuple[Compute, Constants]]:
        """The steps of a sweep whose elements have one byte."""
        constants = sweep_constants(self.sweep, self.needs)
        way = way_of(self.sliding, self.sweep, self.inputs[0].layout, self.output.layout)
        if way is not None:
            yield from (self.slide(way, tiles, constants) for tiles in self.tiles())
        elif not self.sweep.lane_wise:
            yield from (self.product(tiles, constants) for tiles in self.tiles())
        elif self.sweep.multipliers:
            yield self.sum(constants)
        elif self.sweep.product:
            yield self.product_of_two(constants)
        else:
            yield self.maximum(constants)

    @property
    def columns(self) -> int:
        """The columns of the array."""
        return self.output.layout.columns

    @property
    def slots(self) -> IntArray:
        """The slots of the channels of the output that are computed."""
        first = self.sweep.first_channel
        return self.output.layout.slots[first:first + len(self.sweep.rescale.bias)]

    def tiles(self) -> Iterator[Tiles]:
        """Words of the output whose windows are equally long and equally far apart, together."""
        assert self.sweep.channels is not None
        words = self.inputs[0].layout.slots[self.sweep.channels] // self.columns
        numbers, begins = np.unique(self.slots // self.columns, return_index=True)
        low = np.minimum.reduceat(words.min(axis=1), begins).tolist()
        high = np.maximum.reduceat(words.max(axis=1), begins).tolist()
        first = 0
        while first < len(low):
            length, end = high[first] - low[first] + 1, first + 1
            step = low[end] - low[first] if end < len(low) else 0
            while end < len(low) and (high[end] - low[end] + 1, low[end] - low[end - 1]) == (length, step):
                end += 1
            yield Tiles(int(numbers[first]), end - first, low[first], step if end - first > 1 else 0, length)
            first = end

    def product(self, tiles: Tiles, constants: SweepConstants) -> tuple[Compute, Constants]:
        """Sums of products with weights."""
        weights = self.tile_weights(tiles)
        step = self.compute(constants, tiles)
        words = weights.reshape(tiles.count, -1, self.columns, self.columns)
        if step.loops.beats > 1 and (words == words[:, :1]).all():
            return replace(step, weighting=Weighting(repeated=True)), self.constants(tiles, constants, words[:, :1])
        if step.part > self.buffer:
            step, order = self.in_parts(step, tiles)
            weights = weights.reshape(tiles.count, -1, self.columns, self.columns)
            weights = np.where((order >= 0)[:, None, None], weights[:, order], 0)
        shape = tiles.count, step.loops.beats, self.columns, self.columns
        return step, self.constants(tiles, constants, weights.reshape(shape))

    def tile_weights(self, tiles: Tiles) -> IntArray:
        """[tiles, kernel height, kernel width, words, rows, columns], 0 where a lane has no channel."""
        sweep = self.sweep
        assert sweep.weights is not None
        assert sweep.channels is not None
        tile, row = np.divmod(self.slots - tiles.first * self.columns, self.columns)
        used = (tile >= 0) & (tile < tiles.count)
        tile, row = tile[used, None], row[used, None]
        word, column = np.divmod(self.inputs[0].layout.slots[sweep.channels[used]], self.columns)
        words = np.zeros((tiles.count, *sweep.window.kernel, tiles.length, self.columns, self.columns), np.int64)
        words[tile, :, :, word - tiles.low - tile * tiles.step, row, column] = sweep.weights[used].transpose(0, 3, 1, 2)
        return words

    def slide(self, way: Way, tiles: Tiles, constants: SweepConstants) -> tuple[Compute, Constants]:
        """Sums of products of windows that slide: a tile reads one word of each pixel."""
        sweep, x, y, along, across = self.sweep, self.inputs[0], self.output, way.axis, 1 - way.axis
        frame, window = sweep.inputs[0].frame, sweep.window
        reads, writes = (x.row, x.column), (y.row, y.column)
        steps, lines = (window.row_step[0], window.column_step[1]), (sweep.rows, sweep.columns)
        first = window.origin[along] + way.first
        size = frame.height, frame.width
        step = Compute(
            loops=Loops(tiles=tiles.count, height=way.lines, width=way.count, lead=way.lead, outer=way.step,
                        inner=way.height),
            read=ReadWalk(
                base=x.base + window.origin[across] * reads[across] + first * reads[along] + tiles.low, tile=tiles.step,
                row=steps[across] * reads[across], column=way.step * reads[along], outer=reads[along],
                inner=window.dilations[across] * reads[across]),
            write=replace(self.writes(tiles), row=lines[across].step * writes[across],
                          column=lines[along].step * writes[along]),
            padding=Padding(
                first_row=window.origin[across], first_column=first, row_stride=steps[across],
                column_stride=way.step, outer_columns=1, inner_rows=window.dilations[across],
                frame_height=size[across], frame_width=size[along],
                pad=self.pad),
            weighting=Weighting(slides=True), output=self.results(constants))
        if step.part > self.buffer:
            raise self.too_many(step.part, f"{way.height} x {way.step} pixels of one word")
        lanes = np.diagonal(self.tile_weights(tiles)[:, :, :, 0], axis1=3, axis2=4)  # [tiles, height, width, lanes]
        lanes = lanes if along else lanes.swapaxes(1, 2)
        weights = np.zeros((tiles.count, way.step, way.height, self.columns, self.columns), np.int64)
        weights[:, -1, :, :, :way.width] = lanes[:, :, ::-1].swapaxes(2, 3)
        return step, self.constants(tiles, constants, weights.reshape(tiles.count, -1, *weights.shape[3:]))

    def in_parts(self, step: Compute, tiles: Tiles) -> tuple[Compute, IntArray]:
        """The same step with weights in parts, and for each word of them which of the whole it is, or -1 for none."""
        sweep, (height, width) = self.sweep, self.sweep.window.kernel
        whole = step.loops.beats
        if sweep.single and width * tiles.length <= self.buffer:
            return replace(step, weighting=Weighting(in_parts=True)), np.arange(whole)
        in_a_row = ((width == 1 or step.read.inner == tiles.length)
                    and (height == 1 or step.read.outer == width * tiles.length))
        if not sweep.single or sweep.padded or not in_a_row:
            raise self.too_many(whole, f"{height} x {width} pixels of {tiles.length} words")
        parts = -(-whole // self.buffer)
        while whole - (parts - 1) * (whole // parts) > self.buffer:
            parts += 1
        stride = whole // parts  # the last part is the longest: the others read on into the next, with weights of 0
        length = whole - (parts - 1) * stride
        order = np.arange(parts)[:, None] * stride + np.arange(length)
        order[:-1, stride:] = -1
        step = replace(step, weighting=Weighting(in_parts=True),
                       loops=replace(step.loops, outer=parts, inner=1, words=length),
                       read=replace(step.read, outer=stride, inner=0),
                       padding=replace(step.padding, outer_rows=0, inner_columns=0))
        return step, order.reshape(-1)

    def too_many(self, words: int, why: str) -> HwflowError:
        """The error for weights that do not fit the buffer."""
        return HwflowError(
            f"the weights of a window must fit the {self.buffer} words of the shared stage's buffer, not be {words} "
            f"words of {self.columns} x {self.columns} ({why})", "use a smaller kernel or fewer input channels",
            where=f"layer '{self.sweep.layer}'")

    def sum(self, constants: SweepConstants) -> tuple[Compute, Constants]:
        """Two operands times their multipliers, a digit after the other."""
        digits = [digits_of(m) for m in self.sweep.multipliers]
        count = max(map(len, digits))
        table = np.array([[row[k] if k < len(row) else 0 for row in digits] for k in reversed(range(count))], np.int64)
        return self.of_two(constants, table, Operation.MULTIPLY, Weighting(digits=count > 1))

    def product_of_two(self, constants: SweepConstants) -> tuple[Compute, Constants]:
        """Two operands times each other, see `Operation.PRODUCT`."""
        a, b = (-1 - held_zero_point(x) for x in self.sweep.inputs)
        return self.of_two(constants, np.array([[b, a], [0, 0]], np.int64), Operation.PRODUCT, Weighting())

    def of_two(self, constants: SweepConstants, table: IntArray, operation: Operation,
               weighting: Weighting) -> tuple[Compute, Constants]:
        """Words of both operands again and again, times the numbers of a row of `table` [times, 2]."""
        words, (a, b) = self.output.layout.words, (x.base for x in self.inputs)
        step = self.compute(constants, Tiles(0, words, 0, 1, 1))
        step = replace(step, operation=operation, weighting=weighting,
                       loops=replace(step.loops, outer=len(table), inner=2),
                       read=replace(step.read, outer=0, inner=b - a),
                       padding=replace(step.padding, outer_rows=0, inner_columns=0))
        if step.part > self.buffer:
            raise self.too_many(step.part, f"{len(table)} times two words")
        weights = table.reshape(-1, 1, 1) * np.eye(self.columns, dtype=np.int64)
        if self.word_by_word:
            step = replace(
                step, loops=replace(step.loops, tiles=1, height=1, width=step.loops.tiles * step.loops.pixels),
                read=replace(step.read, tile=0, row=0, column=1), write=WriteWalk(base=step.write.base, column=1))
            words = 1
        return step, self.constants(Tiles(0, words, 0, 1, 1), constants,
                                    np.broadcast_to(weights, (words, *weights.shape)).copy())

    @property
    def word_by_word(self) -> bool:
        """Whether all words of the whole frame are computed in order and alike: no lane is without a channel."""
        target, layout = self.sweep.output.frame, self.output.layout
        whole = (self.sweep.rows.count, self.sweep.columns.count) == (target.height, target.width)
        full = np.array_equal(layout.slots, np.arange(layout.words * layout.columns)) and (
            self.output.column == layout.words)
        same = all(np.array_equal(x.layout.slots, layout.slots) for x in self.inputs)
        return whole and full and same

    def maximum(self, constants: SweepConstants) -> tuple[Compute, Constants]:
        """The largest element of a window."""
        words = self.output.layout.words
        tiles = Tiles(0, words, 0, 1, 1)
        step = replace(self.compute(constants, tiles), operation=Operation.MAXIMUM)
        return step, self.constants(tiles, constants, np.zeros((words, 0, self.columns, self.columns), np.int64))

    def compute(self, constants: SweepConstants, tiles: Tiles) -> Compute:
        """The loops over the pixels of the output and a window of the input."""
        sweep, window, x = self.sweep, self.sweep.window, self.inputs[0]
        frame = sweep.inputs[0].frame
        across, along = x.row, x.column
        loops = Loops(tiles=tiles.count, height=sweep.rows.count, width=sweep.columns.count, outer=window.kernel[0],
                      inner=window.kernel[1], words=tiles.length)
        read = ReadWalk(
            base=x.base + window.origin[0] * across + window.origin[1] * along + tiles.low, tile=tiles.step,
            row=window.row_step[0] * across + window.row_step[1] * along,
            column=window.column_step[0] * across + window.column_step[1] * along,
            outer=window.dilations[0] * across, inner=window.dilations[1] * along)
        padding = Padding(
            first_row=window.origin[0], first_column=window.origin[1], row_stride=window.row_step[0],
            column_stride=window.column_step[1], outer_rows=window.dilations[0], inner_columns=window.dilations[1],
            frame_height=frame.height, frame_width=frame.width, pad=self.pad) if sweep.padded else Padding()
        return Compute(loops=loops, read=read, write=self.writes(tiles), padding=padding,
                       output=self.results(constants))

    @property
    def pad(self) -> int:
        """The integer that pads the input, as the frame memory holds it."""
        return self.sweep.pad - held_less(self.sweep.inputs[0].format)

    def writes(self, tiles: Tiles) -> WriteWalk:
        """The words of the output, pixel by pixel."""
        rows, columns = self.sweep.rows, self.sweep.columns
        across, words = self.output.row, self.output.column
        return WriteWalk(base=self.output.base + rows.first * across + columns.first * words + tiles.first, tile=1,
                         row=rows.step * across, column=columns.step * words)

    def results(self, constants: SweepConstants) -> Output:
        """The way of sums to elements."""
        return Output(zero_point=constants.zero_point, low=max(constants.low, -128), high=min(constants.high, 127),
                      table=self.table)

    def constants(self, tiles: Tiles, constants: SweepConstants, weights: IntArray) -> Constants:
        """The constants of the channels of some tiles; 0 for lanes without a channel."""
        words = slice(tiles.first, tiles.first + tiles.count)
        layout, first = self.output.layout, self.sweep.first_channel

        def of_tiles(values: IntArray) -> IntArray:
            whole = np.zeros(len(layout.slots), np.int64)
            whole[first:first + len(values)] = values
            return layout.spread(whole, 0)[words]

        return Constants(of_tiles(constants.bias), of_tiles(constants.factor), of_tiles(constants.extra), weights,
                         of_tiles(constants.moves))
