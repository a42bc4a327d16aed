"""What settings make of a prepared model: the ranges of its activations, and its integer weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from hwflow_base.errors import HwflowError

from hwflow.quantize.calibrate.activations import ActivationForm
from hwflow.quantize.calibrate.joint.reconstruct import learned_ranges, reconstruct
from hwflow.quantize.calibrate.prepared import Prepared, activation_forms, activation_settings, chosen_of
from hwflow.quantize.calibrate.ranges import NOTHING
from hwflow.quantize.calibrate.tune import Tuned, tune
from hwflow.quantize.settings import ActivationSettings, QuantizationSettings, RangeMethod


@dataclass(frozen=True)
class Fitted:
    """`chosen` are settings with a range for the tensor of each point, `activations` the forms that follow."""

    chosen: Mapping[str, ActivationSettings]
    activations: Mapping[str, ActivationForm]
    tuned: Tuned


def fit(prepared: Prepared, settings: QuantizationSettings, notes: list[str]) -> Fitted:
    """The ranges and weights that `settings` mean, found on the rows of `prepared`.

    HwflowError: settings that need rows where there are none.
    """
    chosen = _learned(prepared, settings, activation_settings(prepared, settings, notes), notes)
    activations = activation_forms(prepared, chosen)
    tuned = tune(prepared.twin, activations, settings, prepared.rows)
    if prepared.rows is not None:
        tuned = reconstruct(prepared.twin, activations, settings, tuned, prepared.rows, notes)
    return Fitted(chosen, activations, tuned)


def _learned(
    prepared: Prepared, settings: QuantizationSettings, chosen: Mapping[str, ActivationSettings], notes: list[str]
) -> Mapping[str, ActivationSettings]:
    """`chosen` with the ranges that are to be learned.  Tensors that share a range keep the one that they have."""
    shared = {name for group in prepared.common for name in group}
    names = [
        point.tensor for point in prepared.points
        if (own := chosen_of(point, settings)).method is RangeMethod.LEARNED and own.range is None
        and point.tensor not in shared
    ]
    if not names:
        return chosen
    if prepared.rows is None:
        raise HwflowError("settings: a range must not be learned without calibration data", "give real inputs with "
                          "--data, or take another method")
    widths = learned_ranges(prepared.twin, activation_forms(prepared, chosen), settings, prepared.rows, names, notes)
    ranges = {name: (low * widths[name], high * widths[name]) for name in names
              for low, high in [chosen[name].range or NOTHING]}
    return {**chosen, **{name: replace(chosen[name], range=ends) for name, ends in ranges.items()}}
