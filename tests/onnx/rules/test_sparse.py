"""Sparse tensors: rules SP."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from hwflow.onnx.limits import Limits
from tests.onnx.rules.protos import I64, F, constant, document, errors, findings, model, tensor, value


def sparse(values: list[float], indices: Any, dims: list[int]) -> onnx.ModelProto:
    array = np.array(indices, np.int64)
    made = helper.make_sparse_tensor(
        tensor(name="", dims=[len(values)], float_data=values),
        tensor(name="", data_type=I64, dims=array.shape, raw_data=array.tobytes()), dims)  # fmt: skip
    return model(constant(sparse_value=made), outputs=[value("y", F, None)])


@pytest.mark.rule("SP-01")
@pytest.mark.parametrize(
    "wrong, message",
    [
        (sparse([1, 2], [0, 9], [3, 3]), "must lie inside of [3, 3], not be 9 (number 1)"),
        (sparse([1], [[0, 3]], [3, 3]), "must lie inside of [3, 3], not be [0, 3] (number 0)"),
        (sparse([1], [-1], [3]), "must lie inside of [3], not be -1 (number 0)"),
        (sparse([1, 2], [4, 2], [3, 3]), "must be ascending, not smaller than the one before at number 1"),
        (sparse([1, 2], [[1, 0], [0, 2]], [3, 3]), "must be ascending, not smaller than the one before at number 1"),
        (sparse([1, 2], [4, 4], [3, 3]), "must be ascending, not a duplicate at number 1"),
        (sparse([1, 2], [4], [3, 3]),
         "the indices of 2 values in 2 dims must have the dims [2] or [2, 2], not [1]"),
        (sparse([1], [[[0]]], [3]), "must have the dims [1] or [1, 1], not [1, 1, 1]"),
        (sparse([1], [0], []), "a sparse tensor must have 1 to 64 dims, not 0"),
        (sparse([1], [0], [0]), "the dims of a sparse tensor must be 1 or more, not [0]"),
        (sparse([1], [0], [-3]), "the dims of a sparse tensor must be 1 or more, not [-3]"),
        (sparse([1], [0], [1 << 33, 1 << 33]), "tensor_bytes must be at most 2,147,483,648, not 295,147,905,179,352,"),
    ],
)  # fmt: skip
def test_sparse_tensors(wrong: onnx.ModelProto, message: str) -> None:
    (found,) = [f for f in findings(wrong) if f.rule == "SP-01"]
    assert message in found.message
    assert found.path == "graph/node[0] 'y' (Constant)/attribute 'sparse_value'"


@pytest.mark.rule("SP-01")
def test_good_sparse_tensors() -> None:
    for right in (sparse([1, 2], [0, 8], [3, 3]), sparse([1, 2], [[0, 1], [2, 0]], [3, 3]), sparse([], [], [3])):
        assert errors(right) == []
    matrix = helper.make_sparse_tensor(tensor(dims=[2], float_data=[1, 2]), tensor(dims=[2, 2], data_type=I64), [3])
    proto = model()
    proto.graph.sparse_initializer.append(matrix)
    assert any("must have the dims [2] or [2, 1], not [2, 2]" in text for text in errors(proto))


@pytest.mark.rule("SP-01")
def test_the_values_of_a_sparse_tensor_are_a_row() -> None:
    proto = sparse([1], [0], [3])
    attribute = proto.graph.node[0].attribute[0]
    attribute.sparse_tensor.values.dims[:] = [1, 1]
    assert any("the values of a sparse tensor must have rank 1, not the dims [1, 1]" in text for text in errors(proto))
    proto = sparse([1], [0], [3])
    proto.graph.node[0].attribute[0].sparse_tensor.indices.data_type = TensorProto.INT32
    assert any("the indices of a sparse tensor must be int64, not data_type 6" in text for text in errors(proto))
    assert document(proto).limits == Limits()
