"""Dividers of PLLs: within every range of the data sheets, never above what is wanted, and no closer ones exist."""

from __future__ import annotations

from fractions import Fraction
from functools import cache
from itertools import product

import pytest
from hwflow_rtl.vendor import ECP5, ICE40, Generic, Gowin, Technology
from hwflow_rtl.vendor.pll import PllSettings, exact

INPUTS = [Fraction(mhz) for mhz in ("12", "25", "33.3333", "100")]
WANTED = [Fraction(mhz, 4) for mhz in range(12, 1300, 41)]
TECHNOLOGIES = [ECP5(), ICE40(), Gowin(), Gowin(chip="GW2A-18C")]
NAMES = ["ecp5", "ice40", "gw1n", "gw2a"]


@cache
def ecp5(given: Fraction) -> frozenset[tuple[int, ...]]:
    """FPGA-DS-02012, table of sysCLOCK PLL timing: input 8 to 400 MHz, phase detector 3.125 to 400 MHz, oscillator 400
    to 800 MHz, outputs up to 400 MHz; dividers 1 to 128, in the feedback as far as ecppll goes."""
    return frozenset(
        (into, feedback, out) for into in range(1, int(given / Fraction("3.125")) + 1) for feedback in range(1, 81)
        if 10 <= given / into * feedback <= 400
        for out in range(1, 81) if 400 <= given / into * feedback * out <= 800)


def check_ecp5(given: Fraction, found: PllSettings) -> None:
    p = dict(found.parameters)
    assert (p["CLKI_DIV"], p["CLKFB_DIV"], p["CLKOP_DIV"]) in ecp5(given)
    assert 1 <= p["CLKOS_DIV"] <= 128
    vco = given * p["CLKFB_DIV"] * p["CLKOP_DIV"] / p["CLKI_DIV"]
    assert (found.vco_mhz, found.output_mhz) == (vco, vco / p["CLKOS_DIV"])
    assert 10 <= found.output_mhz <= 400
    assert (p["CLKOP_CPHASE"], p["CLKOS_CPHASE"]) == (p["CLKOP_DIV"] - 1, p["CLKOS_DIV"] - 1)


def check_ice40(given: Fraction, found: PllSettings) -> None:
    """FPGA-DS-02008, table of sysCLOCK PLL timing: input and phase detector 10 to 133 MHz, oscillator 533 to 1066 MHz,
    output 16 to 275 MHz."""
    p = dict(found.parameters)
    pfd = given / (p["DIVR"] + 1)
    vco = pfd * (p["DIVF"] + 1)
    assert (found.vco_mhz, found.output_mhz) == (vco, vco / 2 ** p["DIVQ"])
    assert 10 <= pfd <= 133
    assert 533 <= vco <= 1066
    assert 16 <= found.output_mhz <= 275
    assert 0 <= p["DIVR"] < 16
    assert 0 <= p["DIVF"] < 128
    assert 1 <= p["DIVQ"] <= 6
    ends = (10, 17, 26, 44, 66, 101, 133)  # icepll
    assert ends[p["FILTER_RANGE"] - 1] <= pfd < ends[p["FILTER_RANGE"]] + (p["FILTER_RANGE"] == 6)


def check_gowin(given: Fraction, found: PllSettings, *, pfd_most: int, vco_range: tuple[int, int],
                out_range: tuple[Fraction, int]) -> None:
    """DS117 and DS226 as gowin_pll has them."""
    p = dict(found.parameters)
    pfd = given / (p["IDIV_SEL"] + 1)
    assert found.output_mhz == pfd * (p["FBDIV_SEL"] + 1)
    assert found.vco_mhz == found.output_mhz * p["ODIV_SEL"]
    assert 3 <= pfd <= pfd_most
    assert vco_range[0] <= found.vco_mhz <= vco_range[1]
    assert out_range[0] <= found.output_mhz <= out_range[1]
    assert 0 <= p["IDIV_SEL"] < 64
    assert 0 <= p["FBDIV_SEL"] < 64
    assert p["ODIV_SEL"] in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)


def check(technology: Technology, given: Fraction, found: PllSettings) -> None:
    if isinstance(technology, ECP5):
        check_ecp5(given, found)
    elif isinstance(technology, ICE40):
        check_ice40(given, found)
    elif technology.chip.startswith("GW1N"):
        check_gowin(given, found, pfd_most=400, vco_range=(400, 1200), out_range=(Fraction("3.125"), 600))
    else:
        check_gowin(given, found, pfd_most=500, vco_range=(500, 1250), out_range=(Fraction("3.90625"), 625))


