"""Functions of elements whose constants differ from element to element, as those of positions and masks.

    x -> AveragePool of single pixels, whose classes have constants of their own
    x -> Rearrange to one row -> Conv, a channel for each element -> Rearrange back    where an element is negated
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np
from hwflow_base.errors import Refusal

from hwflow.layers import AveragePool, Layer, Requantize, Tensor
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.rearrange import Rearrange, picked
from hwflow.layers.rescale import Rescale, Thresholds
from hwflow.onnx.model import Array, Node
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import label_of
from hwflow.quantize.importer.affine_forms import Form, form_of
from hwflow.quantize.importer.choose_rescale import Accumulator, Affine, affine, rescale, signed
from hwflow.quantize.importer.layer_anchors import Matrix, TensorAnchor, joined_thresholds, matrix_form, raw_layer
from hwflow.quantize.importer.states import QUANTIZE_ALL, Held, Lacking, LayerTask, Parameters, Step, Unrounded
from hwflow.quantize.importer.steps import Function
from hwflow.quantize.importer.threshold_search import search

#: Elements whose thresholds are searched for at a time.
_AT_ONCE = 1024


class Negated(Exception):
    """Raised where a mean of single pixels would have to negate an element, or to forget it."""


def has_constants_per_element(unrounded: Unrounded) -> bool:
    """True where a step has a constant for each element of the frame, and the anchor takes fewer."""
    most = unrounded.anchor.constants
    sources = (source for step in unrounded.steps for source in step.inputs)
    return any(isinstance(x, Quantity) and x.real.ndim > 0 and x.real.size > most for x in sources)


def _has_per_element(step: Step, frame: Frame) -> bool:
    return any(_is_per_element(source, frame) for source in step.inputs)


def _is_per_element(source: str | Quantity | None, frame: Frame) -> bool:
    return isinstance(source, Quantity) and source.real.ndim > 0 and source.real.size > frame.channels


def first_per_element(unrounded: Unrounded) -> Node:
    """The first node with such constants."""
    return next(step.node for step in unrounded.steps if _has_per_element(step, unrounded.anchor.frame))


@dataclass(frozen=True)
class PerElement:
    """The layers of a task some of whose steps have a constant for each element.

    The last layer has the name of the task; `layer_name` and `tensor_name` make names of others that are free.
    """

    task: LayerTask
    layer_name: Callable[[str], str]
    tensor_name: Callable[[str], str]

    @property
    def unrounded(self) -> Unrounded:
        return self.task.unrounded

    @property
    def parameters(self) -> Parameters:
        return self.task.parameters

    def layers(self) -> Iterator[tuple[Layer, Tensor]]:
        """The layers, each with what it makes, `y` last.

        Lacking: steps behind anything but a tensor of the graph or a product.
        """
        anchor, x = self.unrounded.anchor, self.task.xs[0]
        if isinstance(anchor, TensorAnchor):
            start = Form.linear((Fraction(x.scale),) * x.frame.channels)
            try:
                yield self._average(start, x), self.task.y
            except Negated:
                yield from self._by_channels(anchor)
            return
        if not isinstance(anchor, Matrix):
            raise Lacking(
                f"computes with constants that differ from element to element and the result of {anchor.node.label}, "
                "which no QuantizeLinear made integer", (anchor.key,))
        name = self.layer_name(label_of(anchor.node))
        layer, sums, _ = raw_layer(replace(anchor, bias=None), x, name, self.tensor_name(f"{anchor.key}.sums"))
        yield layer, sums
        try:
            yield self._average(matrix_form(anchor, x), sums), self.task.y
        except Negated:
            raise Refusal(
                f"multiplies the result of {anchor.node.label} by constants that differ from element to element and "
                "are not all positive", QUANTIZE_ALL) from None

    def _average(self, start: Form, x: Tensor) -> AveragePool:
        """A mean of single pixels; an element of channel c of `x` has the form `start`, entry c.

        Pixels with equal constants are a class, as far as rows and columns are.  Negated: there is none.
        """
        classes, frame = _Classes.of(self.unrounded, x.frame), x.frame

        def part(places: IntArray) -> tuple[Unrounded, Form, Accumulator]:
            ones = np.ones(len(places), np.int64)
            sums = Accumulator(x.zero_point * ones, x.format.low * ones, x.format.high * ones)
            return _chosen(self.unrounded, frame, places), _of(start, places % frame.channels), sums

        whole, begin, sums = part(classes.elements)
        form = form_of(whole, begin)
        if form is not None and (form.rounding is None or self.parameters.scale == 1):
            rescaling = self._affine(form, sums)
        else:
            cuts = range(_AT_ONCE, len(classes.elements), _AT_ONCE)
            rescaling = self._searched([part(places) for places in np.split(classes.elements, cuts)])
        return AveragePool(
            self.task.name, (x.name,), self.task.y.name, x.format, rescaling, (1, 1), row_classes=classes.rows,
            column_classes=classes.columns)

    def _affine(self, form: Form, sums: Accumulator) -> Rescale:
        sign, p = signed(form), self.parameters
        gone = sign == 0
        if (sign < 0).any() or any(_constant(form, k, p) != p.zero_point for k in np.flatnonzero(gone).tolist()):
            raise Negated
        exact = _saturated(affine(_with_units(form, gone, p), sums, p), sums, p)
        return _without(rescale(exact, sums, self.task.y.format, self.task.stage), gone, sums, p)

    def _searched(self, parts: list[tuple[Unrounded, Form, Accumulator]]) -> Rescale:
        results = [search(form, sums, Function(steps, self.task.opsets), self.parameters)
                   for steps, form, sums in parts]
        if any((sign < 0).any() for sign, _ in results):
            raise Negated
        return joined_thresholds([levels for _, levels in results], [sums for _, _, sums in parts])

    def _by_channels(self, tensor: TensorAnchor) -> Iterator[tuple[Layer, Tensor]]:
        """All elements as the channels of one pixel, for a depthwise Conv whose weights negate some of them."""
        (x,), y, name = self.task.xs, self.task.y, self.task.name
        frame = x.frame
        row = replace(x, name=self.tensor_name(f"{y.name}.row"), frame=Frame(1, 1, frame.elements))
        result = replace(y, name=self.tensor_name(f"{y.name}.made"), frame=row.frame)
        zero, every = np.zeros(1, np.int64), np.arange(frame.elements, dtype=np.int64)
        to_row, back = self.layer_name(f"{name}.to_row"), self.layer_name(f"{name}.back")
        yield Rearrange(to_row, (x.name,), row.name, x.format, zero, zero, every, x.format.low), row
        sources = (Held(row.name, self.unrounded.index, real=True),)
        conv = Matrix.identity(replace(tensor, sources=sources, frame=row.frame))
        steps = replace(_chosen(self.unrounded, frame, every), anchor=conv)
        yield conv.layer(replace(self.task, unrounded=steps, xs=(row,), y=result)), result
        offsets = picked(frame)
        yield Rearrange(back, (result.name,), y.name, y.format, *offsets, y.format.low), y


def _of(start: Form, channels: IntArray) -> Form:
    """The entries of `start` for these channels."""
    unit, offset, low, high = (
        tuple(entries[c] for c in channels) for entries in (start.unit, start.offset, start.low, start.high))
    return Form(unit, start.whole[channels], offset, low, high)


def _with_units(form: Form, gone: IntArray, p: Parameters) -> Form:
    """With elements that count nothing as if they counted; `_without` takes them out again."""
    unit = tuple(Fraction(p.scale) if none else unit for unit, none in zip(form.unit, gone, strict=True))
    return replace(form, unit=unit)


def _constant(form: Form, at: int, p: Parameters) -> int:
    """The integer of an element that counts nothing."""
    return p.integer_of(min(max(form.offset[at], form.low[at]), form.high[at]))


def _saturated(a: Affine, sums: Accumulator, p: Parameters) -> Affine:
    """`a` with biases no larger than what makes every sum saturate: a mask of -1e9 needs no wide constants."""
    bias = []
    for b, ratio, low, high in zip(a.bias, a.ratio, sums.low.tolist(), sums.high.tolist(), strict=True):
        most = Fraction(p.high - a.zero_point + 1) / ratio - low
        least = Fraction(p.low - a.zero_point - 1) / ratio - high
        bias.append(b if least <= b <= most else Fraction(round(min(max(b, least - 1), most + 1))))
    return replace(a, bias=tuple(bias))


def _without(rescaling: Rescale, gone: IntArray, sums: Accumulator, p: Parameters) -> Rescale:
    """`rescaling` with the zero point for elements that count nothing."""
    if not gone.any():
        return rescaling
    if isinstance(rescaling, Requantize):
        bias, multiplier, shift = (
            np.where(gone, 0, field) for field in (rescaling.bias, rescaling.multiplier, rescaling.shift))
        return replace(rescaling, bias=bias, multiplier=multiplier, shift=shift)
    levels = np.arange(rescaling.low + 1, rescaling.high + 1)
    fixed = np.where(levels <= p.zero_point, sums.low[:, None], sums.high[:, None] + 1)
    return Thresholds(np.where(gone[:, None], fixed, rescaling.values), rescaling.low)


@dataclass(frozen=True)
class _Classes:
    """The class of each row and of each column; `elements` are those of the first pixel of each class of pixels."""

    rows: tuple[int, ...]
    columns: tuple[int, ...]
    elements: IntArray

    @staticmethod
    def of(unrounded: Unrounded, frame: Frame) -> _Classes:
        """Rows with equal constants are a class, and columns."""
        shape = (frame.height, frame.width, frame.channels)
        many = [source.real.reshape(shape) for step in unrounded.steps for source in step.inputs
                if isinstance(source, Quantity) and _is_per_element(source, frame)]  # fmt: skip
        rows, first_rows = _alike([value.reshape(frame.height, -1) for value in many])
        columns, first_columns = _alike([value.transpose(1, 0, 2).reshape(frame.width, -1) for value in many])
        pixels = (first_rows[:, None] * frame.width + first_columns).reshape(-1, 1)
        return _Classes(rows, columns, (pixels * frame.channels + np.arange(frame.channels)).ravel())


def _chosen(unrounded: Unrounded, frame: Frame, elements: IntArray) -> Unrounded:
    """`unrounded` with the constants of these elements of `frame`."""

    def of(source: str | Quantity | None) -> str | Quantity | None:
        if not isinstance(source, Quantity) or source.real.ndim == 0:
            return source
        places = elements if _is_per_element(source, frame) else elements % frame.channels
        return source.moved(lambda array: array[places])

    steps = tuple(replace(step, inputs=tuple(map(of, step.inputs))) for step in unrounded.steps)
    return replace(unrounded, steps=steps)


def _alike(values: list[Array]) -> tuple[tuple[int, ...], IntArray]:
    """The class of each line of all `values` together, in the order in which they come, and its first line."""
    lines = [b"".join(value[k].tobytes() for value in values) for k in range(len(values[0]))]
    numbers = {line: number for number, line in enumerate(dict.fromkeys(lines))}
    classes = tuple(numbers[line] for line in lines)
    return classes, np.array([classes.index(number) for number in range(len(numbers))], np.int64)
