"""The estimate of clocks: its file is the fit to its designs, it meets its bar, and it minds the limits of a board."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
from bench.fit_clocks import Design, designs_of, fitted_to, left_out, text_of
from hwflow.hls import Plan
from hwflow.synth import load_board
from hwflow.synth.expected_clock import FILE, clock_fit, estimated_clock, features_of
from hwflow.synth.families import FAMILIES
from tests.project.tree import ROOT

CONTENT = json.loads(FILE.read_text(encoding="utf-8"))
#: The bar: mean relative error of designs on boards, each estimated from all others.
MOST_ERROR = 0.10


@pytest.fixture(scope="module")
def plan() -> Plan:
    model = hwflow.load(ROOT / "models" / "digits_mlp.onnx")
    return hwflow.make_plan(hwflow.quantize_model(model, bits=8), "icebreaker")


def test_the_file_has_the_fit_to_its_designs_and_its_errors() -> None:
    designs = designs_of(CONTENT)
    fit = fitted_to(designs)
    assert set(fit.family_ns) == set(FAMILIES), "a family needs designs that were routed"
    assert (fit.family_ns, fit.weights) == (CONTENT["family_ns"], CONTENT["weights"])
    errors = [guess / each.mhz - 1 for guess, each in zip(left_out(designs), designs, strict=True) if not each.alone]
    assert CONTENT["error"] == pytest.approx(np.abs(errors).mean(), abs=1e-3)
    assert CONTENT["error"] <= MOST_ERROR
    assert CONTENT["worst"] == pytest.approx(np.abs(errors).max(), abs=1e-3)
    assert text_of(CONTENT) == FILE.read_text(encoding="utf-8")


def test_every_clock_is_one_of_the_measurements() -> None:
    """To the digit, in the file of docs/measurements that the design names."""
    for entry in CONTENT["designs"]:
        text = (ROOT / "docs" / "measurements" / f"{entry['measured']}.yaml").read_text(encoding="utf-8")
        for mhz in entry["mhz"]:
            assert re.search(rf"\b{mhz:g}(\.0)?\b", text), (entry["name"], mhz)


def test_the_fit_finds_a_made_up_law() -> None:
    """Periods of 5 and 20 ns, which grow by e where the device is full."""
    made_up = [Design("", "", family, 1e3 / (empty * math.exp(filled + 0.5 * outside)),
                      {"filled": filled, "outside": outside, "arithmetic": 0.0})
               for family, empty in (("ecp5", 5.0), ("ice40", 20.0)) for filled in (0.1, 0.9) for outside in (0.0, 1.0)]
    fit = fitted_to(made_up)
    assert fit.family_ns == {"ecp5": 5.0, "ice40": 20.0}
    assert (fit.weights["filled"], fit.weights["outside"], fit.weights["arithmetic"]) == (1.0, 0.5, 0.0)
    assert left_out(made_up) == pytest.approx([each.mhz for each in made_up], rel=1e-3)


def test_estimates_a_plan_from_its_facts(plan: Plan) -> None:
    board = load_board("icebreaker")
    features = features_of(plan, board)
    with_link = (plan.resources.lut + 700) / 5280  # the host link takes 600 to 800 cells
    assert features["filled"] == pytest.approx(with_link, abs=0.05)
    assert (features["outside"], features["arithmetic"]) == (0.0, 0.0)
    assert features_of(plan, board, linked=False)["filled"] == plan.resources.lut / 5280
    fit, estimate = clock_fit(), estimated_clock(plan, board)
    assert estimate.mhz == pytest.approx(
        1e3 / (fit.family_ns["ice40"] * math.exp(fit.weights["filled"] * features["filled"])))
    assert (estimate.error, estimate.worst) == (fit.error, fit.worst)
    assert str(estimate) == f"{estimate.mhz:.0f} MHz (estimated, off by {100 * fit.error:.0f} % on average)"


def test_no_more_than_the_board_can_make(plan: Plan) -> None:
    board = load_board("icebreaker")
    slow = replace(board, clock_mhz=1.0)
    assert board.technology().pll_settings(1.0, 28.0) is None, "the PLL takes 10 MHz and more"
    assert estimated_clock(plan, slow).mhz == 1.0


def test_refuses_a_plan_for_another_family(plan: Plan) -> None:
    with pytest.raises(HwflowError, match=r"plan must be for the family of ulx3s_85f, ecp5, not for ice40"):
        estimated_clock(plan, load_board("ulx3s_85f"))
