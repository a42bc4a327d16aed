"""Nodes: whether each calls an operator of a known set, a function of the model or neither, and rules about that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, error, lenient, quoted
from hwflow.onnx.rules.walk import NodePlace, derived, nodes
from hwflow.onnx.schemas import ANY, Option, Parameter, Schema, canonical_domain, find_schema

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
    """The key by which a node calls a function, and by which a function is named."""
    name = proto.name if isinstance(proto, pb.FunctionProto) else proto.op_type
    return canonical_domain(proto.domain), name, proto.overload


def local_functions(document: Document) -> dict[FunctionKey, pb.FunctionProto]:
    """The model's functions; of two with the same key the first."""
    functions: dict[FunctionKey, pb.FunctionProto] = {}
    for function in document.proto.functions:
        functions.setdefault(function_key(function), function)
    return functions


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
    attribute = next((a for a in node.attribute if a.name == name), None)
    return None if attribute is None or attribute.ref_attr_name else attribute


def operators_named(document: Document) -> Iterator[Finding]:
    """Each node names its operator."""
    for place in nodes(document):
        if not place.op_type:
            yield error("ND-03", place.path, "a node must name its operator in op_type, not leave it empty")


def operands(document: Document) -> Iterator[Finding]:
    """Each node has as many inputs and outputs as its operator takes, and leaves out optional ones only."""
    for called in calls(document):
        schema = called.schema
        if schema is None:
            continue
        place = called.place
        if _complete(place.inputs, schema.input_limits) and _complete(place.outputs, schema.output_limits):
            continue
        yield from _operands("input", place.inputs, schema.inputs, schema.input_limits, place)
        yield from _operands("output", place.outputs, schema.outputs, schema.output_limits, place)


def _complete(names: Sequence[str], limits: tuple[int, int]) -> bool:
    """Whether the number is right and none is left out; so it is with nearly all nodes."""
    return limits[0] <= len(names) <= limits[1] and "" not in names


def limits_text(limits: tuple[int, int]) -> str:
    """A text like "2", "1 to 3", "1 or more"."""
    low, high = limits
    if high == ANY:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def _operands(
    what: str, names: Sequence[str], parameters: tuple[Parameter, ...], limits: tuple[int, int], place: NodePlace
) -> Iterator[Finding]:
    count = len(names)
    if not limits[0] <= count <= limits[1]:
        variadic = bool(parameters) and parameters[-1].option is Option.VARIADIC
        rule = "VA-02" if variadic else "OP-02" if count > limits[1] and not names[count - 1] else "ND-05"
        yield error(rule, place.path, f"the number of {what}s must be {limits_text(limits)}, not {count}")
        return
    for index, parameter in enumerate(parameters[:count]):
        if parameter.option is Option.SINGLE and not names[index]:
            message = f"{what} {index} ({parameter.name}) must be given, not left out"
            yield error("OP-03", place.path, message)
        elif parameter.option is Option.VARIADIC and what == "input":
            empty = next((i for i in range(index, count) if not names[i]), None)
            if empty is not None:
                message = f"{what} {empty} ({parameter.name}) must have a name, because it is variadic, not be left out"
                yield lenient("VA-02", "W-variadic-empty", place.path, message)


def outputs_computed(document: Document) -> Iterator[Finding]:
    """A node names no output that its operator does not compute as the attributes stand.

    From the texts of BatchNormalization (until 6 and from 14 on) and Dropout (until 6): in test mode there is only Y.
    """
    for called in calls(document):
        if called.schema is None or called.schema.domain or len(called.place.outputs) < 2:
            continue
        mode = _test_mode(called)
        if mode is None:
            continue
        for index, name in enumerate(called.place.outputs):
            if index and name:
                message = f"output {index} {quoted(name)} must not be named because {mode}: it is not computed"
                yield error("OP-05", called.place.path, message, "remove the name, or export the model for training")
                break


def _test_mode(called: Called) -> str | None:
    """The reason why a node computes its first output only; None where it computes all."""
    schema = called.schema
    assert schema is not None
    if schema.name == "BatchNormalization" and schema.since >= 14:
        attribute = attribute_of(called.proto, "training_mode")
        referred = attribute is None and any(a.name == "training_mode" for a in called.proto.attribute)
        return None if referred or (attribute is not None and attribute.i) else "training_mode is 0"
    if schema.name in ("BatchNormalization", "Dropout") and schema.since < 7:
        attribute = attribute_of(called.proto, "is_test")
        return "is_test is not 0" if attribute is not None and attribute.i else None
    return None


RULES = (
    operators_named, operands, outputs_computed,
)
