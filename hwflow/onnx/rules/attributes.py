"""Rules about attributes: one name, one value of the stated kind, and what the operator's signature asks for (AT)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.document import Document
from hwflow.onnx.rules.domains import attribute_values
from hwflow.onnx.rules.finding import Finding, error, lenient, quoted, warning
from hwflow.onnx.rules.signatures import Called, calls
from hwflow.onnx.rules.walk import nodes, scopes
from hwflow.onnx.schemas import AttributeKind, versions_of

__all__ = ["KINDS", "RULES", "attributes_allowed", "attributes_fit", "attributes_well_formed", "references"]

#: AttributeProto.AttributeType to what the schemas call it.
KINDS: Mapping[int, AttributeKind] = {
    number: AttributeKind(name.lower()) for name, number in pb.AttributeProto.AttributeType.items() if number
}

#: The field of AttributeProto that holds a kind of attribute.
FIELDS: Mapping[AttributeKind, str] = {
    AttributeKind.FLOAT: "f",
    AttributeKind.INT: "i",
    AttributeKind.STRING: "s",
    AttributeKind.TENSOR: "t",
    AttributeKind.GRAPH: "g",
    AttributeKind.SPARSE_TENSOR: "sparse_tensor",
    AttributeKind.TYPE_PROTO: "tp",
    **{kind: kind.value for kind in AttributeKind if kind.is_list},
}

_KIND_OF_FIELD = {field: kind for kind, field in FIELDS.items()}
_LISTS = tuple(field for kind, field in FIELDS.items() if kind.is_list)
_SINGLES = tuple(field for kind, field in FIELDS.items() if not kind.is_list)

#: Writers of proto3 leave a number or a text out that is zero or empty; a message is never left out.
_MAY_BE_ABSENT = frozenset({AttributeKind.FLOAT, AttributeKind.INT, AttributeKind.STRING})

#: Of operators before opset 7; old exporters write them for later versions too, where they mean nothing.
_STALE = frozenset({"consumed_inputs", "is_test", "spatial"})


def _lists(document: Document) -> Iterator[tuple[str, bool, Iterable[pb.AttributeProto]]]:
    """The defaults of each function and the attributes of each node: path, may they refer to a caller's, they."""
    for scope in scopes(document):
        if isinstance(scope.proto, pb.FunctionProto):
            yield f"{scope.path}/attribute_proto", False, scope.proto.attribute_proto
    for place in nodes(document):
        if place.proto.attribute:
            yield place.path, place.scope.outermost.kind == "function", place.proto.attribute


def fields_used(attribute: pb.AttributeProto) -> list[str]:
    """The value fields that an attribute has."""
    used = [field for field in _SINGLES if attribute.HasField(field)]
    return used + [field for field in _LISTS if getattr(attribute, field)]


def kind_of(attribute: pb.AttributeProto) -> AttributeKind | None:
    """The stated kind, or that of the only value where none is stated (IR version 1)."""
    if attribute.type:
        return KINDS.get(attribute.type)
    used = fields_used(attribute)
    return _KIND_OF_FIELD[used[0]] if len(used) == 1 else None


def attributes_well_formed(document: Document) -> Iterator[Finding]:
    """Names are there and unique, and each attribute has the one value that its type announces."""
    ir_version = document.proto.ir_version
    for path, _, attributes in _lists(document):
        seen: set[str] = set()
        for index, attribute in enumerate(attributes):
            name = attribute.name
            where = f"{path}/attribute {quoted(name) if name else f'[{index}]'}"
            if not name:
                yield error("AT-03", where, "an attribute must have a name, not an empty one")
            elif name in seen:
                yield error("AT-02", where, "an attribute must be there once, not twice")
            seen.add(name)
            yield from _value(attribute, ir_version, where)


