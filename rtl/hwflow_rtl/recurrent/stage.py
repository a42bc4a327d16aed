"""The stage of a recurrent layer: a matrix product in a loop, with the pipeline of a cell behind its results.

    i ─▶ Queue ──────────────────────────────┐
         LoopOperand ─▶ MatrixArray ─▶ Requantizers ─▶ Cell ─▶ Requantizers ─▶ Queue ─▶ o
              ▲──────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Shape, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..matrix.array import MatrixArray
from ..rescale.ranges import RequantizerRounding
from ..rescale.requantizer import RequantizerConstants
from ..rescale.rescaler import Rescaler, RescalerConstants
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times
from ..stream.unit import UnitShape
from ..vendor.base import Resources, Technology
from .cells import cell_cost, cell_of
from .memories import LoopOperand, LoopOperandShape
from .shape import ONE_FRACTION, LoopPace, RecurrentShape
from .walk import LoopSequencer, LoopWalk

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class RecurrentStageShape(UnitShape):
    """The folding of a recurrent layer, its pace, and its constants.

    loop
        The layer's sizes and its folding.
    pace
        No less than the family needs.
    weights
        int[gates * hidden, hidden], each a `weight`.
    tables, initial
        As of `Cell`.
    rescaler, outputs
        Constants that turn sums into gate sums, for all rows; and hidden states into elements, one for all units.
    """

    loop: RecurrentShape
    pace: LoopPace
    weights: IntArray
    tables: Sequence[IntArray]
    initial: IntArray
    rescaler: RescalerConstants
    outputs: RequantizerConstants

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.loop.lanes,)

    @property
    def cycles(self) -> int:
        return self.pace.cycles(self.loop)

    @property
    def work(self) -> int:
        loop = self.loop
        return loop.steps * len(loop.gates) * loop.blocks * loop.words

    @property
    def multipliers(self) -> int:
        return self.loop.rows * self.loop.cols

    @property
    def starts_with_zeros(self) -> bool:
        """All initial states are 0."""
        return not self.initial.any()

    @property
    def operand(self) -> LoopOperandShape:
        loop = self.loop
        return LoopOperandShape(element=loop.state, lanes=loop.lanes, cols=loop.cols, words=loop.words,
                                banks=2 + loop.reset_before, zero=self.starts_with_zeros)

    def walk(self, technology: Technology) -> LoopWalk:
        """The schedule on a family."""
        return LoopWalk.of(self.loop, self.pace, self.rescaler, self.outputs, technology)

    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        return self.walk(technology).times(arrivals[0], left)

    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""
        loop, walk, zero = self.loop, self.walk(technology), self.starts_with_zeros
        lanes, interval = loop.lanes, loop.matrix.drain_interval
        rescalers = self.rescaler.lane_units(
            lanes, accumulator=loop.product.accumulator, output=loop.sum, interval=interval, technology=technology).cost
        outputs = self.outputs.cost(
            accumulator=loop.state, output=loop.output, interval=interval, technology=technology)
        queues = (Queue.cost(width=loop.sum.width * lanes, depth=walk.waiting, technology=technology)
                  + Queue.cost(width=loop.output.width * lanes, depth=walk.results, technology=technology))
        credit = CreditCounter.cost(words=Queue.capacity_of(walk.results), take=loop.matrix.drain)
        return (MatrixArray.cost(loop.matrix, technology) + rescalers + outputs.copies(lanes)
                + self.operand.cost(technology) + queues
                + credit + LoopSequencer.cost(loop, self.pace, Queue.capacity_of(walk.waiting))
                + cell_cost(loop, walk.timing, zero, technology))

    def build(self, technology: Technology, name: str) -> RecurrentStage:
        return RecurrentStage(shape=self, technology=technology, name=name)


class RecurrentStage(wiring.Component):
    """The steps of a recurrent layer, whose hidden states are the operand of the next step's product.

    `name` begins the names of the ROMs and is unique in the design.

    Ports: `i`, gate sums of the input, `lanes` units of a gate in a beat, those of all gates for each step; `o`,
    `lanes` units of a step; `busy`, high while the multipliers compute a word.

    Initiation interval: exactly `pace.cycles(loop)` from frame to frame, if source and reader never stall the stage.
    The states of a stage that streams begin anew with the core's reset alone.
    """

    def __init__(self, *, shape: RecurrentStageShape, technology: Technology, name: str):
        self.shape = shape
        self.technology, self.name = technology, name
        loop, pace = shape.loop, shape.pace
        self.walk = shape.walk(technology)
        needed = LoopPace.of(loop, [self.walk.timing])
        if needed.block > pace.block or needed.step > pace.step or needed.reset > pace.reset:
            raise ValueError(f"pace of '{name}' must be at least {needed} on {technology.name}, not {pace}")
        matrix = loop.matrix
        self.array = MatrixArray(shape=matrix, weights=shape.weights.reshape(len(shape.weights), 1, 1, -1),
                                 technology=technology, name=name)
        self.rescalers = [
            shape.rescaler.of_lane(q, loop.lanes).unit(
                accumulator=loop.product.accumulator, output=loop.sum, interval=matrix.drain_interval,
                technology=technology,
                name=f"{name}_requantizer{q}")
            for q in range(loop.lanes)]
        self.outputs = [
            shape.outputs.unit(accumulator=loop.state, output=loop.output, interval=matrix.drain_interval,
                               technology=technology, name=f"{name}_output{q}")
            for q in range(loop.lanes)]
        super().__init__({
            "i": In(stream_of(loop.sum, loop.lanes)), "o": Out(stream_of(loop.output, loop.lanes)), "busy": Out(1)})

    def model(self, frames: IntArray) -> IntArray:
        """[n, 1, steps, gates * hidden] as they are on `i` to the beats of `o`, [beats, lanes]."""
        loop = LoopModel(self.shape.loop, self.array, self.rescalers, self.outputs, self.shape.tables,
                         self.shape.initial)
        return loop.beats(np.asarray(frames, np.int64))

    def elaborate(self, platform):
        m = Module()
        shape, technology, walk = self.shape.loop, self.technology, self.walk
        m.submodules.waiting = waiting = Queue(
            shape=data.ArrayLayout(shape.sum, shape.lanes), depth=walk.waiting, technology=technology)
        m.submodules.sequencer = sequencer = LoopSequencer(
            shape=shape, pace=self.shape.pace, waiting=waiting.capacity)
        m.submodules.operand = operand = LoopOperand(
            shape=self.shape.operand, contents=self.shape.initial[0].reshape(-1, shape.cols), technology=technology,
            name=self.name)
        m.submodules.array = array = self.array
        m.submodules.cell = cell = cell_of(
            shape, tables=self.shape.tables, initial=self.shape.initial, timing=walk.timing, technology=technology,
            name=self.name)
        link(m, wiring.flipped(self.i), waiting.i)
        late = technology.timing.ram + 1
        flags = delay(m, Cat(sequencer.busy, sequencer.first, sequencer.last), late, "flags", reset_less=False)
        m.d.comb += [
            sequencer.arrived.eq(waiting.i.valid & waiting.i.ready), self.busy.eq(sequencer.busy),
            operand.word.eq(sequencer.word), operand.bank.eq(sequencer.bank), operand.initial.eq(sequencer.initial),
            array.busy.eq(sequencer.busy), array.beat.valid.eq(flags[0]), array.beat.first.eq(flags[0] & flags[1]),
            array.beat.last.eq(flags[0] & flags[2]), Value.cast(array.beat.word).eq(operand.data),
            Value.cast(cell.x).eq(Value.cast(waiting.o.payload)), waiting.o.ready.eq(cell.x_taken)]
        self.rescale(m, cell)
        self.back(m, cell, operand)
        self.leave(m, cell, sequencer)
        return m

    def rescale(self, m: Module, cell: wiring.Component) -> None:
        """Sums of the array to gate sums, all lanes at once."""
        array, walk = self.array, self.walk
        for q, unit in enumerate(self.rescalers):
            m.submodules[f"requantizer{q}"] = unit
            wait = walk.rescaling - (unit.latency - array.lead(q))
            m.d.comb += [
                unit.i_valid.eq(array.valid[q]), unit.i_value.eq(array.sums[q]),
                Value.cast(cell.sums[q]).eq(delay(m, Value.cast(unit.o_value), wait, f"sums{q}"))]
        ahead = walk.rescaling - walk.timing.lead
        m.d.comb += cell.valid.eq(delay(m, array.valid[0], ahead, "announced", reset_less=False))

    def back(self, m: Module, cell: wiring.Component, operand: LoopOperand) -> None:
        """Hidden states to the operand of the next step, or of n's product."""
        turn = Signal(init=1)  # the first step reads bank 0
        kept = cell.kept if self.shape.loop.reset_before else 0
        m.d.comb += [operand.write.eq(cell.state_valid | kept), operand.write_data.eq(Value.cast(cell.state))]
        if self.shape.loop.reset_before:
            m.d.comb += operand.write_bank.eq(Cat(turn & ~cell.kept, cell.kept))
        else:
            m.d.comb += operand.write_bank.eq(turn)
        with m.If(operand.last & cell.state_valid):
            m.d.sync += turn.eq(~turn)

    def leave(self, m: Module, cell: wiring.Component, sequencer: LoopSequencer) -> None:
        """Hidden states as elements, through a queue that has room for them."""
        shape, walk = self.shape.loop, self.walk
        m.submodules.queue = queue = Queue(
            shape=data.ArrayLayout(shape.output, shape.lanes), depth=walk.results, technology=self.technology)
        m.submodules.credits = credits = CreditCounter(words=queue.capacity, take=shape.matrix.drain)
        left = delay(m, self.o.valid & self.o.ready, 1, "left", reset_less=False)
        m.d.comb += [sequencer.credit.eq(credits.credit), credits.taken.eq(sequencer.results), credits.given.eq(left)]
        words = []
        for q, unit in enumerate(self.outputs):
            m.submodules[f"output{q}"] = unit
            m.d.comb += [unit.i_valid.eq(cell.state_valid), unit.i_value.eq(cell.state[q])]
            words.append(Value.cast(unit.o_value))
        m.d.comb += [queue.i.valid.eq(self.outputs[0].o_valid), Value.cast(queue.i.payload).eq(Cat(*words))]
        link(m, queue.o, wiring.flipped(self.o))


