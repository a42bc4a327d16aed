"""Choices that nobody has made, by noise: each candidate is fitted on some calibration rows and judged on the others.

First one way to find the ranges of all activations, with real weights; then how weights are rounded and biases
corrected, behind these activations; then other ranges for single tensors.  A candidate is taken where it is clearly
better than what is known (`Noise.beats`).  Work is counted, not timed, so the same rows give the same choices on every
machine.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.fitted import fit
from hwflow.quantize.calibrate.noise import EVEN, LIKELY, SURE, Judge, Noise, operations
from hwflow.quantize.calibrate.points import Point
from hwflow.quantize.calibrate.prepared import Prepared, activation_forms, activation_settings, chosen_of
from hwflow.quantize.calibrate.ranges import NOTHING, Range
from hwflow.quantize.calibrate.streams import operations_of_moments
from hwflow.quantize.calibrate.tune import choices
from hwflow.quantize.calibrate.weights import needs_data
from hwflow.quantize.chosen import Chosen, Gain
from hwflow.quantize.settings import (
    ActivationSettings,
    Effort,
    LayerSettings,
    QuantizationSettings,
    RangeMethod,
    WeightRounding,
    WeightSettings,
)

#: What the choices of a normal effort may take: so many times what the defaults take, and besides so many operations
#: (`noise.operations`), which are a second or two.
_TIMES, _BESIDES = 4, 1 << 30

#: Decibels that another range of one tensor alone must gain, with all else in reals.
_CLEAR = 0.5

#: Ways to find a range.  Entropy gives up many large values: with 7 bits and more it lost up to 10 dB.  With fewer, the
#: smallest squared error was better by 0.4 to 2.5 dB on six of seven networks, and worse by 3.5 dB on one.
_METHODS = (RangeMethod.MSE, RangeMethod.MINMAX, RangeMethod.PERCENTILE, RangeMethod.ENTROPY)
_FEW = 6

#: Ways to make weights integers, the one that should be best first.
_ROUNDINGS: tuple[tuple[str, WeightRounding, bool], ...] = (
    ("weights rounded adaptively, biases corrected", WeightRounding.ADAPTIVE, True),
    ("biases corrected", WeightRounding.NEAREST, True),
    ("weights rounded adaptively", WeightRounding.ADAPTIVE, False),
)

_RANGES, _SINGLE = "ranges", "ranges of single tensors"
_LEARNED, _JOINT = "ranges learned", "weights rounded jointly"

#: Parts of a range that a tensor of few bits may do with.
_SHARES = (0.8, 0.64, 0.5)

#: Bits at most of tensors whose ranges are learned, and of weights that are rounded jointly.
_LEAST_BITS = 4

_Change: TypeAlias = Callable[[QuantizationSettings], QuantizationSettings]


@dataclass(frozen=True)
class Choice:
    """`settings` with what was better, `noise` on the rows that were held back, and how it came to that."""

    settings: QuantizationSettings
    noise: Noise
    chosen: Chosen

    def after(self, first: str, decibels: float) -> Choice:
        """The same where another choice came before, which gained so much in the end."""
        gains = (Gain(first, decibels), *self.chosen.gains)
        return replace(self, chosen=replace(self.chosen, gains=gains))


def choose(prepared: Prepared, settings: QuantizationSettings) -> Choice | None:
    """What is better than the defaults, where `settings` leave it open, by the effort that they ask for.

    None where there is nothing to choose, or nothing to judge it by.
    """
    trial = prepared.trial
    if trial is None or not _is_open(settings, prepared):
        return None
    judge = Judge.of(prepared.twin, prepared.points, trial.held)
    if judge is None:
        return None
    left = math.inf if settings.effort is Effort.BEST else _TIMES * _by_default(prepared, settings) + _BESIDES
    fitted = replace(prepared, rows=trial.rows, seen=trial.seen)
    return _Work(fitted, judge, settings, settings, operations(prepared.twin), left).done()


def learn(prepared: Prepared, asked: QuantizationSettings, choice: Choice) -> Choice:
    """`choice`, made of what `asked` leaves open, with learned ranges and joint rounding where these are better."""
    trial = prepared.trial
    judge = None if trial is None else Judge.of(prepared.twin, prepared.points, trial.held)
    if trial is None or judge is None:
        return choice
    fitted = replace(prepared, rows=trial.rows, seen=trial.seen)
    work = _Work(fitted, judge, asked, choice.settings, operations(prepared.twin), math.inf,
                 [*choice.chosen.gains], dict.fromkeys(choice.chosen.omitted))
    return work.choice(work.learned(choice.noise))


def _by_default(prepared: Prepared, settings: QuantizationSettings) -> int:
    """About how many operations the defaults take: each row once for its ranges, and twice where weights are tuned."""
    rows = min(map(len, (prepared.rows or {}).values()))
    forms = activation_forms(prepared, activation_settings(prepared, settings, []))
    of_layers = choices(prepared.twin, forms, settings, has_data=True)
    tuned = any(needs_data(own) for own in of_layers.values())
    return (3 if tuned else 1) * rows * operations(prepared.twin) + (
        operations_of_moments(prepared.twin, rows) if tuned else 0)


def _is_open(settings: QuantizationSettings, prepared: Prepared) -> bool:
    outputs = any(_is_auto(chosen_of(point, settings)) for point in prepared.points)
    return outputs or any(_has_auto_weights(settings.layer(node.name)) for node in prepared.layers)


def _is_auto(chosen: ActivationSettings) -> bool:
    return chosen.method is RangeMethod.AUTO and chosen.range is None


def _has_auto_weights(layer: LayerSettings) -> bool:
    return layer.weights.rounding is WeightRounding.AUTO and layer.weights.bias_correction is None


@dataclass
class _Work:
    """`settings` are `asked` as far as they are chosen; `left` is in operations, of which a row takes `row`."""

    prepared: Prepared
    judge: Judge
    asked: QuantizationSettings
    settings: QuantizationSettings
    row: int
    left: float
    gained: list[Gain] = field(default_factory=list)
    omitted: dict[str, None] = field(default_factory=dict)

    def done(self) -> Choice:
        self.ranges()
        noise = self.roundings()
        if self.single_ranges():
            noise = self._tuned(self.settings)
        return self.choice(noise)

    def choice(self, noise: Noise) -> Choice:
        chosen = Chosen(self.judge.count, noise.decibels, tuple(self.gained), tuple(self.omitted))
        return Choice(self.settings, noise, chosen)

    def _pays(self, what: str, rows: int, operations: int = 0) -> bool:
        """Whether there is work left for one candidate more, over so many rows; it is gone then."""
        cost = rows * self.row + operations
        if self.left < cost:
            self.omitted[what] = None
            return False
        self.left -= cost
        return True

    def _forms(self, settings: QuantizationSettings) -> dict[str, ActivationForm]:
        return activation_forms(self.prepared, activation_settings(self.prepared, settings, []))

    def ranges(self) -> None:
        """One method for the ranges of all tensors."""
        seen = [self._forms(self.settings)]
        start = best = self.judge.noise(seen[0])
        label, taken = "", self.settings
        for method in _METHODS:
            candidate = _with_outputs(self.settings, method)
            forms = self._forms(candidate)
            if forms in seen or not self._pays(_RANGES, self.judge.count):
                continue
            seen.append(forms)
            noise = self.judge.noise(forms)
            if noise.beats(best, EVEN if method is RangeMethod.MSE and self._has_few_bits else SURE):
                best, taken, label = noise, candidate, f"ranges by {method.value}"
        if label:
            self.gained.append(Gain(label, best.gain(start)))
            self.settings = taken

    @property
    def _has_few_bits(self) -> bool:
        return all(chosen_of(point, self.settings).bits <= _FEW for point in self.prepared.points if not point.is_input)

    def roundings(self) -> Noise:
        """How weights are rounded, and whether biases are corrected, in all layers; the noise then."""
        forms = self._forms(self.settings)
        seen = [choices(self.prepared.twin, forms, self.settings, has_data=True)]
        start = best = self._tuned(self.settings)
        is_plain = all(chosen.rounding is WeightRounding.NEAREST for chosen in seen[0].values())
        name, taken = "", self.settings
        for label, rounding, corrected in _ROUNDINGS:
            candidate = _with_weights(self.settings, rounding, corrected)
            of_layers = choices(self.prepared.twin, forms, candidate, has_data=True)
            adaptive = rounding is WeightRounding.ADAPTIVE
            moments = operations_of_moments(self.prepared.twin, self._fitted) if adaptive else 0
            if of_layers in seen or not self._pays(label, self.judge.count + 2 * self._fitted, moments):
                continue
            seen.append(of_layers)
            noise = self._tuned(candidate)
            if noise.beats(best, LIKELY if corrected and is_plain and not name else SURE):
                best, taken, name = noise, candidate, label
        if name:
            self.gained.append(Gain(name, best.gain(start)))
            self.settings = taken
        return best

    @property
    def _fitted(self) -> int:
        return min(map(len, (self.prepared.rows or {}).values()))

    def _tuned(self, settings: QuantizationSettings) -> Noise:
        fitted = fit(self.prepared, settings, [])
        return self.judge.noise(fitted.activations, fitted.tuned)

    def learned(self, before: Noise) -> Noise:
        """Ranges of few bits that are learned, and weights of few bits that are rounded jointly; the noise then."""
        best = before
        for label, change in ((_LEARNED, _with_learned_ranges), (_JOINT, _with_joint_weights)):
            candidate = change(self.asked, self.settings)
            if candidate == self.settings:
                continue
            noise = self._tuned(candidate)
            if noise.beats(best, LIKELY):
                self.gained.append(Gain(label, noise.gain(best)))
                best, self.settings = noise, candidate
        return best

    def single_ranges(self) -> bool:
        """Other ranges for single tensors, or those that share a format: what makes least noise alone.

        Whether there are some that are better also together, with real weights.
        """
        changed, labels = self.settings, list[str]()
        for group in self._groups():
            change = self._best_of(group)
            if change is not None:
                changed = change(changed)
                labels.append(f"'{group[0].owner}'")
        if not labels:
            return False
        before, after = (self.judge.noise(self._forms(settings)) for settings in (self.settings, changed))
        if not after.beats(before):
            return False
        names = ", ".join(labels[:3]) + (f" and {len(labels) - 3} more" if len(labels) > 3 else "")
        self.gained.append(Gain(f"other ranges of {names}", after.gain(before)))
        self.settings = changed
        return True

    def _groups(self) -> Iterator[tuple[Point, ...]]:
        """Points by what shares a format, where the methods of all are ours to choose."""
        common = {name: group for group in self.prepared.common for name in group}
        points = {point.tensor: point for point in self.prepared.points}
        for names in dict.fromkeys(common.get(name, (name,)) for name in points):
            group = tuple(points[name] for name in names)
            if all(_is_auto(chosen_of(point, self.asked)) for point in group):
                yield group

    def _best_of(self, group: tuple[Point, ...]) -> _Change | None:
        """The change whose noise is least where only the tensors of `group` are integers; None where none is better."""
        tensors = {point.tensor for point in group}
        best: Noise | None = None
        chosen, seen = None, list[dict[str, ActivationForm]]()
        for change in (None, *self._changes(group)):
            settings = self.settings if change is None else change(self.settings)
            forms = {name: form for name, form in self._forms(settings).items() if name in tensors}
            if forms in seen or not self._pays(_SINGLE, self.judge.count):
                continue
            seen.append(forms)
            noise = self.judge.noise(forms)
            if best is None or (noise.beats(best) and noise.gain(best) > _CLEAR):
                best, chosen = noise, change
        return chosen

    def _changes(self, group: tuple[Point, ...]) -> Iterator[_Change]:
        """Other ranges for the tensors of `group`: by another method, and of few bits parts of those that they have."""
        for method in _METHODS:
            yield partial(_with_method, group=group, method=method)
        if any(point.is_scores or chosen_of(point, self.settings).bits > _FEW for point in group):
            return
        now = activation_settings(self.prepared, self.settings, [])
        for share in _SHARES:
            ends = {point.tensor: now[point.tensor].range or NOTHING for point in group}
            yield partial(_with_ranges, group=group, ends={
                name: (share * low, share * high) for name, (low, high) in ends.items()})


def _with_outputs(settings: QuantizationSettings, method: RangeMethod) -> QuantizationSettings:
    """`settings` with `method` wherever they leave it open."""

    def of(chosen: ActivationSettings) -> ActivationSettings:
        return _by(chosen, method) if _is_auto(chosen) else chosen

    def layer(chosen: LayerSettings) -> LayerSettings:
        return replace(chosen, output=of(chosen.output))

    return _changed(settings, layer, of)


def _by(chosen: ActivationSettings, method: RangeMethod) -> ActivationSettings:
    is_for_few = method is RangeMethod.ENTROPY
    return chosen if is_for_few and chosen.bits > _FEW else replace(chosen, method=method)


def _with_weights(settings: QuantizationSettings, rounding: WeightRounding, corrected: bool) -> QuantizationSettings:
    """`settings` with this rounding and correction of weights wherever they leave both open."""

    def of(weights: WeightSettings) -> WeightSettings:
        return replace(weights, rounding=rounding, bias_correction=corrected)

    def layer(chosen: LayerSettings) -> LayerSettings:
        return replace(chosen, weights=of(chosen.weights)) if _has_auto_weights(chosen) else chosen

    return _changed(settings, layer, lambda chosen: chosen)


def _changed(
    settings: QuantizationSettings, layer: Callable[[LayerSettings], LayerSettings],
    activation: Callable[[ActivationSettings], ActivationSettings],
) -> QuantizationSettings:  # fmt: skip
    """`settings` with a change of every layer, and of every input."""
    return replace(
        settings, default=layer(settings.default),
        layers={name: layer(chosen) for name, chosen in settings.layers.items()},
        inputs={name: activation(chosen) for name, chosen in settings.inputs.items()},
    )  # fmt: skip


def _with_method(settings: QuantizationSettings, group: tuple[Point, ...], method: RangeMethod) -> QuantizationSettings:
    """`settings` with `method` for the tensors of `group` alone."""
    return _of_group(settings, group, lambda point, chosen: _by(chosen, method))


def _with_ranges(
    settings: QuantizationSettings, group: tuple[Point, ...], ends: Mapping[str, Range]
) -> QuantizationSettings:
    """`settings` with the ranges `ends` for the tensors of `group`."""
    return _of_group(settings, group, lambda point, chosen: replace(chosen, range=ends[point.tensor]))


def _of_group(
    settings: QuantizationSettings, group: tuple[Point, ...],
    change: Callable[[Point, ActivationSettings], ActivationSettings],
) -> QuantizationSettings:  # fmt: skip
    """`settings` with a change of the tensors of `group` alone."""
    layers, inputs = dict(settings.layers), dict(settings.inputs)
    for point in group:
        if point.is_input:
            inputs[point.owner] = change(point, settings.input(point.owner))
        else:
            layer = settings.layer(point.owner)
            layers[point.owner] = replace(layer, output=change(point, layer.output))
    return replace(settings, layers=layers, inputs=inputs)


def _with_learned_ranges(asked: QuantizationSettings, chosen: QuantizationSettings) -> QuantizationSettings:
    """`chosen` with learned ranges for tensors of few bits, where `asked` leaves their ranges open."""

    def of(own: ActivationSettings, before: ActivationSettings) -> ActivationSettings:
        is_learned = _is_auto(before) and own.bits <= _LEAST_BITS
        return replace(own, method=RangeMethod.LEARNED, range=None) if is_learned else own

    layers = {name: replace(layer, output=of(layer.output, asked.layer(name).output))
              for name, layer in chosen.layers.items()}
    inputs = {name: of(own, asked.input(name)) for name, own in chosen.inputs.items()}
    default = replace(chosen.default, output=of(chosen.default.output, asked.default.output))
    return replace(chosen, default=default, layers=layers, inputs=inputs)


def _with_joint_weights(asked: QuantizationSettings, chosen: QuantizationSettings) -> QuantizationSettings:
    """`chosen` with jointly rounded weights of few bits, where `asked` leaves open how they are rounded."""

    def of(own: LayerSettings, before: LayerSettings) -> LayerSettings:
        if not _has_auto_weights(before) or own.weights.bits > _LEAST_BITS:
            return own
        return replace(own, weights=replace(own.weights, rounding=WeightRounding.JOINT, bias_correction=True))

    layers = {name: of(layer, asked.layer(name)) for name, layer in chosen.layers.items()}
    return replace(chosen, default=of(chosen.default, asked.default), layers=layers)
