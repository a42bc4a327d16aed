"""Integer weights: which scale each output channel, or row of a gate, gets, and the nearest integers."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from hwflow.layers.formats import EqualByValue, IntArray
from hwflow.onnx.model import Array, Attribute, Model, Node
from hwflow.quantize.graphs import Additions, label_of
from hwflow.quantize.passes.recurrent import is_recurrent
from hwflow.quantize.scale import SMALLEST_NORMAL
from hwflow.quantize.settings import RangeMethod, WeightSettings

#: Shares of the largest weight that the search for the smallest squared error tries as the end of the range.
_SHARES = np.linspace(1.0, 0.2, 81)


@dataclass(frozen=True, eq=False)
class WeightForm(EqualByValue):
    """Integer weights of a Conv or Gemm node, of the shape of the float ones, output channels first, zero point 0.

    `scales` is float32 [cout], `bits` the width (1: the integers are -1 and +1).
    """

    integers: IntArray
    scales: npt.NDArray[np.float32]
    bits: int

    @property
    def reals(self) -> npt.NDArray[np.float32]:
        """The weights that the integers mean."""
        scales = self.scales.reshape(-1, *[1] * (self.integers.ndim - 1))
        return np.asarray(self.integers.astype(np.float32) * scales)


def resolved_method(settings: WeightSettings) -> RangeMethod:
    """The method that automatic means: the whole range from 7 bits on, below that the smallest squared error.

    With 127 steps no weight is worth clipping; with 7 the few large ones take the steps away from all others.
    """
    if settings.method is not RangeMethod.AUTO:
        return settings.method
    return RangeMethod.MINMAX if settings.bits >= 7 else RangeMethod.MSE


def needs_products(settings: WeightSettings) -> bool:
    """Whether integers of resolved `settings` depend on calibration data, where there is some."""
    return settings.rounding.adapts or settings.method is RangeMethod.MSE


def needs_data(settings: WeightSettings) -> bool:
    """Whether weights or biases of resolved `settings` depend on calibration data, where there is some."""
    return needs_products(settings) or bool(settings.bias_correction)


def weight_form(weights: Array, settings: WeightSettings) -> WeightForm:
    """Symmetric, narrow integers, -(2**(bits-1) - 1) to 2**(bits-1) - 1, for float `weights` [cout, ...].

    One scale per output channel, or the same for all.  One bit means -1 and +1 times the mean of absolute values, which
    has the smallest squared error (Rastegari et al., XNOR-Net, 2016, section 3.1).  A channel of nothing but zeros has
    scale 1, and with one bit the smallest scale there is.
    """
    rows = np.asarray(weights, np.float64).reshape(len(weights), -1)
    seen = rows if settings.per_channel else rows.reshape(1, -1)
    if settings.bits == 1:
        scales = np.abs(seen).mean(axis=1)
    elif resolved_method(settings) is RangeMethod.MSE:
        scales = _least_squares(seen, settings.bits)
    else:
        scales = np.abs(seen).max(axis=1) / _limit(settings.bits)
    scales = np.where((scales > 0) | (settings.bits == 1), scales, 1.0)
    scales = np.maximum(scales, SMALLEST_NORMAL).astype(np.float32)
    all_scales = np.broadcast_to(scales, len(rows)).copy()
    return WeightForm(nearest(weights, all_scales, settings.bits), all_scales, settings.bits)


def nearest(weights: Array, scales: npt.NDArray[np.float32], bits: int) -> npt.NDArray[np.int64]:
    """The integers of `bits` bits nearest to `weights` [cout, ...] / `scales` [cout], half to even."""
    if bits == 1:
        return np.where(np.asarray(weights, np.float64) >= 0, 1, -1).astype(np.int64)
    steps = scales.astype(np.float64).reshape(-1, *[1] * (weights.ndim - 1))
    limit = _limit(bits)
    return np.clip(np.rint(np.asarray(weights, np.float64) / steps), -limit, limit).astype(np.int64)


def _limit(bits: int) -> int:
    return (1 << (bits - 1)) - 1


def _least_squares(rows: npt.NDArray[np.float64], bits: int) -> npt.NDArray[np.float64]:
    """The scale of each row whose integers have the smallest sum of squared errors, of those that are tried."""
    limit = _limit(bits)
    largest = np.abs(rows).max(axis=1)
    best: npt.NDArray[np.float64] = largest / limit
    least = np.full(len(rows), np.inf)
    for share in _SHARES:
        scales = np.maximum(share * largest / limit, SMALLEST_NORMAL)
        integers = np.clip(np.rint(rows / scales[:, None]), -limit, limit)
        error = np.square(rows - integers * scales[:, None]).sum(axis=1)
        better = error < least
        best, least = np.where(better, scales, best), np.where(better, error, least)
    return np.where(largest > 0, best, 0.0)


def emit_dequantized(
    name: str, integers: Array, scales: npt.NDArray[np.float32], axis: int | None, added: Additions
) -> str:
    """The reals of integers with zero point 0, for the constant `name`, after which all of it is called."""
    parameters = (
        added.constant(f"{name}_quantized", integers),
        added.float32(f"{name}_scale", scales),
        added.constant(f"{name}_zero_point", np.zeros(scales.shape, integers.dtype)),
    )
    along: dict[str, Attribute] = {} if axis is None else {"axis": axis}
    return added.emit("DequantizeLinear", *parameters, wish=f"{name}_dequantized", attributes=along)


# Integer weights of recurrent nodes: W and R behind DequantizeLinear, with a scale for each row of each gate.
#
# What else a recurrent layer rounds, its bias, the sums in front of its gates and its states, has no place in a QDQ
# model: the importer decides it (`importer/kinds/recurrent.py`).


#: Of a recurrent node: W [directions, gates * hidden, inputs] and R [directions, gates * hidden, hidden].
_MATRICES = (1, 2)


def has_real_weights(model: Model) -> bool:
    """Whether a recurrent node has weights that are no integers yet."""
    constants = model.graph.initializers
    return any(is_recurrent(node) and any(node.inputs[k] in constants for k in _MATRICES) for node in model.graph.nodes)


def is_loop(node: Node, constants: Container[str]) -> bool:
    """True for a recurrent node whose weights, two tensors, and bias, if it has one, are among `constants`."""
    named = [name for name in node.inputs[1:4] if name]
    return is_recurrent(node) and len(set(named)) == len(named) and all(name in constants for name in named)


def recurrent_weights(
    model: Model, settings: Callable[[Node], WeightSettings],
    forms: Mapping[str, Sequence[WeightForm]] | None = None,
) -> Model:  # fmt: skip
    """`model` with integers for the weights of recurrent nodes that are plain constants.

    `forms` has those of W and R by the `label_of` a node, with the rows of both directions one behind the other; of
    other nodes they are the nearest ones, by the `settings` of each.
    """
    graph = model.graph
    added = Additions(graph)
    for node in graph.nodes:
        inputs = [*node.inputs]
        for k, place in enumerate(_MATRICES if is_recurrent(node) else ()):
            weights, known = graph.initializers.get(inputs[place]), (forms or {}).get(label_of(node))
            if weights is not None:
                rows = weights.reshape(-1, weights.shape[-1])
                form = known[k] if known else weight_form(rows, settings(node))
                inputs[place] = _emit_matrix(inputs[place], weights, form, added)
        added.nodes.append(replace(node, inputs=tuple(inputs)))
    return added.into(model)


def _emit_matrix(name: str, weights: Array, form: WeightForm, added: Additions) -> str:
    """The reals of integers `form` of the rows of `weights` [directions, rows, columns].

    Two directions have the scales of their rows along one axis, for DequantizeLinear knows no more.
    """
    both = len(weights) > 1
    integers = form.integers.astype(np.int8 if form.bits <= 8 else np.int16)
    integers = integers if both else integers.reshape(weights.shape)
    result = emit_dequantized(name, integers, form.scales, 0 if both else 1, added)
    if not both:
        return result
    shape = added.int64(f"{name}_shape", weights.shape)
    return added.emit("Reshape", result, shape, wish=f"{name}_whole")
