"""Iterations that compute one number of a row: bits of a quotient or a root, one a cycle, as fast as rows come.

A chain has so many segments that a row can enter every `interval` cycles; each does some of the iterations.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from amaranth.hdl import Module, Mux, Signal, Value
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..stream.pipeline import delay
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted


class Iteration(ABC):
    """One step of a recurrence that needs no index."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Steps in all."""

    @property
    @abstractmethod
    def state(self) -> data.StructLayout:
        """The layout of what a step takes and gives."""

    @abstractmethod
    def step(self, m: Module, state: data.View, name: str) -> dict[str, Value]:
        """The fields that change."""

    @abstractmethod
    def step_cost(self, technology: Technology) -> Resources:
        """LUT of a step, estimated, without what chooses between a new row and the one that is there."""


@dataclass(frozen=True)
class ChainShape:
    """`iteration.count` steps, one a cycle; a row may enter every `interval` cycles."""

    iteration: Iteration
    interval: int

    @property
    def parts(self) -> list[int]:
        """Steps of each segment, as even as can be."""
        count = self.iteration.count
        segments = -(-count // self.interval)
        return [count // segments + (k < count % segments) for k in range(segments)] if count else []

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated."""
        total, width = Resources(), self.iteration.state.size
        for steps in self.parts:
            total += self.iteration.step_cost(technology) + Resources(lut=width if steps > 1 else 0, ff=width + steps)
            total += fitted("Chain")
        return total

    def build(self) -> Chain:
        return Chain(shape=self)


class Chain(wiring.Component):
    """The steps of `shape`.

    Ports
    -----
    i_valid, i_state
        A row enters.
    o_valid, o_state
        It leaves, `iteration.count` cycles later.
    """

    def __init__(self, *, shape: ChainShape):
        self.iteration, self.parts = shape.iteration, shape.parts
        state = self.iteration.state
        super().__init__({"i_valid": In(1), "i_state": In(state), "o_valid": Out(1), "o_state": Out(state)})

    def elaborate(self, platform):
        m = Module()
        valid, state = self.i_valid, self.i_state
        for n, steps in enumerate(self.parts):
            held = Signal(self.iteration.state, name=f"state{n}", reset_less=True)
            before = held
            if steps > 1:
                before = Signal(self.iteration.state, name=f"before{n}")
                m.d.comb += Value.cast(before).eq(Mux(valid, Value.cast(state), Value.cast(held)))
            else:
                before = state
            made = self.iteration.step(m, before, f"segment{n}")
            for field in self.iteration.state.members:
                m.d.sync += held[field].eq(made.get(field, before[field]))
            valid, state = delay(m, valid, steps, f"valid{n}", reset_less=False), held
        m.d.comb += [self.o_valid.eq(valid), Value.cast(self.o_state).eq(Value.cast(state))]
        return m
