"""Layers of products round as the integer kernels do, twice: against their arithmetic in whole numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import hwflow
import hwflow.onnx
from hwflow.layers import Conv, Dense
from hwflow.onnx.model import Array
from hwflow.quantize.settings import LayerSettings, QuantizationSettings
from hwflow.stages.other_weights import fitted, with_room
from tests.tflite.writer import Maker

CHANNELS, ROWS = 6, 400
#: Scales of weights per channel, and the output's: second roundings to 1/4 to 1/512 of a step.
WEIGHTS = np.float32([0.003, 0.0071, 0.011, 0.0003, 0.0201, 0.0011])
X, Y = np.float32(0.031), np.float32(0.0047)


def scales_of(kind: str) -> Array:
    return WEIGHTS if kind != "FULLY_CONNECTED" else WEIGHTS[:1]


def network(kind: str, activation: int, output: np.float32) -> tuple[bytes, Array, Array]:
    """A file of one operator with a pixel of inputs, its weights [outputs, inputs] and biases."""
    m, rng = Maker(), np.random.default_rng(0)
    size = 9 if kind == "DEPTHWISE_CONV_2D" else 20
    w = rng.integers(-127, 128, (CHANNELS, size))
    b = rng.integers(-3000, 3000, CHANNELS)
    shapes = {"CONV_2D": ([1, 1, 1, size], [CHANNELS, 1, 1, size], 0),
              "FULLY_CONNECTED": ([1, size], [CHANNELS, size], 0),
              "DEPTHWISE_CONV_2D": ([1, 3, 3, CHANNELS], [1, 3, 3, CHANNELS], 3)}
    shape, form, axis = shapes[kind]
    stored = w.T.reshape(form) if kind == "DEPTHWISE_CONV_2D" else w.reshape(form)
    scales = scales_of(kind)
    x = m.tensor("x", shape, "INT8", scale=X, zero=-11)
    weights = m.tensor("w", form, "INT8", stored, scale=scales, axis=axis)
    bias = m.tensor("b", [CHANNELS], "INT32", b, scale=X * scales)
    y = m.tensor("y", [1, CHANNELS] if len(shape) == 2 else [1, 1, 1, CHANNELS], "INT8", scale=output, zero=9)
    kinds = {"FULLY_CONNECTED": "FullyConnectedOptions", "CONV_2D": "Conv2DOptions",
             "DEPTHWISE_CONV_2D": "DepthwiseConv2DOptions"}
    names = ("stride_h", "stride_w", "padding", "dilation_h", "dilation_w")
    more = dict.fromkeys(names, 1) if kind != "FULLY_CONNECTED" else {}
    m.operator(kind, [x, weights, bias], [y], kinds[kind], {"activation": activation, **more})
    return m.file([x], [y]), w, b


def kernel(sums: Array, scales: Array, output: np.float32, activation: int) -> Array:
    """A constant of 31 bits; its product with a sum is rounded to 2**-r steps, then to steps, halves away from zero."""
    found = np.empty(sums.shape, np.int64)
    for channel, scale in enumerate(np.broadcast_to(scales, CHANNELS)):
        part, exponent = np.frexp(np.float64(X) * np.float64(scale) / np.float64(output))
        constant = int(np.floor(part * 2.0**31 + 0.5))
        for row, total in enumerate(sums[:, channel].tolist()):
            first = (total * constant + (1 << 30)) >> 31
            half = 1 << -exponent >> 1
            away = (abs(first) + half) >> -exponent
            found[row, channel] = (away if first >= 0 else -away) + 9
    return np.clip(found, 9 if activation else -128, 127)


@pytest.mark.parametrize("kind", ["CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED"])
@pytest.mark.parametrize(("activation", "output"), [(0, Y), (1, Y), (0, np.float32(0.05))])
def test_every_integer_is_that_of_the_kernel(kind: str, activation: int, output: np.float32) -> None:
    data, w, b = network(kind, activation, output)
    model = hwflow.onnx.infer(hwflow.onnx.loads(data))
    shape = model.graph.inputs[0].type.shape[1:]
    rows = np.random.default_rng(1).integers(-128, 128, (ROWS, *shape)).astype(np.int8)
    x = rows.astype(np.int64) + 11
    if kind == "DEPTHWISE_CONV_2D":
        sums = np.einsum("nkc,ck->nc", x.reshape(ROWS, 9, CHANNELS), w) + b
    else:
        sums = x.reshape(ROWS, -1) @ w.T + b
    expected = kernel(sums, scales_of(kind), output, activation)
    once = np.rint(sums * (np.float64(X) * scales_of(kind)) / output)
    assert np.any(np.clip(once + 9, 9 if activation else -128, 127) != expected), "one rounding is another number"
    evaluated = [hwflow.onnx.evaluate(model, {"x": row[None]})["y"].ravel() for row in rows]
    assert np.array_equal(evaluated, expected)
    made = hwflow.quantize_model(model, settings=QuantizationSettings(LayerSettings(rescale_bits=None)))
    (layer,) = [layer for layer in made.graph.layers if isinstance(layer, Conv | Dense)]
    assert layer.requantize.outward
    (golden,) = hwflow.run_golden(made, rows).values()
    assert np.array_equal(golden.reshape(ROWS, CHANNELS), expected)


def test_room_for_other_weights_keeps_the_rounding() -> None:
    data, _, _ = network("DEPTHWISE_CONV_2D", 0, Y)
    made = hwflow.quantize_model(hwflow.onnx.infer(hwflow.onnx.loads(data)))
    rows = np.random.default_rng(1).integers(-128, 128, (ROWS, 1, 3, 3, CHANNELS)).astype(np.int8)
    (expected,), (found,) = (hwflow.run_golden(each, rows).values()
                             for each in (made, replace(made, graph=with_room(made.graph))))
    assert np.array_equal(found, expected)
    assert fitted(made.graph, with_room(made.graph))[1] == []
