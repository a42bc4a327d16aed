"""Comparing models as the `onnx` package parses them: what may differ between a file and its copy is made equal."""

from __future__ import annotations

from collections.abc import Iterator

import onnx
import onnx.numpy_helper
from google.protobuf.message import Message

#: For each AttributeProto.AttributeType the field that holds the value.
FIELDS = {
    1: "f", 2: "i", 3: "s", 4: "t", 5: "g", 6: "floats", 7: "ints", 8: "strings", 9: "tensors", 10: "graphs",
    11: "sparse_tensor", 12: "sparse_tensors", 13: "tp", 14: "type_protos",
}  # fmt: skip
DATA = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")


def messages(message: Message) -> Iterator[Message]:
    """A message and all inside, inner ones first."""
    for descriptor, value in message.ListFields():
        if descriptor.message_type is not None:
            for inner in [value] if isinstance(value, Message) else value:
                yield from messages(inner)
    yield message


def canonical(model: onnx.ModelProto, base_dir: str = "") -> onnx.ModelProto:
    """A copy in which two models that mean the same, with the same texts and unknown fields, are equal."""
    model = onnx.ModelProto.FromString(model.SerializeToString())
    for message in messages(model):
        for descriptor, value in message.ListFields():
            in_use = descriptor.is_repeated or descriptor.containing_oneof or isinstance(message, onnx.AttributeProto)
            if not in_use and value in ("", 0):
                message.ClearField(descriptor.name)  # absent and empty are the same
        names_domain = isinstance(message, (onnx.NodeProto, onnx.FunctionProto, onnx.OperatorSetIdProto))
        if names_domain and message.domain == "ai.onnx":
            message.ClearField("domain")
        if isinstance(message, onnx.TensorProto):
            _tensor(message, base_dir)
        if isinstance(message, onnx.AttributeProto):
            _attribute(message)
        if isinstance(message, onnx.TensorShapeProto.Dimension) and (message.dim_value, message.dim_param) == (-1, ""):
            message.ClearField("dim_value")
        if isinstance(message, onnx.GraphProto):
            _graph(message, model.ir_version)
        if isinstance(message, (onnx.ModelProto, onnx.FunctionProto)):
            _imports(message)
    return model


def _imports(message: onnx.ModelProto | onnx.FunctionProto) -> None:
    """An operator set is imported once."""
    imports = list({entry.SerializeToString(): entry for entry in message.opset_import}.values())
    del message.opset_import[:]
    message.opset_import.extend(imports)


def _tensor(tensor: onnx.TensorProto, base_dir: str) -> None:
    """All elements in raw_data; strings in string_data."""
    array = onnx.numpy_helper.to_array(tensor, base_dir)
    strings = tensor.data_type == onnx.TensorProto.STRING
    for field in DATA:
        if not (strings and field == "string_data"):
            tensor.ClearField(field)
    for field in ("data_location", "external_data"):
        tensor.ClearField(field)
    if not strings:
        tensor.raw_data = onnx.numpy_helper.from_array(array).raw_data


def _attribute(attribute: onnx.AttributeProto) -> None:
    if not attribute.type and not attribute.ref_attr_name:  # IR version 1
        attribute.type = next(k for k, f in FIELDS.items() if any(d.name == f for d, _ in attribute.ListFields()))
    if attribute.type in (1, 2, 3) and not attribute.ref_attr_name:  # the default value may be left out
        field = FIELDS[attribute.type]
        setattr(attribute, field, getattr(attribute, field))


def _graph(graph: onnx.GraphProto, ir_version: int) -> None:
    """A type is stated once, and before IR 4 each initializer is an input."""
    initializers = [t.name for t in graph.initializer]
    stated = {v.name for v in (*graph.input, *graph.output)} | set(initializers)
    kept = {v.name: v for v in graph.value_info if v.name not in stated and v.type.WhichOneof("value")}
    kept = sorted(v.SerializeToString(deterministic=True) for v in kept.values())
    del graph.value_info[:]
    graph.value_info.extend(onnx.ValueInfoProto.FromString(v) for v in kept)
    if ir_version < 4:
        listed = {v.name for v in graph.input}
        for tensor in graph.initializer:
            if tensor.name not in listed:
                graph.input.append(onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims))
