"""A float model in the form that is quantized, and the forms of its activations for any settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from hwflow.onnx.model import Array, Model, Node
from hwflow.quantize.calibrate.activations import (
    ActivationForm,
    Histogram,
    activation_form,
    choose_range,
    resolved_method,
)
from hwflow.quantize.calibrate.points import Point, flags, squares
from hwflow.quantize.calibrate.ranges import NOTHING, ranges_of_silent
from hwflow.quantize.calibrate.recurrent import Reach
from hwflow.quantize.calibrate.room import Room
from hwflow.quantize.calibrate.wide import exact_sums, narrowed
from hwflow.quantize.graphs import is_layer
from hwflow.quantize.settings import MOST_ACTIVATION_BITS, ActivationSettings, QuantizationSettings

#: Fewer rows are not split: what is left to judge on would be one or two.
LEAST_ROWS = 9

#: Every so many-th row is held back.
_SHARE = 3

#: Rows at most that choices are fitted on, and judged on.
_FITTED, _JUDGED = 64, 32


@dataclass(frozen=True)
class Trial:
    """Calibration rows in two parts, to compare choices: `rows` to fit them on, `held` to judge them on.

    `seen` has the values of each point on the rows that are not held back.
    """

    rows: Mapping[str, Array]
    held: Mapping[str, Array]
    seen: Mapping[str, Histogram]

    @staticmethod
    def numbers(count: int) -> tuple[list[int], list[int]]:
        """The numbers of the rows, of `count`, that are not held back and that are."""
        held = range(_SHARE - 1, count, _SHARE)
        return sorted({*range(count)}.difference(held)), [*held]

    @staticmethod
    def of(rows: Mapping[str, Array], seen: Mapping[str, Histogram]) -> Trial:
        fitted, held = Trial.numbers(min(len(array) for array in rows.values()))
        parts = [{name: array[numbers] for name, array in rows.items()}
                 for numbers in (fitted[:_FITTED], held[:_JUDGED])]
        return Trial(parts[0], parts[1], seen)


@dataclass(frozen=True)
class Prepared:
    """A float model in the form that is quantized, with what is known of its tensors, for any settings.

    `points` become integers, each group of `common` best in the same way.  `rows` are the calibration data, None where
    there are none.  `seen` has the values of each point on them, or on made-up rows; it is None where there are no rows
    and nothing has to be measured, because the settings say every range.  `reaches` has the values inside of recurrent
    layers, by their nodes' names, of those rows; where there are none and they must be known, of made-up rows.
    `room` is that for rows beyond the calibration data, where the settings ask for it.
    `equalized` says whether weights of `twin` were equalized across layers.  `trial` is there where choices are to be
    compared.
    """

    twin: Model
    points: tuple[Point, ...]
    common: tuple[tuple[str, ...], ...]
    rows: Mapping[str, Array] | None
    seen: Mapping[str, Histogram] | None
    equalized: bool
    reaches: Mapping[str, Reach] = field(default_factory=dict)
    room: Room | None = None
    trial: Trial | None = None

    @property
    def layers(self) -> tuple[Node, ...]:
        """The nodes with weights that become integers."""
        graph = self.twin.graph
        return tuple(node for node in graph.nodes if is_layer(node, graph.initializers))


def activation_settings(
    prepared: Prepared, settings: QuantizationSettings, notes: list[str]
) -> dict[str, ActivationSettings]:
    """The settings of every point, with the range found."""
    wished = {point.tensor: chosen_of(point, settings) for point in prepared.points}
    choices: dict[str, ActivationSettings] = {}
    for point in prepared.points:
        name, choice = point.tensor, wished[point.tensor]
        ends = choice.range
        if ends is None:
            assert prepared.seen is not None  # `prepare` measures where a range is missing
            seen = prepared.seen[name]
            if seen.low == seen.high:
                notes.append(f"tensor '{name}' is {seen.low:g} everywhere in the calibration data")
            ends = choose_range(seen, choice)
            ends = _of_scores(*ends) if point.is_scores else ends
            if prepared.room is not None:
                ends = prepared.room.added(point, ends, {name: own.range or NOTHING for name, own in choices.items()})
        choices[name] = replace(choice, method=resolved_method(choice), range=ends)
    for group in prepared.common:
        if len({wished[name] for name in group}) > 1:
            continue  # the user wants them different
        ranges = [choices[name].range or (0.0, 0.0) for name in group]
        both = (min(low for low, _ in ranges), max(high for _, high in ranges))
        choices.update({name: replace(choices[name], range=both) for name in group})
    known = {name: choice.range or (0.0, 0.0) for name, choice in choices.items()}
    for name, ends in ranges_of_silent(prepared.twin.graph, known).items():
        if wished[name].range is None:
            choices[name] = replace(choices[name], range=ends)
    return narrowed(prepared.twin, prepared.points, choices, notes)


def _of_scores(low: float, high: float) -> tuple[float, float]:
    """The range of scores: as far up as down.

    Classes that the calibration data hardly show would be clipped, and clipped scores are the same for all of them.
    A bit of resolution less costs little there, because no layer adds to the error.
    """
    return (-max(-low, high), max(-low, high)) if low < 0 < high else (low, high)


def activation_forms(
    prepared: Prepared, chosen: Mapping[str, ActivationSettings]
) -> dict[str, ActivationForm]:
    """The integers of each point that has some, by its tensor; `chosen` are settings with a range."""
    wide, two = squares(prepared.twin, prepared.points), flags(prepared.twin, prepared.points)
    forms = {name: _form(choice, is_square=name in wide) for name, choice in chosen.items()}
    forms |= {name: activation_form(*ends, bits=1) for name, ends in two.items()}
    exact = exact_sums(prepared.twin, prepared.points, forms)
    return {name: form for name, form in forms.items() if name not in exact}


def chosen_of(point: Point, settings: QuantizationSettings) -> ActivationSettings:
    return settings.input(point.owner) if point.is_input else settings.layer(point.owner).output


def _form(choice: ActivationSettings, is_square: bool) -> ActivationForm:
    """A square has twice the bits of `choice`, as far as there are."""
    assert choice.range is not None
    bits = min(2 * choice.bits, MOST_ACTIVATION_BITS) if is_square else choice.bits
    return activation_form(*choice.range, bits, choice.symmetric)