class LoopModel:
    """Steps of a `RecurrentStage` with these parts."""

    def __init__(self, shape: RecurrentShape, array: MatrixArray, rescalers: Sequence[Rescaler],
                 outputs: Sequence[Rescaler], tables: Sequence[IntArray], initial: IntArray):
        self.shape, self.array = shape, array
        self.rescalers, self.outputs = rescalers, outputs
        self.tables, self.initial = tables, initial
        self.state, self.cell = initial[0], initial[-1]

    def beats(self, frames: IntArray) -> IntArray:
        """The beats of `RecurrentStage.model`."""
        beats = []
        for frame in frames.reshape(-1, self.shape.steps, len(self.shape.gates), self.shape.hidden):
            if not self.shape.streaming:
                self.state, self.cell = self.initial[0], self.initial[-1]
            for sums in frame:
                self.step(sums)
                beats.append(self.outputs[0].model(self.state).reshape(-1, self.shape.lanes))
        return np.concatenate(beats) if beats else np.zeros((0, self.shape.lanes), np.int64)

    def product(self, operand: IntArray) -> IntArray:
        """Gate sums [gates, hidden] of the product with a state."""
        tiles = len(self.shape.gates) * self.shape.blocks
        words = np.broadcast_to(operand.reshape(1, self.shape.words, -1), (tiles, self.shape.words, self.shape.cols))
        sums = self.array.model(words)
        lanes = [unit.model(sums[:, q]) for q, unit in enumerate(self.rescalers)]
        return np.stack(lanes, axis=1).reshape(-1, self.shape.hidden)

    def step(self, x: IntArray) -> None:
        own = self.product(self.state)
        {"rnn": self.rnn, "gru": self.gru, "lstm": self.lstm}[self.shape.cell](x, own)

    def index(self, values: IntArray, drop: int, bits: int) -> IntArray:
        half = 1 << (bits - 1)
        return np.clip(divided(values, drop), -half, half - 1) + half

    def looked_up(self, sums: IntArray, table: int) -> IntArray:
        values: IntArray = self.tables[table][self.index(sums, self.shape.table.drop, self.shape.table.index_bits)]
        return values

    def rnn(self, x: IntArray, own: IntArray) -> None:
        self.state = self.looked_up(x[0] + own[0], 0)

    def gru(self, x: IntArray, own: IntArray) -> None:
        shape = self.shape
        r, z = (self.looked_up(x[k] + own[k], 0) for k in (0, 1))
        if shape.reset_after:
            last = divided(r * own[2], ONE_FRACTION)
        else:
            last = self.product(limited(divided(r * self.state, ONE_FRACTION), shape.state))[2]
        n = self.looked_up(x[2] + last, 1)
        self.state = limited(n + divided(z * (self.state - n), ONE_FRACTION), shape.state)

    def lstm(self, x: IntArray, own: IntArray) -> None:
        shape = self.shape
        i, f, o = (self.looked_up(x[k] + own[k], 0) for k in (0, 1, 3))
        candidate = self.looked_up(x[2] + own[2], 1)
        total = (f * self.cell << max(0, shape.memory.finer)) + (i * candidate << max(0, -shape.memory.finer))
        self.cell = limited(divided(total, ONE_FRACTION + max(0, shape.memory.finer)), shape.memory.format)
        shown = self.tables[2][self.index(self.cell, shape.memory.drop, shape.memory.index_bits)]
        self.state = limited(divided(o * shown, ONE_FRACTION), shape.state)


def divided(values: IntArray, bits: int) -> IntArray:
    """values / 2**bits, rounded half to even."""
    return RequantizerRounding.HALF_EVEN.of_quotient(values, np.asarray(bits, np.int64))


def limited(values: IntArray, shape: Shape) -> IntArray:
    half = 1 << (shape.width - 1)
    return np.clip(values, -half, half - 1)
