"""Random networks whose layers have operators between them that choose, repeat, join and overwrite elements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hwflow.onnx.model import Model
from tests.strategies.drawing import ShapedWalk

#: Elements of a tensor at most.
MOST = 600


class Indexed(ShapedWalk):
    """Grows a network of tensors [1, ...] of three or four axes."""

    def axis(self, x: str) -> int:
        return self.number(1, len(self.shapes[x]) - 1)

    def signed(self, axis: int, x: str) -> int:
        return self.pick(axis, axis - len(self.shapes[x]))

    def resized(self, x: str, axis: int, size: int) -> tuple[int, ...]:
        return (*self.shapes[x][:axis], size, *self.shapes[x][axis + 1 :])

    def indices(self, size: int, *shape: int) -> np.ndarray:
        return self.rng.integers(-size if self.chance(0.3) else 0, size, shape).astype(self.pick(np.int64, np.int32))

    # Layers.

    def layer(self, x: str) -> str:
        """A product, over channels or over the last axis."""
        shape = self.shapes[x]
        if len(shape) == 4 and self.chance(0.6):
            cout, kernel = self.number(2, 5), self.pick(1, 1, 3)
            kernel = kernel if min(shape[2:]) >= kernel else 1
            weights = self.normal(cout, shape[1], kernel, kernel, deviation=(shape[1] * kernel**2) ** -0.5)
            return self.node("Conv", x, weights, shape=(1, cout, *shape[2:]), pads=(kernel // 2,) * 4)
        cout = self.number(2, 6)
        return self.node("MatMul", x, self.normal(shape[-1], cout, deviation=shape[-1] ** -0.5),
                         shape=(*shape[:-1], cout))  # fmt: skip

    def function(self, x: str) -> str:
        return self.node(self.pick("Relu", "Tanh", "Sigmoid", "LeakyRelu", "Neg", "HardSwish"), x)

    def biased(self, x: str) -> str:
        """A constant for each element, or for those along one axis."""
        kept = self.axis(x)
        shape = self.pick(self.shapes[x], tuple(n if k == kept else 1 for k, n in enumerate(self.shapes[x])))
        return self.node("Add", x, self.normal(*shape, deviation=0.5))

    # Operators that move elements.

    def gather(self, x: str) -> str:
        axis = self.axis(x)
        count = self.number(1, 5)
        shape = self.resized(x, axis, count)
        index = self.indices(self.shapes[x][axis], count)
        return self.node("Gather", x, index, axis=self.signed(axis, x), shape=shape)

    def sliced(self, x: str) -> str:
        axis = self.axis(x)
        size = self.shapes[x][axis]
        step = self.pick(1, 1, 2, -1, -2)
        start, end = (self.number(0, size // 2), self.number(size // 2 + 1, size))
        ends = (start, end) if step > 0 else (end - 1, start - 1 if start else -size - 1)
        count = len(range(size)[start:end][::step]) if step > 0 else len(range(end - 1, start - 1, step))
        return self.node("Slice", x, *(np.array([value]) for value in (*ends, axis, step)),
                         shape=self.resized(x, axis, count))  # fmt: skip

    def split(self, x: str) -> str:
        axis = self.axis(x)
        size = self.shapes[x][axis]
        if size < 2:
            return x
        first = self.number(1, size - 1)
        self.count += 1
        names = [f"part{self.count}.{k}" for k in range(2)]
        sizes = self.constant(np.array([first, size - first]))
        made = self.b.nodes("Split", x, sizes, outputs=names, name=f"split{self.count}", axis=axis)
        for name, count in zip(made, (first, size - first), strict=True):
            self.shapes[name] = self.resized(x, axis, count)
        one, two = (self.function(made[0]) if self.chance(0.5) else made[0]), made[1]
        joined = (two, one) if self.chance(0.5) else (one, two)
        return self.node("Concat", *joined, axis=axis, shape=self.shapes[x])

    def rolled(self, x: str) -> str:
        """The end in front of the beginning."""
        axis = self.axis(x)
        size = self.shapes[x][axis]
        at = self.number(0, size - 1)
        if not at:
            return x
        parts = [
            self.node("Slice", x, np.array([a]), np.array([b]), np.array([axis]), shape=self.resized(x, axis, b - a))
            for a, b in ((at, size), (0, at))
        ]
        return self.node("Concat", *parts, axis=axis, shape=self.shapes[x])

    def scattered(self, x: str) -> str:
        """Elements or rows overwritten, by constants or by other elements."""
        shape, kind = self.shapes[x], self.pick("nd", "elements")
        if kind == "nd":
            places = self.rng.permutation(shape[1])[: self.number(1, shape[1])]
            index = np.stack([0 * places, places], axis=1).astype(np.int64)
            wanted = (len(places), *shape[2:])
            updates = self.normal(*wanted) if self.chance(0.5) else self.chosen_like(x, wanted)
            return self.node("ScatterND", x, index, updates, shape=shape)
        axis = self.axis(x)
        rows = self.rng.permutation(shape[axis])[: self.number(1, shape[axis])]
        wanted = self.resized(x, axis, len(rows))
        index = np.broadcast_to(rows.reshape([-1 if k == axis else 1 for k in range(len(shape))]), wanted)
        updates = self.normal(*wanted) if self.chance(0.5) else self.chosen_like(x, wanted)
        return self.node("ScatterElements", x, np.ascontiguousarray(index), updates, axis=axis, shape=shape)

    def chosen_like(self, x: str, shape: tuple[int, ...]) -> str:
        """Elements of a function of `x`, in another shape."""
        count = int(np.prod(self.shapes[x]))
        flat = self.node("Reshape", self.function(x), np.array([count]), shape=(count,))
        return self.node("Gather", flat, self.rng.integers(0, count, shape), axis=0, shape=shape)

    def gathered_nd(self, x: str) -> str:
        shape = self.shapes[x]
        index = np.stack([np.zeros(4, np.int64), self.rng.integers(0, shape[1], 4)], axis=1)
        made = self.node("GatherND", x, index, shape=(4, *shape[2:]))
        return self.node("Reshape", made, np.array([1, 4, *shape[2:]]), shape=(1, 4, *shape[2:]))

    def gathered_elements(self, x: str) -> str:
        axis = self.axis(x)
        index = self.indices(self.shapes[x][axis], *self.resized(x, axis, self.number(1, 4)))
        return self.node("GatherElements", x, index, axis=axis, shape=index.shape)

    def expanded(self, x: str) -> str:
        axis = self.axis(x)
        one = self.node("ReduceMax", x, np.array([axis]), keepdims=1, shape=self.resized(x, axis, 1))
        wanted = self.resized(x, axis, self.number(2, 4))
        return self.node("Expand", one, np.array(wanted), shape=wanted)

    def tiled(self, x: str) -> str:
        axis = self.axis(x)
        repeats = [2 if k == axis else 1 for k in range(len(self.shapes[x]))]
        return self.node("Tile", x, np.array(repeats), shape=self.resized(x, axis, 2 * self.shapes[x][axis]))

    def chosen(self, x: str) -> str:
        """Where a constant mask, broadcast or whole, says so: another function, or a constant."""
        kept = self.axis(x)
        shape = self.pick(self.shapes[x], tuple(n if k == kept else 1 for k, n in enumerate(self.shapes[x])))
        mask = self.rng.random(shape) < 0.5
        other = self.pick(lambda: self.function(x), lambda: self.constant(np.float32(self.number(-1, 1))))()
        pair = (x, other) if self.chance(0.5) else (other, x)
        return self.node("Where", mask, *pair, shape=self.shapes[x])

    def transposed(self, x: str) -> str:
        perm = (0, *(1 + self.rng.permutation(len(self.shapes[x]) - 1)).tolist())
        return self.node("Transpose", x, perm=perm, shape=tuple(self.shapes[x][k] for k in perm))

    def reshaped(self, x: str) -> str:
        shape = self.shapes[x]
        wanted = (1, shape[1], int(np.prod(shape[2:]))) if len(shape) == 4 else (1, 1, *shape[1:])
        return self.node("Reshape", x, np.array(wanted), shape=wanted)

    def padded(self, x: str) -> str:
        axis, rank = self.axis(x), len(self.shapes[x])
        pads = np.zeros(2 * rank, np.int64)
        pads[axis], pads[rank + axis] = self.number(0, 2), self.number(0, 1)
        size = self.shapes[x][axis] + int(pads.sum())
        mode = self.pick("constant", "edge") if self.shapes[x][axis] > 2 else "constant"
        return self.node("Pad", x, pads, mode=mode, shape=self.resized(x, axis, size))

    def lower(self, x: str) -> str:
        return self.node("Trilu", x, upper=self.number(0, 1))

    def compressed(self, x: str) -> str:
        axis = self.axis(x)
        kept = self.rng.random(self.shapes[x][axis]) < 0.6
        kept[0] = True
        return self.node("Compress", x, kept, axis=axis, shape=self.resized(x, axis, int(kept.sum())))

    def stacked(self, x: str) -> str:
        axis = self.axis(x)
        other = self.pick(lambda: self.function(x), lambda: self.constant(self.normal(*self.shapes[x])))()
        return self.node("Concat", x, other, axis=axis, shape=self.resized(x, axis, 2 * self.shapes[x][axis]))

    def moved(self, x: str) -> str:
        kinds: list[Callable[[str], str]] = [
            self.gather, self.gather, self.sliced, self.sliced, self.split, self.rolled, self.scattered,
            self.scattered, self.gathered_nd, self.gathered_elements, self.expanded, self.tiled, self.chosen,
            self.chosen, self.transposed, self.reshaped, self.padded, self.lower, self.compressed, self.stacked,
        ]  # fmt: skip
        made: str = self.pick(*kinds)(x)
        return made if np.prod(self.shapes[made]) <= MOST else x


def indexing_model(rng: Any) -> Model:
    """Layers with one or two such operators between them, and sometimes functions or constants for each element."""
    net = Indexed(rng, "indexing")
    x = net.input(1, *(net.number(2, 5) for _ in range(net.number(2, 3))))
    for _ in range(net.number(1, 3)):
        x = net.layer(x)
        x = net.function(x) if net.chance(0.4) else x
        for _ in range(net.number(1, 2)):
            x = net.moved(x)
        x = net.biased(x) if net.chance(0.3) else x
        x = net.function(x) if net.chance(0.3) else x
    return net.model(net.layer(x) if net.chance(0.7) else x)
