"""Small streaming models whose states are inputs and outputs of the graph, as exporters write them."""

from __future__ import annotations

import numpy as np

from hwflow import onnx
from hwflow.onnx.build import Builder
from hwflow.onnx.model import Array, Model

F = np.float32


class Streaming:
    """A builder of one model, with constants drawn from `seed`."""

    def __init__(self, name: str, seed: int = 0) -> None:
        self.b, self.rng, self.count = Builder(name), np.random.default_rng(seed), 0

    def constant(self, value: Array) -> str:
        self.count += 1
        return self.b.constant(f"k{self.count}", value)

    def ints(self, *values: int) -> str:
        return self.constant(np.array(values, np.int64))

    def weights(self, *shape: int, spread: float = 1.0) -> str:
        fan = max(1, int(np.prod(shape[1:])))
        return self.constant(self.rng.normal(0, spread / np.sqrt(fan), shape).astype(F))

    def model(self) -> Model:
        return onnx.simplify(onnx.infer(self.b.model(opset=17)))

    def shifted(self, x: str, state: str, output: str, rows: int, axis: int) -> str:
        """Concat(state, x), of which the last `rows` are the next state `output`."""
        both = self.b.node("Concat", state, x, axis=axis)
        self.b.output(self.b.node("Slice", both, self.ints(-rows), self.ints(2**31 - 1), self.ints(axis),
                                  output=output), F)
        return both

    def linear(self, x: str, inputs: int, outputs: int) -> str:
        return self.b.node("Gemm", x, self.weights(inputs, outputs, spread=1.5), self.weights(outputs, spread=0.3))


def shift_cache(
    channels: int = 4, taps: int = 3, steps: int = 2, layers: int = 2, dilation: int = 1, seed: int = 0
) -> Model:
    """Causal convolutions [1, C, T] whose last inputs are caches: a TCN where they are dilated."""
    m = Streaming("tcn", seed)
    x, before = m.b.input("x", F, (1, 3, steps)), 3
    for k in range(layers):
        apart = dilation**k
        rows = (taps - 1) * apart
        state = m.b.input(f"cache{k}", F, (1, before, rows))
        both = m.shifted(x, state, f"cache{k}_out", rows, 2)
        weights, bias = m.weights(channels, before, taps), m.weights(channels, spread=0.3)
        y = m.b.node("Conv", both, weights, bias, dilations=[apart])
        x, before = m.b.node("Relu", y), channels
    m.b.output(m.b.node("Conv", x, m.weights(2, before, 1), m.weights(2), output="y"), F)
    return m.model()


def lstm_gates(inputs: int = 3, hidden: int = 4, seed: int = 0) -> Model:
    """An LSTM of one step as a cell writes it: products, Sigmoid, Tanh, Mul and Add; states h_in and c_in."""
    m = Streaming("lstm", seed)
    x, h, c = m.b.input("x", F, (1, inputs)), m.b.input("h_in", F, (1, hidden)), m.b.input("c_in", F, (1, hidden))
    sums = m.b.node("Add", m.linear(x, inputs, 4 * hidden), m.linear(h, hidden, 4 * hidden))
    i, f, g, o = m.b.nodes("Split", sums, m.ints(*[hidden] * 4), axis=1, outputs=("i", "f", "g", "o"))
    i, f, o = (m.b.node("Sigmoid", gate) for gate in (i, f, o))
    kept = m.b.node("Mul", f, c)
    c = m.b.node("Add", kept, m.b.node("Mul", i, m.b.node("Tanh", g)), output="c_out")
    h = m.b.node("Mul", o, m.b.node("Tanh", c), output="h_out")
    for name in (h, c):
        m.b.output(name, F)
    m.b.output(m.b.node("Gemm", h, m.weights(hidden, 2), m.weights(2), output="y"), F)
    return m.model()


def running_sum(elements: int = 5, seed: int = 0) -> Model:
    """s' = 0.75 s + x, and a product of it."""
    m = Streaming("sum", seed)
    x, s = m.b.input("x", F, (1, elements)), m.b.input("sum", F, (1, elements))
    new = m.b.node("Add", m.b.node("Mul", s, m.b.constant("keep", F(0.75))), x, output="sum_out")
    m.b.output(new, F)
    m.b.output(m.b.node("Gemm", new, m.weights(elements, 2), m.weights(2), output="y"), F)
    return m.model()


