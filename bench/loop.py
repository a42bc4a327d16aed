"""Recurrent layers: a GRU with random weights, as PyTorch writes one, and what its loop costs by multipliers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.sections import Bench, table
from hwflow.layers import LayerGraph, Recurrent
from hwflow.onnx.model import Model
from hwflow.stages.folding import Folding, Schedule
from hwflow.stages.kinds import stage_of
from hwflow.stages.rescalers import REFERENCE
from tests.quantize.net import Net
from tests.synth.stage_samples import recurrent_graph

STEPS, FEATURES, UNITS = 25, 12, 64
#: Cells, and of a gru whether r comes after the product.
CELLS = {"gru, linear_before_reset 1": ("gru", True), "gru, linear_before_reset 0": ("gru", False),
         "lstm": ("lstm", False), "rnn": ("rnn", False)}
#: Fewer are always busy, and more than an LFE5U-85F has are of no use to it.
MULTIPLIERS = (16, 32, 64, 128, 256)


def gru_64() -> Model:
    """25 steps of 12 features, 64 units, the whole sequence as the result: 365 thousand multiplications."""
    n = Net((STEPS, FEATURES))
    rows, deviation = 3 * UNITS, UNITS**-0.5
    sizes = (rows, FEATURES), (rows, UNITS), (2 * rows,)
    w, r, b = (n.constant(n.normal(1, *size, deviation=deviation)) for size in sizes)
    first = n.node("Transpose", n.x, perm=(1, 0, 2))
    made = n.node("GRU", first, w, r, b, hidden_size=UNITS, linear_before_reset=1)
    steps = n.node("Squeeze", made, n.constant(np.array([1]), np.int64))
    return n.model(n.node("Transpose", steps, perm=(1, 0, 2)))


def loops(bench: Bench) -> str:
    """The loop of 64 units over 25 steps, by its multipliers: cycles of a step, and how many of them they multiply."""
    rows = []
    for name, (cell, after) in CELLS.items():
        graph = recurrent_graph(cell, UNITS, steps=STEPS, after=after, table_bits=11)
        (layer,) = graph.layers
        assert isinstance(layer, Recurrent)
        for count, (folding, schedule) in fastest(layer, graph).items():
            hardware = stage_of(graph, layer)
            pace, shape = hardware.pace(folding), hardware.loop_shape(folding)
            step = pace.starts(shape)[-1] + pace.step
            work = layer.hidden_weights.size // count
            rows.append([name, str(count), f"{folding.rows} x {folding.cols}, {folding.lanes}", str(work), str(step),
                         f"{100 * work / step:.0f} %", str(schedule.interval)])
    return table(("cell", "multipliers", "rows x cols, lanes", "cycles at work in a step", "cycles of a step", "busy",
                  "interval"), rows)


def fastest(layer: Recurrent, graph: LayerGraph) -> dict[int, tuple[Folding, Schedule]]:
    """Of each number of multipliers the folding of the shortest interval; of equal ones that with the fewest lanes."""
    found: dict[int, tuple[Folding, Schedule]] = {}
    for folding in sorted(stage_of(graph, layer).foldings(), key=lambda each: each.lanes):
        count, schedule = folding.rows * folding.cols, stage_of(graph, layer).schedule(folding, REFERENCE)
        if folding.style.value == "blocks" and (
                count not in found or schedule.interval < found[count][1].interval):
            found[count] = folding, schedule
    return {count: found[count] for count in MULTIPLIERS}


LOOP_SECTIONS: dict[str, Callable[[Bench], str]] = {"loops": loops}
