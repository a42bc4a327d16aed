"""RNN, GRU and LSTM: a 1 x 1 convolution that makes the input's part of all gate sums, and the loop over the steps.

What ONNX does not say of the integers is decided here (docs/streaming.md): gate sums have 16
bits, in steps of a power of two that hold what was seen on calibration data, or else the largest sum that the weights
allow; tables have 2**TABLE_BITS entries; a hidden state that its functions keep inside of -1 to 1 has steps of 2**-15.

`Cell` is one direction of a node in integers: which functions its gates have, and the formats of its states.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Layer, Requantize, Tensor
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.recurrent import ONE_FRACTION, Recurrent
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.quantize.calibrate.recurrent import Function, Reach, functions_of, reaches_in
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute, consumers, label_of, shape_of
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import Accumulator, affine, rescale
from hwflow.quantize.importer.layer_anchors import Matrix, weight_format
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import (
    Held,
    Joined,
    LayerAnchor,
    LayerTask,
    Moved,
    OnHost,
    Parameters,
    TensorState,
    Unrounded,
)
from hwflow.quantize.scale import fixed_points
from hwflow.quantize.settings import OutputStage

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
    """The fields that `Recurrent` calls gate_table, candidate_table, output_table, table_fraction and
    candidate_fraction.
    """

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
        """The bits of gate sums behind the point: each part of a sum, and the sum, stay inside of `GATE_FORMAT`.

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
        integers = [_rounded(array, unit) for array, unit in zip(values, units, strict=True)]
        none = np.zeros(0, np.int64)
        gate = none if self.kind == "rnn" else integers[0]
        candidate = integers[0] if self.kind == "rnn" else integers[1]
        return Tables(gate, candidate, integers[2] if self.kind == "lstm" else none, fraction, candidates)


def _rounded(values: Floats, fraction: int) -> IntArray:
    """In units of 2**-fraction, of 16 bits."""
    steps = np.rint(values * 2.0**fraction)
    return np.clip(steps, GATE_FORMAT.low, GATE_FORMAT.high).astype(np.int64)


def _exponent(bound: float) -> int:
    """The smallest k of at least 0 with `bound` <= 2**k."""
    return max(0, math.ceil(math.log2(bound))) if bound > 0 else 0


def cell_of(context: NodeContext, node: Node, direction: int, reach: Reach) -> Cell:
    """The cell of direction number `direction`, of which `reach` was seen."""
    hidden = context.constants[node.inputs[2]].real.shape[2]
    functions = functions_of(node, direction)
    kind = node.op_type.lower()
    if kind != "rnn" and not functions[0].is_gate:
        raise Refusal(
            f"the function of its gates must stay inside of 0 to 1, which {functions[0].node.op_type} does not",
            "take Sigmoid or HardSigmoid",
        )
    start = np.abs(initial_states(context.constants, node, direction)).max(axis=1)
    order = np.concatenate([np.arange(k * hidden, (k + 1) * hidden) for k in _ORDER[node.op_type]])
    bits, fraction = (0, 0) if kind != "lstm" else _cell_format(context, node, float(start[1]), functions[1], reach)
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
    """The largest magnitude that was seen of states to which `function` sets no bound."""
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


def _cell_format(context: NodeContext, node: Node, start: float, candidate: Function, reach: Reach) -> tuple[int, int]:
    """Bits and fraction of an lstm's cell state: of what was seen, or of what its steps can add up to from `start`."""
    x = shape_of(context.graph, node.inputs[0])
    streaming = node.input(6) and node.inputs[6] not in context.constants
    if math.isinf(candidate.bound):
        _seen(reach.cell, candidate)
    longest = math.inf if streaming or math.isinf(candidate.bound) or x is None else start + x[0] * candidate.bound
    seen = math.inf if reach.cell is None else max(STATE_MARGIN * reach.cell, start)
    end = _held(min(longest, seen), "cell states", MOST_CELL_BITS) if min(longest, seen) < math.inf else math.inf
    bits = MOST_CELL_BITS if math.isinf(end) else min(MOST_CELL_BITS, 1 + _exponent(end) + CELL_FRACTION)
    return bits, CELL_FRACTION if math.isinf(end) else bits - 1 - _exponent(end)



