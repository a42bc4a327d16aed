"""What automatic means for a layer's weights, and whether calibration data decides them.

Measured on the networks of docs/quantization.md: at 8 bits nothing below changes a result.  At 6 bits and less the mean
error of the outputs is worth taking back, and scales that keep the outputs' error small beat those that keep the
weights'.  At 4 bits and less adaptive rounding wins 3 to 7 dB of signal-to-noise ratio at the output.
"""

from __future__ import annotations

from dataclasses import replace

from hwflow.errors import HwflowError
from hwflow.quantize.calibration.weights import resolved_method
from hwflow.quantize.settings import RangeMethod, WeightRounding, WeightSettings

__all__ = ["needs_data", "resolved"]

#: Up to this width automatic means adaptive rounding.
_ADAPTIVE_BITS = 4

#: Up to this width automatic means bias correction.
_CORRECTED_BITS = 6


def resolved(settings: WeightSettings, layer: str, has_data: bool) -> WeightSettings:
    """`settings` of the node `layer` with nothing left to decide.

    Without calibration data weights become the nearest integers.  HwflowError: `settings` ask for what needs data.
    """
    rounding, corrected = settings.rounding, settings.bias_correction
    if not has_data and rounding is WeightRounding.ADAPTIVE:
        raise HwflowError(
            f"settings: layers/{layer}/weights/rounding must be nearest or auto without calibration data, "
            "not adaptive; give real inputs with --data"
        )
    if not has_data and corrected:
        raise HwflowError(
            f"settings: layers/{layer}/weights/bias_correction must be false or left out without calibration data, "
            "not true; give real inputs with --data"
        )
    if rounding is WeightRounding.AUTO:
        adaptive = has_data and settings.bits <= _ADAPTIVE_BITS
        rounding = WeightRounding.ADAPTIVE if adaptive else WeightRounding.NEAREST
    if corrected is None:
        corrected = has_data and settings.bits <= _CORRECTED_BITS
    return replace(settings, method=resolved_method(settings), rounding=rounding, bias_correction=corrected)


def needs_data(settings: WeightSettings) -> bool:
    """Whether weights of resolved `settings` depend on calibration data, where there is some."""
    adaptive = settings.rounding is WeightRounding.ADAPTIVE
    return adaptive or settings.method is RangeMethod.MSE or bool(settings.bias_correction)
