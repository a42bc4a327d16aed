"""What ONNX operators mean, in numpy and float64: written from the text of the operators, nothing shared with hwflow.

Tensors are as in the model, [1, C, ...]; constants come as arrays.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np

Array = np.ndarray
Sizes = Sequence[int]


def same_pads(sizes: Sizes, kernel: Sizes, strides: Sizes, dilations: Sizes, upper: bool) -> tuple[int, ...]:
    """The pads of SAME_UPPER (the odd one at the end) or SAME_LOWER: outputs are ceil(size / stride)."""
    total = [max((-(-n // s) - 1) * s + d * (k - 1) + 1 - n, 0)
             for n, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)]  # fmt: skip
    small, large = [p // 2 for p in total], [p - p // 2 for p in total]
    return (*small, *large) if upper else (*large, *small)


def windows(x: Array, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes, fill: float, ceil: bool = False,
            ) -> Array:  # fmt: skip
    """All windows of `x` [n, C, *sizes]: [n, C, *outputs, *kernel].  `ceil`: also those that reach over the end, but
    none that starts in the padding behind it."""
    rank = len(kernel)
    counts = []
    for k in range(rank):
        n, reach = x.shape[2 + k], dilations[k] * (kernel[k] - 1) + 1
        over = n + pads[k] + pads[k + rank] - reach
        count = (-(-over // strides[k]) if ceil else over // strides[k]) + 1
        if ceil and (count - 1) * strides[k] >= n + pads[k]:
            count -= 1
        counts.append(count)
    made = np.full((*x.shape[:2], *counts, *kernel), fill)
    for place in itertools.product(*(range(count) for count in counts)):
        for tap in itertools.product(*(range(k) for k in kernel)):
            at = tuple(p * s + t * d - pads[k] for k, (p, s, t, d) in
                       enumerate(zip(place, strides, tap, dilations, strict=True)))  # fmt: skip
            if all(0 <= a < n for a, n in zip(at, x.shape[2:], strict=True)):
                made[(slice(None), slice(None), *place, *tap)] = x[(slice(None), slice(None), *at)]
    return made


def conv(x: Array, w: Array, b: Array | None, strides: Sizes, dilations: Sizes, pads: Sizes, group: int) -> Array:
    found = windows(x, w.shape[2:], strides, dilations, pads, 0.0)
    n, c, rank = *x.shape[:2], w.ndim - 2
    found = found.reshape(n, group, c // group, *found.shape[2:])
    parts = w.reshape(group, w.shape[0] // group, *w.shape[1:])
    outputs = found.shape[3:3 + rank]
    flat = found.reshape(n, group, c // group, int(np.prod(outputs)), -1)
    made = np.einsum("ngcpt,goct->ngop", flat, parts.reshape(*parts.shape[:3], -1)).reshape(n, w.shape[0], *outputs)
    return made if b is None else made + b.reshape(-1, *(1,) * rank)


def conv_transpose(
    x: Array, w: Array, b: Array | None, strides: Sizes, dilations: Sizes, pads: Sizes, group: int, extra: Sizes
) -> Array:
    """Each element spreads the kernel `w` [C, outputs / group, *kernel] over the result."""
    rank, kernel = w.ndim - 2, w.shape[2:]
    full = [(n - 1) * s + d * (k - 1) + 1 + e
            for n, s, d, k, e in zip(x.shape[2:], strides, dilations, kernel, extra, strict=True)]  # fmt: skip
    each, cin = w.shape[1], x.shape[1] // group
    made = np.zeros((x.shape[0], each * group, *full))
    for at in itertools.product(*(range(n) for n in x.shape[2:])):
        for tap in itertools.product(*(range(k) for k in kernel)):
            to = tuple(a * s + t * d for a, s, t, d in zip(at, strides, tap, dilations, strict=True))
            for g in range(group):
                part = x[(slice(None), slice(g * cin, (g + 1) * cin), *at)]
                made[(slice(None), slice(g * each, (g + 1) * each), *to)] += (
                    part @ w[(slice(g * cin, (g + 1) * cin), slice(None), *tap)])
    cut = tuple(slice(pads[k], full[k] - pads[k + rank]) for k in range(rank))
    made = made[(slice(None), slice(None), *cut)]
    return made if b is None else made + b.reshape(-1, *(1,) * rank)


def max_pool(x: Array, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes, ceil: bool) -> Array:
    found = windows(x, kernel, strides, dilations, pads, -np.inf, ceil)
    return found.reshape(*found.shape[:-len(kernel)], -1).max(axis=-1)


def average_pool(
    x: Array, kernel: Sizes, strides: Sizes, dilations: Sizes, pads: Sizes, ceil: bool, include: bool
) -> Array:
    """`include`: elements of the padding count, those behind it, which ceil reaches, do not."""
    rank = len(kernel)
    sums = windows(x, kernel, strides, dilations, pads, 0.0, ceil)
    ones = np.ones(x.shape)
    if include:
        ones = np.pad(ones, [(0, 0), (0, 0), *((pads[k], pads[k + rank]) for k in range(rank))], constant_values=1.0)
        counts = _over(ones, sums.shape[2:2 + rank], kernel, strides, dilations)
    else:
        counts = windows(ones, kernel, strides, dilations, pads, 0.0, ceil)
    flat = (*sums.shape[:2 + rank], -1)
    return sums.reshape(flat).sum(axis=-1) / counts.reshape(flat).sum(axis=-1)


def _over(ones: Array, outputs: Sizes, kernel: Sizes, strides: Sizes, dilations: Sizes) -> Array:
    """Windows over what is padded already, 0 behind its end."""
    ends = [max((o - 1) * s + d * (k - 1) + 1 - n, 0)
            for o, s, d, k, n in zip(outputs, strides, dilations, kernel, ones.shape[2:], strict=True)]  # fmt: skip
    longer = np.pad(ones, [(0, 0), (0, 0), *((0, e) for e in ends)])
    found = windows(longer, kernel, strides, dilations, (0,) * 2 * len(kernel), 0.0)
    return found[(slice(None), slice(None), *(slice(0, o) for o in outputs))]


def placed(b: Array, rank: int, axis: int | None) -> Array:
    """`b` as operator sets before 7 broadcast it: its axes are those from `axis` on, or the last ones."""
    if axis is None:
        return b.reshape((1,) * (rank - b.ndim) + b.shape) if b.size > 1 else b.reshape(())
    return b.reshape(b.shape + (1,) * (rank - axis - b.ndim))


def batch_norm(x: Array, scale: Array, bias: Array, mean: Array, var: Array, eps: float, training: bool = False,
               spatial: bool = True) -> Array:  # fmt: skip
    """`spatial`: constants [C], else [C, ...]; `training`: mean and variance are those of `x` itself."""
    if spatial:
        shape = (1, -1, *(1,) * (x.ndim - 2))
        scale, bias, mean, var = (value.reshape(shape) for value in (scale, bias, mean, var))
    if training:
        axes = (0, *range(2, x.ndim)) if spatial else (0,)
        mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(var + np.float64(np.float32(eps))) * scale + bias


def instance_norm(x: Array, scale: Array, bias: Array, eps: float) -> Array:
    axes, shape = tuple(range(2, x.ndim)), (1, -1, *(1,) * (x.ndim - 2))
    mean, var = x.mean(axis=axes, keepdims=True), x.var(axis=axes, keepdims=True)
    return (x - mean) / np.sqrt(var + np.float64(np.float32(eps))) * scale.reshape(shape) + bias.reshape(shape)


def lrn(x: Array, size: int, alpha: float, beta: float, bias: float) -> Array:
    """Local response normalization across channels."""
    squares = np.zeros_like(x)
    for c in range(x.shape[1]):
        low, high = max(0, c - (size - 1) // 2), min(x.shape[1] - 1, c + math.ceil((size - 1) / 2))
        squares[:, c] = (x[:, low:high + 1] ** 2).sum(axis=1)
    return x / (bias + alpha / size * squares) ** beta


def lp_normalized(x: Array, axis: int, p: int) -> Array:
    norm = np.abs(x).sum(axis=axis, keepdims=True) if p == 1 else np.sqrt((x * x).sum(axis=axis, keepdims=True))
    return x / norm


def softmax(x: Array, axis: int) -> Array:
    e = np.exp(x - x.max(axis=axis, keepdims=True))
    return e / e.sum(axis=axis, keepdims=True)


def log_softmax(x: Array, axis: int) -> Array:
    y = x - x.max(axis=axis, keepdims=True)
    return y - np.log(np.exp(y).sum(axis=axis, keepdims=True))


def hardmax(x: Array, axis: int) -> Array:
    made = np.zeros_like(x)
    np.put_along_axis(made, np.expand_dims(x.argmax(axis=axis), axis), 1.0, axis)
    return made


def coerced(function: Callable[[Array, int], Array], x: Array, axis: int) -> Array:
    """Before operator set 13: the axes from `axis` on are one."""
    axis %= x.ndim
    return function(x.reshape(int(np.prod(x.shape[:axis])), -1), 1).reshape(x.shape)


def top(x: Array, k: int, axis: int, largest: bool = True) -> tuple[Array, Array]:
    """The `k` best along `axis`, the best first, and where they are; of equal ones the first."""
    order = np.argsort(-x if largest else x, axis=axis, kind="stable").take(range(k), axis)
    return np.take_along_axis(x, order, axis), order


def padded(x: Array, pads: Sizes, mode: str, value: float) -> Array:
    """`pads` [2 * rank]: how many in front of each axis, then behind each; negative ones crop."""
    rank = x.ndim
    widths = [(max(pads[k], 0), max(pads[k + rank], 0)) for k in range(rank)]
    made = np.pad(x, widths, mode=mode, **({"constant_values": value} if mode == "constant" else {}))
    cut = tuple(slice(max(-pads[k], 0), made.shape[k] - max(-pads[k + rank], 0)) for k in range(rank))
    return made[cut]


def nearest(x: Array, scales: Sequence[float]) -> Array:
    """Element y of the result is element floor(y / scale)."""
    for axis, scale in enumerate(scales):
        places = np.floor(np.arange(int(x.shape[axis] * scale)) / scale).astype(int)
        x = x.take(places.clip(0, x.shape[axis] - 1), axis)
    return x


def linear_upsampled(x: Array, scales: Sequence[float]) -> Array:
    """Between the elements around y / scale; the last one goes on for ever."""
    for axis, scale in enumerate(scales):
        if scale == 1:
            continue
        places = np.arange(int(x.shape[axis] * scale)) / scale
        low = np.floor(places).astype(int)
        share = (places - low).reshape([-1 if k == axis else 1 for k in range(x.ndim)])
        last = x.shape[axis] - 1
        x = x.take(low.clip(0, last), axis) * (1 - share) + x.take((low + 1).clip(0, last), axis) * share
    return x


def along(x: Array, axis: int, pick: Callable[[Array], Array]) -> Array:
    """`pick` of the positions along an axis."""
    return x.take(pick(np.arange(x.shape[axis])), axis)


_erf = np.vectorize(math.erf, otypes=[np.float64])

#: Operator: since which operator set, its meaning with float attributes, and these attributes as random ranges.
UNARY: dict[str, tuple[int, Callable[..., Array], dict[str, tuple[float, float]]]] = {
    "Relu": (1, lambda x: np.maximum(x, 0), {}),
    "Sigmoid": (1, lambda x: 1 / (1 + np.exp(-x)), {}),
    "Tanh": (1, np.tanh, {}),
    "Softplus": (1, lambda x: np.log1p(np.exp(x)), {}),
    "Softsign": (1, lambda x: x / (1 + np.abs(x)), {}),
    "Abs": (1, np.abs, {}),
    "Neg": (1, np.negative, {}),
    "Elu": (1, lambda x, alpha=1.0: np.where(x < 0, alpha * (np.exp(x) - 1), x), {"alpha": (0.3, 1.5)}),
    "LeakyRelu": (1, lambda x, alpha=0.01: np.where(x < 0, alpha * x, x), {"alpha": (0.05, 0.4)}),
    "Selu": (1, lambda x, alpha=1.67326319217681884765625, gamma=1.05070102214813232421875: gamma * np.where(
        x < 0, alpha * (np.exp(x) - 1), x), {"alpha": (0.5, 2.0), "gamma": (0.5, 2.0)}),
    "HardSigmoid": (1, lambda x, alpha=0.2, beta=0.5: np.clip(alpha * x + beta, 0, 1),
                    {"alpha": (0.1, 0.4), "beta": (0.3, 0.7)}),
    "Atan": (7, np.arctan, {}),
    "Erf": (9, _erf, {}),
    "Asinh": (9, np.arcsinh, {}),
    "Celu": (12, lambda x, alpha=1.0: np.maximum(0, x) + np.minimum(0, alpha * (np.exp(x / alpha) - 1)),
             {"alpha": (0.5, 2.0)}),
    "HardSwish": (14, lambda x: x * np.clip(x / 6 + 0.5, 0, 1), {}),
    "Mish": (18, lambda x: x * np.tanh(np.log1p(np.exp(x))), {}),
    "Gelu": (20, lambda x: x * (1 + _erf(x / np.sqrt(2))) / 2, {}),
}  # fmt: skip
