"""The frozen dataclasses of `hwflow.onnx.model` to protobuf."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np
from google.protobuf.message import Message

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.extras import overlay
from hwflow.onnx.container.tensors import encode_sparse, encode_tensor, fill_tensor, raw_bytes
from hwflow.onnx.dtypes import element_type_of
from hwflow.onnx.errors import InvalidModel
from hwflow.onnx.model import (
    Array,
    Attribute,
    AttributeRef,
    Function,
    Graph,
    MapType,
    Model,
    Node,
    OpaqueType,
    OptionalType,
    SequenceType,
    SparseTensor,
    SparseTensorType,
    TensorType,
    Training,
    Value,
)
from hwflow.onnx.rules.walk import tensors
from hwflow.onnx.types import type_proto

#: How an initializer is written: (the message to fill, array, what errors call it).
FillTensor = Callable[[pb.TensorProto, Array, str], None]

_TYPES = pb.AttributeProto
_VALUE_TYPES = (TensorType, SequenceType, OptionalType, MapType, SparseTensorType, OpaqueType)


def write_model(model: Model, fill: FillTensor = fill_tensor) -> pb.ModelProto:
    """The ModelProto of a model; `fill` writes the initializers.  Raises InvalidModel for what a file cannot hold."""
    writer = _Writer(model.ir_version, fill)
    proto = pb.ModelProto(  # None leaves a field out
        ir_version=model.ir_version,
        producer_name=model.producer_name or None,
        producer_version=model.producer_version or None,
        domain=model.domain or None,
        model_version=model.model_version or None,
        doc_string=model.doc_string or None,
        functions=[writer.function(function) for function in model.functions],
        training_info=[writer.training(training) for training in model.training],
    )
    writer.graph(model.graph, proto.graph)
    _opsets(proto, model.opsets)
    for key, value in model.metadata.items():
        proto.metadata_props.add(key=key, value=value)
    _put_back(proto, model.extra)
    return proto


def write_functions(functions: Iterable[Function], ir_version: int) -> list[pb.FunctionProto]:
    """The functions of an operator set document."""
    writer = _Writer(ir_version, fill_tensor)
    return [writer.function(function) for function in functions]


def _opsets(proto: pb.ModelProto | pb.FunctionProto, opsets: Mapping[str, int]) -> None:
    for domain, version in opsets.items():
        proto.opset_import.add(domain=domain, version=version)


def _put_back(proto: Message, extra: bytes) -> None:
    if extra:
        overlay(proto, type(proto).FromString(extra))


def _value(value: Value) -> pb.ValueInfoProto:
    proto = pb.ValueInfoProto(name=value.name)
    if value.type is not None:
        proto.type.CopyFrom(type_proto(value.type))
    elif value.extra:
        proto.MergeFromString(value.extra)  # with the part of a type that the file gave
        return proto
    _put_back(proto, value.extra)
    return proto


@dataclass(frozen=True)
class _Writer:
    ir_version: int
    fill: FillTensor

    def graph(self, graph: Graph, proto: pb.GraphProto | None = None) -> pb.GraphProto:
        """The message of a graph, filled in place where that is given: a copy would copy the weights."""
        proto = pb.GraphProto() if proto is None else proto
        proto.name = graph.name
        proto.node.extend(self.node(node) for node in graph.nodes)
        constants = graph.initializers.keys() | graph.sparse_initializers.keys()
        overridable = [value for value in graph.overridable if value.name in constants]  # a pass may have dropped some
        proto.input.extend(_value(value) for value in (*graph.inputs, *overridable))
        proto.output.extend(_value(value) for value in graph.outputs)
        for name, array in graph.initializers.items():
            self.fill(proto.initializer.add(name=name), array, f"initializer '{name}'")
        for name, sparse in graph.sparse_initializers.items():
            proto.sparse_initializer.append(encode_sparse(sparse, name, f"sparse initializer '{name}'"))
        if self.ir_version < 4:  # there every initializer is an input as well
            listed = {value.name for value in overridable}
            for name, array in graph.initializers.items():
                if name not in listed:
                    proto.input.append(_value(Value(name, TensorType(array.dtype, array.shape))))
        stated = {value.name for value in (*graph.inputs, *graph.outputs)} | constants
        proto.value_info.extend(_value(Value(name, t)) for name, t in graph.types.items() if name not in stated)
        if graph.extra:
            self.put_back(proto, pb.GraphProto.FromString(graph.extra))
        return proto

    def put_back(self, proto: pb.GraphProto, extra: pb.GraphProto) -> None:
        """The inputs of the extra give their order in the file."""
        places = {value.name: place for place, value in enumerate(extra.input)}
        if places:
            proto.input.sort(key=lambda value: places.get(value.name, len(places)))
        extra.ClearField("input")
        overlay(proto, extra)

    def node(self, node: Node) -> pb.NodeProto:
        proto = pb.NodeProto(
            op_type=node.op_type,
            input=node.inputs,
            output=node.outputs,
            name=node.name or None,
            domain=node.domain or None,
            overload=node.overload or None,
            attribute=self.attributes(node.attributes, node.label) if node.attributes else None,
        )
        _put_back(proto, node.extra)
        return proto

    def attributes(self, attributes: Mapping[str, Attribute], label: str) -> list[pb.AttributeProto]:
        return [self.attribute(name, value, f"attribute '{name}' of {label}") for name, value in attributes.items()]

    def attribute(self, name: str, value: Attribute, what: str) -> pb.AttributeProto:
        match value:
            case bool() | int():
                return pb.AttributeProto(name=name, type=_TYPES.INT, i=int(value))
            case float():
                return pb.AttributeProto(name=name, type=_TYPES.FLOAT, f=value)
            case str() | bytes():
                return pb.AttributeProto(name=name, type=_TYPES.STRING, s=_encoded(value))
            case np.ndarray():
                return pb.AttributeProto(name=name, type=_TYPES.TENSOR, t=encode_tensor(value, "", what))
            case Graph():
                return pb.AttributeProto(name=name, type=_TYPES.GRAPH, g=self.graph(value))
            case SparseTensor():
                sparse = encode_sparse(value, "", what)
                return pb.AttributeProto(name=name, type=_TYPES.SPARSE_TENSOR, sparse_tensor=sparse)
            case AttributeRef():
                kind: Any = value.kind or None  # a number, which the stubs want as a name
                return pb.AttributeProto(name=name, type=kind, ref_attr_name=value.name)
            case tuple():
                return self.list_attribute(name, value, what)
        return pb.AttributeProto(name=name, type=_TYPES.TYPE_PROTO, tp=type_proto(value))

    def list_attribute(self, name: str, items: tuple[Any, ...], what: str) -> pb.AttributeProto:
        if all(isinstance(v, int) for v in items):  # an empty list too: nothing says what its elements would be
            return pb.AttributeProto(name=name, type=_TYPES.INTS, ints=items)
        if all(isinstance(v, (int, float)) for v in items):
            return pb.AttributeProto(name=name, type=_TYPES.FLOATS, floats=items)
        if all(isinstance(v, (str, bytes)) for v in items):
            return pb.AttributeProto(name=name, type=_TYPES.STRINGS, strings=[_encoded(v) for v in items])
        if all(isinstance(v, np.ndarray) for v in items):
            tensors = [encode_tensor(v, "", what) for v in items]
            return pb.AttributeProto(name=name, type=_TYPES.TENSORS, tensors=tensors)
        if all(isinstance(v, Graph) for v in items):
            return pb.AttributeProto(name=name, type=_TYPES.GRAPHS, graphs=[self.graph(v) for v in items])
        if all(isinstance(v, SparseTensor) for v in items):
            tensors_ = [encode_sparse(v, "", what) for v in items]
            return pb.AttributeProto(name=name, type=_TYPES.SPARSE_TENSORS, sparse_tensors=tensors_)
        if all(isinstance(v, _VALUE_TYPES) for v in items):
            types = [type_proto(v) for v in items]
            return pb.AttributeProto(name=name, type=_TYPES.TYPE_PROTOS, type_protos=types)
        raise InvalidModel(f"{what} must be numbers, texts, arrays, graphs or types of one kind, not {items!r}")

    def function(self, function: Function) -> pb.FunctionProto:
        label = f"function '{function.name}'"
        proto = pb.FunctionProto(
            name=function.name,
            domain=function.domain or None,
            overload=function.overload or None,
            input=function.inputs,
            output=function.outputs,
            attribute=function.attributes,
            attribute_proto=self.attributes(function.defaults, label),
            node=[self.node(node) for node in function.nodes],
            value_info=[_value(Value(name, kind)) for name, kind in function.types.items()],
        )
        _opsets(proto, function.opsets)
        _put_back(proto, function.extra)
        return proto

    def training(self, training: Training) -> pb.TrainingInfoProto:
        proto = pb.TrainingInfoProto()
        for kind in ("initialization", "algorithm"):
            graph = getattr(training, kind)
            if graph is not None:
                self.graph(graph, getattr(proto, kind))
            for key, value in getattr(training, _BINDINGS[kind]).items():
                getattr(proto, _BINDINGS[kind]).add(key=key, value=value)
        _put_back(proto, training.extra)
        return proto


_BINDINGS = {"initialization": "initialization_binding", "algorithm": "update_binding"}


def _encoded(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8")


#: Tensors of at most as many bytes stay in the model: shapes, axes, scales.
_SMALL = 1024

#: The specification's recommendation, so that each tensor can be mapped on its own.
_ALIGNMENT = 4096


class DataFile:
    """Takes the data of initializers while a model is written.  `location` is what the model will call the file."""

    def __init__(self, file: BinaryIO, location: str, checksum: bool) -> None:
        self._file = file
        self._location = location
        self._sum = hashlib.sha1(usedforsecurity=False) if checksum else None
        self._size = 0

    def fill(self, tensor: pb.TensorProto, array: Array, what: str) -> None:
        """Put an array into an empty TensorProto and its data into the file.  Raises OSError where that is full."""
        element = element_type_of(array.dtype, what)
        if element.dtype.kind == "O" or math.prod(array.shape) * element.bits <= 8 * _SMALL:
            fill_tensor(tensor, array, what)
            return
        data = raw_bytes(array, element).reshape(-1).view(np.uint8).data
        self._append(bytes(-self._size % _ALIGNMENT))
        tensor.dims.extend(array.shape)
        tensor.data_type = element.code
        tensor.data_location = pb.TensorProto.EXTERNAL
        for key, value in (("location", self._location), ("offset", self._size), ("length", len(data))):
            tensor.external_data.add(key=key, value=str(value))
        self._append(data)

    def finish(self, proto: pb.ModelProto) -> None:
        """All tensors are written: add the checksum of the file to those that are in it, if it was asked for."""
        if self._sum is None:
            return
        digest = self._sum.hexdigest()
        for place in tensors(Document(proto)):
            if place.proto.data_location == pb.TensorProto.EXTERNAL:
                place.proto.external_data.add(key="checksum", value=digest)

    def _append(self, data: bytes | memoryview) -> None:
        self._file.write(data)
        self._size += len(data)
        if self._sum is not None:
            self._sum.update(data)
