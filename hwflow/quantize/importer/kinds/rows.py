"""Softmax and normalizations: layers that look at rows of elements, wherever these are in the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers import Normalize, Softmax
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.softmax import WIDEST_INPUT
from hwflow.onnx.model import Node
from hwflow.quantize.graphs import as_ints, attribute, shape_of
from hwflow.quantize.importer.layer_anchors import form_behind
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import (
    Entry,
    Held,
    LayerAnchor,
    LayerTask,
    Parameters,
    TensorState,
    Unrounded,
    Unsupported,
)
from hwflow.quantize.importer.steps import uniform, varies

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Rows:
    """`factor` times a tensor whose raster is rows of `elements`, one after the other.

    `index` is that of the tensor, in the shape that the axes of the rows were counted in.
    """

    held: Held
    factor: Fraction
    elements: int
    index: IntArray

    def by_place(self, values: Floats) -> Floats:
        """Constants that broadcast to `index`, by the places of the elements: [rows, elements]."""
        spread = np.broadcast_to(values, self.index.shape).ravel()
        ordered: Floats = spread[np.argsort(self.index.ravel())].reshape(-1, self.elements)
        return ordered


def rows_along(context: NodeContext, name: str, axes: Sequence[int], shape: Sequence[int] | None = None) -> Rows:
    """The tensor `name`, whose rows are the elements along `axes`; they are put beside each other where they are not.

    The order inside of a row and that of the rows is that of the raster.  `shape`: that in which axes are counted, if
    not the tensor's own.  Unsupported where the tensor is no integers.
    """
    state, factor = context.states[name], Fraction(1)
    if isinstance(state, Entry):
        held = context.rows(name, axes[0], in_order=False) if len(axes) == 1 and shape is None else context.held(name)
    else:
        held, factor = context.operand(name)
    index = held.index.reshape(shape or held.index.shape)
    along = sorted(axis % index.ndim for axis in axes)
    others = tuple(k for k in range(index.ndim) if k not in along)
    rows = np.moveaxis(index, others, range(len(others)))
    count = int(np.prod(rows.shape[len(others):]))
    if not _in_rows(rows.reshape(-1, count), context.tensors[held.tensor].frame):
        if shape is None:
            held = context.movement.pixels(held, name, others)
            index = held.index
        else:
            in_rows = context.movement.chosen(held, name, rows.reshape(-1, count))
            index = np.moveaxis(in_rows.index.reshape(rows.shape), range(len(others)), others)
            held = replace(in_rows, index=index.reshape(held.index.shape))
    return Rows(held, factor, count, index)


def _in_rows(rows: IntArray, frame: Frame) -> bool:
    """Whether each of `rows` is a run of the frame's raster, and all of them are the whole of it."""
    rows = np.sort(rows, axis=1)
    rows = rows[np.argsort(rows[:, 0])]
    return rows.size == frame.elements and np.array_equal(rows.ravel(), np.arange(frame.elements))


def compressed(values: Sequence[Floats]) -> list[Floats]:
    """Constants [rows, elements] as [rows or 1, period]: the fewest that say the same of all of `values`."""
    count = values[0].shape[1]
    rows = 1 if all((value == value[:1]).all() for value in values) else len(values[0])

    def repeats(period: int) -> bool:
        return all((value.reshape(len(value), -1, period) == value[:, None, :period]).all() for value in values)

    period = next(n for n in range(1, count + 1) if count % n == 0 and repeats(n))
    return [value[:rows, :period] for value in values]


def affine_behind(unrounded: Unrounded, p: Parameters) -> tuple[Floats, Floats, tuple[int, int]]:
    """The function from an anchor up to its QuantizeLinear: a factor and a summand for each channel of its frame, and
    the least and the largest integer.  Refusal where it is something else.
    """
    channels = unrounded.anchor.frame.channels if varies(unrounded) else 1
    unrounded = unrounded if channels > 1 else uniform(unrounded)
    form = form_behind(unrounded, p, channels)
    summand = [w * u + o for u, w, o in zip(form.unit, form.whole.tolist(), form.offset, strict=True)]
    ends = p.integer_of(form.low[0]), p.integer_of(form.high[0])
    return np.array(form.unit, np.float64), np.array(summand, np.float64), ends


def only_first_output(context: NodeContext, node: Node) -> None:
    """Unsupported where something reads another result of `node` than its first."""
    read = {name for other in context.graph.nodes for name in other.inputs} | {v.name for v in context.graph.outputs}
    further = [name for name in node.outputs[1:] if name in read]
    if further:
        raise Unsupported(f"its further result '{further[0]}' has no hardware", "use its first result alone")


