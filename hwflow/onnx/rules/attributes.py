"""Rules about attributes: one name, one value of the stated kind, and what the operator's signature asks for (AT)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.operators import having, row_of
from hwflow.onnx.rules.finding import Finding, error, lenient, quoted, warning
from hwflow.onnx.rules.nodes import Called, calls
from hwflow.onnx.rules.tensors import ELEMENTS
from hwflow.onnx.rules.walk import NodePlace, scopes, with_attributes
from hwflow.onnx.schemas import AttributeKind, Schema, versions_of
from hwflow.onnx.traits import Trait

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


def _lists(document: Document) -> Iterator[tuple[NodePlace | str, bool, Iterable[pb.AttributeProto]]]:
    """The defaults of each function and the attributes of each node: where, may they refer to a caller's, they."""
    for scope in scopes(document):
        if isinstance(scope.proto, pb.FunctionProto):
            yield f"{scope.path}/attribute_proto", False, scope.proto.attribute_proto
    for place in with_attributes(document):
        yield place, place.scope.outermost.kind == "function", place.proto.attribute


def _path(place: NodePlace | str, name: str) -> str:
    """The path of an attribute; made only where there is something to say."""
    return f"{place if isinstance(place, str) else place.path}/attribute {quoted(name)}"


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
    for place, _, attributes in _lists(document):
        seen: set[str] = set()
        for index, attribute in enumerate(attributes):
            name = attribute.name
            if not name:
                where = _path(place, "").removesuffix("''") + f"[{index}]"
                yield error("AT-03", where, "an attribute must have a name, not an empty one")
            elif name in seen:
                yield error("AT-02", _path(place, name), "an attribute must be there once, not twice")
            seen.add(name)
            if (problem := _value(attribute, ir_version)) is not None:
                yield error(problem[0], _path(place, name), problem[1])
            elif not all(map(_is_utf8, (attribute.s, *attribute.strings))):
                bad = next(text for text in (attribute.s, *attribute.strings) if not _is_utf8(text))
                message = f"a text should be UTF-8, not {bad[:40]!r}"
                yield warning("AT-07", "W-attribute-bytes", _path(place, name), message)


def _value(attribute: pb.AttributeProto, ir_version: int) -> tuple[str, str] | None:
    """The rule that the value of an attribute breaks, and the message."""
    used = fields_used(attribute)
    if not attribute.type and (ir_version >= 2 or not used):
        return "AT-03", "the type of an attribute must be stated, not left out"
    if attribute.ref_attr_name:
        return None  # see `references`
    if len(used) > 1:
        return "AT-05", f"an attribute must have one value, not {len(used)} in {' and '.join(used)}"
    kind = kind_of(attribute)
    if kind is None:
        return "AT-03", f"the type of an attribute must be 1 to {max(KINDS)}, not {attribute.type}"
    if used and used != [FIELDS[kind]]:
        name = pb.AttributeProto.AttributeType.Name(attribute.type)
        return "AT-04", f"the value of an attribute of type {name} must be in {FIELDS[kind]}, not {used[0]}"
    if not used and not kind.is_list and kind not in _MAY_BE_ABSENT:
        return "AT-06", f"an attribute must have its {kind.value}, not no value"
    return None


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def references(document: Document) -> Iterator[Finding]:
    """Only nodes inside of functions take the value of an attribute from the function's caller, and then have none."""
    for place, may_refer, attributes in _lists(document):
        for attribute in attributes:
            referred = attribute.ref_attr_name
            if not referred:
                continue
            if not may_refer:
                rule = "an attribute outside of a function's nodes must have a value"
                message = f"{rule}, not refer to {quoted(referred)}"
                yield error("AT-12", _path(place, attribute.name), message)
            elif used := fields_used(attribute):
                message = f"an attribute that refers to {quoted(referred)} must have no value, not one in {used[0]}"
                yield error("AT-12", _path(place, attribute.name), message)


