"""A multiplier in tables and carry chains; the interval of values decides how many bits of a factor a cycle takes.

`ShiftAdd` takes a bit at a time, `DigitShiftAdd` two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..vendor.base import Resources

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


@dataclass(frozen=True, kw_only=True)
class ShiftAddShape:
    """The factor is taken bit by bit, lowest first: a gated addition, a shift to the right.

    Bits that fall out below `drop` leave nothing but `o_sticky`.  The bits are shared out over segments; a segment of
    one step is a pipeline stage, a longer one loads and then takes a step a cycle.  There are as many segments as
    `interval` makes necessary.

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
    """

    value: Shape
    factor_bits: int
    drop: int
    interval: int
    tag_bits: int = 0
    ones: int = 0
    zeros: int = 0

    @property
    def steps(self) -> int:
        """Steps of all segments."""
        return self.factor_bits

    @property
    def segments(self) -> list[int]:
        """Steps of each, as even as can be: n steps keep a loop busy for n + 1 cycles, a stage for one."""
        longest = max(1, self.interval - 1)
        count = -(-self.steps // longest)
        return [self.steps // count + (k < self.steps % count) for k in range(count)]

    @property
    def latency(self) -> int:
        return sum(n if n == 1 else n + 1 for n in self.segments)

    @property
    def dropped(self) -> int:
        return min(self.drop, self.factor_bits)

    @property
    def ports(self) -> dict[str, Any]:
        return {
            "i_valid": In(1), "i_value": In(self.value), "i_factor": In(unsigned(self.factor_bits)),
            "i_tag": In(self.tag_bits), "o_valid": Out(1),
            "o_product": Out(signed(self.value.width + self.factor_bits - self.dropped)), "o_sticky": Out(1),
            "o_tag": Out(self.tag_bits)}

    def cost(self) -> Resources:
        """Estimate: a gate and an adder a bit, and the registers that carry value and factor along."""
        width, kept = self.value.width, self.factor_bits - self.dropped
        total, left = Resources(), self.factor_bits
        for steps in self.segments:
            place = 1 << (self.factor_bits - left)
            adder = 0 if steps == 1 and self.zeros & place else width
            gate = 0 if steps == 1 and (self.zeros | self.ones) & place else width
            left -= steps if steps == 1 else 0
            control = 0 if steps == 1 else 2 * steps.bit_length() + 2
            load = 0 if steps == 1 else left + (width + kept if left < self.factor_bits else 0)
            total += Resources(lut=adder + gate + load + control,
                               ff=2 * width + left + kept + self.tag_bits + 2 + control)
            left -= steps if steps > 1 else 0
        return total

    def build(self) -> wiring.Component:
        return ShiftAdd(shape=self)


class ShiftAdd(wiring.Component):
    """`o_product` = floor(i_value * i_factor / 2**dropped); `o_sticky` says whether the dropped bits held a one.

    Latency `ShiftAddShape.latency`, constant; no back-pressure.
    """

    def __init__(self, *, shape: ShiftAddShape):
        self.shape = shape
        super().__init__(shape.ports)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        zero = Const(0, signed(shape.value.width))
        state = State(self.i_valid, self.i_value, self.i_factor, zero, Const(0, shape.factor_bits - shape.dropped),
                       Const(0, 1), self.i_tag)
        place = 0
        for number, steps in enumerate(shape.segments):
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
        if self.shape.ones & place:
            total = added
        elif not self.shape.zeros & place:  # selected after the carries: the factor's bit has a large fanout
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


# A multiplier in tables and carry chains that takes its factor two bits at a time: half the steps of `ShiftAdd`.
#
# For families with slow clocks, where a digit has the time to go to all bits of an addition.


#: Bits of the factor in a digit.
DIGIT_BITS = 2


@dataclass(frozen=True)
class DigitState(State):
    """The lowest digit of `factor` is coded already (`coded`), and `carry` counts in the next."""

    carry: Value


@dataclass(frozen=True, kw_only=True)
class DigitShiftAddShape(ShiftAddShape):
    """A step is an addition of value * digit and a shift.

    A digit is 0, 1, -2 or -1, coded 0 to 3, and its 2 or 3 is made by the next, which is one more (a recoding as
    Booth's, Q. J. Mech. Appl. Math. 4, 1951, with one digit fewer to choose from): a table of four inputs makes each
    bit of value * digit.  The highest digit takes what the one below it makes of a 2 or a 3; it is no more than that
    carry.
    """

    @property
    def steps(self) -> int:
        return -(-self.factor_bits // DIGIT_BITS) + (self.factor_bits > 1)

    @property
    def digits(self) -> list[int] | None:
        """The digits of a factor that is always the same, else None."""
        if self.ones | self.zeros != (1 << self.factor_bits) - 1:
            return None
        return digits_of(self.ones, self.steps)

    def cost(self) -> Resources:
        """Estimate: a table and an adder a bit, and the registers that carry value and factor along."""
        width, bits, digits = self.value.width, DIGIT_BITS * self.steps, self.digits
        kept, left = bits - self.dropped, bits
        total = Resources()
        for number, steps in enumerate(self.segments):
            loop, place = steps > 1, (bits - left) // DIGIT_BITS
            gate = 0 if digits and not loop else width + 2
            adder = 0 if digits and not loop and digits[place] == 0 else width + 3
            left -= 0 if loop else DIGIT_BITS
            carried = 0 if digits and not loop else left + 1
            control = 2 * steps.bit_length() + 2 if loop else 0
            load = (carried + 3 + (width + kept if number else 0)) if loop else 3
            total += Resources(lut=adder + gate + load + control,
                               ff=2 * width + carried + kept + self.tag_bits + 2 + control)
            left -= DIGIT_BITS * steps if loop else 0
        return total

    def build(self) -> wiring.Component:
        return DigitShiftAdd(shape=self)


class DigitShiftAdd(ShiftAdd):
    """A `ShiftAdd` by digits, with the same ports."""

    def __init__(self, *, shape: DigitShiftAddShape):
        super().__init__(shape=shape)
        self.digits = shape.digits

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        zero, bits = Const(0, signed(shape.value.width)), DIGIT_BITS * shape.steps
        factor = Cat(self.i_factor, Const(0, bits))[:bits]
        state = DigitState(self.i_valid, self.i_value, factor, zero, Const(0, bits - shape.dropped), Const(0, 1),
                           self.i_tag, factor[1])
        place = 0
        for number, steps in enumerate(shape.segments):
            if steps == 1:
                state = self.stage(m, state, place, f"_{number}")
            else:
                state = self.loop(m, state, steps, f"_{number}")
            place += steps
        m.d.comb += [
            self.o_valid.eq(state.valid), self.o_product.eq(Cat(state.kept, state.total).as_signed()),
            self.o_sticky.eq(state.sticky), self.o_tag.eq(state.tag),
        ]
        return m

    def stage(self, m: Module, state: DigitState, place: int, suffix: str) -> DigitState:
        """One digit of the factor in one pipeline stage."""
        total = added(state) if self.digits is None else plus(state, self.digits[place])
        after = registers(digit_step(state, total), suffix)
        valid = Signal(name=f"valid{suffix}")
        m.d.sync += [valid.eq(state.valid), *assign(after, digit_step(state, total))]
        return replace(after, valid=valid)

    def loop(self, m: Module, state: DigitState, steps: int, suffix: str) -> DigitState:
        """`steps` digits of the factor, one a cycle, after a cycle that loads."""
        held = registers(state, suffix)
        left = Signal(Shape.cast(range(-1, steps)), init=-1, name=f"left{suffix}")
        done = Signal(name=f"done{suffix}")
        m.d.sync += done.eq(left == 0)
        # It goes on when nothing is left to do, for nobody looks: registers without an enable share tiles.
        m.d.sync += assign(held, digit_step(held, added(held)))
        with m.If(state.valid):
            m.d.sync += [left.eq(steps - 1), *assign(held, state)]
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return replace(held, valid=done, factor=held.factor[:max(0, len(held.factor) - DIGIT_BITS * steps)])


def digits_of(factor: int, count: int) -> list[int]:
    """factor = sum of digit[k] * 4**k, each -2, -1, 0 or 1."""
    digits = []
    for _ in range(count):
        digits.append((factor + 2) % 4 - 2)
        factor = (factor - digits[-1]) >> DIGIT_BITS
    assert factor == 0, "the highest digit takes the last carry"
    return digits


def coded(digit: Value, carry: Value) -> tuple[Value, Value]:
    """The code of a digit of two bits and the carry into it, and the carry into the next."""
    if not len(digit):
        return digit, Const(0, 1)
    both = digit[0] & carry
    return Cat(digit[0] ^ carry, digit[1] ^ both), digit[1] | both


def added(state: DigitState) -> Value:
    """total + value * digit."""
    one, minus = state.factor[0], state.factor[1]
    width = len(state.value) + 2
    plain = [state.value[min(k, len(state.value) - 1)] for k in range(width)]
    twice = [Const(0, 1), *plain[:-1]]
    bits = [Mux(minus, ~Mux(one, a, b), a & one) for a, b in zip(plain, twice, strict=True)]
    # One carry chain: the lowest bit of both operands makes the carry.
    return ((Cat(1, state.total).as_signed() + Cat(minus, *bits).as_signed()) >> 1)[:width].as_signed()


def plus(state: DigitState, digit: int) -> Value:
    """total + value * digit, a digit that is known, as wide as `added`."""
    total = state.total
    if digit < 0:
        total = total - (state.value if digit == -1 else state.value << 1)
    elif digit:
        total = total + state.value
    width = len(state.value) + 2
    return Cat(total, total[-1].replicate(max(0, width - len(total))))[:width].as_signed()


def digit_step(state: DigitState, total: Value) -> DigitState:
    """The digit is done: two bits of `total` are final.  What is left of it has as many bits as the value."""
    out, rest = Cat(state.kept, total[:DIGIT_BITS]), state.factor[DIGIT_BITS:]
    code, carry = coded(rest[:DIGIT_BITS], state.carry)
    fallen = out[:DIGIT_BITS].any()
    return replace(state, total=total[DIGIT_BITS:DIGIT_BITS + len(state.value)].as_signed(), kept=out[DIGIT_BITS:],
                   sticky=state.sticky | fallen, factor=Cat(code, rest[DIGIT_BITS:]), carry=carry)
