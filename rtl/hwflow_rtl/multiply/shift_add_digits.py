"""A multiplier in tables and carry chains that takes its factor two bits at a time: half the steps of `ShiftAdd`.

For families with slow clocks, where a digit has the time to go to all bits of an addition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed

from ..vendor.base import Resources
from .shift_add import ShiftAdd, State, assign, latency, registers

__all__ = ["DigitShiftAdd"]

#: Bits of the factor in a digit.
DIGIT_BITS = 2


@dataclass(frozen=True)
class DigitState(State):
    """The lowest digit of `factor` is coded already (`coded`), and `carry` counts in the next."""

    carry: Value


class DigitShiftAdd(ShiftAdd):
    """As `ShiftAdd`, with the same parameters and ports: a step is an addition of value * digit and a shift.

    A digit is 0, 1, -2 or -1, coded 0 to 3, and its 2 or 3 is made by the next, which is one more (a recoding as
    Booth's, Q. J. Mech. Appl. Math. 4, 1951, with one digit fewer to choose from): a table of four inputs makes each
    bit of value * digit.
    """

    def __init__(self, *, value: Shape, factor_bits: int, drop: int, interval: int, tag_bits: int = 0, ones: int = 0,
                 zeros: int = 0):
        super().__init__(value=value, factor_bits=factor_bits, drop=drop, interval=interval, tag_bits=tag_bits,
                         ones=ones, zeros=zeros)
        self.segments = self.split(factor_bits, interval)
        self.digits = known_digits(factor_bits, ones, zeros, sum(self.segments))

    @staticmethod
    def latency_for(factor_bits: int, interval: int) -> int:
        """The latency of a unit with these parameters."""
        return latency(DigitShiftAdd.split(factor_bits, interval))

    @staticmethod
    def split(factor_bits: int, interval: int) -> list[int]:
        """Steps of each segment, as `ShiftAdd.split`.

        The highest digit takes what the one below it makes of a 2 or a 3; it is no more than that carry.
        """
        return ShiftAdd.split(-(-factor_bits // DIGIT_BITS) + (factor_bits > 1), interval)

    @staticmethod
    def cost(*, value: Shape, factor_bits: int, drop: int, interval: int, tag_bits: int = 0, ones: int = 0,
             zeros: int = 0) -> Resources:
        """Estimate: a table and an adder a bit, and the registers that carry value and factor along."""
        width, segments = value.width, DigitShiftAdd.split(factor_bits, interval)
        bits = DIGIT_BITS * sum(segments)
        kept, left = bits - min(drop, factor_bits), bits
        digits = known_digits(factor_bits, ones, zeros, sum(segments))
        total = Resources()
        for number, steps in enumerate(segments):
            loop, place = steps > 1, (bits - left) // DIGIT_BITS
            gate = 0 if digits and not loop else width + 2
            adder = 0 if digits and not loop and digits[place] == 0 else width + 3
            left -= 0 if loop else DIGIT_BITS
            carried = 0 if digits and not loop else left + 1
            control = 2 * steps.bit_length() + 2 if loop else 0
            load = (carried + 3 + (width + kept if number else 0)) if loop else 3
            total += Resources(lut=adder + gate + load + control,
                               ff=2 * width + carried + kept + tag_bits + 2 + control)
            left -= DIGIT_BITS * steps if loop else 0
        return total

    def elaborate(self, platform):
        m = Module()
        zero, bits = Const(0, signed(self.value.width)), DIGIT_BITS * sum(self.segments)
        factor = Cat(self.i_factor, Const(0, bits))[:bits]
        state = DigitState(self.i_valid, self.i_value, factor, zero, Const(0, bits - self.dropped), Const(0, 1),
                           self.i_tag, factor[1])
        place = 0
        for number, steps in enumerate(self.segments):
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
        after = registers(step(state, total), suffix)
        valid = Signal(name=f"valid{suffix}")
        m.d.sync += [valid.eq(state.valid), *assign(after, step(state, total))]
        return replace(after, valid=valid)

    def loop(self, m: Module, state: DigitState, steps: int, suffix: str) -> DigitState:
        """`steps` digits of the factor, one a cycle, after a cycle that loads."""
        held = registers(state, suffix)
        left = Signal(Shape.cast(range(-1, steps)), init=-1, name=f"left{suffix}")
        done = Signal(name=f"done{suffix}")
        m.d.sync += done.eq(left == 0)
        # It goes on when nothing is left to do, for nobody looks: registers without an enable share tiles.
        m.d.sync += assign(held, step(held, added(held)))
        with m.If(state.valid):
            m.d.sync += [left.eq(steps - 1), *assign(held, state)]
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return replace(held, valid=done, factor=held.factor[:max(0, len(held.factor) - DIGIT_BITS * steps)])


def known_digits(factor_bits: int, ones: int, zeros: int, count: int) -> list[int] | None:
    """The digits of a factor that is always the same, else None."""
    return digits_of(ones, count) if ones | zeros == (1 << factor_bits) - 1 else None


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


def step(state: DigitState, total: Value) -> DigitState:
    """The digit is done: two bits of `total` are final.  What is left of it has as many bits as the value."""
    out, rest = Cat(state.kept, total[:DIGIT_BITS]), state.factor[DIGIT_BITS:]
    code, carry = coded(rest[:DIGIT_BITS], state.carry)
    fallen = out[:DIGIT_BITS].any()
    return replace(state, total=total[DIGIT_BITS:DIGIT_BITS + len(state.value)].as_signed(), kept=out[DIGIT_BITS:],
                   sticky=state.sticky | fallen, factor=Cat(code, rest[DIGIT_BITS:]), carry=carry)