def fsmn(features: int = 4, taps: int = 5, seed: int = 0) -> Model:
    """The memory of an FSMN: a depthwise filter over the last projections, and a skip around it."""
    m = Streaming("fsmn", seed)
    x = m.b.input("x", F, (1, 1, features))
    cache = m.b.input("in_cache0", F, (1, features, taps - 1, 1))
    p = m.b.node("MatMul", x, m.weights(features, features))
    row = m.b.node("Unsqueeze", m.b.node("Transpose", p, perm=[0, 2, 1]), m.ints(3))
    both = m.shifted(row, cache, "out_cache0", taps - 1, 2)
    memory = m.b.node("Conv", both, m.weights(features, 1, taps, 1), group=features)
    total = m.b.node("Add", row, memory)
    flat = m.b.node("Relu", m.b.node("Reshape", total, m.ints(1, features)))
    m.b.output(m.b.node("Gemm", flat, m.weights(features, 2), m.weights(2), output="y"), F)
    return m.model()


def gated(channels: int = 3, taps: int = 3, seed: int = 0) -> Model:
    """A gated convolution of one step, tanh(a) * sigmoid(b), with a residual and a cache [1, taps - 1, C]."""
    m = Streaming("gated", seed)
    x = m.b.input("x", F, (1, 1, channels))
    both = m.shifted(x, m.b.input("cache", F, (1, taps - 1, channels)), "cache_next", taps - 1, 1)
    image = m.b.node("Transpose", both, perm=[0, 2, 1])
    a, b = (m.b.node("Conv", image, m.weights(channels, channels, taps, spread=2), m.weights(channels)) for _ in "ab")
    y = m.b.node("Mul", m.b.node("Tanh", a), m.b.node("Sigmoid", b))
    out = m.b.node("Add", m.b.node("Transpose", y, perm=[0, 2, 1]), x)
    m.b.output(m.b.node("MatMul", out, m.weights(channels, 2), output="y"), F)
    return m.model()


def sliding(width: int = 8, heads: int = 2, rows: int = 5, seed: int = 0) -> Model:
    """Attention of a frame over the last `rows` frames, whose keys and values are caches [1, heads, rows, D]."""
    m = Streaming("sliding", seed)
    b, x = m.b, m.b.input("x", F, (1, 1, width))
    q, k, v = (b.node("Transpose", b.node("Reshape", b.node("MatMul", x, m.weights(width, width, spread=2)),
                                          m.ints(1, 1, heads, width // heads)), perm=[0, 2, 1, 3]) for _ in "qkv")
    shape = (1, heads, rows, width // heads)
    for name in ("keys", "values"):
        row, cache = (k, v)[name == "values"], b.input(name, F, shape)
        b.node("Slice", b.node("Concat", cache, row, axis=2), m.ints(-rows), m.ints(2**31 - 1), m.ints(2),
               output=f"{name}_new")
        b.output(f"{name}_new", F)
    scores = b.node("Div", b.node("MatMul", q, b.node("Transpose", "keys_new", perm=[0, 1, 3, 2])), m.constant(F(2)))
    y = b.node("Transpose", b.node("MatMul", b.node("Softmax", scores, axis=-1), "values_new"), perm=[0, 2, 1, 3])
    joined = b.node("Add", x, b.node("Reshape", y, m.ints(1, 1, width)))
    b.output(b.node("MatMul", joined, m.weights(width, 2), output="y"), F)
    return m.model()


def packed(channels: int = 3, taps: tuple[int, ...] = (3, 4, 2), seed: int = 0) -> Model:
    """Causal convolutions of one step, whose caches lie side by side in one state [1, C, sum of their columns]."""
    m = Streaming("packed", seed)
    b, x, new, start = m.b, m.b.input("x", F, (1, channels, 1)), [], 0
    state = b.input("state", F, (1, channels, sum(taps) - len(taps)))
    for count in taps:
        end = start + count - 1
        both = b.node("Concat", b.node("Slice", state, m.ints(start), m.ints(end), m.ints(2)), x, axis=2)
        new.append(b.node("Slice", both, m.ints(1), m.ints(count), m.ints(2)))
        x, start = b.node("Relu", b.node("Conv", both, m.weights(channels, channels, count, spread=1.5))), end
    b.output(b.node("Concat", *new, axis=2, output="state_new"), F)
    b.output(b.node("Conv", x, m.weights(2, channels, 1), output="y"), F)
    return m.model()
