"""What the layers mean, in plain loops over Python integers: slow, and nothing shared with `hwflow.layers`."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]


def rounded(exact: Fraction, how: str) -> int:
    """`exact` to an integer; up is towards +infinity."""
    floor = exact.numerator // exact.denominator
    rest = exact - floor
    if how == "half_even":
        return round(exact)  # Python rounds a Fraction half to even
    half = Fraction(1, 2)
    return floor + {"half_up": rest >= half, "half_down": rest > half, "floor": False, "ceil": rest > 0}[how]


def clamp(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


def rescale(q, a: int, c: int) -> int:
    """Accumulator `a` of channel `c` through a Requantize or Thresholds."""
    if hasattr(q, "values"):
        return q.low + sum(1 for level in q.values[c].tolist() if level <= a)
    bias, multiplier, shift = (int(values[c]) for values in (q.bias, q.multiplier, q.shift))
    exact = Fraction((a * 2**q.fraction + bias) * multiplier, 2**shift)
    return clamp(rounded(exact, str(q.rounding)) + q.zero_point, q.low, q.high)


def taps(size: int, out: int, kernel: int, stride: int, dilation: int, pad: int) -> list[int | None]:
    """Positions that window `out` looks at along one axis; None in the padding."""
    positions = [out * stride + k * dilation - pad for k in range(kernel)]
    return [p if 0 <= p < size else None for p in positions]


def windows(x: Ints, kernel, strides, dilations, pads):
    """For one frame [h, w, c]: {(out y, out x): [pixel [c] or None, ...] in the order of the kernel}."""
    h, w, _ = x.shape
    out_h = (h + pads[0] + pads[2] - dilations[0] * (kernel[0] - 1) - 1) // strides[0] + 1
    out_w = (w + pads[1] + pads[3] - dilations[1] * (kernel[1] - 1) - 1) // strides[1] + 1
    found = {}
    for oy in range(out_h):
        for ox in range(out_w):
            rows = taps(h, oy, kernel[0], strides[0], dilations[0], pads[0])
            cols = taps(w, ox, kernel[1], strides[1], dilations[1], pads[1])
            found[oy, ox] = [None if r is None or c is None else x[r, c] for r in rows for c in cols]
    return (out_h, out_w), found


def conv(x: Ints, weights: Ints, q, strides, dilations, pads, groups: int, zero_point: int) -> Ints:
    """One frame [h, w, c] through a convolution with weights [cout, kh, kw, cin / groups]."""
    cout, kh, kw, depth = weights.shape
    size, found = windows(x, (kh, kw), strides, dilations, pads)
    y = np.zeros((*size, cout), np.int64)
    for (oy, ox), pixels in found.items():
        for o in range(cout):
            first = (o // (cout // groups)) * depth
            total = 0
            for tap, pixel in enumerate(pixels):
                for c in range(depth):
                    value = zero_point if pixel is None else int(pixel[first + c])
                    total += int(weights[o].reshape(kh * kw, depth)[tap, c]) * value
            y[oy, ox, o] = rescale(q, total, o)
    return y


def pool(x: Ints, kernel, strides, dilations, pads, combine, padding: int | None) -> Ints:
    """One frame through a pool: `combine(list of integers, channel)`; padding None leaves the pads out."""
    size, found = windows(x, kernel, strides, dilations, pads)
    y = np.zeros((*size, x.shape[2]), np.int64)
    for (oy, ox), pixels in found.items():
        for c in range(x.shape[2]):
            values = [padding if p is None else int(p[c]) for p in pixels]
            y[oy, ox, c] = combine([v for v in values if v is not None], c)
    return y


def elementwise(a: Ints, b: Ints, exact, shift: int, zero_point: int, low: int, high: int) -> Ints:
    """Two frames, of which one may have one pixel, or one pixel and one channel."""
    h, w, c = (max(sizes) for sizes in zip(a.shape, b.shape, strict=True))
    y = np.zeros((h, w, c), np.int64)
    for place in np.ndindex(h, w, c):
        one, two = (int(x[tuple(min(p, s - 1) for p, s in zip(place, x.shape, strict=True))]) for x in (a, b))
        y[place] = clamp(rounded(Fraction(exact(one, two), 2**shift), "half_even") + zero_point, low, high)
    return y


def matmul(a: Ints, b: Ints, q, za: int, zb: int, sizes: dict[str, int], interleaved: bool, order: str,
           places: bool) -> Ints:
    """The product of two frames, head by head; places of elements are counted from the letters of their orders."""
    def place(letters: str, at: dict[str, int]) -> int:
        found = 0
        for letter in letters:
            found = found * sizes[letter] + at[letter]
        return found

    first, made = ("mhk", "mhn") if interleaved else ("hmk", "hmn")
    flat_a, flat_b = a.reshape(-1).tolist(), b.reshape(-1).tolist()
    y = [0] * (sizes["h"] * sizes["m"] * sizes["n"])
    for h, m, n in np.ndindex(sizes["h"], sizes["m"], sizes["n"]):
        total = 0
        for k in range(sizes["k"]):
            at = {"h": h, "m": m, "n": n, "k": k}
            total += (flat_a[place(first, at)] - za) * (flat_b[place(order, at)] - zb)
        y[place(made, {"h": h, "m": m, "n": n})] = rescale(q, total, m * sizes["n"] + n if places else 0)
    shape = (sizes["m"], sizes["h"], sizes["n"]) if interleaved else (1, sizes["h"] * sizes["m"], sizes["n"])
    return np.array(y).reshape(shape)


def softmax(q, pixel: list[int]) -> list[int]:
    """docs/integer-functions.md, Softmax."""
    powers = [int(q.table[max(pixel) - x]) for x in pixel]
    reciprocal = q.numerator * 2**q.precision // sum(powers)
    return [clamp(round(Fraction(power * reciprocal, 2**q.shift)) + q.zero_point, q.low, q.high) for power in powers]


def normalize(q, pixel: list[int], row: int) -> list[int]:
    """docs/integer-functions.md, normalization: pixel number `row` of the frame."""
    n, p = len(pixel), q.precision
    u = [x - q.center for x in pixel]
    power, least, peak = sum(x * x for x in u), 1, 1
    if q.centred:
        power, least, peak = n * power - sum(u) ** 2, max(n - 1, 1), n - 1
        u = [n * x - sum(pixel) for x in pixel]
    power, least = 4**q.guard * power + q.epsilon, 4**q.guard * least + q.epsilon
    k = -40
    while max(power, least) >= 4 ** (k + 1) * Fraction(2) ** p:
        k += 1
    mantissa = power * Fraction(4) ** -k // 1
    root = min(math.isqrt(8**p // max(mantissa, 1)), 2**p - 1)
    margin = next(j for j in range(99) if peak * (1 + Fraction(1, 4096)) <= 4**j)
    place = p // 2 - 2 + q.guard - margin - k
    normal = [(x * Fraction(2) ** place // 1) * root // 2 ** (p - 1) for x in u]
    gamma, beta = (values[row % len(values)].tolist() for values in (q.gamma, q.beta))
    return [clamp(round(Fraction(z * gamma[j % len(gamma)], 2**q.shift) + Fraction(beta[j % len(beta)], 256))
                  + q.zero_point, q.low, q.high) for j, z in enumerate(normal)]


def trees(x: Ints, nodes: list[list[int]], roots: list[int], leaves: list[list[int]], aggregate: str) -> Ints:
    """One frame [h, w, c]; nodes are [channel, threshold, equal, child where it fails, child where it holds]."""
    y = np.zeros((*x.shape[:2], len(leaves[0])), np.int64)
    for row, column in np.ndindex(x.shape[:2]):
        votes = []
        for root in roots:
            here = root
            while here >= 0:
                channel, threshold, equal, fails, holds = nodes[here]
                value = int(x[row, column, channel])
                here = holds if (value == threshold if equal else value >= threshold) else fails
            votes.append(leaves[-1 - here])
        combine = {"sum": sum, "min": min, "max": max}[aggregate]
        y[row, column] = [combine(target) for target in zip(*votes, strict=True)]
    return y
