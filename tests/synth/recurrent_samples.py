"""Stages of recurrent layers by their sizes, for `unit_samples`."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.vendor import Technology

from hwflow.layers import Frame, IntFormat, LayerGraph, Recurrent, Requantize, Tensor
from hwflow.layers.recurrent import GATES
from hwflow.stages.folding import Folding
from hwflow.stages.kinds import stage_of
from tests.synth.sample import Sample

INT8, INT16 = IntFormat(8, True), IntFormat(16, True)


def functions(bits: int) -> tuple[np.ndarray, np.ndarray]:
    """Sigmoid and tanh of -8 to 8 in steps of 2**-15."""
    x = np.arange(-(1 << bits - 1), 1 << bits - 1) / (1 << bits - 4)
    found = (32768 / (1 + np.exp(-x)), 32768 * np.tanh(x))
    return tuple(np.rint(values).clip(-32768, 32767).astype(np.int64) for values in found)  # type: ignore[return-value]


def recurrent_graph(cell: str, hidden: int, steps: int = 8, after: bool = False, table_bits: int = 10,
                    cell_bits: int = 18) -> LayerGraph:
    """A loop with weights of all sizes, whose sums are about as wide as those of its gates."""
    rng, rows, lstm = np.random.default_rng(hidden), len(GATES[cell]) * hidden, cell == "lstm"
    gate, candidate = functions(table_bits)
    empty, fraction = np.zeros(0, np.int64), table_bits - 4
    sums = Requantize(
        rng.integers(-1 << 20, 1 << 20, rows), rng.integers(1 << 17, 1 << 18, rows), rng.integers(29, 31, rows), 0,
        INT16.low, INT16.high)
    out = Requantize(*(np.array([value]) for value in (0, 1, 8)), 0, INT8.low, INT8.high)
    layer = Recurrent(
        name="loop", inputs=("x",), output="y", cell=cell, input_format=INT16,
        hidden_weights=rng.integers(-127, 128, (rows, hidden)), weight_format=INT8, hidden_rescale=sums,
        gate_fraction=12, gate_table=empty if cell == "rnn" else gate, candidate_table=candidate,
        output_table=candidate if lstm else empty, table_fraction=fraction, hidden_bits=16, hidden_fraction=15,
        cell_bits=cell_bits if lstm else 0, cell_fraction=cell_bits - 4 if lstm else 0,
        candidate_fraction=15 if lstm else 0, initial=np.zeros((1 + lstm, hidden), np.int64), requantize=out,
        linear_before_reset=after, streaming=False)
    tensors = {"x": Tensor("x", Frame(1, steps, rows), INT16, 2.0**-12, 0),
               "y": Tensor("y", Frame(1, steps, hidden), INT8, 2.0**-7, 0)}
    return LayerGraph("loop", tensors, (layer,), ("x",), ("y",))


def stage(technology: Technology, cell: str, hidden: int, rows: int, cols: int, lanes: int, after: bool = False,
          cell_bits: int = 18) -> Sample:
    graph = recurrent_graph(cell, hidden, after=after, cell_bits=cell_bits)
    (layer,) = graph.layers
    assert isinstance(layer, Recurrent)
    (style,) = stage_of(graph, layer).styles(technology) or (MultiplierStyle.BLOCKS,)
    folding = Folding(rows, cols, lanes, style)
    return Sample(lambda: stage_of(graph, layer).unit(folding, technology),
                  lambda: stage_of(graph, layer).cost(folding, technology))


RECURRENT: Mapping[str, Callable[..., Sample]] = {"RecurrentStage": stage}