@dataclass(frozen=True)
class Loop(LayerAnchor):
    """Direction number `direction`: `cell`, the integers `weights` [gates * hidden, hidden] of the state before and
    their `scales`.

    `bias` [gates * hidden] is added to those products, in reals; `initial` [1 or 2, hidden] are the states before the
    first step.  `gate_fraction` is that of the gate sums, which the source holds.
    """

    direction: int
    cell: Cell
    weights: IntArray
    scales: Floats
    bias: Floats
    initial: Floats
    gate_fraction: int
    streaming: bool

    def layer(self, task: LayerTask) -> Layer:
        cell, (x,), y = self.cell, task.xs, task.y
        hidden = cell.hidden_fraction
        steps = Fraction(1, 1 << hidden)
        ratios = [Fraction(float(s)) * steps * (1 << self.gate_fraction) for s in self.scales]
        multipliers, shifts = fixed_points(ratios)
        bias = np.rint(self.bias / (self.scales * 2.0**-hidden)).astype(np.int64)
        gates = Requantize(bias, multipliers, shifts, 0, GATE_FORMAT.low, GATE_FORMAT.high)
        tables = cell.tables(self.gate_fraction)
        initial = self._integers()
        return Recurrent(
            task.name, (x.name,), y.name, cell.kind, x.format, self.weights, _format(self.weights), gates,
            self.gate_fraction, tables.gate, tables.candidate, tables.output, tables.fraction, HIDDEN_BITS, hidden,
            cell.cell_bits, cell.cell_fraction, tables.candidate_fraction, initial, self._shown(task),
            cell.linear_before_reset, self.streaming,
        )  # fmt: skip

    def _integers(self) -> IntArray:
        """The initial states."""
        cell = self.cell
        fractions = (cell.hidden_fraction, cell.cell_fraction)[: len(self.initial)]
        formats = (IntFormat(HIDDEN_BITS, signed=True), IntFormat(max(2, cell.cell_bits), signed=True))
        rows = [
            np.clip(np.rint(row * 2.0**fraction), format.low, format.high)
            for row, fraction, format in zip(self.initial, fractions, formats, strict=False)
        ]
        return np.stack(rows).astype(np.int64)

    def _shown(self, task: LayerTask) -> Requantize:
        """From the hidden state to elements, with the constants, Relu and Clip that follow."""
        form = form_of(task.unrounded, Form.linear((Fraction(1, 1 << self.cell.hidden_fraction),)))
        if form is None or form.rounding is not None or form.outward or form.unit[0] <= 0:
            raise Refusal(
                f"what follows {self.node.label} must be positive constants, Relu and Clip up to its QuantizeLinear",
                "quantize its result first",
            )
        ends = [np.array([end], np.int64) for end in (0, -(1 << HIDDEN_BITS - 1), (1 << HIDDEN_BITS - 1) - 1)]
        sums = Accumulator(*ends)
        rescaling = rescale(affine(form, sums, task.parameters), sums, task.y.format, OutputStage.MULTIPLY)
        assert isinstance(rescaling, Requantize)
        return rescaling


def _format(weights: IntArray) -> IntFormat:
    """The narrowest one with a sign; the loop has no bipolar weights."""
    format = weight_format(weights)
    return IntFormat(2, signed=True) if format.bipolar else format


def recurrent(context: NodeContext, node: Node, dynamic: list[str]) -> dict[str, TensorState]:
    """A recurrent node with the batch second, whose sequences all have all steps."""
    streaming = _require_known(context, node)
    w, r = (_weights(context, node, place) for place in (1, 2))
    held = context.rows(node.inputs[0])
    if held.index.shape[1] != 1:
        raise Refusal(
            f"its sequences must come one by one, not {held.index.shape[1]} at a time", "export the model with batch 1"
        )
    parts = [_direction(context, node, held, (w, r), d, streaming) for d in range(len(w.real))]
    result = parts[0] if len(parts) == 1 else _both(node, parts)
    further: dict[str, TensorState] = dict.fromkeys(filter(None, node.outputs[1:]), OnHost(in_epilogue=True))
    return {**further, node.outputs[0]: result}


def _both(node: Node, parts: list[Unrounded]) -> Unrounded:
    """Y [steps, 2, 1, hidden] of both directions: the channels of one behind those of the other."""
    frame, indices, start = parts[0].anchor.frame, [], 0
    for part in parts:
        pixel, channel = np.divmod(part.index, frame.channels)
        indices.append(pixel * 2 * frame.channels + start + channel)
        start += frame.channels
    index = np.concatenate(indices, axis=1)
    whole = Frame(1, frame.width, 2 * frame.channels)
    return Unrounded.of(Joined(node, node.outputs[0], whole, tuple(parts), index, 1), index)


def _require_known(context: NodeContext, node: Node) -> bool:
    """Refuse what has no hardware.  Whether the state stays in the layer from frame to frame."""
    if node.input(4):
        raise Refusal(
            "its sequences must have all steps: sequence_lens has no hardware",
            "export the model without it, and pad or cut sequences on the host",
        )
    if node.input(7):
        raise Refusal("peepholes (its input P) have no hardware", "train the layer without them")
    if attribute(node, "input_forget", 0):
        raise Refusal("input_forget has no hardware", "train the layer with a forget gate of its own")
    states = [name for name in node.inputs[5:7] if name and name not in context.constants]
    outputs = {value.name for value in context.graph.outputs}
    read = consumers(context.graph)
    for name, title in zip(node.outputs[1:], ("Y_h, the last hidden", "Y_c, the last cell"), strict=False):
        if name and (name in read or (name in outputs and not states)):
            where = f", which {read[name][0].label} reads," if name in read else ""
            raise Refusal(
                f"its output {title} state '{name}'{where} has no hardware, but for a state that is an input, too",
                "leave it out of the model before the export",
            )
    if states and attribute(node, "direction", "forward") != "forward":
        raise Refusal(
            "a backward direction begins at the end of the sequence, so its state cannot stay in the layer from frame "
            "to frame",
            "export the model with constant initial states, or with the direction forward",
        )
    return bool(states)


