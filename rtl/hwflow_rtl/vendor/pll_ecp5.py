"""EHXPLLL of ECP5: Lattice FPGA-TN-02200 (sysCLOCK), ranges from FPGA-DS-02012 as prjtrellis' ecppll has them."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache

from amaranth.hdl import Const, Instance, Module

from .pll import Pll, PllSettings, exact

__all__ = ["ECP5Pll", "ecp5_pll_settings"]

INPUT_MHZ, PFD_MHZ, VCO_MHZ = (8, 400), (Fraction("3.125"), 400), (400, 800)
FEEDBACK_MHZ = OUTPUT_MHZ = (10, 400)
#: ecppll goes no further with the divider in the feedback; those of the input and the outputs go up to 128.
MOST_FEEDBACK, MOST = 80, 128


@cache
def ecp5_pll_settings(input_mhz: float | Fraction, output_mhz: float | Fraction) -> PllSettings | None:
    """The closest output that is not above the wanted one, then the fastest phase detector (least jitter)."""
    found = max(candidates(exact(input_mhz), exact(output_mhz)), default=None)
    if found is None:
        return None
    output, _, vco, dividers = found
    # The second output starts its count where the first does; nothing here depends on their phases.
    phases = {"CLKOP_CPHASE": dividers["CLKOP_DIV"] - 1, "CLKOS_CPHASE": dividers["CLKOS_DIV"] - 1}
    return PllSettings("EHXPLLL", exact(input_mhz), vco, output, tuple((dividers | phases).items()))


class Divided(dict[str, int]):
    """Dividers that never decide which of two candidates is the larger."""

    def __lt__(self, other: object) -> bool:
        return False


def candidates(given: Fraction, wanted: Fraction) -> Iterator[tuple[Fraction, Fraction, Fraction, Divided]]:
    """(output, phase detector, oscillator, dividers): the output is CLKOS, and CLKOP alone is fed back.

    The oscillator runs at a whole multiple of the phase detector: CLKFB_DIV times CLKOP_DIV.
    """
    if not INPUT_MHZ[0] <= given <= INPUT_MHZ[1] or wanted < OUTPUT_MHZ[0]:
        return
    for into in range(1, MOST + 1):
        pfd = given / into
        if not PFD_MHZ[0] <= pfd <= PFD_MHZ[1]:
            continue
        fed_back = -(-FEEDBACK_MHZ[0] // pfd), min(MOST_FEEDBACK, int(FEEDBACK_MHZ[1] // pfd))
        for out in range(1, MOST + 1):
            multiple = int(min(Fraction(VCO_MHZ[1]), wanted * out, Fraction(OUTPUT_MHZ[1] * out)) / pfd)
            least = int(-(-max(VCO_MHZ[0], OUTPUT_MHZ[0] * out) // pfd))
            while multiple >= least:
                if split := feedback_split(multiple, *fed_back):
                    vco = multiple * pfd
                    yield vco / out, pfd, vco, Divided(
                        CLKI_DIV=into, CLKFB_DIV=split[0], CLKOP_DIV=split[1], CLKOS_DIV=out)
                    break
                multiple -= 1


@cache
def feedback_split(multiple: int, least: int, most: int) -> tuple[int, int] | None:
    """`multiple` as divider of the feedback, between `least` and `most`, and divider of the output that is fed back,
    the latter the smallest."""
    for out in range(1, MOST + 1):
        feedback, rest = divmod(multiple, out)
        if not rest and least <= feedback <= most:
            return feedback, out
    return None


class ECP5Pll(Pll):
    """Feedback inside the PLL.  Charge pump and filter as ecppll and every open design set them."""

    def __init__(self, settings: PllSettings):
        self.settings = settings
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.clk_through.eq(self.clk_in)
        m.submodules.pll = Instance(
            "EHXPLLL",
            a_ICP_CURRENT="12", a_LPF_RESISTOR="8", a_MFG_ENABLE_FILTEROPAMP="1", a_MFG_GMCREF_SEL="2",
            **{f"p_{name}": value for name, value in self.settings.parameters},
            p_FEEDBK_PATH="INT_OP", p_INTFB_WAKE="DISABLED", p_PLLRST_ENA="DISABLED", p_STDBY_ENABLE="DISABLED",
            p_DPHASE_SOURCE="DISABLED", p_OUTDIVIDER_MUXA="DIVA", p_OUTDIVIDER_MUXB="DIVB", p_OUTDIVIDER_MUXC="DIVC",
            p_OUTDIVIDER_MUXD="DIVD", p_CLKOP_ENABLE="ENABLED", p_CLKOS_ENABLE="ENABLED", p_CLKOP_FPHASE=0,
            p_CLKOS_FPHASE=0,
            i_CLKI=self.clk_in, o_CLKOS=self.clk_out, o_LOCK=self.locked,
            **{f"i_{name}": Const(0, 1) for name in (
                "RST", "STDBY", "PHASESEL0", "PHASESEL1", "PHASEDIR", "PHASESTEP", "PHASELOADREG", "PLLWAKESYNC",
                "ENCLKOP", "ENCLKOS")})
        return m
