"""WHILE: a Loop, and the recurrent layers that TensorFlow writes with it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

import hwflow
import hwflow.onnx
from hwflow.layers import Recurrent
from hwflow.onnx.inference.static import infer
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array
from tests.tflite import runtimes
from tests.tflite.writer import Maker

#: Made by `make_loops.py`.
with np.load(Path(__file__).with_name("loops.npz")) as _archive:
    RECORD = dict(_archive)
KERAS = sorted(name.removesuffix(": file") for name in RECORD if name.endswith(": file"))


@pytest.mark.parametrize("name", KERAS)
def test_keras_layers_are_recurrent_layers(name: str) -> None:
    rows, expected = RECORD["rows"], RECORD[f"{name}: results"]
    model = hwflow.onnx.loads(RECORD[f"{name}: file"].tobytes())
    (source,) = model.graph.inputs
    static = infer(model)
    kinds = [node.op_type for node in static.graph.nodes]
    assert [kind for kind in kinds if kind in ("RNN", "GRU", "LSTM", "Loop", "Tanh")] == [name.split()[0]]
    for each in (model, static):
        found = [next(iter(hwflow.onnx.evaluate(each, {source.name: row[None]}).values()))[0] for row in rows]
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_a_keras_layer_is_one_layer_of_hardware() -> None:
    model = hwflow.onnx.loads(RECORD["GRU sequence: file"].tobytes())
    rows, expected = RECORD["rows"], RECORD["GRU sequence: results"]
    made = hwflow.quantize_model(model, {model.graph.inputs[0].name: rows[:, None]})
    assert sum(isinstance(layer, Recurrent) for layer in made.graph.layers) == 1
    (found,) = hwflow.run_golden(made, rows[:, None]).values()
    assert np.abs(found.reshape(expected.shape) - expected).max() < 0.02 * np.abs(expected).max()


def doubling(limit: int | None, *, body: int = 2, condition: str = "LESS", result: str = "BOOL", quantized: bool = False
             ) -> bytes:
    """x doubled while a counter from 0 is below `limit`, or below the first element of x; the sum of x and the last."""
    m = Maker()
    cond, turn = m.subgraph("condition"), m.subgraph("body")
    kind = {"type_": "INT8", "scale": 0.5, "zero": 3} if quantized else {"type_": "FLOAT32"}
    type_ = str(kind.pop("type_"))

    def carried(graph: Maker) -> list[int]:
        return [graph.tensor("n", [], "INT32"), graph.tensor("value", [3], type_, **kind)]

    x = m.tensor("x", [3], type_, **kind)
    start = m.tensor("zero", [], "INT32", np.int32(0))
    ends, y = carried(m), m.tensor("y", [3], type_, **kind)
    m.operator("WHILE", [start, x], ends, "WhileOptions", {"condition": 1, "body": body})
    m.operator("ADD", [x, ends[1]], [y], "AddOptions")
    given = carried(cond)
    most = cond.tensor("most", [], "INT32", np.int32(limit or 0))
    if limit is None:
        whole, first = cond.tensor("whole", [3], "INT32"), cond.tensor("first", [1], "INT32")
        cond.operator("CAST", [given[1]], [whole])
        cond.operator("SLICE", [whole, *(cond.tensor(name, [1], "INT32", [k]) for k, name in enumerate(("b", "s")))],
                      [first])
        most = cond.tensor("scalar", [], "INT32")
        cond.operator("RESHAPE", [first, cond.tensor("shape", [0], "INT32", np.zeros(0, np.int32))], [most])
    goes = cond.tensor("goes", [], result)
    cond.operator(condition, [given[0], most], [goes])
    taken, made = carried(turn), carried(turn)
    turn.operator("ADD", [taken[0], turn.tensor("one", [], "INT32", np.int32(1))], [made[0]], "AddOptions")
    turn.operator("ADD", [taken[1], taken[1]], [made[1]], "AddOptions")
    return m.file([x], [y], cond.fields(given, [goes]), turn.fields(taken, made))


def computed(data: bytes, x: Array) -> Array:
    return hwflow.onnx.evaluate(hwflow.onnx.loads(data), {"x": x})["y"]


@pytest.mark.parametrize("rounds", [0, 1, 5])
def test_as_many_rounds_as_the_condition_says(rounds: int) -> None:
    x = np.float32([1, -2, 0.5])
    assert np.array_equal(computed(doubling(rounds), x), x + x * 2**rounds)
    whole = np.int8([4, 3, 2])
    assert np.array_equal(computed(doubling(rounds, quantized=True), whole), whole + (whole - 3) * 2**rounds)
    static = infer(hwflow.onnx.loads(doubling(rounds)))
    assert {node.op_type for node in static.graph.nodes} - {"Identity"} == {"Add"}


def test_data_may_decide_where_it_is_evaluated() -> None:
    """Not in hardware; and a loop that goes on and on is stopped."""
    data = doubling(None)
    x = np.float32([-1, 2, 3])
    assert np.array_equal(computed(data, x), 2 * x)
    endless = hwflow.onnx.loads(data)
    with pytest.raises(HwflowError, match="all loops together must be at most 10 iterations"):
        hwflow.onnx.evaluate(endless, {"x": np.float32([1, 0, 0])}, limits=Limits(iterations=10))
    with pytest.raises(HwflowError, match="its condition must be constant, not computed from the inputs"):
        infer(hwflow.onnx.loads(data))


def test_litert_has_the_same() -> None:
    x = np.float32([1, -2, 0.5])
    for data in (doubling(0), doubling(3)):
        assert np.array_equal(runtimes.run(runtimes.LITERT, data, [[x]])[0][0], computed(data, x))


@pytest.mark.parametrize(("change", "message"), [
    ({"body": 0}, "operator 0 WHILE 'n': must call one of the 3 subgraphs after the first, at most 8 deep, not 0"),
    ({"body": 1}, "operator 0 WHILE 'n': subgraph 1 must have as many inputs and outputs as its call"),
    ({"condition": "SUB", "result": "INT32"}, "subgraph 1 must be one BOOL, not INT32 []"),
])
def test_refused(change: dict[str, int | str], message: str) -> None:
    with pytest.raises(HwflowError) as caught:
        hwflow.onnx.loads(doubling(2, **change))
    assert message in str(caught.value)
