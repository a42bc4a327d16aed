"""What multiplies in which stage: the dynamic program against every combination, and whole plans."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hwflow_base.errors import AnswerIsNo, HwflowError
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Resources, Technology

from hwflow import hls
from hwflow.hls.plan.memories import Option, cheapest_options
from hwflow.layers import Dense, Frame, IntFormat, Requantize, Tensor
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import BIPOLAR
from hwflow.layers.rescale import Rescale, Thresholds
from hwflow.quantize import quantize
from hwflow.quantize.settings import ActivationSettings, LayerSettings, QuantizationSettings, WeightSettings
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.e2e.networks import rows_for, small_network
from tests.hls.test_solver import budget
from tests.quantize.net import Net


@pytest.mark.parametrize("seed", range(40))
def test_no_combination_is_cheaper(seed: int) -> None:
    rng = random.Random(seed)
    stages = [[Option(rng.randrange(6), rng.randrange(1, 20)) for _ in range(rng.randrange(1, 4))]
              for _ in range(rng.randrange(1, 6))]
    blocks = rng.randrange(-1, 20)
    chosen = [options[k] for options, k in zip(stages, cheapest_options(stages, blocks), strict=True)]
    every = list(itertools.product(*stages))
    possible = [sum(o.price for o in options) for options in every if sum(o.blocks for o in options) <= blocks]
    if possible:
        assert sum(option.blocks for option in chosen) <= blocks
        assert sum(option.price for option in chosen) == min(possible)
    else:
        assert sum(o.blocks for o in chosen) == min(sum(o.blocks for o in options) for options in every)


def graph_of(bits: int) -> LayerGraph:
    model = small_network()
    settings = QuantizationSettings(LayerSettings(WeightSettings(bits), ActivationSettings(8)))
    return quantize(model, rows_for(model, 4), settings=settings).graph


def styles(plan: hls.Plan) -> set[MultiplierStyle]:
    return {stage.folding.style for stage in plan.stages if stage.schedule.multipliers}


def test_blocks_come_first(technology: Technology) -> None:
    """As long as there are blocks enough, nothing else is used, allowed or not."""
    for logic in (False, True):
        assert styles(hls.solve(graph_of(8), hls.Target(technology, budget(), logic=logic))) == {MultiplierStyle.BLOCKS}


def test_logic_makes_a_plan_faster_where_blocks_are_short(technology: Technology) -> None:
    graph, few = graph_of(8), budget(dsp=8)
    without, plan = (hls.solve(graph, hls.Target(technology, few, logic=logic)) for logic in (False, True))
    assert MultiplierStyle.LOGIC not in styles(without)
    assert MultiplierStyle.LOGIC in styles(plan)
    assert plan.interval < without.interval
    assert plan.resources.dsp <= 8
    assert plan.resources.dsp < hls.solve(graph, hls.Target(technology, budget())).resources.dsp


def test_logic_is_used_unasked_where_there_is_no_other_way(technology: Technology) -> None:
    plan = hls.solve(graph_of(8), hls.Target(technology, budget(dsp=1)))
    assert MultiplierStyle.LOGIC in styles(plan)
    assert plan.resources.dsp <= 1


def test_pairs_halve_the_blocks(technology: Technology) -> None:
    graph, few = graph_of(4), budget(dsp=8)
    plan = hls.solve(graph, hls.Target(technology, few))
    assert MultiplierStyle.PAIRS in styles(plan)
    assert MultiplierStyle.LOGIC not in styles(plan)
    assert plan.multipliers > plan.resources.dsp
    assert plan.interval < hls.solve(graph_of(8), hls.Target(technology, few)).interval


def test_a_plan_with_styles_comes_back_from_its_file(technology: Technology) -> None:
    graph = graph_of(4)
    plan = hls.solve(graph, hls.Target(technology, budget(dsp=6), logic=True))
    assert len(styles(plan)) > 1
    assert hls.plan_from_yaml(hls.plan_to_yaml(plan), graph, technology, source="plan.yaml") == plan


def test_sums_of_products_are_made_in_blocks_where_a_plan_says_so_alone(technology: Technology) -> None:
    """`test_blocks_come_first` has a network with stages of two columns."""
    graph = graph_of(8)
    plan = hls.solve(graph, hls.Target(technology, budget()))
    assert any(stage.folding.cols % 2 == 0 and stage.folding.style is MultiplierStyle.BLOCKS for stage in plan.stages
               if stage.schedule.multipliers)
    foldings = [replace(stage.folding, style=MultiplierStyle.MACS)
                if stage.schedule.multipliers and stage.folding.cols % 2 == 0 else stage.folding
                for stage in plan.stages]
    macs = hls.make_plan(graph, foldings, technology)
    assert (macs.interval, macs.resources.dsp) == (plan.interval, plan.resources.dsp)
    assert macs.resources.lut < plan.resources.lut
    assert hls.plan_from_yaml(hls.plan_to_yaml(macs), graph, technology, source="plan.yaml") == macs


def test_what_does_not_fit_with_logic_says_so(technology: Technology) -> None:
    with pytest.raises(AnswerIsNo, match=r"^'small' does not fit test, not even with its smallest folding: "):
        hls.solve(graph_of(8), hls.Target(technology, budget(dsp=1, lut=500)))


def test_nothing_but_the_named_resources(technology: Technology) -> None:
    """The rest of the plan adds up as ever."""
    plan = hls.solve(graph_of(8), hls.Target(technology, budget(dsp=8), logic=True))
    stages = sum((stage.resources for stage in plan.stages), Resources())
    assert plan.resources.dsp == stages.dsp


def test_a_style_that_the_family_lacks_is_named(technology: Technology) -> None:
    graph = graph_of(4)
    text = hls.plan_to_yaml(hls.solve(graph, hls.Target(technology, budget(dsp=8))))
    assert "style: pairs" in text
    with pytest.raises(HwflowError, match=r"^plan mine\.yaml, stage '0_conv': style must be one of blocks, logic on "
                                          r"ice40, not pairs$"):
        hls.plan_from_yaml(text, graph, load_board("icebreaker").technology(), source="mine.yaml")


def test_results_are_rescaled_in_logic_where_blocks_are_short(technology: Technology) -> None:
    """A depthwise layer gives a result in every cycle, so its rescaler prefers a multiplier block."""
    net = Net((16, 8, 8))
    model = net.model(net.unit(net.x, 16, 3, group=16))
    graph = quantize(model, rows_for(model, 4)).graph
    plenty = hls.solve(graph, hls.Target(technology, budget()))
    wants = plenty.resources.dsp
    assert wants > plenty.multipliers
    assert plenty.stages[0].folding.rescale is None
    short = hls.solve(graph, hls.Target(technology, budget(dsp=plenty.multipliers)), interval=plenty.interval)
    assert short.interval == plenty.interval
    assert short.stages[0].folding.rescale is MultiplierStyle.LOGIC
    assert short.resources.dsp == short.multipliers == plenty.multipliers
    assert hls.plan_from_yaml(hls.plan_to_yaml(short), graph, technology, source="plan.yaml") == short


def test_only_layers_with_a_choice_rescale_in_another_way(technology: Technology) -> None:
    net = Net((4, 8, 8))
    model = net.model(net.node("MaxPool", net.relu(net.conv(net.x, 4, (3, 3))), kernel_shape=(2, 2), strides=(2, 2)))
    graph = quantize(model, rows_for(model, 4)).graph
    plan = hls.solve(graph, hls.Target(technology, budget()))
    foldings = [stage.folding for stage in plan.stages]
    foldings[-1] = replace(foldings[-1], rescale=MultiplierStyle.LOGIC)
    with pytest.raises(HwflowError, match=r"rescale must not be logic for a \w+: this kind of layer has no choice"):
        hls.plan.plan.require_possible(graph, "network", foldings, technology)


@pytest.mark.parametrize(("rescale", "y", "message"), [
    (Thresholds(np.zeros((2, 256), np.int64), 0), IntFormat(9, False), "must have 1 to 255 levels, not 256"),
    (Thresholds(np.zeros((2, 0), np.int64), 0), IntFormat(1, False), "must have 1 to 255 levels, not 0"),
    (Requantize(*np.ones((3, 2), np.int64), 0, -1, 1), BIPOLAR, "a bipolar output must come from thresholds"),
    (Thresholds(np.array([[0, 1], [0, 0]]), -1), BIPOLAR, "must be pairs of equal values that step from -1 to +1"),
])
def test_output_stages_without_hardware(rescale: Rescale, y: IntFormat, message: str) -> None:
    int2 = IntFormat(2, signed=True)
    layer = Dense("fc", ("x",), "y", np.ones((2, 3), np.int64), int2, int2, rescale)
    tensors = {"x": Tensor("x", Frame(1, 1, 3), int2, 1.0, 0), "y": Tensor("y", Frame(1, 1, 2), y, 1.0, 0)}
    problem = stage_of(LayerGraph("g", tensors, (layer,), ("x",), ("y",)), layer).hardware_problem()
    assert problem is not None
    assert message in problem
