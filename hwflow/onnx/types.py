"""Types of values: TypeProto to `ValueType` and back, and the notation of operator schemas.

What a TypeProto has besides (denotations) is kept by `hwflow.onnx.container.extras`.  Types nest at most as deep as
protobuf's limit of 100 messages lets them, so recursion is safe for whatever was parsed; for what is made in code a
limit is here.
"""

from __future__ import annotations

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.dtypes import element_type, element_type_of
from hwflow.onnx.errors import InvalidModel, LimitError
from hwflow.onnx.model import (
    Dim,
    MapType,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensorType,
    TensorType,
    ValueType,
    size_name,
)

#: Two messages for each step, of protobuf's 100.
_DEPTH = 48


def notation(kind: ValueType | None) -> str:
    """The type as operator schemas write it: "seq(tensor(float))", "map(int64,float)"; "?" where nothing is known."""
    match kind:
        case TensorType():
            return f"tensor({_element(kind)})"
        case SparseTensorType():
            return f"sparse_tensor({_element(kind)})"
        case SequenceType():
            return f"seq({notation(kind.element)})"
        case OptionalType():
            return f"optional({notation(kind.element)})"
        case MapType():
            inner = _element(kind.value) if isinstance(kind.value, TensorType) else notation(kind.value)
            return f"map({element_type_of(kind.key, 'a map').name},{inner})"
        case OpaqueType():
            return f"opaque({kind.domain},{kind.name})"
    return "?"


def _element(kind: TensorType | SparseTensorType) -> str:
    return element_type_of(kind.dtype, "a tensor").name


def value_type(proto: pb.TypeProto, what: str, depth: int = 0) -> ValueType | None:
    """The type of a value; None where the file does not say (no kind, or a tensor without element type).

    `what` names the value in messages, as "value 'x'".  Raises InvalidModel for element types that ONNX does not have
    and for negative dims, LimitError for types in types deeper than any program writes them.
    """
    if depth > _DEPTH:
        raise LimitError(f"the type of {what} must not be nested deeper than {_DEPTH} types", "simplify the model")
    kind = proto.WhichOneof("value")
    if kind == "tensor_type" or kind == "sparse_tensor_type":
        part = proto.tensor_type if kind == "tensor_type" else proto.sparse_tensor_type
        if part.elem_type == 0:
            return None
        dtype = element_type(part.elem_type, what).dtype
        shape = shape_of(part.shape, what) if part.HasField("shape") else None
        return TensorType(dtype, shape) if kind == "tensor_type" else SparseTensorType(dtype, shape)
    if kind == "sequence_type":
        return SequenceType(value_type(proto.sequence_type.elem_type, what, depth + 1))
    if kind == "optional_type":
        return OptionalType(value_type(proto.optional_type.elem_type, what, depth + 1))
    if kind == "map_type":
        key = element_type(proto.map_type.key_type, f"the keys of {what}")
        return MapType(key.dtype, value_type(proto.map_type.value_type, what, depth + 1))
    if kind == "opaque_type":
        return OpaqueType(text(proto.opaque_type.domain), text(proto.opaque_type.name))
    return None


def shape_of(shape: pb.TensorShapeProto, what: str) -> tuple[Dim, ...]:
    """The dims; -1, "?" and the like, which exporters write for "unknown", are None.

    Raises InvalidModel for other negative ones.
    """
    dims: list[Dim] = []
    for dim in shape.dim:
        if dim.HasField("dim_value"):
            if dim.dim_value < -1:
                raise InvalidModel(
                    f"a dim of {what} must not be negative, not {dim.dim_value}", "export the model again"
                )
            dims.append(None if dim.dim_value == -1 else dim.dim_value)
        else:
            dims.append(size_name(text(dim.dim_param)))
    return tuple(dims)


def text(value: str | bytes) -> str:
    """A string field; protobuf hands out the bytes where they are no UTF-8.  Raises InvalidModel for those."""
    if isinstance(value, bytes):
        raise InvalidModel(
            f"names must be UTF-8 text, not {value[:40]!r}", "the file is damaged, export the model again"
        )
    return value


def type_proto(kind: ValueType | None) -> pb.TypeProto:
    """The TypeProto of a type; empty for None.  Raises InvalidModel for numpy types that ONNX does not have."""
    proto = pb.TypeProto()
    _fill(proto, kind, 0)
    return proto


def _fill(proto: pb.TypeProto, kind: ValueType | None, depth: int) -> None:
    if depth > _DEPTH:
        raise LimitError(f"types must not be nested deeper than {_DEPTH}", "simplify the model")
    match kind:
        case TensorType() | SparseTensorType():
            part = proto.tensor_type if isinstance(kind, TensorType) else proto.sparse_tensor_type
            part.elem_type = element_type_of(kind.dtype, "a tensor").code
            if kind.shape is not None:
                part.shape.SetInParent()
                part.shape.dim.extend(_dimension(dim) for dim in kind.shape)
        case SequenceType():
            proto.sequence_type.SetInParent()
            if kind.element is not None:
                _fill(proto.sequence_type.elem_type, kind.element, depth + 1)
        case OptionalType():
            proto.optional_type.SetInParent()
            if kind.element is not None:
                _fill(proto.optional_type.elem_type, kind.element, depth + 1)
        case MapType():
            proto.map_type.key_type = element_type_of(kind.key, "the keys of a map").code
            if kind.value is not None:
                _fill(proto.map_type.value_type, kind.value, depth + 1)
        case OpaqueType():
            proto.opaque_type.SetInParent()
            if kind.domain:
                proto.opaque_type.domain = kind.domain
            if kind.name:
                proto.opaque_type.name = kind.name


def _dimension(dim: Dim) -> pb.TensorShapeProto.Dimension:
    if isinstance(dim, str):
        return pb.TensorShapeProto.Dimension(dim_param=dim)
    return pb.TensorShapeProto.Dimension() if dim is None else pb.TensorShapeProto.Dimension(dim_value=dim)
