"""Small float networks for the tests of tuning, in the form that FLOAT_PASSES leave."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.layers.formats import IntFormat
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.points import points
from hwflow.quantize.scale import activation_parameters
from hwflow.quantize.settings import LayerSettings, QuantizationSettings, WeightSettings

INT8 = IntFormat(8, signed=True)


class Net:
    """A chain of layers with random constants; `x` is the newest tensor, `channels` its channels."""

    def __init__(self, shape: tuple[int, ...], seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.b, self.shape, self.channels, self.count = Builder("net"), shape, shape[1], 0
        self.x = self.b.input("input", np.float32, shape)

    def weights(self, *shape: int) -> np.ndarray:
        """Channels of very different size, as batch normalization leaves them."""
        sizes = np.exp(self.rng.normal(size=shape[0])).reshape(-1, *[1] * (len(shape) - 1))
        fan_in = int(np.prod(shape[1:]))
        return (self.rng.normal(size=shape) * sizes / np.sqrt(fan_in)).astype(np.float32)

    def layer(self, op: str, weights: Any, bias: Any = None, **attributes: Any) -> Net:
        self.count += 1
        name, weights = f"{op.lower()}{self.count}", np.asarray(weights, np.float32)
        bias = self.rng.normal(size=len(weights)) * 0.3 if bias is None else bias
        constants = self.b.constant(f"{name}.w", weights), self.b.constant(f"{name}.b", np.asarray(bias, np.float32))
        self.x = self.b.node(op, self.x, *constants, name=name, output=f"{name}.y", **attributes)
        self.channels = len(weights)
        return self

    def conv(self, cout: int, kernel: int = 3, groups: int = 1, **attributes: Any) -> Net:
        weights = self.weights(cout, self.channels // groups, kernel, kernel)
        pads = [kernel // 2] * 4
        return self.layer("Conv", weights, group=groups, pads=pads, **attributes)

    def gemm(self, inputs: int, outputs: int) -> Net:
        return self.layer("Gemm", self.weights(outputs, inputs), transB=1)

    def node(self, op: str, *inputs: str, **attributes: Any) -> Net:
        self.count += 1
        self.x = self.b.node(op, self.x, *inputs, name=f"{op.lower()}{self.count}", **attributes)
        return self

    def model(self) -> Model:
        self.b.output(self.x, np.float32)
        return onnx.infer(self.b.model(opset=13))

    def rows(self, count: int) -> dict[str, np.ndarray]:
        """Inputs whose channels have a mean and are alike, as pictures are."""
        common = self.rng.normal(size=(count, 1, 1, *self.shape[2:])) + 0.5
        return {"input": (common + 0.5 * self.rng.normal(size=(count, *self.shape))).astype(np.float32)}


def depthwise_network(seed: int = 0) -> Net:
    """Conv, Relu, depthwise Conv, Relu, pointwise Conv, Relu, MaxPool, Flatten, Gemm."""
    net = Net((1, 3, 8, 8), seed)
    net.conv(8).node("Relu").conv(8, groups=8).node("Relu").conv(12, kernel=1).node("Relu")
    net.node("MaxPool", kernel_shape=[4, 4], strides=[4, 4]).node("Flatten", axis=1)
    return net.gemm(12 * 4, 5)


def forms(model: Model, rows: dict[str, np.ndarray]) -> dict[str, ActivationForm]:
    """int8 for every point, by the smallest and largest value."""
    found = {}
    for point in points(model):
        values = [onnx.evaluate(model, {"input": row}, (point.tensor,))[point.tensor] for row in rows["input"]]
        scale, zero = activation_parameters(float(np.min(values)), float(np.max(values)), INT8)
        found[point.tensor] = ActivationForm(scale, zero, INT8, -128, 127)
    return found


def weights_of(**choices: Any) -> QuantizationSettings:
    return QuantizationSettings(LayerSettings(weights=WeightSettings(**choices)))
