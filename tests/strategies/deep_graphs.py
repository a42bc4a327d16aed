"""Layer graphs of 20 to 120 layers as people bring them: residual, mobile, shuffled, U-shaped and pyramid networks.

Their integers are random and are never computed with: only the sizes count, for what plans a design.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.layers import (
    Add,
    AveragePool,
    Concat,
    Conv,
    Dense,
    Frame,
    IntFormat,
    Layer,
    LayerGraph,
    Lookup,
    MaxPool,
    Multiply,
    Rearrange,
    Requantize,
    Tensor,
)
from hwflow.layers.rearrange import picked
from tests.strategies.numbers import Rng, integers

BYTE = IntFormat(8, True)
SCALE = 0.05


class Drawn:
    """A graph of signed bytes with zero point 0.  Every method adds a layer behind tensors, and returns its output."""

    def __init__(self, rng: Rng, frame: Frame):
        self.rng = rng
        self.tensors = {"x": Tensor("x", frame, BYTE, SCALE, 0)}
        self.layers: list[Layer] = []

    def finished(self, name: str) -> LayerGraph:
        """What nothing reads is an output."""
        read = {name for layer in self.layers for name in layer.inputs}
        outputs = tuple(layer.output for layer in self.layers if layer.output not in read)
        return LayerGraph(name, self.tensors, tuple(self.layers), ("x",), outputs)

    def frame(self, x: str) -> Frame:
        return self.tensors[x].frame

    def put(self, kind: type[Layer], *inputs: str, **fields: Any) -> str:
        output = f"t{len(self.layers)}"
        layer = kind(name=f"{kind.kind}{len(self.layers)}", inputs=inputs, output=output, **fields)  # type: ignore[call-arg]
        self.tensors[output] = Tensor(output, layer.output_frame(*map(self.frame, inputs)), BYTE, SCALE, 0)
        self.layers.append(layer)
        return output

    def requantize(self, channels: int) -> Requantize:
        return Requantize(self.rng.integers(-2000, 2000, channels), self.rng.integers(1 << 16, 1 << 18, channels),
                          self.rng.integers(24, 28, channels), 0, BYTE.low, BYTE.high)

    def conv(self, x: str, cout: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> str:
        frame, half = self.frame(x), kernel // 2
        height = min(kernel, 2 * frame.height - 1)
        weights = integers(self.rng, BYTE, (cout, height, kernel, frame.channels // groups))
        return self.put(Conv, x, weights=weights, weight_format=BYTE, input_format=BYTE, groups=groups,
                        requantize=self.requantize(cout), strides=(min(stride, frame.height), stride),
                        pads=(height // 2, half, height // 2, half))

    def depthwise(self, x: str, kernel: int = 3, stride: int = 1) -> str:
        return self.conv(x, self.frame(x).channels, kernel, stride, self.frame(x).channels)

    def max_pool(self, x: str) -> str:
        return self.put(MaxPool, x, input_format=BYTE, kernel=(2, 2), strides=(2, 2))

    def mean(self, x: str) -> str:
        frame = self.frame(x)
        return self.put(AveragePool, x, input_format=BYTE, requantize=self.requantize(frame.channels),
                        kernel=(frame.height, frame.width))

    def dense(self, x: str, outputs: int) -> str:
        weights = integers(self.rng, BYTE, (outputs, self.frame(x).elements))
        return self.put(Dense, x, weights=weights, weight_format=BYTE, input_format=BYTE,
                        requantize=self.requantize(outputs))

    def table(self, x: str) -> str:
        return self.put(Lookup, x, input_format=BYTE, table=integers(self.rng, BYTE, (256,)))

    def add(self, a: str, b: str) -> str:
        return self.put(Add, a, b, multipliers=(70001, 50021), shift=17, zero_point=0, low=BYTE.low, high=BYTE.high)

    def multiply(self, a: str, b: str) -> str:
        return self.put(Multiply, a, b, multiplier=70001, shift=24, zero_point=0, low=BYTE.low, high=BYTE.high)

    def concat(self, *parts: str) -> str:
        return self.put(Concat, *parts)

    def picked(self, x: str, **indices: Any) -> str:
        return self.put(Rearrange, x, input_format=BYTE, padding=0, **picked(self.frame(x), **indices)._asdict())

    def doubled(self, x: str) -> str:
        frame = self.frame(x)
        return self.picked(x, rows=np.repeat(np.arange(frame.height), 2), columns=np.repeat(np.arange(frame.width), 2))

    def skip(self, x: str, cout: int, stride: int) -> str:
        """`x`, or behind a convolution where the other way changes its frame."""
        return x if stride == 1 and self.frame(x).channels == cout else self.conv(x, cout, 1, stride)

    def separable(self, x: str, cout: int, stride: int = 1) -> str:
        return self.conv(self.depthwise(x, 3, stride), cout, 1)

    def gated(self, x: str) -> str:
        """Squeeze and excitation (Hu et al., 2018)."""
        channels = self.frame(x).channels
        small = self.dense(self.mean(x), max(4, channels // 4))
        return self.multiply(x, self.table(self.dense(small, channels)))


def residual(n: Drawn, layers: int) -> str:
    """Basic blocks and bottlenecks (He et al., 2015)."""
    width, bottleneck = int(n.rng.choice([8, 16, 24])), bool(n.rng.integers(2))
    x = n.conv("x", width, 3, int(n.rng.integers(1, 3)))
    while len(n.layers) < layers - 2:
        stride = 2 if n.rng.random() < 0.25 and n.frame(x).width > 7 else 1
        width *= stride
        if bottleneck:
            y = n.conv(n.conv(n.conv(x, max(4, width // 4), 1), max(4, width // 4), 3, stride), width, 1)
        else:
            y = n.conv(n.conv(x, width, 3, stride), width)
        x = n.add(y, n.skip(x, width, stride))
    return n.dense(n.mean(x), 10)


def mobile(n: Drawn, layers: int) -> str:
    """Inverted residuals (Sandler et al., 2018), some with gates."""
    width, gates = int(n.rng.choice([8, 12, 16])), n.rng.random() < 0.4
    x = n.conv("x", width, 3, 2)
    while len(n.layers) < layers - 3:
        stride = 2 if n.rng.random() < 0.25 and n.frame(x).width > 4 else 1
        cout = int(width * 1.5) // 4 * 4 if stride == 2 else width
        y = n.depthwise(n.conv(x, width * int(n.rng.choice([3, 6])), 1), int(n.rng.choice([3, 5])), stride)
        y = n.conv(n.gated(y) if gates and n.rng.random() < 0.5 else y, cout, 1)
        x = n.add(y, x) if stride == 1 else y
        width = cout
    return n.dense(n.mean(n.conv(x, 2 * width, 1)), 10)


def shuffled(n: Drawn, layers: int) -> str:
    """Halves of the channels, one of them computed, in another order (Ma et al., 2018)."""
    width = int(n.rng.choice([16, 24, 48]))
    x = n.conv("x", width, 3, 2)
    while len(n.layers) < layers - 3:
        half = width // 2
        if n.rng.random() < 0.2 and n.frame(x).width > 7:
            a, b = n.separable(x, width, 2), n.separable(n.conv(x, width, 1), width, 2)
            width *= 2
        else:
            a, b = (n.picked(x, channels=np.arange(part * half, (part + 1) * half)) for part in (0, 1))
            b = n.separable(n.conv(b, half, 1), half)
        x = n.picked(n.concat(a, b), channels=np.arange(width).reshape(2, -1).T.reshape(-1))
    return n.dense(n.mean(n.conv(x, width, 1)), 10)


def u_shaped(n: Drawn, layers: int) -> str:
    """Down and up again, with all sizes kept for the way up (Ronneberger et al., 2015)."""
    depth, width = int(n.rng.integers(2, 5)), int(n.rng.choice([8, 12, 16]))
    at_once = max(1, (layers - 4 * depth) // (2 * depth + 1))
    x, kept = "x", []
    for level in range(depth):
        for _ in range(at_once):
            x = n.conv(x, width << min(level, 2))
        kept.append(x)
        x = n.max_pool(x)
    for _ in range(at_once):
        x = n.conv(x, width << 2)
    for level in reversed(range(depth)):
        x = n.concat(n.conv(n.doubled(x), width << min(level, 2), 1), kept[level])
        for _ in range(at_once):
            x = n.conv(x, width << min(level, 2))
    return n.conv(x, 2, 1)


def pyramid(n: Drawn, layers: int) -> str:
    """A network whose last sizes are joined on the way up, each with outputs of its own (Lin et al., 2016)."""
    width, levels = int(n.rng.choice([16, 24])), int(n.rng.integers(2, 5))
    x, sizes = n.conv("x", width, 3, 2), []
    at_once = max(1, (layers - 6 * levels) // (3 * levels))
    for level in range(levels):
        cout = width << min(level, 2)
        x = n.separable(x, cout, 2)
        for _ in range(at_once):
            x = n.add(n.separable(x, cout), x)
        sizes.append(x)
    top = n.conv(sizes[-1], width, 1)
    n.conv(n.conv(top, width), 6, 1)
    for size in reversed(sizes[:-1]):
        top = n.add(n.doubled(top), n.conv(size, width, 1))
        n.conv(n.conv(top, width), 6, 1)
    return top


FAMILIES: tuple[Callable[[Drawn, int], str], ...] = (residual, mobile, shuffled, u_shaped, pyramid)


def deep_network(seed: int) -> LayerGraph:
    """The network of this seed: 20 to 120 layers, on 16 to 96 pixels in a row."""
    rng = np.random.default_rng([seed, 0xDEE9])
    family = FAMILIES[seed % len(FAMILIES)]
    side = 16 * int(rng.integers(1, 7))
    n = Drawn(rng, Frame(side, side, int(rng.choice([1, 3]))))
    family(n, int(rng.integers(20, 121)))
    return n.finished(f"{family.__name__}{seed}")


def landmarks() -> LayerGraph:
    """Points of a face of 64 x 64 pixels: 70 layers of separable residual blocks, 54 million multiplications."""
    n = Drawn(np.random.default_rng(70), Frame(64, 64, 3))
    x = n.conv("x", 32, 3)
    for cout, count in ((48, 7), (96, 7), (144, 7)):
        x = n.separable(x, cout, 2)
        for _ in range(count):
            x = n.add(n.separable(x, cout), x)
    n.dense(n.mean(x), 136)
    return n.finished("landmarks")
