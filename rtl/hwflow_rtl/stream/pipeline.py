"""Small parts of pipelines: a delay line, and nested loops that count down to their sign bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value

from ..vendor.base import Resources, Technology


def adder_luts(width: int, technology: Technology) -> int:
    """Logic cells of a routed adder whose result has `width` bits."""
    return width + width % 2 + technology.chain_ends


def flip_flops(count: int, alone: int, technology: Technology | None) -> Resources:
    """`count` flip-flops, of which `alone` have no table before them: a register or a block drives them.

    If a table and a flip-flop share a logic cell, those alone take a cell each, and the others none.  For units that do
    not call this function, `Technology.placed` assumes a share of all flip-flops.
    """
    shared = 0 if technology is None else technology.placed(Resources(ff=count)).lut
    return Resources(lut=alone - shared if shared else 0, ff=count)


def delay(m: Module, value, cycles: int, name: str, *, reset_less: bool = True):
    """`value`, delayed by `cycles` clock cycles.  Data needs no reset; a valid signal does."""
    for k in range(cycles):
        register = Signal.like(value, name=f"{name}_{k}", reset_less=reset_less)
        m.d.sync += register.eq(value)
        value = register
    return value


def prefetched(m: Module, take: Value, made: Value, words: Sequence[Signal]) -> Signal:
    """The next word of a pipeline that cannot stall.  There is always a word; `take` moves on to the next one.

    `words` are registers whose reset values are the first words.  For each `take` the pipeline makes one more word,
    `made`, len(words) - 1 cycles later; it enters the first free place.
    """
    push = delay(m, take, len(words) - 1, "push", reset_less=False)
    used = Signal(len(words), init=-1)
    with m.If(push & ~take):
        m.d.sync += used.eq(Cat(1, used[:-1]))
    with m.If(take & ~push):
        m.d.sync += used.eq(used[1:])
    for k, word in enumerate(words):
        with m.If(~used[k] | take):
            m.d.sync += word.eq(made)
            if k + 1 < len(words):
                with m.If(used[k + 1]):
                    m.d.sync += word.eq(words[k + 1])
    return words[0]


class Nest:
    """Nested loops, innermost first, `counts` iterations each; the innermost takes a step on `advance()`.

    A loop counts from `count - 2` down to -1, so that its sign bit says "the last iteration" without a comparison.  A
    loop of one iteration has no register.  The loops begin in iteration `ahead` of the whole nest, and begin again
    by themselves.
    """

    def __init__(self, m: Module, counts: Sequence[int], *, ahead: int = 0, name: str):
        self.m = m
        self.counts = tuple(counts)
        self.left: list[Signal | None] = []
        for k, count in enumerate(counts):
            ahead, index = divmod(ahead, count)
            shape = Shape.cast(range(-1, count - 1))
            self.left.append(
                None if count == 1 else Signal(shape, init=count - 2 - index, name=f"{name}{k}"))
        self.last = [Const(1) if left is None else left[-1] for left in self.left]

    @staticmethod
    def bits(counts: Iterable[int]) -> int:
        """Flip-flops of the counters."""
        return sum(Shape.cast(range(-1, count - 1)).width for count in counts if count > 1)

    def advance(self, enable: Value) -> None:
        """Take a step in every cycle with `enable`."""
        running = [k for k, left in enumerate(self.left) if left is not None]
        inner: Value = Const(1)  # all loops inside this one are in their last iterations: a register
        for position, k in enumerate(running):
            left = self.left[k]
            assert left is not None
            with self.m.If(enable & inner):
                self.m.d.sync += left.eq(Mux(self.last[k], self.counts[k] - 2, left - 1))
            if position + 1 < len(running):
                inner = self.last[k] if position == 0 else self.ending(running[:position + 1], enable)

    def ending(self, loops: Sequence[int], enable: Value) -> Signal:
        """A register that says that these loops, innermost first, are in their last iterations.

        The step with which the innermost comes to its last iteration leaves the others where they are.
        """
        innermost, others = self.left[loops[0]], [self.last[k] for k in loops[1:]]
        assert innermost is not None
        all_last = Signal(init=all(left.init == -1 for k in loops if (left := self.left[k]) is not None),
                          name=f"{innermost.name}_to_{loops[-1]}")
        with self.m.If(enable):
            self.m.d.sync += all_last.eq((innermost == 0) & Cat(*others).all())
        return all_last

    def at(self, loop: int, indices: Iterable[int]) -> Value:
        """Whether the iteration of `loop` is one of `indices`."""
        count, left = self.counts[loop], self.left[loop]
        if left is None:
            return Const(0 in set(indices), 1)
        return left.matches(*(count - 2 - index for index in indices))
