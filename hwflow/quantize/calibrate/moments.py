"""What calibration data says about a layer's weights, in a few sums.

Every Conv and Gemm is y[g, o, n] = sum over k of w[g, o, k] * x[g, k, n]: g groups of o outputs, k elements of a
window, n positions in all rows.  The squared error of other weights is a quadratic form in them, so that of all the
data only mean products have to be kept.  Very wide layers are cut into blocks of k whose errors count as independent;
so arrays have the axes [g, b, o, k], with one block (b = 1) in nearly all layers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from hwflow.onnx.model import Array, Node
from hwflow.quantize.calibrate.streams import Rows, runner
from hwflow.quantize.graphs import attribute

Floats: TypeAlias = npt.NDArray[np.float64]

#: Positions read of all rows together: more make the sums hardly better, and take time.
_POSITIONS = 1 << 15

#: The widest block: its sums take 8 MiB, and the time of a step grows with its square.
_BLOCK = 1024


@dataclass(frozen=True)
class Moments:
    """Means over all positions: of the real outputs `y` [g, o], and of the inputs `x` [g, k] of integer weights.

    `xx` [g, b, k, k] is the mean of x * x, and `yx` [g, b, o, k] of y * x, both less the product of the means; None
    where only means were asked for.  `yx` is None also where there are several blocks.
    """

    y: Floats
    x: Floats
    xx: Floats | None
    yx: Floats | None

    def about(self, bias: Floats) -> Moments:
        """The same with mean products of x * x and of (y - bias) * x as they are, for a `bias` [g, o] that stays."""
        assert self.xx is not None
        x = _cut(self.x[:, None, :])
        yx = None if self.yx is None else self.yx + (self.y - bias)[:, None, :, None] * x
        return replace(self, xx=self.xx + x.swapaxes(2, 3) @ x, yx=yx)


def _groups(node: Node) -> int:
    return attribute(node, "group", 1) if node.op_type == "Conv" else 1


def blocks(weights: Array, node: Node) -> Floats:
    """Weights [cout, ...] as [g, b, o, k]; the last block ends with zeros where it is not full."""
    groups = _groups(node)
    return _cut(np.asarray(weights, np.float64).reshape(groups, len(weights) // groups, -1))


def _cut(rows: Floats) -> Floats:
    """[g, o, k] to [g, b, o, k of a block]."""
    groups, outputs, width = rows.shape
    count = max(1, -(-width // _BLOCK))
    size = -(-width // count)
    padded = np.pad(rows, ((0, 0), (0, 0), (0, count * size - width)))
    return padded.reshape(groups, outputs, count, size).transpose(0, 2, 1, 3)


def unblocked(cut: npt.NDArray[np.generic], shape: tuple[int, ...]) -> npt.NDArray[np.generic]:
    """The way back from [g, b, o, k] to weights of `shape` [cout, ...]."""
    groups, _, outputs, _ = cut.shape
    width = int(np.prod(shape)) // (groups * outputs)
    return cut.transpose(0, 2, 1, 3).reshape(groups, outputs, -1)[:, :, :width].reshape(shape)


def measure(
    node: Node, weights: Array, opsets: Mapping[str, int], inputs: Rows, outputs: Rows, products: bool
) -> Moments:
    """Moments of a Conv or Gemm with `weights` [cout, ...]; `products` says whether more than means are wanted.

    `inputs` are rows as its integer weights will see them, `outputs` the rows that its real weights make of real ones.
    """
    groups, cout = _groups(node), len(weights)
    unfold = _windows(node, weights, opsets)
    generator = np.random.default_rng(0)
    positions = sum(y.size // cout for y in outputs)
    share = _POSITIONS / max(1, positions)
    count, xs, ys, xx, yx = 0, np.zeros(()), np.zeros(()), np.zeros(()), np.zeros(())
    for row, result in zip(inputs, outputs, strict=True):
        x = unfold(row)
        y = np.moveaxis(result, -1 if node.op_type == "Gemm" else 1, 0).reshape(groups, cout // groups, -1)
        if share < 1:
            some = max(1, int(share * y.shape[2]))
            kept = np.sort(generator.choice(y.shape[2], some, replace=False))
            x, y = x[:, :, kept], y[:, :, kept]
        wide: tuple[Floats, Floats] = x.astype(np.float64), y.astype(np.float64)
        count, xs, ys = count + y.shape[2], xs + wide[0].sum(2), ys + wide[1].sum(2)
        if products:
            cut = _cut(wide[0].transpose(0, 2, 1)).transpose(0, 1, 3, 2)  # [g, b, k, n]
            xx = xx + cut @ cut.swapaxes(2, 3)
            yx = yx + wide[1][:, None] @ cut.swapaxes(2, 3) if cut.shape[1] == 1 else yx
    xs, ys = xs / count, ys / count
    if not products:
        return Moments(ys, xs, None, None)
    cut = _cut(xs[:, None, :])
    xx = xx / count - cut.swapaxes(2, 3) @ cut
    return Moments(ys, xs, xx, yx / count - ys[:, None, :, None] * cut if yx.ndim else None)


def _windows(node: Node, weights: Array, opsets: Mapping[str, int]) -> Callable[[Array], Array]:
    """From an input row to its windows [g, k, n]; of a Conv by a convolution that copies one element per channel."""
    if node.op_type == "Gemm":
        return lambda x: x.reshape(1, -1, weights.shape[1]).swapaxes(1, 2)
    groups, kernel = _groups(node), weights.shape[2:]
    channels, taps = weights.shape[1] * groups, int(np.prod(kernel))
    copies = np.tile(np.eye(taps, dtype=np.float32).reshape(taps, 1, *kernel), (channels, *[1] * (weights.ndim - 1)))
    source, name = node.inputs[:2]
    copying = Node("Conv", (source, name), ("windows",), {**node.attributes, "group": channels}, node.name)
    run = runner(copying, opsets, {name: copies})

    def windows(x: Array) -> Array:
        found = run({source: x.astype(np.float32)})["windows"]
        return np.moveaxis(found, 1, 0).reshape(groups, channels // groups * taps, -1)

    return windows
