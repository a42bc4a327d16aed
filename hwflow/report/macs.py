"""Multiply-accumulate operations of single nodes, from the types of their operands."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from ..onnx.model import Node, TensorType, ValueType

__all__ = ["TypeOf", "macs_of"]

#: The type of a value by name.
TypeOf: TypeAlias = Callable[[str], "ValueType | None"]
Shape: TypeAlias = tuple[int, ...]


def _shapes(names: Sequence[str], type_of: TypeOf) -> list[Shape | None]:
    """The shapes of values; None where one is left out or has an open size."""
    found: list[Shape | None] = []
    for name in names:
        type_ = type_of(name) if name else None
        known = isinstance(type_, TensorType) and type_.is_static and type_.shape is not None
        found.append(tuple(int(d) for d in type_.shape if isinstance(d, int)) if known else None)  # type: ignore[union-attr]
    return found


def _convolution(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Each output element is a sum over the channels of a group and the kernel; weights are [out, in / group, ...]."""
    weights = ins[3 if node.op_type == "QLinearConv" else 1]
    return math.prod(outs[0]) * math.prod(weights[1:]) if outs[0] is not None and weights is not None else None


def _transposed(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Each input element goes to the channels of a group and the kernel; weights are [in, out / group, ...]."""
    x, weights = ins[0], ins[1]
    return math.prod(x) * math.prod(weights[1:]) if x is not None and weights is not None else None


def _gemm(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    a, y = ins[0], outs[0]
    if a is None or y is None or len(a) != 2:
        return None
    return math.prod(y) * a[0 if node.attributes.get("transA") else 1]


def _matmul(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    a, y = ins[0], outs[0]
    return math.prod(y) * a[-1] if a is not None and y is not None and a else None


def _recurrent(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Every step of every row meets all weights of the input and of the state, in each direction."""
    x, weights, recurrence = ins[0], ins[1], ins[2]
    if x is None or weights is None or recurrence is None or len(x) != 3:
        return None
    return x[0] * x[1] * (math.prod(weights) + math.prod(recurrence))


def _attention(node: Node, ins: Sequence[Shape | None], outs: Sequence[Shape | None]) -> int | None:
    """Queries meet keys, then weights meet values.  A cache of past keys is not counted: None."""
    q, k, y = ins[0], ins[1], outs[0]
    if q is None or k is None or y is None or any(node.inputs[4:6]):
        return None
    return math.prod(q) * k[-2] + math.prod(y) * k[-2]


_Rule: TypeAlias = Callable[[Node, Sequence["Shape | None"], Sequence["Shape | None"]], "int | None"]
_RULES: Mapping[str, tuple[int, _Rule]] = {
    "Attention": (3, _attention),
    "Conv": (2, _convolution),
    "ConvInteger": (2, _convolution),
    "ConvTranspose": (2, _transposed),
    "DeformConv": (2, _convolution),
    "GRU": (3, _recurrent),
    "Gemm": (2, _gemm),
    "LSTM": (3, _recurrent),
    "MatMul": (2, _matmul),
    "MatMulInteger": (2, _matmul),
    "QLinearConv": (4, _convolution),
    "QLinearMatMul": (4, _matmul),
    "RNN": (3, _recurrent),
}


def macs_of(node: Node, type_of: TypeOf) -> int | None:
    """Multiply-accumulates of a node: 0 for operators that are no products, None where they depend on open sizes."""
    found = None if node.domain else _RULES.get(node.op_type)
    if found is None:
        return 0
    least, rule = found
    if len(node.inputs) < least or not node.outputs:
        return None
    return rule(node, _shapes(node.inputs, type_of), _shapes(node.outputs, type_of))
