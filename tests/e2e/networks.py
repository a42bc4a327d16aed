"""Small models for the tests of the whole flow: one of fixed shape, and random chains of layers by seed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Model


def write_data(path: Path, model: Model, rows: int = 6, seed: int = 0, **more: np.ndarray) -> Path:
    """An NPZ of normal rows for the one input of `model`."""
    inputs = {f"in_{name}": values for name, values in rows_for(model, rows, seed).items()}
    np.savez(path, allow_pickle=False, **inputs, **more)
    return path


def rows_for(model: Model, count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Normally distributed rows [count, *shape] for the inputs of `model`."""
    random = np.random.default_rng(seed)
    return {value.name: random.standard_normal((count, *value.tensor.shape)).astype(np.float32)
            for value in model.graph.inputs}


def small_network(seed: int = 0) -> Model:
    """A 3x3 convolution of 2 channels over 4x4, a Relu, a 2x2 maximum and a matrix: three stages, quick to compile."""
    chain = Chain((2, 4, 4), seed, name="small")
    chain.conv(channels=2, kernel=(3, 3), pads=(1, 1, 1, 1), name="conv").node("Relu", name="relu")
    chain.pool("MaxPool", kernel=(2, 2), strides=(2, 2), name="pool").dense(3, name="fc")
    return chain.model()


def residual() -> Model:
    """Two convolutions, and the result of the first one added to that of the second."""
    rng, b = np.random.default_rng(0), Builder("residual")
    x = b.input("x", np.float32, (1, 2, 4, 4))
    for name in ("first", "second"):
        weights = b.constant(f"{name}.w", rng.standard_normal((2, 2, 3, 3)).astype(np.float32) / 4)
        bias = b.constant(f"{name}.b", rng.standard_normal(2).astype(np.float32) / 4)
        made = b.node("Conv", x, weights, bias, name=name, output=f"{name}_out", pads=(1, 1, 1, 1))
        x, before = made, x
    x = b.node("Add", before, x, name="add", output="sum")
    weights = b.constant("fc.w", rng.standard_normal((3, 32)).astype(np.float32) / 4)
    b.output(b.node("Gemm", b.node("Flatten", x, name="flat"), weights, name="fc", output="y", transB=1))
    return onnx.infer(b.model(opset=20))


