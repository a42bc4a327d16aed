"""Parts of pooling stages: the queue after a datapath that cannot stall, and the path of sums to their rescalers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value
from amaranth.lib import data

from ..rescale.rescaler import Rescaler
from ..stream.credit import CreditCounter
from ..stream.pipeline import delay
from ..stream.queue import Queue
from ..stream.streams import link
from ..stream.times import Times, with_room
from ..vendor.base import Resources, Technology


@dataclass(frozen=True)
class Results:
    """The queue after a datapath that cannot stall: `words` a block, a block every `interval` cycles.

    `latency` is the cycles from the start of a block to its last word's entry into the queue.
    """

    words: int
    interval: int
    latency: int
    technology: Technology

    @property
    def depth(self) -> int:
        """A depth with which no block waits if the reader takes every word at once.

        A block's credit returns after the latencies of the block, the queue (2 at most), the register `given` and the
        counter; until then further blocks start.
        """
        return max(2, self.words * (-(-(self.latency + 4) // self.interval) + 1))

    def starts(self, earliest: Times, left: Times | None, decided: int = 0) -> Times:
        """`earliest`, but no block before there is room for its words; `left`: see `with_room`.

        `decided`: cycles from the decision that there is room to the start.
        """
        return with_room(earliest, left, self.depth, back=2 + decided, block=self.words)

    def departures(self, starts: Times, step: int) -> Times:
        """When the words leave whose blocks start at `starts`; those of a block enter the queue `step` cycles apart."""
        last = starts + self.latency + Queue.latency_of(self.depth)
        before = np.arange(1 - self.words, 1) * step
        return (last[:, None] + before).reshape(-1)

    def cost(self, width: int) -> Resources:
        queue = Queue.cost(width=width, depth=self.depth, technology=self.technology)
        return queue + CreditCounter.cost(words=self.depth, take=self.words) + Resources(ff=1)

    def build(self, m: Module, start: Value, valid: Value, word: Value, sink, shape: data.Layout) -> Value:
        """Blocks begin with `start`, and only where the credit that is returned (a register) allows one."""
        m.submodules.queue = queue = Queue(shape=shape, depth=self.depth, technology=self.technology)
        m.submodules.credit = credit = CreditCounter(words=self.depth, take=self.words)
        m.d.comb += [
            credit.taken.eq(start),
            credit.given.eq(delay(m, queue.o.valid & queue.o.ready, 1, "given", reset_less=False)),
            queue.i.valid.eq(valid), Value.cast(queue.i.payload).eq(word),
        ]
        link(m, queue.o, sink)
        return credit.credit


def drain(m: Module, ready: Value, sums: Sequence[Value], parts: int, step: int) -> tuple[Value, list[Value]]:
    """The sums that are there in the cycle of `ready`, in `parts` that leave every `step` cycles.

    Of more than one part the first leaves a cycle after `ready`, which comes parts * step cycles apart at least.
    """
    lanes = len(sums) // parts
    if parts == 1:
        return ready, list(sums)
    rest = [Signal.like(value, name=f"rest{n}", reset_less=True) for n, value in enumerate(sums)]
    pulses = Signal(step * (parts - 1) + 1, name="pulses") if step * parts <= 16 else None
    valid = Signal()
    if pulses is not None:
        mask = sum(1 << (step * part) for part in range(parts))
        m.d.sync += pulses.eq(Mux(ready, mask, pulses >> 1))
        m.d.comb += valid.eq(pulses[0])
    else:
        left = Signal(Shape.cast(range(-1, parts)), init=-1)
        wait = Signal(Shape.cast(range(-1, step)))
        m.d.comb += valid.eq(~left[-1] & wait[-1])
        with m.If(ready):
            m.d.sync += [left.eq(parts - 1), wait.eq(-1)]
        with m.Elif(valid):
            m.d.sync += [left.eq(left - 1), wait.eq(step - 2)]
        with m.Elif(~wait[-1]):
            m.d.sync += wait.eq(wait - 1)
    for n, value in enumerate(rest):
        with m.If(ready):
            m.d.sync += value.eq(sums[n])
        if n + lanes < len(rest):
            with m.Elif(valid):
                m.d.sync += value.eq(rest[n + lanes])
    return valid, rest[:lanes]


def rescaled(m: Module, units: Sequence[Rescaler], valid: Value, values: Sequence[Value]) -> tuple[Value, Value]:
    """One unit for each of `values`; a word of their results leaves when the slowest is done."""
    slowest = max(unit.latency for unit in units)
    words = []
    for k, (unit, value) in enumerate(zip(units, values, strict=True)):
        m.submodules[f"requantizer{k}"] = unit
        m.d.comb += [unit.i_valid.eq(valid), unit.i_value.eq(value)]
        words.append(delay(m, unit.o_value, slowest - unit.latency, f"result{k}"))
    return next(unit.o_valid for unit in units if unit.latency == slowest), Cat(*words)
