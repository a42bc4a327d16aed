"""What holds for every kind of layer: its meaning in plain loops, at the ends of its inputs too, and its files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import KINDS, Layer, LayerGraph, conv, elementwise, rescale_planes, rows
from hwflow.layers.store import load_graph, save_graph
from tests.layers.cases import CASES, integers

ROUNDS = 40


def frames_of(rng: np.random.Generator, graph: LayerGraph) -> dict[str, np.ndarray]:
    """For each input random frames, one of nothing but the lowest, one of nothing but the highest integer."""
    found = {}
    for name in graph.inputs:
        t = graph.tensors[name]
        shape = (t.frame.height, t.frame.width, t.frame.channels)
        ends = [np.full((1, *shape), end) for end in (t.format.low, t.format.high)]
        found[name] = np.concatenate([integers(rng, t.format, (2, *shape)), *ends])
    return found


def test_there_are_cases_of_every_kind() -> None:
    assert set(CASES) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_layer_is_the_plain_loop(kind: type[Layer]) -> None:
    for seed in range(ROUNDS):
        rng = np.random.default_rng(seed)
        case = CASES[kind](rng)
        case.graph.check()
        frames = frames_of(rng, case.graph)
        given = [frames[name] for name in case.layer.inputs]
        made = case.layer.evaluate(case.graph, *given)
        expected = np.stack([case.meaning(*(frames[name][k] for name in case.graph.inputs)) for k in range(4)])
        assert made.dtype == np.int64
        np.testing.assert_array_equal(made, expected, err_msg=f"seed {seed}")
        assert case.graph.tensors["y"].format.contains(made)
        np.testing.assert_array_equal(golden.run(case.graph, frames)["y"], made)
        none = golden.run(case.graph, {name: array[:0] for name, array in frames.items()})["y"]
        assert none.shape == (0, *made.shape[1:])


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_blocks_do_not_show(kind: type[Layer], monkeypatch: pytest.MonkeyPatch) -> None:
    """However few elements, rows and frames are taken at once."""
    cases = [CASES[kind](np.random.default_rng(seed)).graph for seed in range(20)]
    frames = [frames_of(np.random.default_rng(k), graph) for k, graph in enumerate(cases)]
    whole = [golden.run(graph, given)["y"] for graph, given in zip(cases, frames, strict=True)]
    for block in (1, 50):
        for module in (conv, elementwise, rescale_planes, rows):
            monkeypatch.setattr(module, "_BLOCK", block)
        monkeypatch.setattr(golden, "_ROWS", 3)
        for graph, given, expected in zip(cases, frames, whole, strict=True):
            np.testing.assert_array_equal(golden.run(graph, given)["y"], expected)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_a_layer_survives_its_files(kind: type[Layer], tmp_path: Path) -> None:
    for seed in range(5):
        graph = CASES[kind](np.random.default_rng(seed)).graph
        save_graph(graph, tmp_path)
        assert load_graph(tmp_path) == graph


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.kind)
def test_an_input_outside_its_format_is_refused(kind: type[Layer]) -> None:
    rng = np.random.default_rng(0)
    case = CASES[kind](rng)
    frames = frames_of(rng, case.graph)
    name = case.layer.inputs[0]
    frames[name][0, 0, 0, 0] = case.graph.tensors[name].format.high + 1
    with pytest.raises(ValueError, match=rf"layer '{case.layer.name}': input '{name}' must be inside"):
        case.layer.evaluate(case.graph, *(frames[name] for name in case.layer.inputs))
