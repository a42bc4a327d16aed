"""A TensorFlow Lite file as frozen dataclasses, checked as far as it can be without a look at what operators mean."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from hwflow.onnx.errors import FormatError, InvalidModel, LimitError, TensorDataError, Unsupported
from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array, DType
from hwflow.onnx.tflite import schema
from hwflow.onnx.tflite.flatbuffer import Source, Table, root
from hwflow.onnx.tflite.sparse import Sparsity, dense, read_sparsity

_AGAIN = "the file is damaged: copy or export it again"

#: Most axes of a tensor, as in numpy.
_MOST_AXES = 32


@dataclass(frozen=True)
class Quantization:
    """real = scale * (integer - zero_point), for a tensor or for each place of the axis `axis`."""

    scale: tuple[float, ...]
    zero_point: tuple[int, ...]
    axis: int = 0

    @property
    def per_axis(self) -> bool:
        return len(self.scale) > 1

    @cached_property
    def scales(self) -> npt.NDArray[np.float32]:
        """float32; a scalar for a whole tensor, else [places]."""
        return np.array(self.scale if self.per_axis else self.scale[0], np.float32)

    def zero_points(self, dtype: DType) -> Array:
        """Of the tensor's own type, shaped as `scales`."""
        return np.array(self.zero_point if self.per_axis else self.zero_point[0], dtype)


@dataclass(frozen=True, eq=False)
class Tensor:
    """A tensor of a subgraph; `data` are the bytes of a constant, None for what is computed or fed."""

    index: int
    name: str
    type_name: str
    shape: tuple[int, ...]
    quantization: Quantization | None
    data: memoryview | None
    is_variable: bool
    #: Where the elements are that `data` has, if it has not all of them.
    sparsity: Sparsity | None
    limits: Limits
    #: The shape with None for sizes that may differ from those in `shape`.
    open_shape: tuple[int | None, ...]

    @property
    def is_open(self) -> bool:
        """Whether some size may differ from the one in `shape`."""
        return None in self.open_shape

    @property
    def label(self) -> str:
        return f"tensor {self.index} '{self.name}'"

    @property
    def dtype(self) -> DType:
        """What numpy calls the type of its elements.  Unsupported where there is none."""
        if self.type_name not in schema.DTYPES:
            raise Unsupported(
                f"{self.label} must have elements of a type that hwflow knows "
                f"({', '.join(sorted(schema.DTYPES))}), not {self.type_name}",
                "leave the operators that use it outside of the model",
            )
        return schema.DTYPES[self.type_name]

    @cached_property
    def constant(self) -> Array:
        """The elements of a constant.  TensorDataError where the bytes do not suit the shape."""
        assert self.data is not None, "only of constants"
        if self.sparsity is not None:
            count = len(self.data) // self.dtype.itemsize
            values = np.frombuffer(self.data, self.dtype.newbyteorder("<"), count)
            return dense(values, self.shape, self.sparsity, self.label, self.limits)
        count, packed = math.prod(self.shape), self.type_name == "INT4"
        size = (count + 1) // 2 if packed else count * self.dtype.itemsize
        if len(self.data) != size:
            raise TensorDataError(
                f"{self.label} must have {size} bytes for its shape {list(self.shape)} of {self.type_name}, not "
                f"{len(self.data)}", _AGAIN,
            )
        if packed:
            return _nibbles(np.frombuffer(self.data, np.uint8))[:count].reshape(self.shape)
        if self.type_name == "BOOL":  # a byte of another value is no boolean
            return np.asarray(np.frombuffer(self.data, np.uint8) != 0).reshape(self.shape)
        array: Array = np.frombuffer(self.data, self.dtype.newbyteorder("<")).reshape(self.shape)
        return array


def _nibbles(data: npt.NDArray[np.uint8]) -> npt.NDArray[np.int8]:
    """int4 elements, the lower half of a byte first, as int8."""
    pairs = np.stack([data & 15, data >> 4], axis=-1).ravel().astype(np.int8)
    return np.where(pairs > 7, pairs - 16, pairs).astype(np.int8)


@dataclass(frozen=True)
class Operator:
    """One call of an operator; -1 in `inputs` is an optional one that is left out."""

    index: int
    kind: str
    version: int
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Table | None
    options_type: int
    name: str  # of its first output

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"operator {self.index} {self.kind}" + (f" '{self.name}'" if self.name else "")

    def read(self, table: str) -> Options:
        """Its options, which have the type `table`; all defaults where the file has none."""
        kind = schema.OPTIONS[table]
        if self.options_type not in (0, kind.number):
            raise FormatError(
                f"the options must be {table} (type {kind.number}), not of type {self.options_type}", _AGAIN,
                where=self.label,
            )
        return Options(kind, self.options)


