"""Hardware with room for other weights: the same function, and what a retrained model may change in it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.emit import emit_rtlil
from hwflow_rtl.vendor import ECP5, Generic

from hwflow import hls
from hwflow.golden import run
from hwflow.layers import Conv, Dense, MaxPool, Recurrent
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.rescale import Requantize, RoomyRequantize, Thresholds
from hwflow.pipeline.planning import budget_of
from hwflow.pipeline.verilog import simulation_technology
from hwflow.stages.other_weights import fitted, with_rescale_of, with_room
from hwflow.synth import load_board
from tests.synth.stage_samples import recurrent_graph

INT8 = IntFormat(8, signed=True)


def graph_of(seed: int, *, zero_point: int = 3, stage: str = "multiply", scale: float = 1.0) -> LayerGraph:
    """A convolution, a pool and a dense layer with random weights."""
    random = np.random.default_rng(seed)
    tensors = [Tensor("x", Frame(6, 6, 2), INT8, 0.5, -1), Tensor("a", Frame(6, 6, 4), INT8, 0.25, zero_point),
               Tensor("b", Frame(3, 3, 4), INT8, 0.25, zero_point), Tensor("y", Frame(1, 1, 5), INT8, 1.0, 0)]
    conv = Conv("conv", ("x",), "a", random.integers(-100, 101, (4, 3, 3, 2)), INT8, INT8,
                rescale(random, 4, zero_point, stage, scale), pads=(1, 1, 1, 1))
    pool = MaxPool("pool", ("a",), "b", INT8, (2, 2), (2, 2))
    dense = Dense("dense", ("b",), "y", random.integers(-100, 101, (5, 36)), INT8, INT8,
                  rescale(random, 5, 0, "multiply", 1.0))
    graph = LayerGraph("net", {t.name: t for t in tensors}, (conv, pool, dense), ("x",), ("y",))
    graph.check()
    return graph


def rescale(random: np.random.Generator, channels: int, zero_point: int, stage: str, scale: float):
    if stage == "thresholds":
        return Thresholds(np.sort(random.integers(-3000, 3000, (channels, 12)), axis=1), zero_point)
    multiplier = (random.integers(100_000, 1 << 17, channels) * scale).astype(np.int64)
    return Requantize(random.integers(-2000, 2000, channels), multiplier, random.integers(23, 26, channels), zero_point,
                      -128, 127)


def frames(count: int = 4) -> np.ndarray:
    return np.random.default_rng(9).integers(-128, 128, (count, 6, 6, 2))


def text_of(graph: LayerGraph) -> str:
    plan = hls.solve(graph, hls.Target(ECP5(), budget_of(load_board("ulx3s_85f"), graph)), interval=4000)
    technology = simulation_technology(plan)
    assert isinstance(technology, Generic)
    return emit_rtlil(hls.lower(graph, plan, technology), name="top")


@pytest.mark.parametrize("stage", ["multiply", "thresholds"])
def test_room_changes_no_value(stage: str) -> None:
    graph = graph_of(1, stage=stage)
    roomy = with_room(graph)
    roomy.check()
    assert np.array_equal(run(roomy, frames())["y"], run(graph, frames())["y"])
    assert roomy.layers[0].accumulator.bits == graph.layers[0].accumulator.bits + 1


@pytest.mark.parametrize("stage", ["multiply", "thresholds"])
def test_another_model_in_the_room_is_the_other_model(stage: str) -> None:
    base, new = with_room(graph_of(1, stage=stage)), graph_of(2, stage=stage)
    graph, problems = fitted(new, base)
    assert problems == []
    assert np.array_equal(run(graph, frames())["y"], run(new, frames())["y"])
    assert [type(layer) for layer in graph.layers] == [Conv, MaxPool, Dense]
    plain = with_rescale_of(graph, new)
    assert not isinstance(plain.layers[0].requantize, RoomyRequantize)
    assert np.array_equal(run(plain, frames())["y"], run(new, frames())["y"])


def test_both_make_the_same_hardware() -> None:
    base = with_room(graph_of(1))
    assert text_of(fitted(graph_of(2), base)[0]) == text_of(base)
    assert text_of(graph_of(1)) != text_of(graph_of(2))


def wide(graph: LayerGraph, bits: int) -> LayerGraph:
    """About the same ratios, with multipliers of so many bits."""
    random = np.random.default_rng(bits)
    layers = []
    for layer in graph.layers:
        if not isinstance(layer, MaxPool):
            q, more = layer.requantize, bits - 17
            low = random.integers(0, 1 << more, len(q.multiplier)) | 1
            layer = replace(layer, requantize=replace(q, multiplier=(q.multiplier << more) + low, shift=q.shift + more))
        layers.append(layer)
    return replace(graph, layers=tuple(layers))


@pytest.mark.parametrize("bits", [22, 32])
def test_wide_multipliers_have_room_for_their_bits(bits: int) -> None:
    base, new = with_room(wide(graph_of(1), bits)), wide(graph_of(2), bits)
    assert base.layers[0].requantize.factor_bits == bits
    assert with_room(graph_of(1)).layers[0].requantize.factor_bits == 18
    graph, problems = fitted(new, base)
    assert problems == []
    assert np.array_equal(run(graph, frames())["y"], run(new, frames())["y"])
    assert text_of(graph) == text_of(base)


def test_small_ratios_are_rounded_where_no_result_moves() -> None:
    base, new = with_room(graph_of(1)), graph_of(2)
    conv = new.layers[0]
    tiny = replace(conv.requantize, shift=conv.requantize.shift + np.array([0, 0, 0, 3]))
    graph, problems = fitted(replace(new, layers=(replace(conv, requantize=tiny), *new.layers[1:])), base)
    assert problems == []
    ratios = graph.layers[0].requantize.multiplier / 2.0**graph.layers[0].requantize.shift
    assert np.allclose(ratios, tiny.multiplier / 2.0**tiny.shift, rtol=2.0**-12)


def test_every_difference_is_named() -> None:
    base, new = with_room(graph_of(1)), graph_of(2, zero_point=5)
    _, problems = fitted(new, base)
    assert problems == [
        "tensor 'a': zero point must be 3, not 5", "tensor 'b': zero point must be 3, not 5",
        "layer 'conv': zero point must be 3, not 5"]
    _, problems = fitted(graph_of(2, stage="thresholds"), base)
    assert problems == ["layer 'conv': results must be made by multiplication, not by thresholds; set output_stage in "
                        "the settings of the first model"]


@pytest.mark.parametrize(("change", "message"), [
    ({"shift": -3}, "ratios must be from about"), ({"bias": 1 << 24}, "biases must be from")])
def test_what_has_no_room_is_named(change: dict[str, int], message: str) -> None:
    base, new = with_room(graph_of(1)), graph_of(2)
    (name, amount), conv = next(iter(change.items())), new.layers[0]
    other = replace(conv.requantize, **{name: getattr(conv.requantize, name) + amount})
    _, problems = fitted(replace(new, layers=(replace(conv, requantize=other), *new.layers[1:])), base)
    assert len(problems) == 1
    assert problems[0].startswith(f"layer 'conv': {message}")


def test_sums_that_are_too_wide_are_named() -> None:
    small, new = graph_of(1), graph_of(2)
    conv = replace(small.layers[0], weights=small.layers[0].weights // 30)
    base = with_room(replace(small, layers=(conv, *small.layers[1:])))
    _, problems = fitted(new, base)
    assert len(problems) == 1
    assert "layer 'conv': sums must be inside" in problems[0]


def test_other_layers_are_refused() -> None:
    base = with_room(graph_of(1))
    new = graph_of(2)
    pool = replace(new.layers[1], kernel=(1, 1))
    assert fitted(replace(new, layers=(new.layers[0], pool, new.layers[2])), base)[1][0] == (
        "layer 'pool': kernel must be (2, 2), not (1, 1)")
    shorter = replace(new, layers=new.layers[:2])
    assert fitted(shorter, base)[1] == ["the layers must be conv, max_pool, dense, not conv, max_pool"]


def test_a_loop_has_room_for_other_weights() -> None:
    """The hardware's text is the same for both, but for the contents of ROMs; a function of another kind is refused."""
    graph, other = (recurrent_graph("gru", 4, steps=2) for _ in range(2))
    loop, random = other.layers[0], np.random.default_rng(1)
    assert isinstance(loop, Recurrent)
    weights = random.integers(-100, 101, loop.hidden_weights.shape)
    bias = random.permutation(loop.hidden_rescale.bias)
    other = replace(other, layers=(replace(
        loop, hidden_weights=weights, hidden_rescale=replace(loop.hidden_rescale, bias=bias)),))
    base = with_room(graph)
    made, problems = fitted(other, base)
    assert not problems
    assert text_of(made) == text_of(base)
    sums = np.random.default_rng(2).integers(-9000, 9000, (3, 1, 2, 12))
    assert np.array_equal(run(made, sums)["y"], run(other, sums)["y"])
    assert with_rescale_of(graph, base).layers == graph.layers
    coarse = replace(other, layers=(replace(other.layers[0], gate_fraction=11),))
    assert fitted(coarse, base)[1] == ["layer 'loop': gate fraction must be 12, not 11"]