def attributes_fit(document: Document) -> Iterator[Finding]:
    """A node has the attributes of its operator: none that it does not know, all that it needs, of the right kinds."""
    for called in calls(document):
        schema = called.schema
        if schema is None:
            continue
        seen = set()
        for attribute in called.proto.attribute:
            seen.add(attribute.name)
            declared = schema.attributes.get(attribute.name)
            if declared is None:
                if attribute.name:
                    yield _unknown(called, attribute.name)
            elif (kind := kind_of(attribute)) is not None and kind is not declared.kind:
                message = f"the attribute must be {_article(declared.kind)}, not {_article(kind)}"
                yield error("AT-10", _path(called.place, attribute.name), message)
        for name, declared in schema.attributes.items():
            if declared.required and name not in seen:
                yield error("AT-10", called.place.path, f"attribute '{name}' must be given, not left out")


def _article(kind: AttributeKind) -> str:
    if kind.is_list:
        return f"a list of {kind.value}"
    return f"{'an' if kind is AttributeKind.INT else 'a'} {kind.value}"


def _unknown(called: Called, name: str) -> Finding:
    schema, where = called.schema, _path(called.place, name)
    assert schema is not None
    known = ", ".join(sorted(schema.attributes)) or "none"
    message = f"the attributes of {schema.identifier} must be among {known}, not {quoted(name)}"
    if name in _STALE or any(name in version.attributes for version in versions_of(schema.domain, schema.name)):
        return lenient("AT-10", "W-stale-attribute", where, f"{message}, which another version has; it is ignored")
    return error("AT-10", where, message)


def attributes_allowed(document: Document) -> Iterator[Finding]:
    """The values of attributes are among those that the operator's text allows; not-a-number is allowed but odd."""
    for place, _, attributes in _lists(document):
        for attribute in attributes:
            if math.isnan(attribute.f) or any(map(math.isnan, attribute.floats)):
                message = "the value should be a number, not NaN"
                yield warning("AT-11", "W-nan", _path(place, attribute.name), message)
    for called in calls(document):
        if called.schema is not None and (called.proto.attribute or called.schema.name == "Constant"):
            for name, message in attribute_values(called.schema, called.proto):
                yield error("AT-11", _path(called.place, name), message)


RULES = (attributes_well_formed, references, attributes_fit, attributes_allowed)


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ACTIVATION = _words("affine elu hardsigmoid leakyrelu relu scaledtanh sigmoid softplus softsign tanh thresholdedrelu")
#: Until version 6 the type of a Cast was a text.
_TYPES = frozenset(element.name.upper() for element in ELEMENTS.values())

#: Attributes that hold an element type which the first output gets; 0 stands for "not given" in those of _OR_NONE.
_ELEMENT_TYPES = frozenset({"dtype", "to", "output_datatype", "output_dtype"})
_OR_NONE = frozenset({"output_dtype"})

#: Attributes that hold the element type of an intermediate result: float, float16, double or bfloat16.
_PRECISIONS = frozenset({"stash_type", "softmax_precision"})
_FLOATS = (1, 10, 11, 16)

#: Counts and sizes: numbers of 1 or more.
_POSITIVE = frozenset({"kernel_shape", "strides", "dilations", "group", "blocksize", "num_groups", "num_outputs"})

_WINDOWS = having(Trait.WINDOW)


def attribute_values(schema: Schema, node: pb.NodeProto) -> Iterator[tuple[str, str]]:
    """The name of each attribute whose value is not allowed, and the message."""
    attributes = {a.name: a for a in node.attribute if not a.ref_attr_name}
    for name, attribute in attributes.items():
        declared = schema.attributes.get(name)
        if declared is None:
            continue
        problem = None
        if declared.kind in (AttributeKind.STRING, AttributeKind.STRINGS):
            is_one = declared.kind is AttributeKind.STRING and attribute.HasField("s")
            texts = [attribute.s] if is_one else attribute.strings
            problem = _text(schema, name, texts)
        elif declared.kind is AttributeKind.INT:
            problem = _number(schema, name, attribute.i)
        elif declared.kind is AttributeKind.INTS:
            problem = _numbers(schema, name, attribute.ints)
        if problem:
            yield name, problem
    if not schema.domain and schema.name == "Constant" and len(node.attribute) != 1:
        message = f"a Constant must have one attribute with its value, not {len(node.attribute)}"
        yield (node.attribute[0].name if node.attribute else "value"), message
    elif (schema.domain, schema.name) in _WINDOWS:
        yield from _lengths(attributes)


