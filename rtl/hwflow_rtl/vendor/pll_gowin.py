"""rPLL of Gowin: UG286 (clock), ranges from DS117 (GW1NR) and DS226 (GW2AR) as apycula's gowin_pll has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from amaranth.hdl import Const, Instance, Module

from .pll import Pll, PllSettings, exact

__all__ = ["PLL_RANGES", "GowinPll", "PllRanges", "gowin_pll_settings"]

MOST = 64
OUT = (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)


@dataclass(frozen=True)
class PllRanges:
    """From and to, MHz."""

    pfd: tuple[Fraction, Fraction]
    vco: tuple[Fraction, Fraction]
    output: tuple[Fraction, Fraction]


def ranges(*ends: str) -> PllRanges:
    pairs = [(Fraction(low), Fraction(high)) for low, high in zip(ends[::2], ends[1::2], strict=True)]
    return PllRanges(*pairs)


#: By the device's family, of the speed grades that boards have: GW1N C6/I5, GW2A C8/I7.
PLL_RANGES: dict[str, PllRanges] = {
    "GW1N": ranges("3", "400", "400", "1200", "3.125", "600"),
    "GW2A": ranges("3", "500", "500", "1250", "3.90625", "625"),
}


def gowin_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction,
                       limits: PllRanges) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector, then the slowest
    oscillator."""
    found = max(candidates(exact(input_mhz), exact(output_mhz), limits), default=None)
    if found is None:
        return None
    output, _, vco, (into, feedback, out) = found
    return PllSettings("rPLL", exact(input_mhz), -vco, output, (
        ("IDIV_SEL", into - 1), ("FBDIV_SEL", feedback - 1), ("ODIV_SEL", out)))


def candidates(given: Fraction, wanted: Fraction,
               limits: PllRanges) -> Iterator[tuple[Fraction, Fraction, Fraction, tuple[int, int, int]]]:
    """(output, phase detector, oscillator below zero, dividers); the output is fed back."""
    for into in range(1, MOST + 1):
        pfd = given / into
        if not limits.pfd[0] <= pfd <= limits.pfd[1]:
            continue
        feedback = min(int(min(wanted, limits.output[1]) / pfd), MOST)
        output = pfd * feedback
        for out in OUT:
            if output >= limits.output[0] and limits.vco[0] <= output * out <= limits.vco[1]:
                yield output, pfd, -output * out, (into, feedback, out)
                break


class GowinPll(Pll):
    """Feedback inside the PLL, nothing dynamic.  `device` is the name that the vendor's tools want as a parameter."""

    def __init__(self, settings: PllSettings, device: str):
        self.settings = settings
        self.device = device
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.clk_through.eq(self.clk_in)
        m.submodules.pll = Instance(
            "rPLL", p_FCLKIN=f"{float(self.settings.input_mhz):g}", p_DEVICE=self.device,
            **{f"p_{name}": value for name, value in self.settings.parameters},
            p_DYN_IDIV_SEL="false", p_DYN_FBDIV_SEL="false", p_DYN_ODIV_SEL="false", p_DYN_DA_EN="false",
            p_DYN_SDIV_SEL=2, p_PSDA_SEL="0000", p_DUTYDA_SEL="1000", p_CLKFB_SEL="internal", p_CLKOUT_BYPASS="false",
            p_CLKOUTP_BYPASS="false", p_CLKOUTD_BYPASS="false", p_CLKOUTD_SRC="CLKOUT", p_CLKOUTD3_SRC="CLKOUT",
            i_CLKIN=self.clk_in, o_CLKOUT=self.clk_out, o_LOCK=self.locked,
            **{f"i_{name}": Const(0, width) for name, width in {
                "RESET": 1, "RESET_P": 1, "CLKFB": 1, "FBDSEL": 6, "IDSEL": 6, "ODSEL": 6, "PSDA": 4, "DUTYDA": 4,
                "FDLY": 4}.items()})
        return m
