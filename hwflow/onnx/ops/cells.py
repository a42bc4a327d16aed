"""The activation functions of recurrent operators: named by attribute, with parameters alpha and beta."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hwflow.onnx.ops.base import Arr, Call

Activation: TypeAlias = Callable[[Arr], Arr]


def sigmoid(x: Arr) -> Arr:
    """1 / (1 + exp(-x)), by the hyperbolic tangent, which cannot overflow."""
    half = x.dtype.type(0.5)
    return np.asarray(np.tanh(x * half) * half + half)


def _softplus(x: Arr) -> Arr:
    return np.asarray(np.logaddexp(x, x.dtype.type(0)))


@dataclass(frozen=True)
class _Function:
    """`compute(x, alpha, beta)`; a parameter whose default is None is not there."""

    compute: Callable[[Arr, float, float], Arr]
    alpha: float | None = None
    beta: float | None = None


#: The defaults are those of the operators of the same name, and for Affine and ScaledTanh neutral ones.
_FUNCTIONS = {
    "relu": _Function(lambda x, _a, _b: np.maximum(x, x.dtype.type(0))),
    "tanh": _Function(lambda x, _a, _b: np.tanh(x)),
    "sigmoid": _Function(lambda x, _a, _b: sigmoid(x)),
    "softsign": _Function(lambda x, _a, _b: x / (1 + np.abs(x))),
    "softplus": _Function(lambda x, _a, _b: _softplus(x)),
    "affine": _Function(lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": _Function(lambda x, a, _b: np.where(x >= 0, x, x * a), 0.01),
    "thresholdedrelu": _Function(lambda x, a, _b: np.where(x >= a, x, 0), 1.0),
    "scaledtanh": _Function(lambda x, a, b: np.tanh(x * b) * a, 1.0, 1.0),
    "hardsigmoid": _Function(lambda x, a, b: np.clip(x * a + b, 0, 1), 0.2, 0.5),
    "elu": _Function(lambda x, a, _b: np.where(x >= 0, x, np.expm1(np.minimum(x, 0)) * a), 1.0),
}


def activations_of(call: Call, defaults: tuple[str, ...], directions: int) -> list[tuple[Activation, ...]]:
    """For each direction its functions.

    The numbers of 'activation_alpha' and 'activation_beta' go in order to those functions that have the parameter.
    """
    names = call.texts("activations", ()) if call.has("activations") else ()
    names = names or defaults * directions
    if len(names) == len(defaults) < len(defaults) * directions:
        names = names * directions
    unknown = [name for name in names if name.lower() not in _FUNCTIONS]
    # The default of RNN names two functions whatever the direction: those beyond the needed ones are not used.
    if unknown or len(names) < len(defaults) * directions:
        raise call.error(
            f"'activations' must be {len(defaults) * directions} names of {', '.join(sorted(_FUNCTIONS))} "
            f"(case does not matter), not {', '.join(names)}"
        )
    alphas, betas = list(call.numbers("activation_alpha", ())), list(call.numbers("activation_beta", ()))
    bound = [_bound(_FUNCTIONS[name.lower()], alphas, betas) for name in names[: len(defaults) * directions]]
    return [tuple(bound[i : i + len(defaults)]) for i in range(0, len(bound), len(defaults))]


def named_activation(call: Call, name: str, parameters: tuple[float, ...]) -> Activation:
    """One function by name, with the values of the parameters that it has, in order."""
    if name.lower() not in _FUNCTIONS:
        raise call.error(f"'activation' must be one of {', '.join(sorted(_FUNCTIONS))}, not {name!r}")
    return _bound(_FUNCTIONS[name.lower()], list(parameters[:1]), list(parameters[1:2]))


def _bound(function: _Function, alphas: list[float], betas: list[float]) -> Activation:
    alpha = 0.0 if function.alpha is None else alphas.pop(0) if alphas else function.alpha
    beta = 0.0 if function.beta is None else betas.pop(0) if betas else function.beta
    # A single float32 input keeps its type: Python numbers do not widen arrays.
    return lambda x: function.compute(x, alpha, beta)
