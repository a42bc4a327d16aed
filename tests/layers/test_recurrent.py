"""Recurrent layers: sequences that go on from frame to frame, and what is refused."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from hwflow import golden
from hwflow.layers import Frame, IntFormat, LayerGraph, Tensor
from hwflow.layers.recurrent import Recurrent
from tests.layers.recurrent_cases import random_layer
from tests.layers.recurrent_reference import recurrent


def graph_of(layer: Recurrent, steps: int, y: IntFormat) -> LayerGraph:
    x = Tensor("x", Frame(1, steps, len(layer.hidden_weights)), layer.input_format, 0.5, 0)
    graph = LayerGraph("one", {"x": x, "y": Tensor("y", Frame(1, steps, layer.hidden), y, 0.25, 0)}, (layer,), ("x",),
                       ("y",))
    graph.check()
    return graph


def test_a_layer_is_the_plain_loop() -> None:
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = IntFormat(int(rng.integers(2, 17)), True)
        layer = random_layer(rng, y=y)
        low, high = layer.input_format.low, layer.input_format.high
        frames = rng.integers(low, high + 1, (3, 1, 4, len(layer.hidden_weights)))
        frames[1], frames[2, 0, :2] = low, high
        found = golden.run(graph_of(layer, 4, y), frames)["y"]
        np.testing.assert_array_equal(found, recurrent(layer, frames)[0], err_msg=f"seed {seed}")


@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_a_sequence_goes_on_from_frame_to_frame(cell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over the blocks of the golden model, too, and over two calls."""
    monkeypatch.setattr(golden, "_ROWS", 3)
    for seed in range(5):
        rng = np.random.default_rng(seed)
        y = IntFormat(8, True)
        layer = random_layer(rng, cell=cell, y=y, streaming=True)
        graph = graph_of(layer, 3, y)
        frames = rng.integers(layer.input_format.low, layer.input_format.high + 1, (7, 1, 3, len(layer.hidden_weights)))
        expected, state = recurrent(layer, frames)
        assert np.array_equal(golden.run(graph, frames)["y"], expected)
        planes = np.ascontiguousarray(frames.transpose(3, 1, 2, 0))
        first, between = layer.resume(graph, None, planes[..., :2])
        second, after = layer.resume(graph, between, planes[..., 2:])
        assert np.array_equal(np.concatenate([first, second], axis=3).transpose(3, 1, 2, 0), expected)
        assert after is not None
        assert after.tolist() == state
        none, same = layer.resume(graph, between, planes[..., :0])
        assert none.shape[3] == 0
        assert np.array_equal(same, between)
        apart = golden.run(replace(graph, layers=(replace(layer, streaming=False),)), frames)["y"]
        assert np.array_equal(apart[:1], expected[:1])
        assert not np.array_equal(apart, expected)


GRU = random_layer(np.random.default_rng(3), cell="gru", hidden=4, y=IntFormat(8, True))
LSTM = random_layer(np.random.default_rng(3), cell="lstm", hidden=4, y=IntFormat(8, True))


@pytest.mark.parametrize("layer, change, message", [
    (GRU, {"cell": "mgu"}, "cell must be one of rnn, gru, lstm, not 'mgu'"),
    (GRU, {"hidden_weights": GRU.hidden_weights[:, :2]},
     "must be one row of pixels with 6 channels, the gate sums of 2 units, not 1x3x12"),
    (GRU, {"input_format": IntFormat(20, True)}, "input_format must be"),
    (GRU, {"hidden_bits": 17}, "the hidden state must have 2 to 16 bits, not 17"),
    (GRU, {"cell_bits": 8}, "the cell state must have 2 to 24 bits in an lstm, else 0, not 8"),
    (LSTM, {"cell_bits": 25}, "the cell state must have 2 to 24 bits in an lstm, else 0, not 25"),
    (LSTM, {"cell_fraction": -1}, "cell_fraction must be at least table_fraction"),
    (LSTM, {"candidate_fraction": 99}, "candidate_fraction must be within 24 of cell_fraction"),
    (LSTM, {"linear_before_reset": True}, "linear_before_reset must be of cell gru, not lstm"),
    (GRU, {"table_fraction": 40}, "fractions must be 0 <= table_fraction <= gate_fraction, not 40 and"),
    (GRU, {"initial": GRU.initial[:, :3]}, "the initial state must be int64 [1, 4], not int64 [1, 3]"),
    (GRU, {"initial": GRU.initial + 40000}, "the initial hidden state must be inside"),
    (GRU, {"gate_table": np.zeros(0, np.int64)}, "gate_table must have 2 to 16384 entries, not 0"),
    (GRU, {"gate_table": np.zeros(6, np.int64)}, "gate_table must be int64 [2**bits], not int64 [6]"),
    (GRU, {"output_table": GRU.gate_table}, "output_table must be empty for cell gru, not have"),
    (GRU, {"candidate_table": np.full(8, 99999)}, "candidate_table must be inside"),
    (GRU, {"hidden_weights": GRU.hidden_weights + 999}, "hidden weights must be inside"),
    (GRU, {"requantize": GRU.hidden_rescale}, "bias must be int64 [1], not int64 [12]"),
])
def test_fields_that_contradict_each_other(layer: Recurrent, change: dict, message: str) -> None:
    graph = graph_of(layer, 3, IntFormat(8, True))
    with pytest.raises(ValueError, match=re.escape(message)):
        replace(graph, layers=(replace(layer, **change),)).check()
