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


def sums(*, start: int | None = 0, twice: bool = False, scale: float = 0.5) -> bytes:
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
    value = inner.tensor("zeros", [1, 4], "INT8", np.full((1, 4), 3 + (start or 0)), scale=0.5, zero=3)
    inner.operator("VAR_HANDLE", [], [inner_handle], "VarHandleOptions", {"shared_name": "total"})
    inner.operator("ASSIGN_VARIABLE", [inner_handle, value], [])
    return m.file([x], [again if twice else y], inner.fields([], []))


@pytest.mark.parametrize("twice", [False, True])
def test_a_variable_is_what_the_run_before_left(twice: bool) -> None:
    rows = np.random.default_rng(0).integers(-10, 10, (20, 1, 4)).astype(np.int8)
    expected = np.clip(np.cumsum(rows.astype(np.int64) - 3, axis=0) + 3, -128, 127)
    assert np.array_equal(sequence(sums(twice=twice), rows), expected)


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
        "the model: operator 4 ASSIGN_VARIABLE: variable 'total' must have one type, shape and scale, not those of tensor "
        "2 'before' (INT8 [1, 4], scale 0.25) and of tensor 1 'y' (INT8 [1, 4], scale 0.5); export the model again")


@pytest.mark.parametrize("name", WAKE_WORDS)
@pytest.mark.parametrize("engine", [runtimes.MICRO, runtimes.LITERT])
def test_wake_words(name: str, engine: str) -> None:
    """The probability of 200 frames of noise and pauses: within 2 steps of 256 in 99 % of them."""
    data = runtimes.package_file("pymicro_wakeword", f"models/{name}.tflite")
    model = hwflow.onnx.infer(hwflow.onnx.loads(data))
    assert len(state_pairs(model)) == 6
    shape = model.graph.inputs[0].tensor.shape
    rng = np.random.default_rng(0)
    level = np.where(np.arange(200) // 30 % 3 == 1, -110, -40).reshape(-1, *[1] * len(shape))
    rows = np.clip(rng.normal(level, 40, (200, *shape)), -128, 127).astype(np.int8)
    expected = np.array([row[0] for row in runtimes.run(engine, data, [[row] for row in rows])]).astype(int)
    steps = np.abs(sequence(data, rows).astype(int) - expected)
    assert np.mean(steps <= 2) >= 0.99
