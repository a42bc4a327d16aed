"""A plan with another folding is planned anew; one that was changed by hand is refused before it becomes hardware."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hwflow_rtl.multiply.style import MultiplierStyle

import hwflow
from hwflow import hls
from hwflow.quantize import Quantized, quantize
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings, WeightSettings
from hwflow.synth import load_board
from tests.e2e.networks import rows_for, small_network

CALL = r"plan\.with_folding\(stage, rows=\.\.\., cols=\.\.\., lanes=\.\.\., style=\.\.\.\), which makes a new plan$"


def quantized_to(bits: int) -> Quantized:
    model = small_network()
    settings = QuantizationSettings(LayerSettings(WeightSettings(bits), ActivationSettings(8)))
    return quantize(model, rows_for(model, 4), settings=settings)


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    return quantized_to(8)


@pytest.fixture(scope="module")
def plan(quantized: Quantized) -> hls.Plan:
    return hwflow.make_plan(quantized, "icebreaker")


def by_hand(plan: hls.Plan, **folding: int) -> hls.Plan:
    """What was the only way to change a plan: the first folding alone."""
    stage = plan.stages[0]
    return replace(plan, stages=(replace(stage, folding=replace(stage.folding, **folding)), *plan.stages[1:]))


def test_a_changed_plan_is_that_of_the_edited_file(quantized: Quantized, plan: hls.Plan) -> None:
    """The file's way is the oracle: the foldings of the text, everything else computed anew."""
    changed = plan.with_folding("0_conv", rows=1, cols=1, lanes=1)
    text = hls.plan_to_yaml(by_hand(plan, rows=1, cols=1, lanes=1))
    technology = load_board("icebreaker").technology()
    assert changed == hls.plan_from_yaml(text, quantized.graph, technology, source="plan.yaml", outside=plan.outside)
    assert changed.interval == 2 * 2 * 9 * 16 > plan.interval  # channels out and in, taps, positions; one multiplier
    assert changed.stages[0].folding.style is plan.stages[0].folding.style


def test_a_style_is_given_by_its_name(quantized: Quantized) -> None:
    plan = hwflow.make_plan(quantized, "ulx3s_85f")
    changed, folding = plan.with_folding("0_conv", style="logic"), plan.stages[0].folding
    assert changed.stages[0].folding == replace(folding, style=MultiplierStyle.LOGIC)
    assert changed.stages[0].resources.dsp == plan.stages[0].resources.dsp - folding.rows * folding.cols


@pytest.mark.parametrize("stage, change, message", [
    ("0_cnov", {}, r"stage '0_cnov' is not in the model; its stages are 0_conv, 1_pool, 2_fc; did you mean '0_conv'"),
    (3, {}, r"stage 3 is not in the model; its stages are "),
    ("0_conv", {"rows": 7}, r"stage '0_conv': rows must be one of 1, 2, not 7$"),
    ("0_conv", {"rows": 1.5}, r"rows must be a whole number, not 1\.5$"),
    ("0_conv", {"style": "quick"}, r"style must be one of blocks, macs, pairs, logic, not 'quick'$"),
    ("0_conv", {"style": "macs"}, r"stage '0_conv': style must be one of blocks, logic on ice40, not macs$"),
])
def test_what_is_not_possible_is_named(plan: hls.Plan, stage: str, change: dict[str, int], message: str) -> None:
    with pytest.raises(hwflow.HwflowError, match=message):
        plan.with_folding(stage, **change)


def test_only_styles_of_the_family_are_offered() -> None:
    """Sums in blocks need two columns, pairs two rows; an iCE40 has neither, whatever the folding."""
    problems = {}
    for board in ("ulx3s_85f", "icebreaker"):
        plan = hwflow.make_plan(quantized_to(4), board).with_folding("0_conv", rows=1, cols=2, lanes=1)
        for style in ("pairs", "macs", "blocks", "logic"):
            try:
                plan.with_folding("0_conv", style=style)
            except hwflow.HwflowError as error:
                problems[board, style] = str(error).partition("style ")[2]
    assert problems == {
        ("ulx3s_85f", "pairs"): "must be one of blocks, logic, macs with these rows, cols and lanes, not pairs",
        ("icebreaker", "pairs"): "must be one of blocks, logic on ice40, not pairs",
        ("icebreaker", "macs"): "must be one of blocks, logic on ice40, not macs"}


def test_a_stale_plan_is_refused_everywhere(quantized: Quantized, plan: hls.Plan, tmp_path: Path) -> None:
    stale = by_hand(plan, rows=1, cols=1, lanes=1)
    assert stale.interval == plan.interval  # which is wrong
    message = rf"stage '0_conv' takes 576 cycles a frame with its folding, not {plan.stages[0].schedule.interval} "
    rows = rows_for(small_network(), 2)
    for use in (lambda: hwflow.simulate(quantized, stale, rows, folder=tmp_path),
                lambda: hwflow.generate(quantized, stale, tmp_path),
                lambda: hwflow.synthesize(quantized, stale, "icebreaker", tmp_path)):
        with pytest.raises(hwflow.HwflowError, match=f"{message}.*{CALL}"):
            use()
    assert list(tmp_path.iterdir()) == []


def test_every_other_change_by_hand_is_refused_too(quantized: Quantized, plan: hls.Plan) -> None:
    first, link = plan.stages[0], plan.links[1]
    for changed, message in (
            (replace(plan, stages=(replace(first, resources=replace(first.resources, lut=1)), *plan.stages[1:])),
             "stage '0_conv' must have resources "),
            (replace(plan, links=(plan.links[0], replace(link, depth=link.depth + 3), *plan.links[2:])),
             f"the link from '0_conv' to '1_pool' must have depth {link.depth}, not {link.depth + 3} as the plan"),
            (replace(plan, latency=(1,)), "must have latency "),
            (by_hand(plan, rows=7), "stage '0_conv': rows must be one of 1, 2, not 7")):
        with pytest.raises(hwflow.HwflowError, match=message):
            hls.require_current(changed, quantized.graph)


def test_a_plan_belongs_to_its_model_and_family(quantized: Quantized, plan: hls.Plan, tmp_path: Path) -> None:
    hls.require_current(plan, quantized_to(8).graph)  # the same made again
    with pytest.raises(hwflow.HwflowError, match=r"must be made of this integer model .*; make it with hwflow"):
        hls.require_current(plan, quantized_to(2).graph)
    with pytest.raises(hwflow.HwflowError, match=r"for the board's family, ecp5, not for ice40; make it with hwflow"):
        hwflow.synthesize(quantized, plan, "ulx3s_85f", tmp_path)
    other = replace(quantized, graph=replace(quantized.graph, layers=quantized.graph.layers[:1]))
    with pytest.raises(hwflow.HwflowError, match=r"with the stages 0_conv, not of 'small' with 0_conv, 1_pool, 2_fc;"):
        hwflow.generate(other, plan, tmp_path)