def forked() -> Model:
    """A stem whose result goes two ways, a convolution and a mean, joined again as channels; then a residual block.

    Layers: stem, wide, mean, wider, join, up, deep, down, add, fc.
    """
    rng, b = np.random.default_rng(5), Builder("forked")

    def conv(x: str, name: str, channels: int, depth: int, kernel: int, **attributes: Any) -> str:
        weights = rng.standard_normal((channels, depth, kernel, kernel)).astype(np.float32) / (depth**0.5 * kernel)
        pads = (kernel // 2,) * 4
        return b.node("Conv", x, b.constant(f"{name}.w", weights), name=name, output=f"{name}_out", pads=pads,
                      **attributes)

    x = b.input("x", np.float32, (1, 2, 12, 12))
    stem = b.node("Relu", conv(x, "stem", 4, 2, 3), name="relu", output="stemmed")
    wide = conv(conv(stem, "wide", 7, 4, 3, strides=(2, 2)), "wider", 9, 7, 1)
    mean = b.node("AveragePool", stem, name="mean", output="means", kernel_shape=(2, 2), strides=(2, 2))
    x = b.node("Concat", wide, mean, name="join", output="joined", axis=1)
    y = conv(conv(conv(x, "up", 13, 13, 1), "deep", 13, 1, 3, group=13), "down", 13, 13, 1)
    x = b.node("Add", x, y, name="add", output="sum")
    weights = b.constant("fc.w", rng.standard_normal((3, 13 * 36)).astype(np.float32) / 20)
    b.output(b.node("Gemm", b.node("Flatten", x, name="flat"), weights, name="fc", output="y", transB=1))
    return onnx.infer(b.model(opset=20))


def gated() -> Model:
    """A convolution of 4 channels over 24 x 24 whose result is scaled by its own mean: all of it waits for that."""
    rng, b = np.random.default_rng(3), Builder("gated")
    x = b.input("x", np.float32, (1, 1, 24, 24))
    weights = b.constant("conv.w", rng.standard_normal((4, 1, 3, 3)).astype(np.float32) / 2)
    made = b.node("Relu", b.node("Conv", x, weights, name="conv", pads=(1, 1, 1, 1)), name="relu")
    gate = b.node("Sigmoid", b.node("GlobalAveragePool", made, name="squeeze"), name="gate")
    scaled = b.node("Mul", made, gate, name="scale")
    b.output(b.node("MaxPool", scaled, name="pool", output="y", kernel_shape=(4, 4), strides=(4, 4)))
    return onnx.infer(b.model(opset=20))


def two_by_two() -> Model:
    """Of inputs `left` and `right`, of other sizes: their sum behind a convolution and a matrix, and `right` pooled."""
    rng, b = np.random.default_rng(3), Builder("two_by_two")
    left, right = b.input("left", np.float32, (1, 4, 2, 3)), b.input("right", np.float32, (1, 2, 4, 6))
    weights = b.constant("pick.w", rng.standard_normal((4, 2, 2, 2)).astype(np.float32) / 4)
    made = b.node("Conv", right, weights, name="pick", output="picked", strides=(2, 2))
    both = b.node("Flatten", b.node("Add", left, made, name="add", output="sum"), name="flat")
    weights = b.constant("fc.w", rng.standard_normal((5, 24)).astype(np.float32) / 4)
    b.output(b.node("Gemm", both, weights, name="fc", output="scores", transB=1))
    b.output(b.node("MaxPool", right, name="pool", output="pooled", kernel_shape=(2, 2), strides=(2, 2)))
    return onnx.infer(b.model(opset=20))


def random_network(seed: int) -> Model:
    """One to four layers of any kind that hwflow maps, with random sizes; the same model for the same seed."""
    random = np.random.default_rng(seed)
    spatial = 1 if random.random() < 0.2 else 2
    size = [int(n) for n in random.integers(3, 11, spatial)]
    chain = Chain((int(random.integers(1, 7)), *size), seed, name=f"random{seed}")
    for _ in range(int(random.integers(1, 4))):
        random_layer(chain, random)
    if random.random() < 0.4 or not chain.in_hardware:
        chain.dense(int(random.integers(1, 9)))
    return chain.model()


def random_layer(chain: Chain, random: np.random.Generator) -> None:
    """A convolution most of the time, else a pool or a table; sometimes an activation behind it."""
    spatial = len(chain.shape) - 1
    kernel = tuple(int(min(random.integers(1, 4), n)) for n in chain.shape[1:])
    strides = tuple(int(n) for n in random.integers(1, 4, spatial))
    kind = random.choice(["conv", "conv", "conv", "MaxPool", "AveragePool", "GlobalAveragePool", "table"])
    if kind == "conv":
        dilations = tuple(int(random.integers(1, 3)) if (k - 1) * 2 < n else 1
                          for k, n in zip(kernel, chain.shape[1:], strict=True))
        pads = tuple(int(random.integers(0, k)) for k in (*kernel, *kernel))
        channels = chain.shape[0]
        groups = [g for g in range(1, channels + 1) if channels % g == 0]
        group = int(random.choice(groups))
        chain.conv(channels=group * int(random.integers(1, 4)), kernel=kernel, strides=strides, pads=pads,
                   dilations=dilations, group=group)
    elif kind in ("MaxPool", "AveragePool"):
        pads = tuple(int(random.integers(0, k)) if kind == "MaxPool" else 0 for k in (*kernel, *kernel))
        chain.pool(str(kind), kernel=kernel, strides=strides, pads=pads)
    elif kind == "GlobalAveragePool":
        chain.node("GlobalAveragePool", shape=(chain.shape[0], *(1,) * spatial))
    else:
        chain.node(str(random.choice(["Sigmoid", "Tanh", "Elu", "HardSwish"])))
    if random.random() < 0.5:
        chain.node(str(random.choice(["Relu", "LeakyRelu", "Sigmoid"])))


class Chain:
    """Adds layers one behind the other; `shape` is that of the newest tensor, without the batch."""

    def __init__(self, shape: tuple[int, ...], seed: int, name: str) -> None:
        self.random = np.random.default_rng([seed, 1])
        self.builder, self.shape = Builder(name), shape
        self.tensor = self.builder.input("x", np.float32, (1, *shape))
        self.count = 0
        #: Tables alone run on the host; a convolution, a pool or a matrix brings them into hardware.
        self.in_hardware = False

    def constant(self, shape: tuple[int, ...], size: float) -> str:
        self.count += 1
        values = self.random.standard_normal(shape) * size
        return self.builder.constant(f"constant{self.count}", values.astype(np.float32))

    def node(self, op_type: str, *constants: str, shape: tuple[int, ...] | None = None, name: str = "",
             **attributes: object) -> Chain:
        self.tensor = self.builder.node(op_type, self.tensor, *constants, name=name, **attributes)
        self.shape = shape or self.shape
        self.in_hardware |= op_type in ("Conv", "Gemm") or op_type.endswith("Pool")
        return self

    def conv(self, *, channels: int, kernel: tuple[int, ...], strides: tuple[int, ...] = (),
             pads: tuple[int, ...] = (), dilations: tuple[int, ...] = (), group: int = 1, name: str = "") -> Chain:
        ones = (1,) * len(kernel)
        strides, dilations, pads = strides or ones, dilations or ones, pads or (0,) * 2 * len(kernel)
        weights = (channels, self.shape[0] // group, *kernel)
        size = 1 / float(np.sqrt(np.prod(weights[1:])))
        return self.node("Conv", self.constant(weights, size), self.constant((channels,), 0.3), name=name,
                         shape=(channels, *self.behind(kernel, strides, pads, dilations)), kernel_shape=kernel,
                         strides=strides, pads=pads, dilations=dilations, group=group)

    def pool(self, op_type: str, *, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...] = (),
             name: str = "") -> Chain:
        pads = pads or (0,) * 2 * len(kernel)
        shape = (self.shape[0], *self.behind(kernel, strides, pads, (1,) * len(kernel)))
        return self.node(op_type, shape=shape, name=name, kernel_shape=kernel, strides=strides, pads=pads)

    def dense(self, outputs: int, name: str = "") -> Chain:
        inputs = int(np.prod(self.shape))
        self.node("Flatten", shape=(inputs,))
        weights = self.constant((outputs, inputs), 1 / float(np.sqrt(inputs)))
        return self.node("Gemm", weights, self.constant((outputs,), 0.3), transB=1, shape=(outputs,), name=name)

    def behind(self, kernel: tuple[int, ...], strides: tuple[int, ...], pads: tuple[int, ...],
               dilations: tuple[int, ...]) -> tuple[int, ...]:
        count = len(kernel)
        return tuple((n + pads[k] + pads[k + count] - dilations[k] * (kernel[k] - 1) - 1) // strides[k] + 1
                     for k, n in enumerate(self.shape[1:]))

    def model(self) -> Model:
        self.builder.output(self.tensor)
        return onnx.infer(self.builder.model(opset=20))