@dataclass(frozen=True)
class Options:
    """The options of an operator by name."""

    kind: schema.OptionTable
    table: Table | None

    def whole(self, name: str) -> int:
        field = self.kind.fields[name]
        return int(field.default if self.table is None else self.table.number(field.number, field.kind, field.default))

    def real(self, name: str) -> float:
        field = self.kind.fields[name]
        value = field.default if self.table is None else self.table.number(field.number, field.kind, field.default)
        return float(np.float32(value))

    def flag(self, name: str) -> bool:
        return bool(self.whole(name))

    def text(self, name: str) -> str:
        return "" if self.table is None else self.table.text(self.kind.fields[name].number)

    def wholes(self, name: str) -> tuple[int, ...]:
        number = self.kind.fields[name].number
        return () if self.table is None else tuple(self.table.numbers(number, np.dtype(np.int32)).tolist())


@dataclass(frozen=True)
class Subgraph:
    """One graph; `inputs` and `outputs` are numbers of tensors."""

    index: int
    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]


@dataclass(frozen=True)
class File:
    """All that a file says."""

    description: str
    subgraphs: tuple[Subgraph, ...]
    metadata: Mapping[str, memoryview]
    limits: Limits


@dataclass(frozen=True)
class _Code:
    kind: str
    version: int


def parse(data: memoryview, limits: Limits) -> File:
    """The file in `data`.  FormatError, InvalidModel, LimitError for what is none, with the place in the message."""
    source = Source(data, limits)
    if len(data) < 8:
        raise FormatError(f"must be a whole TensorFlow Lite file, not {len(data)} bytes", _AGAIN)
    model = root(source, "the model")
    version = model.number(0, "I")
    if version != schema.VERSION:
        raise FormatError(
            f"the schema must have version {schema.VERSION}, not {version}", "convert the model with TensorFlow 2 again"
        )
    codes = [_code(table) for table in model.tables(1, "operator code")]
    buffers = [_buffer(table) for table in model.tables(4, "buffer")]
    graphs = tuple(
        _subgraph(table, k, codes, buffers, limits) for k, table in enumerate(model.tables(2, "subgraph"))
    )
    if not graphs:
        raise InvalidModel("the model must have a subgraph, not none", "export the model again")
    metadata = dict(_metadata(model, buffers))
    return File(model.text(3), graphs, metadata, limits)


def _metadata(model: Table, buffers: list[memoryview]) -> Iterator[tuple[str, memoryview]]:
    for table in model.tables(6, "metadata"):
        yield table.text(0), _buffer_of(int(table.number(1, "I")), buffers, table.what)


def _code(table: Table) -> _Code:
    """The old field of a byte ends with 127, and newer operators stand in the new one."""
    number = max(int(table.number(0, "b")), int(table.number(3, "i")))
    name = schema.operator_name(number)
    return _Code(f"CUSTOM {table.text(1)}".strip() if name == "CUSTOM" else name, int(table.number(2, "i", 1)))


def _buffer(table: Table) -> memoryview:
    """The bytes of a buffer, inside of the flatbuffer or, in files above 2 GiB, behind it."""
    offset, size = int(table.number(1, "Q")), int(table.number(2, "Q"))
    if offset > 1:  # 1 is what a writer says before it knows
        table.source.require(offset, size, table.what)
        return table.source.data[offset : offset + size]
    return table.data(0)


def _buffer_of(number: int, buffers: list[memoryview], what: str) -> memoryview:
    if not 0 <= number < len(buffers):
        raise InvalidModel(f"{what} must have one of the {len(buffers)} buffers, not buffer {number}", _AGAIN)
    return buffers[number]


def _subgraph(table: Table, index: int, codes: list[_Code], buffers: list[memoryview], limits: Limits) -> Subgraph:
    tensors = tuple(
        _tensor(inner, k, buffers, limits) for k, inner in enumerate(table.tables(0, f"{table.what}, tensor"))
    )
    inputs, outputs = (_indices(table, number, tensors, f"{table.what}", none=False) for number in (1, 2))
    operators = tuple(
        _operator(inner, k, codes, tensors) for k, inner in enumerate(table.tables(3, f"{table.what}, operator"))
    )
    return Subgraph(index, table.text(4), tensors, inputs, outputs, operators)


def _indices(table: Table, number: int, tensors: tuple[Tensor, ...], what: str, *, none: bool) -> tuple[int, ...]:
    """Numbers of tensors; -1 is allowed where `none` says so."""
    found = tuple(int(index) for index in table.numbers(number, np.dtype(np.int32)))
    for index in found:
        if not (0 <= index < len(tensors) or (none and index == -1)):
            raise InvalidModel(f"{what} must name one of its {len(tensors)} tensors, not tensor {index}", _AGAIN)
    return found


