"""One step of training: Adagrad, Adam and Momentum for any number of tensors.

Inputs are the learning rate R, the number T of steps before, and the tensors in equal parts: the values, their
gradients, and one or two parts of what the optimizer remembers; outputs the new values and memories in the same order.

Gradient, the fourth operator of this domain, is not evaluated: it names tensors of the graph around it and needs that
graph differentiated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hwflow.onnx.ops.base import Arr, Call, Kernel, Known, Operator, ShapeRule, Table

#: Takes the call, R, T and one tensor of each part; gives its new value and memories.
Update = Callable[..., tuple[Arr, ...]]


def _adagrad(call: Call, rate: float, count: int, x: Arr, gradient: Arr, squares: Arr) -> tuple[Arr, ...]:
    """Duchi et al., JMLR 12 (2011): the rate falls with the squares of all gradients so far."""
    gradient = call.number("norm_coefficient") * x + gradient
    squares = squares + gradient * gradient
    step = rate / (1 + count * call.number("decay_factor"))
    return x - step * gradient / (np.sqrt(squares) + call.number("epsilon")), squares


def _adam(call: Call, rate: float, count: int, x: Arr, gradient: Arr, mean: Arr, squares: Arr) -> tuple[Arr, ...]:
    """Kingma and Ba, arXiv:1412.6980: running means of gradients and of their squares."""
    alpha, beta = call.number("alpha"), call.number("beta")
    gradient = call.number("norm_coefficient") * x + gradient
    mean = alpha * mean + (1 - alpha) * gradient
    squares = beta * squares + (1 - beta) * gradient * gradient
    if count > 0:
        rate = rate * np.sqrt(1 - beta**count) / (1 - alpha**count)
    new = x - rate * mean / (np.sqrt(squares) + call.number("epsilon"))
    return (1 - call.number("norm_coefficient_post")) * new, mean, squares


def _momentum(call: Call, rate: float, count: int, x: Arr, gradient: Arr, velocity: Arr) -> tuple[Arr, ...]:
    """Plain or Nesterov's: the latter looks one step ahead."""
    mode = call.text("mode")
    if mode not in ("standard", "nesterov"):
        raise call.error(f"'mode' must be standard or nesterov, not {mode!r}", "export the model again")
    alpha, beta = call.number("alpha"), call.number("beta") if count > 0 else 1.0
    gradient = call.number("norm_coefficient") * x + gradient
    velocity = alpha * velocity + beta * gradient
    return x - rate * (velocity if mode == "standard" else gradient + alpha * velocity), velocity


def _optimizer(update: Update, parts: int) -> tuple[Kernel, ShapeRule]:
    def kernel(call: Call, rate: Arr, count: Arr, *tensors: Arr) -> tuple[Arr, ...]:
        count_trained = _check(call, parts, tensors)
        if rate.size != 1 or count.size != 1:
            raise call.error(f"R and T must be one number each, not {list(rate.shape)} and {list(count.shape)}")
        step, steps = float(rate.reshape(())), int(count.reshape(()))
        results = [update(call, step, steps, *tensors[i::count_trained]) for i in range(count_trained)]
        return tuple(
            np.asarray(a).astype(x.dtype, copy=False)
            for part in zip(*results, strict=True)
            for a, x in zip(part, tensors[:count_trained], strict=True)
        )

    def shapes(call: Call, rate: Known, count: Known, *tensors: Known) -> tuple[Known, ...]:
        count_trained = _check(call, parts, tensors)
        return tuple(Known(x.dtype, x.shape) for x in (*tensors[:count_trained], *tensors[2 * count_trained :]))

    return kernel, shapes


def _check(call: Call, parts: int, tensors: tuple[Arr, ...] | tuple[Known, ...]) -> int:
    """How many tensors are trained."""
    trained = len(tensors) // parts
    shapes = [t.shape for t in tensors]
    if trained * parts != len(tensors) or not trained or shapes != shapes[:trained] * parts:
        raise call.error(
            f"the tensors must be {parts} equal parts of the same shapes, not {', '.join(str(list(s)) for s in shapes)}"
        )
    return trained


OPERATORS: Table = {
    ("ai.onnx.preview.training", "Adagrad"): (Operator(1, *_optimizer(_adagrad, 3)),),
    ("ai.onnx.preview.training", "Adam"): (Operator(1, *_optimizer(_adam, 4)),),
    ("ai.onnx.preview.training", "Momentum"): (Operator(1, *_optimizer(_momentum, 3)),),
}