def outputs(technology: Technology, given: Fraction) -> set[Fraction]:
    """Everything the PLL can make of a clock, counted out."""
    if isinstance(technology, ECP5):
        oscillators = {given * feedback * out / into for into, feedback, out in ecp5(given)}
        return {vco / out for vco in oscillators for out in range(1, 129) if 10 <= vco / out <= 400}
    if isinstance(technology, ICE40):
        return {vco / 2**out for into, feedback in product(range(1, 17), range(1, 129)) for out in range(1, 7)
                for vco in [given / into * feedback]
                if 10 <= given / into <= 133 and 533 <= vco <= 1066 and 16 <= vco / 2**out <= 275}
    first = technology.chip.startswith("GW1N")
    low, high, fastest, least, most = (400, 1200, 400, Fraction("3.125"), 600) if first else (
        500, 1250, 500, Fraction("3.90625"), 625)
    return {out for into, feedback in product(range(1, 65), range(1, 65)) for out in [given / into * feedback]
            if 3 <= given / into <= fastest and least <= out <= most
            and any(low <= out * divider <= high for divider in (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128))}


@pytest.mark.parametrize("technology", TECHNOLOGIES, ids=NAMES)
def test_within_all_ranges_and_never_above(technology: Technology) -> None:
    for given, wanted in product(INPUTS, WANTED):
        found = technology.pll_settings(given, wanted)
        if found is not None:
            assert found.output_mhz <= wanted
            assert found.input_mhz == given
            check(technology, given, found)


@pytest.mark.quick(3)
@pytest.mark.parametrize("technology", TECHNOLOGIES, ids=NAMES)
@pytest.mark.parametrize("given", [Fraction(12), Fraction(27)])
def test_no_closer_clock_exists(technology: Technology, given: Fraction) -> None:
    possible = sorted(outputs(technology, given))
    for wanted in WANTED:
        best = max((mhz for mhz in possible if mhz <= wanted), default=None)
        found = technology.pll_settings(given, wanted)
        assert (found.output_mhz if found else None) == best


@pytest.mark.parametrize("technology", TECHNOLOGIES, ids=NAMES)
def test_the_error_is_small_where_designs_run(technology: Technology) -> None:
    for given in (Fraction(12), Fraction(27)):
        for wanted in range(40, 250, 11):
            found = technology.pll_settings(given, wanted)
            assert found is not None
            assert wanted - found.output_mhz < wanted * Fraction(6, 100)


def test_icepll_gives_the_same() -> None:
    """icepll -i 12 -o 48, 60 and 100."""
    for wanted, dividers in ((48, (0, 63, 4, 1)), (60, (0, 79, 4, 1)), (Fraction("100.5"), (0, 66, 3, 1))):
        found = ICE40().pll_settings(12, wanted)
        assert found is not None
        assert tuple(found[name] for name in ("DIVR", "DIVF", "DIVQ", "FILTER_RANGE")) == dividers


def test_gowin_pll_gives_the_same() -> None:
    """gowin_pll -i 27 -o 108 and 81 for GW1NR-9 C6/I5; of several oscillators the slowest is as good as any."""
    for wanted, dividers in ((108, (0, 3, 4)), (81, (0, 2, 8))):
        found = Gowin().pll_settings(27, wanted)
        assert found is not None
        assert tuple(found[name] for name in ("IDIV_SEL", "FBDIV_SEL", "ODIV_SEL")) == dividers


def test_what_no_pll_can_make() -> None:
    assert ECP5().pll_settings(25, 9.9) is None
    assert ECP5().pll_settings(7, 100) is None
    assert ICE40().pll_settings(12, 15.9) is None
    assert ICE40().pll_settings(9, 100) is None
    assert Gowin().pll_settings(27, 3) is None
    assert Gowin().pll_settings(2, 100) is None


def test_frequencies_are_meant_as_written() -> None:
    assert exact(33.3333) == Fraction(333333, 10000)
    assert exact(Fraction(1, 3)) == Fraction(1, 3)
    found = ECP5().pll_settings(25, 147.3)
    assert found is not None
    assert str(found) == "EHXPLLL: 25 MHz to 147.222 MHz, oscillator at 441.667 MHz"
    with pytest.raises(KeyError):
        found["DIVR"]


def test_the_generic_one_has_the_frequencies_of_the_family_that_it_is_like() -> None:
    assert Generic(like=ECP5()).pll_settings(25, 147.3) == ECP5().pll_settings(25, 147.3)
    assert Generic().pll_settings(25, 147.3).output_mhz == exact(147.3)
