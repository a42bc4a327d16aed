"""SB_PLL40 of iCE40: Lattice FPGA-TN-02052 (sysCLOCK), ranges as icestorm's icepll has them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from amaranth.hdl import Const, Instance, Module

from .pll import Pll, PllSettings, exact

__all__ = ["ICE40Pll", "ice40_pll_settings"]

INPUT_MHZ, PFD_MHZ, VCO_MHZ, OUTPUT_MHZ = (10, 133), (10, 133), (533, 1066), (16, 275)
#: Upper ends of the phase detector's ranges that the filter is set to, MHz.
FILTER_RANGES = (17, 26, 44, 66, 101, 133)
MOST_INTO, MOST_FEEDBACK, OUT = 16, 128, range(1, 7)
WIDTHS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}


def ice40_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction, *,
                       at_pad: bool) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector (least jitter).

    `at_pad` says that the clock comes in at the PLL's own pad: then only the PLL can take it from there.
    """
    found = max(candidates(exact(input_mhz), exact(output_mhz)), default=None)
    if found is None:
        return None
    output, pfd, vco, (into, feedback, out) = found
    band = 1 + next(k for k, limit in enumerate(FILTER_RANGES) if pfd < limit or k == len(FILTER_RANGES) - 1)
    return PllSettings("SB_PLL40_2_PAD" if at_pad else "SB_PLL40_CORE", exact(input_mhz), vco, output, (
        ("DIVR", into - 1), ("DIVF", feedback - 1), ("DIVQ", out), ("FILTER_RANGE", band)))


def candidates(given: Fraction, wanted: Fraction) -> Iterator[tuple[Fraction, Fraction, Fraction, tuple[int, ...]]]:
    """(output, phase detector, oscillator, dividers) with simple feedback: the oscillator itself is fed back."""
    if not INPUT_MHZ[0] <= given <= INPUT_MHZ[1] or wanted < OUTPUT_MHZ[0]:
        return
    for into in range(1, MOST_INTO + 1):
        pfd = given / into
        if not PFD_MHZ[0] <= pfd <= PFD_MHZ[1]:
            continue
        for out in OUT:
            highest = min(wanted, Fraction(OUTPUT_MHZ[1])) * 2**out
            feedback = min(int(min(highest, Fraction(VCO_MHZ[1])) / pfd), MOST_FEEDBACK)
            vco = pfd * feedback
            if vco >= VCO_MHZ[0] and vco / 2**out >= OUTPUT_MHZ[0]:
                yield vco / 2**out, pfd, vco, (into, feedback, out)


class ICE40Pll(Pll):
    """The pad's own clock comes through SB_PLL40_2_PAD unchanged; SB_PLL40_CORE takes it from the fabric."""

    def __init__(self, settings: PllSettings):
        self.settings = settings
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        common = {
            **{f"p_{name}": Const(value, WIDTHS[name]) for name, value in self.settings.parameters},
            "p_FEEDBACK_PATH": "SIMPLE", "i_RESETB": Const(1, 1), "i_BYPASS": Const(0, 1), "o_LOCK": self.locked}
        if self.settings.primitive == "SB_PLL40_2_PAD":
            m.submodules.pll = Instance(
                "SB_PLL40_2_PAD", **common, p_PLLOUT_SELECT_PORTB="GENCLK",
                i_PACKAGEPIN=self.clk_in, o_PLLOUTGLOBALA=self.clk_through, o_PLLOUTGLOBALB=self.clk_out)
        else:
            m.d.comb += self.clk_through.eq(self.clk_in)
            m.submodules.pll = Instance("SB_PLL40_CORE", **common, p_PLLOUT_SELECT="GENCLK",
                                        i_REFERENCECLK=self.clk_in, o_PLLOUTGLOBAL=self.clk_out)
        return m
