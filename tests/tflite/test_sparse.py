"""Constants of which the file has the elements other than zero."""

from __future__ import annotations

import numpy as np
import pytest

import hwflow.onnx
from hwflow.onnx.model import Array
from tests.tflite import runtimes
from tests.tflite.writer import Fields, Maker


def csr(matrix: Array) -> tuple[Array, Array, Array]:
    """Elements other than zero of [rows, columns, ...], where each row's begin, and their columns."""
    used = matrix.reshape(*matrix.shape[:2], -1).any(axis=2)
    columns = [np.flatnonzero(row) for row in used]
    values = np.concatenate([matrix[k, places].ravel() for k, places in enumerate(columns)])
    return values, np.cumsum([0, *map(len, columns)]), np.concatenate(columns)


def compressed(segments: Array, places: Array) -> Fields:
    return {0: ("b", 1), 2: ("B", 1), 3: {0: segments.astype(np.int32)}, 4: ("B", 3), 5: {0: places.astype(np.uint8)}}


def file_of(whole: Array, values: Array, sparsity: Fields) -> bytes:
    """y = x + the sparse constant."""
    m, shape = Maker(), list(whole.shape)
    x, dense, y = (m.tensor(name, shape, "FLOAT32") for name in ("x", "dense", "y"))
    w = m.tensor("w", shape, "FLOAT32", values)
    m.tensors[w][6] = sparsity
    m.operator("DENSIFY", [w], [dense])
    m.operator("ADD", [x, dense], [y], "AddOptions")
    return m.file([x], [y])


def blocks_of_four() -> bytes:
    """A file with blocks of four columns."""
    return sparse(4)[0]


def sparse(block: int) -> tuple[bytes, Array]:
    """A file, and the whole constant."""
    rng = np.random.default_rng(block)
    whole = rng.normal(0, 1, (5, 12)).astype(np.float32)
    whole *= np.repeat(rng.integers(0, 2, (5, 12 // block)), block, axis=1)
    whole[2] = 0
    values, segments, places = csr(whole.reshape(5, 12 // block, block))
    axes: list[Fields] = [{1: ("i", 5)}, compressed(segments, places)]
    sparsity: Fields = {0: np.array([0, 1], np.int32), 2: axes}
    if block > 1:
        sparsity |= {0: np.array([0, 1, 2], np.int32), 1: np.array([1], np.int32), 2: [*axes, {1: ("i", block)}]}
    return file_of(whole, values, sparsity), whole


@pytest.mark.parametrize("block", [1, 4])
def test_sparse_constants(block: int) -> None:
    (data, whole), x = sparse(block), np.ones((5, 12), np.float32)
    (found,) = hwflow.onnx.evaluate(hwflow.onnx.loads(data), {"x": x}).values()
    assert np.array_equal(found, x + whole)
    assert np.array_equal(runtimes.run(runtimes.LITERT, data, [[x]])[0][0], x + whole)
