"""A model that uses every message and field of the file format that a model can use, with texts in all of them."""

from __future__ import annotations

import numpy as np
import onnx
import onnx.helper as oh
import onnx.numpy_helper
from google.protobuf.message import Message

from tests.onnx.protos import messages

#: Fields that a model cannot use: the only use of segments is refused.
UNUSED = {"TensorProto.segment", "Segment.begin", "Segment.end"}

_FLOAT = onnx.TensorProto.FLOAT


def full_model(unknown: bool = False) -> onnx.ModelProto:
    """The model; with `unknown` each message inside has a field number 999 as well."""
    graph = _graph("main", "x", "y")
    graph.node.extend(_nodes())
    model = oh.make_model(
        graph, ir_version=14, opset_imports=[oh.make_opsetid("", 21), oh.make_opsetid("test", 3)],
        functions=[_function("f", "one"), _function("f", "two")], producer_name="p", producer_version="1.2",
    )  # fmt: skip
    model.domain, model.model_version, model.doc_string = "com.acme", -5, "model"
    _properties(model)
    model.configuration.add(name="c", num_devices=2, device=["a", "b"])
    for _ in range(2):
        training = model.training_info.add()
        training.initialization.CopyFrom(_graph("init", "ix", "iy"))
        training.algorithm.CopyFrom(_graph("algorithm", "ax", "ay"))
        training.initialization_binding.add(key="w", value="iy")
        training.update_binding.add(key="w", value="ay")
    if unknown:
        for message in list(messages(model)):
            message.MergeFromString(unknown_field(message))
    return model


def unknown_field(message: Message) -> bytes:
    """Field 999, a text that says where it was."""
    text = message.DESCRIPTOR.name.encode()
    return bytes([999 << 3 & 0x7F | 0x80 | 2, 999 >> 4, len(text)]) + text


def _properties(message) -> None:
    message.metadata_props.add(key="com.acme.key", value=message.DESCRIPTOR.name)
    message.metadata_props.add(key="com.acme.other", value="2")


def _types() -> list[onnx.TypeProto]:
    """Every kind of type, with denotations."""
    tensor = oh.make_tensor_type_proto(_FLOAT, [2, "n", None])
    tensor.denotation = "IMAGE"
    for dim in tensor.tensor_type.shape.dim:
        dim.denotation = "DATA_CHANNEL"
    sparse = oh.make_sparse_tensor_type_proto(_FLOAT, [3, 4])
    opaque = onnx.TypeProto()
    opaque.opaque_type.domain, opaque.opaque_type.name = "com.acme", "thing"
    scalar, rankless = oh.make_tensor_type_proto(7, []), oh.make_tensor_type_proto(7, None)
    return [
        tensor, sparse, opaque, scalar, rankless, oh.make_sequence_type_proto(tensor),
        oh.make_optional_type_proto(oh.make_sequence_type_proto(tensor)),
        oh.make_map_type_proto(onnx.TensorProto.STRING, tensor),
    ]  # fmt: skip


def _value(name: str, kind: onnx.TypeProto) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name, type=kind, doc_string=f"value {name}")
    _properties(value)
    return value


def _tensor(name: str, **fields) -> onnx.TensorProto:
    tensor = onnx.TensorProto(name=name, doc_string=f"tensor {name}", **fields)
    _properties(tensor)
    return tensor


def _tensors() -> list[onnx.TensorProto]:
    """Every field that may hold the elements."""
    return [
        _tensor("w", data_type=1, dims=[2], float_data=[1, 2]),
        _tensor("b", data_type=3, dims=[2], int32_data=[-1, 2]),
        _tensor("t", data_type=8, dims=[2], string_data=[b"a", "ü".encode()]),
        _tensor("i", data_type=7, dims=[1], int64_data=[1 << 40]),
        _tensor("d", data_type=11, dims=[], double_data=[0.5]),
        _tensor("u", data_type=13, dims=[1], uint64_data=[1 << 63]),
        _tensor("r", data_type=10, dims=[3], raw_data=np.array([1, 2, 3], np.float16).tobytes()),
        _tensor("large", data_type=1, dims=[2048], raw_data=np.arange(2048, dtype=np.float32).tobytes()),
    ]


