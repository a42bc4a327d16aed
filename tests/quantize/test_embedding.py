"""Tables whose rows integers choose: golden model against onnxruntime and numpy, what exporters write, RTL."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError
from hwflow_base.work import Audience

from hwflow import golden, hls
from hwflow.layers import Conv, Embedding
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.pipeline.planning import budget_of
from hwflow.pipeline.simulation import compile_plan, run_plan
from hwflow.quantize import Quantized, quantize
from hwflow.synth import load_board
from tests.quantize.models import kinds, runtime

ROWS, WIDTH, LENGTH = 21, 8, 6
RANDOM = np.random.default_rng(7)
TABLE = RANDOM.normal(size=(ROWS, WIDTH)).astype(np.float32)
KERNEL = RANDOM.normal(size=(4, WIDTH, 3)).astype(np.float32)

#: Numbers in, rows [1, LENGTH, WIDTH] out.
Rows = Callable[[Builder, str], str]


def model(rows: Rows, dtype: type = np.int64) -> Model:
    """Rows of a table, a convolution along them, Relu."""
    b = Builder()
    found = rows(b, b.input("ids", dtype, (1, LENGTH)))
    made = b.node("Conv", b.node("Transpose", found, perm=(0, 2, 1)), b.constant("kernel", KERNEL), name="conv")
    b.output(b.node("Relu", made), np.float32)
    return b.model(opset=17)


def gathered(b: Builder, ids: str) -> str:
    return b.node("Gather", b.constant("table", TABLE), ids, name="words", axis=0)


def along_the_last_axis(b: Builder, ids: str) -> str:
    columns = b.node("Gather", b.constant("table", TABLE.T.copy()), ids, name="words", axis=1)
    return b.node("Transpose", columns, perm=(1, 2, 0))


def compared(b: Builder, ids: str) -> str:
    """As jax writes one-hot: numbers that are no row have a row of zeros."""
    classes = b.constant("classes", np.arange(ROWS, dtype=np.int64).reshape(1, 1, ROWS))
    column = b.node("Reshape", ids, b.constant("column", np.array([1, LENGTH, 1])))
    hot = b.node("Cast", b.node("Equal", column, classes), to=1)
    return b.node("MatMul", hot, b.constant("table", TABLE), name="words")


def one_hot(b: Builder, ids: str) -> str:
    values = b.constant("values", np.array([0, 1], np.float32))
    hot = b.node("OneHot", ids, b.constant("depth", np.array([ROWS], np.int64)), values)
    return b.node("MatMul", hot, b.constant("table", TABLE), name="words")


def dequantized(b: Builder, ids: str) -> str:
    """As QDQ exporters write it: an integer table, its rows quantized again."""
    integers = b.constant("integers", np.rint(TABLE * 40).astype(np.int8))
    scale, zero = b.constant("scale", np.float32(0.025)), b.constant("zero", np.int8(0))
    return b.node("Gather", b.node("DequantizeLinear", integers, scale, zero), ids, name="words", axis=0)


def quantized_model() -> Model:
    """The same network as its quantizer wrote it, without a quantizer of its own behind the table."""
    b = Builder()
    x = b.node("Transpose", dequantized(b, b.input("ids", np.int64, (1, LENGTH))), perm=(0, 2, 1))
    weights = b.node("DequantizeLinear", b.constant("kernel", np.rint(KERNEL * 30).astype(np.int8)),
                     b.constant("ks", np.float32(1 / 30)), b.constant("kz", np.int8(0)))  # fmt: skip
    y = b.node("Conv", x, weights, name="conv")
    q = (b.constant("ys", np.float32(0.1)), b.constant("yz", np.int8(3)))
    b.output(b.node("DequantizeLinear", b.node("QuantizeLinear", y, *q), *q), np.float32)
    return b.model(opset=17)


def with_functions(b: Builder, ids: str) -> str:
    """A bias, and GELU as exporters write it."""
    bias = np.linspace(-1, 1, WIDTH, dtype=np.float32).reshape(1, 1, -1)
    x = b.node("Add", gathered(b, ids), b.constant("bias", bias))
    tail = b.node("Erf", b.node("Div", x, b.constant("root", np.float32(2**0.5))))
    half = b.node("Mul", x, b.constant("half", np.float32(0.5)))
    return b.node("Mul", half, b.node("Add", tail, b.constant("one", np.float32(1))))


def numbers(low: int, high: int, count: int = 40) -> dict[str, np.ndarray]:
    return {"ids": np.random.default_rng(1).integers(low, high, (count, 1, LENGTH))}


def assert_few_steps(found: np.ndarray, expected: np.ndarray) -> None:
    """Equal but for ties of the convolution behind the table, which floats break the other way."""
    step = np.diff(np.unique(expected)).min()
    assert np.abs(found - expected).max() <= 1.01 * step
    assert np.mean(np.abs(found - expected) < step / 2) >= 0.99


def tables_of(quantized: Quantized) -> list[Embedding]:
    return [layer for layer in quantized.graph.layers if isinstance(layer, Embedding)]


@pytest.mark.parametrize(("rows", "low", "high"), [
    (gathered, -ROWS, ROWS), (along_the_last_axis, -ROWS, ROWS), (compared, -3, ROWS + 3),
    (one_hot, -ROWS - 3, ROWS + 3)])  # fmt: skip
def test_a_float_model(rows: Rows, low: int, high: int) -> None:
    """Within the steps of 8 bits of what onnxruntime makes of the float model, also for numbers from the end and for
    numbers that are no class."""
    made, feeds = model(rows), numbers(low, high)
    quantized = quantize(made, feeds)
    assert kinds(quantized) == ["embedding", "conv"]
    (table,) = tables_of(quantized)
    y = quantized.graph.tensors[table.output]
    steps = np.rint(TABLE / np.float32(y.scale)).astype(np.int64) + y.zero_point
    np.testing.assert_array_equal(table.table[:ROWS], np.clip(steps, y.format.low, y.format.high))
    output = made.graph.outputs[0].name
    found, expected = golden.predict(quantized, feeds)[output], runtime(made, feeds)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()
    assert_few_steps(found, runtime(quantized.qdq, feeds))


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_types_of_numbers(dtype: type) -> None:
    """uint8 behind a Cast on the host.  The stream has the bits of the table's rows."""
    made = model(gathered if dtype != np.uint8 else lambda b, ids: gathered(b, b.node("Cast", ids, to=7)), dtype)
    feeds = {"ids": numbers(0, ROWS)["ids"].astype(dtype)}
    quantized = quantize(made, feeds)
    (name,) = quantized.graph.inputs
    assert str(quantized.graph.tensors[name].format) == "uint5"
    assert_few_steps(golden.predict(quantized, feeds)[made.graph.outputs[0].name], runtime(quantized.qdq, feeds))


