"""Products, pools, normalizations and functions of elements in the form of any operator set, with random attributes."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tests.opsets import numbers
from tests.opsets.growing import Array, Growing, T


def _window(net: Growing, sizes: tuple[int, ...], kernel: tuple[int, ...], dilations: tuple[int, ...], same: bool,
            ) -> tuple[dict[str, Any], tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """Attributes of a window with random strides and padding; the strides and pads that they mean."""
    rank = len(kernel)
    strides = (1,) * rank if same else tuple(net.number(1, 2) for _ in kernel)
    attributes: dict[str, Any] = {}
    if any(s > 1 for s in strides) or net.chance(0.5):
        attributes["strides"] = strides
    kind = net.pick("SAME_UPPER", "SAME_LOWER") if same else net.pick("pads", "SAME_UPPER", "SAME_LOWER", "VALID", "")
    if "SAME" in kind:
        attributes["auto_pad"] = kind
        if any(s > k for s, k in zip(strides, kernel, strict=True)):  # pads below 0, in which runtimes differ
            strides = tuple(map(min, strides, kernel))
            attributes["strides"] = strides
        return attributes, strides, numbers.same_pads(sizes, kernel, strides, dilations, kind == "SAME_UPPER")
    if kind == "VALID":
        attributes["auto_pad"] = kind
    elif kind == "pads":
        attributes["pads"] = tuple(net.number(0, k // 2) for k in (*kernel, *kernel))
    elif net.chance(0.3):
        attributes["auto_pad"] = "NOTSET"
    return attributes, strides, attributes.get("pads", (0,) * 2 * rank)


def conv(net: Growing, t: T, cout: int = 0, same: bool = False) -> T:
    t, c = quantized(net, t), t.channels
    group = net.pick(1, 1, 1, c) if not cout or cout % c == 0 else 1
    cout = cout or (c if same else group * net.number(1, 4 if group == 1 else 2))
    kernel = tuple(net.number(1, min(3, n)) for n in t.shape[2:])
    dilations = (1,) * len(kernel)
    if net.chance(0.2) and not same:
        dilations = tuple(2 if (k - 1) * 2 < n else 1 for k, n in zip(kernel, t.shape[2:], strict=True))
    attributes, strides, pads = _window(net, t.shape[2:], kernel, dilations, same)
    if any(d > 1 for d in dilations):
        if "SAME" in attributes.pop("auto_pad", ""):
            pads = (0,) * 2 * len(kernel)
        attributes["dilations"] = dilations
    if group > 1:
        attributes["group"] = group
    if net.chance(0.6):
        attributes["kernel_shape"] = kernel
    w = _weights(net, (cout, c // group, *kernel), 0)
    b = _bias(net, cout, t)
    meaning = partial(numbers.conv, strides=strides, dilations=dilations, pads=pads, group=group)
    y = net.node("Conv", lambda x, w, b=None: meaning(x, w, b), t, w, *b, **attributes)
    return replace(y, made=True)


def conv_transpose(net: Growing, t: T) -> T:
    t, c, rank = quantized(net, t), t.channels, t.rank - 2
    group = net.pick(1, 1, c)
    kernel, strides = (tuple(net.number(1, n) for _ in range(rank)) for n in (3, 2))
    attributes: dict[str, Any] = {"strides": strides, "kernel_shape": kernel, "group": group}
    extra, pads = (0,) * rank, (0,) * 2 * rank
    kind = net.pick("", "pads", "output_shape", "extra")
    if kind == "pads":
        attributes["pads"] = pads = tuple(net.number(0, (k - 1) // 2) for k in (*kernel, *kernel))
    elif kind == "extra":
        attributes["output_padding"] = extra = tuple(net.number(0, s - 1) for s in strides)
    elif kind == "output_shape":  # an odd one is cut from the start unless SAME_UPPER; before 11 the text is unclear
        cuts = [net.number(0, k - 1) for k in kernel]
        cuts = cuts if net.opset >= 11 else [cut - cut % 2 for cut in cuts]
        full = [(n - 1) * s + k for n, s, k in zip(t.shape[2:], strides, kernel, strict=True)]
        cuts = [cut if cut < n else 0 for cut, n in zip(cuts, full, strict=True)]
        attributes["output_shape"] = tuple(n - cut for n, cut in zip(full, cuts, strict=True))
        pads = (*(cut - cut // 2 for cut in cuts), *(cut // 2 for cut in cuts))
        if net.chance(0.4):
            attributes["auto_pad"] = "SAME_UPPER"
            pads = (*(cut // 2 for cut in cuts), *(cut - cut // 2 for cut in cuts))
    each = net.number(1, 3)
    meaning = partial(numbers.conv_transpose, strides=strides, dilations=(1,) * rank, pads=pads, group=group,
                      extra=extra)  # fmt: skip
    w = _weights(net, (c, each, *kernel), 1 if group == 1 else None)
    y = net.node("ConvTranspose", lambda x, w, b=None: meaning(x, w, b), t, w, *_bias(net, each * group, t),
                 **attributes)  # fmt: skip
    return replace(y, made=True)


def dense(net: Growing, t: T, cout: int = 0) -> T:
    """Gemm, whose C was broadcast only where the attribute said so before 7 and may be left out from 11 on; MatMul."""
    t, cin, cout = quantized(net, t), t.shape[1], cout or net.number(2, 6)
    if net.chance(0.4):
        y = net.node("MatMul", np.matmul, t, _weights(net, (cin, cout), 1))
        y = replace(y, made=True)
        return with_constant(net, y, "Add") if net.chance(0.5) else y
    turned = net.pick(0, 1)
    alpha = beta = 1.0
    if not net.exact and net.chance(0.4):
        alpha, beta = (float(np.float32(value)) for value in net.rng.uniform(0.5, 1.5, 2))
    shape = net.pick((1, cout), (cout,))
    attributes: dict[str, Any] = {key: value for key, value in (("transB", turned), ("alpha", alpha), ("beta", beta))
                                  if value != (0 if key == "transB" else 1.0)}  # fmt: skip
    if net.opset < 7 and (len(shape) == 1 or net.chance(0.3)):
        attributes["broadcast"] = 1
    w = _weights(net, (cout, cin) if turned else (cin, cout), 0 if turned else 1)
    b = _bias(net, cout, t, always=net.opset < 11)
    if b and isinstance(b[0], np.ndarray):
        b = [b[0].reshape(shape)]
    elif b and "broadcast" not in attributes and net.opset < 7:
        attributes["broadcast"] = 1

    def gemm(x: Array, w: Array, c: Array | None = None) -> Array:
        y = alpha * (x @ (w.T if turned else w))
        return y if c is None else y + beta * c

    return replace(net.node("Gemm", gemm, t, w, *b, **attributes), made=True)


def _weights(net: Growing, shape: tuple[int, ...], axis: int | None) -> Array | T:
    """Constants; of an exact model integers behind a DequantizeLinear, which has a scale per channel from 13 on."""
    if not net.exact:
        fan = int(np.prod(shape)) // shape[axis or 0]
        return net.normal(*shape, deviation=fan**-0.5)
    each = net.opset >= 13 and axis is not None and net.chance(0.5)
    integers = net.rng.integers(-7, 8, shape).astype(np.int8)
    scale = (2.0 ** net.rng.integers(-4, -2, shape[axis] if each else ())).astype(np.float32)
    seen = scale.reshape([-1 if k == axis else 1 for k in range(len(shape))]) if each else scale
    zero = [np.zeros(scale.shape, np.int8)] if net.chance(0.5) else []
    return net.node("DequantizeLinear", lambda q, s, z=0: q * seen.astype(np.float64), integers, scale, *zero,
                    **({"axis": axis} if each else {}))  # fmt: skip


def _bias(net: Growing, count: int, t: T, always: bool = False) -> list[Array | T]:
    if not always and net.chance(0.3):
        return []
    return [net.normal(count, deviation=0.3)]


def quantized(net: Growing, t: T) -> T:
    """Of an exact model: `t` behind QuantizeLinear and DequantizeLinear, in steps of a power of two."""
    if not net.exact or t.whole:
        return t
    dtype = np.dtype(net.pick("int8", "uint8"))
    most = float(np.abs(net.probe[t.name]).max(initial=0.25))
    scale = np.float32(2.0 ** round(np.log2(most / 64)))
    zero = np.array(net.pick(0, net.number(-5, 5)) if dtype.kind == "i" else net.pick(128, net.number(100, 140)), dtype)
    info = np.iinfo(dtype)

    def quantize(x: Array, s: Array, z: Array) -> Array:
        return np.clip(np.rint(x / s) + float(z), info.min, info.max).astype(np.int64)

    blocks = {"axis": 1} if net.opset >= 13 and net.chance(0.3) else {}  # of one scale for all it means nothing
    q = net.node("QuantizeLinear", quantize, t, np.array(scale), zero, **blocks)
    y = net.node("DequantizeLinear", lambda x, s, z: (x - float(z)) * float(s), q, np.array(scale), zero, **blocks)
    return replace(y, made=t.made, whole=True, scale=float(scale))


def batch_norm(net: Growing, t: T, training: bool = False) -> T:
    """Version 1 and 6: is_test, spatial; 7: spatial, training where it has five outputs; 14: training_mode."""
    c, v, attributes = t.channels, net.opset, dict[str, Any]()
    spatial = not (v < 9 and not net.exact and net.chance(0.15))
    shape = (c,) if spatial else t.shape[1:]
    if v < 9 and (not spatial or net.chance(0.3)):
        attributes["spatial"] = int(spatial)
    eps = 0.0 if net.exact else net.pick(1e-5, 1e-3, 0.1)
    if eps != 1e-5 or net.chance(0.3):
        attributes["epsilon"] = eps
    if net.chance(0.2):
        attributes["momentum"] = 0.8
    outputs = 1
    if v < 6:
        attributes["consumed_inputs"] = (0,) * 5
    if v < 7:
        attributes["is_test"] = int(not training)
        outputs = 5 if training and net.chance(0.6) else 1
    elif v < 14:
        outputs = 5 if training else 1
    elif training or net.chance(0.3):
        attributes["training_mode"] = int(training)
        outputs = 3 if training else 1
    offsets = [net.normal(*shape, deviation=0.4) for _ in range(2)]
    var = 4.0 ** net.rng.integers(-1, 2, shape) if net.exact else net.rng.uniform(0.3, 2, shape)
    meaning = partial(numbers.batch_norm, eps=eps, training=training, spatial=spatial)
    return net.several("BatchNormalization", lambda *values: (meaning(*values),), t, net.factors(shape), *offsets,
                       var.astype(np.float32), outputs=outputs, named=1, **attributes)[0]  # fmt: skip


_BINARY = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": np.divide}


def with_constant(net: Growing, t: T, op: str = "", anywhere: bool = False) -> T:
    """A constant for all, or for each channel; `anywhere`: of any part of the shape that broadcasting allows."""
    op = op or net.pick(*_BINARY)
    shapes: list[tuple[tuple[int, ...], int | None]]
    if net.opset < 7:
        first = net.number(1, t.rank - 1) if anywhere else 1
        last = net.number(first + 1, t.rank) if anywhere else 2
        axis: int | None = first
        if last == t.rank and net.chance(0.5):
            axis = None
        shapes = [(t.shape[first:last], axis), ((1,), None), ((), None)]
    else:
        tail = (1,) * (t.rank - 2)
        shapes = [((t.channels, *tail), None), ((1, t.channels, *tail), None), ((), None), ((1,), None)]
        if anywhere:
            shapes = [(tuple(n if net.chance(0.5) else 1 for n in t.shape[net.number(0, t.rank - 1):]), None)]
    shape, axis = shapes[net.rng.integers(len(shapes))]
    value = net.factors(shape) if op in ("Mul", "Div") else net.normal(*shape, deviation=0.4)
    if net.opset < 7:
        attributes = {"broadcast": 1, **({} if axis is None else {"axis": axis}), **net.consumed()}
        return net.node(op, lambda x, b: _BINARY[op](x, numbers.placed(b, x.ndim, axis)), t, value, **attributes)
    if op == "Sub" and net.chance(0.3):
        return net.node(op, np.subtract, value, t)
    return net.node(op, _BINARY[op], t, value)


def binary(net: Growing, a: T, b: T) -> T:
    """A sum, difference or product of two computed tensors of one shape, or of which `b` is [1, C] or [1, C, 1, 1]."""
    op = net.pick("Add", "Add", "Sub", "Mul", *(["Sum"] if a.shape == b.shape else []))
    if op == "Sum":
        return net.node(op, np.add, a, b, **net.consumed(2))
    if a.shape == b.shape:
        return net.node(op, _BINARY[op], a, b, **net.consumed(2))
    if net.opset < 7:  # [1, C] from axis 0 on
        return net.node(op, lambda x, y: _BINARY[op](x, numbers.placed(y, x.ndim, 0)), a, b, broadcast=1, axis=0)
    return net.node(op, _BINARY[op], a, b)


def extreme(net: Growing, t: T) -> T:
    """Max or Min with a constant, which has the whole shape before operator set 8."""
    op, value = net.pick("Max", "Min"), np.float32(net.pick(-0.5, 0.25))
    limit = np.full(t.shape if net.opset < 8 else net.pick((), (1,)), value)
    return net.node(op, np.maximum if op == "Max" else np.minimum, t, limit, **net.consumed(2))


def unary(net: Growing, t: T) -> T:
    exact = ("Relu", "Relu", "Neg", "Abs")
    op = net.pick(*(exact if net.exact else [k for k, (since, _, _) in numbers.UNARY.items() if since <= net.opset]))
    _, meaning, ranges = numbers.UNARY[op]
    t = quantized(net, t) if op == "Abs" else t  # which does not only rise
    stated = {key: float(np.float32(net.rng.uniform(*ends))) for key, ends in ranges.items() if net.chance(0.5)}
    if op == "Selu" and net.opset < 6:  # its defaults had fewer digits
        meaning = partial(meaning, **{"alpha": 1.6732, "gamma": 1.0507, **stated})
    elif stated:
        meaning = partial(meaning, **stated)
    old = net.consumed() if op in ("Relu", "Sigmoid", "Tanh", "Abs", "Neg", "Elu", "LeakyRelu", "Selu",
                                   "HardSigmoid") else {}  # fmt: skip
    return net.node(op, meaning, t, **stated, **old)


def clip(net: Growing, t: T) -> T:
    """min and max are attributes before 11, inputs from then on; each may be left out."""
    low, high = net.pick((0.0, 6.0), (-1.0, 1.0), (0.0, 1.0), (-0.5, None), (None, 0.75))
    limits = (-np.inf if low is None else low, np.inf if high is None else high)
    if net.opset < 11:
        stated = {key: value for key, value in (("min", low), ("max", high)) if value is not None}
        return net.node("Clip", lambda x: np.clip(x, *limits), t, **stated, **net.consumed())
    ends = [None if value is None else np.array(value, np.float32) for value in (low, high)]
    return net.node("Clip", lambda x, *_: np.clip(x, *limits), t, *ends)


def prelu(net: Growing, t: T) -> T:
    """Slopes of all channels are [C] before 7, and are broadcast as in numpy from 7 on."""
    slopes = net.factors((1,) if net.chance(0.3) else (t.channels,)) * np.float32(0.25)
    if net.opset >= 7 and slopes.size > 1:
        slopes = slopes.reshape(-1, *(1,) * (t.rank - 2))
    shape = (-1, *(1,) * (t.rank - 2))
    meaning = lambda x, s: np.where(x < 0, x * s.reshape(shape), x)  # noqa: E731
    return net.node("PRelu", meaning, t, slopes, **net.consumed())


def max_pool(net: Growing, t: T) -> T:
    t = quantized(net, t) if net.chance(0.8) else t
    kernel = tuple(net.number(1, min(3, n)) for n in t.shape[2:])
    rank = len(kernel)
    if net.chance(0.15):
        return net.node("GlobalMaxPool", lambda x: x.max(axis=tuple(range(2, x.ndim)), keepdims=True), t)
    attributes, strides, pads = _window(net, t.shape[2:], kernel, (1,) * rank, False)
    ceil = net.opset >= 10 and net.chance(0.3) and not any(pads) and "auto_pad" not in attributes
    if ceil:
        strides = tuple(map(min, strides, kernel))
        attributes.update(ceil_mode=1, strides=strides)
    if net.opset >= 8 and net.chance(0.2):
        attributes["storage_order"] = 0
    meaning = partial(numbers.max_pool, kernel=kernel, strides=strides, dilations=(1,) * rank, pads=pads, ceil=ceil)
    return net.node("MaxPool", meaning, t, kernel_shape=kernel, **attributes)


def average_pool(net: Growing, t: T) -> T:
    """Padding counts only where count_include_pad says so, which version 7 brought."""
    t = quantized(net, t)
    kernel = tuple(net.pick(*(k for k in (1, 2, 3) if k <= n and (k < 3 or not net.exact))) for n in t.shape[2:])
    rank = len(kernel)
    attributes, strides, pads = _window(net, t.shape[2:], kernel, (1,) * rank, False)
    include = net.opset >= 7 and (net.chance(0.4) or net.exact)
    if net.exact and any(pads) and not include:
        attributes.pop("pads", None)
        attributes.pop("auto_pad", None)
        pads = (0,) * 2 * rank
    if include:
        attributes["count_include_pad"] = 1
    ceil = net.opset >= 10 and net.chance(0.3) and not any(pads) and "auto_pad" not in attributes and not net.exact
    if ceil:
        strides = tuple(map(min, strides, kernel))
        attributes.update(ceil_mode=1, strides=strides)
    meaning = partial(numbers.average_pool, kernel=kernel, strides=strides, dilations=(1,) * rank, pads=pads,
                      ceil=ceil, include=include)  # fmt: skip
    return quantized(net, net.node("AveragePool", meaning, t, kernel_shape=kernel, **attributes))


def mean_of_frame(net: Growing, t: T, keep: bool) -> T:
    """GlobalAveragePool, or ReduceMean with its axes as an attribute (before 18) or an input."""
    t, axes = quantized(net, t), tuple(range(2, t.rank))
    if keep and net.chance(0.5):
        return quantized(net, net.node("GlobalAveragePool", lambda x: x.mean(axis=axes, keepdims=True), t))
    given = tuple(k - t.rank for k in axes) if net.opset >= 11 and net.chance(0.4) else axes
    stated: dict[str, Any] = {} if keep and net.chance(0.5) else {"keepdims": int(keep)}
    meaning = lambda x, *_: x.mean(axis=axes, keepdims=keep)  # noqa: E731
    if net.opset >= 18:
        return quantized(net, net.node("ReduceMean", meaning, t, np.array(given, np.int64), **stated))
    return quantized(net, net.node("ReduceMean", meaning, t, axes=given, **stated))


def joined(net: Growing, *parts: T, axis: int = 1) -> T:
    """Concat; its axis is 1 where version 1 does not say it."""
    stated: dict[str, Any] = {"axis": axis}
    if net.opset < 4 and axis == 1 and net.chance(0.6):
        stated = {}
    elif net.opset >= 11 and net.chance(0.3):
        stated = {"axis": axis - parts[0].rank}
    y = net.node("Concat", lambda *values: np.concatenate(values, axis=axis), *parts, **stated)
    return replace(y, made=all(part.made for part in parts))
