"""Random models that come quantized: wholly or in part, per tensor or per channel, in any type, with dead channels."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from hwflow.onnx.model import Model
from tests.strategies.drawing import ShapedWalk

MS = "com.microsoft"
WEIGHTS = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in (
    "int8", "uint8", "int4", "uint4", "int16", "float8_e4m3fn", "float8_e5m2")}  # fmt: skip


class Quantized(ShapedWalk):
    """Layers between quantizers, some of which are left out; `whole`: none are, and operators may be integers'."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng, "quantized")
        self.whole = self.chance(0.5)
        self.scales: dict[str, tuple[float, int, np.dtype[Any]]] = {}
        self.ranges: dict[str, float] = {}
        self.domains: dict[str, int] = {}

    def parameters(self, wide: float, low: float, wide_ok: bool) -> tuple[np.float32, Any]:
        """Scale and zero point of a tensor from `low` to `wide`."""
        dtype = np.dtype(self.pick(*("int8", "uint8") * 3, *(("int16", "uint16") if wide_ok else ())))
        info = np.iinfo(dtype)
        scale = np.float32((wide - low) / (info.max - info.min))
        if dtype.kind == "i" and self.chance(0.5):
            return np.float32(max(wide, -low) / info.max), dtype.type(0)
        return scale, dtype.type(round(info.min - low / float(scale)))

    def quantized(self, x: str, wide: float | None = None) -> str:
        """`x` through a quantizer, which is left out at times."""
        wide = wide or self.ranges.get(x, 4.0)
        if not self.whole and self.chance(0.35):
            return x
        low, is_plain = 0.0 if x.startswith("relu") else -wide, x.startswith(("relu", "clip", "conv"))
        scale, zero = self.parameters(wide, low, is_plain)
        y = self.node("QuantizeLinear", x, scale, np.asarray(zero))
        y = self.node("DequantizeLinear", y, scale, np.asarray(zero))
        self.scales[y] = (float(scale), int(zero), np.asarray(zero).dtype)
        self.ranges[y] = wide
        return y

    def weights(self, shape: tuple[int, ...], axis: int) -> tuple[str, np.ndarray]:
        """Weights and their scale for each output channel."""
        fan = np.prod(shape) / shape[axis]
        w = self.normal(*shape, deviation=fan**-0.5)
        by_channel = [slice(None)] * len(shape)
        if self.chance(0.25):  # a channel that training has made next to 0
            by_channel[axis] = self.number(0, shape[axis] - 1)
            w[tuple(by_channel)] *= np.float32(10.0 ** -self.number(6, 33))
        if not self.whole and self.chance(0.3):
            return self.constant(w), np.ones(shape[axis])
        name = self.pick("int8", "int8", *WEIGHTS)
        dtype = WEIGHTS[name]
        top = {"int8": 127, "uint8": 127, "int4": 7, "uint4": 7, "int16": 32767}.get(name, 200.0)
        others = tuple(k for k in range(len(shape)) if k != axis)
        per_channel = self.chance(0.6)
        largest = np.abs(w).max(axis=others) if per_channel else np.abs(w).max(keepdims=True).reshape(1)
        scales = np.maximum(largest / top, 2e-38).astype(np.float32)
        zero = {"uint8": 128, "uint4": 8}.get(name, 0)
        shaped = scales.reshape([-1 if k == axis else 1 for k in range(len(shape))]) if per_channel else scales
        steps = w / shaped + zero
        q = (np.rint(steps) if "float" not in name else steps).astype(dtype)
        inputs: list[Any] = [q, scales if per_channel else scales[0]]
        if zero or self.chance(0.5):
            inputs.append(np.full(scales.shape if per_channel else (), zero).astype(dtype))
        made = self.node("DequantizeLinear", *inputs, shape=shape, **({"axis": axis} if per_channel else {}))
        return made, np.broadcast_to(scales, shape[axis]).astype(np.float64)

    def bias(self, x: str, scales: np.ndarray) -> tuple[str, ...]:
        kind = self.pick("none", "float", "int32", "int32")
        if kind == "none":
            return ()
        value = self.normal(len(scales), deviation=0.5)
        unit = (scales * self.scales[x][0]).astype(np.float32) if x in self.scales else np.zeros(1)
        if kind == "float" or unit.min() < 1e-30 or (np.abs(value) / unit).max() > 2**30:
            return (self.constant(value),)
        q = np.rint(value / unit).astype(np.int32)
        return (self.node("DequantizeLinear", q, unit, shape=q.shape, axis=0),)

    def layer(self, x: str, last: bool = False) -> str:
        """`last`: without a function that leaves little of the signal beside a step of the output."""
        shape = self.shapes[x]
        if len(shape) == 4:
            cout, kernel = self.number(2, 5), self.pick(1, 3)
            w, scales = self.weights((cout, shape[1], kernel, kernel), 0)
            made = self.node("Conv", x, w, *self.bias(x, scales), shape=(1, cout, *shape[2:]), pads=(kernel // 2,) * 4)
        else:
            cout, transposed = self.number(2, 8), self.chance(0.5)
            w, scales = self.weights((cout, shape[1]) if transposed else (shape[1], cout), 0 if transposed else 1)
            made = self.node("Gemm", x, w, *self.bias(x, scales), shape=(1, cout), transB=int(transposed))
        return self.quantized(made if last else self.function(made))

    def function(self, x: str) -> str:
        kind = self.pick("none", "Relu", "Relu", "Sigmoid", "LeakyRelu", "Clip")
        if kind == "Clip":
            return self.node("Clip", x, np.float32(-1), np.float32(2))
        made = x if kind == "none" else self.node(kind, x)
        self.ranges[made] = 1.0 if kind == "Sigmoid" else 4.0
        return made

    def between(self, x: str) -> str:
        """What stands between layers."""
        shape = self.shapes[x]
        of_images = ("pool", "mean", "flip") if len(shape) == 4 else ()
        kind = self.pick("none", "sum", "product", "concat", "bias", *of_images)
        if kind in ("sum", "product"):
            other = self.quantized(self.node("Tanh", x), 1.0)
            return self.quantized(self.node("Add" if kind == "sum" else "Mul", x, other))
        if kind == "concat":
            made = self.node("Concat", x, self.quantized(self.node("Tanh", x), 1.0), axis=1,
                             shape=(1, 2 * shape[1], *shape[2:]))  # fmt: skip
            return self.quantized(made)
        if kind == "bias":
            return self.quantized(self.node("Add", x, self.normal(*shape[1:], deviation=0.3)))
        if kind == "flip":
            return self.node("Transpose", x, perm=(0, 1, 3, 2), shape=(*shape[:2], shape[3], shape[2]))
        if kind in ("pool", "mean") and min(shape[2:]) > 1:
            op = "MaxPool" if kind == "pool" else "AveragePool"
            made = self.node(op, x, kernel_shape=(2, 2), shape=(*shape[:2], shape[2] - 1, shape[3] - 1))
            return made if kind == "pool" else self.quantized(made)
        return x

    def integers(self, x: str) -> str:
        """A layer of integers: QLinearConv, QLinearMatMul or QGemm between quantizers."""
        shape = self.shapes[x]
        kinds = np.dtype(self.pick("int8", "uint8"))
        info = np.iinfo(kinds)
        xs, xz = np.float32(4.0 / 127), kinds.type((info.min + info.max + 1) // 2)
        q = self.node("QuantizeLinear", x, xs, np.asarray(xz))
        ys = np.float32(0.05)
        if len(shape) == 4:
            cout = self.number(2, 5)
            w = self.rng.integers(-127, 128, (cout, shape[1], 3, 3)).astype(np.int8)
            ws = np.float32(1 / 127 * (shape[1] * 9) ** -0.5) * (1 + self.rng.random(cout, dtype=np.float32))
            bias = self.rng.integers(-500, 500, cout).astype(np.int32)
            wz = np.zeros(cout, np.int8)
            y = self.node("QLinearConv", q, xs, np.asarray(xz), w, ws, wz, ys, np.asarray(xz), bias,
                          shape=(1, cout, *shape[2:]), pads=(1,) * 4)  # fmt: skip
        else:
            cout = self.number(2, 6)
            w = self.rng.integers(-127, 128, (shape[1], cout)).astype(np.int8)
            ws = np.float32(1 / 127 * shape[1] ** -0.5)
            y = self.node("QLinearMatMul", q, xs, np.asarray(xz), w, ws, np.int8(0), ys, np.asarray(xz),
                          shape=(1, cout))  # fmt: skip
        return self.node("DequantizeLinear", y, ys, np.asarray(xz))


def quantized_model(rng: Any) -> Model:
    """Two to four layers, with what stands between them."""
    net = Quantized(rng)
    x = net.quantized(net.input(1, net.number(2, 4), *net.pick((), (net.number(3, 6), net.number(3, 6)))))
    for _ in range(net.number(2, 4)):
        x = net.integers(x) if net.chance(0.15) else net.layer(x)
        x = net.between(x)
        if len(net.shapes[x]) == 4 and net.chance(0.2):
            count = int(np.prod(net.shapes[x]))
            x = net.node("Flatten", x, shape=(1, count))
    return net.model(net.layer(x, last=True), opset=21)
