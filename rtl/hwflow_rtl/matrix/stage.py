"""The matrix stage: convolution (also depthwise or grouped) and dense layers, at one word of activations a cycle.

    i ─▶ [WordJoin] ─▶ [RowPatch] ─▶ LineBuffer ─▶ MatrixArray ─▶ out_lanes x Requantizer or Thresholder ─▶ Queue ─▶ o
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..rescale.rescaler import LaneUnits, RescalerConstants
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times, in_turn, with_room
from ..stream.unit import UnitShape
from ..stream.word_join import WordJoinShape, spaced
from ..vendor.base import Resources, Technology
from ..vendor.known import once_known
from ..window.line_buffer import LineBufferShape
from .array import MatrixArray
from .row_patch import PatchTimes, RowPatchShape
from .shape import MatrixShape

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixStageShape(UnitShape):
    """The folding of a layer whose outputs are rescaled sums of weights times a window of inputs, and its constants.

    matrix
        The layer's sizes and its folding.
    weights
        int[cout, kernel height, kernel width, cin / groups], each a `weight`, or -1 or +1; those of pass 0 first.  A
        dense layer is a 1 x 1 kernel on a 1 x 1 frame.
    rescaler
        Constants that turn sums into outputs: `RequantizerConstants` or `ThresholderConstants`, of all output channels.
    pad_value
        The activation in the padding.
    """

    matrix: MatrixShape
    weights: IntArray
    rescaler: RescalerConstants
    pad_value: int = 0

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.matrix.lanes_in,)

    @property
    def cycles(self) -> int:
        return self.matrix.cycles()

    @property
    def work(self) -> int:
        return self.matrix.work

    @property
    def multipliers(self) -> int:
        return self.matrix.rows * self.matrix.cols

    @property
    def ports(self) -> dict[str, Any]:
        shape = self.matrix
        return {
            "i": In(stream_of(shape.element, shape.lanes_in)), "o": Out(stream_of(shape.output, shape.out_lanes)),
            "busy": Out(1),
            **({"weights": In(stream_of(shape.weight, shape.weight_lanes))} if shape.weight_lanes else {})}

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        """The second of `arrivals` is that of the stream `weights`, where there is one, which `taken` has after `i`.

        Without it weights arrive as the source promises.
        """
        shape, weights = self.matrix, arrivals[1] if len(arrivals) > 1 else None
        words = shape.bank_words(shape.bank_rows(technology))
        latency = self.rescaler_latency(technology)
        depth = max(2, shape.queue_depth(technology, latency))
        queued, ahead = latency + Queue.latency_of(depth), shape.played.lookahead(shape.block_interval)
        first = (1 + technology.timing.ram + 1 + shape.played.beats - 1 + shape.word_delay(technology)
                 + shape.bank_latency(technology) + shape.rows // shape.bank_rows(technology) + queued)

        def results_of(starts: Times) -> Times:
            """The sums of each period: those of output channels, then those that are dropped."""
            sums = starts[:, None] + first + np.arange(shape.drain) * shape.drain_interval
            return sums.reshape(-1, shape.period * shape.drain)

        def played(earliest: Times, pace: int) -> tuple[Times, ...]:
            if left is None:
                return shape.source.starts(earliest, pace, words, weights)
            started, places = earliest, Queue.capacity_of(depth)
            while True:  # sums that are dropped free their places as well, some of them before earlier sums do
                gone = results_of(started) - queued - 1
                gone[:, :shape.span // shape.out_lanes] = left.reshape(len(gone), -1)
                free = with_room(earliest, np.sort(gone, axis=None), places, back=2 + ahead, block=shape.drain)
                starts, *others = shape.source.starts(free, pace, words, weights)
                if np.array_equal(starts, started):
                    return starts, *others
                started = starts

        starts, taken = front_times(arrivals[0], shape, technology, lambda earliest, pace: played(earliest, pace)[0])
        _, *taken_weights = played(starts, 1)
        spans = results_of(starts)[:, :shape.span // shape.out_lanes]
        return StageTimes((taken, *taken_weights), spans.reshape(-1))

    def rescaler_latency(self, technology: Technology) -> int:
        """Cycles from the sum of lane 0 to the word of results: the slowest lane decides."""
        return rescaler_latency(self.matrix, self.rescaler, technology)

    def queue_depth(self, technology: Technology) -> int:
        """Words of the queue of results."""
        return max(2, self.matrix.queue_depth(technology, self.rescaler_latency(technology)))

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        shape = self.matrix
        lanes = lane_units(shape, self.rescaler, technology)
        total = front_cost(shape, technology) + MatrixArray.cost(shape, technology) + lanes.cost
        depth = self.queue_depth(technology)
        queue = Queue.cost(width=shape.output.width * shape.out_lanes, depth=depth, technology=technology)
        credits = CreditCounter.cost(**credit_sizes(shape, Queue.capacity_of(depth)))
        return total + queue + credits + Resources(ff=1)  # `left`

    def build(self, technology: Technology, name: str) -> MatrixStage:
        return MatrixStage(shape=self, technology=technology, name=name)


class MatrixStage(wiring.Component):
    """The layer of `shape`; `name` begins the names of the ROMs and is unique in the design.

    Ports: `i`, words of `lanes_in` channels in raster order; `o`, `out_lanes` channels in raster order; `busy`, high
    while the multipliers compute a word (`MatrixShape.work` cycles a frame); with a `StreamSource` also `weights`, the
    beats of `weight_beats`, again for each frame of the first pass.

    Initiation interval: exactly `MatrixShape.cycles()` from frame to frame, if source and reader never stall the stage,
    and weights arrive as fast as the source of weights says.
    """

    def __init__(self, *, shape: MatrixStageShape, technology: Technology, name: str):
        self.shape = shape
        matrix, pad_value = shape.matrix, shape.pad_value
        check_weights(matrix, shape.weights, name)
        self.technology = technology
        self.name = name
        self.line_buffer = line_buffer_of(matrix, pad_value).build(technology)
        self.word_join = word_join_of(matrix).build() if matrix.joins else None
        self.row_patch = row_patch_of(matrix, pad_value).build(technology) if matrix.patch else None
        self.array = MatrixArray(shape=matrix, weights=shape.weights, technology=technology, name=name)
        self.rescalers = [
            shape.rescaler.of_lane(q, matrix.out_lanes).unit(
                accumulator=matrix.accumulator, output=matrix.output, interval=matrix.drain_interval,
                technology=technology, name=f"{name}_requantizer{q}")
            for q in range(matrix.out_lanes)]
        super().__init__(shape.ports)

    def model(self, frames: IntArray) -> IntArray:
        """[n, height, width, channels] as they are on `i` to the beats of `o`, [beats, out_lanes]."""
        if self.word_join is not None:
            frames = self.word_join.model(frames)
        if self.row_patch is not None:
            frames = self.row_patch.model(frames)
        sums = self.array.model(self.line_buffer.model(frames))
        return np.stack([unit.model(sums[:, q]) for q, unit in enumerate(self.rescalers)], axis=1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape.matrix
        m.submodules.window = window = self.line_buffer
        m.submodules.array = array = self.array
        # The lanes have different latencies: their banks are skewed, and constants may need fewer steps.
        times = [unit.latency - array.lead(q) for q, unit in enumerate(self.rescalers)]
        depth = shape.queue_depth(self.technology, max(times))
        word = data.ArrayLayout(shape.output, shape.out_lanes)
        m.submodules.queue = queue = Queue(shape=word, depth=depth, technology=self.technology)
        m.submodules.credits = credits = CreditCounter(**credit_sizes(shape, queue.capacity))
        left = delay(m, self.o.valid & self.o.ready, 1, "left", reset_less=False)

        source = wiring.flipped(self.i)
        for name, part in (("word_join", self.word_join), ("row_patch", self.row_patch)):
            if part is not None:
                m.submodules[name] = part
                link(m, source, part.i)
                source = part.o
        link(m, source, window.i)
        link(m, queue.o, wiring.flipped(self.o))
        m.d.comb += [
            array.busy.eq(window.busy), array.beat.eq(window.beat), self.busy.eq(window.busy),
            window.credit.eq(array.weights.gated(
                m, credit=credits.credit, start=window.start,
                arrivals=wiring.flipped(self.weights) if shape.weight_lanes else None)),
            credits.taken.eq(window.start),
            credits.given.eq(left + array.dropped if credits.give > 1 else left),
        ]

        valid, results = None, []
        for q, unit in enumerate(self.rescalers):
            m.submodules[f"requantizer{q}"] = unit
            wait = max(times) - times[q]
            m.d.comb += [unit.i_valid.eq(array.valid[q]), unit.i_value.eq(array.sums[q])]
            results.append(delay(m, Value.cast(unit.o_value), wait, f"result{q}"))
            valid = unit.o_valid if wait == 0 else valid
        m.d.comb += [queue.i.valid.eq(valid), Value.cast(queue.i.payload).eq(Cat(*results))]
        return m


def credit_sizes(shape: MatrixShape, words: int) -> dict[str, int]:
    """Arguments of the `CreditCounter` of an output FIFO of `words`: sums that are dropped give their credit back."""
    return {"words": words, "take": shape.drain, "give": 1 + (shape.kept < shape.drain)}


def lane_units(shape: MatrixShape, rescaler: RescalerConstants, technology: Technology) -> LaneUnits:
    """The units that rescale the sums of the stage."""
    return rescaler.lane_units(shape.out_lanes, accumulator=shape.accumulator, output=shape.output,
                               interval=shape.drain_interval, technology=technology)


def rescaler_latency(shape: MatrixShape, rescaler: RescalerConstants, technology: Technology) -> int:
    """Cycles from the sum of lane 0 to the word of results: the slowest lane decides."""
    bank = shape.bank_rows(technology)
    latencies = lane_units(shape, rescaler, technology).latencies
    return max(latency - q // bank for q, latency in enumerate(latencies))


def line_buffer_of(shape: MatrixShape, pad_value: int = 0) -> LineBufferShape:
    return LineBufferShape(window=shape.played, element=shape.element, lanes=shape.word_lanes, pad_value=pad_value,
                           interval=shape.block_interval, feed=shape.feed)


def word_join_of(shape: MatrixShape) -> WordJoinShape:
    return WordJoinShape(element=shape.element, lanes_in=shape.lanes_in, lanes=shape.lanes, chunk=shape.chunk)


def row_patch_of(shape: MatrixShape, pad_value: int = 0) -> RowPatchShape:
    return RowPatchShape(window=shape.window, element=shape.element, lanes=shape.lanes, pad_value=pad_value)


@once_known
def front_cost(shape: MatrixShape, technology: Technology) -> Resources:
    """The cost of `WordJoin`, `RowPatch` and `LineBuffer`.  RAM exact, LUT and FF estimated."""
    total = line_buffer_of(shape).cost(technology)
    if shape.joins:
        total += word_join_of(shape).cost()
    if shape.patch:
        total += row_patch_of(shape).cost(technology)
    return total


def front_times(arrivals: Times, shape: MatrixShape, technology: Technology,
                begin: Callable[[Times, int], Times]) -> tuple[Times, Times]:
    """The cycles in which blocks start, and in which beats are taken; `begin` as of `WindowShape.play`."""
    depth, join = line_buffer_of(shape).depth(technology), word_join_of(shape) if shape.joins else None
    earliest, spacing = join.earliest(arrivals) if join is not None else (arrivals, np.ones_like(arrivals))
    frames = len(earliest) // shape.window.input_words
    if not shape.patch:
        def words(room: Times | None) -> tuple[Times, ...]:
            taken = spaced(earliest if room is None else np.maximum(earliest, room), spacing)
            return np.maximum(earliest, np.append(earliest[:1], taken[:-1] + spacing[1:])), taken

        starts, (_, taken) = shape.played.play(words, frames, depth, shape.block_interval, begin)
    else:
        patch = PatchTimes(shape.window, earliest, spacing)

        def windows(room: Times | None) -> tuple[Times, ...]:
            leaving = patch.play(room)
            taken = in_turn(leaving if room is None else np.maximum(leaving, room))
            there = np.maximum(leaving, np.append(leaving[:1], taken[:-1] + 1))
            return there, taken, patch.words.reshape(-1), patch.fillers

        starts, (_, _, taken, _) = shape.played.play(windows, frames, depth, shape.block_interval, begin)
    return starts, join.taken(arrivals, taken, spacing) if join is not None else taken


def check_weights(shape: MatrixShape, weights: IntArray, name: str) -> None:
    expected = (shape.passes * shape.channels, *shape.frame.kernel, shape.depth)
    if weights.shape != expected:
        raise ValueError(f"weights of '{name}' must be of shape {expected} for its window, lanes and rows, not "
                         f"{weights.shape}")
    operand = shape.products.weight
    if not operand.holds(weights):
        low, high = operand.range
        rule = "-1 or +1" if operand.bipolar else f"from {low} to {high}"
        raise ValueError(f"weights of '{name}' must be {rule}, not from {weights.min()} to {weights.max()}")
