"""A multiplier in tables and carry chains; the interval of values decides how many bits of a factor a cycle takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import TypeVar

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources

__all__ = ["ShiftAdd", "State", "assign", "latency", "registers"]

Kind = TypeVar("Kind", bound="State")


@dataclass(frozen=True)
class State:
    """The registers between segments: value * (bits of the factor so far) = Cat(dropped, kept, total)."""

    valid: Value
    value: Value
    factor: Value
    total: Value
    kept: Value
    sticky: Value
    tag: Value

    def data(self) -> dict[str, Value]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.name != "valid"}


class ShiftAdd(wiring.Component):
    """`o_product` = floor(i_value * i_factor / 2**dropped); `o_sticky` says whether the dropped bits held a one.

    The factor is taken bit by bit, lowest first: a gated addition, a shift to the right.  Bits that fall out below
    `drop` leave nothing but `o_sticky`.  The bits are shared out over segments; a segment of one step is a pipeline
    stage, a longer one loads and then takes a step a cycle.  There are as many segments as `interval` makes necessary.

    Parameters
    ----------
    value
        Signed shape of `i_value`.
    factor_bits
        Width of `i_factor`, which is unsigned.
    drop
        Low bits of the product that are not needed.
    interval
        Least cycles from one `i_valid` to the next.
    tag_bits
        Width of `i_tag`, which comes out as `o_tag` with its product.
    ones, zeros
        Masks of the bits that are set, or clear, in every factor: they need no gate, or no adder.

    Latency `latency`, constant; no back-pressure.
    """

    def __init__(self, *, value: Shape, factor_bits: int, drop: int, interval: int, tag_bits: int = 0, ones: int = 0,
                 zeros: int = 0):
        self.value = value
        self.factor_bits = factor_bits
        self.dropped = min(drop, factor_bits)
        self.segments = self.split(factor_bits, interval)
        self.ones = ones
        self.zeros = zeros
        super().__init__({
            "i_valid": In(1), "i_value": In(value), "i_factor": In(unsigned(factor_bits)), "i_tag": In(tag_bits),
            "o_valid": Out(1), "o_product": Out(signed(value.width + factor_bits - self.dropped)),
            "o_sticky": Out(1), "o_tag": Out(tag_bits),
        })

    @property
    def latency(self) -> int:
        return latency(self.segments)

    @staticmethod
    def latency_for(factor_bits: int, interval: int) -> int:
        """The latency of a unit with these parameters."""
        return latency(ShiftAdd.split(factor_bits, interval))

    @staticmethod
    def split(factor_bits: int, interval: int) -> list[int]:
        """Steps of each segment, as even as can be: n steps keep a loop busy for n + 1 cycles, a stage for one."""
        longest = max(1, interval - 1)
        count = -(-factor_bits // longest)
        return [factor_bits // count + (k < factor_bits % count) for k in range(count)]

    @staticmethod
    def cost(*, value: Shape, factor_bits: int, drop: int, interval: int, tag_bits: int = 0, ones: int = 0,
             zeros: int = 0) -> Resources:
        """Estimate: a gate and an adder a bit, and the registers that carry value and factor along."""
        width, kept = value.width, factor_bits - min(drop, factor_bits)
        total, left = Resources(), factor_bits
        for steps in ShiftAdd.split(factor_bits, interval):
            place = 1 << (factor_bits - left)
            adder = 0 if steps == 1 and zeros & place else width
            gate = 0 if steps == 1 and (zeros | ones) & place else width
            left -= steps if steps == 1 else 0
            control = 0 if steps == 1 else 2 * steps.bit_length() + 2
            load = 0 if steps == 1 else left + (width + kept if left < factor_bits else 0)
            total += Resources(lut=adder + gate + load + control, ff=2 * width + left + kept + tag_bits + 2 + control)
            left -= steps if steps > 1 else 0
        return total

    def elaborate(self, platform):
        m = Module()
        zero = Const(0, signed(self.value.width))
        state = State(self.i_valid, self.i_value, self.i_factor, zero, Const(0, self.factor_bits - self.dropped),
                       Const(0, 1), self.i_tag)
        place = 0
        for number, steps in enumerate(self.segments):
            if steps == 1:
                state = self.stage(m, state, 1 << place, f"_{number}")
            else:
                state = self.loop(m, state, steps, f"_{number}")
            place += steps
        m.d.comb += [
            self.o_valid.eq(state.valid), self.o_product.eq(Cat(state.kept, state.total)),
            self.o_sticky.eq(state.sticky), self.o_tag.eq(state.tag),
        ]
        return m

    def stage(self, m: Module, state: State, place: int, suffix: str) -> State:
        """One bit of the factor in one pipeline stage."""
        total, added = state.total, state.total + state.value
        if self.ones & place:
            total = added
        elif not self.zeros & place:  # selected after the carries: the factor's bit has a large fanout
            total = Mux(state.factor[0], added, total)
        made = step(state, total)
        after = registers(made, suffix)
        valid = Signal(name=f"valid{suffix}")
        m.d.sync += [valid.eq(state.valid), *assign(after, made)]
        return replace(after, valid=valid)

    def loop(self, m: Module, state: State, steps: int, suffix: str) -> State:
        """`steps` bits of the factor, one a cycle, after a cycle that loads."""
        held = registers(state, suffix)
        left = Signal(Shape.cast(range(-1, steps)), init=-1, name=f"left{suffix}")
        done = Signal(name=f"done{suffix}")
        m.d.sync += done.eq(left == 0)
        with m.If(state.valid):
            m.d.sync += [left.eq(steps - 1), *assign(held, state)]
        with m.Elif(~left[-1]):
            total = Mux(held.factor[0], held.total + held.value, held.total)  # after the carries, as in `stage`
            m.d.sync += [left.eq(left - 1), *assign(held, step(held, total))]
        return replace(held, valid=done, factor=held.factor[:max(0, len(held.factor) - steps)])


def latency(steps: Sequence[int]) -> int:
    return sum(n if n == 1 else n + 1 for n in steps)


def step(state: State, total: Value) -> State:
    """One bit of the factor further; `total` has its addition in it."""
    total = Cat(total, total[-1]) if len(total) == len(state.total) else total
    out = Cat(state.kept, total[0])
    return replace(state, total=total[1:1 + len(state.total)].as_signed(), kept=out[1:],
                   sticky=state.sticky | out[0], factor=state.factor[1:])


def registers(state: Kind, suffix: str) -> Kind:
    data = {name: Signal(value.shape(), name=f"{name}{suffix}", reset_less=True)
            for name, value in state.data().items()}
    return replace(state, **data)


def assign(target: State, source: State) -> list:
    return [ours.eq(theirs) for ours, theirs in zip(target.data().values(), source.data().values(), strict=True)]
