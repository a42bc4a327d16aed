"""Ranges of the values that the inside of recurrent layers takes on calibration data: sums in front of gates, cells,
hidden states.

They are no tensors of the model, so they are computed here, from what the node reads and gives.  The result stands in
the metadata of the quantized model, where the importer finds it; without it, bounds that always hold take its place.

`functions_of` knows the functions inside of recurrent nodes: of gates, of the candidate, of an LSTM's cell state.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError, Refusal

from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.quantize.graphs import apply, attribute, label_of
from hwflow.quantize.passes.recurrent import is_recurrent

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
    stated = cast("tuple[str, ...]", node.attributes.get("activations", ()))
    names = [str(name).lower() for name in stated] or list(defaults) * directions
    if len(names) == len(defaults):
        names = names * directions
    alphas, betas = ([float(v) for v in cast("tuple[float, ...]", node.attributes.get(key, ()))]
                     for key in ("activation_alpha", "activation_beta"))  # fmt: skip
    clip = float(attribute(node, "clip", 0.0))
    clip = clip if clip > 0 else math.inf
    functions = [_function(name, alphas, betas, clip) for name in names[: len(defaults) * directions]]
    own = functions[direction * len(defaults) : (direction + 1) * len(defaults)]
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



#: Of the model's metadata: a JSON object with the reaches of each recurrent node, by its name.
KEY = "hwflow.recurrent"


@dataclass(frozen=True)
class Reach:
    """The largest magnitudes inside of one recurrent layer; None where it has no such values, or they are not known.

    `gates` are the sums in front of gates, and their parts of the input and of the state before.  `hidden` are hidden
    states, and the candidates of a GRU.
    """

    gates: float | None = None
    cell: float | None = None
    hidden: float | None = None

    def with_(self, other: Reach) -> Reach:
        """The larger of each."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return Reach(**{name: max((v for v in (a, b) if v is not None), default=None) for (name, a), b in pairs})


def reaches(model: Model, rows: Mapping[str, Array]) -> dict[str, Reach]:
    """The reach of every recurrent node of the float `model`, by its name, on `rows` [n, *input shape]."""
    nodes = [node for node in model.graph.nodes if is_recurrent(node)]
    if not nodes:
        return {}
    reach = {label_of(node): Reach() for node in nodes}
    tensors = tuple(dict.fromkeys(
        name for node in nodes for name in (node.inputs[0], node.outputs[0], *node.inputs[5:7])
        if name and name not in model.graph.initializers))
    fed = {value.name for value in model.graph.inputs}
    for k in range(min(len(array) for array in rows.values())):
        row = {name: array[k] for name, array in rows.items()}
        values = evaluate(model, row, fetch=tuple(name for name in tensors if name not in fed))
        for node in nodes:
            reach[label_of(node)] = reach[label_of(node)].with_(_reach(node, model.graph, {**row, **values}))
    return reach


def needs_reaches(model: Model) -> bool:
    """Whether the states of a recurrent node have no bound, so that somebody must say how far they reach."""
    return any(
        not math.isfinite(function.bound)
        for node in model.graph.nodes if is_recurrent(node)
        for direction in range(directions_of(node)) for function in _known_functions(node, direction)
    )  # fmt: skip


def with_reaches(model: Model, reaches_by_name: Mapping[str, Reach]) -> Model:
    """`model` with what `reaches` found in its metadata."""
    if not reaches_by_name:
        return model
    known = {name: {k: v for k, v in asdict(reach).items() if v is not None} for name, reach in reaches_by_name.items()}
    return replace(model, metadata={**model.metadata, KEY: json.dumps(known)})


def reaches_in(metadata: Mapping[str, str]) -> dict[str, Reach]:
    """The reaches that `with_reaches` wrote into the metadata of a model.  HwflowError where somebody else did."""
    text = metadata.get(KEY, "{}")
    try:
        return {str(name): Reach(**{str(k): float(v) for k, v in reach.items()})
                for name, reach in json.loads(text).items()}  # fmt: skip
    except (ValueError, TypeError, AttributeError):
        raise HwflowError(
            f"the model's metadata '{KEY}' must be what hwflow wrote there, not {text[:60]!r}", "remove that entry"
        ) from None


