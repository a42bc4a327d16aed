"""What the rules know of element types without decoding a tensor: what an entry of a typed field may be.

Also the notation of value types that the schemas use: "tensor(float)", "seq(tensor(int64))", "map(string,float)".
"""

from __future__ import annotations

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.dtypes import ELEMENT_TYPES, ElementType

__all__ = ["ELEMENTS", "entry_range", "type_text"]

#: By the number in TensorProto.DataType.
ELEMENTS = {element.code: element for element in ELEMENT_TYPES}


def entry_range(element: ElementType) -> tuple[int, int] | None:
    """The smallest and largest entry of the typed field where that is wider than an element, else None.

    Integers stand there as such, small floats and elements of 2 or 4 bits as the bit patterns of 8 or 16 bits.
    """
    if element.name == "bool":
        return 0, 1
    if element.name in ("int8", "int16"):
        return -(1 << (element.bits - 1)), (1 << (element.bits - 1)) - 1
    if element.name == "uint32":
        return 0, (1 << 32) - 1
    if element.field != "int32_data" or element.name == "int32":
        return None
    return 0, (1 << (6 if element.bits == 6 else max(element.bits, 8))) - 1


def type_text(proto: pb.TypeProto) -> str | None:
    """The type in the notation of the schemas; None where the file leaves a part of it open.

    Nested types are followed in a loop; the parser ends them at 100 messages.
    """
    opening: list[str] = []
    while True:
        kind = proto.WhichOneof("value")
        if kind in ("tensor_type", "sparse_tensor_type"):
            element = ELEMENTS.get(getattr(proto, kind).elem_type)
            name = "tensor" if kind == "tensor_type" else "sparse_tensor"
            return None if element is None else f"{''.join(opening)}{name}({element.name}){')' * len(opening)}"
        if kind == "sequence_type":
            opening.append("seq(")
            proto = proto.sequence_type.elem_type
        elif kind == "optional_type":
            opening.append("optional(")
            proto = proto.optional_type.elem_type
        elif kind == "map_type":
            key, value = ELEMENTS.get(proto.map_type.key_type), _map_value(proto.map_type.value_type)
            if key is None or value is None:
                return None
            return f"{''.join(opening)}map({key.name},{value}){')' * len(opening)}"
        else:
            return None


def _map_value(proto: pb.TypeProto) -> str | None:
    """The value type of a map: the schemas write the bare element type; maps of anything else have no notation."""
    element = ELEMENTS.get(proto.tensor_type.elem_type) if proto.WhichOneof("value") == "tensor_type" else None
    return None if element is None else element.name
