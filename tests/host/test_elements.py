"""Integers as bytes on the line: every format, both ways, against a second implementation."""

from __future__ import annotations

import numpy as np
import pytest
from hwflow_base.errors import HwflowError

from hwflow.host.elements import bytes_in, bytes_out, pack, unpack
from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import BIPOLAR, Frame, IntFormat, Tensor
from hwflow.pipeline.netlist_proof import first_difference
from tests.host.models import element_bytes

WIDTHS = (1, 2, 7, 8, 9, 16, 17, 24, 31, 32)
FORMATS = [BIPOLAR, *(IntFormat(bits, signed) for bits in WIDTHS for signed in (False, True))]


def graph_of(*formats: IntFormat) -> LayerGraph:
    """A graph without layers, whose inputs are its outputs, each of another frame."""
    tensors = [Tensor(f"t{k}", Frame(1 + k, 2, 3), format, 1.0, 0) for k, format in enumerate(formats)]
    names = tuple(tensor.name for tensor in tensors)
    return LayerGraph("any", {tensor.name: tensor for tensor in tensors}, (), names, names)


def noise(tensor: Tensor, count: int) -> np.ndarray:
    """Elements of the format, its ends among them."""
    format, frame = tensor.format, tensor.frame
    values = np.random.default_rng(3).integers(format.low, format.high, (count, frame.elements), endpoint=True)
    values = np.where(values > 0, 1, -1) if format.bipolar else values
    if count:
        values[0, :2] = format.low, format.high
    return values.reshape(count, frame.height, frame.width, frame.channels)


@pytest.mark.parametrize("count", [0, 1, 5])
@pytest.mark.parametrize("format", FORMATS, ids=str)
def test_there_and_back(format, count):
    graph = graph_of(format)
    frames = {"t0": noise(graph.tensors["t0"], count)}
    data = pack(graph, frames)
    assert data == b"".join(element_bytes(int(value), format) for value in frames["t0"].reshape(-1))
    assert len(data) == count * bytes_in(graph) == count * bytes_out(graph)
    np.testing.assert_array_equal(unpack(graph, data)["t0"], frames["t0"])


def test_a_frame_of_each_tensor_takes_its_turn():
    graph = graph_of(IntFormat(8, True), IntFormat(12, False), BIPOLAR)
    frames = {name: noise(tensor, 4) for name, tensor in graph.tensors.items()}
    expected = b"".join(element_bytes(int(value), graph.tensors[name].format)
                        for k in range(4) for name in graph.inputs for value in frames[name][k].reshape(-1))
    assert pack(graph, frames) == expected
    back = unpack(graph, expected)
    assert list(back) == list(graph.outputs)
    for name, values in frames.items():
        np.testing.assert_array_equal(back[name], values)


@pytest.mark.parametrize("format, data, message", [
    (BIPOLAR, b"\x02", "output 't0' of the board must be inside bipolar, not from -1 to 3"),
    (IntFormat(4, False), b"\x10", "must be inside uint4, not from 0 to 16"),
    (IntFormat(4, True), b"\xf0", "must be inside int4, not from -16 to 0"),
    (IntFormat(12, False), b"\x00\xff", "must be inside uint12, not from 0 to 65280"),
])
def test_bytes_outside_the_format_are_refused(format, data, message):
    graph = graph_of(format)
    with pytest.raises(HwflowError, match=message):
        unpack(graph, data + bytes(bytes_out(graph) - len(data)))


def test_the_first_byte_that_differs_is_told_as_its_element() -> None:
    graph = graph_of(BIPOLAR, IntFormat(12, True))
    frames = {name: noise(graph.tensors[name], 2) for name in graph.outputs}
    expected = np.frombuffer(pack(graph, frames), np.uint8).reshape(2, -1)
    assert first_difference(expected, expected.tobytes(), graph) is None
    for place, name, element in ((3, "t0", 3), (expected.shape[1] - 1, "t1", 11)):
        other = expected.copy()
        other[1, place] ^= 1 if name == "t0" else 15
        wanted = int(frames[name].reshape(2, -1)[1, element])
        came = -wanted if name == "t0" else int.from_bytes(other[1, place - 1:].tobytes(), "little", signed=True)
        assert first_difference(expected, other.tobytes(), graph) == (
            f"frame 1, output '{name}', element {element}: {came} where the golden model has {wanted}; 1 of "
            f"{expected.size} bytes are others")
