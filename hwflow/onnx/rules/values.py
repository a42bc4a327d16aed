"""Rules about constant values: not-a-number, scales and zero points (HW-01).

ONNX allows any number in a scale.  Hardware multiplies by it and divides by it, so `check` wants a positive normal one.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import decode_tensor
from hwflow.onnx.model import Array
from hwflow.onnx.rules.finding import Finding, error, quoted, warning
from hwflow.onnx.rules.tensors import ELEMENTS
from hwflow.onnx.rules.walk import Scope, nodes, scopes, tensors
from hwflow.onnx.schemas import versions_of

_QUANTIZE = "quantize the model again"

_PIECE = 1 << 22
_TINY = float(np.finfo(np.float32).tiny)


def constants_are_numbers(document: Document) -> Iterator[Finding]:
    """A constant that is not-a-number makes every result that depends on it one; hardware has none."""
    for place in tensors(document):
        element = ELEMENTS.get(place.proto.data_type)
        if element is None or element.dtype.kind in "iubO" or element.bits < 8:  # the others have no NaN
            continue
        array = _decoded(document, place.proto)
        if array is not None and (count := _nans(array)):
            message = f"the elements should be numbers, not NaN ({count} of {array.size} are)"
            yield warning("HW-01", "W-nan", place.path, message, "train or export the model again")


def _nans(array: Array) -> int:
    """Counted in pieces, so that the test of a large tensor needs little memory."""
    flat = array.reshape(-1)
    return sum(int(np.count_nonzero(np.isnan(flat[i : i + _PIECE]))) for i in range(0, flat.size, _PIECE))


def _decoded(document: Document, tensor: pb.TensorProto) -> Array | None:
    """The array; None where other rules say what is wrong with the tensor."""
    try:
        return decode_tensor(tensor, "the tensor", document)
    except HwflowError:
        return None


class _Constants:
    """The tensors by name of each scope."""

    def __init__(self, document: Document) -> None:
        self._by_scope: dict[int, dict[str, pb.TensorProto]] = {}
        self._scopes = list(scopes(document))  # alive, so that their messages keep their identity
        for scope in self._scopes:
            constants = self._by_scope[id(scope.proto)] = {}
            if isinstance(scope.proto, pb.GraphProto):
                constants.update((tensor.name, tensor) for tensor in scope.proto.initializer)
            for node in scope.proto.node:
                names = [attribute.name for attribute in node.attribute]
                if node.op_type == "Constant" and len(node.output) == 1 and names == ["value"]:
                    constants[node.output[0]] = node.attribute[0].t

    def find(self, scope: Scope, name: str) -> pb.TensorProto | None:
        around: Scope | None = scope
        while around is not None:
            tensor = self._by_scope.get(id(around.proto), {}).get(name)
            if tensor is not None:
                return tensor
            around = around.outer
        return None


@cache
def _parameters(domain: str, op_type: str) -> tuple[tuple[int, int], ...]:
    """The positions of the scales of a quantized operator, each with that of the zero point behind it."""
    versions = versions_of(domain, op_type)
    names = [formal.name.lower() for formal in versions[-1].inputs] if versions else []
    return tuple(
        (k, k + 1) for k, (name, after) in enumerate(pairwise(names))
        if name.endswith("scale") and after.endswith(("zero_point", "zeropt"))
    )


def quantization_parameters(document: Document) -> Iterator[Finding]:
    """Constant scales are positive, finite and normal; constant zero points are whole numbers."""
    constants: _Constants | None = None
    for place in nodes(document):
        for scale, zero in _parameters(place.domain, place.op_type):
            constants = constants or _Constants(document)
            for position, problem in ((scale, _scale), (zero, _zero_point)):
                name = place.inputs[position] if position < len(place.inputs) else ""
                tensor = constants.find(place.scope, name) if name else None
                array = _decoded(document, tensor) if tensor is not None else None
                if array is not None and array.dtype.kind != "O" and (message := problem(array, quoted(name))):
                    yield error("HW-01", place.path, message, "quantize the model again")


def _scale(array: Array, name: str) -> str | None:
    values = array.astype(np.float64).reshape(-1)
    bad = values[~(np.isfinite(values) & (values > 0))]
    if bad.size:
        return f"the scale {name} must be positive and finite, not {float(bad[0])}"
    small = values[values < _TINY]
    return f"the scale {name} must be at least {_TINY}, not {float(small[0])}" if small.size else None


def _zero_point(array: Array, name: str) -> str | None:
    """Integers are in the range of their type anyway; 32 bits are for biases, which have no zero point."""
    values = array.astype(np.float64).reshape(-1)
    bad = values[~(np.isfinite(values) & (values == np.round(values)))]
    if array.dtype == np.int32:
        bad = values[values != 0]
    if bad.size:
        expected = "0 for int32" if array.dtype == np.int32 else "a whole number"
        return f"the zero point {name} must be {expected}, not {float(bad[0]):g}"
    return None


RULES = (constants_are_numbers, quantization_parameters)