def _weights(context: NodeContext, node: Node, place: int) -> Quantity:
    """W or R with integers."""
    name = node.inputs[place]
    if name not in context.constants:
        raise Refusal(f"its weights '{name}' must be constant", "export the model for inference")
    weights = context.constants[name]
    if not weights.is_quantized:
        raise Refusal(f"its weights '{name}' must be integers with a DequantizeLinear", "take the float model")
    return weights


def _direction(
    context: NodeContext, node: Node, held: Held, weights: tuple[Quantity, Quantity], d: int, streaming: bool
) -> Unrounded:
    """Direction number `d`; the index has the shape [steps, 1, 1, hidden] of its part of Y."""
    (w, r), directions = weights, len(weights[0].real)
    reach = reaches_in(context.metadata).get(label_of(node), Reach())
    cell = cell_of(context, node, d, reach)
    backward = d == 1 or attribute(node, "direction", "forward") == "reverse"
    source = _row(context, node, held, backward)
    inside, before = _biases(context, node, cell, d)
    rows, x = cell.rows, context.tensors[source.tensor]
    fraction = cell.gate_fraction(x, (w.real[d][rows], r.real[d][rows]), (inside, before))
    products = _InputProducts(w.integers[d][rows], w.scale[d][rows, 0], inside, fraction)
    sums = _input_sums(context, node, source, d, products)
    steps = held.index.shape[0]
    frame = Frame(1, steps, cell.hidden)
    key = node.outputs[0] if directions == 1 else context.building.names.new(f"{node.outputs[0]}.{d}")
    initial = initial_states(context.constants, node, d)
    anchor = Loop(
        node, key, frame, (sums,), d, cell, r.integers[d][rows], r.scale[d][rows, 0], before, initial, fraction,
        streaming,
    )  # fmt: skip
    index = np.arange(frame.elements, dtype=np.int64).reshape(steps, 1, 1, cell.hidden)
    return Unrounded.of(anchor, index[::-1] if backward else index)


def _row(context: NodeContext, node: Node, held: Held, backward: bool) -> Held:
    """The sequence [steps, 1, inputs] as one row of pixels, in the order in which the layer reads it."""
    index = held.index[::-1] if backward else held.index
    by = Moved(node, f"{label_of(node)}.{'backward' if backward else 'forward'}", computed=True)
    return context.building.arranged(replace(held, index=index, moved=by), by, pixels=(0, 1))


def _biases(context: NodeContext, node: Node, cell: Cell, d: int) -> tuple[Floats, Floats]:
    """The biases that are added to the products of the input, and to those of the state before, in the order of the
    layer.
    """
    name = node.input(3)
    if name and name not in context.constants:
        raise Refusal(f"its bias '{name}' must be constant", "export the model for inference")
    both = context.constants[name].real[d].reshape(2, -1) if name else np.zeros((2, len(cell.rows)))
    inside, before = both[0][cell.rows], both[1][cell.rows]
    apart = np.zeros(len(before))
    if cell.linear_before_reset:  # r is multiplied with the last gate's sum, its bias included
        apart[-cell.hidden :] = before[-cell.hidden :]
    return inside + before - apart, apart


@dataclass(frozen=True)
class _InputProducts:
    """Integer weights [gates, elements] of the input, their scales, the bias, and the fraction of the gate sums."""

    integers: IntArray
    scales: Floats
    bias: Floats
    fraction: int


def _input_sums(context: NodeContext, node: Node, source: Held, d: int, products: _InputProducts) -> Held:
    """The products of each step's input with W, and the bias, as gate sums: a convolution of 1 x 1."""
    label = f"{label_of(node)}.{('sums', 'backward_sums')[d]}"
    own, x, integers = replace(node, name=label), context.tensors[source.tensor], products.integers
    frame = Frame(1, x.frame.width, len(integers))
    anchor = Matrix(
        own, label, frame, (source,), integers[:, None, None, :], products.scales, Window((1, 1)), 1,
        Quantity.plain(products.bias))
    unrounded = Unrounded.of(anchor, np.arange(frame.elements, dtype=np.int64))
    p = Parameters(2.0**-products.fraction, 0, GATE_FORMAT, GATE_FORMAT.low, GATE_FORMAT.high)
    y = Tensor(context.building.names.new(label), frame, GATE_FORMAT, p.scale, 0)
    name = context.building.name_of(own)
    task = LayerTask(unrounded, (x,), y, name, p, OutputStage.MULTIPLY, context.opsets)
    context.building.add(anchor.layer(task), y)
    return Held(y.name, unrounded.index, True)
