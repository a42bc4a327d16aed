"""Integer frames as the bytes on the line, and back (docs/host-link.md)."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.host.identity import element_bytes, frame_bytes
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray, IntFormat, Tensor
from hwflow.onnx.model import Array
from hwflow.quantize import Quantized

Bytes = npt.NDArray[np.uint8]

#: Bytes of the int64 in which elements are kept here.
WHOLE = 8


def bytes_in(graph: LayerGraph) -> int:
    """Bytes of one frame of all inputs."""
    return frame_bytes(graph, graph.inputs)


def bytes_out(graph: LayerGraph) -> int:
    """Bytes of one frame of all outputs."""
    return frame_bytes(graph, graph.outputs)


def pack(graph: LayerGraph, frames: Mapping[str, IntArray]) -> bytes:
    """Frames [n, height, width, channels] by input name, inside their formats, as the bytes for the board."""
    parts = [to_bytes(frames[name], graph.tensors[name].format) for name in graph.inputs]
    return np.concatenate(parts, axis=1).tobytes()


def unpack(graph: LayerGraph, data: bytes) -> dict[str, IntArray]:
    """Whole frames of the board as int64 [n, height, width, channels] by output name.

    HwflowError where an element is outside its tensor's format: no board with this graph sends that.
    """
    rows = np.frombuffer(data, np.uint8).reshape(-1, bytes_out(graph))
    frames, start = {}, 0
    for name in graph.outputs:
        tensor = graph.tensors[name]
        end = start + _size(tensor)
        values = frames[name] = from_bytes(rows[:, start:end], tensor)
        if not tensor.format.contains(values):
            raise HwflowError(
                f"output '{name}' of the board must be inside {tensor.format}, not from {values.min()} to "
                f"{values.max()}",
                "load the bitstream again",
            )
        start = end
    return frames


def from_bytes(rows: Bytes, tensor: Tensor) -> IntArray:
    """[n, bytes of a frame] as int64 [n, height, width, channels]; what is outside of the format stays so."""
    frame = tensor.frame
    values = _values_of(rows.reshape(len(rows), frame.elements, element_bytes(tensor.format.bits)), tensor.format)
    return values.reshape(len(rows), frame.height, frame.width, frame.channels)


def _size(tensor: Tensor) -> int:
    return tensor.frame.elements * element_bytes(tensor.format.bits)


def to_bytes(values: IntArray, format: IntFormat) -> Bytes:
    """[n, height, width, channels] to [n, bytes of a frame]; the bit of a bipolar element is set for +1."""
    codes = (values > 0).astype(np.int64) if format.bipolar else values
    count, width = int(np.prod(values.shape[1:])), element_bytes(format.bits)
    whole = np.ascontiguousarray(codes, "<i8").view(np.uint8).reshape(len(values), count, WHOLE)
    return np.ascontiguousarray(whole[:, :, :width]).reshape(len(values), count * width)


def _values_of(data: Bytes, format: IntFormat) -> IntArray:
    """[n, elements, bytes of an element] to [n, elements]."""
    signed = format.signed and not format.bipolar
    fill = np.where(signed & (data[:, :, -1:] >= 0x80), 0xFF, 0).astype(np.uint8)
    whole = np.concatenate([data, np.repeat(fill, WHOLE - data.shape[2], axis=2)], axis=2)
    codes = np.ascontiguousarray(whole).view("<i8")[:, :, 0].astype(np.int64)
    return 2 * codes - 1 if format.bipolar else codes


# Rows of a model's inputs in their shapes and types.


def rows_of(quantized: Quantized, x: Array | Mapping[str, Array]) -> dict[str, Array]:
    """Arrays [n, *input shape] by input name, in the types of the inputs, of arrays by name or that of the only input.

    HwflowError for a missing input, another shape, or a number that the type does not hold.
    """
    values = quantized.prologue.graph.inputs
    if not isinstance(x, Mapping):
        if len(values) != 1:
            names = ", ".join(f"'{value.name}'" for value in values)
            raise HwflowError(f"x must be arrays by name for the inputs {names}, not one array")
        x = {values[0].name: x}
    rows = {}
    for value in values:
        if value.name not in x:
            raise HwflowError(f"x must have an array for the input '{value.name}', not only for {sorted(x)}")
        assert value.tensor is not None
        array, shape, dtype = np.asarray(x[value.name]), value.tensor.shape, value.tensor.dtype
        assert shape is not None, "the shapes of a host program are known"
        if array.shape[1:] != shape or not np.can_cast(array.dtype, dtype, "same_kind"):
            expected = ", ".join(["n", *map(str, shape)])
            raise HwflowError(f"x for the input '{value.name}' must be {dtype} [{expected}], not {array.dtype} "
                              f"{list(array.shape)}")
        rows[value.name] = _fitting(value.name, array, dtype)
    return rows


def _fitting(name: str, array: Array, dtype: np.dtype[np.generic]) -> Array:
    """Rows of an input in its type.  HwflowError where that has no room for them."""
    with np.errstate(over="ignore"):  # looked for below
        converted = array.astype(dtype)
    if dtype.kind in "iu":
        lost = bool((converted != array).any())
    else:
        lost = bool((~np.isfinite(converted) & np.isfinite(array)).any())
    if lost:
        raise HwflowError(f"x for the input '{name}' must fit {dtype}, not hold values from {array.min()} to "
                          f"{array.max()}")
    return converted
