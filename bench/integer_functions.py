"""Softmax and normalization in integers: how far from float64, and what their stages take.

    python -m bench functions

Out: two tables.  The first compares the golden integers of random rows with the operator in float64:
`beyond rounding` is how far an integer is from the real result, less the half step of any rounding; `differ` is the
share of elements that are not the real result rounded, and none of them is off by more than one.  The second has each
stage alone: what synthesis makes of it, and the cycles from the last element of a row to its first result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from hwflow_rtl.rows.normalize import NormalizeStage
from hwflow_rtl.rows.softmax import SoftmaxStage

from bench.sections import Bench, table
from hwflow.layers import Frame, IntArray, LayerGraph, Normalize, Softmax, Tensor
from hwflow.layers.formats import IntFormat
from hwflow.stages.kinds import stage_of
from hwflow.synth import load_board
from tests.synth.side_by_side import used_by
from tests.synth.stage_samples import normalize_graph, softmax_graph
from tests.synth.unit_samples import sample_of

INT8, UINT8 = IntFormat(8, True), IntFormat(8, False)
#: Rows at a time.
BLOCK = 4096
#: Rows in all, elements of a row, scale of the input.
VECTORS, LENGTHS, SCALE = 1_000_000, (64, 16), 0.1
BOARD = "ulx3s_85f"
#: Elements of a row, and lanes.
SHAPES = ((64, 1), (64, 4), (256, 1), (256, 4))


def rows(rng: np.random.Generator, count: int, length: int) -> IntArray:
    """Integers of 8 bits: of any, of some and of little spread, around any mean, with a few far away."""
    spread = rng.choice([1.0, 5.0, 20.0, 60.0], (count, 1))
    values = rng.normal(rng.uniform(-60, 60, (count, 1)), spread, (count, length))
    values += np.where(rng.random((count, length)) < 0.02, rng.uniform(-120, 120, (count, length)), 0)
    return np.clip(np.rint(values), -128, 127).astype(np.int64)


def graph_of(kind: str, length: int) -> tuple[LayerGraph, np.ndarray, np.ndarray]:
    """The layer on rows of `length`, and its gamma and beta."""
    frame, rng = Frame(1, BLOCK, length), np.random.default_rng(length)
    x = Tensor("x", frame, INT8, SCALE, 3)
    gamma, beta = rng.normal(1, 0.3, (1, length)), rng.normal(0, 0.5, (1, length))
    y = Tensor("y", frame, UINT8, 1 / 256, 0) if kind == "softmax" else Tensor("y", frame, INT8, 5 / 128, 0)
    layer: Softmax | Normalize
    if kind == "softmax":
        layer = Softmax.of("f", x, y)
    else:
        layer = Normalize.of("f", x, y, centred=kind == "layer", mean=True, epsilon=1e-5, gamma=gamma, beta=beta)
    return LayerGraph("f", {"x": x, "y": y}, (layer,), ("x",), ("y",)), gamma[0], beta[0]


def real(kind: str, x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The operator in float64."""
    if kind == "softmax":
        powers = np.exp(x - x.max(axis=1, keepdims=True))
        return powers / powers.sum(axis=1, keepdims=True)
    if kind == "layer":
        x = x - x.mean(axis=1, keepdims=True)
    return x / np.sqrt((x * x).mean(axis=1, keepdims=True) + 1e-5) * gamma + beta


def errors(kind: str, length: int, vectors: int) -> list[str]:
    """A row of the first table."""
    graph, gamma, beta = graph_of(kind, length)
    (layer,), y, rng = graph.layers, graph.tensors["y"], np.random.default_rng(0)
    assert isinstance(layer, (Softmax, Normalize))
    worst, differ, steps = 0.0, 0, 0
    for _ in range(-(-vectors // BLOCK)):
        x = rows(rng, BLOCK, length)
        made = layer.evaluate(graph, x[None, None])[0, 0]
        exact = np.clip(real(kind, (x - 3) * SCALE, gamma, beta) / y.scale, y.format.low, y.format.high)
        off = np.abs(made - np.rint(exact))
        worst, steps = max(worst, float(np.abs(made - exact).max()) - 0.5), max(steps, int(off.max()))
        differ += int(np.count_nonzero(off))
    share = differ / (-(-vectors // BLOCK) * BLOCK * length)
    return [kind, str(length), f"{worst:.3f}", f"{layer.error(graph):.3f}", f"{share:.2%}", str(steps)]


def latency(kind: str, length: int, lanes: int, board: str) -> int:
    """Cycles from the last beat of a row to its first result."""
    graph = softmax_graph(length) if kind == "softmax" else normalize_graph(length, centred=kind == "layer")
    technology, arrivals = load_board(board).technology(), np.arange(length // lanes, dtype=np.int64)
    (layer,) = graph.layers
    assert isinstance(layer, (Softmax, Normalize))
    folding = next(each for each in stage_of(graph, layer).foldings() if each.lanes == lanes)
    times = stage_of(graph, layer).times(folding, technology, arrivals)
    return int(times.departures[0] - times.taken[0][-1])


def stages(board: str, folder: Path) -> Iterator[list[str]]:
    """The rows of the second table."""
    technology = load_board(board).technology()
    kinds = [(kind, *shape) for kind in ("softmax", "layer", "rms") for shape in SHAPES]
    units = []
    for kind, elements, lanes in kinds:
        name = (SoftmaxStage if kind == "softmax" else NormalizeStage).__name__
        own = {} if kind == "softmax" else {"centred": kind == "layer"}
        units.append(sample_of({"unit": name, "elements": elements, "lanes": lanes, **own}, technology).unit())
    for (kind, elements, lanes), used in zip(kinds, used_by(units, load_board(board), folder), strict=True):
        yield [kind, str(elements), str(lanes), str(used.lut), str(used.ff), str(used.dsp), str(used.ram),
               str(elements // lanes), str(latency(kind, elements, lanes, board))]


def functions(bench: Bench) -> str:
    """Softmax and normalization against float64 over a million rows, and what their stages take."""
    found = [errors(kind, length, VECTORS) for kind in ("softmax", "layer", "rms") for length in LENGTHS]
    return "\n\n".join((
        table(("function", "elements", "beyond rounding, steps", "proved", "differ", "largest"), found),
        table(("stage", "elements", "lanes", "LUT", "FF", "DSP", "RAM", "cycles a row", "latency"),
              list(stages(BOARD, bench.folder / "functions")))))


FUNCTION_SECTIONS: dict[str, Callable[[Bench], str]] = {"functions": functions}
