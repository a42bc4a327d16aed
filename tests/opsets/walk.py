"""Random networks of one operator set each: layers in a row, with branches, and what the host does around them."""

from __future__ import annotations

from functools import partial

import numpy as np

from tests.opsets import ends, layers, moves
from tests.opsets.growing import Growing, T

#: Operator sets 1 to `NEWEST`; those from `QDQ_SINCE` on have QuantizeLinear.
NEWEST, QDQ_SINCE = 23, 10


def network(seed: int, opset: int, exact: bool = False) -> Growing:
    """The network of this seed; `exact`: a QDQ model in numbers that float32 computes without rounding."""
    net = Growing(seed, opset, exact)
    kind = net.pick("image", "image", "image", "signal", "vector")
    if kind == "vector":
        t = net.input((1, net.number(3, 10)))
    else:
        sizes = (net.number(4, 8), net.number(4, 8)) if kind == "image" else (net.number(6, 14),)
        t = net.input((1, net.number(1, 4), *sizes))
    if net.chance(0.35) and not exact:
        t = ends.before(net, t)
    t = layers.dense(net, t) if t.rank == 2 else layers.conv(net, t)
    for _ in range(net.number(1, 4)):
        t = _block(net, t)
    if t.rank > 2 and net.chance(0.5):
        t = _to_vector(net, t)
        for _ in range(net.number(1, 2)):
            t = layers.dense(net, t)
            t = layers.unary(net, t) if net.chance(0.5) else t
    for value in ends.ending(net, layers.quantized(net, t)):
        net.output(value)
    return net


def _block(net: Growing, t: T) -> T:
    """Something behind a layer, often a layer behind that."""
    kinds = [layers.unary, layers.unary, layers.clip, layers.prelu, layers.extreme, layers.batch_norm,
             layers.with_constant, _residual, moves.dropout, moves.identity, _branches, _second_input]  # fmt: skip
    if t.rank > 2:
        kinds += [layers.max_pool, layers.average_pool, _gate, _moved, _moved, layers.conv_transpose, layers.conv,
                  layers.conv]  # fmt: skip
    else:
        kinds += [layers.dense, layers.dense]
    t = net.pick(*kinds)(net, t)
    if t.rank > 2 and (t.channels > 12 or max(t.shape[2:]) > 14):
        t = layers.conv(net, t, cout=3)
    return t


def _moved(net: Growing, t: T) -> T:
    """Elements in other places, between two layers."""
    t = layers.quantized(net, t)
    kinds = [moves.sliced, moves.shuffled, moves.gather, moves.tiled]
    if t.rank == 4:
        kinds += [moves.pad, moves.resized, moves.resized, moves.blocks, _turned, _elsewhere]
    elif net.opset >= 7:
        kinds += [moves.pad, moves.resized]
    return net.pick(*kinds)(net, t)


def _turned(net: Growing, t: T) -> T:
    """Channels last for a function of elements, and back."""
    y = layers.unary(net, moves.transposed(net, t, (0, 2, 3, 1)))
    return moves.transposed(net, y, (0, 3, 1, 2))


def _elsewhere(net: Growing, t: T) -> T:
    """A function in rank 5, or of all sizes in one."""
    y = net.pick(lambda: moves.unsqueezed(net, t, (net.number(1, 4),)),
                 lambda: moves.reshaped(net, t, (1, t.channels, t.shape[2] * t.shape[3])))()  # fmt: skip
    return moves.reshaped(net, layers.unary(net, y), t.shape)


def _residual(net: Growing, t: T) -> T:
    t = layers.quantized(net, t)
    y = layers.conv(net, t, same=True) if t.rank > 2 else layers.dense(net, t, t.channels)
    y = layers.unary(net, y) if net.chance(0.5) else y
    return layers.quantized(net, layers.binary(net, t, layers.quantized(net, y)))


def _branches(net: Growing, t: T) -> T:
    """Split and Concat, or two layers that meet in a Concat."""
    t = layers.quantized(net, t)
    if t.channels > 1 and net.chance(0.5):
        parts = moves.split(net, t)
        one = layers.conv(net, parts[1], same=True) if t.rank > 2 else layers.dense(net, parts[1])
        return layers.joined(net, layers.quantized(net, one), parts[0])
    make = partial(layers.conv, same=True) if t.rank > 2 else layers.dense
    return layers.joined(net, *(layers.quantized(net, layers.unary(net, make(net, t))) for _ in range(2)))


def _second_input(net: Growing, t: T) -> T:
    if len(net.inputs) > 1:
        return t
    t, other = layers.quantized(net, t), layers.quantized(net, net.input(t.shape))
    return layers.quantized(net, layers.joined(net, t, other) if net.chance(0.4) else layers.binary(net, t, other))


def _gate(net: Growing, t: T) -> T:
    """Squeeze and excitation; before operator set 7 as [1, C], which is broadcast from axis 0 on."""
    if net.exact:
        return t
    s = layers.mean_of_frame(net, t, keep=net.opset >= 7)
    s = layers.conv(net, s, cout=t.channels) if s.rank > 2 else layers.dense(net, s, t.channels)
    s = net.node("Sigmoid", lambda x: 1 / (1 + np.exp(-x)), s)
    if s.rank > 2 and s.shape[2:] != (1,) * (s.rank - 2):
        return t
    return layers.binary(net, t, s) if s.shape[1] == t.channels else t


def _to_vector(net: Growing, t: T) -> T:
    if net.chance(0.4) and not net.exact:
        if net.chance(0.4):
            return moves.squeezed(net, layers.mean_of_frame(net, t, keep=True)) if t.channels > 1 else (
                moves.flatten(net, t))  # fmt: skip
        return layers.mean_of_frame(net, t, keep=False)
    if net.chance(0.3):
        t = moves.transposed(net, t, (0, *range(2, t.rank), 1))
    return moves.flatten(net, t)