def test_functions_of_rows_are_computed_once() -> None:
    """Bias and GELU become a part of the table: one rounding, no layer."""
    made, feeds = model(with_functions), numbers(0, ROWS)
    quantized = quantize(made, feeds)
    assert kinds(quantized) == ["embedding", "conv"]
    found, expected = golden.predict(quantized, feeds)[made.graph.outputs[0].name], runtime(made, feeds)
    assert np.abs(found - expected).max() < 0.02 * np.abs(expected).max()


def test_a_model_that_came_quantized() -> None:
    """Integers of the table go through as they are, where its rows are not quantized again."""
    made, feeds = quantized_model(), numbers(-ROWS, ROWS)
    quantized = quantize(made)
    assert [type(layer) for layer in quantized.graph.layers] == [Embedding, Conv]
    np.testing.assert_array_equal(tables_of(quantized)[0].table, np.rint(TABLE * 40))
    assert_few_steps(golden.predict(quantized, feeds)[made.graph.outputs[0].name], runtime(made, feeds))


def test_a_number_that_is_no_row() -> None:
    quantized = quantize(model(gathered), numbers(0, ROWS))
    with pytest.raises(HwflowError, match=r"input 'ids' must be from 0 to 20, not 21 \(row 0 of"):
        golden.predict(quantized, {"ids": np.full((1, 1, LENGTH), ROWS)})


