"""Rules about the types and shapes that a file states: element types, keys, dimensions and their names (TY, SH)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.reader import read_model
from hwflow.onnx.errors import LimitError
from hwflow.onnx.inference.infer_types import infer_types
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Model, size_name
from hwflow.onnx.rules.finding import AGAIN, Finding, error, lenient, quoted, warning
from hwflow.onnx.rules.tensors import ELEMENTS
from hwflow.onnx.rules.walk import scopes, tensors, with_attributes

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

#: Keys of maps: integers and strings.
_KEYS = frozenset(
    code for code, e in ELEMENTS.items() if e.name == "string" or re.fullmatch(r"u?int(8|16|32|64)", e.name)
)

#: The IR version that brought a kind of value, or of attribute.
_KINDS = {"optional_type": 8, "sparse_tensor_type": 8}
_ATTRIBUTES = {11: 6, 12: 6, 13: 8, 14: 8}


def _stated(document: Document) -> Iterator[tuple[str, bool, pb.TypeProto]]:
    """Every type: path, whether it is of an input or output of the main graph, type."""
    for scope in scopes(document):
        lists: list[tuple[str, Iterable[pb.ValueInfoProto]]] = [("value_info", scope.proto.value_info)]
        if isinstance(scope.proto, pb.GraphProto):
            lists = [("input", scope.proto.input), ("output", scope.proto.output), *lists]
        for part, values in lists:
            main = scope.kind == "graph" and part != "value_info"
            for index, value in enumerate(values):
                if value.HasField("type"):
                    yield f"{scope.path}/{part}[{index}] {quoted(value.name)}", main, value.type
    for place in with_attributes(document):
        for attribute in place.proto.attribute:
            types = [attribute.tp] if attribute.HasField("tp") else []
            for proto in (*types, *attribute.type_protos):
                yield f"{place.path}/attribute {quoted(attribute.name)}", False, proto


def _parts(proto: pb.TypeProto) -> Iterator[pb.TypeProto]:
    """A type and the types in it, outer ones first: in a loop, as deep as the parser allows."""
    part: pb.TypeProto | None = proto
    while part is not None:
        yield part
        kind = part.WhichOneof("value")
        if kind == "sequence_type":
            part = part.sequence_type.elem_type if part.sequence_type.HasField("elem_type") else None
        elif kind == "optional_type":
            part = part.optional_type.elem_type if part.optional_type.HasField("elem_type") else None
        elif kind == "map_type":
            part = part.map_type.value_type if part.map_type.HasField("value_type") else None
        else:
            part = None


def types_known(document: Document) -> Iterator[Finding]:
    """Element types are in the list of ONNX, sequences and maps say what they hold, keys are integers or strings."""
    for path, main, proto in _stated(document):
        for number, part in enumerate(_parts(proto)):
            yield from _known(part, path, main and number == 0)


def _known(part: pb.TypeProto, path: str, main: bool) -> Iterator[Finding]:
    kind = part.WhichOneof("value")
    if kind in ("tensor_type", "sparse_tensor_type"):
        code = getattr(part, kind).elem_type
        if code not in ELEMENTS and (code or not main):  # GR-17 asks for the types of the main graph
            message = f"the element type must be one of 1 to {max(ELEMENTS)}, not {code}"
            if code:
                yield error("TY-04", path, message)
            else:
                yield lenient("TY-04", "W-no-element-type", path, f"{message}; the type counts as not stated")
    elif kind in ("sequence_type", "optional_type"):
        if not getattr(part, kind).HasField("elem_type"):
            rule, name = ("TY-05", "a sequence") if kind == "sequence_type" else ("TY-07", "an optional")
            yield error(rule, path, f"the type of {name} must state its element type, not leave it out")
    elif kind == "map_type":
        key = part.map_type.key_type
        if key not in _KEYS:
            text = ELEMENTS[key].name if key in ELEMENTS else str(key)
            yield error("TY-06", path, f"the key type of a map must be an integer type or string, not {text}")
        if not part.map_type.HasField("value_type"):
            yield error("TY-06", path, "the type of a map must state its value type, not leave it out")


def dimensions(document: Document) -> Iterator[Finding]:
    """Dimensions are 0 or more; the names of variable ones are identifiers.  Each name is reported once."""
    seen: set[str] = set()
    for path, _, proto in _stated(document):
        for part in _parts(proto):
            kind = part.WhichOneof("value")
            if kind not in ("tensor_type", "sparse_tensor_type"):
                continue
            for axis, dim in enumerate(getattr(part, kind).shape.dim):
                yield from _dimension(dim, f"{path}/dim[{axis}]", seen)


def _dimension(dim: pb.TensorShapeProto.Dimension, path: str, seen: set[str]) -> Iterator[Finding]:
    if dim.HasField("dim_value"):
        if dim.dim_value == -1:
            message = "a dimension must be 0 or more, not -1; it counts as unknown"
            yield lenient("SH-12", "W-neg-dim", path, message, "leave it out or give it a name")
        elif dim.dim_value < 0:
            yield error("SH-12", path, f"a dimension must be 0 or more, not {dim.dim_value}")
    elif dim.HasField("dim_param") and dim.dim_param not in seen:
        name = dim.dim_param
        seen.add(name)
        if not name:
            message = "the name of a dimension should not be empty; it counts as unknown"
            yield warning("SH-06", "W-dimname", path, message, "leave it out or give it a name")
        elif name == "*":
            message = "'*' stands for one dimension like any name, not for any number of them"
            yield warning("SH-07", "W-dimname", path, message, "leave the shape out where the rank is not known")
        elif size_name(name) is None:
            message = f"the name of a dimension should name one size, not be {quoted(name)}; it counts as unknown"
            yield warning("SH-05", "W-dimname", path, message, "leave it out or give it a name")
        elif not _IDENTIFIER.fullmatch(name):
            message = f"the name of a dimension should be a C identifier, not {quoted(name)}; it is only compared"
            yield warning("SH-05", "W-dimname", path, message, "nothing needs to be done")


def types_of_ir_version(document: Document) -> Iterator[Finding]:
    """Types that are newer than the IR version of the model.  Each is reported once."""
    version, seen = document.proto.ir_version, set()
    for what, needed, path in _dated(document):
        if needed > max(version, 1) and what not in seen:
            seen.add(what)
            message = f"{what} must come with IR version {needed} or later, not {version}; it is read nevertheless"
            yield lenient("TY-08", "W-ir-too-old", path, message, "raise ir_version or export the model again")


def _dated(document: Document) -> Iterator[tuple[str, int, str]]:
    """Features that the file uses: name, IR version that brought it, path."""
    for path, _, proto in _stated(document):
        for part in _parts(proto):
            kind = part.WhichOneof("value")
            if kind in _KINDS:
                yield f"the type {kind.removesuffix('_type')}", _KINDS[kind], path
            if kind in ("tensor_type", "sparse_tensor_type"):
                element = ELEMENTS.get(getattr(part, kind).elem_type)
                if element is not None:
                    yield f"the element type {element.name}", element.since, path
    for place in tensors(document):
        element = ELEMENTS.get(place.proto.data_type)
        if element is not None:
            yield f"the element type {element.name}", element.since, place.path
    for node in with_attributes(document):
        for attribute in node.proto.attribute:
            if attribute.type in _ATTRIBUTES:
                name = pb.AttributeProto.AttributeType.Name(attribute.type)
                yield f"the attribute type {name}", _ATTRIBUTES[attribute.type], node.path


def inferred_types(source: Model | Document, limits: Limits) -> Iterator[Finding]:
    """Findings in a model without other errors.  What is beyond the limits, or cannot be read, is one error."""
    try:
        model = read_model(source) if isinstance(source, Document) else source
        yield from infer_types(model, limits=limits).findings
    except HwflowError as problem:
        rule = "LM-02" if isinstance(problem, LimitError) else "GR-16"  # the reader refuses types stated in two ways
        yield error(rule, problem.where or "graph", problem.why, problem.remedy or AGAIN)


RULES = (types_known, dimensions, types_of_ir_version)
