"""What each node calls: an operator of a known set, a function of the model, or neither."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.walk import NodePlace, derived, nodes
from hwflow.onnx.schemas import Schema, canonical_domain, find_schema

#: Domain ("" for the default one), name, overload.
FunctionKey: TypeAlias = tuple[str, str, str]


class Called(NamedTuple):
    """A node and what it calls.  Both are None for an operator that is unknown or not imported: other rules say so."""

    place: NodePlace
    schema: Schema | None
    function: pb.FunctionProto | None

    @property
    def proto(self) -> pb.NodeProto:
        return self.place.proto


def function_key(proto: pb.FunctionProto | pb.NodeProto) -> FunctionKey:
    """What a node names to call a function, and what a function is named by."""
    name = proto.name if isinstance(proto, pb.FunctionProto) else proto.op_type
    return canonical_domain(proto.domain), name, proto.overload


def local_functions(document: Document) -> dict[FunctionKey, pb.FunctionProto]:
    """The model's functions; of two with the same key the first."""
    found: dict[FunctionKey, pb.FunctionProto] = {}
    for function in document.proto.functions:
        found.setdefault(function_key(function), function)
    return found


def resolve(place: NodePlace, functions: Mapping[FunctionKey, pb.FunctionProto]) -> Called:
    """A known operator goes before a function of the same name, as long as the node names no overload."""
    node = place.proto
    schema = find_schema(place.domain, node.op_type, place.opset) if place.opset is not None else None
    if schema is not None and schema.deprecated:
        schema = None
    function = functions.get((place.domain, node.op_type, node.overload)) if functions else None
    if schema is not None and (function is None or not node.overload):
        return Called(place, schema, None)
    return Called(place, None, function)


def calls(document: Document) -> Sequence[Called]:
    """Every node of every scope with what it calls."""
    return derived(document, _calls)


def _calls(document: Document) -> Sequence[Called]:
    functions = local_functions(document)
    return [resolve(place, functions) for place in nodes(document)]


def attribute_of(node: pb.NodeProto, name: str) -> pb.AttributeProto | None:
    """The attribute by name, unless it stands for one of a function's caller."""
    found = next((a for a in node.attribute if a.name == name), None)
    return None if found is None or found.ref_attr_name else found
