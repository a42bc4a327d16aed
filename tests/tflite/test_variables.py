"""Models that keep variables from run to run, as sequences: against the runtimes, and against loops of numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow.onnx
from hwflow.onnx.model import Array
from hwflow.onnx.run.sequences import in_order, state_pairs
from tests.tflite import runtimes
from tests.tflite.writer import Maker

WAKE_WORDS = ("alexa", "hey_jarvis", "hey_mycroft", "okay_nabu")


def sequence(data: bytes, rows: Array) -> Array:
    model = hwflow.onnx.infer(hwflow.onnx.loads(data))
    (found,) = in_order(model, {model.graph.inputs[0].name: rows}).values()
    return found


def sums(*, start: int | list[int] = 0, twice: bool = False, scale: float = 0.5) -> bytes:
    """y = variable + x, which is the variable of the next run; `twice` reads it again and gives that."""
    m, inner = Maker(), Maker()
    inner = m.subgraph("start")
    x, y = (m.tensor(name, [1, 4], "INT8", scale=0.5, zero=3) for name in ("x", "y"))
    before, again = (m.tensor(name, [1, 4], "INT8", scale=scale, zero=3) for name in ("before", "again"))
    handle = m.tensor("handle", [], "RESOURCE")
    m.operator("CALL_ONCE", [], [], "CallOnceOptions", {"graph": 1})
    m.operator("VAR_HANDLE", [], [handle], "VarHandleOptions", {"shared_name": "total"})
    m.operator("READ_VARIABLE", [handle], [before])
    m.operator("ADD", [before, x], [y], "AddOptions")
    m.operator("ASSIGN_VARIABLE", [handle, y], [])
    if twice:
        m.operator("READ_VARIABLE", [handle], [again])
    inner_handle = inner.tensor("handle", [], "RESOURCE")
    value = inner.tensor("zeros", [1, 4], "INT8", np.broadcast_to(3 + np.array(start), (1, 4)), scale=0.5, zero=3)
    inner.operator("VAR_HANDLE", [], [inner_handle], "VarHandleOptions", {"shared_name": "total"})
    inner.operator("ASSIGN_VARIABLE", [inner_handle, value], [])
    return m.file([x], [again if twice else y], inner.fields([], []))


@pytest.mark.parametrize("start", [0, 17])
@pytest.mark.parametrize("twice", [False, True])
def test_a_variable_is_what_the_run_before_left(twice: bool, start: int) -> None:
    rows = np.random.default_rng(0).integers(-10, 10, (20, 1, 4)).astype(np.int8)
    expected = np.clip(np.cumsum(rows.astype(np.int64) - 3, axis=0) + 3 + start, -128, 127)
    assert np.array_equal(sequence(sums(twice=twice, start=start), rows), expected)


def test_a_variable_may_begin_with_different_numbers() -> None:
    rows = np.full((3, 1, 4), 4, np.int8)
    assert np.array_equal(sequence(sums(start=[1, 2, 0, 90]), rows)[:, 0],
                          [[5, 6, 4, 94], [6, 7, 5, 95], [7, 8, 6, 96]])


def test_a_read_after_an_assignment_is_the_new_value_in_litert_too() -> None:
    rows = np.random.default_rng(1).integers(-10, 10, (20, 1, 4)).astype(np.int8)
    for twice in (False, True):
        data = sums(twice=twice)
        expected = np.array([row[0] for row in runtimes.run(runtimes.LITERT, data, [[row] for row in rows])])
        assert np.array_equal(sequence(data, rows), expected)


def test_the_pair_is_in_the_metadata() -> None:
    assert state_pairs(hwflow.onnx.loads(sums())) == {"total": "total_next"}


def test_scales_of_a_variable_must_be_one() -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(sums(scale=0.25))
    assert str(caught.value) == (
        "the model: operator 4 ASSIGN_VARIABLE: variable 'total' must have one type, shape and scale, not those of "
        "tensor 2 'before' (INT8 [1, 4], scale 0.25) and of tensor 1 'y' (INT8 [1, 4], scale 0.5); export the model "
        "again")


def speech(seconds: float) -> Array:
    """Sound like speech, int16 at 16 kHz: syllables of a voice whose pitch and resonances move, pauses, noise."""
    rng, count = np.random.default_rng(0), int(16000 * seconds)
    slow = np.interp(np.arange(count), np.arange(0, count + 2400, 2400), rng.uniform(0, 1, count // 2400 + 2))
    phase = np.cumsum((90 + 90 * slow) / 16000)
    loud = np.clip(np.sin(2 * np.pi * np.arange(count) / 16000 * 3.1) + 0.3, 0, 1)
    voice = np.zeros(count)
    for harmonic in range(1, 40):
        pitch = harmonic * (90 + 90 * slow)
        formants = (300 + 500 * slow, 1100 + 1200 * slow[::-1], 2600)
        gain = sum(np.exp(-((pitch - middle) / 150) ** 2) for middle in formants)
        voice += gain * np.sin(2 * np.pi * harmonic * phase)
    return np.clip(3000 * loud * voice + rng.normal(0, 60, count), -32768, 32767).astype(np.int16)


@pytest.mark.quick(1)
@pytest.mark.parametrize("name", WAKE_WORDS)
def test_wake_words(name: str) -> None:
    """200 frames of features: the probability is within 2 steps of 256 in 99 % of them."""
    data = runtimes.package_file("pymicro_wakeword", f"models/{name}.tflite")
    model = hwflow.onnx.infer(hwflow.onnx.loads(data))
    assert len(state_pairs(model)) == 6
    tensor = model.graph.inputs[0].tensor
    assert tensor is not None
    count = int(np.prod(tensor.shape)) // 40
    frames = runtimes.features(speech(200 * count / 100 + 0.2))[: 200 * count].reshape(200, *tensor.shape)
    rows = np.clip(np.round(frames / 0.101961 - 128), -128, 127).astype(np.int8)
    expected = np.array([row[0] for row in runtimes.run(runtimes.MICRO, data, [[row] for row in rows])]).astype(int)
    steps = np.abs(sequence(data, rows).astype(int) - expected)
    assert np.mean(steps <= 2) >= 0.99