def _reach(node: Node, graph: Graph, values: Mapping[str, Array]) -> Reach:
    """The reach of `node` on one row."""
    def read(place: int) -> Floats | None:
        name = node.inputs[place] if len(node.inputs) > place else ""
        value = graph.initializers.get(name, values.get(name)) if name else None
        return None if value is None else np.asarray(value, np.float64)

    x, w, r, y = read(0), read(1), read(2), np.asarray(values[node.outputs[0]], np.float64)
    assert x is not None
    assert w is not None
    assert r is not None
    b, h, c = read(3), read(5), read(6) if node.op_type == "LSTM" else None
    reach = Reach(hidden=float(np.abs(y).max()))
    for d in range(len(w)):
        backward = d == 1 or attribute(node, "direction", "forward") == "reverse"
        turn = slice(None, None, -1 if backward else 1)
        first = np.zeros(y.shape[-1]) if h is None else h[d, 0]
        before = np.concatenate([first[None], y[turn, d, 0][:-1]])
        biases = np.zeros((2, w.shape[1])) if b is None else b[d].reshape(2, -1)
        parts = x[turn, 0] @ w[d].T + biases[0], before @ r[d].T + biases[1]
        largest = _largest(*parts, parts[0] + biases[1], parts[0] + parts[1])
        reach = reach.with_(Reach(gates=largest, hidden=_largest(first)))
        start = np.zeros(y.shape[-1]) if c is None else c[d, 0]
        reach = reach.with_(_inside(node, d, _Direction(parts, before, r[d], biases[1], start)))
    return reach


def _largest(*arrays: Floats) -> float:
    return max(float(np.abs(array).max()) for array in arrays)


@dataclass(frozen=True)
class _Direction:
    """One direction over one row: `parts` of the sums of all gates, of the input and of the hidden states `before`,
    [steps, gates * hidden] each; `weights` and `bias` of the states; the `cell` state of an LSTM before the first step.
    """

    parts: tuple[Floats, Floats]
    before: Floats
    weights: Floats
    bias: Floats
    cell: Floats


def _inside(node: Node, d: int, own: _Direction) -> Reach:
    """The reach of what is neither such a sum nor a hidden state."""
    functions = _known_functions(node, d)
    if functions and node.op_type == "LSTM":
        return _cells(own, functions)
    if functions and node.op_type == "GRU":
        return _candidates(own, functions, bool(attribute(node, "linear_before_reset", 0)))
    return Reach()


def _known_functions(node: Node, direction: int) -> tuple[Function, ...]:
    """The functions of a direction; none where one has no hardware, which the importer refuses."""
    try:
        return functions_of(node, direction)
    except Refusal:
        return ()


def _candidates(own: _Direction, functions: tuple[Function, ...], after: bool) -> Reach:
    """The reach of a GRU's candidates, which are states of the same format; `after`: r is multiplied with their sum."""
    (_, r, n), (_, r_before, n_before) = (np.split(part, 3, axis=1) for part in own.parts)
    hidden = own.before.shape[1]
    gate = functions[0](r + r_before)
    part = gate * n_before if after else (gate * own.before) @ own.weights[-hidden:].T + own.bias[-hidden:]
    return Reach(gates=_largest(part, n + part), hidden=_largest(functions[1](n + part)))


def _cells(own: _Direction, functions: tuple[Function, ...]) -> Reach:
    """The reach of an LSTM's cell states, and of what is added to them."""
    i, _, f, g = np.split(own.parts[0] + own.parts[1], 4, axis=1)
    rest, added = functions[0](f), functions[0](i) * functions[1](g)
    cell, largest = own.cell, _largest(own.cell, added)
    for factor, more in zip(rest, added, strict=True):
        cell = factor * cell + more
        largest = max(largest, _largest(cell))
    return Reach(cell=largest)
