"""Protobuf to the frozen dataclasses of `hwflow.onnx.model`.

Everything that the dataclasses cannot express without loss (two initializers of one name, an attribute with two values)
is refused here; everything that they can express is left for `hwflow.onnx.check`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.dtypes import element_type
from hwflow.onnx.model import Attribute, Dim, Graph, Model, Node, TensorType, Value
from hwflow.onnx.tensors import decode_tensor

__all__ = ["MAX_IR_VERSION", "canonical_domain", "read_model"]

#: The newest version of the file format whose fields this reader knows.
MAX_IR_VERSION = 14

#: Graphs inside attributes of graphs: If and Loop in real models nest two or three deep.
_MAX_DEPTH = 16

#: Value field of an attribute for each AttributeProto.AttributeType that is read.
_ATTRIBUTE_FIELDS = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs",
}  # fmt: skip
_UNREAD_FIELDS = ("sparse_tensor", "sparse_tensors", "tp", "type_protos")
_VALUE_FIELDS = frozenset((*_ATTRIBUTE_FIELDS.values(), *_UNREAD_FIELDS))


def canonical_domain(domain: str) -> str:
    """The default operator set has two names; the code knows only the empty one."""
    return "" if domain == "ai.onnx" else domain


def read_model(proto: pb.ModelProto, folder: Path | None) -> Model:
    """The model of a parsed file.  `folder` is where external data may lie.  Raises HwflowError."""
    if not proto.HasField("graph"):
        raise HwflowError("the model must have a graph, not none; export the model again")
    _check_ir_version(proto)
    _refuse_unread_parts(proto)
    reader = _Reader(folder, proto.ir_version)
    graph = reader.graph(proto.graph, "graph", 0)
    notes = ("the training part of the file is ignored",) if proto.training_info else ()
    return Model(
        graph=graph,
        ir_version=proto.ir_version,
        opsets=_opsets(proto.opset_import),
        producer_name=_name(proto.producer_name),
        producer_version=_name(proto.producer_version),
        domain=_name(proto.domain),
        model_version=proto.model_version,
        doc_string=_name(proto.doc_string),
        metadata=_unique(((_name(p.key), _name(p.value)) for p in proto.metadata_props), "metadata property"),
        notes=notes,
    )


def _check_ir_version(proto: pb.ModelProto) -> None:
    if not 1 <= proto.ir_version <= MAX_IR_VERSION:
        found = proto.ir_version if proto.HasField("ir_version") else "absent"
        raise HwflowError(
            f"the IR version of the model must be 1 to {MAX_IR_VERSION}, not {found}; "
            f"export it with a version of ONNX that is known here, or update hwflow"
        )


def _refuse_unread_parts(proto: pb.ModelProto) -> None:
    if proto.functions:
        names = ", ".join(f"'{f.name}'" for f in proto.functions)
        raise HwflowError(f"functions of the model must be inlined, not called: {names}; use onnx.inliner first")
    if proto.graph.sparse_initializer:
        names = ", ".join(f"'{s.values.name}'" for s in proto.graph.sparse_initializer)
        raise HwflowError(f"initializers must be dense, not sparse: {names}; convert them first")


def _opsets(imports: Iterable[pb.OperatorSetIdProto]) -> dict[str, int]:
    versions: dict[str, int] = {}
    for entry in imports:
        domain = canonical_domain(_name(entry.domain))
        if versions.setdefault(domain, entry.version) != entry.version:
            raise HwflowError(
                f"operator set '{domain or 'ai.onnx'}' must be imported once, "
                f"not as version {versions[domain]} and {entry.version}; export the model again"
            )
    return versions


def _unique(items: Iterable[tuple[str, Any]], what: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in items:
        if name in found:
            raise HwflowError(f"{what} '{name}' must be there once, not twice; export the model again")
        found[name] = value
    return found


def _shape(shape: pb.TensorShapeProto, what: str) -> tuple[Dim, ...]:
    dims: list[Dim] = []
    for dim in shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < 0 and dim.dim_value != -1:
                raise HwflowError(f"a dim of {what} must not be negative, not {dim.dim_value}; export the model again")
            dims.append(None if dim.dim_value == -1 else dim.dim_value)  # some exporters write -1 for "unknown"
        else:
            dims.append(_name(dim.dim_param) or None)
    return tuple(dims)


@dataclass(frozen=True)
class _Reader:
    folder: Path | None
    ir_version: int

    def graph(self, proto: pb.GraphProto, path: str, depth: int) -> Graph:
        if depth > _MAX_DEPTH:
            raise HwflowError(f"{path} must not be nested deeper than {_MAX_DEPTH} graphs; simplify the model")
        initializers = _unique(
            ((_name(t.name), decode_tensor(t, f"initializer '{t.name}'", self.folder)) for t in proto.initializer),
            "initializer",
        )
        inputs = [self.value(v) for v in proto.input if v.name not in initializers]
        types = ((v.name, self.value(v).type) for v in proto.value_info)
        return Graph(
            name=_name(proto.name),
            nodes=tuple(self.node(n, f"{path}/node[{i}]", depth) for i, n in enumerate(proto.node)),
            inputs=tuple(inputs),
            outputs=tuple(self.value(v) for v in proto.output),
            initializers=initializers,
            types={name: found for name, found in types if found is not None},
        )

    def value(self, proto: pb.ValueInfoProto) -> Value:
        """A value of any other kind than tensor has no type here; `check` reports it where it matters."""
        name = _name(proto.name)
        if proto.type.WhichOneof("value") != "tensor_type" or proto.type.tensor_type.elem_type == 0:
            return Value(name, None)
        tensor = proto.type.tensor_type
        what = f"value '{name}'"
        shape = _shape(tensor.shape, what) if tensor.HasField("shape") else None
        return Value(name, TensorType(element_type(tensor.elem_type, what).dtype, shape))

    def node(self, proto: pb.NodeProto, path: str, depth: int) -> Node:
        node = Node(
            op_type=_name(proto.op_type),
            inputs=_names(proto.input),
            outputs=_names(proto.output),
            name=_name(proto.name),
            domain=canonical_domain(_name(proto.domain)),
        )
        where = f"{path} {node.label}"
        attributes = _unique(
            (
                (_name(a.name), self.attribute(a, f"attribute '{a.name}' of {where}", where, depth))
                for a in proto.attribute
            ),
            f"{where}: attribute",
        )
        return Node(node.op_type, node.inputs, node.outputs, attributes, node.name, node.domain)

    def attribute(self, proto: pb.AttributeProto, what: str, where: str, depth: int) -> Attribute:
        if proto.ref_attr_name:
            raise HwflowError(f"{what} must have a value, not refer to '{proto.ref_attr_name}' outside of a function")
        used = [field.name for field, _ in proto.ListFields() if field.name in _VALUE_FIELDS]
        stated = _ATTRIBUTE_FIELDS.get(proto.type)
        if any(name in _UNREAD_FIELDS for name in used) or (proto.type and stated is None):
            raise HwflowError(f"{what} must be a number, text, tensor or graph, not type {proto.type}")
        if len(used) > 1 or (used and stated and used != [stated]):
            kind = pb.AttributeProto.AttributeType.Name(proto.type)
            raise HwflowError(
                f"{what} must have one value of type {kind}, not {' and '.join(f'`{u}`' for u in used)}; "
                f"export the model again"
            )
        field = stated or (used[0] if used else None)
        if field is None:
            raise HwflowError(f"{what} must have a value, not none; export the model again")
        return self.attribute_value(getattr(proto, field), field, what, where, depth)

    def attribute_value(self, value: Any, field: str, what: str, where: str, depth: int) -> Attribute:
        match field:
            case "f" | "i":
                return value  # type: ignore[no-any-return]
            case "floats" | "ints":
                return tuple(value)
            case "s":
                return _text(value, what)
            case "strings":
                return tuple(_text(v, what) for v in value)
            case "t":
                return decode_tensor(value, what, self.folder)
            case "tensors":
                return tuple(decode_tensor(v, what, self.folder) for v in value)
            case "g":
                return self.graph(value, f"{where}/{what.split(' of ')[0]}", depth + 1)
        return tuple(self.graph(v, f"{where}/{what.split(' of ')[0]}", depth + 1) for v in value)


def _name(value: str | bytes) -> str:
    """A string field; the protobuf runtime hands out the bytes where they are no UTF-8."""
    if isinstance(value, bytes):
        raise HwflowError(f"names must be UTF-8 text, not {value[:40]!r}; the file is damaged, export the model again")
    return value


def _names(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(_name(value) for value in values)


def _text(value: bytes, what: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise HwflowError(f"{what} must be UTF-8 text, not {value!r}; export the model again") from None
