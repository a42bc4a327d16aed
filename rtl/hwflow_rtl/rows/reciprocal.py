"""The reciprocal of a row's sum, by division digit by digit; and the reciprocal root of a row's power."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed, unsigned
from amaranth.lib import data

from ..stream.pipeline import adder_luts
from ..vendor.base import Resources, Technology
from .chain import Iteration


@dataclass(frozen=True)
class Division(Iteration):
    """`bits` bits of the quotient rest * 2**bits / divisor, highest first; the rest begins below the divisor."""

    width: int  # of the divisor
    bits: int

    @property
    def count(self) -> int:
        return self.bits

    @property
    def state(self) -> data.StructLayout:
        return data.StructLayout({
            "rest": unsigned(self.width), "divisor": unsigned(self.width), "quotient": unsigned(self.bits)})

    def step(self, m: Module, state: data.View, name: str) -> dict[str, Value]:
        left = Signal(signed(self.width + 2), name=f"{name}_left")
        twice = state.rest << 1
        m.d.comb += left.eq(twice - state.divisor)
        fits = ~left[-1]
        return {"rest": Mux(fits, left, twice)[:self.width], "quotient": Cat(fits, state.quotient[:-1])}

    def step_cost(self, technology: Technology) -> Resources:
        return Resources(lut=adder_luts(self.width + 2, technology) + self.width)


@dataclass(frozen=True)
class Levelling(Iteration):
    """Moves a number of `width` bits up, two bits at a time, until one of its two highest bits is set.

    At most `levels` - 1 times; `place` counts down from there for each time.  `along` are fields that go along.
    """

    width: int
    levels: int
    along: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.levels - 1

    @property
    def state(self) -> data.StructLayout:
        return data.StructLayout({
            "value": unsigned(self.width), "place": Shape.cast(range(self.levels)), **self.along})

    def step(self, m: Module, state: data.View, name: str) -> dict[str, Value]:
        low = Signal(name=f"{name}_low")
        m.d.comb += low.eq(~state.value[-2:].any())
        return {"value": Mux(low, state.value << 2, state.value)[:self.width], "place": state.place - low}

    def step_cost(self, technology: Technology) -> Resources:
        return Resources(lut=self.width + adder_luts((self.levels - 1).bit_length(), technology) + 1)


@dataclass(frozen=True)
class Root(Iteration):
    """`bits` bits of the largest root with root**2 * mantissa <= 8**bits, highest first.

    With A the bits so far, of which j lack, rest = 8**bits / 4**j - A**2 * mantissa and odd = (4 * A + 1) * mantissa:
    the next bit is set where 4 * rest is not below odd.  It begins with rest 2**bits and odd = mantissa.  The
    mantissa has bits + 1 or bits + 2 bits; of a smaller one come other bits, which nothing uses.
    """

    bits: int
    along: Mapping[str, Shape] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return self.bits

    @property
    def rest_width(self) -> int:
        """rest <= 2 * A * mantissa before the last bit, where A has bits - 1 bits."""
        return 2 * self.bits + 2

    @property
    def state(self) -> data.StructLayout:
        return data.StructLayout({
            "rest": unsigned(self.rest_width), "odd": unsigned(self.rest_width + 1),
            "mantissa": unsigned(self.bits + 2), "root": unsigned(self.bits), **self.along})

    def step(self, m: Module, state: data.View, name: str) -> dict[str, Value]:
        left = Signal(signed(self.rest_width + 3), name=f"{name}_left")
        m.d.comb += left.eq((state.rest << 2) - state.odd)
        fits = Signal(name=f"{name}_fits")
        m.d.comb += fits.eq(~left[-1])
        # Both numbers that may follow are made beside `left`, so that no adder waits for its sign.
        wide, twice = self.rest_width + 1, state.odd << 1
        larger, smaller = (Signal(unsigned(wide), name=f"{name}_{which}") for which in ("larger", "smaller"))
        m.d.comb += [
            larger.eq(three_summed(twice, state.mantissa << 1, state.mantissa, wide)),
            smaller.eq((twice - state.mantissa)[:wide])]
        return {"rest": Mux(fits, left, state.rest << 2)[:self.rest_width],
                "odd": Mux(fits, larger, smaller), "root": Cat(fits, state.root[:-1])}

    def step_cost(self, technology: Technology) -> Resources:
        wide = self.rest_width
        return Resources(lut=adder_luts(wide + 3, technology) + wide + 2 * adder_luts(wide + 1, technology)
                         + 2 * (self.bits + 3) + wide + 1)


def three_summed(a: Value, b: Value, c: Value, width: int) -> Value:
    """a + b + c, `width` bits of it, in one carry chain: three bits make a bit in their place and one to the left."""
    a, b, c = (Cat(value, Const(0, width))[:width] for value in (a, b, c))
    here, left = a ^ b ^ c, (a & b) | (a & c) | (b & c)
    return (here + Cat(Const(0, 1), left[:-1]))[:width]
