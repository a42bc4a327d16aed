"""The types of values as far as the file or the operators' signatures give them, and the rule that they fit (ND-05).

Types are texts in the notation of the schemas, "tensor(float)"; None where nothing is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.elements import ELEMENTS, type_text
from hwflow.onnx.rules.finding import Finding, error, quoted
from hwflow.onnx.rules.signatures import Called, attribute_of, calls_in
from hwflow.onnx.rules.walk import NodePlace, Scope
from hwflow.onnx.schemas import Schema

__all__ = ["RULES", "Types", "element_types", "operand_types"]

_REMEDY = "insert a Cast, or export the model again"


class Types:
    """The types of the values of one scope; what is not found is looked for in the scopes around it."""

    def __init__(self, scope: Scope, around: Types | None) -> None:
        self.scope = scope
        self.around = around
        self.known: dict[str, str | None] = {}
        self.stated: dict[str, str] = {}
        proto = scope.proto
        values = list(proto.value_info)
        if isinstance(proto, pb.GraphProto):
            values += [*proto.output, *proto.input]
            for tensor in proto.initializer:
                element = ELEMENTS.get(tensor.data_type)
                self.known[tensor.name] = f"tensor({element.name})" if element else None
            for sparse in proto.sparse_initializer:
                self.known[sparse.values.name] = None
        else:
            self.known.update(dict.fromkeys(proto.input))
        for value in values:
            text = type_text(value.type)
            if text is not None:
                self.stated[value.name] = text

    def find(self, name: str) -> str | None:
        """The type of a value; None for one whose type is not known."""
        types: Types | None = self
        while types is not None:
            found = types.known.get(name) or types.stated.get(name)
            if found or name in types.known:
                return found
            types = types.around
        return None


def element_types(document: Document) -> Iterator[tuple[Types, Called, list[str | None]]]:
    """Every node of every scope with the types of its inputs ("" inputs have none).  Linear in the size of the file."""
    by_scope: dict[int, Types] = {}
    main: Types | None = None
    for scope, called in calls_in(document):
        around = by_scope.get(id(scope.outer)) if scope.outer is not None else None
        types = Types(scope, main if scope.kind == "algorithm" else around)
        by_scope[id(scope)] = types  # keeps the scope alive, so that its id stays its own
        main = types if scope.kind == "graph" else main
        for one in called:
            inputs = [types.find(name) if name else None for name in one.proto.input]
            yield types, one, inputs
            for name, found in zip(one.proto.output, _outputs(one, inputs), strict=True):
                if name:
                    types.known[name] = types.stated.get(name) or found


def operand_types(document: Document) -> Iterator[Finding]:
    """The inputs of a node have types that its operator takes, and equal ones where it wants that."""
    for types, called, inputs in element_types(document):
        schema = called.schema
        if schema is None:
            continue
        bad = list(_inputs_fit(schema, called.place, inputs))
        yield from bad
        if bad:  # the types of the outputs follow from those of the inputs
            continue
        for index, (name, found) in enumerate(zip(called.proto.output, _outputs(called, inputs), strict=True)):
            stated = types.stated.get(name) if name else None
            if stated and found and stated != found:
                message = f"output {index} {quoted(name)} must be {found}, not {stated} as stated"
                yield error("ND-05", called.place.path, message)


def _inputs_fit(schema: Schema, place: NodePlace, inputs: Sequence[str | None]) -> Iterator[Finding]:
    bound: dict[str, tuple[int, str]] = {}
    for index, found in enumerate(inputs):
        parameter = schema.input(index)
        if found is None or parameter is None:
            continue
        allowed = schema.allowed(parameter)
        first, wanted = bound.setdefault(parameter.type, (index, found)) if parameter.homogeneous else (index, found)
        if found in allowed and wanted == found:
            continue
        what = f"input {index} ({parameter.name}) {quoted(place.proto.input[index])}"
        if found not in allowed:
            listed = ", ".join(sorted(allowed)) if len(allowed) <= 6 else f"one of the {len(allowed)} types it takes"
            yield error("ND-05", place.path, f"{what} must be {listed}, not {found}", _REMEDY)
        else:
            yield error("ND-05", place.path, f"{what} must be {wanted} as input {first}, not {found}", _REMEDY)


def _outputs(called: Called, inputs: Sequence[str | None]) -> list[str | None]:
    """The types of a node's outputs by its signature."""
    node, schema = called.proto, called.schema
    if schema is None:
        return [None] * len(node.output)
    if not schema.domain and schema.name in _SPECIAL:
        return [_SPECIAL[schema.name](node, inputs), *[None] * len(node.output)][: len(node.output)]
    bound: dict[str, str] = {}
    for index, found in enumerate(inputs):
        parameter = schema.input(index)
        if found and parameter is not None and parameter.homogeneous:
            bound.setdefault(parameter.type, found)
    return [_output(schema, index, bound) for index in range(len(node.output))]


