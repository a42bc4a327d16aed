"""A layer of a Transformer encoder (Vaswani et al., 2017) with random weights, and a head that classifies."""

from __future__ import annotations

import numpy as np

from hwflow.onnx.model import Model
from tests.quantize.net import Net

TOKENS, WIDTH, HEADS, HIDDEN, CLASSES = 64, 64, 4, 256, 10


class Tokens(Net):
    """A `Net` whose tensors are sequences [1, T, C]."""

    def dense(self, x: str, cout: int) -> str:
        """As PyTorch's exporter writes a Linear of a sequence."""
        cin = self.channels[x]
        product = self.node("MatMul", x, self.constant(self.normal(cin, cout, deviation=cin**-0.5)), channels=cout)
        return self.node("Add", product, self.constant(self.normal(cout, deviation=0.1)))

    def layer_norm(self, x: str) -> str:
        scale, offset = self.rng.uniform(0.5, 1.5, self.channels[x]), self.normal(self.channels[x], deviation=0.2)
        return self.node("LayerNormalization", x, self.constant(scale), self.constant(offset), axis=-1)

    def heads(self, x: str, *perm: int) -> str:
        """[1, T, C] as [1, heads, T, d], or its transpose."""
        size = self.channels[x] // HEADS
        split = self.node("Reshape", x, self.constant((1, TOKENS, HEADS, size), np.int64))
        return self.node("Transpose", split, perm=perm)

    def attention(self, x: str) -> str:
        q, k, v = (self.dense(x, WIDTH) for _ in range(3))
        scores = self.node("MatMul", self.heads(q, 0, 2, 1, 3), self.heads(k, 0, 2, 3, 1))
        scaled = self.node("Div", scores, self.constant((WIDTH / HEADS) ** 0.5 / 2))  # weights of chance are too equal
        mixed = self.node("MatMul", self.node("Softmax", scaled, axis=-1), self.heads(v, 0, 2, 1, 3))
        turned = self.node("Transpose", mixed, perm=(0, 2, 1, 3))
        joined = self.node("Reshape", turned, self.constant((1, TOKENS, WIDTH), np.int64), channels=WIDTH)
        return self.dense(joined, WIDTH)


def encoder() -> Model:
    """64 tokens of 64 features, 4 heads, 256 hidden features: 3.7 million multiplications."""
    n = Tokens((TOKENS, WIDTH))
    n.channels[n.x] = WIDTH
    x = n.layer_norm(n.node("Add", n.x, n.attention(n.x)))
    x = n.layer_norm(n.node("Add", x, n.dense(n.relu(n.dense(x, HIDDEN)), WIDTH)))
    return n.model(n.gemm(n.mean(x, (1,)), CLASSES, cin=WIDTH))
