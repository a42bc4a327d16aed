"""PLLs: which dividers give a clock, and a component that has them; one way for every family."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


@dataclass(frozen=True)
class PllSettings:
    """The dividers of a PLL: parameters of the family's own primitive, by name.

    `primitive` is that primitive.  All frequencies are in MHz; `output_mhz` is the exact frequency of the
    output, not the requested one.
    """

    primitive: str
    input_mhz: Fraction
    vco_mhz: Fraction
    output_mhz: Fraction
    parameters: tuple[tuple[str, int], ...]

    def __getitem__(self, name: str) -> int:
        """The parameter of that name; KeyError where the primitive has none."""
        return dict(self.parameters)[name]

    def __str__(self) -> str:
        return (f"{self.primitive}: {float(self.input_mhz):g} MHz to {float(self.output_mhz):.6g} MHz, oscillator at "
                f"{float(self.vco_mhz):.6g} MHz")


def exact(mhz: float | Fraction) -> Fraction:
    """A frequency as the fraction that was meant: 33.3333 is 333333/10000, not the nearest float."""
    return mhz if isinstance(mhz, Fraction) else Fraction(repr(float(mhz)))


class Pll(wiring.Component):
    """A clock made of another one.

    Attributes
    ----------
    clk_in : In(1)
        From the pin, and from nowhere else.
    clk_through : Out(1)
        The same clock for the design: some PLLs take their pin for themselves.
    clk_out : Out(1)
        The PLL's clock; undefined until `locked`.
    locked : Out(1)
        Asynchronous.
    """

    def __init__(self) -> None:
        super().__init__({"clk_in": In(1), "clk_through": Out(1), "clk_out": Out(1), "locked": Out(1)})


class Wire(Pll):
    """No PLL at all: what simulation runs, where a clock is as fast as it is driven."""

    def elaborate(self, platform):
        m = Module()
        m.d.comb += [self.clk_through.eq(self.clk_in), self.clk_out.eq(self.clk_in), self.locked.eq(1)]
        return m
