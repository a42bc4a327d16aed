"""Models as messages, so that they can break every rule; and what the checker says about them."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from typing import Any

import onnx
from onnx import TensorProto, helper

from hwflow.onnx import check
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, Severity

F = TensorProto.FLOAT
I64, BOOL = TensorProto.INT64, TensorProto.BOOL
#: The data of `tensor()`.
BYTES = struct.pack("<2f", 1, 2)

#: Findings that nearly every model has: a domain is hardly ever given.
USUAL = frozenset({"W-model-domain"})


def value(name: str, element: int = F, shape: Sequence[Any] | None = (2,)) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def weight(
    name: str, element: int = F, dims: Sequence[int] = (2,), numbers: Sequence[Any] = (1, 2)
) -> onnx.TensorProto:
    return helper.make_tensor(name, element, dims, numbers)


def node(
    op: str = "Relu", inputs: Iterable[str] = ("x",), outputs: Iterable[str] = ("y",), **more: Any
) -> onnx.NodeProto:
    return helper.make_node(op, list(inputs), list(outputs), **more)


def graph(
    *nodes: onnx.NodeProto,
    inputs: Iterable[onnx.ValueInfoProto] = (),
    outputs: Iterable[onnx.ValueInfoProto] = (),
    initializers: Iterable[onnx.TensorProto] = (),
    name: str = "g",
) -> onnx.GraphProto:
    return helper.make_graph(list(nodes), name, list(inputs), list(outputs), list(initializers))


def model(
    *nodes: onnx.NodeProto,
    inputs: Iterable[onnx.ValueInfoProto] | None = None,
    outputs: Iterable[onnx.ValueInfoProto] | None = None,
    opset: int = 17,
    ir: int = 8,
    imports: Iterable[tuple[str, int]] | None = None,
    functions: Iterable[onnx.FunctionProto] = (),
    **parts: Any,
) -> onnx.ModelProto:
    """Nodes (one Relu from x to y if none are given) between the float32[2] input x and output y."""
    content = graph(
        *(nodes or (node(),)),
        inputs=[value("x")] if inputs is None else inputs,
        outputs=[value("y")] if outputs is None else outputs,
        **parts,
    )
    entries = [("", opset)] if imports is None else imports
    proto = onnx.ModelProto(ir_version=ir, graph=content, domain="com.acme")
    proto.opset_import.extend(onnx.OperatorSetIdProto(domain=domain, version=version) for domain, version in entries)
    proto.functions.extend(functions)
    return proto


def document(proto: onnx.ModelProto) -> Document:
    """The same bytes, read by hwflow's own classes."""
    return Document(pb.ModelProto.FromString(proto.SerializeToString()))


def findings(proto: onnx.ModelProto, *, strict: bool = False) -> tuple[Finding, ...]:
    return tuple(found for found in check(document(proto), strict=strict) if found.code not in USUAL)


def errors(proto: onnx.ModelProto, *, strict: bool = False) -> list[str]:
    return [str(found) for found in findings(proto, strict=strict) if found.severity is Severity.ERROR]


def warnings(proto: onnx.ModelProto) -> list[str]:
    return [str(found) for found in findings(proto) if found.severity is Severity.WARNING]


def error_of(proto: onnx.ModelProto) -> str:
    """The single error of a model."""
    (found,) = errors(proto)
    return found


def leniently(proto: onnx.ModelProto) -> str:
    """The single finding, which is a warning, and an error in strict mode."""
    (found,) = findings(proto)
    (same,) = findings(proto, strict=True)
    assert (found.severity, same.severity) == (Severity.WARNING, Severity.ERROR)
    assert str(found) == str(same)
    return str(found)


def warned(proto: onnx.ModelProto) -> str:
    """The single finding, a warning in both modes."""
    (found,) = findings(proto)
    assert findings(proto, strict=True) == (found,)
    assert found.severity is Severity.WARNING
    return str(found)


def tensor(**fields: Any) -> TensorProto:
    """A tensor of two floats without data; `fields` add and replace."""
    return TensorProto(**{"name": "w", "data_type": F, "dims": [2]} | fields)


def with_tensor(proto: TensorProto) -> onnx.ModelProto:
    """No node reads the tensor: not every type has an operator."""
    return model(initializers=[proto], ir=14, opset=28)


def constant(**attributes: Any) -> onnx.NodeProto:
    return helper.make_node("Constant", [], ["y"], **attributes)
