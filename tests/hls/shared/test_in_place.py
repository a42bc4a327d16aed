"""Tensors in the words of one that is read for the last time: what is computed stays right, and words are saved."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hwflow_rtl.shared.program import Program
from hwflow_rtl.shared.steps import Compute

from hwflow import golden, onnx
from hwflow.hls.shared.compile import compile_shared, shared_problems
from hwflow.hls.shared.frame_map import Over, placed
from hwflow.hls.shared.framing import ProgramSizes
from hwflow.layers import LayerGraph
from hwflow.onnx.build import Builder
from hwflow.quantize import quantize
from hwflow.stages.stage import Life
from tests.e2e.networks import rows_for
from tests.hls.shared.machine import program_for, require_equal
from tests.hls.shared.networks import shared_network
from tests.strategies.layer_graphs import frames_for

ROWS, COLUMNS, CHANNELS = 12, 10, 8


def require_no_word_is_read_late(program: Program) -> None:
    """Block after block: none reads a word that an earlier block of its step has written."""
    for step in program.steps:
        if not isinstance(step, Compute):
            continue
        addresses, inside = (each.reshape(step.loops.blocks, -1) for each in step.reads)
        written: set[int] = set()
        for block, address in enumerate(step.writes.reshape(-1).tolist()):
            assert not written & set(addresses[block][inside[block]].tolist())
            written.add(address)


def test_random_networks_in_place() -> None:
    """The golden model's tensors, never more words, and for all of these networks together a twentieth less."""
    plain = saved = 0
    for seed in range(30):
        graph = shared_network(seed)
        if shared_problems(graph, graph.layers):
            continue
        made = program_for(graph, single_port=False, bands=1 + seed % 4)
        values = golden.run(graph, frames_for(graph, 1, seed))
        require_equal(made, {name: each[0] for name, each in values.items()})
        require_no_word_is_read_late(made.program)
        plain += (apart := program_for(graph).frames.words)
        assert made.frames.words <= apart
        saved += apart - made.frames.words
    assert saved > plain / 20


@pytest.fixture(scope="module")
def block() -> LayerGraph:
    """first, up (1 x 1), deep (3 x 3, depthwise), down (1 x 1), and the sum with what `first` made."""
    rng, b = np.random.default_rng(2), Builder("block")

    def conv(x: str, name: str, kernel: int, group: int) -> str:
        weights = rng.standard_normal((CHANNELS, CHANNELS // group, kernel, kernel)).astype(np.float32)
        return b.node("Conv", x, b.constant(f"{name}.w", weights), name=name, output=name, group=group,
                      pads=(kernel // 2,) * 4)

    first = conv(b.input("x", np.float32, (1, CHANNELS, ROWS, COLUMNS)), "first", 1, 1)
    down = conv(conv(conv(first, "up", 1, 1), "deep", 3, CHANNELS), "down", 1, 1)
    b.output(b.node("Add", first, down, name="add", output="y"))
    model = onnx.infer(b.model(opset=20))
    return quantize(model, rows_for(model, 2)).graph


@pytest.mark.parametrize(("bands", "rows"), [(2, 6), (5, 3), (12, 1)])
def test_a_residual_block_needs_two_frames_and_a_band(block: LayerGraph, bands: int, rows: int) -> None:
    """Not three: the depthwise convolution moves a row and a pixel towards word 0, the product by a band back."""
    words = CHANNELS // 4
    frame, row = ROWS * COLUMNS * words, COLUMNS * words
    made = program_for(block, single_port=False, bands=bands)
    first, up, deep, down, output = (made.frames[layer.output] for layer in block.layers)
    assert deep.base == up.base - row - words
    assert down.base == deep.base + rows * row
    assert output.base == first.base
    assert program_for(block).frames.words == 3 * frame
    assert made.frames.words == 2 * frame + max(row + words, rows * row)
    values = golden.run(block, frames_for(block, 1, 0))
    require_equal(made, {name: each[0] for name, each in values.items()})
    require_no_word_is_read_late(made.program)


def test_chains_are_placed_together() -> None:
    """By hand: b lies 3 words before a, c 2 words after b; x is alive with all of them, y with c alone."""
    lives = [Life("a", 10, 0, 1), Life("b", 10, 1, 2), Life("c", 10, 2, 4), Life("x", 5, 0, 3), Life("y", 5, 4, 5)]
    found = placed(lives, over={"b": Over("a", -3), "c": Over("b", 2)})
    assert found["b"].base == found["a"].base - 3
    assert found["c"].base == found["b"].base + 2
    assert found.words == 18


def test_words_that_are_needed_again_stay_free() -> None:
    """The input of the next frame comes from step 4 on: what is alive then is elsewhere."""
    lives = [Life("x", 8, 0, 1, again=4), Life("a", 8, 1, 3), Life("b", 6, 4, 5)]
    assert placed([replace(lives[0], again=None), *lives[1:]]).words == 16
    found = placed(lives)
    assert found.words == 16
    x, b = found["x"], found["b"]
    assert x.base + x.words <= b.base or b.base + b.words <= x.base


def test_frames_of_other_stages_come_in_as_early_as_words_allow(block: LayerGraph) -> None:
    """All but the first layer in a stage: with words for another frame the next one comes in after the last read."""
    made = {ahead: compile_shared(block, block.layers[1:], ProgramSizes(
        columns=4, lanes=1, interval=1, words=None, single_port=False, buffer=256, stream_rows=4, bands=4,
        words_ahead=ahead)) for ahead in (0, 10000)}
    first = block.layers[0].output
    for ahead, each in made.items():
        opens = each.program.opens
        assert opens is not None
        assert (each.frames[first].again is None) == (opens == 0)
        reads = [k for k, making in enumerate(each.makings) if making.layer == "add"]
        assert opens == 0 or opens > each.makings[reads[-1]].step
        assert ahead == 0 or opens == len(each.program.steps) - 1
    assert made[0].frames.words <= made[10000].frames.words