def _output(schema: Schema, index: int, bound: Mapping[str, str]) -> str | None:
    parameter = schema.output(index)
    if parameter is None or not parameter.homogeneous:
        return None
    if parameter.type in bound:
        return bound[parameter.type]
    allowed = schema.allowed(parameter)
    return next(iter(allowed)) if len(allowed) == 1 else None


def _tensor(code: int) -> str | None:
    element = ELEMENTS.get(code)
    return f"tensor({element.name})" if element else None


def _by_attribute(name: str, default: int | None) -> Callable[[pb.NodeProto, Sequence[str | None]], str | None]:
    """The element type is an attribute; without it that of the first input, or `default`."""

    def typed(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
        attribute = attribute_of(node, name)
        if attribute is not None:
            return _tensor(attribute.i) if attribute.HasField("i") else None
        if any(a.name == name for a in node.attribute):
            return None  # the caller of a function decides
        if default is not None:
            return _tensor(default)
        return inputs[0] if inputs else None

    return typed


def _constant(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
    for attribute in node.attribute:
        if attribute.ref_attr_name:
            return None
        match attribute.name:
            case "value":
                return _tensor(attribute.t.data_type)
            case "value_int" | "value_ints":
                return "tensor(int64)"
            case "value_float" | "value_floats":
                return "tensor(float)"
            case "value_string" | "value_strings":
                return "tensor(string)"
    return None


def _constant_of_shape(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
    value = attribute_of(node, "value")
    if value is None:
        return None if node.attribute else "tensor(float)"
    return _tensor(value.t.data_type)


def _quantize(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
    if len(inputs) > 2 and node.input[2]:
        return inputs[2]
    if any(a.name == "output_dtype" for a in node.attribute):
        attribute = attribute_of(node, "output_dtype")
        return None if attribute is None or not attribute.i else _tensor(attribute.i)
    return "tensor(uint8)"


def _dequantize(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
    if any(a.name == "output_dtype" for a in node.attribute):
        attribute = attribute_of(node, "output_dtype")
        return None if attribute is None or not attribute.i else _tensor(attribute.i)
    return inputs[1] if len(inputs) > 1 else None


def _wrap(kind: str) -> Callable[[pb.NodeProto, Sequence[str | None]], str | None]:
    def typed(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
        return f"{kind}({inputs[0]})" if inputs and inputs[0] else None

    return typed


def _unwrap(kind: str) -> Callable[[pb.NodeProto, Sequence[str | None]], str | None]:
    def typed(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
        first = inputs[0] if inputs else None
        return first[len(kind) + 1 : -1] if first and first.startswith(f"{kind}(") else None

    return typed


def _unknown(node: pb.NodeProto, inputs: Sequence[str | None]) -> str | None:
    return None


#: Operators of the default set whose output type is not that of an input with the same type variable.
_SPECIAL: Mapping[str, Callable[[pb.NodeProto, Sequence[str | None]], str | None]] = {
    "Bernoulli": _by_attribute("dtype", None),
    "BitCast": _by_attribute("to", None),
    "BlackmanWindow": _by_attribute("output_datatype", 1),
    "Cast": _by_attribute("to", 0),
    "ConcatFromSequence": _unwrap("seq"),
    "Constant": _constant,
    "ConstantOfShape": _constant_of_shape,
    "DequantizeLinear": _dequantize,
    "EyeLike": _by_attribute("dtype", None),
    "HammingWindow": _by_attribute("output_datatype", 1),
    "HannWindow": _by_attribute("output_datatype", 1),
    "MelWeightMatrix": _by_attribute("output_datatype", 1),
    "Multinomial": _by_attribute("dtype", 6),
    "Optional": _unknown,
    "OptionalGetElement": _unknown,
    "QuantizeLinear": _quantize,
    "RandomNormal": _by_attribute("dtype", 1),
    "RandomNormalLike": _by_attribute("dtype", None),
    "RandomUniform": _by_attribute("dtype", 1),
    "RandomUniformLike": _by_attribute("dtype", None),
    "SequenceAt": _unwrap("seq"),
    "SequenceConstruct": _wrap("seq"),
    "SequenceEmpty": _unknown,
    "SplitToSequence": _wrap("seq"),
}

RULES = (operand_types,)
