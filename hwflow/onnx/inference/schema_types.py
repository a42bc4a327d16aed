"""Types of outputs by the schema alone: element types by type variable.  And ONNX's names of types."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from hwflow.onnx.dtypes import ELEMENT_TYPES
from hwflow.onnx.inference.facts import UNKNOWN, Fact, Holder, TensorFact
from hwflow.onnx.model import DType, MapType, Node, TensorType
from hwflow.onnx.ops.base import Call
from hwflow.onnx.schemas import AttributeKind, Option, Schema

_DTYPES = {entry.name: entry.dtype for entry in ELEMENT_TYPES}
_SPELLED = {dtype: name for name, dtype in _DTYPES.items()}
_CODES = {entry.code: entry.dtype for entry in ELEMENT_TYPES}
_TYPE = re.compile(r"(tensor|seq|optional|map)\((.*)\)")


def parsed(text: str) -> Fact:
    """The fact of "tensor(float)", "seq(tensor(int64))", "map(string,float)"; UNKNOWN for what is none of these."""
    match = _TYPE.fullmatch(text.replace(" ", ""))
    if match is None:
        return UNKNOWN
    kind, inside = match.groups()
    if kind == "tensor":
        return TensorFact(_DTYPES[inside], None) if inside in _DTYPES else UNKNOWN
    if kind == "map":
        key, _, value = inside.partition(",")
        value = value.removeprefix("tensor(").removesuffix(")")
        known = key in _DTYPES and value in _DTYPES
        return MapType(_DTYPES[key], TensorType(_DTYPES[value], None)) if known else UNKNOWN
    return Holder(kind == "optional", parsed(inside))


def spelled(fact: Fact) -> str | None:
    """The fact in ONNX's notation; None where its element type is not known."""
    if isinstance(fact, TensorFact):
        return None if fact.dtype is None else f"tensor({_SPELLED[fact.dtype]})" if fact.dtype in _SPELLED else None
    if isinstance(fact, Holder):
        inside = spelled(fact.element)
        return None if inside is None else f"{'optional' if fact.optional else 'seq'}({inside})"
    if isinstance(fact, MapType) and isinstance(fact.value, TensorType):
        key, value = _SPELLED.get(fact.key), _SPELLED.get(fact.value.dtype)
        return None if key is None or value is None else f"map({key},{value})"
    return None


def attribute_dtype(call: Call, *names: str) -> DType | None:
    """The element type whose number an attribute holds."""
    for name in names:
        code = call.node.attributes.get(name)
        if isinstance(code, int) and code in _CODES:
            return _CODES[code]
    return None


def _stripped(fact: Fact) -> Fact:
    """Without shape and elements."""
    if isinstance(fact, TensorFact):
        return TensorFact(fact.dtype, None)
    return Holder(fact.optional, _stripped(fact.element)) if isinstance(fact, Holder) else fact


def _bound(schema: Schema, operands: Sequence[Fact | None]) -> dict[str, Fact]:
    """Type variables that the inputs decide."""
    variables: dict[str, Fact] = {}
    for position, operand in enumerate(operands):
        parameter = schema.input(position)
        if parameter is None or operand is None or operand is UNKNOWN:
            continue
        if parameter.option is Option.VARIADIC and not parameter.homogeneous:
            continue
        if not (isinstance(operand, TensorFact) and operand.dtype is None):
            variables.setdefault(parameter.type, _stripped(operand))
    return variables


def by_schema(call: Call, operands: Sequence[Fact | None], outputs: int) -> list[Fact]:
    """The outputs as far as the schema tells, all without shape."""
    schema = call.schema
    if schema is None:
        return [UNKNOWN] * outputs
    bound = _bound(schema, operands)
    results: list[Fact] = []
    for position in range(outputs):
        parameter = schema.output(position)
        if parameter is None or (parameter.option is Option.VARIADIC and not parameter.homogeneous):
            results.append(UNKNOWN)
            continue
        allowed = schema.allowed(parameter)
        if parameter.type in bound:
            results.append(bound[parameter.type])
        elif len(allowed) == 1:
            results.append(parsed(next(iter(allowed))))
        else:
            results.append(_by_attribute(call, schema, allowed))
    return results


def _by_attribute(call: Call, schema: Schema, allowed: frozenset[str]) -> Fact:
    """An output whose type an attribute chooses ("to", "dtype"), or of which only the kind is known."""
    names = [name for name in ("to", "dtype", "output_datatype", "output_dtype") if name in schema.attributes]
    numbered = [name for name in names if schema.attributes[name].kind is AttributeKind.INT]
    dtype = attribute_dtype(call, *numbered)
    if dtype is None and numbered:
        default = schema.attributes[numbered[0]].default
        dtype = _CODES.get(default) if isinstance(default, int) else None
    all_tensors = all(text.startswith("tensor(") for text in allowed)
    return TensorFact(dtype, None) if all_tensors else UNKNOWN


def is_map_of_doubles(node: Node, operands: Sequence[Fact | None]) -> bool:
    """Whether a ZipMap reads float64, as skl2onnx writes it behind some classifiers of float64 inputs."""
    (first, *_) = (*operands, None)
    return ((node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap") and isinstance(first, TensorFact)
            and first.dtype == np.float64)


def mismatch(schema: Schema, names: Sequence[str], operands: Sequence[Fact | None]) -> str | None:
    """The fault in the types of the inputs: one that the operator does not take, or two that must be equal."""
    first: dict[str, tuple[int, str]] = {}
    for position, operand in enumerate(operands):
        parameter = schema.input(position)
        text = None if operand is None else spelled(operand)
        if parameter is None or text is None:
            continue
        what = f"input {position} ({parameter.name}) '{names[position]}'"
        allowed = schema.allowed(parameter)
        if text not in allowed:
            listed = ", ".join(sorted(allowed)) if len(allowed) <= 6 else f"one of the {len(allowed)} types it takes"
            return f"{what} must be {listed}, not {text}"
        if parameter.type in schema.types and parameter.homogeneous:
            place, other = first.setdefault(parameter.type, (position, text))
            if other != text:
                return f"{what} must be {other} as input {place}, not {text}"
    return None
