"""The cell of a recurrent node in integers: which functions its gates have, and the formats of its states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Tensor
from hwflow.layers.formats import IntArray
from hwflow.layers.recurrent import ONE_FRACTION
from hwflow.onnx.model import Node
from hwflow.quantize.calibration.recurrent import Reach
from hwflow.quantize.graphs import apply, attribute, shape_of
from hwflow.quantize.importer.site import Site

__all__ = ["GATE_FORMAT", "HIDDEN_BITS", "Cell", "Tables", "cell_of"]

Floats = npt.NDArray[np.float64]

#: Of gate sums, and of the hidden state.
GATE_FORMAT = IntFormat(16, signed=True)
HIDDEN_BITS = 16
#: Entries of a table of a function: 2**TABLE_BITS.
TABLE_BITS = 11
#: Cell states have steps of 2**-CELL_FRACTION, or coarser ones where they would need more bits than there are.
CELL_FRACTION, MOST_CELL_BITS = 13, 24
#: How much larger than on calibration data sums, and states, may become.
MARGIN, STATE_MARGIN = 1.25, 2.0
#: Beyond this a sigmoid or tanh is 0, 1 or -1, but for 3e-4.
FLAT = 8.0

#: The rows of a node's gates in the order of the layer's: r, z, n of ONNX's z, r, h; i, f, c, o of its i, o, f, c.
_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}

#: Functions by their names in small letters: the operator of the same meaning, its parameters, and the largest
#: magnitude of its values; None where there is none.
_FUNCTIONS: Mapping[str, tuple[str, tuple[str, ...], float | None]] = {
    "sigmoid": ("Sigmoid", (), 1.0),
    "tanh": ("Tanh", (), 1.0),
    "hardsigmoid": ("HardSigmoid", ("alpha", "beta"), 1.0),
    "softsign": ("Softsign", (), 1.0),
    "relu": ("Relu", (), None),
    "leakyrelu": ("LeakyRelu", ("alpha",), None),
    "elu": ("Elu", ("alpha",), None),
    "thresholdedrelu": ("ThresholdedRelu", ("alpha",), None),
    "softplus": ("Softplus", (), None),
}
_DEFAULTS = {"RNN": ("tanh",), "GRU": ("sigmoid", "tanh"), "LSTM": ("sigmoid", "tanh", "tanh")}


@dataclass(frozen=True)
class Function:
    """A function of reals, limited to -clip .. clip first; `bound` as of `_FUNCTIONS`."""

    node: Node
    bound: float | None
    clip: float

    def __call__(self, x: npt.NDArray[np.floating[Any]]) -> Floats:
        limited = np.clip(x, -self.clip, self.clip).astype(np.float32)
        return np.asarray(apply(self.node, {"": 21}, {"x": limited}), np.float64)


@dataclass(frozen=True)
class Tables:
    """What `Recurrent` calls gate_table, candidate_table, output_table and table_fraction."""

    gate: IntArray
    candidate: IntArray
    output: IntArray
    fraction: int


@dataclass(frozen=True)
class Cell:
    """One direction of a recurrent node: its functions, and the formats of what is inside of it.

    `functions` are those of the gates (not of an rnn), of the candidate, and of an lstm's cell; `reach` is what was
    seen of it.  `rows` are the rows of W, R and B in the order of the layer.
    """

    kind: str
    hidden: int
    rows: IntArray
    functions: tuple[Function, ...]
    linear_before_reset: bool
    reach: Reach
    hidden_fraction: int
    cell_bits: int
    cell_fraction: int

    @property
    def candidate_fraction(self) -> int:
        """Of an lstm; else 0."""
        return ONE_FRACTION if self.kind == "lstm" else 0

    def gate_fraction(self, x: Tensor, weights: tuple[Floats, Floats], biases: tuple[Floats, Floats]) -> int:
        """That of gate sums: each part of a sum, and the sum, stay inside of `GATE_FORMAT`.

        `weights` and `biases` are of the input `x` and of the state before.
        """
        largest = max(abs(x.format.low - x.zero_point), abs(x.format.high - x.zero_point)) * float(x.scale)
        parts = [np.abs(w).sum(axis=1) * end + np.abs(b)
                 for w, b, end in zip(weights, biases, (largest, 2.0 ** (HIDDEN_BITS - 1 - self.hidden_fraction)),
                                      strict=True)]  # fmt: skip
        bound = float((parts[0] + parts[1]).max())
        if self.reach.gates is not None:
            bound = min(bound, MARGIN * self.reach.gates)
        return max(0, GATE_FORMAT.bits - 1 - _exponent(bound))

    def tables(self, gate_fraction: int) -> Tables:
        """The tables of the functions, over sums as far as they are not flat."""
        bits = TABLE_BITS
        end = min(_exponent(FLAT), GATE_FORMAT.bits - 1 - gate_fraction)
        if self.kind == "lstm":
            end = max(end, min(_exponent(FLAT), self.cell_bits - 1 - self.cell_fraction))
        if any(function.bound is None for function in self.functions):
            end = GATE_FORMAT.bits - 1 - gate_fraction
        fraction = min(max(0, bits - 1 - end), gate_fraction, *([self.cell_fraction] if self.kind == "lstm" else []))
        x = np.arange(-(1 << bits - 1), 1 << bits - 1) * 2.0**-fraction
        units = {"rnn": (self.hidden_fraction,), "gru": (ONE_FRACTION, self.hidden_fraction),
                 "lstm": (ONE_FRACTION, self.candidate_fraction, ONE_FRACTION)}[self.kind]  # fmt: skip
        made = [_rounded(function(x), unit) for function, unit in zip(self.functions, units, strict=True)]
        none = np.zeros(0, np.int64)
        gate = none if self.kind == "rnn" else made[0]
        candidate = made[0] if self.kind == "rnn" else made[1]
        return Tables(gate, candidate, made[2] if self.kind == "lstm" else none, fraction)


def _rounded(values: Floats, fraction: int) -> IntArray:
    """In units of 2**-fraction, of 16 bits."""
    steps = np.rint(values * 2.0**fraction)
    return np.clip(steps, GATE_FORMAT.low, GATE_FORMAT.high).astype(np.int64)


def _exponent(bound: float) -> int:
    """The smallest k of at least 0 with `bound` <= 2**k."""
    return max(0, math.ceil(math.log2(bound))) if bound > 0 else 0


def cell_of(site: Site, node: Node, direction: int, directions: int, reach: Reach) -> Cell:
    """The cell of direction number `direction` of `directions`, of which `reach` was seen."""
    hidden = site.constants[node.inputs[2]].real.shape[2]
    functions = _functions(node, direction, directions)
    kind = node.op_type.lower()
    candidate, first = functions[-1] if kind != "gru" else functions[1], functions[0]
    if kind != "rnn" and first.bound is None:
        raise Refusal(
            f"the function of its gates must stay inside of 0 to 1, which {first.node.op_type} does not",
            "take Sigmoid or HardSigmoid",
        )
    fraction = HIDDEN_BITS - 1 - _exponent(_largest_hidden(site, node, direction, candidate, reach))
    order = np.concatenate([np.arange(k * hidden, (k + 1) * hidden) for k in _ORDER[node.op_type]])
    bits, cell_fraction = (0, 0) if kind != "lstm" else _cell_format(site, node, direction, functions[1], reach)
    return Cell(
        kind, hidden, order, functions, bool(attribute(node, "linear_before_reset", 0)) and kind == "gru", reach,
        fraction, bits, cell_fraction,
    )  # fmt: skip


def initial_states(site: Site, node: Node, direction: int) -> Floats:
    """The constant states before the first step, in reals [1 or 2, hidden]."""
    hidden = site.constants[node.inputs[2]].real.shape[2]
    rows = []
    for place in (5, 6) if node.op_type == "LSTM" else (5,):
        name = node.inputs[place] if len(node.inputs) > place else ""
        rows.append(site.constants[name].real[direction, 0] if name in site.constants else np.zeros(hidden))
    return np.stack(rows)


def _largest_hidden(site: Site, node: Node, direction: int, candidate: Function, reach: Reach) -> float:
    """The end of the range of hidden states: of functions that have one, theirs; else what was seen."""
    start = float(np.abs(initial_states(site, node, direction)[0]).max())
    if candidate.bound is not None:
        return max(candidate.bound, start)
    if reach.hidden is None:
        raise Refusal(
            f"its states have no bound, since {candidate.node.op_type} has none, and the file does not say how large "
            "they become",
            "take the float model, and quantize it with data",
        )
    return max(STATE_MARGIN * reach.hidden, start)


def _cell_format(site: Site, node: Node, direction: int, candidate: Function, reach: Reach) -> tuple[int, int]:
    """Bits and fraction of an lstm's cell state: of what was seen, or of what its steps can add up to."""
    x = shape_of(site.graph, node.inputs[0])
    start = float(np.abs(initial_states(site, node, direction)[1]).max())
    streaming = len(node.inputs) > 6 and node.inputs[6] and node.inputs[6] not in site.constants
    longest = math.inf if streaming or candidate.bound is None or x is None else start + x[0] * candidate.bound
    seen = math.inf if reach.cell is None else max(STATE_MARGIN * reach.cell, start)
    end = min(longest, seen)
    bits = MOST_CELL_BITS if math.isinf(end) else min(MOST_CELL_BITS, 1 + _exponent(end) + CELL_FRACTION)
    return bits, CELL_FRACTION if math.isinf(end) else bits - 1 - _exponent(end)