def _text(schema: Schema, name: str, texts: Sequence[bytes]) -> str | None:
    if name == "activations" and schema.name in ("RNN", "GRU", "LSTM"):
        for text in texts:
            if text.decode("utf-8", "replace").lower() not in _ACTIVATION:
                return f"the activations must be among {', '.join(sorted(_ACTIVATION))}, not {_quoted(text)}"
        return None
    allowed = row_of(schema.domain, schema.name).allowed_texts(name, schema.since)
    if name == "to" and schema.name == "Cast" and not schema.domain:
        allowed = _TYPES
    if allowed is None:
        return None
    for text in texts:
        if text.decode("utf-8", "replace") not in allowed:
            return f"the value must be one of {', '.join(sorted(allowed))}, not {_quoted(text)}"
    return None


def _quoted(text: bytes) -> str:
    return quoted(text[:200].decode("utf-8", "replace"))


def _number(schema: Schema, name: str, value: int) -> str | None:
    if schema.domain not in ("", "ai.onnx.ml"):
        return None
    if name in _ELEMENT_TYPES:
        if (value == 0 and name in _OR_NONE) or not schema.outputs:
            return None
        allowed = schema.allowed(schema.outputs[0])
        element = ELEMENTS.get(value)
        if element and (f"tensor({element.name})" in allowed or f"seq(tensor({element.name}))" in allowed):
            return None
        shown = f"{value} ({element.name})" if element else str(value)
        codes = [str(code) for code, e in ELEMENTS.items() if any(f"tensor({e.name})" in text for text in allowed)]
        return f"the element type of the output must be one of {', '.join(codes)}, not {shown}"
    if name in _PRECISIONS and value not in _FLOATS and not (value == 0 and name == "softmax_precision"):
        return f"the element type must be one of {', '.join(map(str, _FLOATS))}, not {value}"
    if name in _POSITIVE and value < 1:
        return f"the value must be 1 or more, not {value}"
    return None


def _numbers(schema: Schema, name: str, values: Sequence[int]) -> str | None:
    if schema.domain:
        return None
    shown = f"{list(values)}" if len(values) <= 16 else f"{len(values)} numbers from {values[0]} on"
    if name == "perm" and sorted(values) != list(range(len(values))):
        return f"perm must hold each of 0 to {len(values) - 1} once, not {shown}"
    if name in _POSITIVE and any(v < 1 for v in values):
        return f"the values must be 1 or more, not {shown}"
    if name == "pads" and ("", schema.name) in _WINDOWS and any(v < 0 for v in values):
        return f"the values must be 0 or more, not {shown}"
    return None


def _lengths(attributes: Mapping[str, pb.AttributeProto]) -> Iterator[tuple[str, str]]:
    """The attributes of a window agree about how many axes it has."""
    axes: tuple[int, str] | None = None
    for name in ("kernel_shape", "strides", "dilations", "pads"):
        attribute = attributes.get(name)
        if attribute is None or not attribute.ints:
            continue
        count = len(attribute.ints)
        if name == "pads" and count % 2:
            yield name, f"pads must have two numbers for each axis, not {count}"
            continue
        count = count // 2 if name == "pads" else count
        if axes is None:
            axes = count, name
        elif axes[0] != count:
            yield name, f"the number of axes must be {axes[0]} as in {axes[1]}, not {count}"