def _sparse(name: str) -> onnx.SparseTensorProto:
    values = _tensor(name, data_type=1, dims=[2], float_data=[1, 2])
    return oh.make_sparse_tensor(values, _tensor(f"{name}_i", data_type=7, dims=[2], int64_data=[0, 3]), [2, 3])


def _graph(name: str, read: str, written: str) -> onnx.GraphProto:
    node = oh.make_node("Add", [read, "w"], [f"{name}_inner"], name="add", doc_string="node")
    last = oh.make_node("Identity", [f"{name}_inner"], [written], domain="ai.onnx")
    kind = _types()[0]
    graph = oh.make_graph(
        [node, last], name, [_value("w", kind), _value(read, kind)], [_value(written, kind)], _tensors(),
        doc_string="graph", value_info=[_value(f"{name}_inner", kind)], sparse_initializer=[_sparse("s")],
    )  # fmt: skip
    _properties(graph)
    annotation = graph.quantization_annotation.add(tensor_name="w")
    annotation.quant_parameter_tensor_names.add(key="SCALE_TENSOR", value="d")
    return graph


def _attributes() -> list[onnx.AttributeProto]:
    """Every kind of attribute, lists with and without entries."""
    kind = onnx.AttributeProto
    inner = _graph("inner", "gx", "gy")
    full = {
        kind.FLOAT: {"f": 0.1}, kind.INT: {"i": -3}, kind.STRING: {"s": b"\xff no text"},
        kind.TENSOR: {"t": _tensors()[0]}, kind.GRAPH: {"g": inner}, kind.FLOATS: {"floats": [1, 0.1]},
        kind.INTS: {"ints": [1, 2]},
        kind.STRINGS: {"strings": [b"a", b"\xfe"]}, kind.TENSORS: {"tensors": _tensors()[:2]},
        kind.GRAPHS: {"graphs": [inner, inner]}, kind.SPARSE_TENSOR: {"sparse_tensor": _sparse("as")},
        kind.SPARSE_TENSORS: {"sparse_tensors": [_sparse("a"), _sparse("b")]}, kind.TYPE_PROTO: {"tp": _types()[5]},
        kind.TYPE_PROTOS: {"type_protos": _types()},
    }  # fmt: skip
    attributes = [kind(name=f"a{k}", type=k, doc_string="attribute", **value) for k, value in full.items()]
    attributes += [kind(name=f"empty{k}", type=k) for k in full if kind.AttributeType.Name(k).endswith("S")]
    return attributes


def _nodes() -> list[onnx.NodeProto]:
    node = onnx.NodeProto(
        op_type="f", domain="test", overload="two", name="call", input=["y", ""], output=["", "z"], doc_string="call",
        attribute=_attributes(),
    )  # fmt: skip
    _properties(node)
    configuration = node.device_configurations.add(configuration_id="c", pipeline_stage=1)
    sharding = configuration.sharding_spec.add(tensor_name="y", device=[0, 1])
    sharding.index_to_device_group_map.add(key=0, value=[0, 1])
    dim = sharding.sharded_dim.add(axis=1)
    dim.simple_sharding.add(dim_value=4, num_shards=2)
    dim.simple_sharding.add(dim_param="n", num_shards=2)
    return [node]


def _function(name: str, overload: str) -> onnx.FunctionProto:
    node = oh.make_node("Scale", ["a"], ["b"], name="scale", domain="test")
    node.attribute.add(name="s", type=onnx.AttributeProto.FLOAT, ref_attr_name="alpha", doc_string="reference")
    default = onnx.AttributeProto(name="beta", type=onnx.AttributeProto.FLOAT, f=0.5, doc_string="default")
    function = oh.make_function(
        "test", name, ["a"], ["b"], [node], [oh.make_opsetid("", 20), oh.make_opsetid("test", 3)],
        attributes=["alpha"], attribute_protos=[default], doc_string="function", overload=overload,
        value_info=[_value("b", _types()[0])],
    )  # fmt: skip
    _properties(function)
    return function
