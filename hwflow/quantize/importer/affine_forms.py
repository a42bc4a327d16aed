"""Affine nodes and limits after an anchor as one exact function: clamp(unit * (a + whole) + offset, low, high)."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TypeAlias

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.layers.rescale import Rounding
from hwflow.quantize.constants import Quantity
from hwflow.quantize.graphs import attribute
from hwflow.quantize.importer.states import Step, Unrounded

#: A real number, or an infinity.
Bound: TypeAlias = "Fraction | float"

#: A bias whose scale agrees this well with the scale of the products keeps its integers.
_SAME_SCALE = 1e-6

_HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Form:
    """clamp(unit * (a + whole) + offset, low, high) for an anchor's integer a, per channel (or one for all).

    With a `rounding` the affine part is rounded to an integer; then `integer_offset` is added; then the sum is limited.
    With `outward` the affine part moves so far away from zero; then the sum is limited.
    """

    unit: tuple[Fraction, ...]
    whole: IntArray
    offset: tuple[Fraction, ...]
    low: tuple[Bound, ...]
    high: tuple[Bound, ...]
    rounding: Rounding | None = None
    integer_offset: int = 0
    outward: tuple[Fraction, ...] | None = None

    @staticmethod
    def linear(unit: tuple[Fraction, ...]) -> Form:
        count = len(unit)
        return Form(unit, np.zeros(count, np.int64), (Fraction(0),) * count, (-math.inf,) * count, (math.inf,) * count)

    @property
    def limited(self) -> bool:
        return any(not _infinite(end) for end in (*self.low, *self.high))

    def scaled(self, factors: tuple[Fraction, ...]) -> Form | None:
        """Times `factors`."""
        if self.rounding is not None:
            return None
        ends = [sorted((_times(a, f), _times(b, f))) for a, b, f in zip(self.low, self.high, factors, strict=True)]
        return replace(
            self,
            unit=tuple(u * f for u, f in zip(self.unit, factors, strict=True)),
            offset=tuple(o * f for o, f in zip(self.offset, factors, strict=True)),
            low=tuple(end[0] for end in ends),
            high=tuple(end[1] for end in ends),
            outward=self.outward and tuple(o * abs(f) for o, f in zip(self.outward, factors, strict=True)),
        )

    def moved_outward(self, distances: tuple[Fraction, ...]) -> Form | None:
        """Plus its sign times `distances`."""
        if self.limited or self.rounding is not None or self.outward is not None or min(distances) < 0:
            return None
        return replace(self, outward=distances)

    def shifted(self, offsets: tuple[Fraction, ...]) -> Form | None:
        """Plus `offsets`; None after a rounding unless all of them are the same integer, and after a move outward."""
        if self.outward is not None and any(offsets):
            return None
        integer_offset, offset = self.integer_offset, self.offset
        if self.rounding is None:
            offset = tuple(o + f for o, f in zip(self.offset, offsets, strict=True))
        elif len(set(offsets)) == 1 and offsets[0].denominator == 1:
            integer_offset += int(offsets[0])
        else:
            return None
        return replace(
            self,
            offset=offset,
            integer_offset=integer_offset,
            low=tuple(_plus(a, f) for a, f in zip(self.low, offsets, strict=True)),
            high=tuple(_plus(a, f) for a, f in zip(self.high, offsets, strict=True)),
        )

    def plus(self, value: Quantity, sign: int = 1) -> Form | None:
        """Plus or minus a constant; integers with the scale of the products stay integers."""
        count = len(self.unit)
        if value.is_quantized and not self.limited and self.rounding is None and self.outward is None:
            scale, unit = np.broadcast_to(value.scale, (count,)), np.array([float(u) for u in self.unit])
            with np.errstate(all="ignore"):
                same = bool(np.all(np.abs(scale / unit - 1) < _SAME_SCALE))
            if same:
                return replace(self, whole=self.whole + sign * np.broadcast_to(value.integers, (count,)))
        return self.shifted(tuple(sign * f for f in _fractions(value, count)))

    def clamped(self, low: Bound, high: Bound) -> Form:
        """After a Relu or Clip.  Where the limits cross, ONNX's Clip gives the upper one."""
        return replace(
            self,
            low=tuple(min(max(end, low), high) for end in self.low),
            high=tuple(min(max(end, low), high) for end in self.high),
        )

    def rounded(self, rounding: Rounding) -> Form | None:
        """After a Floor, Ceil or Round.  Floor of x + 1/2, and Ceil of x - 1/2, round to the nearest integer."""
        if self.limited or self.rounding is not None or self.outward is not None:
            return None
        nearest = {(Rounding.FLOOR, _HALF): Rounding.HALF_UP, (Rounding.CEIL, -_HALF): Rounding.HALF_DOWN}
        for (direction, half), meant in nearest.items():
            if rounding is direction and all(offset == half for offset in self.offset):
                return replace(self, offset=(Fraction(0),) * len(self.offset), rounding=meant)
        return replace(self, rounding=rounding)


def _infinite(end: Bound) -> bool:
    return isinstance(end, float) and math.isinf(end)


def _times(end: Bound, factor: Fraction) -> Bound:
    if not _infinite(end):
        return end * factor
    if factor == 0:
        return Fraction(0)
    return end if factor > 0 else -end


def _plus(end: Bound, offset: Fraction) -> Bound:
    return end if _infinite(end) else end + offset


def _fractions(value: Quantity, count: int) -> tuple[Fraction, ...]:
    """A constant as `count` exact numbers; ValueError where it is not finite."""
    return tuple(Fraction(float(v)) for v in np.broadcast_to(value.real, (count,)))


