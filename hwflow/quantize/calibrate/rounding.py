"""Integers for a layer's weights with the least error of what the layer computes, not of the weights themselves.

The error is e = (s * q - t) xx (s * q - t)' with integers q, scales s, and the weights t that would be best if they
could be real.  It is made small by Optimal Brain Quantization in its fixed order (Frantar et al., "GPTQ", 2022: what
one weight does wrong the next ones make up for), then by coordinate descent, which takes one weight after the other to
the integer where e is least.  Every weight becomes one of the two integers next to it, as in "Up or Down? Adaptive
Rounding for Post-Training Quantization" (Nagel et al., 2020); the search over both is exact in each step and needs no
gradients.  All arrays have the axes [g, b, o, k] of `streams`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hwflow.onnx.model import Array, Node
from hwflow.quantize.calibrate.streams import Floats, Moments, blocks, unblocked
from hwflow.quantize.calibrate.weights import WeightForm, needs_products
from hwflow.quantize.scale import SMALLEST_NORMAL
from hwflow.quantize.settings import RangeMethod, WeightSettings

#: How strongly weights are held to the real ones, as a share of the mean square of the inputs: data tells little about
#: inputs that are nearly zero or hardly differ from others.
_RIDGE = 0.03

#: Scales that are tried, as shares of the one that just covers the largest weight (of the mean of one bit).
_SHARES = np.linspace(0.3, 1.0, 15)
_SHARES_OF_MEAN = np.linspace(0.3, 1.7, 15)

#: Rounds over all weights; nearly all layers come to rest before.
_ROUNDS = 20
_ROUNDS_OF_SEARCH = 4

#: How often scale and integers are improved in turn.
_REFINEMENTS = 4


@dataclass(frozen=True)
class Objective:
    """The error of weights v is the sum over b of (v - target) gram (v - target)'; `weights` are the real ones.

    `bits` is the width, `per_channel` whether each output has a scale of its own.
    """

    weights: Floats
    target: Floats
    gram: Floats
    bits: int
    per_channel: bool

    @property
    def limit(self) -> int:
        return max(1, (1 << (self.bits - 1)) - 1)

    def error(self, values: Floats) -> Floats:
        """[g, 1, o, 1], of what shares a scale: of one output, or of all together."""
        difference = values - self.target
        return self.total((difference @ self.gram * difference).sum(axis=3, keepdims=True))

    def total(self, parts: Floats) -> Floats:
        """Sums of [g, b, o, 1] over what shares a scale, spread over [g, 1, o, 1] again."""
        outputs = parts.sum(axis=1, keepdims=True)
        return outputs if self.per_channel else np.broadcast_to(outputs.sum(), outputs.shape)


@dataclass(frozen=True)
class Solution:
    """`integers` [g, b, o, k] (as floats), `scales` [g, 1, o, 1], and the objective's error [g, 1, o, 1]."""

    integers: Floats
    scales: Floats
    error: Floats

    def better(self, other: Solution) -> Solution:
        """For each output the solution with the smaller error, of equal ones this."""
        own = self.error <= other.error
        return Solution(
            np.where(own, self.integers, other.integers),
            np.where(own, self.scales, other.scales),
            np.where(own, self.error, other.error),
        )


def objective(weights: Floats, moments: Moments, bits: int, per_channel: bool) -> Objective:
    """The error to make small for `weights` [g, b, o, k].

    The real weights are not the best ones for inputs that are integers already: `target` is, with a ridge that keeps it
    near them.
    """
    assert moments.xx is not None
    size = moments.xx.shape[3]
    ridge = _RIDGE * np.trace(moments.xx, axis1=2, axis2=3)[..., None, None] / size
    ridge = np.where(ridge > 0, ridge, 1.0)
    gram: Floats = moments.xx + ridge * np.eye(size)
    target: Floats = weights
    if moments.yx is not None:
        right = (moments.yx + ridge * weights).swapaxes(2, 3)
        target = np.asarray(np.linalg.solve(gram, right), np.float64).swapaxes(2, 3)
    return Objective(weights, target, gram, bits, per_channel)


def solved(
    node: Node, weights: Array, bias: Array, settings: WeightSettings, form: WeightForm, moments: Moments
) -> tuple[WeightForm, Array | None]:
    """Integers for the `weights` of `node` by `moments` of calibration data, and their bias where it is corrected.

    `form` has the nearest ones; resolved `settings` say which of its parts data decides.
    """
    if needs_products(settings):
        form = _by_data(node, weights, bias, settings, form, moments)
    if not settings.bias_correction:
        return form, None
    groups, outputs = moments.y.shape
    reals = np.asarray(form.reals, np.float64).reshape(groups, outputs, -1)
    return form, (moments.y - (reals @ moments.x[:, :, None])[:, :, 0]).ravel().astype(np.float32)


def _by_data(
    node: Node, weights: Array, bias: Array, settings: WeightSettings, form: WeightForm, moments: Moments
) -> WeightForm:
    """The integers with the least error of the layer's outputs; of `form`'s scales, where the user chose how to."""
    if not settings.bias_correction:
        moments = moments.about(np.asarray(bias, np.float64).reshape(moments.y.shape))
    problem = objective(blocks(weights, node), moments, settings.bits, settings.per_channel)
    scales = form.scales.astype(np.float64).reshape(len(moments.y), 1, -1, 1)
    is_adaptive = settings.rounding.adapts
    solution = (adaptive if is_adaptive else nearest)(problem, scales)
    if settings.method is RangeMethod.MSE:
        solution = searched(problem, is_adaptive).better(solution)
    integers = unblocked(solution.integers, weights.shape).astype(np.int64)
    return WeightForm(integers, solution.scales.ravel().astype(np.float32), settings.bits)


