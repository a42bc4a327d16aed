"""RNN, GRU and LSTM: a 1 x 1 convolution that makes the input's part of all gate sums, and the loop over the steps.

What ONNX does not say of the integers is decided here and in `kinds/cells.py` (docs/streaming.md): gate sums have 16
bits, in steps of a power of two that hold what was seen on calibration data, or else the largest sum that the weights
allow; tables have 2**TABLE_BITS entries; a hidden state that its functions keep inside of -1 to 1 has steps of 2**-15.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import IntFormat, Layer, Requantize, Tensor
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.window import Window
from hwflow.onnx.model import Node
from hwflow.quantize.calibrate.recurrent import Reach, reaches_in
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute, consumers, label_of
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import affine, rescale
from hwflow.quantize.importer.exact_edges import Accumulator
from hwflow.quantize.importer.finish import matrix_layer, weight_format
from hwflow.quantize.importer.kinds.cells import GATE_FORMAT, HIDDEN_BITS, Cell, cell_of, initial_states
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import (
    Held,
    Joined,
    LayerAnchor,
    Matrix,
    Moved,
    OnHost,
    Parameters,
    Pending,
    State,
)
from hwflow.quantize.scale import fixed_points
from hwflow.quantize.settings import OutputStage

Floats = npt.NDArray[np.float64]

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

    def layer(
        self, pending: Pending, xs: tuple[Tensor, ...], y: Tensor, name: str, p: Parameters, stage: OutputStage,
        opsets: Mapping[str, int],
    ) -> Layer:  # fmt: skip
        cell, (x,) = self.cell, xs
        hidden = cell.hidden_fraction
        steps = Fraction(1, 1 << hidden)
        ratios = [Fraction(float(s)) * steps * (1 << self.gate_fraction) for s in self.scales]
        multipliers, shifts = fixed_points(ratios)
        bias = np.rint(self.bias / (self.scales * 2.0**-hidden)).astype(np.int64)
        gates = Requantize(bias, multipliers, shifts, 0, GATE_FORMAT.low, GATE_FORMAT.high)
        tables = cell.tables(self.gate_fraction)
        initial = self._integers()
        return Recurrent(
            name, (x.name,), y.name, cell.kind, x.format, self.weights, _format(self.weights), gates,
            self.gate_fraction, tables.gate, tables.candidate, tables.output, tables.fraction, HIDDEN_BITS, hidden,
            cell.cell_bits, cell.cell_fraction, tables.candidate_fraction, initial, self._shown(pending, y, p),
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

    def _shown(self, pending: Pending, y: Tensor, p: Parameters) -> Requantize:
        """From the hidden state to elements, with the constants, Relu and Clip that follow."""
        form = form_of(pending, Form.linear((Fraction(1, 1 << self.cell.hidden_fraction),)))
        if form is None or form.rounding is not None or form.unit[0] <= 0:
            raise Refusal(
                f"what follows {self.node.label} must be positive constants, Relu and Clip up to its QuantizeLinear",
                "quantize its result first",
            )
        ends = [np.array([end], np.int64) for end in (0, -(1 << HIDDEN_BITS - 1), (1 << HIDDEN_BITS - 1) - 1)]
        sums = Accumulator(*ends)
        made = rescale(affine(form, sums, p), sums, y.format, OutputStage.MULTIPLY)
        assert isinstance(made, Requantize)
        return made


def _format(weights: IntArray) -> IntFormat:
    """The narrowest one with a sign; the loop has no bipolar weights."""
    format = weight_format(weights)
    return IntFormat(2, signed=True) if format.bipolar else format


def recurrent(site: Site, node: Node, dynamic: list[str]) -> dict[str, State]:
    """A recurrent node with the batch second, whose sequences all have all steps."""
    streaming = _require_known(site, node)
    w, r = (_weights(site, node, place) for place in (1, 2))
    held = site.rows(node.inputs[0])
    if held.index.shape[1] != 1:
        raise Refusal(
            f"its sequences must come one by one, not {held.index.shape[1]} at a time", "export the model with batch 1"
        )
    parts = [_direction(site, node, held, (w, r), d, streaming) for d in range(len(w.real))]
    made = parts[0] if len(parts) == 1 else _both(node, parts)
    kept: dict[str, State] = dict.fromkeys(filter(None, node.outputs[1:]), OnHost(in_epilogue=True))
    return {**kept, node.outputs[0]: made}


def _both(node: Node, parts: list[Pending]) -> Pending:
    """Y [steps, 2, 1, hidden] of both directions: the channels of one behind those of the other."""
    frame, indices, start = parts[0].anchor.frame, [], 0
    for part in parts:
        pixel, channel = np.divmod(part.index, frame.channels)
        indices.append(pixel * 2 * frame.channels + start + channel)
        start += frame.channels
    index = np.concatenate(indices, axis=1)
    whole = Frame(1, frame.width, 2 * frame.channels)
    return Pending.of(Joined(node, node.outputs[0], whole, tuple(parts), index, 1), index)


def _require_known(site: Site, node: Node) -> bool:
    """Refuse what has no hardware.  Whether the state stays in the layer from frame to frame."""
    if len(node.inputs) > 4 and node.inputs[4]:
        raise Refusal(
            "its sequences must have all steps: sequence_lens has no hardware",
            "export the model without it, and pad or cut sequences on the host",
        )
    if len(node.inputs) > 7 and node.inputs[7]:
        raise Refusal("peepholes (its input P) have no hardware", "train the layer without them")
    if attribute(node, "input_forget", 0):
        raise Refusal("input_forget has no hardware", "train the layer with a forget gate of its own")
    states = [name for name in node.inputs[5:7] if name and name not in site.constants]
    outputs = {value.name for value in site.graph.outputs}
    read = consumers(site.graph)
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


def _weights(site: Site, node: Node, place: int) -> Quantity:
    """W or R with integers."""
    name = node.inputs[place]
    if name not in site.constants:
        raise Refusal(f"its weights '{name}' must be constant", "export the model for inference")
    weights = site.constants[name]
    if not weights.is_quantized:
        raise Refusal(f"its weights '{name}' must be integers with a DequantizeLinear", "take the float model")
    return weights


def _direction(
    site: Site, node: Node, held: Held, weights: tuple[Quantity, Quantity], d: int, streaming: bool
) -> Pending:
    """Direction number `d`; the index has the shape [steps, 1, 1, hidden] of its part of Y."""
    (w, r), directions = weights, len(weights[0].real)
    reach = reaches_in(site.metadata).get(label_of(node), Reach())
    cell = cell_of(site, node, d, reach)
    backward = d == 1 or attribute(node, "direction", "forward") == "reverse"
    source = _row(site, node, held, backward)
    inside, before = _biases(site, node, cell, d)
    rows, x = cell.rows, site.tensors[source.tensor]
    fraction = cell.gate_fraction(x, (w.real[d][rows], r.real[d][rows]), (inside, before))
    sums = _input_sums(site, node, source, w, d, cell, inside, fraction)
    steps = held.index.shape[0]
    frame = Frame(1, steps, cell.hidden)
    key = node.outputs[0] if directions == 1 else site.building.names.new(f"{node.outputs[0]}.{d}")
    initial = initial_states(site.constants, node, d)
    anchor = Loop(
        node, key, frame, (sums,), d, cell, r.integers[d][rows], r.scale[d][rows, 0], before, initial, fraction,
        streaming,
    )  # fmt: skip
    index = np.arange(frame.elements, dtype=np.int64).reshape(steps, 1, 1, cell.hidden)
    return Pending.of(anchor, index[::-1] if backward else index)


def _row(site: Site, node: Node, held: Held, backward: bool) -> Held:
    """The sequence [steps, 1, inputs] as one row of pixels, in the order in which the layer reads it."""
    index = held.index[::-1] if backward else held.index
    by = Moved(node, f"{label_of(node)}.{'backward' if backward else 'forward'}", computed=True)
    return site.building.arranged(replace(held, index=index, moved=by), by, pixels=(0, 1))


def _biases(site: Site, node: Node, cell: Cell, d: int) -> tuple[Floats, Floats]:
    """What is added to the products of the input, and to those of the state before, in the order of the layer."""
    name = node.inputs[3] if len(node.inputs) > 3 else ""
    if name and name not in site.constants:
        raise Refusal(f"its bias '{name}' must be constant", "export the model for inference")
    both = site.constants[name].real[d].reshape(2, -1) if name else np.zeros((2, len(cell.rows)))
    inside, before = both[0][cell.rows], both[1][cell.rows]
    apart = np.zeros(len(before))
    if cell.linear_before_reset:  # r is multiplied with the last gate's sum, its bias included
        apart[-cell.hidden :] = before[-cell.hidden :]
    return inside + before - apart, apart


def _input_sums(
    site: Site, node: Node, source: Held, w: Quantity, d: int, cell: Cell, bias: Floats, fraction: int
) -> Held:
    """The products of each step's input with W, and the bias, as gate sums: a convolution of 1 x 1."""
    label = f"{label_of(node)}.{('sums', 'backward_sums')[d]}"
    own, x = replace(node, name=label), site.tensors[source.tensor]
    integers, scales = w.integers[d][cell.rows], w.scale[d][cell.rows, 0]
    frame = Frame(1, x.frame.width, len(integers))
    anchor = Matrix(
        own, label, frame, source, integers[:, None, None, :], scales, Window((1, 1)), 1, Quantity.plain(bias)
    )
    pending = Pending.of(anchor, np.arange(frame.elements, dtype=np.int64))
    p = Parameters(2.0**-fraction, 0, GATE_FORMAT, GATE_FORMAT.low, GATE_FORMAT.high)
    y = Tensor(site.building.names.new(label), frame, GATE_FORMAT, p.scale, 0)
    layer = matrix_layer(pending, anchor, x, y, site.building.name_of(own), p, OutputStage.MULTIPLY, site.opsets)
    site.building.add(layer, y)
    return Held(y.name, pending.index, True)
