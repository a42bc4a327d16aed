"""Files that come quantized: their elements to the last one, where that costs the board nothing, and without being
asked."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import hwflow
from hwflow import onnx
from hwflow.layers import LayerGraph
from hwflow.quantize import load_quantized
from tests.e2e.command import Cli
from tests.e2e.networks import rows_for, small_network
from tests.quantize.models import rows, runtime
from tests.quantize.test_rescale_bits import branches

DATA = ("--data", "m.npz")


@pytest.fixture
def expected(cli: Cli) -> np.ndarray:
    """The file m.onnx of somebody else, its rows, and what onnxruntime says of them."""
    model = branches()
    onnx.save(model, Path("m.onnx"))
    feeds = rows(model, 200)
    np.savez("m.npz", **{f"in_{key}": array for key, array in feeds.items()})  # type: ignore[arg-type]
    return runtime(model, feeds)


def integers(cli: Cli, *words: str, model: str = "m") -> LayerGraph:
    cli("golden", f"{model}.onnx", "--data", f"{model}.npz", "--layer-rows", "0", *words)
    return load_quantized(Path(f"build/{model}/quantized")).graph


def differing(expected: np.ndarray) -> int:
    """How many elements of the last run are others."""
    (ours,) = np.load("build/m/golden/outputs.npz").values()
    return int(np.count_nonzero(ours != expected[:, 0]))


def test_what_costs_nothing_is_exact(cli: Cli, expected: np.ndarray) -> None:
    exact, plain = (hwflow.quantize_model(hwflow.load("m.onnx"), rescale_bits=bits).graph for bits in ("auto", 18))
    assert exact != plain
    assert integers(cli) == exact
    wrong = [differing(expected)]
    assert integers(cli, "--rescale-bits", "18") == plain, "who says the bits gets them"
    wrong.append(differing(expected))
    assert wrong[0] <= 2, "where onnxruntime's float32 sums are next to a tie"
    assert wrong[0] < wrong[1]
    Path("s.yaml").write_text("default: {}\n", encoding="utf-8")
    assert integers(cli, "--settings", "s.yaml") == plain, "a settings file says all"


def test_where_it_costs_cycles_18_bits_stay_and_that_is_said(cli: Cli, expected: np.ndarray) -> None:
    said = cli("golden", "m.onnx", *DATA, "--board", "icebreaker")
    text = re.sub(r"\s+", " ", said.err + said.out)
    assert ("sums are rescaled with 18 bits, because more cost cycles on icebreaker: some elements may differ by one "
            "from the file's formula; with --rescale-bits auto none do") in text
    assert "--board icebreaker" in text.split("next:")[1], "the next command means the same integers"
    graph = load_quantized(Path("build/m/quantized")).graph
    assert graph == hwflow.quantize_model(hwflow.load("m.onnx"), rescale_bits=18).graph
    built = cli("build", "m.onnx", *DATA, "--board", "icebreaker")
    assert load_quantized(Path("build/m/quantized")).graph == graph, built.out
    asked = cli("golden", "m.onnx", *DATA, "--board", "icebreaker", "--rescale-bits", "auto")
    assert "sums are rescaled" not in asked.err


def test_what_hwflow_exported_means_what_it_was_exported_with(cli: Cli) -> None:
    model = onnx.simplify(small_network())
    onnx.save(model, Path("f.onnx"))
    np.savez("f.npz", **{f"in_{key}": array for key, array in rows_for(model, 50).items()})  # type: ignore[arg-type]
    cli("quantize", "f.onnx", "--data", "f.npz", "--export", "e.onnx")
    Path("e.npz").write_bytes(Path("f.npz").read_bytes())
    assert integers(cli, model="e") == load_quantized(Path("build/f/quantized")).graph
