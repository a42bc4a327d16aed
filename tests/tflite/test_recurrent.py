"""SVDF and UNIDIRECTIONAL_SEQUENCE_LSTM as sequences, against LiteRT's reference kernels."""

from __future__ import annotations

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.model import Array
from hwflow.onnx.run.sequences import state_pairs
from tests.tflite import runtimes
from tests.tflite.test_variables import sequence
from tests.tflite.writer import Maker

ROWS = 12


def svdf(width: str, rank: int, units: int, memory: int, seed: int) -> tuple[bytes, Array]:
    """A file and rows of x."""
    rng, m, filters, size = np.random.default_rng(seed), Maker(), units * rank, 6
    small = width != "FLOAT32"
    x = m.tensor("x", [1, size], width, scale=0.03 if small else None, zero=-7 if small else 0)
    y = m.tensor("y", [1, units], width, scale=0.05 if small else None, zero=11 if small else 0)
    if small:
        features = m.tensor("f", [filters, size], "INT8", rng.integers(-127, 128, (filters, size)), scale=0.01)
        time = m.tensor("t", [filters, memory], "INT16", rng.integers(-3000, 3000, (filters, memory)), scale=2.0**-13)
        state = m.tensor("s", [1, filters * memory], "INT16", scale=2.0**-11, variable=True)
        bias = m.tensor("b", [units], "INT32", rng.integers(-90000, 90000, units), scale=2.0**-24)
        rows = rng.integers(-128, 128, (ROWS, 1, size)).astype(np.int8)
    else:
        features = m.tensor("f", [filters, size], width, rng.normal(0, 0.5, (filters, size)))
        time = m.tensor("t", [filters, memory], width, rng.normal(0, 0.5, (filters, memory)))
        state = m.tensor("s", [1, filters * memory], width, variable=True)
        bias = m.tensor("b", [units], width, rng.normal(0, 0.5, units))
        rows = rng.normal(0, 1, (ROWS, 1, size)).astype(np.float32)
    options = {"rank": rank, "activation": 1 if small else seed % 2}
    m.operator("SVDF", [x, features, time, bias, state], [y], "SVDFOptions", options, version=3 if small else 1)
    return m.file([x], [y]), rows


def assert_runtime_agrees(width: str, data: bytes, rows: Array) -> None:
    """LiteRT's kernels give the same floats, and integers at most a step away."""
    expected = np.array([row[0] for row in runtimes.run(runtimes.LITERT, data, [[row] for row in rows])])
    found = sequence(data, rows)
    if width == "FLOAT32":
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-5)
    else:
        assert np.abs(found.astype(int) - expected.astype(int)).max() <= 1


@pytest.mark.parametrize("width", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("rank, units, memory", [(1, 4, 5), (2, 3, 8), (1, 1, 1)])
def test_svdf(width: str, rank: int, units: int, memory: int) -> None:
    for seed in range(2):
        data, rows = svdf(width, rank, units, memory, seed)
        assert_runtime_agrees(width, data, rows)


def lstm(width: str, *, coupled: bool, steps: int, major: bool, seed: int = 0) -> tuple[bytes, Array]:
    rng, m, size, units = np.random.default_rng(seed), Maker(), 5, 4
    small = width != "FLOAT32"
    shape = [steps, 1] if major else [1, steps]
    x = m.tensor("x", [*shape, size], width, scale=0.02 if small else None, zero=5 if small else 0)
    y = m.tensor("y", [*shape, units], width, scale=1 / 128 if small else None)

    def weights(name: str, columns: int) -> int:
        values = rng.normal(0, 0.5, (units, columns))
        if not small:
            return m.tensor(name, values.shape, width, values)
        scale = np.abs(values).max() / 127
        return m.tensor(name, values.shape, "INT8", np.round(values / scale), scale=scale)

    def bias(name: str, weight: int) -> int:
        values = rng.normal(0, 0.5, units)
        if not small:
            return m.tensor(name, [units], width, values)
        scale = 0.02 * m.tensors[weight][4][2][0]
        return m.tensor(name, [units], "INT32", np.round(values / scale), scale=scale)

    inputs = [-1 if coupled and k == 0 else weights(f"w{k}", size) for k in range(4)]
    recurrent = [-1 if coupled and k == 0 else weights(f"r{k}", units) for k in range(4)]
    biases = [-1 if index < 0 else bias(f"b{k}", index) for k, index in enumerate(inputs)]
    hidden = m.tensor("h", [1, units], width, scale=1 / 128 if small else None, variable=True)
    cell = m.tensor("c", [1, units], "INT16" if small else width, scale=2.0**-11 if small else None, variable=True)
    all_inputs = [x, *inputs, *recurrent, -1, -1, -1, *biases, -1, -1, hidden, cell, -1, -1, -1, -1]
    options = {"activation": 4, "cell_clip": 10.0, "time_major": major}
    m.operator("UNIDIRECTIONAL_SEQUENCE_LSTM", all_inputs, [y], "UnidirectionalSequenceLSTMOptions", options,
               version=3 if small else 1)
    if small:
        gates = [m.tensor(f"i{k}", [], "INT16", scale=2.0**-12) for k in range(4)]
        m.operators[-1][8] = np.array([*gates, m.tensor("i4", [], "INT8", scale=1 / 128)], np.int32)
    rows = rng.normal(0, 1, (ROWS, *shape, size)).astype(np.float32)
    return m.file([x], [y]), np.clip(np.round(rows / 0.02), -128, 127).astype(np.int8) if small else rows


@pytest.mark.parametrize("width", ["FLOAT32", "INT8"])
@pytest.mark.parametrize("coupled, steps, major", [(False, 1, True), (False, 6, False), (True, 3, True)])
def test_lstm(width: str, coupled: bool, steps: int, major: bool) -> None:
    """The kernel of int8 has gates of 16 bits and a cell of 16 bits, which a model in QDQ form has not: one step."""
    data, rows = lstm(width, coupled=coupled, steps=steps, major=major)
    assert len(state_pairs(hwflow.onnx.loads(data))) == 2
    assert_runtime_agrees(width, data, rows)
