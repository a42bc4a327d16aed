"""The cell of a recurrent node in integers: which functions its gates have, and the formats of its states."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Tensor
from hwflow.layers.formats import IntArray
from hwflow.layers.recurrent import ONE_FRACTION
from hwflow.onnx.model import Node
from hwflow.quantize.calibrate.recurrent import Reach
from hwflow.quantize.cell_functions import Function, functions_of
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute, shape_of
from hwflow.quantize.importer.site import Site

Floats = npt.NDArray[np.float64]

#: Of gate sums, and of the hidden state.
GATE_FORMAT = IntFormat(16, signed=True)
HIDDEN_BITS = 16
#: Entries of a table of a function: 2**TABLE_BITS.  More where a function that is nowhere flat must be known so far out
#: that gates had coarser steps than 2**-GATE_STEPS, by which a sigmoid is off by one part in 256.
TABLE_BITS, MOST_TABLE_BITS, GATE_STEPS = 11, 14, 5
#: Cell states have steps of 2**-CELL_FRACTION, or coarser ones where they would need more bits than there are.
CELL_FRACTION, MOST_CELL_BITS = 13, 24
#: How much larger than on calibration data sums, and states, may become.
MARGIN, STATE_MARGIN = 1.25, 2.0
#: The rows of a node's gates in the order of the layer's: r, z, n of ONNX's z, r, h; i, f, c, o of its i, o, f, c.
_ORDER = {"RNN": (0,), "GRU": (1, 0, 2), "LSTM": (0, 2, 3, 1)}

@dataclass(frozen=True)
class Tables:
    """What `Recurrent` calls gate_table, candidate_table, output_table, table_fraction and candidate_fraction."""

    gate: IntArray
    candidate: IntArray
    output: IntArray
    fraction: int
    candidate_fraction: int


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
        sums = GATE_FORMAT.bits - 1 - gate_fraction
        reaches = [sums] * len(self.functions)
        if self.kind == "lstm":
            reaches[2] = self.cell_bits - 1 - self.cell_fraction
        ends = [_exponent(min(function.flat, 2.0**reach))
                for function, reach in zip(self.functions, reaches, strict=True)]  # fmt: skip
        steps = GATE_STEPS if self.kind != "rnn" else 0
        bits = min(max(TABLE_BITS, 1 + max(ends) + steps), MOST_TABLE_BITS)
        if max(ends) >= bits:
            function, most = self.functions[ends.index(max(ends))], 1 << MOST_TABLE_BITS - 1
            raise Refusal(
                f"what its function {function.node.op_type} reads must stay below {most}, and here it reaches up to "
                f"{1 << max(ends)}",
                "scale its weights down, or take a function that saturates, like Tanh",
            )
        fraction = min(bits - 1 - max(ends), gate_fraction, *([self.cell_fraction] if self.kind == "lstm" else []))
        x = np.arange(-(1 << bits - 1), 1 << bits - 1) * 2.0**-fraction
        values = [function(x) for function in self.functions]
        candidates = ONE_FRACTION - _exponent(float(np.abs(values[1]).max())) if self.kind == "lstm" else 0
        units = {"rnn": (self.hidden_fraction,), "gru": (ONE_FRACTION, self.hidden_fraction),
                 "lstm": (ONE_FRACTION, candidates, self.hidden_fraction)}[self.kind]  # fmt: skip
        made = [_rounded(array, unit) for array, unit in zip(values, units, strict=True)]
        none = np.zeros(0, np.int64)
        gate = none if self.kind == "rnn" else made[0]
        candidate = made[0] if self.kind == "rnn" else made[1]
        return Tables(gate, candidate, made[2] if self.kind == "lstm" else none, fraction, candidates)


def _rounded(values: Floats, fraction: int) -> IntArray:
    """In units of 2**-fraction, of 16 bits."""
    steps = np.rint(values * 2.0**fraction)
    return np.clip(steps, GATE_FORMAT.low, GATE_FORMAT.high).astype(np.int64)


def _exponent(bound: float) -> int:
    """The smallest k of at least 0 with `bound` <= 2**k."""
    return max(0, math.ceil(math.log2(bound))) if bound > 0 else 0


def cell_of(site: Site, node: Node, direction: int, reach: Reach) -> Cell:
    """The cell of direction number `direction`, of which `reach` was seen."""
    hidden = site.constants[node.inputs[2]].real.shape[2]
    functions = functions_of(node, direction)
    kind = node.op_type.lower()
    if kind != "rnn" and not functions[0].is_gate:
        raise Refusal(
            f"the function of its gates must stay inside of 0 to 1, which {functions[0].node.op_type} does not",
            "take Sigmoid or HardSigmoid",
        )
    start = np.abs(initial_states(site.constants, node, direction)).max(axis=1)
    order = np.concatenate([np.arange(k * hidden, (k + 1) * hidden) for k in _ORDER[node.op_type]])
    bits, fraction = (0, 0) if kind != "lstm" else _cell_format(site, node, float(start[1]), functions[1], reach)
    largest = functions[-1].bound
    if math.isinf(largest):
        largest = functions[-1].largest(2.0 ** (bits - 1 - fraction)) if kind == "lstm" else (
            STATE_MARGIN * _seen(reach.hidden, functions[-1]))
    exponent = _exponent(_held(max(largest, float(start[0])), "hidden states", HIDDEN_BITS))
    return Cell(
        kind, hidden, order, functions, bool(attribute(node, "linear_before_reset", 0)) and kind == "gru", reach,
        HIDDEN_BITS - 1 - exponent, bits, fraction,
    )  # fmt: skip


def _seen(reach: float | None, function: Function) -> float:
    """What was seen of states to which `function` sets no bound."""
    if reach is None:
        raise Refusal(
            f"its states have no bound, since {function.node.op_type} has none, and the file does not say how large "
            "they become",
            "take the float model, and quantize it with data",
        )
    return reach


def _held(end: float, what: str, bits: int) -> float:
    """`end`, where integers of so many bits are fine enough for `what`."""
    most = 1 << bits - 1
    if end > most:
        raise Refusal(
            f"its {what} must stay below {most}, and here they need room up to {end:.3g}",
            "scale its weights down, or take a function that saturates, like Tanh",
        )
    return end


def initial_states(constants: Mapping[str, Quantity], node: Node, direction: int) -> Floats:
    """The constant states before the first step, in reals [1 or 2, hidden]."""
    hidden = constants[node.inputs[2]].real.shape[2]
    rows = []
    for place in (5, 6) if node.op_type == "LSTM" else (5,):
        name = node.inputs[place] if len(node.inputs) > place else ""
        rows.append(constants[name].real[direction, 0] if name in constants else np.zeros(hidden))
    return np.stack(rows)


def _cell_format(site: Site, node: Node, start: float, candidate: Function, reach: Reach) -> tuple[int, int]:
    """Bits and fraction of an lstm's cell state: of what was seen, or of what its steps can add up to from `start`."""
    x = shape_of(site.graph, node.inputs[0])
    streaming = len(node.inputs) > 6 and node.inputs[6] and node.inputs[6] not in site.constants
    if math.isinf(candidate.bound):
        _seen(reach.cell, candidate)
    longest = math.inf if streaming or math.isinf(candidate.bound) or x is None else start + x[0] * candidate.bound
    seen = math.inf if reach.cell is None else max(STATE_MARGIN * reach.cell, start)
    end = _held(min(longest, seen), "cell states", MOST_CELL_BITS) if min(longest, seen) < math.inf else math.inf
    bits = MOST_CELL_BITS if math.isinf(end) else min(MOST_CELL_BITS, 1 + _exponent(end) + CELL_FRACTION)
    return bits, CELL_FRACTION if math.isinf(end) else bits - 1 - _exponent(end)
