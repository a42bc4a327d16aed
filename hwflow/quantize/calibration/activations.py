"""Integer forms of activations: the scale, zero point and limits for a range of reals."""

from __future__ import annotations

import numpy as np

from hwflow.layers.formats import BIPOLAR, IntFormat
from hwflow.quantize.forms import ActivationForm
from hwflow.quantize.scale import activation_parameters

__all__ = ["activation_form"]

#: The smallest scale: the product with a weight's scale must not be flushed to zero.
_SMALLEST = np.float32(2.0**-60)


def activation_form(low: float, high: float, bits: int = 8, symmetric: bool = False) -> ActivationForm:
    """Integers of `bits` bits (1 to 16) for the reals from `low` to `high`; 0 is always inside and always exact.

    Asymmetric: signed with a zero point, `low` and `high` at the ends.  Symmetric: zero point 0, unsigned where no
    value is negative.  One symmetric bit with negative values is bipolar, -high or +high (or -low, if larger): the one
    form without an exact 0.  A range of nothing but 0 has scale 1.
    """
    low, high = min(low, 0.0), max(high, 0.0)
    if not symmetric:
        return _asymmetric(low, high, IntFormat(bits, signed=True))
    if bits == 1 and low < 0:
        return ActivationForm(_scale(max(-low, high)), 0, BIPOLAR, -1, 1)
    format = IntFormat(bits, signed=low < 0)
    scale = _scale(max(low / format.low if format.low else 0.0, high / format.high))
    return ActivationForm(scale, 0, format, format.low, format.high)


def _asymmetric(low: float, high: float, format: IntFormat) -> ActivationForm:
    if format.bits == 1:  # 0 and the end that is farther away
        upwards = high >= -low
        return ActivationForm(_scale(high if upwards else -low), -1 if upwards else 0, format, -1, 0)
    scale, zero_point = activation_parameters(low, high, format)
    if scale < _SMALLEST:
        scale, zero_point = _SMALLEST, round(format.low - low / float(_SMALLEST))
    return ActivationForm(scale, zero_point, format, format.low, format.high)


def _scale(wish: float) -> np.float32:
    return max(np.float32(wish), _SMALLEST) if wish > 0 else np.float32(1)
