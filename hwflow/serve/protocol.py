"""Bodies of requests and answers of the Open Inference Protocol (KServe v2), with its extension for binary tensors.

https://github.com/kserve/open-inference-protocol and, for binary data,
https://github.com/triton-inference-server/server/blob/main/docs/protocol/extension_binary_data.md
"""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Value
from hwflow.quantize import Quantized
from hwflow.serve.errors import BadRequest

# The inputs and outputs of a model as the Open Inference Protocol names them.


#: The names that the protocol has for types of numpy.
DATATYPES: Mapping[str, str] = {
    "bool": "BOOL", "int8": "INT8", "int16": "INT16", "int32": "INT32", "int64": "INT64", "uint8": "UINT8",
    "uint16": "UINT16", "uint32": "UINT32", "uint64": "UINT64", "float16": "FP16", "float32": "FP32", "float64": "FP64",
    "object": "BYTES"}


@dataclass(frozen=True)
class TensorFacts:
    """An input or output.

    `shape` is that of a row in a request, without the axis of the rows; `row` the same in the model, which may have an
    axis of 1 in front.
    """

    name: str
    dtype: np.dtype[np.generic]
    shape: tuple[int, ...]
    row: tuple[int, ...]

    @property
    def datatype(self) -> str:
        """Its name in the protocol."""
        return DATATYPES[self.dtype.name]

    def facts(self) -> dict[str, object]:
        """The form in the metadata of a model."""
        return {"name": self.name, "datatype": self.datatype, "shape": [-1, *self.shape]}


@dataclass(frozen=True)
class Interface:
    """The name of a served model, its inputs and outputs, in order; every tensor of a request has an axis of rows in
    front."""

    model: str
    inputs: tuple[TensorFacts, ...]
    outputs: tuple[TensorFacts, ...]

    @staticmethod
    def of(quantized: Quantized, model: str) -> Interface:
        """The protocol's view of `quantized`, known as `model`.  HwflowError for a type that the protocol has not.

        Where every input and output has an axis of 1 in front, that is the axis of the rows; else one stands before.
        """
        ends = quantized.prologue.graph.inputs, quantized.epilogue.graph.outputs
        batch = all(shape_of(value)[:1] == (1,) for values in ends for value in values)
        inputs, outputs = (tuple(facts_of(value, batch) for value in values) for values in ends)
        return Interface(model, inputs, outputs)

    def facts(self) -> dict[str, object]:
        """The metadata of the model."""
        return {"name": self.model, "versions": ["1"], "platform": "hwflow",
                "inputs": [tensor.facts() for tensor in self.inputs],
                "outputs": [tensor.facts() for tensor in self.outputs]}


def shape_of(value: Value) -> tuple[int, ...]:
    assert value.tensor is not None
    shape = value.tensor.shape
    assert shape is not None, "the shapes of a host program are known"
    return tuple(int(size) for size in shape)  # type: ignore[arg-type]


def facts_of(value: Value, batch: bool) -> TensorFacts:
    assert value.tensor is not None
    dtype, row = np.dtype(value.tensor.dtype), shape_of(value)
    if dtype.name not in DATATYPES:
        raise HwflowError(f"'{value.name}' must have a type of the Open Inference Protocol to be served, "
                          f"{', '.join(DATATYPES)}, not {dtype.name}")
    return TensorFacts(value.name, dtype, row[1:] if batch else row, row)


#: The HTTP header with the length of the JSON in front of binary tensors, in both directions.
HEADER_LENGTH = "Inference-Header-Content-Length"
#: More rows than any body has.
MOST_ROWS = 1 << 40
#: What numbers of JSON may be, by the kind of the tensor's type in numpy.
TYPES: Mapping[str, set[type]] = {"b": {bool}, "i": {int}, "u": {int}, "f": {int, float}, "O": {str}}
BINARY_SIZE, BINARY, BINARY_OUTPUT = "binary_data_size", "binary_data", "binary_data_output"


@dataclass(frozen=True)
class WantedOutput:
    """An output that the answer has; `binary`: behind the JSON."""

    tensor: TensorFacts
    binary: bool


@dataclass(frozen=True)
class InferRequest:
    """`rows` has arrays [n, *shape in the model] by input name; `identifier` comes back with the answer."""

    identifier: str | None
    rows: Mapping[str, Array]
    outputs: tuple[WantedOutput, ...]

    @property
    def count(self) -> int:
        """Rows of each input."""
        return min(len(array) for array in self.rows.values())


