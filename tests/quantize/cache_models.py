"""One step of a small decoder: a token, its position, and caches of keys and values, as exporters write them."""

from __future__ import annotations

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Model
from tests.quantize.state_models import F, Streaming

TOKENS, WIDTH, HEADS, HEAD, ROWS = 11, 8, 2, 4, 6
#: How a row is written, how scores are hidden, where rotations come from.
WRITES = ("nd", "elements", "where", "tensor_scatter")
MASKS, ROTATIONS = ("where", "added"), ("table", "computed")


class Decoder(Streaming):
    """A decoder of the forms `write`, `mask` and `rotation`."""

    def __init__(self, write: str, mask: str, rotation: str, seed: int = 0) -> None:
        super().__init__("decoder", seed)
        self.write, self.mask, self.rotation = write, mask, rotation
        self.token, self.position = (self.b.input(n, np.int64, (1,)) for n in ("token", "position"))

    def made(self) -> Model:
        x = self.b.node("Gather", self.weights(TOKENS, WIDTH), self.token)
        q, k, v = (self.heads(self.b.node("MatMul", x, self.weights(WIDTH, WIDTH, spread=2))) for _ in range(3))
        cosine, sine = self.rotations()
        q, k = (self.rotated(part, cosine, sine) for part in (q, k))
        keys, values = self.cache("keys", k), self.cache("values", v)
        scores = self.b.node("MatMul", q, self.b.node("Transpose", keys, perm=[0, 1, 3, 2]))
        shares = self.b.node("Softmax", self.masked(self.b.node("Div", scores, self.constant(F(2)))), axis=-1)
        y = self.b.node("Transpose", self.b.node("MatMul", shares, values), perm=[0, 2, 1, 3])
        y = self.b.node("Reshape", y, self.ints(1, WIDTH))
        self.b.output(self.b.node("MatMul", self.b.node("Add", x, y), self.weights(WIDTH, 3), output="y"), F)
        return onnx.simplify(onnx.infer(self.b.model(opset=24 if self.write == "tensor_scatter" else 17)))

    def heads(self, x: str) -> str:
        split = self.b.node("Reshape", x, self.ints(1, 1, HEADS, HEAD))
        return self.b.node("Transpose", split, perm=[0, 2, 1, 3])

    def rotations(self) -> list[str]:
        rates = F([1, 0.3] * 2)
        if self.rotation == "table":
            angles = np.arange(ROWS)[:, None] * rates
            return [self.b.node("Gather", self.constant(f(angles).astype(F)), self.position) for f in (np.cos, np.sin)]
        real = self.b.node("Unsqueeze", self.b.node("Cast", self.position, to=1), self.ints(1))
        angles = self.b.node("Mul", real, self.constant(rates))
        return [self.b.node(op, angles) for op in ("Cos", "Sin")]

    def rotated(self, x: str, cosine: str, sine: str) -> str:
        first, second = self.b.nodes("Split", x, self.ints(2, 2), axis=3, outputs=(f"{x}.a", f"{x}.b"))
        turned = self.b.node("Concat", self.b.node("Neg", second), first, axis=3)
        return self.b.node("Add", self.b.node("Mul", x, cosine), self.b.node("Mul", turned, sine))

    def cache(self, name: str, row: str) -> str:
        """The cache with `row` [1, HEADS, 1, HEAD] at the position; the other rows stay."""
        old, new = self.b.input(name, F, (1, HEADS, ROWS, HEAD)), f"{name}_new"
        b, place = self.b, self.b.node("Reshape", self.position, self.ints(1, 1))
        if self.write == "nd":  # as torch writes index_put: the axis comes first
            parts = [b.node("Transpose", x, perm=[2, 0, 1, 3]) for x in (old, row)]
            put = b.node("ScatterND", parts[0], place, parts[1])
            b.node("Transpose", put, perm=[1, 2, 0, 3], output=new)
        elif self.write == "elements":
            index = b.node("Expand", b.node("Unsqueeze", place, self.ints(1, 3)), self.ints(1, HEADS, 1, HEAD))
            b.node("ScatterElements", old, index, row, axis=2, output=new)
        elif self.write == "where":
            here = b.node("Equal", self.ints(*range(ROWS)), self.position)
            b.node("Where", b.node("Unsqueeze", here, self.ints(1)), row, old, output=new)
        else:
            b.node("TensorScatter", old, row, self.position, axis=2, output=new)
        b.output(new, F)
        return new

    def masked(self, scores: str) -> str:
        hidden = self.b.node("Greater", self.ints(*range(ROWS)), self.position)
        if self.mask == "where":
            return self.b.node("Where", hidden, self.constant(F(-np.inf)), scores)
        floats = self.b.node("Where", hidden, self.constant(np.finfo(F).min), self.constant(F(0)))
        return self.b.node("Add", scores, floats)


def decoder(write: str = "elements", mask: str = "where", rotation: str = "table", seed: int = 0) -> Model:
    return Decoder(write, mask, rotation, seed).made()