def _value(attribute: pb.AttributeProto, ir_version: int, where: str) -> Iterator[Finding]:
    used = fields_used(attribute)
    if not attribute.type and (ir_version >= 2 or not used):
        yield error("AT-03", where, "the type of an attribute must be stated, not left out")
        return
    if attribute.ref_attr_name:
        return  # see `references`
    if len(used) > 1:
        yield error("AT-05", where, f"an attribute must have one value, not {len(used)} in {' and '.join(used)}")
        return
    kind = kind_of(attribute)
    if kind is None:
        yield error("AT-03", where, f"the type of an attribute must be 1 to {max(KINDS)}, not {attribute.type}")
    elif used and used != [FIELDS[kind]]:
        name = pb.AttributeProto.AttributeType.Name(attribute.type)
        yield error(
            "AT-04", where, f"the value of an attribute of type {name} must be in {FIELDS[kind]}, not {used[0]}"
        )
    elif not used and not kind.is_list and kind not in _MAY_BE_ABSENT:
        yield error("AT-06", where, f"an attribute must have its {kind.value}, not no value")
    elif kind in (AttributeKind.STRING, AttributeKind.STRINGS):
        for text in (attribute.s, *attribute.strings):
            if not _is_utf8(text):
                yield warning("AT-07", "W-attribute-bytes", where, f"a text should be UTF-8, not {text[:40]!r}")
                return


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def references(document: Document) -> Iterator[Finding]:
    """Only nodes inside of functions take the value of an attribute from the function's caller, and then have none."""
    for path, may_refer, attributes in _lists(document):
        for attribute in attributes:
            referred = attribute.ref_attr_name
            if not referred:
                continue
            where = f"{path}/attribute {quoted(attribute.name)}"
            if not may_refer:
                message = (
                    f"an attribute outside of a function's nodes must have a value, not refer to {quoted(referred)}"
                )
                yield error("AT-12", where, message)
            elif used := fields_used(attribute):
                message = f"an attribute that refers to {quoted(referred)} must have no value, not one in {used[0]}"
                yield error("AT-12", where, message)


def attributes_fit(document: Document) -> Iterator[Finding]:
    """A node has the attributes of its operator: none that it does not know, all that it needs, of the right kinds."""
    for called in calls(document):
        schema = called.schema
        if schema is None:
            continue
        path, given = called.place.path, set()
        for attribute in called.proto.attribute:
            given.add(attribute.name)
            where = f"{path}/attribute {quoted(attribute.name)}"
            wanted = schema.attributes.get(attribute.name)
            if wanted is None:
                if attribute.name:
                    yield _unknown(called, attribute.name, where)
            elif (kind := kind_of(attribute)) is not None and kind is not wanted.kind:
                yield error("AT-10", where, f"the attribute must be {_article(wanted.kind)}, not {_article(kind)}")
        for name, wanted in schema.attributes.items():
            if wanted.required and name not in given:
                yield error("AT-10", path, f"attribute '{name}' must be given, not left out")


def _article(kind: AttributeKind) -> str:
    if kind.is_list:
        return f"a list of {kind.value}"
    return f"{'an' if kind is AttributeKind.INT else 'a'} {kind.value}"


def _unknown(called: Called, name: str, where: str) -> Finding:
    schema = called.schema
    assert schema is not None
    known = ", ".join(sorted(schema.attributes)) or "none"
    message = f"the attributes of {schema.identifier} must be among {known}, not {quoted(name)}"
    if name in _STALE or any(name in version.attributes for version in versions_of(schema.domain, schema.name)):
        return lenient("AT-10", "W-stale-attribute", where, f"{message}, which another version has; it is ignored")
    return error("AT-10", where, message)


def attributes_allowed(document: Document) -> Iterator[Finding]:
    """The values of attributes are among those that the operator's text allows; not-a-number is allowed but odd."""
    for path, _, attributes in _lists(document):
        for attribute in attributes:
            if math.isnan(attribute.f) or any(map(math.isnan, attribute.floats)):
                where = f"{path}/attribute {quoted(attribute.name)}"
                yield warning("AT-11", "W-nan", where, "the value should be a number, not NaN")
    for called in calls(document):
        if called.schema is not None:
            for name, message in attribute_values(called.schema, called.proto):
                yield error("AT-11", f"{called.place.path}/attribute '{name}'", message)


RULES = (attributes_well_formed, references, attributes_fit, attributes_allowed)