def request_of(body: bytes, header_length: str | None, interface: Interface) -> InferRequest:
    """The request that a body holds.  BadRequest where it is none for this model.

    `header_length` is what `Inference-Header-Content-Length` says: what follows the JSON are binary tensors.
    """
    text, binary = split(body, header_length)
    data = parsed(text)
    if not isinstance(data, dict):
        refuse(f"the body must be a JSON object, not {kind_of(data)}")
    identifier = data.get("id")
    if identifier is not None and not isinstance(identifier, str):
        refuse(f"'id' must be a text, not {kind_of(identifier)}")
    entries, left = named(data, "inputs"), memoryview(binary)
    known = {tensor.name: tensor for tensor in interface.inputs}
    rows: dict[str, Array] = {}
    for name, entry in entries.items():
        if name not in known:
            refuse(f"the model has no input '{name}', only {listed(known)}")
        rows[name], left = tensor_of(entry, known[name], left)
    if left:
        refuse(f"the body has {len(left)} bytes behind the tensors that 'inputs' describe")
    if missing := [name for name in known if name not in rows]:
        refuse(f"'inputs' must have {listed(missing)}, too")
    counts = {len(array) for array in rows.values()}
    if len(counts) > 1:
        refuse(f"all inputs must have the same number of rows, not {sorted(counts)}")
    return InferRequest(identifier, rows, wanted_outputs(data, interface))


def answer_of(interface: Interface, request: InferRequest, outputs: Mapping[str, Array]) -> tuple[bytes, int | None]:
    """The body of the answer with rows [n, *shape in the model] by output name, and the length of its JSON where binary
    tensors follow.  BadRequest where JSON has no form for a number."""
    entries, tail = [], []
    for output in request.outputs:
        tensor = output.tensor
        array = outputs[tensor.name].reshape(-1, *tensor.shape)
        entry: dict[str, object] = {"name": tensor.name, "datatype": tensor.datatype, "shape": list(array.shape)}
        if output.binary:
            tail.append(bytes_of(array))
            entry["parameters"] = {BINARY_SIZE: len(tail[-1])}
        else:
            entry["data"] = array.reshape(-1).tolist()
        entries.append(entry)
    answer = {"model_name": interface.model, "model_version": "1", "outputs": entries,
              **({} if request.identifier is None else {"id": request.identifier})}
    try:
        text = json.dumps(answer, allow_nan=False).encode()
    except ValueError:
        refuse(f"the result holds infinity or no number, which JSON has no form for: ask for the output with the "
               f"parameter {BINARY}")
    return text + b"".join(tail), len(text) if tail else None


def bytes_of(array: Array) -> bytes:
    """An array behind the JSON: little-endian; of a text its length in four bytes, and its UTF-8."""
    if array.dtype.kind != "U":
        return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).tobytes()
    encoded = [text.encode() for text in array.ravel().tolist()]
    return b"".join(len(text).to_bytes(4, "little") + text for text in encoded)


def split(body: bytes, header_length: str | None) -> tuple[bytes, bytes]:
    """The JSON and the binary tensors."""
    if header_length is None:
        return body, b""
    if not (header_length.isascii() and header_length.isdecimal() and len(header_length) < 16
            and int(header_length) <= len(body)):
        refuse(f"{HEADER_LENGTH} must be the length of the JSON, at most {len(body)}, not '{header_length[:20]}'")
    length = int(header_length)
    return body[:length], body[length:]


def parsed(text: bytes) -> Any:
    def no_number(name: str) -> NoReturn:
        refuse(f"the body must be JSON, which has no {name}")

    try:
        return json.loads(text.decode("utf-8"), parse_constant=no_number)
    except UnicodeDecodeError:
        refuse("the body must be JSON in UTF-8")
    except RecursionError:
        refuse("the body must be JSON without so many brackets inside of each other")
    except ValueError as error:
        refuse(f"the body must be JSON, which it is not ({error})")


def named(data: Mapping[str, object], key: str) -> dict[str, dict[str, object]]:
    """The entries of a list of tensors, by name."""
    entries = data.get(key)
    if not isinstance(entries, list) or not entries:
        refuse(f"'{key}' must be a list of tensors")
    by_name: dict[str, dict[str, object]] = {}
    for entry in entries:
        name = entry.get("name") if isinstance(entry, dict) else None
        if not isinstance(name, str):
            refuse(f"each entry of '{key}' must be an object with a 'name'")
        if name in by_name:
            refuse(f"'{key}' must have '{name[:80]}' only once")
        by_name[name] = entry
    return by_name


