"""Small random networks with one kind of node each, in all the forms that ONNX has for it, between two layers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from hwflow import onnx
from hwflow.onnx.model import Model
from hwflow.quantize.graphs import shape_of
from tests.quantize.exact_resize import agree
from tests.strategies.networks import Net, Style, T


def _as_made(net: Net, t: T, name: str) -> T:
    """`t` behind nodes that end in `name`, with the shape that inference finds."""
    net.b.output(name)
    model = onnx.infer(net.b.model(opset=net.opset, opsets=net.style.domains))
    net.b._outputs.pop()
    shape = shape_of(model.graph, name)
    assert shape is not None
    return replace(t, name=name, shape=shape)


def resized(net: Net, t: T) -> T:
    """A Resize in mode nearest: coordinates, roundings, sizes and scales, and windows that reach over the edge.

    Forms whose places float32 rounds to others than exact arithmetic are drawn again.
    """
    t = net.q(t)
    while (form := _resize_form(net, t)) is None:
        net.ties += 1
    inputs, attributes = form
    return _as_made(net, t, net.node("Resize", t.name, *inputs, **attributes))


def _resize_form(net: Net, t: T) -> tuple[list[Any], dict[str, Any]] | None:
    """Random inputs and attributes; None where the places are ties."""
    coordinates = ["asymmetric", "half_pixel", "pytorch_half_pixel", "align_corners"]
    coordinates += ["half_pixel_symmetric"] if net.opset >= 19 else []
    coordinates += [] if t.bipolar else ["tf_crop_and_resize"]
    mode, nearest = net.pick(*coordinates), net.pick("floor", "ceil", "round_prefer_floor", "round_prefer_ceil")
    attributes: dict[str, Any] = {"mode": "nearest", "coordinate_transformation_mode": mode, "nearest_mode": nearest}
    spatial, rank = t.shape[2:], len(t.shape)
    own = net.opset >= 18 and net.chance(0.4)
    lead = () if own else (1, t.channels)
    if own:
        attributes["axes"] = tuple(range(2, rank))
    roi: Any = ""
    regions = [(0.0, 1.0) for _ in spatial]
    if mode == "tf_crop_and_resize":
        starts = [int(net.rng.integers(-1, 2)) / 4 for _ in spatial]
        regions = [(start, start + int(net.rng.integers(2, 5)) / 4) for start in starts]
        ends = [[region[k] for region in regions] for k in range(2)]
        roi = np.array([*(0.0 for _ in lead), *ends[0], *(1.0 for _ in lead), *ends[1]], np.float32)
    if net.chance(0.5):
        sizes = [max(1, n * net.number(1, 6) // net.number(2, 4)) for n in spatial]
        exact = [Fraction(size, n) for size, n in zip(sizes, spatial, strict=True)]
        inputs = [roi, "", np.array([*lead, *sizes])]
    else:
        scales = [max(1, net.number(1, 3) * n) / n / net.pick(1, 1, 2) for n in spatial]
        scales = [scale if int(scale * n) else 1.0 for scale, n in zip(scales, spatial, strict=True)]
        exact = [Fraction(float(np.float32(scale))) for scale in scales]
        sizes = [int(np.float32(scale) * np.float32(n)) for scale, n in zip(scales, spatial, strict=True)]
        inputs = [roi, np.array([*(1 for _ in lead), *scales], np.float32)]
    axes = zip(spatial, sizes, exact, regions, strict=True)
    agreed = all(agree(mode, nearest, old, new, scale, region) for old, new, scale, region in axes)
    return (inputs, attributes) if agreed else None


def blocks(net: Net, t: T) -> T:
    """DepthToSpace and SpaceToDepth, also as the nodes that frameworks write."""
    kind = net.pick("DepthToSpace", "SpaceToDepth", "shuffle")
    block = net.pick(2, 2, 3)
    if kind == "SpaceToDepth":
        t = net.q(t)
        sizes = [n - n % block for n in t.shape[2:]]
        if min(sizes) < block:
            return blocks(net, t)
        t = replace(t, name=net.node("Slice", t.name, np.array([0, 0]), np.array(sizes), np.array([2, 3])))
        return _as_made(net, t, net.node(kind, t.name, blocksize=block))
    t = net.q(net.conv(t, net.number(1, 2) * block * block))
    c, h, w = t.shape[1:]
    if c % (block * block):
        return t
    if kind == "DepthToSpace":
        return _as_made(net, t, net.node(kind, t.name, blocksize=block, mode=net.pick("DCR", "CRD")))
    k = c // block**2
    order = net.pick((0, 1, 4, 2, 5, 3), (0, 1, 5, 2, 4, 3))
    y = net.node("Reshape", t.name, np.array([1, k, block, block, h, w]))
    y = net.node("Reshape", net.node("Transpose", y, perm=order), np.array([1, k, -1, w * block]))
    return _as_made(net, t, y)


def chosen(net: Net, t: T) -> T:
    """Slice, Split, Gather, Tile, Compress and CenterCropPad along any axis."""
    t = net.q(t)
    rank = len(t.shape)
    kind = net.pick("Slice", "Slice", "Split", "Gather", "Tile", "Compress", "CenterCropPad")
    axis = net.number(1, rank - 1)
    n = t.shape[axis]
    if kind == "CenterCropPad" and (net.opset < 18 or t.bipolar):
        kind = "Slice"
    if kind == "Slice":
        step = net.pick(1, 1, 2, -1, -2)
        low, high = sorted((net.number(0, n - 1), net.number(0, n - 1)))
        ends = (low, high + 1) if step > 0 else (high, low - 1 if low else -n - 1)
        parts = [np.array([value]) for value in (*ends, net.pick(axis, axis - rank), step)]
        return _as_made(net, t, net.node(kind, t.name, *parts))
    if kind == "Split":
        cut = net.number(1, max(1, n - 1))
        sizes = [cut, n - cut] if n > cut else [n]
        label = net.new("split")
        names = [f"{label}.{k}" for k in range(len(sizes))]
        given = [net.constant(np.array(sizes))]
        net.b.nodes("Split", t.name, *given, outputs=names, name=label, axis=axis)
        parts = [_as_made(net, t, name) for name in names]
        return _meeting(net, parts)
    if kind == "Gather":
        order = net.rng.integers(-n, n, net.number(1, n + 1))
        return _as_made(net, t, net.node(kind, t.name, order, axis=axis))
    if kind == "Compress":
        there = net.rng.random(n) < 0.7
        there[net.number(0, n - 1)] = True
        return _as_made(net, t, net.node(kind, t.name, there, axis=axis))
    if kind == "CenterCropPad":
        return _as_made(net, t, net.node(kind, t.name, np.array([max(1, n + net.number(-2, 2))]), axes=(axis,)))
    repeats = [net.pick(1, 2) if 2 * t.channels <= 12 else 1 for _ in t.shape]
    return _as_made(net, t, net.node(kind, t.name, np.array([1, *repeats[1:]])))


def _meeting(net: Net, parts: list[T]) -> T:
    """One of the parts, or a product or sum of all that have one shape, or a Concat in another order."""
    first = parts[0]
    if len(parts) == 1 or net.chance(0.3):
        return first
    if first.shape == parts[1].shape and net.chance(0.5):
        y = net.node(net.pick("Add", "Mul", "Sub"), *(part.name for part in parts))
        return net.style.activation(net, T(y, first.shape, deep=True), sums=True)
    different = [k for k in range(len(first.shape)) if first.shape[k] != parts[1].shape[k]]
    axis = different[0] if different else net.number(1, len(first.shape) - 1)
    y = net.node("Concat", *(part.name for part in reversed(parts)), axis=axis)
    return replace(_as_made(net, first, y), whole=False)


def padded(net: Net, t: T) -> T:
    """A Pad in all its modes, along any axis, and numbers that crop."""
    t = net.q(t) if net.chance(0.8) or net.exact else t
    modes = ["reflect", "edge", *(["wrap"] if net.opset >= 19 else []), *([] if t.bipolar else ["constant"] * 3)]
    mode, rank = net.pick(*modes), len(t.shape)
    if mode == "constant" and net.chance(0.3) and not t.whole:
        t = net.q(t)
    axes = [k for k in range(1, rank) if k > 1 or net.chance(0.2)]
    most = {"reflect": [n - 1 for n in t.shape], "wrap": list(t.shape)}.get(mode, [2] * rank)
    pads = [net.number(-1 if t.shape[k % rank] > 3 and net.chance(0.2) else 0, min(2, most[k % rank]))
            if k % rank in axes else 0 for k in range(2 * rank)]  # fmt: skip
    fill: list[Any] = []
    if mode == "constant" and t.whole and net.chance(0.3):
        fill = [np.float32(net.pick(0.0, t.scale if t.scale != 1 else 0.5, -0.5))]
    if net.opset >= 18 and net.chance(0.3):
        given = [k for k in range(rank) if k in axes]
        pads = [pads[k] for k in given] + [pads[k + rank] for k in given]
        y = net.node("Pad", t.name, np.array(pads), *(fill or [""]), np.array(given), mode=mode)
    else:
        y = net.node("Pad", t.name, np.array(pads), *fill, mode=mode)
    made = _as_made(net, t, y)
    return net.style.activation(net, replace(made, whole=False, positive=False), sums=True) if fill else made


def concatenated(net: Net, t: T) -> T:
    """A Concat along any axis, of what has been computed and what is as it was."""
    t, rank = net.q(t), len(t.shape)
    axis = net.pick(*range(1, rank), *range(1 - rank, 0))
    parts = [t] if t.deep and net.chance(0.4) else []
    for _ in range(2 - len(parts) + net.pick(0, 0, 1)):
        part = net.conv(t, same=True) if rank > 2 else net.dense(t, t.channels)
        if net.chance(0.3):
            part = net.monotone(part)
        parts.append(net.q(part) if net.chance(0.7) else part)
    y = net.node("Concat", *(part.name for part in parts), axis=axis)
    return _as_made(net, T("", (), deep=True), y)


def averaged(net: Net, t: T) -> T:
    """An AveragePool that counts what it reads, or also the padding, with ceil_mode and auto_pad."""
    t = net.q(t)
    if t.bipolar:
        t = net.style.activation(net, replace(t, bipolar=False, whole=False), sums=True)
    sizes = t.shape[2:]
    kernel = tuple(min(n, net.pick(1, 2) if net.exact else net.number(1, 4)) for n in sizes)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": tuple(net.number(1, k + 1) for k in kernel)}
    include = net.pick(0, 1) if not net.exact else 1
    attributes["count_include_pad"] = include
    kind = net.pick("pads", "pads", "auto", "plain")
    if kind == "pads":
        attributes["pads"] = tuple(net.number(0, k // 2) for k in (*kernel, *kernel))
    elif kind == "auto" and not net.exact:
        attributes["auto_pad"] = net.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        attributes["strides"] = tuple(map(min, attributes["strides"], kernel))  # onnxruntime refuses longer ones
    if net.chance(0.4) and "auto_pad" not in attributes and not net.exact:
        attributes["ceil_mode"] = 1  # windows that start behind the last element: ONNX disagrees with itself
        attributes["strides"] = tuple(map(min, attributes["strides"], kernel))
        if "pads" in attributes:
            attributes["pads"] = (*attributes["pads"][:len(kernel)], *(0,) * len(kernel))
    fits = all((k - 1) * 2 < n for k, n in zip(kernel, sizes, strict=True))
    if net.opset >= 19 and net.chance(0.3) and fits and "auto_pad" not in attributes:
        attributes["dilations"] = (2,) * len(kernel)
    return net.q(replace(_as_made(net, t, net.node("AveragePool", t.name, **attributes)), whole=False))


def transposed(net: Net, t: T) -> T:
    """A ConvTranspose with everything that it can say."""
    t = net.q(t)
    if t.bipolar:
        t = net.style.activation(net, replace(t, bipolar=False, whole=False), sums=True)
    c, rank = t.channels, len(t.shape) - 2
    groups = net.pick(1, 1, c)
    cout = net.number(1, 3) * groups
    kernel = tuple(net.number(1, 4) for _ in range(rank))
    strides = tuple(net.number(1, 3) for _ in kernel)
    dilations = tuple(net.pick(1, 1, 2) for _ in kernel)
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": groups}
    spans = [d * (k - 1) + 1 for d, k in zip(dilations, kernel, strict=True)]
    kind = net.pick("pads", "pads", "auto", "shape", "plain")
    if kind == "auto":
        attributes["auto_pad"] = net.pick("SAME_UPPER", "SAME_LOWER", "VALID")
        if attributes["auto_pad"] != "VALID" and any(k < s for k, s in zip(spans, strides, strict=True)):
            attributes["auto_pad"] = "VALID"
    elif kind == "shape":
        full = [(n - 1) * s + span for n, s, span in zip(t.shape[2:], strides, spans, strict=True)]
        attributes["output_shape"] = tuple(net.number(max(1, n - 2), n) for n in full)
    elif kind == "pads":
        attributes["pads"] = tuple(net.number(0, (span - 1) // 2) for span in (*spans, *spans))
        if net.chance(0.5):
            attributes["output_padding"] = tuple(net.number(0, s - 1) for s in strides)
    weights = net.gaussian((cout, c // groups, *kernel))
    flipped = weights.reshape(groups, cout // groups, c // groups, *kernel).swapaxes(1, 2)
    flipped = flipped.reshape(c, cout // groups, *kernel).copy()
    name, scales = net.style.weights(net, flipped, 1)
    each = np.tile(scales, groups) if len(scales) > 1 else scales
    bias = [net.style.bias(net, net.rng.normal(0, 0.5, cout), t, each)] if net.chance(0.7) else []
    y = net.node("ConvTranspose", t.name, name, *bias, **attributes)
    return replace(_as_made(net, t, y), whole=False, bits=32, positive=False, deep=True)


KINDS: Mapping[str, Callable[[Net, T], T]] = {
    "resize": resized, "blocks": blocks, "choice": chosen, "pad": padded, "concat": concatenated,
    "average": averaged, "transposed": transposed,
}  # fmt: skip


@dataclass(frozen=True)
class Small:
    """A small network; how often a form was drawn again; `scores`: the quantized tensor that is ranked, if any."""

    model: Model
    ties: int
    scores: str = ""


def small_network(
    kind: str, rng: Any, style: Style, exact: bool = False, ranked: bool = False
) -> Small:
    """A layer, a node of `kind` (a key of `KINDS`), and most often a layer; `ranked`: an ArgMax or TopK at the end."""
    net = Net(rng, style, exact)
    signal = net.chance(0.2) and kind != "blocks"
    sizes = (net.number(4, 9),) if signal else (net.number(3, 7), net.number(3, 7))
    shape = (1, net.number(1, 3), *sizes)
    t = T(net.b.input("input", np.float32, shape), shape)
    t = net.conv(t)
    t = net.activation(t) if net.chance(0.5) else t
    t = KINDS[kind](net, t)
    t = net.activation(t) if net.chance(0.4) else t
    if ranked:
        t = net.q(net.conv(t)) if net.chance(0.7) or t.bipolar else net.q(t)
        net.b.output(_ranking(net, t))
    else:
        if net.chance(0.7):
            t = net.dense(net.flatten(t)) if net.chance(0.4) else net.conv(t)
        net.finish(t)
    model = onnx.infer(net.b.model(opset=net.opset, opsets=style.domains))
    return Small(model, net.ties, t.name if ranked else "")


def _ranking(net: Net, t: T) -> str:
    """The best channels of `t`."""
    kind = net.pick("ArgMax", "ArgMin", "TopK")
    name = t.name
    if net.chance(0.3):
        name = net.node("Softmax", name, axis=1)
    if kind == "TopK":
        label, k = net.new("topk"), net.number(1, t.channels)
        names = [f"{label}.values", f"{label}.indices"]
        net.b.nodes(kind, name, net.constant(np.array([k])), outputs=names, name=label, axis=1,
                    largest=net.pick(0, 1), sorted=1)  # fmt: skip
        return names[1]
    return net.node(kind, name, axis=1, keepdims=net.pick(0, 1), select_last_index=net.pick(0, 1))