def test_numbers_that_hardware_computes_are_refused() -> None:
    b = Builder()
    scores = b.node("Conv", b.input("x", np.float32, (1, 2, LENGTH)), b.constant("w", RANDOM.normal(
        size=(ROWS, 2, 1)).astype(np.float32)), name="scores")  # fmt: skip
    best = b.node("ArgMax", scores, axis=1, keepdims=0)
    y = b.node("MatMul", gathered(b, best), b.constant("m", RANDOM.normal(size=(WIDTH, 3)).astype(np.float32)))
    b.output(y, np.float32)
    with pytest.raises(HwflowError, match="ArgMax runs on the host, but layers after it need hardware"):
        quantize(b.model(opset=17))


@pytest.mark.slow
def test_the_hardware(tmp_path: Path) -> None:
    """Bit for bit, in as many cycles as planned."""
    feeds = numbers(-ROWS, ROWS, 6)
    quantized = quantize(model(gathered), feeds)
    target = load_board("ulx3s_85f")
    plan = hls.solve(quantized.graph, hls.Target(target.technology(), budget_of(target)))
    simulation = compile_plan(quantized.graph, plan, tmp_path, tmp_path / "cache", audience=Audience())
    result = run_plan(simulation, quantized.graph, golden.run_prologue(quantized, feeds))
    assert result.equal
    assert result.interval == plan.interval


def test_without_data_all_rows_are_seen() -> None:
    """Numbers are made up for calibration, and the range of the activations is that of the whole table."""
    quantized = quantize(model(gathered))
    (table,) = tables_of(quantized)
    y = quantized.graph.tensors[table.output]
    reals = (table.table - y.zero_point) * y.scale
    assert np.abs(reals - TABLE).max() <= 0.51 * y.scale


def test_an_encoder_with_two_inputs_of_numbers() -> None:
    """Words, segments and places as language models have them, normalized, and one head of attention."""
    def table(*shape: int) -> np.ndarray:
        return np.random.default_rng(len(shape)).normal(0, 0.5, shape).astype(np.float32)

    b, width = Builder(), 16
    words, segments = (b.input(name, np.int64, (1, LENGTH)) for name in ("words", "segments"))
    x = b.node("Add", *(b.node("Gather", b.constant(f"of_{name}", table(rows, width)), name, name=f"rows_of_{name}")
                        for name, rows in ((words, 50), (segments, 2))))  # fmt: skip
    x = b.node("Add", x, b.constant("places", table(1, LENGTH, width)))
    one, zero = b.constant("one", np.ones(width, np.float32)), b.constant("zero", np.zeros(width, np.float32))
    x = b.node("LayerNormalization", x, one, zero, axis=-1)
    q, k, v = (b.node("MatMul", x, b.constant(name, table(width, width)), name=name) for name in "qkv")
    weights = b.node("Softmax", b.node("MatMul", q, b.node("Transpose", k, perm=(0, 2, 1))), axis=-1)
    mean = b.node("ReduceMean", b.node("Add", x, b.node("MatMul", weights, v)), axes=(1,), keepdims=0)
    b.output(b.node("MatMul", mean, b.constant("head", table(width, 4)), name="last"), np.float32)
    made = b.model(opset=17)
    feeds = {"words": RANDOM.integers(0, 50, (40, 1, LENGTH)), "segments": RANDOM.integers(0, 2, (40, 1, LENGTH))}
    quantized = quantize(made, feeds)
    assert kinds(quantized)[:2] == ["embedding", "embedding"]
    assert len(quantized.graph.inputs) == 2
    name = made.graph.outputs[0].name
    found, expected = golden.predict(quantized, feeds)[name], runtime(made, feeds)
    assert np.sqrt(np.mean((found - expected) ** 2) / np.mean(expected**2)) < 0.1
