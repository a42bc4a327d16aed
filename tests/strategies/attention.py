"""Random attention blocks as exporters and optimizers write them: projections, heads, masks, and what stands around."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.onnx.model import Model
from tests.strategies.drawing import ShapedWalk

MS = "com.microsoft"
LOWEST = float(np.finfo(np.float32).min)


class Block(ShapedWalk):
    """Attention over `rows` elements of `width` = heads * depth; keys may come from another sequence."""

    def __init__(self, rng: Any) -> None:
        super().__init__(rng, "attention")
        self.heads, self.depth, self.rows = self.number(1, 4), self.number(2, 6), self.number(2, 8)
        self.width = self.heads * self.depth
        self.keys = self.rows
        self.domains: dict[str, int] = {}

    def projected(self, x: str, name: str) -> str:
        rows, cin = self.shapes[x][1:]
        made = self.node("MatMul", x, self.normal(cin, self.width, deviation=self.pick(1, 1, 2) * cin**-0.5),
                         shape=(1, rows, self.width))  # fmt: skip
        return self.node("Add", made, self.normal(self.width, deviation=0.3)) if self.chance(0.5) else made

    def split(self, x: str, *perm: int) -> str:
        rows = self.shapes[x][1]
        parts = (1, rows, self.heads, self.depth)
        made = self.node("Reshape", x, np.array(parts, np.int64), shape=parts)
        return self.node("Transpose", made, perm=perm, shape=tuple(parts[k] for k in perm))

    def seen(self) -> np.ndarray:
        """Which keys each query sees, one at least."""
        shape = (self.rows, self.keys)
        made = self.pick(np.tri(*shape, dtype=bool), self.rng.random(shape) < 0.6,
                         np.broadcast_to(self.rng.random(self.keys) < 0.7, shape),
                         np.abs(np.subtract.outer(np.arange(self.rows), np.arange(self.keys))) < 2)  # fmt: skip
        made = np.array(made)
        made[np.arange(self.rows), np.arange(self.rows) % self.keys] = True
        return made

    def hiding(self, seen: np.ndarray) -> np.ndarray:
        value = self.pick(-20.0, -100.0, -1e4, -65504.0, -1e9, LOWEST, -np.inf)
        return np.where(seen, 0, value).astype(np.float32)

    def shaped(self, mask: np.ndarray) -> np.ndarray:
        """[rows, keys], with more axes, or another one for each head."""
        kind = self.pick("plain", "four", "three", "heads")
        if kind == "heads":
            return np.stack([self.pick(mask, mask + self.normal(*mask.shape, deviation=0.3))
                             for _ in range(self.heads)])[None]  # fmt: skip
        return {"plain": mask, "four": mask[None, None], "three": mask[None]}[kind]

    def masked(self, scores: str) -> str:
        kind = self.pick("none", "add", "add", "where", "where not", "bias", "slopes", "both", "multiplied", "cut")
        seen = self.seen()
        slopes = -np.abs(np.subtract.outer(np.arange(self.rows), np.arange(self.keys)))
        if kind == "add":
            return self.node("Add", scores, self.shaped(self.hiding(seen)))
        if kind == "where":
            return self.node("Where", seen, scores, self.hiding(np.array(False)), shape=self.shapes[scores])
        if kind == "where not":
            hidden = self.hiding(np.array(False))
            return self.node("Where", ~seen[None, None], hidden, scores, shape=self.shapes[scores])
        if kind == "bias":
            return self.node("Add", scores, self.shaped(self.normal(self.rows, self.keys)))
        if kind == "slopes":
            by = 2.0 ** -np.arange(self.heads)[:, None, None]
            return self.node("Add", scores, (slopes * by)[None].astype(np.float32))
        if kind == "both":
            biased = self.node("Add", scores, self.shaped(self.normal(self.rows, self.keys, deviation=0.5)))
            return self.node("Add", biased, self.hiding(seen))
        if kind == "multiplied":
            kept = self.node("Mul", scores, seen.astype(np.float32))
            return self.node("Sub", kept, 1e4 * (~seen).astype(np.float32))
        if kind == "cut":
            return self.node("Max", self.node("Add", scores, self.hiding(seen)), np.float32(LOWEST))
        return scores

    def decomposed(self, x: str, y: str) -> str:
        q, v = self.split(self.projected(x, "q"), 0, 2, 1, 3), self.split(self.projected(y, "v"), 0, 2, 1, 3)
        k = self.split(self.projected(y, "k"), 0, 2, 3, 1)
        root = np.float32(self.depth**-0.25)
        both = self.chance(0.3)
        if both:
            q, k = self.node("Mul", q, root), self.node("Mul", k, root)
        scores = self.node("MatMul", q, k, shape=(1, self.heads, self.rows, self.keys))
        if not both:
            scores = self.pick(lambda: self.node("Mul", scores, root * root),
                               lambda: self.node("Div", scores, 1 / (root * root)))()  # fmt: skip
        shares = self.node("Softmax", self.masked(scores), axis=self.pick(-1, 3))
        if self.chance(0.15):
            absent = self.node("IsNaN", shares)
            shares = self.node("Where", absent, np.float32(0), shares, shape=self.shapes[shares])
        mixed = self.node("MatMul", shares, v, shape=(1, self.heads, self.rows, self.depth))
        turned = self.node("Transpose", mixed, perm=(0, 2, 1, 3))
        return self.node("Reshape", turned, np.array([1, self.rows, self.width]), shape=(1, self.rows, self.width))

    def in_one(self, x: str, y: str) -> str:
        """Attention of ONNX or of onnxruntime."""
        q, k, v = (self.projected(source, part) for source, part in ((x, "q"), (y, "k"), (y, "v")))
        shape = (1, self.rows, self.width)
        if self.chance(0.5):
            mask = self.pick((), (self.pick(self.seen(), self.shaped(self.hiding(self.seen()))),))
            heads = {"q_num_heads": self.heads, "kv_num_heads": self.heads}
            return self.node("Attention", q, k, v, *mask, shape=shape, is_causal=self.number(0, not mask), **heads)
        self.domains = {MS: 1}
        bias = np.broadcast_to(self.shaped(self.hiding(self.seen())), (1, self.heads, self.rows, self.keys))
        more = ("", "", np.ascontiguousarray(bias)) if self.chance(0.6) else ()
        return self.node("MultiHeadAttention", q, k, v, *more, shape=shape, domain=MS, num_heads=self.heads)

    def block(self, x: str, y: str) -> str:
        self.keys = self.shapes[y][1]
        made = self.in_one(x, y) if self.chance(0.3) and self.rows == self.keys else self.decomposed(x, y)
        made = self.projected(made, "out")
        if self.shapes[x] == self.shapes[made] and self.chance(0.6):
            made = self.node("Add", made, x)
        if self.chance(0.4):
            ones = 1 + self.normal(self.width, deviation=0.1), self.normal(self.width, deviation=0.1)
            made = self.node("LayerNormalization", made, *ones, axis=-1)
        return made

    def end(self, x: str) -> str:
        kind = self.pick("rows", "mean", "first", "relu")
        if kind == "mean":
            return self.node("ReduceMean", x, np.array([1]), keepdims=0, shape=(1, self.width))
        if kind == "first":
            return self.node("Gather", x, np.array(0), axis=1, shape=(1, self.width))
        return self.node("Relu", x) if kind == "relu" else x


def attention_model(rng: Any) -> Model:
    """One or two blocks of self or cross attention."""
    net = Block(rng)
    x = net.input(1, net.rows, net.width)
    if net.chance(0.3):
        x = net.node("Add", x, net.normal(1, net.rows, net.width, deviation=0.3))
    y = net.input(1, net.number(2, 8), net.width) if net.chance(0.2) else x
    made = net.block(x, y)
    made = net.block(made, made) if net.chance(0.3) else made
    return net.model(net.end(made), opset=23, **net.domains)
