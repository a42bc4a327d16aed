"""Nested loops whose numbers of iterations change from step to step."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value

__all__ = ["Loops"]


class Loops:
    """Counters of nested loops, innermost first.  Each counts from its reload value, iterations less two, down to -1.

    `last[name]`: the loop is in its last iteration.  `moves[name]`: with an advance, the loop begins its next iteration
    and those inside it begin anew; none moves at the end of all.  `ending[name]`: this loop and all loops inside it
    are in their last iterations.
    """

    def __init__(self, m: Module, reloads: Mapping[str, Value], name: str):
        self.m = m
        self.reloads = dict(reloads)
        self.left: dict[str, Value] = {}
        for loop, reload in reloads.items():
            width = reload.shape().width + (not reload.shape().signed)
            if isinstance(reload, Const) and reload.value == -1:
                self.left[loop] = Const(-1, Shape(1, signed=True))
            else:
                self.left[loop] = Signal(Shape(width, signed=True), name=f"{name}_{loop}")
        self.last: dict[str, Value] = {loop: left[-1] for loop, left in self.left.items()}
        self.moves: dict[str, Value] = {}
        self.ending: dict[str, Value] = {}
        inside: Value = Const(1, 1)
        for loop in reloads:
            self.moves[loop] = inside & ~self.last[loop]
            inside = inside & self.last[loop]
            self.ending[loop] = inside

    @property
    def done(self) -> Value:
        """All loops are in their last iterations."""
        return self.ending[next(reversed(self.ending))]

    def run(self, *, load: Value, advance: Value) -> None:
        """`load` begins all loops; `advance` takes a step of the innermost."""
        inside: Value = Const(1, 1)
        for loop, left in self.left.items():
            if isinstance(left, Signal):
                with self.m.If(load | (advance & inside)):
                    self.m.d.sync += left.eq(Mux(load | self.last[loop], self.reloads[loop], left - 1))
            inside = inside & self.last[loop]

    def jump(self, steps: Mapping[str, Value]) -> Value:
        """The one of `steps`, by loop, that belongs to the loop that moves; 0 where it is not there."""
        chosen: Value = Const(0, 1)
        for loop in reversed(list(self.left)):
            if isinstance(self.left[loop], Const):
                continue
            chosen = Mux(self.moves[loop], steps.get(loop, Const(0, 1)), chosen)
        return chosen
