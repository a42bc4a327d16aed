"""What automatic means for a layer's weights, and whether calibration data decides them.

Measured on seven networks (digits, MNIST twice, keywords, motions, CIFAR-10, anomalies; dense, conv, depthwise)
as signal-to-noise ratio at the outputs, on the data that the accuracy is measured on too.  With 8-bit weights and
activations nothing below moves an accuracy by more than a few samples.  Adaptive rounding against the nearest integers,
both with corrected biases: at 6 bits -1.2 to +2.8 dB (six of seven better), at 5 bits +0.6 to +4.6, at 4 bits +2 to +4,
at 2 bits +6 to +8 (three networks each).  Taking back the mean error: up to 9 dB where weights of 4 bits are rounded to
the nearest, -1 to +3 dB with 8-bit weights behind activations of 4 or 6 bits.  Equalization before tuning: with one
scale per layer 0 to +2.3 dB at 6 bits, -0.4 to +0.9 at 4, -4.4 to +1.7 at 8; with scales of their own for all channels
it loses as often as it wins.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hwflow_base.errors import HwflowError

from hwflow.quantize.calibration.weights import resolved_method
from hwflow.quantize.settings import QuantizationSettings, RangeMethod, WeightRounding, WeightSettings

__all__ = ["equalizes", "needs_data", "resolved"]

#: Up to this width automatic means that calibration data decides.
_FEW = 6


def equalizes(settings: QuantizationSettings, layers: Iterable[str]) -> bool:
    """Whether weights of the nodes `layers` are equalized across layers."""
    if settings.equalize is not None:
        return settings.equalize
    chosen = [settings.layer(name).weights for name in layers]
    return any(weights.bits <= _FEW and not weights.per_channel for weights in chosen)


def resolved(settings: WeightSettings, layer: str, has_data: bool, input_bits: int = 8) -> WeightSettings:
    """`settings` of the node `layer` with nothing left to decide; `input_bits` is the width of what it reads.

    Without calibration data weights become the nearest integers.  HwflowError: `settings` ask for what needs data.
    """
    rounding, corrected = settings.rounding, settings.bias_correction
    if not has_data and rounding is WeightRounding.ADAPTIVE:
        raise HwflowError(
            f"settings: layers/{layer}/weights/rounding must be nearest or auto without calibration data, "
            "not adaptive", "give real inputs with --data"
        )
    if not has_data and corrected:
        raise HwflowError(
            f"settings: layers/{layer}/weights/bias_correction must be false or left out without calibration data, "
            "not true", "give real inputs with --data"
        )
    if rounding is WeightRounding.AUTO:
        adaptive = has_data and settings.bits <= _FEW
        rounding = WeightRounding.ADAPTIVE if adaptive else WeightRounding.NEAREST
    if corrected is None:
        corrected = has_data and min(settings.bits, input_bits) <= _FEW
    return replace(settings, method=resolved_method(settings), rounding=rounding, bias_correction=corrected)


def needs_data(settings: WeightSettings) -> bool:
    """Whether weights of resolved `settings` depend on calibration data, where there is some."""
    adaptive = settings.rounding is WeightRounding.ADAPTIVE
    return adaptive or settings.method is RangeMethod.MSE or bool(settings.bias_correction)
