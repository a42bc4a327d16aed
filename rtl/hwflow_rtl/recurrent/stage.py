"""The stage of a recurrent layer: a matrix product in a loop, with the pipeline of a cell behind its results.

    i ─▶ Queue ──────────────────────────────┐
         LoopOperand ─▶ MatrixArray ─▶ Requantizers ─▶ Cell ─▶ Requantizers ─▶ Queue ─▶ o
              ▲──────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..matrix.array import MatrixArray
from ..rescale.requantizer import RequantizerConstants
from ..rescale.rescaler import RescalerConstants
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link, stream_of
from ..stream.times import StageTimes, Times
from ..vendor.base import Resources, Technology
from .cells import cell_of
from .costs import cell_cost
from .memories import LoopOperand
from .model import LoopModel
from .sequencer import LoopSequencer
from .shape import RecurrentShape
from .timing import LoopPace
from .walk import LoopWalk

IntArray = npt.NDArray[np.int64]


class RecurrentStage(wiring.Component):
    """The steps of a recurrent layer, whose hidden states are the operand of the next step's product.

    Parameters
    ----------
    shape
        The layer's sizes and its folding.
    weights
        int[gates * hidden, hidden], each a `weight`.
    tables, initial
        As of `Cell`.
    rescaler, output
        Constants that turn sums into gate sums, for all rows; and hidden states into elements, one for all units.
    pace
        `LoopPace`, no less than the family needs.
    technology, name
        `name` begins the names of the ROMs and is unique in the design.

    Ports: `i`, gate sums of the input, `lanes` units of a gate in a beat, those of all gates for each step; `o`,
    `lanes` units of a step; `busy`, high while the multipliers compute a word.

    Initiation interval: exactly `pace.cycles(shape)` from frame to frame, if source and reader never stall the stage.
    The states of a stage that streams begin anew with the core's reset alone.
    """

    def __init__(self, *, shape: RecurrentShape, weights: IntArray, tables: Sequence[IntArray], initial: IntArray,
                 rescaler: RescalerConstants, output: RequantizerConstants, pace: LoopPace, technology: Technology,
                 name: str):
        self.shape, self.pace = shape, pace
        self.tables, self.initial = [np.asarray(table, np.int64) for table in tables], np.asarray(initial, np.int64)
        self.technology, self.name = technology, name
        self.walk = LoopWalk.of(shape, pace, rescaler, output, technology)
        needed = LoopPace.of(shape, [self.walk.timing])
        if needed.block > pace.block or needed.step > pace.step or needed.reset > pace.reset:
            raise ValueError(f"pace of '{name}' must be at least {needed} on {technology.name}, not {pace}")
        matrix = shape.matrix
        self.array = MatrixArray(shape=matrix, weights=np.asarray(weights).reshape(len(weights), 1, 1, -1),
                                 technology=technology, name=name)
        self.rescalers = [
            rescaler.of_lane(q, shape.lanes).unit(
                accumulator=shape.accumulator, output=shape.sum, interval=matrix.drain_interval, technology=technology,
                name=f"{name}_requantizer{q}")
            for q in range(shape.lanes)]
        self.outputs = [
            output.unit(accumulator=shape.state, output=shape.output, interval=matrix.drain_interval,
                        technology=technology, name=f"{name}_output{q}")
            for q in range(shape.lanes)]
        super().__init__({
            "i": In(stream_of(shape.sum, shape.lanes)), "o": Out(stream_of(shape.output, shape.lanes)),
            "busy": Out(1)})

    @staticmethod
    def times(arrivals: Times, *, shape: RecurrentShape, rescaler: RescalerConstants, output: RequantizerConstants,
              pace: LoopPace, technology: Technology, left: Times | None = None) -> StageTimes:
        """When beats are taken and results given, for beats that come as `arrivals` says; `left`: see `with_room`."""
        return LoopWalk.of(shape, pace, rescaler, output, technology).times(arrivals, left)

    @staticmethod
    def cost(*, shape: RecurrentShape, zero: bool, rescaler: RescalerConstants, output: RequantizerConstants,
             pace: LoopPace, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated.  `zero`: all initial states are."""
        walk, lanes, width = LoopWalk.of(shape, pace, rescaler, output, technology), shape.lanes, shape.sum.width
        interval = shape.matrix.drain_interval
        rescalers = rescaler.lane_units(lanes, accumulator=shape.accumulator, output=shape.sum, interval=interval,
                                        technology=technology).cost
        outputs = output.cost(
            accumulator=shape.state, output=shape.output, interval=interval, technology=technology)
        operand = LoopOperand.cost(
            width=shape.state.width, lanes=lanes, cols=shape.cols, words=shape.words, banks=2 + shape.reset_before,
            zero=zero, technology=technology)
        queues = (Queue.cost(width=width * lanes, depth=walk.waiting, technology=technology)
                  + Queue.cost(width=shape.output.width * lanes, depth=walk.results, technology=technology))
        credit = CreditCounter.cost(words=Queue.capacity_of(walk.results), take=shape.matrix.drain)
        return (MatrixArray.cost(shape.matrix, technology) + rescalers + outputs.copies(lanes) + operand + queues
                + credit + LoopSequencer.cost(shape, pace, Queue.capacity_of(walk.waiting))
                + cell_cost(shape, walk.timing, zero, technology))

    def model(self, frames: IntArray) -> IntArray:
        """[n, 1, steps, gates * hidden] as they are on `i` to the beats of `o`, [beats, lanes]."""
        loop = LoopModel(self.shape, self.array, self.rescalers, self.outputs, self.tables, self.initial)
        return loop.beats(np.asarray(frames, np.int64))

    def elaborate(self, platform):
        m = Module()
        shape, technology, walk = self.shape, self.technology, self.walk
        m.submodules.waiting = waiting = Queue(
            shape=data.ArrayLayout(shape.sum, shape.lanes), depth=walk.waiting, technology=technology)
        m.submodules.sequencer = sequencer = LoopSequencer(
            shape=shape, pace=self.pace, waiting=waiting.capacity)
        m.submodules.operand = operand = LoopOperand(
            element=shape.state, lanes=shape.lanes, cols=shape.cols, banks=2 + shape.reset_before,
            contents=self.initial[0].reshape(-1, shape.cols), technology=technology, name=self.name)
        m.submodules.array = array = self.array
        m.submodules.cell = cell = cell_of(
            shape, tables=self.tables, initial=self.initial, timing=walk.timing, technology=technology, name=self.name)
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
        kept = cell.kept if self.shape.reset_before else 0
        m.d.comb += [operand.write.eq(cell.state_valid | kept), operand.write_data.eq(Value.cast(cell.state))]
        if self.shape.reset_before:
            m.d.comb += operand.write_bank.eq(Cat(turn & ~cell.kept, cell.kept))
        else:
            m.d.comb += operand.write_bank.eq(turn)
        with m.If(operand.last & cell.state_valid):
            m.d.sync += turn.eq(~turn)

    def leave(self, m: Module, cell: wiring.Component, sequencer: LoopSequencer) -> None:
        """Hidden states as elements, through a queue that has room for them."""
        shape, walk = self.shape, self.walk
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