def _functions(node: Node, direction: int, directions: int) -> tuple[Function, ...]:
    """The functions of one direction, with their parameters, which go in order to those that have some."""
    defaults = _DEFAULTS[node.op_type]
    given = cast("tuple[str, ...]", node.attributes.get("activations", ()))
    names = [str(name).lower() for name in given] or list(defaults) * directions
    if len(names) == len(defaults):
        names = names * directions
    alphas, betas = ([float(v) for v in cast("tuple[float, ...]", node.attributes.get(key, ()))]
                     for key in ("activation_alpha", "activation_beta"))  # fmt: skip
    clip = float(attribute(node, "clip", 0.0)) or math.inf
    made = []
    for name in names[: len(defaults) * directions]:
        if name not in _FUNCTIONS:
            raise Refusal(f"its function '{name}' has no hardware", f"take one of {', '.join(sorted(_FUNCTIONS))}")
        operator, parameters, bound = _FUNCTIONS[name]
        values = {key: left.pop(0) for key, left in (("alpha", alphas), ("beta", betas)) if key in parameters and left}
        made.append(Function(Node(operator, ("x",), ("y",), values, operator), bound, clip))
    own = made[direction * len(defaults) : (direction + 1) * len(defaults)]
    if node.op_type == "LSTM":  # what is written of the cell is not limited
        own[2] = Function(own[2].node, own[2].bound, math.inf)
    return tuple(own)
