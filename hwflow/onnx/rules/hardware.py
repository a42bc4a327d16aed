"""Rules about hints and about what the hardware needs: constants, scales, annotations, devices, unknown fields.

ONNX allows any number in a scale.  Hardware multiplies by it and divides by it, so `check` wants a positive normal one
(HW-01).  Annotations and devices do not change what a model computes (QA, DV).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from google.protobuf.message import Message
from google.protobuf.unknown_fields import UnknownFieldSet
from hwflow_base.errors import HwflowError

from hwflow.onnx import onnx_pb2 as pb
from hwflow.onnx.container.document import Document
from hwflow.onnx.container.tensors import decode_tensor
from hwflow.onnx.model import Array
from hwflow.onnx.rules.finding import Finding, error, quoted, warning
from hwflow.onnx.rules.tensors import ELEMENTS
from hwflow.onnx.rules.walk import Scope, nodes, scopes, tables, tensors
from hwflow.onnx.schemas import versions_of

_PIECE = 1 << 22
_TINY = float(np.finfo(np.float32).tiny)


def constants_are_numbers(document: Document) -> Iterator[Finding]:
    """A constant that is not-a-number makes every result that depends on it one; hardware has none."""
    for place in tensors(document):
        element = ELEMENTS.get(place.proto.data_type)
        if element is None or element.dtype.kind in "iubO" or element.bits < 8:  # the others have no NaN
            continue
        array = _decoded(document, place.proto)
        if array is not None and (count := _nans(array)):
            message = f"the elements should be numbers, not NaN ({count} of {array.size} are)"
            yield warning("HW-01", "W-nan", place.path, message,
                          "train or export the model again, unless something is written over them")


def _nans(array: Array) -> int:
    """Counted in pieces, so that the test of a large tensor needs little memory."""
    flat = array.reshape(-1)
    return sum(int(np.count_nonzero(np.isnan(flat[i : i + _PIECE]))) for i in range(0, flat.size, _PIECE))


def _decoded(document: Document, tensor: pb.TensorProto) -> Array | None:
    """The array; None where other rules say what is wrong with the tensor."""
    try:
        return decode_tensor(tensor, "the tensor", document)
    except HwflowError:
        return None


class _Constants:
    """The tensors by name of each scope."""

    def __init__(self, document: Document) -> None:
        self._by_scope: dict[int, dict[str, pb.TensorProto]] = {}
        self._scopes = list(scopes(document))  # alive, so that their messages keep their identity
        for scope in self._scopes:
            constants = self._by_scope[id(scope.proto)] = {}
            if isinstance(scope.proto, pb.GraphProto):
                constants.update((tensor.name, tensor) for tensor in scope.proto.initializer)
            for node in scope.proto.node:
                names = [attribute.name for attribute in node.attribute]
                if node.op_type == "Constant" and len(node.output) == 1 and names == ["value"]:
                    constants[node.output[0]] = node.attribute[0].t

    def find(self, scope: Scope, name: str) -> pb.TensorProto | None:
        around: Scope | None = scope
        while around is not None:
            tensor = self._by_scope.get(id(around.proto), {}).get(name)
            if tensor is not None:
                return tensor
            around = around.outer
        return None


@cache
def _parameters(domain: str, op_type: str) -> tuple[tuple[int, int], ...]:
    """The positions of the scales of a quantized operator, each with that of the zero point behind it."""
    versions = versions_of(domain, op_type)
    names = [formal.name.lower() for formal in versions[-1].inputs] if versions else []
    return tuple(
        (k, k + 1) for k, (name, after) in enumerate(pairwise(names))
        if name.endswith("scale") and after.endswith(("zero_point", "zeropt"))
    )


def quantization_parameters(document: Document) -> Iterator[Finding]:
    """Constant scales are positive, finite and normal; constant zero points are whole numbers."""
    constants: _Constants | None = None
    for place in nodes(document):
        for scale, zero in _parameters(place.domain, place.op_type):
            constants = constants or _Constants(document)
            for position, problem in ((scale, _scale), (zero, _zero_point)):
                name = place.inputs[position] if position < len(place.inputs) else ""
                tensor = constants.find(place.scope, name) if name else None
                array = _decoded(document, tensor) if tensor is not None else None
                if array is not None and array.dtype.kind != "O" and (message := problem(array, quoted(name))):
                    yield error("HW-01", place.path, message, "quantize the model again")


def _scale(array: Array, name: str) -> str | None:
    values = array.astype(np.float64).reshape(-1)
    bad = values[~(np.isfinite(values) & (values > 0))]
    if bad.size:
        return f"the scale {name} must be positive and finite, not {float(bad[0])}"
    small = values[values < _TINY]
    return f"the scale {name} must be at least {_TINY}, not {float(small[0])}" if small.size else None


def _zero_point(array: Array, name: str) -> str | None:
    """Integers are in the range of their type anyway; 32 bits are for biases, which have no zero point."""
    values = array.astype(np.float64).reshape(-1)
    bad = values[~(np.isfinite(values) & (values == np.round(values)))]
    if array.dtype == np.int32:
        bad = values[values != 0]
    if bad.size:
        expected = "0 for int32" if array.dtype == np.int32 else "a whole number"
        return f"the zero point {name} must be {expected}, not {float(bad[0]):g}"
    return None


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


RULES = (constants_are_numbers, quantization_parameters, quantization_annotations, devices, unknown_fields)
