"""Small QDQ and float models for the tests, and their comparison with onnxruntime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnxruntime as ort

from hwflow import golden, onnx
from hwflow.layers.rescale import Rescale
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model
from hwflow.quantize import Quantized, quantize


class Qdq:
    """Builds a QDQ chain; `x` is the newest tensor.  Constants are random from one seed."""

    def __init__(self, shape: tuple[int, ...], dtype: Any = np.float32, seed: int = 0) -> None:
        self.rng = np.random.default_rng(seed)
        self.b, self.shape, self.count = Builder("test"), shape, 0
        self.x = self.b.input("input", dtype, shape)
        self.scale = 1.0

    def name(self, wish: str) -> str:
        self.count += 1
        return f"{wish}{self.count}"

    def constant(self, wish: str, value: Any) -> str:
        return self.b.constant(self.name(wish), value)

    def node(self, op: str, *inputs: str, **attributes: Any) -> Qdq:
        self.x = self.b.node(op, self.x, *inputs, name=self.name(op.lower()), **attributes)
        return self

    def op(self, op: str, *values: Any, **attributes: Any) -> Qdq:
        """A node whose further inputs are tensors, or constants: numbers are of float32."""
        names = [value if isinstance(value, str) else self.constant(
            "c", np.float32(value) if isinstance(value, float) else np.asarray(value)) for value in values]
        return self.node(op, *names, **attributes)

    def spread(self, low: float, high: float, count: int = 4, rank: int = 3) -> str:
        """A constant per channel, between `low` and `high`."""
        values = self.rng.uniform(low, high, count).astype(np.float32)
        return self.constant("spread", values.reshape(-1, *[1] * (rank - 1)))

    def fork(self, *branches: Branch) -> list[str]:
        """What each branch makes of the newest tensor."""
        start, scale, made = self.x, self.scale, []
        for branch in branches:
            self.x, self.scale = start, scale
            made.append(branch(self).x)
        return made

    def joined(self, op: str, *branches: Branch, **attributes: Any) -> Qdq:
        """A node that joins what each branch makes of the newest tensor."""
        self.x = self.b.node(op, *self.fork(*branches), name=self.name(op.lower()), **attributes)
        return self

    def quantize(self, scale: float, zero_point: int, dtype: Any = np.int8) -> Qdq:
        parameters = self.constant("scale", np.float32(scale)), self.constant("zero_point", dtype(zero_point))
        self.scale = scale
        return self.node("QuantizeLinear", *parameters)

    def dequantize(self, scale: float, zero_point: int, dtype: Any = np.int8) -> Qdq:
        parameters = self.constant("scale", np.float32(scale)), self.constant("zero_point", dtype(zero_point))
        self.scale = scale
        return self.node("DequantizeLinear", *parameters)

    def qdq(self, scale: float, zero_point: int, dtype: Any = np.int8) -> Qdq:
        return self.quantize(scale, zero_point, dtype).dequantize(scale, zero_point, dtype)

    def weights(
        self, shape: tuple[int, ...], axis: int | None = None, scale: float = 0.01037
    ) -> tuple[str, np.ndarray]:
        """A DequantizeLinear of random int8; per channel of `axis` or per tensor.  Its name, and its scales."""
        q = self.constant("w", self.rng.integers(-127, 128, shape, dtype=np.int8))
        count = shape[axis] if axis is not None else None
        scales = np.float32(scale) * (1 + self.rng.random(count, dtype=np.float32) if count else np.float32(1))
        zeros = np.zeros(count, np.int8) if count else np.int8(0)
        inputs = q, self.constant("w_scale", np.float32(scales)), self.constant("w_zero", zeros)
        attributes = {} if axis is None else {"axis": axis}
        return self.b.node("DequantizeLinear", *inputs, name=self.name("dq_w"), **attributes), np.atleast_1d(scales)

    def bias(self, count: int, scales: np.ndarray, spread: int = 3000) -> str:
        """A DequantizeLinear of random int32 with the scale of the products."""
        q = self.constant("b", self.rng.integers(-spread, spread, count, dtype=np.int32))
        unit = (np.float32(self.scale) * scales).astype(np.float32)
        per_channel = unit.size > 1
        inputs = q, self.constant("b_scale", unit if per_channel else unit[0])
        return self.b.node("DequantizeLinear", *inputs, name=self.name("dq_b"), **({"axis": 0} if per_channel else {}))

    def conv(self, shape: tuple[int, ...], per_channel: bool = True, **attributes: Any) -> Qdq:
        w, scales = self.weights(shape, 0 if per_channel else None)
        return self.node("Conv", w, self.bias(shape[0], scales), **attributes)

    def matmul(self, cin: int, cout: int) -> Qdq:
        """As tf2onnx writes it: x @ W, then an Add of the bias."""
        w, scales = self.weights((cin, cout))
        self.node("MatMul", w)
        return self.node("Add", self.bias(cout, scales))

    def model(self, opset: int = 13) -> Model:
        self.b.output(self.x)
        return onnx.infer(self.b.model(opset=opset))


Branch = Callable[[Qdq], Qdq]


@dataclass(frozen=True)
class Chain:
    """A model that came quantized, up to its last quantizer, and the kinds of its layers.

    At least `share` of `count` rows are onnxruntime's.  `stage` is that of the first layer, which limits to `limits`.
    """

    build: Callable[[], Qdq]
    kinds: str
    share: float = 0.999
    count: int = 100
    opset: int = 13
    stage: type[Rescale] | None = None
    limits: tuple[int, int] | None = None

    def check(self) -> Quantized:
        chain = self.build()
        made = assert_agrees(chain.model(self.opset), chain.scale, self.count, self.share)
        assert kinds(made) == self.kinds.split()
        assert len(made.graph.inputs) == 1
        requantize = getattr(made.graph.layers[0], "requantize", None)
        assert self.stage is None or isinstance(requantize, self.stage)
        assert self.limits is None or (requantize.low, requantize.high) == self.limits
        return made


def rows(model: Model, count: int = 100, seed: int = 1) -> dict[str, np.ndarray]:
    """Random inputs: normal floats, all integers of a type of up to 16 bits, or numbers of a few rows of a table."""
    rng, found = np.random.default_rng(seed), {}
    for value in model.graph.inputs:
        assert value.tensor is not None
        shape, dtype = (count, *value.tensor.shape), value.tensor.dtype
        if dtype.kind == "f":
            found[value.name] = rng.standard_normal(shape).astype(dtype)
        else:
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if info.bits <= 16 else (0, 15)
            found[value.name] = rng.integers(low, high + 1, shape, dtype=dtype)
    return found


def session(model: Model) -> ort.InferenceSession:
    """onnxruntime with graph optimisation off, in this thread alone."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    return ort.InferenceSession(onnx.dumps(model), options, providers=["CPUExecutionProvider"])


def runtime(model: Model, feeds: dict[str, np.ndarray]) -> np.ndarray:
    """The first output of onnxruntime, rows stacked."""
    run = session(model)
    count = len(next(iter(feeds.values())))
    return np.stack([run.run(None, {k: v[i] for k, v in feeds.items()})[0] for i in range(count)])


def assert_agrees(model: Model, step: float, count: int = 100, share: float = 0.999) -> Quantized:
    """The golden model and onnxruntime: at least `share` equal, never more than one `step` of the output apart."""
    quantized, feeds = quantize(model), rows(model, count)
    made, expected = golden.predict(quantized, feeds)[model.graph.outputs[0].name], runtime(model, feeds)
    assert made.shape == expected.shape
    assert made.dtype == expected.dtype
    apart = np.abs(made.astype(np.float64) - expected.astype(np.float64)) / step
    assert apart.max() <= 1.001
    assert np.mean(apart < 1e-3) >= share
    assert len(np.unique(expected)) > 3  # a constant output would prove nothing
    return quantized


def kinds(quantized: Quantized) -> list[str]:
    return [layer.kind for layer in quantized.graph.layers]
