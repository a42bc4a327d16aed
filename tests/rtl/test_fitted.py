"""The constants of costs that are fitted: the file has those that units ask for, and no others."""

from __future__ import annotations

import ast
import re
from fractions import Fraction

import pytest
from hwflow_rtl.vendor import Resources
from hwflow_rtl.vendor.fitted import Fit, fits

from tests.project.tree import PACKAGES, python_files


def names_asked_for() -> set[str]:
    """The first arguments of all calls of `fitted`."""
    calls = (node for file in python_files(PACKAGES["hwflow_rtl"]) for node in ast.walk(ast.parse(file.read_text()))
             if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "fitted")
    return {call.args[0].value for call in calls if isinstance(call.args[0], ast.Constant)}


def test_every_fit_is_asked_for_and_every_unit_that_asks_has_one() -> None:
    assert names_asked_for() == set(fits())


def test_every_fit_says_what_it_counts() -> None:
    assert not [fit.name for fit in fits().values() if not fit.what or not {*fit.lut, *fit.ff}]


def test_a_fit_has_shapes_or_says_why_not() -> None:
    assert not [fit.name for fit in fits().values() if bool(fit.shapes) == bool(fit.estimate)]


def test_each_product_is_rounded_down() -> None:
    fit = Fit("unit", "something", {"bits": Fraction(3, 2), "words": Fraction(1, 3), "constant": Fraction(4)},
              {"bits": Fraction(2)}, ())
    assert fit.resources(bits=3, words=5) == Resources(lut=4 + 1 + 4, ff=6)


def test_quantities_must_be_those_of_the_fit() -> None:
    message = "quantities of LineBuffer must be address_bits, counter_bits, is_wide, masked_taps, taps, not bits, taps"
    with pytest.raises(ValueError, match=re.escape(message)):
        fits()["LineBuffer"].resources(bits=3, taps=9)