@dataclass(frozen=True)
class SignOf:
    """The sign of an anchor's result, or of what `form_of` makes of it, times `factors`."""

    value: str
    factors: tuple[Fraction, ...]

    def scaled(self, factors: tuple[Fraction, ...]) -> SignOf:
        return SignOf(self.value, tuple(a * b for a, b in zip(self.factors, factors, strict=True)))


def form_of(unrounded: Unrounded, start: Form) -> Form | None:
    """The result of `unrounded`, whose anchor has the form `start`; None where it has no such form."""
    forms: dict[str, Form | SignOf | None] = {unrounded.anchor.key: start}
    try:
        for step in unrounded.steps:
            forms[step.result] = _form_after(step, forms)
    except (ValueError, OverflowError, ZeroDivisionError):  # a constant that is no finite number, or a division by 0
        return None
    found = forms[unrounded.result]
    return found if isinstance(found, Form) else None


def _form_after(step: Step, forms: Mapping[str, Form | SignOf | None]) -> Form | SignOf | None:
    """The result of a step: of one computed input, or of a value and its sign."""
    computed = [(source, forms[source]) for source in step.inputs if isinstance(source, str)]
    kind, (name, first) = step.node.op_type, computed[0]
    if len(computed) == 2 and kind == "Add":
        for (value, form), (_, sign) in (computed, computed[::-1]):
            if isinstance(form, Form) and isinstance(sign, SignOf) and sign.value == value:
                return form.moved_outward(sign.factors)
    if len(computed) != 1:
        return None
    if kind == "Sign" and isinstance(first, Form):
        return SignOf(name, (Fraction(1),) * len(first.unit))
    if isinstance(first, SignOf):
        return first.scaled(_fractions(_constants(step)[0], len(first.factors))) if kind == "Mul" else None
    return _TRANSITIONS[kind](step, {name: first}) if kind in _TRANSITIONS else None


_Forms: TypeAlias = Mapping[str, "Form | None"]


def _source(step: Step, forms: _Forms) -> Form | None:
    return next(forms[source] for source in step.inputs if isinstance(source, str))


def _constants(step: Step) -> list[Quantity]:
    return [source for source in step.inputs if isinstance(source, Quantity)]


def _add(step: Step, forms: _Forms) -> Form | None:
    source = _source(step, forms)
    return source and source.plus(_constants(step)[0])


def _subtract(step: Step, forms: _Forms) -> Form | None:
    source, (value,) = _source(step, forms), _constants(step)
    if source is None or isinstance(step.inputs[0], str):
        return source and source.plus(value, -1)
    negative = source.scaled((Fraction(-1),) * len(source.unit))
    return negative and negative.plus(value)


def _multiply(step: Step, forms: _Forms) -> Form | None:
    source, (value,) = _source(step, forms), _constants(step)
    return source and source.scaled(_fractions(value, len(source.unit)))


def _divide(step: Step, forms: _Forms) -> Form | None:
    source, (value,) = _source(step, forms), _constants(step)
    if source is None or not isinstance(step.inputs[0], str):
        return None
    return source.scaled(tuple(1 / f for f in _fractions(value, len(source.unit))))


def _negate(step: Step, forms: _Forms) -> Form | None:
    source = _source(step, forms)
    return source and source.scaled((Fraction(-1),) * len(source.unit))


def _normalise(step: Step, forms: _Forms) -> Form | None:
    """Batch normalization: scale * (x - mean) / sqrt(variance + epsilon) + bias."""
    source, (scale, bias, mean, variance) = _source(step, forms), _constants(step)
    if source is None:
        return None
    count = len(source.unit)
    factor = scale.real / np.sqrt(variance.real + attribute(step.node, "epsilon", 1e-5))
    factors = tuple(Fraction(float(f)) for f in np.broadcast_to(factor, (count,)))
    means, biases = _fractions(mean, count), _fractions(bias, count)
    offsets = tuple(b - m * f for b, m, f in zip(biases, means, factors, strict=True))
    scaled = source.scaled(factors)
    return scaled and scaled.shifted(offsets)


def _relu(step: Step, forms: _Forms) -> Form | None:
    source = _source(step, forms)
    return source and source.clamped(Fraction(0), math.inf)


def _clip(step: Step, forms: _Forms) -> Form | None:
    source = _source(step, forms)
    ends = [-math.inf if k == 0 else math.inf for k in range(2)]
    for k, value in enumerate(step.inputs[1:3]):
        if isinstance(value, Quantity):
            ends[k] = float(value.real.reshape(()))
    if any(math.isnan(end) for end in ends):
        return None
    low, high = (end if math.isinf(end) else Fraction(end) for end in ends)
    return source and source.clamped(low, high)


def _round(rounding: Rounding) -> Callable[[Step, _Forms], Form | None]:
    def transition(step: Step, forms: _Forms) -> Form | None:
        source = _source(step, forms)
        return source and source.rounded(rounding)

    return transition


_TRANSITIONS: Mapping[str, Callable[[Step, _Forms], Form | None]] = {
    "Add": _add,
    "BatchNormalization": _normalise,
    "Ceil": _round(Rounding.CEIL),
    "Clip": _clip,
    "Div": _divide,
    "Floor": _round(Rounding.FLOOR),
    "Mul": _multiply,
    "Neg": _negate,
    "Relu": _relu,
    "Round": _round(Rounding.HALF_EVEN),
    "Sub": _subtract,
}
