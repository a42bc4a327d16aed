"""Rules about hints and about what the hardware needs: quantization annotations, devices, scales, unknown fields.

Annotations and devices do not change what a model computes (QA, DV).  Scales that are no positive normal numbers are
valid ONNX and no quantization at all: `check` refuses them (HW-01).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.rules.finding import Finding, quoted, warning
from hwflow.onnx.rules.symbols import tables
from hwflow.onnx.rules.walk import nodes

_ANNOTATIONS = ("SCALE_TENSOR", "ZERO_POINT_TENSOR")
_IGNORED = "nothing needs to be done: it does not change what the model computes"


def quantization_annotations(document: Document) -> Iterator[Finding]:
    """Annotations name tensors of their graph, by keys that are agreed."""
    for table in tables(document):
        if not isinstance(table.scope.proto, pb.GraphProto):
            continue
        for index, annotation in enumerate(table.scope.proto.quantization_annotation):
            path = f"{table.scope.path}/quantization_annotation[{index}]"
            for name in (annotation.tensor_name, *(e.value for e in annotation.quant_parameter_tensor_names)):
                if name not in table.order:
                    message = f"an annotation should name tensors of the graph, not {quoted(name)}"
                    yield warning("QA-01", "W-annotation", path, message, _IGNORED)
            for entry in annotation.quant_parameter_tensor_names:
                if entry.key not in _ANNOTATIONS:
                    message = f"the keys should be among {', '.join(_ANNOTATIONS)}, not {quoted(entry.key)}"
                    yield warning("QA-01", "W-annotation", path, message, _IGNORED)


def devices(document: Document) -> Iterator[Finding]:
    """Nodes refer to configurations that the model has and to devices, operands and axes that exist."""
    numbers: dict[str, int] = {}
    for index, configuration in enumerate(document.proto.configuration):
        path = f"model/configuration[{index}]"
        name, number = configuration.name, configuration.num_devices
        if not name or name in numbers:
            message = f"a configuration should have a name of its own, not {quoted(name)}"
            yield warning("DV-01", "W-device", path, message, _IGNORED)
        if number < 1 or (configuration.device and len(configuration.device) != number):
            message = f"num_devices should be the number of devices, not {number} for {len(configuration.device)} names"
            yield warning("DV-01", "W-device", path, message, _IGNORED)
        numbers.setdefault(name, number)
    for place in nodes(document):
        for part in place.proto.device_configurations:
            yield from _node_devices(place.proto, part, numbers, place.path)


def _node_devices(
    node: pb.NodeProto, part: pb.NodeDeviceConfigurationProto, numbers: dict[str, int], path: str
) -> Iterator[Finding]:
    if part.configuration_id not in numbers:
        message = f"a node should refer to a configuration of the model, not to {quoted(part.configuration_id)}"
        yield warning("DV-01", "W-device", path, message, _IGNORED)
        return
    number = numbers[part.configuration_id]
    for sharding in part.sharding_spec:
        if sharding.tensor_name not in (*node.input, *node.output):
            message = f"a sharding should be of an input or output of the node, not of {quoted(sharding.tensor_name)}"
            yield warning("DV-01", "W-device", path, message, _IGNORED)
        groups = {entry.key for entry in sharding.index_to_device_group_map}
        for device in sharding.device:
            if device not in groups and not 0 <= device < number:
                message = f"a device should be 0 to {number - 1}, not {device}"
                yield warning("DV-01", "W-device", path, message, _IGNORED)
        for dim in sharding.sharded_dim:
            if any(shard.num_shards < 1 for shard in dim.simple_sharding):
                message = f"num_shards of axis {dim.axis} should be 1 or more"
                yield warning("DV-01", "W-device", path, f"{message}, not less", _IGNORED)


def unknown_fields(document: Document) -> Iterator[Finding]:
    """Fields that ONNX does not have, or not yet: kept when the model is written, otherwise ignored."""
    waiting: list[tuple[Message, str]] = [(document.proto, "model")]
    seen: set[tuple[str, int]] = set()
    while waiting:
        message, path = waiting.pop()
        fields: Any = UnknownFieldSet(message)
        for field in fields:
            key = message.DESCRIPTOR.name, field.field_number
            if key not in seen:
                seen.add(key)
                text = f"the fields of {key[0]} should be those of ONNX with IR version 14, not number {key[1]}"
                yield warning("LM-03", "W-unknown-field", path, text, "use a newer hwflow if the model is newer")
        for field_descriptor, value in message.ListFields():
            if field_descriptor.type != field_descriptor.TYPE_MESSAGE:
                continue
            name = field_descriptor.name
            where = path if path != "model" else name
            parts = value if isinstance(value, list) or hasattr(value, "add") else [value]
            waiting.extend((part, where) for part in parts)


RULES = (quantization_annotations, devices, unknown_fields)
