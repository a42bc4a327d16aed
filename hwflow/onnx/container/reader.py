"""Protobuf to the frozen dataclasses of `hwflow.onnx.model`.

Everything that the dataclasses cannot express without loss (two initializers of one name, an attribute with two values)
is refused here; everything that they can express is left for `hwflow.onnx.check`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from google.protobuf.message import Message

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.extras import has_unknown_fields, rest
from hwflow.onnx.container.tensors import decode_sparse, decode_tensor
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.model import Array, Attribute, AttributeRef, Function, Graph, Model, Node, Training, Value, ValueType
from hwflow.onnx.schemas import canonical_domain
from hwflow.onnx.types import text, value_type

#: The newest version of the file format whose fields this reader knows.
MAX_IR_VERSION = 14

#: Value field of an attribute for each AttributeProto.AttributeType.
_ATTRIBUTE_FIELDS = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs",
    11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
_VALUE_FIELDS = frozenset(_ATTRIBUTE_FIELDS.values())
_MESSAGE_FIELDS = frozenset(("t", "g", "sparse_tensor", "tp"))

T = TypeVar("T")


def read_model(document: Document) -> Model:
    """The model of a parsed file.

    Raises InvalidModel for what a Model cannot express, TensorDataError for a tensor whose data is not what it says,
    SecurityError for external data outside of the folder, LimitError for graphs nested deeper than `document.limits`.
    """
    proto = document.proto
    if not proto.HasField("graph"):
        raise InvalidModel("the model must have a graph, not none", "export the model again")
    _check_ir_version(proto)
    reader = _Reader(document, has_unknown_fields(proto))
    return Model(
        graph=reader.graph(proto.graph, "graph", 0),
        ir_version=proto.ir_version,
        opsets=_opsets(proto.opset_import),
        producer_name=text(proto.producer_name),
        producer_version=text(proto.producer_version),
        domain=text(proto.domain),
        model_version=proto.model_version,
        doc_string=text(proto.doc_string),
        metadata=_entries(proto.metadata_props, "metadata property"),
        functions=tuple(reader.function(function) for function in proto.functions),
        training=tuple(reader.training(t, f"training_info[{i}]") for i, t in enumerate(proto.training_info)),
        extra=reader.rest(proto),
    )


def read_functions(functions: Iterable[pb.FunctionProto], document: Document) -> tuple[Function, ...]:
    """The functions of an operator set document.  Raises as `read_model`."""
    return tuple(_Reader(document, has_unknown_fields(f)).function(f) for f in functions)


def _check_ir_version(proto: pb.ModelProto) -> None:
    if not 1 <= proto.ir_version <= MAX_IR_VERSION:
        stated = proto.ir_version if proto.HasField("ir_version") else "absent"
        raise InvalidModel(
            f"the IR version of the model must be 1 to {MAX_IR_VERSION}, not {stated}",
            "export it with a version of ONNX that is known here, or update hwflow"
        )


def _opsets(imports: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for entry in imports:
        domain = canonical_domain(text(entry.domain))
        if versions.setdefault(domain, entry.version) != entry.version:
            raise InvalidModel(
                f"operator set '{domain or 'ai.onnx'}' must be imported once, "
                f"not as version {versions[domain]} and {entry.version}", "export the model again"
            )
    return versions


def _unique(items: Iterable[tuple[str, T]], what: str) -> dict[str, T]:
    by_name: dict[str, T] = {}
    for name, value in items:
        if name in by_name:
            raise InvalidModel(f"{what} '{name}' must be there once, not twice", "export the model again")
        by_name[name] = value
    return by_name


def _entries(entries: Iterable[pb.StringStringEntryProto], what: str) -> dict[str, str]:
    return _unique(((text(entry.key), text(entry.value)) for entry in entries), what)


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(text(value) for value in values)


@dataclass(frozen=True)
class _Reader:
    """`unknown` says that some message of the file has fields that the format definition does not know."""

    document: Document
    unknown: bool

    def rest(self, proto: Message) -> bytes:
        """The extra of a message."""
        left = rest(proto, self.unknown)
        return b"" if left is None else left.SerializeToString()

    def graph(self, proto: pb.GraphProto, path: str, depth: int) -> Graph:
        if depth > self.document.limits.depth:
            raise LimitError(
                f"{path} must not be nested deeper than {self.document.limits.depth} graphs",
                "simplify the model, or raise it with --limit depth=NUMBER"
            )
        initializers = _unique(
            ((text(t.name), self.tensor(t, f"initializer '{t.name}'")) for t in proto.initializer), "initializer"
        )
        sparse = _unique(
            (
                (text(s.values.name), decode_sparse(s, f"sparse initializer '{s.values.name}'", self.document))
                for s in proto.sparse_initializer
            ),
            "sparse initializer",
        )
        for name in initializers.keys() & sparse.keys():
            raise InvalidModel(f"initializer '{name}' must be dense or sparse, not both", "export the model again")
        inputs = [self.value(v) for v in proto.input]
        fed = [v for v in inputs if v.name not in initializers and v.name not in sparse]
        overridable = [v for v in inputs if v.name in initializers or v.name in sparse]
        extra = self.rest(proto)
        if overridable and inputs != [*fed, *overridable]:  # keep the order, too
            extra += pb.GraphProto(input=[pb.ValueInfoProto(name=v.name) for v in inputs]).SerializeToString()
        return Graph(
            name=text(proto.name),
            nodes=tuple(self.node(n, f"{path}/node[{i}]", depth) for i, n in enumerate(proto.node)),
            inputs=tuple(fed),
            outputs=tuple(self.value(v) for v in proto.output),
            initializers=initializers,
            types=self.types(proto.value_info),
            sparse_initializers=sparse,
            overridable=tuple(overridable),
            extra=extra,
        )

    def types(self, infos: Iterable[pb.ValueInfoProto]) -> dict[str, ValueType]:
        """The types that a graph or function states of its inner values; of two that agree, one."""
        types: dict[str, ValueType] = {}
        for info in infos:
            name = text(info.name)
            kind = value_type(info.type, f"value '{name}'")
            if kind is not None and types.setdefault(name, kind) != kind:
                raise InvalidModel(
                    f"the type of value '{name}' must be stated once, not twice", "export the model again"
                )
        return types

    def value(self, proto: pb.ValueInfoProto) -> Value:
        name = text(proto.name)
        kind = value_type(proto.type, f"value '{name}'")
        if kind is not None or not proto.HasField("type"):
            return Value(name, kind, self.rest(proto))
        partial = pb.ValueInfoProto()  # a type that says too little for a ValueType
        partial.CopyFrom(proto)
        partial.ClearField("name")
        return Value(name, None, partial.SerializeToString())

    def tensor(self, proto: pb.TensorProto, what: str) -> Array:
        return decode_tensor(proto, what, self.document)

    def node(self, proto: pb.NodeProto, path: str, depth: int) -> Node:
        inputs, outputs = _texts(proto.input), _texts(proto.output)
        name, op_type = text(proto.name), text(proto.op_type)
        attributes: Mapping[str, Attribute] = {}
        if proto.attribute:
            where = f"{path} '{name or next(filter(None, outputs), '?')}' ({op_type})"
            attributes = self.attributes(proto.attribute, where, depth)
        domain, overload = canonical_domain(text(proto.domain)), text(proto.overload)
        return Node(op_type, inputs, outputs, attributes, name, domain, overload, self.rest(proto))

    def attributes(self, protos: Iterable[pb.AttributeProto], where: str, depth: int) -> dict[str, Attribute]:
        return _unique(
            ((text(a.name), self.attribute(a, f"attribute '{a.name}' of {where}", where, depth)) for a in protos),
            f"{where}: attribute",
        )

    def attribute(self, proto: pb.AttributeProto, what: str, where: str, depth: int) -> Attribute:
        used = [field.name for field, _ in proto.ListFields() if field.name in _VALUE_FIELDS]
        if proto.ref_attr_name:
            if used:
                raise InvalidModel(f"{what} must have a value or refer to '{proto.ref_attr_name}', not both")
            return AttributeRef(text(proto.ref_attr_name), proto.type)
        stated = _ATTRIBUTE_FIELDS.get(proto.type)
        if len(used) > 1 or (used and stated and used != [stated]):
            kind = pb.AttributeProto.AttributeType.Name(proto.type)
            raise InvalidModel(
                f"{what} must have one value of type {kind}, not {' and '.join(f'`{u}`' for u in used)}",
                "export the model again"
            )
        field = stated or (used[0] if used else None)
        if field is None or (field in _MESSAGE_FIELDS and not used):
            raise InvalidModel(f"{what} must have a value, not none", "export the model again")
        return self.attribute_value(getattr(proto, field), field, what, where, depth)

    def attribute_value(self, value: Any, field: str, what: str, where: str, depth: int) -> Attribute:
        match field:
            case "f" | "i":
                return value  # type: ignore[no-any-return]
            case "floats" | "ints":
                return tuple(value)
            case "s":
                return _decoded(value)
            case "strings":
                return tuple(_decoded(v) for v in value)  # type: ignore[return-value]
            case "t":
                return self.tensor(value, what)
            case "tensors":
                return tuple(self.tensor(v, what) for v in value)
            case "sparse_tensor":
                return decode_sparse(value, what, self.document)
            case "sparse_tensors":
                return tuple(decode_sparse(v, what, self.document) for v in value)
            case "tp":
                return _stated_type(value, what)
            case "type_protos":
                return tuple(_stated_type(v, what) for v in value)
            case "g":
                return self.graph(value, f"{where}/{what.split(' of ')[0]}", depth + 1)
        return tuple(self.graph(v, f"{where}/{what.split(' of ')[0]}[{i}]", depth + 1) for i, v in enumerate(value))

    def function(self, proto: pb.FunctionProto) -> Function:
        name, domain = text(proto.name), canonical_domain(text(proto.domain))
        path = f"function '{domain or 'ai.onnx'}.{name}'"
        return Function(
            name=name,
            domain=domain,
            inputs=_texts(proto.input),
            outputs=_texts(proto.output),
            nodes=tuple(self.node(n, f"{path}/node[{i}]", 0) for i, n in enumerate(proto.node)),
            opsets=_opsets(proto.opset_import),
            attributes=_texts(proto.attribute),
            defaults=self.attributes(proto.attribute_proto, path, 0),
            overload=text(proto.overload),
            types=self.types(proto.value_info),
            extra=self.rest(proto),
        )

    def training(self, proto: pb.TrainingInfoProto, path: str) -> Training:
        def graph(kind: str) -> Graph | None:
            return self.graph(getattr(proto, kind), f"{path}/{kind}", 0) if proto.HasField(kind) else None

        return Training(
            initialization=graph("initialization"),
            initialization_binding=_entries(proto.initialization_binding, f"{path}: initialization of"),
            algorithm=graph("algorithm"),
            update_binding=_entries(proto.update_binding, f"{path}: update of"),
            extra=self.rest(proto),
        )


def _stated_type(proto: pb.TypeProto, what: str) -> ValueType:
    kind = value_type(proto, what)
    if kind is None:
        raise InvalidModel(f"{what} must be a type, not one without kind or element type", "export the model again")
    return kind


def _decoded(value: bytes) -> str | bytes:
    """A text; the bytes where they are not UTF-8."""
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value