def nearest(problem: Objective, scales: Floats) -> Solution:
    """Each weight to the nearest integer, with given `scales` [g, 1, o, 1]."""
    steps = np.clip(np.rint(problem.weights / scales), -problem.limit, problem.limit)
    integers = np.where(problem.weights >= 0, 1.0, -1.0) if problem.bits == 1 else steps
    return Solution(integers, scales, problem.error(integers * scales))


def searched(problem: Objective, is_adaptive: bool) -> Solution:
    """Scales and integers together: adaptive ones, or the nearest."""
    best: Solution | None = None
    covering, shares = _covering(problem)
    for share in shares:
        solution = nearest(problem, np.maximum(share * covering, SMALLEST_NORMAL))
        solution = _descended(problem, solution, _ROUNDS_OF_SEARCH) if is_adaptive else solution
        best = solution if best is None else best.better(solution)
    assert best is not None
    if not is_adaptive:
        return best
    best = adaptive(problem, best.scales).better(best)
    for _ in range(_REFINEMENTS):
        best = best.better(adaptive(problem, _least_squares(problem, best)))
    return best


def adaptive(problem: Objective, scales: Floats) -> Solution:
    """The best integers found for given `scales` [g, 1, o, 1]; never worse than the nearest ones."""
    start = nearest(problem, scales)
    return _descended(problem, start, _ROUNDS).better(_descended(problem, _compensated(problem, scales), _ROUNDS))


def _covering(problem: Objective) -> tuple[Floats, Floats]:
    """The largest scale that makes sense, 1 where all weights are zero, and the shares of it to try."""
    sizes = np.abs(problem.weights)
    if problem.bits == 1:
        count = problem.total(np.full((*sizes.shape[:3], 1), float(sizes.shape[3])))
        return problem.total(sizes.sum(axis=3, keepdims=True)) / count, _SHARES_OF_MEAN
    largest = sizes.max(axis=(1, 3), keepdims=True)
    if not problem.per_channel:
        largest = np.broadcast_to(largest.max(), largest.shape)
    return np.where(largest > 0, largest, problem.limit) / problem.limit, _SHARES


def _choices(problem: Objective, scales: Floats) -> tuple[Floats, Floats]:
    """The two integers that each weight may become."""
    if problem.bits == 1:
        return np.full(problem.weights.shape, -1.0), np.ones(problem.weights.shape)
    steps = np.clip(problem.weights / scales, -problem.limit, problem.limit)
    return np.floor(steps), np.ceil(steps)


def _chosen(steps: Floats, low: Floats, high: Floats) -> Floats:
    """Which of both is nearer to real `steps`; `low` where it is the same."""
    return np.where(steps - low > high - steps, high, low)


def _descended(problem: Objective, start: Solution, rounds: int) -> Solution:
    """Coordinate descent from `start`; the error never grows."""
    low, high = _choices(problem, start.scales)
    integers, scales, gram = start.integers.copy(), start.scales[..., 0], problem.gram
    slope = (start.integers * start.scales - problem.target) @ gram
    curve = np.diagonal(gram, axis1=2, axis2=3)
    for _ in range(rounds):
        moved = False
        for k in range(gram.shape[3]):
            old = integers[..., k]
            new = _chosen(old - slope[..., k] / (scales * curve[:, :, None, k]), low[..., k], high[..., k])
            if (new != old).any():
                moved = True
                slope += ((new - old) * scales)[..., None] * gram[:, :, None, k, :]
                integers[..., k] = new
        if not moved:
            break
    return Solution(integers, start.scales, problem.error(integers * start.scales)).better(start)


def _compensated(problem: Objective, scales: Floats) -> Solution:
    """One weight after the other, that with the strongest input first; those behind make up for its error."""
    low, high = _choices(problem, scales)
    order = np.argsort(-np.diagonal(problem.gram, axis1=2, axis2=3), axis=2, kind="stable")
    sorted_gram = np.take_along_axis(problem.gram, order[..., None], axis=2)
    sorted_gram = np.take_along_axis(sorted_gram, order[:, :, None, :], axis=3)
    factor = np.linalg.cholesky(np.linalg.inv(sorted_gram)).swapaxes(2, 3)

    def in_order(array: Floats) -> Floats:
        return np.take_along_axis(array, np.broadcast_to(order[:, :, None, :], array.shape), axis=3)

    target, low, high = in_order(problem.target).copy(), in_order(low), in_order(high)
    integers = np.empty_like(target)
    for k in range(target.shape[3]):
        integers[..., k] = _chosen(target[..., k] / scales[..., 0], low[..., k], high[..., k])
        error = (target[..., k] - integers[..., k] * scales[..., 0]) / factor[:, :, None, k, k]
        target[..., k:] -= error[..., None] * factor[:, :, None, k, k:]
    back = np.argsort(order, axis=2)
    integers = np.take_along_axis(integers, np.broadcast_to(back[:, :, None, :], integers.shape), axis=3)
    return Solution(integers, scales, problem.error(integers * scales))


def _least_squares(problem: Objective, solution: Solution) -> Floats:
    """The scales with the smallest error for the integers of `solution`; its own where that is none."""
    products = solution.integers @ problem.gram
    dot = problem.total((products * problem.target).sum(axis=3, keepdims=True))
    square = problem.total((products * solution.integers).sum(axis=3, keepdims=True))
    good = (dot > 0) & (square > 0)
    scales = np.where(good, dot / np.where(good, square, 1.0), solution.scales)
    return np.maximum(scales, SMALLEST_NORMAL)
