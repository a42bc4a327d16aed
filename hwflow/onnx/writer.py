"""The frozen dataclasses of `hwflow.onnx.model` to protobuf."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from hwflow.errors import HwflowError
from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.model import Attribute, Dim, Graph, Model, Node, TensorType, Value
from hwflow.onnx.tensors import encode_tensor

__all__ = ["write_model"]

_TYPES = pb.AttributeProto


def write_model(model: Model) -> pb.ModelProto:
    """The ModelProto of a model.  Raises HwflowError for what the file format cannot hold."""
    proto = pb.ModelProto(  # None leaves a field out
        ir_version=model.ir_version,
        producer_name=model.producer_name or None,
        producer_version=model.producer_version or None,
        domain=model.domain or None,
        model_version=model.model_version or None,
        doc_string=model.doc_string or None,
        graph=_graph(model.graph, model.ir_version),
    )
    for domain, version in model.opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    for key, value in model.metadata.items():
        proto.metadata_props.add(key=key, value=value)
    return proto


def _graph(graph: Graph, ir_version: int) -> pb.GraphProto:
    proto = pb.GraphProto(name=graph.name)
    proto.node.extend(_node(node, ir_version) for node in graph.nodes)
    proto.input.extend(_value(value) for value in graph.inputs)
    proto.output.extend(_value(value) for value in graph.outputs)
    for name, array in graph.initializers.items():
        proto.initializer.append(encode_tensor(array, name, f"initializer '{name}'"))
        if ir_version < 4:  # there every initializer is an input as well
            proto.input.append(_value(Value(name, TensorType(array.dtype, array.shape))))
    stated = {value.name for value in (*graph.inputs, *graph.outputs)} | graph.initializers.keys()
    proto.value_info.extend(_value(Value(name, t)) for name, t in graph.types.items() if name not in stated)
    return proto


def _value(value: Value) -> pb.ValueInfoProto:
    proto = pb.ValueInfoProto(name=value.name)
    if value.tensor is None:
        return proto
    tensor = proto.type.tensor_type
    tensor.elem_type = element_type_of(value.tensor.dtype, f"value '{value.name}'").code
    if value.tensor.shape is not None:
        tensor.shape.SetInParent()
        tensor.shape.dim.extend(_dimension(dim) for dim in value.tensor.shape)
    return proto


def _dimension(dim: Dim) -> pb.TensorShapeProto.Dimension:
    if isinstance(dim, str):
        return pb.TensorShapeProto.Dimension(dim_param=dim)
    return pb.TensorShapeProto.Dimension() if dim is None else pb.TensorShapeProto.Dimension(dim_value=dim)


def _node(node: Node, ir_version: int) -> pb.NodeProto:
    proto = pb.NodeProto(
        op_type=node.op_type, input=node.inputs, output=node.outputs, name=node.name or None, domain=node.domain or None
    )
    proto.attribute.extend(_attributes(node.attributes, node.label, ir_version))
    return proto


def _attributes(attributes: Mapping[str, Attribute], label: str, ir_version: int) -> list[pb.AttributeProto]:
    return [_attribute(name, value, f"attribute '{name}' of {label}", ir_version) for name, value in attributes.items()]


def _attribute(name: str, value: Attribute, what: str, ir_version: int) -> pb.AttributeProto:
    match value:
        case bool() | int():
            return pb.AttributeProto(name=name, type=_TYPES.INT, i=int(value))
        case float():
            return pb.AttributeProto(name=name, type=_TYPES.FLOAT, f=value)
        case str():
            return pb.AttributeProto(name=name, type=_TYPES.STRING, s=value.encode("utf-8"))
        case np.ndarray():
            return pb.AttributeProto(name=name, type=_TYPES.TENSOR, t=encode_tensor(value, "", what))
        case Graph():
            return pb.AttributeProto(name=name, type=_TYPES.GRAPH, g=_graph(value, ir_version))
    assert isinstance(value, tuple)
    return _list_attribute(name, value, what, ir_version)


def _list_attribute(name: str, items: tuple[Any, ...], what: str, ir_version: int) -> pb.AttributeProto:
    if all(isinstance(v, int) for v in items):  # an empty list too: nothing says what its elements would be
        return pb.AttributeProto(name=name, type=_TYPES.INTS, ints=items)
    if all(isinstance(v, (int, float)) for v in items):
        return pb.AttributeProto(name=name, type=_TYPES.FLOATS, floats=items)
    if all(isinstance(v, str) for v in items):
        return pb.AttributeProto(name=name, type=_TYPES.STRINGS, strings=[v.encode("utf-8") for v in items])
    if all(isinstance(v, np.ndarray) for v in items):
        return pb.AttributeProto(name=name, type=_TYPES.TENSORS, tensors=[encode_tensor(v, "", what) for v in items])
    if all(isinstance(v, Graph) for v in items):
        return pb.AttributeProto(name=name, type=_TYPES.GRAPHS, graphs=[_graph(v, ir_version) for v in items])
    raise HwflowError(f"{what} must be numbers, texts, arrays or graphs of one kind, not {items!r}")
