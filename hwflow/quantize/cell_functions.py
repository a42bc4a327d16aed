"""The functions inside of recurrent nodes: of gates, of the candidate, and of an LSTM's cell state."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.onnx.model import Node
from hwflow.quantize.graphs import apply, attribute

Floats = npt.NDArray[np.float64]

#: Beyond this a sigmoid or tanh is 0, 1 or -1, but for 3e-4.
_FLAT = 8.0

#: Functions by their names in small letters: the operator of the same meaning, its parameters, and the largest
#: magnitude of its values; infinite where there is none.
_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...], float]] = {
    "sigmoid": ("Sigmoid", (), 1.0),
    "tanh": ("Tanh", (), 1.0),
    "hardsigmoid": ("HardSigmoid", ("alpha", "beta"), 1.0),
    "softsign": ("Softsign", (), 1.0),
    "relu": ("Relu", (), math.inf),
    "leakyrelu": ("LeakyRelu", ("alpha",), math.inf),
    "elu": ("Elu", ("alpha",), math.inf),
    "thresholdedrelu": ("ThresholdedRelu", ("alpha",), math.inf),
    "softplus": ("Softplus", (), math.inf),
}
_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}

#: Values of a function whose largest is taken for that of a range.
_GRID = 4097


@dataclass(frozen=True)
class Function:
    """A function of reals, limited to -clip .. clip first; `most` as of `_FUNCTIONS`."""

    node: Node
    most: float
    clip: float

    def __call__(self, x: npt.NDArray[np.floating[Any]]) -> Floats:
        limited = np.clip(x, -self.clip, self.clip).astype(np.float32)
        return np.asarray(apply(self.node, {"": 21}, {"x": limited}), np.float64)

    @property
    def is_gate(self) -> bool:
        """Whether its values are 0 to 1."""
        return self.node.op_type in ("Sigmoid", "HardSigmoid")

    @property
    def bound(self) -> float:
        """The largest magnitude of its values; infinite where there is none."""
        return min(self.most, self.largest(self.clip)) if math.isfinite(self.clip) else self.most

    def largest(self, end: float) -> float:
        """The largest magnitude of its values from -end to end."""
        return float(np.abs(self(np.linspace(-end, end, _GRID))).max())

    @property
    def flat(self) -> float:
        """Where it has one value on either side from there on, but for 3e-4; infinite where it has not."""
        end = math.inf
        if self.node.op_type in ("Sigmoid", "Tanh"):
            end = _FLAT
        elif self.node.op_type == "HardSigmoid":
            alpha, beta = (abs(float(attribute(self.node, key, 0.0))) for key in ("alpha", "beta"))
            end = (1 + beta) / alpha if alpha > 0 else 0.0
        return min(end, self.clip)

    @property
    def bends(self) -> tuple[float, ...]:
        """Between these it only rises, or only falls."""
        if self.node.op_type == "ThresholdedRelu":
            threshold = float(attribute(self.node, "alpha", 1.0))
            return threshold, float(np.nextafter(np.float32(threshold), np.float32(math.inf))), 0.0
        return (0.0,)


def directions_of(node: Node) -> int:
    return 1 + (attribute(node, "direction", "forward") == "bidirectional")


def functions_of(node: Node, direction: int) -> tuple[Function, ...]:
    """The functions of one direction: of the gates (not of an RNN), of the candidate, and of an LSTM's cell.

    The numbers of activation_alpha and activation_beta go in order to those functions that have such a parameter.
    """
    defaults, directions = _DEFAULTS[node.op_type], directions_of(node)
    given = cast("tuple[str, ...]", node.attributes.get("activations", ()))
    names = [str(name).lower() for name in given] or list(defaults) * directions
    if len(names) == len(defaults):
        names = names * directions
    alphas, betas = ([float(v) for v in cast("tuple[float, ...]", node.attributes.get(key, ()))]
                     for key in ("activation_alpha", "activation_beta"))  # fmt: skip
    clip = float(attribute(node, "clip", 0.0))
    clip = clip if clip > 0 else math.inf
    made = [_function(name, alphas, betas, clip) for name in names[: len(defaults) * directions]]
    own = made[direction * len(defaults) : (direction + 1) * len(defaults)]
    if node.op_type == "LSTM":  # what is written of the cell is not limited
        own[2] = Function(own[2].node, own[2].most, math.inf)
    return tuple(own)


def _function(name: str, alphas: list[float], betas: list[float], clip: float) -> Function:
    """The function called `name`, which takes its parameters from the front of these lists."""
    if name not in _FUNCTIONS:
        raise Refusal(f"its function '{name}' has no hardware", f"take one of {', '.join(sorted(_FUNCTIONS))}")
    operator, parameters, most = _FUNCTIONS[name]
    defaults = {"HardSigmoid": {"alpha": 0.2, "beta": 0.5}}.get(operator, {})
    values = {**defaults, **{
        key: left.pop(0) for key, left in (("alpha", alphas), ("beta", betas)) if key in parameters and left
    }}  # fmt: skip
    for key, value in values.items():
        if not math.isfinite(value):
            raise Refusal(f"the {key} of its function '{name}' must be finite, not {value}", "train the model again")
    return Function(Node(operator, ("x",), ("y",), dict(values), operator), most, clip)
