"""Tensors as rows of elements that a softmax or a normalization looks at together, wherever they are in the frame."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal

from hwflow.layers.formats import Frame, IntArray
from hwflow.onnx.model import Node
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.site import Site
from hwflow.quantize.importer.states import Entry, Held, Parameters, Pending, Unsupported
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


def rows_along(site: Site, name: str, axes: Sequence[int], shape: Sequence[int] | None = None) -> Rows:
    """The tensor `name`, whose rows are the elements along `axes`; they are put beside each other where they are not.

    The order inside of a row and that of the rows is that of the raster.  `shape`: that in which axes are counted, if
    not the tensor's own.  Unsupported where the tensor is no integers.
    """
    state, factor = site.states[name], Fraction(1)
    if isinstance(state, Entry):
        held = site.rows(name, axes[0], in_order=False) if len(axes) == 1 and shape is None else site.held(name)
    else:
        held, factor = site.operand(name)
    index = held.index.reshape(shape or held.index.shape)
    along = sorted(axis % index.ndim for axis in axes)
    others = tuple(k for k in range(index.ndim) if k not in along)
    rows = np.moveaxis(index, others, range(len(others)))
    count = int(np.prod(rows.shape[len(others):]))
    if not _in_rows(rows.reshape(-1, count), site.tensors[held.tensor].frame):
        if shape is None:
            held = site.movement.pixels(held, name, others)
            index = held.index
        else:
            made = site.movement.chosen(held, name, rows.reshape(-1, count))
            index = np.moveaxis(made.index.reshape(rows.shape), range(len(others)), others)
            held = replace(made, index=index.reshape(held.index.shape))
    return Rows(held, factor, count, index)


def _in_rows(rows: IntArray, frame: Frame) -> bool:
    """Whether each of `rows` is a run of the frame's raster, and all of them are the whole of it."""
    rows = np.sort(rows, axis=1)
    rows = rows[np.argsort(rows[:, 0])]
    return rows.size == frame.elements and np.array_equal(rows.ravel(), np.arange(frame.elements))


def compressed(values: Sequence[Floats]) -> list[Floats]:
    """Constants [rows, elements] as [rows or 1, period]: the fewest that say the same of all of `values`."""
    count = values[0].shape[1]
    rows = 1 if all((each == each[:1]).all() for each in values) else len(values[0])

    def repeats(period: int) -> bool:
        return all((each.reshape(len(each), -1, period) == each[:, None, :period]).all() for each in values)

    period = next(n for n in range(1, count + 1) if count % n == 0 and repeats(n))
    return [each[:rows, :period] for each in values]


def affine_behind(pending: Pending, p: Parameters) -> tuple[Floats, Floats, tuple[int, int]]:
    """What follows an anchor up to its QuantizeLinear: a factor and a summand for each channel of its frame, and the
    least and the largest integer.  Refusal where it is something else.
    """
    channels = pending.anchor.frame.channels if varies(pending) else 1
    pending = pending if channels > 1 else uniform(pending)
    form = form_of(pending, Form.linear((Fraction(1),) * channels))
    if form is None or form.rounding is not None or len(set(zip(form.low, form.high, strict=True))) > 1:
        raise Refusal(
            f"what follows {pending.anchor.node.label} must be constants, Relu and Clip up to its QuantizeLinear",
            "quantize its result first"
        )
    if p.format.bipolar:
        raise Refusal(
            f"the result of {pending.anchor.node.label} must have more than one symmetric bit, because only products "
            "are compared with thresholds", "take 2 bits, or an unsigned one"
        )
    ends = [p.low, p.high]
    for n, limit in enumerate((form.low[0], form.high[0])):
        if abs(limit) != float("inf"):
            ends[n] = min(max(round(Fraction(limit) / Fraction(p.scale)) + p.zero_point, p.low), p.high)
    summand = [w * u + o for u, w, o in zip(form.unit, form.whole.tolist(), form.offset, strict=True)]
    return np.array(form.unit, np.float64), np.array(summand, np.float64), (ends[0], ends[1])


def only_first_output(site: Site, node: Node) -> None:
    """Unsupported where something reads another result of `node` than its first."""
    read = {name for other in site.graph.nodes for name in other.inputs} | {v.name for v in site.graph.outputs}
    further = [name for name in node.outputs[1:] if name in read]
    if further:
        raise Unsupported(f"its further result '{further[0]}' has no hardware", "use its first result alone")
