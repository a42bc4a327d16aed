"""Rules about sparse tensors (SP): the positions of the elements that are not zero."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.elements import ELEMENTS
from hwflow.onnx.rules.finding import Finding, error, quoted
from hwflow.onnx.rules.tensors import MAX_RANK, element_count
from hwflow.onnx.rules.walk import scopes, with_attributes

_INT64 = 7


def sparse_tensors(document: Document) -> Iterator[Finding]:
    """Values of rank 1, and for each an index that is inside of the dims and larger than the one before."""
    for path, sparse in _places(document):
        problem = _problem(document, sparse)
        if problem:
            yield error("SP-01", path, problem)


def _places(document: Document) -> Iterator[tuple[str, pb.SparseTensorProto]]:
    for scope in scopes(document):
        if isinstance(scope.proto, pb.GraphProto):
            for sparse in scope.proto.sparse_initializer:
                yield f"{scope.path}/sparse_initializer {quoted(sparse.values.name)}", sparse
        else:
            for default in scope.proto.attribute_proto:
                yield from _of_attribute(default, f"{scope.path}/attribute_proto {quoted(default.name)}")
    for place in with_attributes(document):
        for attribute in place.proto.attribute:
            if attribute.HasField("sparse_tensor") or attribute.sparse_tensors:
                yield from _of_attribute(attribute, f"{place.path}/attribute {quoted(attribute.name)}")


def _of_attribute(attribute: pb.AttributeProto, path: str) -> Iterator[tuple[str, pb.SparseTensorProto]]:
    if attribute.HasField("sparse_tensor"):
        yield path, attribute.sparse_tensor
    for index, sparse in enumerate(attribute.sparse_tensors):
        yield f"{path}[{index}]", sparse


def _problem(document: Document, sparse: pb.SparseTensorProto) -> str | None:
    """What is wrong, as a message; None where all is well and where the rules for tensors say it."""
    rank = len(sparse.dims)
    if not 1 <= rank <= MAX_RANK:
        return f"a sparse tensor must have 1 to {MAX_RANK} dims, not {rank}"
    dims = list(sparse.dims)
    if any(d <= 0 for d in dims):
        return f"the dims of a sparse tensor must be 1 or more, not {dims}"
    element = ELEMENTS.get(sparse.values.data_type)
    size = element_count(dims) * max(element.bits if element else 8, 8) // 8
    if size > min(document.limits.tensor_bytes, 1 << 62):
        return f"tensor_bytes must be at most {document.limits.tensor_bytes:,}, not {size:,} for the dims {dims}"
    if len(sparse.values.dims) != 1:
        return f"the values of a sparse tensor must have rank 1, not the dims {list(sparse.values.dims)[:MAX_RANK]}"
    count = sparse.values.dims[0]
    if sparse.indices.data_type != _INT64:
        return f"the indices of a sparse tensor must be int64, not data_type {sparse.indices.data_type}"
    shape = list(sparse.indices.dims)[:MAX_RANK]
    if shape not in ([count], [count, rank]):
        wanted = f"[{count}] or [{count}, {rank}]"
        return f"the indices of {count} values in {rank} dims must have the dims {wanted}, not {shape}"
    indices = _indices(document, sparse.indices, count * (rank if len(shape) == 2 else 1))
    return None if indices is None else _order(indices.reshape(shape), dims)


def _indices(document: Document, tensor: pb.TensorProto, count: int) -> npt.NDArray[np.int64] | None:
    """The indices where they lie in the model in the right number, else None: then another rule has a finding."""
    if tensor.data_location == pb.TensorProto.EXTERNAL:
        return None
    if tensor.HasField("raw_data"):
        raw: Any = document.raw_data(tensor)
        return np.frombuffer(raw, "<i8").astype(np.int64) if len(raw) == 8 * count else None
    if len(tensor.int64_data) != count:
        return None
    return np.fromiter(tensor.int64_data, np.int64, count)


def _order(indices: npt.NDArray[np.int64], dims: list[int]) -> str | None:
    if indices.ndim == 1:
        linear = indices
        outside = np.asarray((indices < 0) | (indices >= element_count(dims)))
    else:
        outside = np.asarray(((indices < 0) | (indices >= np.array(dims, np.int64))).any(axis=1))
        strides = np.cumprod([1, *dims[:0:-1]], dtype=np.int64)[::-1]
        linear = indices @ strides
    if outside.any():
        at = int(np.argmax(outside))
        return f"the indices of a sparse tensor must lie inside of {dims}, not be {indices[at].tolist()} (number {at})"
    falling = linear[1:] <= linear[:-1]
    if falling.any():
        at = int(np.argmax(falling)) + 1
        what = "a duplicate" if linear[at] == linear[at - 1] else "smaller than the one before"
        return f"the indices of a sparse tensor must be ascending, not {what} at number {at}"
    return None


RULES = (sparse_tensors,)
