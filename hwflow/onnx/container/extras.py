"""Extras of a message, besides the fields that dataclasses hold: kept as bytes of such a message, put back on writing.

`rest` takes it out of a message that was read (texts, annotations, fields of later versions of ONNX), `overlay` puts it
back into the message that is written, at the parts that are still there: entries of lists are found by name, or by
position where the number of entries is the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.model import size_name
from hwflow.onnx.types import text

M = TypeVar("M", bound=Message)

#: Entries of a list are matched by position, or the field is a single message.
_BY_PLACE = ""


@dataclass(frozen=True)
class _MessageKind:
    """One kind of message: the fields that dataclasses hold, and those with something inside that they do not.

    `inner` maps such a field to the name of the field that tells its entries apart.
    """

    held: frozenset[str] = frozenset()
    inner: Mapping[str, str] = field(default_factory=dict)


def _kind(held: str = "", **inner: str) -> _MessageKind:
    return _MessageKind(frozenset(held.split()), inner)


_ATTRIBUTE_LISTS = {6: "floats", 8: "strings", 9: "tensors", 10: "graphs", 12: "sparse_tensors", 14: "type_protos"}

_KINDS: dict[str, _MessageKind] = {
    "ModelProto": _kind(
        "ir_version producer_name producer_version domain model_version doc_string graph training_info functions",
        opset_import="domain", metadata_props="key",
    ),
    "OperatorSetIdProto": _kind("version"),
    "StringStringEntryProto": _kind("value"),
    "GraphProto": _kind(
        "name node input output", initializer="name", sparse_initializer="values.name", value_info="name"
    ),
    "NodeProto": _kind("input output name op_type domain overload", attribute="name"),
    "AttributeProto": _kind(
        "type ref_attr_name f i s g floats ints strings graphs",
        t=_BY_PLACE, sparse_tensor=_BY_PLACE, tp=_BY_PLACE,
        tensors=_BY_PLACE, sparse_tensors=_BY_PLACE, type_protos=_BY_PLACE,
    ),
    "TensorProto": _kind(
        "dims data_type segment float_data int32_data string_data int64_data raw_data double_data uint64_data "
        "external_data data_location"
    ),
    "SparseTensorProto": _kind("dims", values=_BY_PLACE, indices=_BY_PLACE),
    "ValueInfoProto": _kind("name", type=_BY_PLACE),
    "TypeProto": _kind(
        "", tensor_type=_BY_PLACE, sequence_type=_BY_PLACE, map_type=_BY_PLACE, opaque_type=_BY_PLACE,
        sparse_tensor_type=_BY_PLACE, optional_type=_BY_PLACE,
    ),
    "Tensor": _kind("elem_type", shape=_BY_PLACE),
    "SparseTensor": _kind("elem_type", shape=_BY_PLACE),
    "Sequence": _kind(elem_type=_BY_PLACE),
    "Optional": _kind(elem_type=_BY_PLACE),
    "Map": _kind("key_type", value_type=_BY_PLACE),
    "Opaque": _kind("domain name"),
    "TensorShapeProto": _kind(dim=_BY_PLACE),
    "Dimension": _kind("dim_value"),  # and dim_param where it names a size
    "FunctionProto": _kind(
        "name domain input output attribute node overload",
        attribute_proto="name", opset_import="domain", value_info="name",
    ),
    "TrainingInfoProto": _kind(
        "initialization algorithm", initialization_binding="key", update_binding="key"
    ),
}  # fmt: skip


def has_unknown_fields(proto: Message) -> bool:
    """True where any message inside has fields that the format definition does not know."""
    known = type(proto)()
    known.CopyFrom(proto)
    known.DiscardUnknownFields()
    return known.ByteSize() != proto.ByteSize()


def _plain_node(node: pb.NodeProto) -> bool:
    if node.doc_string or node.metadata_props or node.device_configurations:
        return False
    return all(map(_plain_attribute, node.attribute))


def _plain_attribute(attribute: pb.AttributeProto) -> bool:
    kind = attribute.type
    if attribute.doc_string:
        return False
    if kind == pb.AttributeProto.TENSOR:
        return not attribute.t.name and _plain_tensor(attribute.t)
    if kind in (pb.AttributeProto.FLOATS, pb.AttributeProto.STRINGS):
        return len(getattr(attribute, _ATTRIBUTE_LISTS[kind])) > 0
    return kind in _SIMPLE


def _plain_tensor(tensor: pb.TensorProto) -> bool:
    return not (tensor.doc_string or tensor.metadata_props)


def _plain_value(value: pb.ValueInfoProto) -> bool:
    kind = value.type
    if value.doc_string or value.metadata_props or kind.denotation or kind.WhichOneof("value") != "tensor_type":
        return False
    return not any(dim.denotation or _is_nameless(dim) for dim in kind.tensor_type.shape.dim)


def _is_nameless(dim: pb.TensorShapeProto.Dimension) -> bool:
    """True for an open size that is written as "?" or so, which dataclasses hold as None."""
    return dim.HasField("dim_param") and size_name(text(dim.dim_param)) is None


def _plain_graph(graph: pb.GraphProto) -> bool:
    if graph.doc_string or graph.metadata_props or graph.quantization_annotation or graph.sparse_initializer:
        return False
    return all(map(_plain_tensor, graph.initializer)) and all(map(_plain_value, graph.value_info))


#: Kinds of attribute in which nothing else can be; a graph has an extra of its own.
_SIMPLE = frozenset(
    (pb.AttributeProto.FLOAT, pb.AttributeProto.INT, pb.AttributeProto.STRING, pb.AttributeProto.INTS,
     pb.AttributeProto.GRAPH)
)  # fmt: skip

#: Quick tests for the usual case, that nothing is to be kept; they know the known fields only.
_IS_PLAIN: dict[type[Message], Callable[[Any], bool]] = {
    pb.NodeProto: _plain_node,
    pb.AttributeProto: _plain_attribute,
    pb.ValueInfoProto: _plain_value,
    pb.GraphProto: _plain_graph,
}


def rest(proto: M, unknown: bool, key: str = _BY_PLACE) -> M | None:
    """The rest that is not held by dataclasses, as a message of the same kind; None for nothing.

    `unknown` says whether to look for unknown fields; `key` is a field that the caller sets.
    """
    is_plain = None if unknown else _IS_PLAIN.get(type(proto))
    if is_plain is not None and is_plain(proto):
        return None
    kind = _KINDS[proto.DESCRIPTOR.name]
    left = type(proto)()
    for descriptor, value in proto.ListFields():
        name = descriptor.name
        if name in kind.held or name == key:
            continue
        if isinstance(proto, pb.TensorShapeProto.Dimension) and name == "dim_param" and not _is_nameless(proto):
            continue
        if name not in kind.inner:
            _keep(left, name, value)
        elif isinstance(value, Message):
            inner = rest(value, unknown)
            if inner is not None:
                getattr(left, name).CopyFrom(inner)
        else:
            getattr(left, name).extend(_rests(value, unknown, kind.inner[name]))
    if isinstance(proto, pb.AttributeProto) and isinstance(left, pb.AttributeProto) and _is_empty_list(proto):
        left.type = proto.type  # nothing else says what it is a list of
    if unknown and len(UnknownFieldSet(proto)):
        left.MergeFromString(_unknown_bytes(proto))
    return left if left.ByteSize() else None


def _is_empty_list(proto: pb.AttributeProto) -> bool:
    name = _ATTRIBUTE_LISTS.get(proto.type)
    return name is not None and not getattr(proto, name) and not proto.ref_attr_name


def _rests(values: Iterable[Message], unknown: bool, key: str) -> list[Message]:
    """The rests of the entries of a list; by position, all entries stay, and with a key those that have something."""
    rests = [(value, rest(value, unknown, key)) for value in values]
    if key == _BY_PLACE:
        some = any(inner is not None for _, inner in rests)
        return [inner if inner is not None else type(value)() for value, inner in rests] if some else []
    entries = []
    for value, inner in rests:
        if inner is not None:
            if "." not in key and value.HasField(key):
                _set(inner, key, getattr(value, key))
            entries.append(inner)
    return entries


def _keep(target: Message, name: str, value: object) -> None:
    _require_texts(value)
    if isinstance(value, Message):
        getattr(target, name).CopyFrom(value)
    elif hasattr(value, "MergeFrom"):  # a list
        getattr(target, name).MergeFrom(value)
    else:
        _set(target, name, value)


def _require_texts(value: Any) -> None:
    """Raise InvalidModel for a text inside that is no UTF-8; what is kept holds nothing else that is bytes."""
    if isinstance(value, Message):
        for _, inner in value.ListFields():
            _require_texts(inner)
    elif hasattr(value, "MergeFrom"):
        for inner in value:
            _require_texts(inner)
    elif isinstance(value, bytes):
        text(value)


def _set(target: Message, name: str, value: object) -> None:
    """Texts that are no UTF-8 can be read from a message, as bytes, and not be put into one: they are refused."""
    setattr(target, name, text(value) if isinstance(value, bytes) else value)


def _unknown_bytes(proto: M) -> bytes:
    copy = type(proto)()
    copy.CopyFrom(proto)
    for descriptor, _ in copy.ListFields():
        copy.ClearField(descriptor.name)
    return copy.SerializeToString()


def _key(entry: object, key: str) -> object:
    for name in key.split("."):
        entry = getattr(entry, name)
    return entry


def overlay(target: M, extra: M) -> None:
    """Put what `rest` took out of a message into the message that replaces it."""
    kind = _KINDS[extra.DESCRIPTOR.name]
    for descriptor, value in extra.ListFields():
        name = descriptor.name
        if name == "dim_param":  # unless the size has become known since
            if target.WhichOneof("value") is None:
                _set(target, name, value)
        elif name not in kind.inner:
            if not (name == "type" and isinstance(target, pb.AttributeProto) and _has_elements(target)):
                _keep(target, name, value)
        elif isinstance(value, Message):
            if target.HasField(name):
                overlay(getattr(target, name), value)
        elif kind.inner[name] == _BY_PLACE:
            places = getattr(target, name)
            if len(places) == len(value):
                for place, inner in zip(places, value, strict=True):
                    overlay(place, inner)
        else:
            key = kind.inner[name]
            entries = {_key(entry, key): entry for entry in getattr(target, name)}
            for inner in value:
                entry = entries.get(_key(inner, key))
                if entry is not None:
                    overlay(entry, inner)
    if len(UnknownFieldSet(extra)):
        target.MergeFromString(_unknown_bytes(extra))


def _has_elements(attribute: pb.AttributeProto) -> bool:
    return attribute.type != pb.AttributeProto.INTS or len(attribute.ints) > 0
