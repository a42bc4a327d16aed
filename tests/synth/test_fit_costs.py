"""The fit of costs: it finds the factors that made-up costs have, and writes the file as it is."""

from __future__ import annotations

import json
from fractions import Fraction

from hwflow_rtl.vendor import ECP5, Resources
from hwflow_rtl.vendor.fitted import FILE, Fit

from bench.fit_costs import Seen, fitting, quantities_asked, text_of
from tests.synth.unit_samples import sample_of

FIT = Fit("made up", "", {"bits": Fraction(1), "constant": Fraction(0)}, {"bits": Fraction(2)}, ())


def test_finds_the_factors_of_a_made_up_unit() -> None:
    """It takes 7/2 cells a bit and 5, and its parts 10, of which its cost knows."""
    seen = [Seen("", ECP5(), Resources(lut=7 * bits // 2 + 5 + 10, ff=3 * bits), Resources(lut=bits + 10, ff=2 * bits),
                 {"made up": {"bits": bits, "constant": 1}}) for bits in (2, 4, 10, 16)]
    rows, best = fitting(FIT, "lut", seen)
    assert best == {"bits": Fraction(7, 2), "constant": Fraction(5)}
    assert rows == [["made up", "LUT", "bits", "1", "3.50", "4", "25.0", "0.0"],
                    ["made up", "LUT", "constant", "0", "5.00", "", "", ""]]
    assert fitting(FIT, "ff", seen)[1] == {"bits": Fraction(3)}


def test_a_unit_that_never_asked_says_nothing_of_a_fit() -> None:
    assert fitting(FIT, "lut", [Seen("", ECP5(), Resources(lut=3), Resources(lut=3), {})]) == ([], {})


def test_hears_what_a_unit_and_its_parts_ask_for() -> None:
    """A gearbox of 1 to 4 lanes and the queue of two words that is a part of it."""
    sample = sample_of({"unit": "Gearbox", "width": 6, "lanes_in": 1, "lanes_out": 4}, ECP5())
    cost, asked = quantities_asked(sample)
    assert cost == sample.cost()
    assert asked == {"Gearbox to wider words": {"parts": 4, "constant": 1},
                     "Queue in registers": {"words": 2, "constant": 1}}


def test_writes_the_file_as_it_is() -> None:
    assert text_of(json.loads(FILE.read_text(encoding="utf-8"))) == FILE.read_text(encoding="utf-8")
