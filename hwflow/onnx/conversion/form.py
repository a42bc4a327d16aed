"""Whether a node is written as its schema says, which every step relies on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from hwflow.onnx.model import Attribute, AttributeRef, Graph, Node, SparseTensor
from hwflow.onnx.schemas import AttributeKind, Option, Parameter, Schema

#: What an attribute of each kind holds, lists by their elements.
_HELD: Mapping[AttributeKind, type] = {
    AttributeKind.FLOAT: float,
    AttributeKind.INT: int,
    AttributeKind.STRING: str,
    AttributeKind.TENSOR: np.ndarray,
    AttributeKind.GRAPH: Graph,
    AttributeKind.SPARSE_TENSOR: SparseTensor,
    AttributeKind.FLOATS: float,
    AttributeKind.INTS: int,
    AttributeKind.STRINGS: str,
    AttributeKind.TENSORS: np.ndarray,
}


def broken_rule(node: Node, schema: Schema) -> str | None:
    """What is wrong with the form of a node; None for one that is as its schema has it."""
    return next(_broken(node, schema), None)


def _broken(node: Node, schema: Schema) -> Iterator[str]:
    sides = (("input", node.inputs, schema.inputs, schema.input_limits),
             ("output", node.outputs, schema.outputs, schema.output_limits))  # fmt: skip
    for kind, names, parameters, (low, high) in sides:
        if not low <= len(names) <= high:
            yield f"it has {len(names)} {kind}s, and version {schema.since} of the operator {_count(low, high)}"
        yield from _left_out(kind, names, parameters)
    for name, stated in schema.attributes.items():
        if name not in node.attributes:
            if stated.required:
                yield f"it must have the attribute '{name}'"
        elif not _holds(node.attributes[name], stated.kind):
            yield f"attribute '{name}' must be of the kind {stated.kind.value}"


def _count(low: int, high: int) -> str:
    return f"has {low}" if low == high else f"has {low} or more" if high > 1 << 20 else f"has {low} to {high}"


def _left_out(kind: str, names: Sequence[str], parameters: Sequence[Parameter]) -> Iterator[str]:
    for name, parameter in zip(names, parameters, strict=False):
        if not name and kind == "input" and parameter.option is Option.SINGLE:
            yield f"its input '{parameter.name}' must be given"


def _holds(value: Attribute, kind: AttributeKind) -> bool:
    held = _HELD.get(kind)
    if held is None or isinstance(value, AttributeRef):
        return True
    if kind.is_list:
        return isinstance(value, tuple) and all(isinstance(entry, held) for entry in value)
    return isinstance(value, held)
