"""Random networks as users have them: as float models, as QDQ models and as QONNX models, each from one seed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from hwflow.onnx.model import Model
from hwflow.quantize.settings import (
    ActivationSettings,
    LayerSettings,
    OutputStage,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)
from tests.strategies.networks import Net, Style, T

QONNX = "qonnx.custom_op.general"


class QdqStyle(Style):
    """QuantizeLinear and DequantizeLinear as quantizers of frameworks write them."""

    def scale(self, net: Net, t: T, levels: int) -> float:
        wide = float(net.rng.uniform(2, 5))
        value = wide / levels if t.positive else 2 * wide / levels
        return float(np.float32(2.0 ** round(np.log2(value)) if net.exact else value))

    def activation(self, net: Net, t: T, wide: bool = False, sums: bool = False) -> T:
        if not wide and not sums and net.chance(0.05):
            return self.bipolar(net, t)
        wide = wide and not net.exact and net.opset >= 21
        kind = net.pick("int8", "int8", "uint8", "narrow", "narrow", *(["int16"] if wide else []))
        dtype = np.dtype({"narrow": net.pick("int8", "uint8")}.get(kind, kind))
        info = np.iinfo(dtype)
        low, high = int(info.min), int(info.max)
        bits = 8 if kind != "int16" else 16
        if kind == "narrow":
            bits = net.number(1, 7) if dtype.kind == "u" else net.number(2, 7)
            low, high = (0, 2**bits - 1) if dtype.kind == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
            if dtype.kind == "i" and net.chance(0.3) and bits > 1:
                low += 1
        if t.positive and net.chance(0.8):
            zero = low
        elif kind == "int16":
            zero = 0
        else:
            zero = (low + high + 1) // 2 + net.pick(0, 0, net.number(-2, 2) if bits > 3 else 0)
        if kind == "narrow" and dtype.kind == "i" and not t.positive:
            zero = 0
        zero = min(max(zero, low), high)
        scale = np.float32(self.scale(net, t, high - low))
        s, z = net.constant(scale), net.constant(np.array(zero, dtype))
        y = net.node("QuantizeLinear", t.name, s, z)
        if (low, high) != (info.min, info.max):
            y = net.node("Clip", y, np.array(low, dtype), np.array(high, dtype))
        y = net.node("DequantizeLinear", y, s, z)
        return replace(t, name=y, whole=True, bits=bits, scale=float(scale), positive=zero == low, bipolar=False)

    def bipolar(self, net: Net, t: T) -> T:
        scale = np.float32(net.power(-2, 0))
        y = net.node("Where", net.node("GreaterOrEqual", t.name, np.float32(0)), np.int8(1), np.int8(-1))
        y = net.node("DequantizeLinear", y, scale)
        return replace(t, name=y, whole=True, bits=1, scale=float(scale), positive=False, bipolar=True)

    def weights(self, net: Net, w: np.ndarray, axis: int) -> tuple[str, np.ndarray]:
        bits, per_channel = net.pick(8, 8, 8, 4, 3, 2, 1), net.chance(0.5)
        moved = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)
        largest = np.abs(moved).max(axis=1) if per_channel else np.abs(moved).max(keepdims=True)[0]
        top = max(2 ** (bits - 1) - 1, 1)
        scales = np.maximum(largest, 1e-3) / top
        scales = (2.0 ** np.round(np.log2(scales)) if net.exact else scales).astype(np.float32)
        shaped = scales.reshape([-1 if k == axis else 1 for k in range(w.ndim)])
        q = np.where(w >= 0, 1, -1) if bits == 1 else np.clip(np.rint(w / shaped), -top, top)
        dtype, zero = np.int8, 0
        if not per_channel and net.chance(0.2):
            dtype, zero = np.uint8, net.number(120, 136)
            q = np.clip(q + zero, 0, 255)
        inputs = [net.constant(q.astype(dtype)), net.constant(scales if per_channel else scales[0])]
        if zero or net.chance(0.5):
            inputs.append(net.constant(np.full(len(scales), zero, dtype) if per_channel else dtype(zero)))
        attributes = {"axis": axis} if per_channel else {}
        return net.node("DequantizeLinear", *inputs, **attributes), np.atleast_1d(scales)

    def bias(self, net: Net, b: np.ndarray, x: T, scales: np.ndarray) -> str:
        unit = (np.float32(x.scale) * scales).astype(np.float32)
        q = np.rint(np.clip(b / unit, -(2.0**29), 2.0**29)).astype(np.int32)
        if not net.exact and net.chance(0.2):
            return net.constant(b.astype(np.float32))
        if len(unit) > 1:
            return net.node("DequantizeLinear", net.constant(q), net.constant(unit), axis=0)
        return net.node("DequantizeLinear", net.constant(q), net.constant(unit[0]))


class QonnxStyle(QdqStyle):
    """Quant, BipolarQuant and Trunc as Brevitas and QKeras export them."""

    domains: ClassVar[Mapping[str, int]] = {QONNX: 1}

    def activation(self, net: Net, t: T, wide: bool = False, sums: bool = False) -> T:
        if sums:
            return self.plain(net, t)
        if net.chance(0.08):
            y = net.node("BipolarQuant", t.name, np.float32(2.0 ** net.number(-2, 0)), domain=QONNX)
            scale = 1.0
            made = replace(t, name=y, whole=True, bits=1, positive=False, bipolar=True, scale=scale)
            return replace(made, scale=float(net.b._constants[net.b._nodes[-1].inputs[1]]))
        bits = net.number(2, 8)
        signed = int(not t.positive or net.chance(0.3))
        narrow = int(signed and net.chance(0.3))
        # Away from zero jumps by two steps at 0, where without exactness the error of float32 is the sign.
        up = "UP" if net.exact else "HALF_UP"
        mode = net.pick(*("ROUND",) * 3, "FLOOR", "CEIL", "ROUND_TO_ZERO", up, "DOWN", "HALF_UP", "HALF_DOWN")
        zero = net.pick(0, 0, 0, net.number(-signed, 2)) if bits > 3 else 0
        scale = np.float32(self.scale(net, t, 2**bits - 1))
        y = net.node("Quant", t.name, scale, np.float32(zero), np.float32(bits), domain=QONNX, signed=signed,
                     narrow=narrow, rounding_mode=mode)  # fmt: skip
        made = replace(t, name=y, whole=True, bits=bits, scale=float(scale), bipolar=False, positive=not signed)
        if net.chance(0.1) and bits > 4 and zero == 0 and not narrow:
            y = net.node("Trunc", y, scale, np.float32(0), np.float32(bits), np.float32(bits - 2), domain=QONNX,
                         rounding_mode="FLOOR")  # fmt: skip
            made = replace(made, name=y, whole=False)
            return replace(self.plain(net, made), positive=not signed)
        return made

    def plain(self, net: Net, t: T) -> T:
        scale = np.float32(self.scale(net, t, 255))
        y = net.node("Quant", t.name, scale, np.float32(0), np.float32(8), domain=QONNX, signed=1, narrow=0,
                     rounding_mode="ROUND")  # fmt: skip
        return replace(t, name=y, whole=True, bits=8, scale=float(scale), positive=False, bipolar=False)

    def weights(self, net: Net, w: np.ndarray, axis: int) -> tuple[str, np.ndarray]:
        bits, per_channel = net.number(1, 8), net.chance(0.5)
        moved = np.moveaxis(w, axis, 0).reshape(w.shape[axis], -1)
        largest = np.abs(moved).max(axis=1) if per_channel else np.abs(moved).max(keepdims=True)[0]
        scales = np.maximum(largest, 1e-3) / max(2 ** (bits - 1) - 1, 1)
        scales = (2.0 ** np.round(np.log2(scales)) if net.exact else scales).astype(np.float32)
        shaped = scales.reshape([-1 if k == axis else 1 for k in range(w.ndim)]) if per_channel else scales[0]
        if bits == 1:
            return net.node("BipolarQuant", w, np.asarray(shaped), domain=QONNX), scales
        return net.node("Quant", w, np.asarray(shaped), np.float32(0), np.float32(bits), domain=QONNX, signed=1,
                        narrow=int(net.chance(0.5)), rounding_mode="ROUND"), scales  # fmt: skip

    def bias(self, net: Net, b: np.ndarray, x: T, scales: np.ndarray) -> str:
        unit = np.asarray(np.float32(x.scale) * scales, np.float32)
        if net.exact:
            return net.constant(np.rint(b / unit) * unit)
        if net.chance(0.5):
            return net.constant(b)
        return net.node("Quant", b, unit if len(unit) > 1 else unit[0], np.float32(0), np.float32(16), domain=QONNX,
                        signed=1, narrow=0, rounding_mode="ROUND")  # fmt: skip


def float_model(rng: Any) -> Model:
    return Net(rng, Style()).model()


def qdq_model(rng: Any, exact: bool = False) -> Model:
    """`exact`: all numbers are such that float32 computes the model without rounding."""
    return Net(rng, QdqStyle(), exact).model()


def qonnx_model(rng: Any, exact: bool = False) -> Model:
    return Net(rng, QonnxStyle(), exact).model()


def feeds(model: Model, count: int, seed: int = 0, spread: float = 1.5) -> dict[str, np.ndarray]:
    """Rows of normally distributed inputs [count, *shape]."""
    rng = np.random.default_rng([9, seed])
    return {v.name: (rng.standard_normal((count, *v.tensor.shape)) * spread).astype(np.float32)
            for v in model.graph.inputs}  # fmt: skip


def random_activation(rng: np.random.Generator, data: bool = False) -> ActivationSettings:
    bits = int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 8, 8]))
    methods = [method for method in RangeMethod if data or method is not RangeMethod.LEARNED]
    method = methods[rng.integers(len(methods))]
    return ActivationSettings(bits, bool(rng.random() < 0.4), method, float(rng.choice([99.0, 99.9, 99.99, 100.0])))


def random_layer(rng: np.random.Generator, data: bool) -> LayerSettings:
    """What may be decided of a layer; adaptive rounding and bias correction need data."""
    methods = (RangeMethod.AUTO, RangeMethod.MINMAX, RangeMethod.MSE)
    roundings = tuple(WeightRounding) if data else (WeightRounding.AUTO, WeightRounding.NEAREST)
    weights = WeightSettings(
        bits=int(rng.choice([1, 2, 3, 4, 5, 6, 7, 8, 8])),
        per_channel=bool(rng.random() < 0.7),
        method=methods[rng.integers(3)],
        rounding=roundings[rng.integers(len(roundings))],
        bias_correction=[None, True, False][rng.integers(3)] if data else None,
    )
    stage = (OutputStage.AUTO, OutputStage.AUTO, OutputStage.THRESHOLDS)[rng.integers(3)]
    return LayerSettings(weights, random_activation(rng, data), stage)


def random_settings(
    seed: int, layers: tuple[str, ...] = (), inputs: tuple[str, ...] = (), data: bool = True
) -> QuantizationSettings:
    """Any settings, with some of `layers` and `inputs` set apart."""
    rng = np.random.default_rng([7, seed])
    return QuantizationSettings(
        default=random_layer(rng, data),
        layers={name: random_layer(rng, data) for name in layers if rng.random() < 0.4},
        inputs={name: random_activation(rng) for name in inputs if rng.random() < 0.4},
        equalize=[None, True, False][rng.integers(3)],
        joint_steps=10,
    )