def tensor_of(entry: Mapping[str, object], tensor: TensorFacts, binary: memoryview) -> tuple[Array, memoryview]:
    """Rows of an input in the form that the model has, and the binary data that are left."""
    name, rows = tensor.name, rows_in(entry.get("shape"), tensor.shape)
    if entry.get("datatype") != tensor.datatype:
        refuse(f"input '{name}' must have the datatype {tensor.datatype}, not {shown(entry.get('datatype'))}")
    if not rows:
        sizes = ", ".join(["n", *map(str, tensor.shape)])
        refuse(f"input '{name}' must have the shape [{sizes}] with n of 1 or more, not {shown(entry.get('shape'))}")
    count = rows * math.prod(tensor.shape)
    size = parameters_of(entry, name).get(BINARY_SIZE)
    if size is None:
        array = numbers_of(entry.get("data"), tensor, count)
    else:
        if "data" in entry:
            refuse(f"input '{name}' must have 'data' or {BINARY_SIZE}, not both")
        if tensor.dtype.kind == "O":
            refuse(f"input '{name}' must have its texts in 'data', not behind the JSON")
        if type(size) is not int or size != count * tensor.dtype.itemsize or size > len(binary):
            refuse(f"input '{name}' must have {count * tensor.dtype.itemsize} bytes behind the JSON, not "
                   f"{shown(size)} of {len(binary)}")
        array = np.frombuffer(binary[:size], tensor.dtype.newbyteorder("<")).astype(tensor.dtype)
        if tensor.dtype == np.bool_ and bool((np.frombuffer(binary[:size], np.uint8) > 1).any()):
            refuse(f"input '{name}' must have bytes of 0 and 1 only")
        binary = binary[size:]
    return array.reshape(rows, *tensor.row), binary


def numbers_of(data: object, tensor: TensorFacts, count: int) -> Array:
    """The numbers of JSON, a flat list or lists in lists, as a flat array."""
    name, dtype = tensor.name, tensor.dtype
    if not isinstance(data, list):
        refuse(f"input '{name}' must have a list 'data', or the parameter {BINARY_SIZE}")
    flat = data
    while set(map(type, flat)) == {list}:
        flat = list(itertools.chain.from_iterable(flat))
    if len(flat) != count:
        refuse(f"input '{name}' must have {count} numbers in 'data', not {len(flat)}")
    if not set(map(type, flat)) <= TYPES[dtype.kind]:  # before numpy sees them: it makes arrays of texts, too
        what = {"b": "true and false", "f": "numbers", "O": "texts"}.get(dtype.kind, "whole numbers")
        refuse(f"input '{name}' must have {what} in 'data', and nothing else")
    array = fitting(flat, dtype)
    if array is None:
        refuse(f"input '{name}' must have numbers in 'data' that all fit {tensor.datatype}")
    return array


def fitting(numbers: list[Any], dtype: np.dtype[np.generic]) -> Array | None:
    """Numbers of Python in a type; None where it does not hold them."""
    if dtype.kind == "O":
        return np.array(numbers, np.str_)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)  # type: ignore[type-var]
        return np.array(numbers, dtype) if limits.min <= min(numbers) and max(numbers) <= limits.max else None
    with np.errstate(over="ignore"):  # looked for below
        try:
            array: Array = np.array(numbers, np.float64 if dtype.kind == "f" else dtype).astype(dtype)
        except OverflowError:
            return None
    return array if np.isfinite(array).all() else None


def wanted_outputs(data: Mapping[str, object], interface: Interface) -> tuple[WantedOutput, ...]:
    """The outputs that the answer is to have: all where the request does not say."""
    binary = parameters_of(data, None).get(BINARY_OUTPUT, False)
    known = {tensor.name: tensor for tensor in interface.outputs}
    if not data.get("outputs"):
        return tuple(WantedOutput(tensor, boolean(binary, BINARY_OUTPUT)) for tensor in interface.outputs)
    outputs = []
    for name, entry in named(data, "outputs").items():
        if name not in known:
            refuse(f"the model has no output '{name[:80]}', only {listed(known)}")
        parameters = parameters_of(entry, name)
        if "classification" in parameters:
            refuse(f"output '{name}': classification is not supported")
        outputs.append(WantedOutput(known[name], boolean(parameters.get(BINARY, binary), BINARY)))
    return tuple(outputs)


def parameters_of(entry: Mapping[str, object], name: str | None) -> Mapping[str, object]:
    parameters = entry.get("parameters") or {}
    if not isinstance(parameters, dict):
        refuse(f"{'' if name is None else f'{name}: '}'parameters' must be an object, not {kind_of(parameters)}")
    return parameters


def boolean(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        refuse(f"the parameter {name} must be true or false, not {shown(value)}")
    return value


def rows_in(shape: object, row: tuple[int, ...]) -> int:
    """The rows of a shape in a request; 0 where it is none of rows of this shape."""
    if not isinstance(shape, list) or not shape or tuple(shape[1:]) != row:
        return 0
    return shape[0] if type(shape[0]) is int and 0 < shape[0] < MOST_ROWS else 0


def kind_of(value: object) -> str:
    """The name of the type in JSON."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")


def shown(value: object) -> str:
    """A value of the request in a message, however long or deep it is."""
    if isinstance(value, list):
        few = len(value) <= 8 and all(isinstance(item, int) for item in value)
        return str(value) if few else f"a list of {len(value)}"
    return kind_of(value) if isinstance(value, dict) else json.dumps(value)[:80]


def listed(names: Sequence[str] | Mapping[str, object]) -> str:
    return ", ".join(f"'{name}'" for name in names)


def refuse(why: str) -> NoReturn:
    raise BadRequest(why)
