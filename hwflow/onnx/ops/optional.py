"""Optional values: what they hold, or None."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Operand, OptionalType
from hwflow.onnx.ops.base import Arr, Call, Operator, Table


def _optional(call: Call, value: Operand = None) -> Operand:
    """An optional of the input, or an empty one of the type in the attribute `type`."""
    stated = call.node.attributes.get("type")
    if value is None and stated is None and not any(call.node.inputs):
        raise call.error("an empty optional must have the attribute 'type', not none", "export the model again")
    return None if isinstance(stated, OptionalType) and not any(call.node.inputs) else value


def _has_element(call: Call, value: Operand = None) -> Arr:
    return np.array(value is not None)


def _get_element(call: Call, value: Operand) -> Operand:
    """The content; since version 18 a value that is no optional is its own content."""
    if value is None:
        raise call.error("the optional must have an element, not none", "test it with OptionalHasElement before")
    return value


OPERATORS: Table = {
    ("", "Optional"): (Operator(15, _optional, None),),
    ("", "OptionalHasElement"): (Operator(15, _has_element, None),),
    ("", "OptionalGetElement"): (Operator(15, _get_element, None),),
}
