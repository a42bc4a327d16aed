"""Running the golden model: every stage boundary, the host programs, and frames that do not fit."""

from __future__ import annotations

import itertools
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow import golden
from hwflow.layers import Add, Frame, IntFormat, LayerGraph, Lookup, Tensor
from hwflow.quantize import Quantized, load_quantized, quantize, save_quantized
from tests.quantize.models import Qdq, rows, runtime


@pytest.fixture(scope="module")
def quantized() -> Quantized:
    m = Qdq((1, 3, 8, 8)).qdq(0.0313, 5).conv((4, 3, 3, 3)).node("Relu").qdq(0.0517, -128)
    m.node("MaxPool", kernel_shape=(2, 2), strides=(2, 2)).node("Flatten").matmul(36, 10).qdq(0.1043, 0)
    return quantize(m.node("Softmax", axis=-1).model())


def test_every_stage_boundary_is_kept(quantized: Quantized) -> None:
    feeds = rows(quantized.qdq, 150)
    frames = golden.run_prologue(quantized, feeds)
    stages = golden.run(quantized, frames)
    assert list(stages) == [*quantized.graph.inputs, *(layer.output for layer in quantized.graph.layers)]
    for name, values in stages.items():
        tensor = quantized.graph.tensors[name]
        assert values.dtype == np.int64
        assert values.shape == (150, tensor.frame.height, tensor.frame.width, tensor.frame.channels)
        assert tensor.format.contains(values)
    (last,) = quantized.graph.outputs
    alone = golden.run(quantized.graph, golden.enter(quantized, feeds), keep=False)
    assert list(alone) == [last]
    np.testing.assert_array_equal(alone[last], stages[last])


def test_predict_is_the_whole_model(quantized: Quantized) -> None:
    feeds = rows(quantized.qdq, 60)
    made = golden.predict(quantized, feeds)
    expected = runtime(quantized.qdq, feeds)
    (name,) = made
    assert made[name].shape == (60, 1, 10)
    assert np.mean(np.abs(made[name] - expected) < 1e-5) > 0.99


def test_progress_counts_rows(quantized: Quantized) -> None:
    seen: list[tuple[int, int]] = []
    frames = golden.run_prologue(quantized, rows(quantized.qdq, 150))
    golden.run(quantized, frames, progress=lambda done, total: seen.append((done, total)))
    assert seen[-1] == (150, 150)
    assert len(seen) > 1


def test_no_rows_give_no_rows(quantized: Quantized) -> None:
    made = golden.run(quantized, np.zeros((0, 8, 8, 3), np.int64), keep=False)
    assert [values.shape for values in made.values()] == [(0, 1, 1, 10)]


@pytest.mark.parametrize(
    ("frames", "message"),
    [
        (np.zeros((2, 8, 8, 4), np.int64), r"must be integers \[n, 8, 8, 3\], not int64 \[2, 8, 8, 4\]"),
        (np.zeros((2, 8, 8, 3)), r"must be integers \[n, 8, 8, 3\], not float64 \[2, 8, 8, 3\]"),
        (np.full((1, 8, 8, 3), 128), r"must be inside int8, not from 128 to 128"),
    ],
)
def test_frames_that_do_not_fit(quantized: Quantized, frames: np.ndarray, message: str) -> None:
    with pytest.raises(HwflowError, match=message):
        golden.run(quantized, frames)


def test_a_batch_is_its_rows(quantized: Quantized) -> None:
    """The host's programs, too, whether they run on many rows or on one."""
    feeds = rows(quantized.qdq, 70)
    whole = golden.predict(quantized, feeds)
    for k in (0, 1, 63, 64, 69):
        alone = golden.predict(quantized, {name: array[k : k + 1] for name, array in feeds.items()})
        for name, values in alone.items():
            np.testing.assert_array_equal(values[0], whole[name][k])
    none = golden.predict(quantized, {name: array[:0] for name, array in feeds.items()})
    assert {name: values.shape for name, values in none.items()} == {n: (0, *v.shape[1:]) for n, v in whole.items()}


def branches() -> LayerGraph:
    """x -> double -> two readers -> sum; x is read three times, and is an output."""
    int8, frame = IntFormat(8, True), Frame(2, 2, 3)
    identity = np.arange(-128, 128)
    layers = (
        Lookup("half", ("x",), "a", int8, identity // 2),
        Lookup("third", ("x",), "b", int8, identity // 3),
        Add("sum", ("a", "b"), "c", (1, 1), 0, 0, -128, 127),
        Add("all", ("c", "x"), "d", (1, -1), 0, 0, -128, 127),
    )
    tensors = {name: Tensor(name, frame, int8, 1.0, 0) for name in "xabcd"}
    return LayerGraph("branches", tensors, layers, ("x",), ("d", "a", "x"))


def test_branches_join_and_tensors_are_freed_behind_their_last_reader() -> None:
    graph = branches()
    graph.check()
    x = np.random.default_rng(0).integers(-128, 128, (70, 2, 2, 3))
    kept, alone = golden.run(graph, x), golden.run(graph, x, keep=False)
    np.testing.assert_array_equal(kept["d"], np.clip(np.clip(x // 2 + x // 3, -128, 127) - x, -128, 127))
    assert set(kept) == set("xabcd")
    assert set(alone) == set(graph.outputs)
    for name, values in alone.items():
        np.testing.assert_array_equal(values, kept[name])


def test_memory_does_not_grow_with_the_depth() -> None:
    """A chain of 40 layers of 1 MB tensors; with a tensor kept per layer it would take 40 MB."""
    int8, frame = IntFormat(8, True), Frame(64, 64, 4)
    names = [f"t{k}" for k in range(41)]
    table = np.arange(127, -129, -1)
    layers = tuple(Lookup(b, (a,), b, int8, table) for a, b in itertools.pairwise(names))
    graph = LayerGraph("chain", {n: Tensor(n, frame, int8, 1.0, 0) for n in names}, layers, ("t0",), ("t40",))
    x = np.ones((64, 64, 64, 4), np.int64)
    tracemalloc.start()
    golden.run(graph, x, keep=False)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 4 * x.nbytes


def test_missing_frames(quantized: Quantized) -> None:
    with pytest.raises(HwflowError, match=r"frames must be given for input '.*', not only for \['x'\]"):
        golden.run(quantized, {"x": np.zeros((1, 8, 8, 3), np.int64)})


def test_a_stored_model_predicts_the_same(quantized: Quantized, tmp_path: Path) -> None:
    save_quantized(quantized, tmp_path)
    again = load_quantized(tmp_path)
    assert again.graph == quantized.graph
    assert again.notes == quantized.notes
    feeds = rows(quantized.qdq, 5)
    for name, values in golden.predict(again, feeds).items():
        np.testing.assert_array_equal(values, golden.predict(quantized, feeds)[name])


@pytest.mark.parametrize(
    "name", ["prologue.onnx", "epilogue.onnx", "qdq.onnx", "notes.txt", "graph.yaml", "arrays.npz"]
)
def test_a_stored_model_with_a_missing_file(quantized: Quantized, tmp_path: Path, name: str) -> None:
    save_quantized(quantized, tmp_path)
    (tmp_path / name).unlink()
    with pytest.raises(HwflowError):
        load_quantized(tmp_path)
