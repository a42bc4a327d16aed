"""The values that attributes may have where a schema only says "an integer"; texts are in the table of operators.

Source: the texts of the operators in ONNX 1.23.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.operators import having, row_of
from hwflow.onnx.rules.finding import quoted
from hwflow.onnx.rules.tensors import ELEMENTS
from hwflow.onnx.schemas import AttributeKind, Schema
from hwflow.onnx.traits import Trait


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
