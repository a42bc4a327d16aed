"""Random nodes that move elements, and random transposed convolutions, for the networks of `networks`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from tests.strategies.networks import Net, T


def moved(net: Net, t: T) -> T:
    """A quantized tensor [1, C, ...] with its elements chosen, repeated, or in other places."""
    t = net.q(t)
    rank, c = len(t.shape) - 2, t.channels
    kinds = ["crop", "channels", "grow", "shrink", "backwards", "edge"]
    kinds += ["blocks"] if rank == 2 and all(n % 2 == 0 for n in t.shape[2:]) else []
    kinds += ["pixels"] if rank == 2 and c % 4 == 0 else []
    kinds += ["turn"] if rank == 2 else []
    kinds += [] if t.bipolar else ["zeros"]
    kind = net.pick(*kinds)
    if kind == "channels":
        order = net.rng.integers(0, c, net.number(1, c + 1))
        return replace(t, name=net.node("Gather", t.name, order, axis=1), shape=(1, len(order), *t.shape[2:]))
    if kind in ("blocks", "pixels"):
        op = "SpaceToDepth" if kind == "blocks" else "DepthToSpace"
        mode = {} if kind == "blocks" else {"mode": net.pick("DCR", "CRD")}
        height, width = t.shape[2:]
        shape = (1, c * 4, height // 2, width // 2) if kind == "blocks" else (1, c // 4, height * 2, width * 2)
        return replace(t, name=net.node(op, t.name, blocksize=2, **mode), shape=shape)
    if kind == "turn":
        return replace(t, name=net.node("Transpose", t.name, perm=(0, 1, 3, 2)), shape=(1, c, *t.shape[:1:-1]))
    if kind in ("edge", "zeros"):
        pads = [net.number(0, 1) for _ in range(2 * rank)]
        y = net.node("Pad", t.name, np.array([0, 0, *pads[:rank], 0, 0, *pads[rank:]]),
                     mode="constant" if kind == "zeros" else "edge")  # fmt: skip
        return replace(t, name=y, shape=(1, c, *(n + pads[k] + pads[k + rank] for k, n in enumerate(t.shape[2:]))))
    if kind in ("grow", "shrink"):
        sizes = [n * net.number(1, 2) if kind == "grow" else max(1, n // 2) for n in t.shape[2:]]
        y = net.node("Resize", t.name, "", "", np.array([1, c, *sizes]), mode="nearest",
                     coordinate_transformation_mode="asymmetric", nearest_mode="floor")  # fmt: skip
        return replace(t, name=y, shape=(1, c, *sizes))
    axis = net.number(2, rank + 1)
    n = t.shape[axis]
    if kind == "backwards":
        y = net.node("Slice", t.name, np.array([-1]), np.array([-n - 1]), np.array([axis]), np.array([-1]))
        return replace(t, name=y)
    first = net.number(0, n - 1)
    last = net.number(first + 1, n)
    y = net.node("Slice", t.name, np.array([first]), np.array([last]), np.array([axis]))
    return replace(t, name=y, shape=tuple(last - first if k == axis else size for k, size in enumerate(t.shape)))


def transposed(net: Net, t: T) -> T:
    """A ConvTranspose with random strides and pads."""
    t = net.q(t)
    if t.bipolar:
        return t
    cout = net.number(1, 4)
    kernel = tuple(net.number(1, 3) for _ in t.shape[2:])
    strides = tuple(net.number(1, 2) for _ in kernel)
    pads = tuple(net.number(0, (k - 1) // 2) for k in (*kernel, *kernel))
    weights = net.gaussian((cout, t.channels, *kernel)).swapaxes(0, 1).copy()
    name, scales = net.style.weights(net, weights, 1)
    bias = [net.style.bias(net, net.rng.normal(0, 0.5, cout), t, scales)] if net.chance(0.7) else []
    y = net.node("ConvTranspose", t.name, name, *bias, strides=strides, pads=pads)
    rank = len(kernel)
    sizes = [(n - 1) * strides[k] + kernel[k] - pads[k] - pads[k + rank] for k, n in enumerate(t.shape[2:])]
    return replace(t, name=y, shape=(1, cout, *sizes), whole=False, bits=32, positive=False, deep=True)