def softmax(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A Softmax of operator set 13 or later, along one axis."""
    rows = rows_along(context, dynamic[0], (attribute(node, "axis", -1),))
    frame = context.tensors[rows.held.tensor].frame
    anchor = SoftmaxAnchor(node, node.outputs[0], frame, (rows.held,), rows.factor, rows.elements)
    return Unrounded.of(anchor, rows.held.index)


@dataclass(frozen=True)
class SoftmaxAnchor(LayerAnchor):
    """Softmax of `factor` times the source, over rows of `elements`."""

    factor: Fraction
    elements: int

    def layer(self, task: LayerTask) -> Softmax:
        (x,), p = task.xs, task.parameters
        if x.format.bits > WIDEST_INPUT or x.format.bipolar:
            raise Refusal(
                f"its input '{x.name}' is {x.format}, and the table of a Softmax is for numbers of up to "
                f"{WIDEST_INPUT} bits", f"quantize that input with {WIDEST_INPUT} bits or fewer"
            )
        factors, summands, (low, high) = affine_behind(task.unrounded, p)
        steps = summands[0] / p.scale
        if len(set(factors)) > 1 or factors[0] <= 0 or len(set(summands)) > 1 or steps != round(steps):
            raise Refusal(
                f"constants behind {self.node.label} must be one positive factor, and a multiple of the scale of the "
                f"result, {p.scale:g}", "quantize its result first"
            )
        scaled = replace(task.y, scale=p.scale / float(factors[0]), zero_point=p.zero_point + int(steps))
        softmax_layer = Softmax.of(task.name, x, scaled, self.elements, self.factor)
        return replace(softmax_layer, low=low, high=high)



_EPSILON = 1e-5
#: GroupNormalization has a scale for each channel from this version on, before that one for each group.
_SCALE_PER_CHANNEL = 21


def layer_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """Over all axes from 'axis' on; the statistics that it can give besides have no hardware."""
    only_first_output(context, node)
    return _normalized(context, node, _from_axis(context, node), _Normalization(*_parameters(context, node)))


def rms_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """Over all axes from 'axis' on, without a mean."""
    normalization = _Normalization(*_parameters(context, node), centred=False)
    return _normalized(context, node, _from_axis(context, node), normalization)


def instance_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """Over the pixels of each channel."""
    rank = len(_shape(context, node))
    gamma, beta = (values.reshape(-1, *[1] * (rank - 2)) for values in _parameters(context, node))
    return _normalized(context, node, range(2, rank), _Normalization(gamma, beta))


def group_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """Over the pixels and channels of each group of channels."""
    groups, (batch, channels, *pixels) = attribute(node, "num_groups", 1), _shape(context, node)
    gamma, beta = _parameters(context, node)
    if context.opsets.get("", 0) < _SCALE_PER_CHANNEL:
        gamma, beta = (np.repeat(values, channels // groups) for values in (gamma, beta))
    gamma, beta = (values.reshape(groups, channels // groups, *[1] * len(pixels)) for values in (gamma, beta))
    shape = (batch, groups, channels // groups, *pixels)
    return _normalized(context, node, range(2, len(shape)), _Normalization(gamma, beta), shape)


def mean_variance_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """Over 'axes'; what the operator adds to the deviation, 1e-9, is nothing beside a step of integers."""
    axes = as_ints(attribute(node, "axes", (0, 2, 3)))
    return _normalized(context, node, axes, _Normalization(np.ones(()), np.zeros(()), epsilon=0.0))


def length_normalization(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """An LpNormalization with p = 2."""
    if attribute(node, "p", 2) != 2:
        raise Unsupported("p must be 2", "divide by the sum of absolute values in the model, or take p = 2")
    axes = (attribute(node, "axis", -1),)
    normalization = _Normalization(np.ones(()), np.zeros(()), centred=False, mean=False, epsilon=0.0)
    return _normalized(context, node, axes, normalization)


@dataclass(frozen=True)
class _Normalization:
    """A normalization as its operator says it; `epsilon` None is that of the node."""

    gamma: Floats
    beta: Floats
    centred: bool = True
    mean: bool = True
    epsilon: float | None = None


def _normalized(
    context: NodeContext, node: Node, axes: Sequence[int], by: _Normalization, shape: Sequence[int] | None = None
) -> TensorState:
    """The anchor of a normalization along `axes`; with `shape` these and the constants are those of that shape."""
    rows = rows_along(context, node.inputs[0], axes, shape)
    anchor = NormalAnchor(
        node, node.outputs[0], context.tensors[rows.held.tensor].frame, (rows.held,), rows.elements, rows.factor,
        rows.by_place(by.gamma), rows.by_place(by.beta), by.centred, by.mean,
        attribute(node, "epsilon", _EPSILON) if by.epsilon is None else by.epsilon)
    return Unrounded.of(anchor, rows.held.index)


@dataclass(frozen=True)
class NormalAnchor(LayerAnchor):
    """A normalization of `factor` times the source; the fields are those of `Normalize.of`.

    gamma and beta are float64 [rows, elements].
    """

    elements: int
    factor: Fraction
    gamma: Floats
    beta: Floats
    centred: bool
    mean: bool
    epsilon: float

    def layer(self, task: LayerTask) -> Normalize:
        (x,), p = task.xs, task.parameters
        factors, summands, (low, high) = affine_behind(task.unrounded, p)
        places = self.frame.elements
        factors, summands = (np.resize(values, places).reshape(self.gamma.shape) for values in (factors, summands))
        sign, scale = (1 if self.factor > 0 else -1), float(abs(self.factor))
        gamma, beta = compressed([sign * self.gamma * factors, self.beta * factors + summands])
        normalize = Normalize.of(
            task.name, replace(x, scale=x.scale * scale), replace(task.y, scale=p.scale, zero_point=p.zero_point),
            centred=self.centred, mean=self.mean, epsilon=self.epsilon, gamma=gamma, beta=beta,
            elements=self.elements)
        return replace(normalize, low=low, high=high)


def _shape(context: NodeContext, node: Node) -> tuple[int, ...]:
    """The shape of the first input."""
    shape = shape_of(context.graph, node.inputs[0])
    assert shape is not None, "the shapes of a graph that is imported are known"
    return tuple(shape)


def _from_axis(context: NodeContext, node: Node) -> range:
    """The axes from 'axis' on."""
    rank = len(_shape(context, node))
    return range(attribute(node, "axis", -1) % rank, rank)


def _parameters(context: NodeContext, node: Node) -> tuple[Floats, Floats]:
    """Scale and bias, constants; a bias that is left out is 0."""
    arrays = []
    for name in (*node.inputs[1:3], "")[:2]:
        if name and name not in context.constants:
            raise Unsupported(f"its parameter '{name}' is computed", "make it a constant")
        arrays.append(context.constants[name].real if name else np.zeros(()))
    return arrays[0], arrays[1]
