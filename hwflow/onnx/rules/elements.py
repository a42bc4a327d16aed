"""What the rules know of element types without decoding a tensor: what an entry of a typed field may be."""

from __future__ import annotations

from hwflow.onnx.dtypes import ELEMENT_TYPES, ElementType

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
