"""What stands in front of the first layer and behind the last, on the host, in the form of any operator set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tests.opsets import layers, moves, numbers
from tests.opsets.growing import Array, Growing, T

ML = "ai.onnx.ml"


def before(net: Growing, t: T) -> T:
    """What exporters leave in front of the first layer: normalization of inputs, a cut, another layout."""
    kinds = ["affine", "slice", "identity", "pad"] if t.rank > 2 else ["affine", "scaler", "imputer", "slice"]
    kinds += ["last"] if t.rank > 2 and t.shape[1] <= 4 else []
    kind = net.pick(*kinds)
    if kind == "affine":
        for op in net.pick(("Sub", "Div"), ("Mul", "Add"), ("Add",)):
            t = layers.with_constant(net, t, op, anywhere=net.chance(0.3))
        return t
    if kind == "slice":
        return moves.sliced(net, t)
    if kind == "pad":
        return moves.pad(net, t)
    if kind == "last":  # channels last for a function of elements, and back
        order = (0, *range(2, t.rank), 1)
        y = moves.transposed(net, t, order)
        y = layers.with_constant(net, y, "Mul", anywhere=True)
        return moves.transposed(net, y, tuple(int(k) for k in np.argsort(order)))
    if kind == "identity":
        return moves.dropout(net, t) if net.chance(0.5) else moves.identity(net, t)
    net.domains[ML] = net.number(1, 4)
    n = t.shape[1]
    if kind == "imputer":
        return net.node("Imputer", lambda x: x, t, domain=ML, imputed_value_floats=(0.5,),
                        replaced_value_float=float("nan"))  # fmt: skip
    offset, scale = net.normal(n, deviation=0.4), net.factors((n,))
    return net.node("Scaler", lambda x: (x - offset.astype(float)) * scale, t, domain=ML,
                    offset=tuple(float(k) for k in offset), scale=tuple(float(k) for k in scale))  # fmt: skip


def ending(net: Growing, t: T) -> tuple[T, ...]:
    """One node or a few behind the last layer; what gives indices or one-hot rows is marked."""
    kinds = ["none", "none", "softmax", "softmax", "rank", "move", "lp", "reduce", "power", "functions", "cast"]
    kinds += ["lrn", "instance", "training", "linear", "flatten", "squeeze"] if t.rank == 4 else []
    kinds += ["normalizer", "features", "unsqueeze"] if t.rank == 2 else []
    if net.exact:
        kinds = ["none", "none", "rank", "move", "hardmax"]
    kind = net.pick(*kinds)
    single = {
        "softmax": softmax, "hardmax": partial(softmax, op="Hardmax"), "lp": lp_normalized, "reduce": reduced,
        "power": power, "lrn": lrn, "instance": instance_norm, "normalizer": normalizer, "features": features,
        "training": partial(layers.batch_norm, training=True), "functions": functions, "cast": cast,
        "move": lambda net, t: net.pick(moves.gather, moves.tiled, moves.sliced, moves.transposed)(net, t),
        "flatten": lambda net, t: moves.flatten(net, t, net.pick(0, 2, 3)),
        "squeeze": moves.squeezed,
        "unsqueeze": lambda net, t: moves.unsqueezed(net, t, net.pick((2,), (0, 3), (1,))),
    }  # fmt: skip
    if kind == "none":
        return (t,)
    if kind == "linear":
        return (moves.resized(net, t, linear=True),)
    if kind == "rank":
        return ranked(net, t)
    return (single[kind](net, t),)


def softmax(net: Growing, t: T, op: str = "") -> T:
    """The axes from `axis` (1) on are one before 13; from then on one axis (-1)."""
    functions = {"Softmax": numbers.softmax, "LogSoftmax": numbers.log_softmax, "Hardmax": numbers.hardmax}
    op = op or net.pick("Softmax", "Softmax", "LogSoftmax", "Hardmax")
    if t.rank == 4 and net.chance(0.3):  # rank 5
        t = moves.unsqueezed(net, t, (net.number(1, 4),))
    old = net.opset < 13
    axis = net.number(1 if old else 0, t.rank - 1)
    stated = {"axis": moves.axis_of(net, axis, t.rank)}
    if net.chance(0.4):
        axis, stated = (1, {}) if old else (t.rank - 1, {})
    meaning = partial(numbers.coerced, functions[op]) if old else functions[op]
    return net.node(op, lambda x: meaning(x, axis), t, chooses=op == "Hardmax", **stated)


def ranked(net: Growing, t: T) -> tuple[T, ...]:
    """ArgMax and ArgMin; TopK with k as an attribute (before 10), or as an input, with `largest` from 11 on."""
    op = net.pick("ArgMax", "ArgMin", "TopK", "TopK")
    axis = net.number(1, t.rank - 1)
    given = moves.axis_of(net, axis, t.rank)
    if op != "TopK":
        keep = net.pick(0, 1)
        stated: dict[str, Any] = {} if keep and net.chance(0.5) else {"keepdims": keep}
        if net.opset >= 12 and net.chance(0.3):
            stated["select_last_index"] = 0
        choose = np.argmax if op == "ArgMax" else np.argmin
        return (net.node(op, lambda x: choose(x, axis, keepdims=bool(keep)), t, axis=given, chooses=True,
                         along=axis, **stated),)
    k, largest = net.number(1, t.shape[axis]), net.opset < 11 or net.chance(0.6)
    stated = {} if axis == t.rank - 1 and net.chance(0.4) else {"axis": given}
    meaning = lambda x, *_: numbers.top(x, k, axis, largest)  # noqa: E731
    if net.opset < 10:
        return net.several("TopK", meaning, t, outputs=2, chooses=True, along=axis, k=k, **stated)
    if net.opset >= 11 and (not largest or net.chance(0.5)):
        stated.update(largest=int(largest), sorted=1)
    return net.several("TopK", meaning, t, np.array([k], np.int64), outputs=2, chooses=True, along=axis, **stated)


def lp_normalized(net: Growing, t: T) -> T:
    axis, p = net.number(1, t.rank - 1), net.pick(1, 2)
    stated: dict[str, Any] = {**({} if axis == t.rank - 1 else {"axis": axis}), **({} if p == 2 else {"p": 1})}
    y = layers.with_constant(net, t, "Add")
    return net.node("LpNormalization", lambda x: numbers.lp_normalized(x, axis, p), y, **stated)


_REDUCE: dict[str, Callable[..., Array]] = {
    "ReduceMean": np.mean, "ReduceSum": np.sum, "ReduceMax": np.max, "ReduceMin": np.min,
    "ReduceL1": lambda x, **rest: np.abs(x).sum(**rest), "ReduceSumSquare": lambda x, **rest: (x * x).sum(**rest),
}  # fmt: skip


def reduced(net: Growing, t: T) -> T:
    """Axes are inputs of ReduceSum from 13 on, of the others from 18 on; none are all."""
    op = net.pick(*_REDUCE)
    axes = tuple(sorted(set(net.rng.integers(1, t.rank, net.number(1, t.rank - 1)).tolist())))
    given: tuple[int, ...] | None = tuple(moves.axis_of(net, k, t.rank) for k in axes)
    if net.chance(0.2):
        axes, given = tuple(range(t.rank)), None
    keep = net.pick(0, 1) if given else 1
    meaning = lambda x, *_: _REDUCE[op](x, axis=axes, keepdims=bool(keep))  # noqa: E731
    stated: dict[str, Any] = {} if keep and net.chance(0.5) else {"keepdims": keep}
    if net.opset >= (13 if op == "ReduceSum" else 18):
        return net.node(op, meaning, t, None if given is None else np.array(given, np.int64), **stated)
    return net.node(op, meaning, t, **({} if given is None else {"axes": given}), **stated)


def power(net: Growing, t: T) -> T:
    if net.opset < 7:
        shape, axis = net.pick(((), None), ((1,), None), ((t.channels,), 1))
        stated = {"broadcast": 1, **({} if axis is None else {"axis": axis})}
        value = np.full(shape, 2, np.float32)
        return net.node("Pow", lambda x, p: np.power(x, numbers.placed(p, x.ndim, axis)), t, value, **stated)
    kind = net.pick(np.float32, *([np.int64] if net.opset >= 12 else []))
    return net.node("Pow", np.power, t, np.array(net.pick(2, 3), kind))


def functions(net: Growing, t: T) -> T:
    for _ in range(net.number(1, 2)):
        t = net.pick(layers.unary, layers.clip, layers.prelu, partial(layers.with_constant, anywhere=True))(net, t)
    if net.chance(0.3):
        op = net.pick("Sqrt", "Log", "Exp", "Reciprocal")
        if op != "Exp":
            t = layers.with_constant(net, net.node("Abs", np.abs, t), "Add")
            t = net.node("Max", np.maximum, t, np.full(t.shape, 0.5, np.float32))
        else:
            t = net.node("Min", np.minimum, t, np.full(t.shape, 2, np.float32))
        meaning = {"Sqrt": np.sqrt, "Log": np.log, "Exp": np.exp, "Reciprocal": np.reciprocal}[op]
        t = net.node(op, meaning, t, **net.consumed())
    return t


def cast(net: Growing, t: T) -> T:
    """To float64 and back; the type is a text before operator set 6."""
    old = net.opset < 6
    y = net.node("Cast", lambda x: x, t, to="DOUBLE" if old else 11)
    return net.node("Cast", lambda x: x, y, to="FLOAT" if old else 1)


def lrn(net: Growing, t: T) -> T:
    size = net.pick(1, 3, 5)
    alpha, beta, bias = float(np.float32(net.pick(1e-4, 0.5))), net.pick(0.75, 0.5), float(net.pick(1, 2))
    stated = {"alpha": alpha, "beta": beta, "bias": bias, "size": size}
    return net.node("LRN", lambda x: numbers.lrn(x, size, alpha, beta, bias), t, **stated)


def instance_norm(net: Growing, t: T) -> T:
    eps = net.pick(1e-5, 1e-2)
    c = t.channels
    return net.node("InstanceNormalization", lambda x, s, b: numbers.instance_norm(x, s, b, eps), t,
                    net.factors((c,)), net.normal(c), epsilon=eps, **net.consumed())  # fmt: skip


def normalizer(net: Growing, t: T) -> T:
    net.domains[ML] = net.domains.get(ML, net.number(1, 4))
    norm = net.pick("MAX", "L1", "L2")
    y = layers.with_constant(net, net.node("Abs", np.abs, t), "Add")  # the text and runtimes differ below 0
    y = net.node("Sqrt", np.sqrt, net.node("Max", np.maximum, y, np.full(t.shape, 0.25, np.float32)))

    def meaning(x: Array) -> Array:
        if norm == "L2":
            return x / np.sqrt((x * x).sum(axis=1, keepdims=True))
        return x / (x.max(axis=1, keepdims=True) if norm == "MAX" else x.sum(axis=1, keepdims=True))

    return net.node("Normalizer", meaning, y, domain=ML, norm=norm)


def features(net: Growing, t: T) -> T:
    net.domains[ML] = net.domains.get(ML, net.number(1, 4))
    order = net.rng.integers(0, t.shape[1], net.number(1, 4))
    return net.node("ArrayFeatureExtractor", lambda x, i: x[:, i], t, order, domain=ML)