def _operator(table: Table, index: int, codes: list[_Code], tensors: tuple[Tensor, ...]) -> Operator:
    number = int(table.number(0, "I"))
    if number >= len(codes):
        raise InvalidModel(f"{table.what} must have one of the {len(codes)} operator codes, not {number}", _AGAIN)
    code = codes[number]
    what = f"operator {index} {code.kind}"
    inputs, outputs = (_indices(table, field, tensors, what, none=field == 1) for field in (1, 2))
    name = tensors[outputs[0]].name if outputs else ""
    options = table.table(4, f"the options of {what}")
    return Operator(index, code.kind, code.version, inputs, outputs, options, int(table.number(3, "B")), name)


def _tensor(table: Table, index: int, buffers: list[memoryview], limits: Limits) -> Tensor:
    name = table.text(3)
    label = f"tensor {index} '{name}'"
    shape = tuple(int(size) for size in table.numbers(0, np.dtype(np.int32)))
    signature = tuple(int(size) for size in table.numbers(7, np.dtype(np.int32)))
    if any(size < 0 for size in shape) or len(shape) > _MOST_AXES:
        raise InvalidModel(f"{label} must have at most {_MOST_AXES} sizes of 0 or more, not {list(shape)}", _AGAIN)
    kind = schema.type_name(int(table.number(1, "b")))
    size = math.prod(max(size, 1) for size in shape) * (schema.DTYPES[kind].itemsize if kind in schema.DTYPES else 1)
    if size > limits.tensor_bytes:
        raise LimitError(
            f"{label} must be at most {limits.tensor_bytes:,} bytes (tensor_bytes), not {size:,}",
            f"if you trust the model, raise it with --limit tensor_bytes={size}",
        )
    number = int(table.number(2, "I"))
    data = _buffer_of(number, buffers, label)
    # Buffer 0 is empty and stands for none.  An empty tensor is a constant without bytes.
    constant = data if len(data) or (number and math.prod(shape) == 0) else None
    quantization = table.table(4, f"the quantization of {label}")
    return Tensor(
        index, name, kind, shape,
        None if quantization is None else _quantization(quantization, label, shape), constant,
        bool(table.number(5, "?")), _sparsity(table, label), limits, _open(shape, signature, label),
    )  # fmt: skip


def _sparsity(table: Table, label: str) -> Sparsity | None:
    inner = table.table(6, f"the sparsity of {label}")
    return None if inner is None else read_sparsity(inner, label)


def _open(shape: tuple[int, ...], signature: tuple[int, ...], label: str) -> tuple[int | None, ...]:
    """The shape with None where the signature has -1; most files have no signature."""
    if signature and (len(signature) != len(shape) or min(signature) < -1):
        raise InvalidModel(f"the shape signature of {label} must suit {list(shape)}, not be {list(signature)}", _AGAIN)
    return tuple(None if stated < 0 else size for size, stated in zip(shape, signature or shape, strict=True))


def _quantization(table: Table, label: str, shape: tuple[int, ...]) -> Quantization | None:
    """None where the table has ranges only."""
    scale = np.asarray(table.numbers(2, np.dtype(np.float32)), np.float32)
    zero = np.asarray(table.numbers(3, np.dtype(np.int64)), np.int64)
    if not len(scale):
        return None
    if table.number(4, "B"):
        raise Unsupported(f"{label} must have a scale for itself or for each channel, not for blocks or a custom one")
    axis = int(table.number(6, "i")) if len(scale) > 1 else 0
    if not np.all(np.isfinite(scale) & (scale >= 0)):
        wrong = scale[~(np.isfinite(scale) & (scale >= 0))][0]
        raise InvalidModel(f"the scales of {label} must be finite and not negative, not {wrong}", _AGAIN)
    if len(zero) not in (0, 1, len(scale)):
        raise InvalidModel(
            f"{label} must have as many zero points as scales ({len(scale)}), not {len(zero)}", _AGAIN
        )
    if len(scale) > 1 and not (0 <= axis < len(shape) and shape[axis] == len(scale)):
        raise InvalidModel(
            f"{label} must have a scale for each place of an axis of its shape {list(shape)}, not {len(scale)} for "
            f"axis {axis}", _AGAIN
        )
    zeros = zero if len(zero) == len(scale) else np.repeat(zero if len(zero) else np.zeros(1, np.int64), len(scale))
    if np.any(np.abs(zeros) > 1 << 31):
        raise InvalidModel(f"the zero points of {label} must be numbers of its type, not {zeros.tolist()[:4]}", _AGAIN)
    return Quantization(tuple(scale.tolist()), tuple(zeros.tolist()), axis)
