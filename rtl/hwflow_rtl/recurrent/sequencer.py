"""Starts the blocks of a loop and reads the words that they multiply."""

from __future__ import annotations

from amaranth.hdl import Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import Nest
from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .shape import RecurrentShape
from .timing import LoopPace


class LoopSequencer(wiring.Component):
    """Blocks in the order of gates and their units, step by step.

    A block starts when its gate sums of the input wait (`arrived` says that one more beat of them does), when the
    states that it multiplies are there, and, for those of the last gate, when there is `credit` for its results.

    Ports
    -----
    start, results
        A block starts, and its results leave the stage.
    busy, word, bank, initial
        Which word a block reads; `initial`: the state in which a sequence begins.  Bank 2 has what r leaves of states.
    first, last
        With `busy`: of the words of a block.

    The first word comes a cycle after `start`.
    """

    def __init__(self, *, shape: RecurrentShape, pace: LoopPace, waiting: int):
        """At most `waiting` beats of gate sums wait."""
        self.shape, self.pace, self.waiting = shape, pace, waiting
        super().__init__({
            "arrived": In(1), "credit": In(1), "start": Out(1), "results": Out(1), "busy": Out(1),
            "word": Out(range(max(2, shape.words))), "bank": Out(range(3 if shape.reset_before else 2)),
            "initial": Out(1), "first": Out(1), "last": Out(1)})

    @staticmethod
    def cost(shape: RecurrentShape, pace: LoopPace, waiting: int) -> Resources:
        """Estimated."""
        counters = (Nest.bits((shape.blocks, len(shape.gates), shape.steps)) + pace.step.bit_length()
                    + pace.reset.bit_length() + waiting.bit_length() + 2 * (shape.words - 1).bit_length())
        return fitted("LoopSequencer", counter_bits=counters)

    def elaborate(self, platform):
        m = Module()
        shape, pace = self.shape, self.pace
        nest = Nest(m, (shape.blocks, len(shape.gates), shape.steps), name="block")
        nest.advance(self.start)
        last_gate = nest.at(1, [len(shape.gates) - 1])
        ends = nest.last[0] & last_gate  # the last block of a step
        anew = ends & nest.last[2] if not shape.streaming else 0
        paced = self.waited(m, self.start, Mux(ends & ~anew if not shape.streaming else ends, pace.step, pace.block),
                            max(pace.step, pace.block), "pace")
        ready = paced & self.sums_there(m) & (self.credit | ~last_gate)
        if shape.reset_before:
            left = self.waited(m, self.start & nest.last[0] & nest.at(1, [0]), pace.reset, pace.reset, "reset")
            ready &= left | ~last_gate
        m.d.comb += [self.start.eq(ready), self.results.eq(self.start & last_gate)]
        self.play(m, nest, ends, anew, last_gate)
        return m

    def waited(self, m: Module, begin: Value, cycles: Value | int, most: int, name: str) -> Value:
        """Whether `cycles` have gone by since `begin`."""
        left = Signal(Shape.cast(range(-1, max(1, most - 1))), init=-1, name=f"{name}_left")
        with m.If(begin):
            m.d.sync += left.eq(cycles - 2)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return left[-1]

    def sums_there(self, m: Module) -> Value:
        """Whether the gate sums of a block wait that no block has been started for."""
        take = self.shape.matrix.drain
        more = Signal(Shape.cast(range(-take, self.waiting - take + 1)), init=-take)
        step = Signal(Shape.cast(range(-take, 2)))
        m.d.comb += step.eq(Mux(self.start, self.arrived - take, self.arrived))
        m.d.sync += more.eq(more + step)
        return ~more[-1]

    def play(self, m: Module, nest: Nest, ends: Value, anew: Value | int, last_gate: Value) -> None:
        """The words of a block."""
        shape = self.shape
        fresh, turn = Signal(init=1, name="fresh"), Signal(name="turn")
        with m.If(self.start & ends):
            m.d.sync += [fresh.eq(anew), turn.eq(~turn)]
        left = Signal(Shape.cast(range(-1, max(1, shape.words - 1))), init=-1)
        with m.If(self.start):
            m.d.sync += [
                self.busy.eq(1), self.first.eq(1), left.eq(shape.words - 2), self.word.eq(0), self.bank.eq(turn),
                self.initial.eq(fresh)]
            if shape.reset_before:  # n reads what r has left
                with m.If(last_gate):
                    m.d.sync += [self.bank.eq(2), self.initial.eq(0)]
        with m.Else():
            m.d.sync += [self.busy.eq(self.busy & ~left[-1]), self.first.eq(0), left.eq(Mux(left[-1], -1, left - 1))]
            with m.If(self.busy & ~left[-1]):
                m.d.sync += self.word.eq(self.word + 1)
        m.d.comb += self.last.eq(self.busy & left[-1])
