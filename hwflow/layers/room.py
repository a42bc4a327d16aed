"""What the hardware of a rescaling with room for other constants is made for."""

from __future__ import annotations

from hwflow_rtl.rescale.requantize import RequantizerForm

from hwflow.layers.rescale import Requantize, RoomyRequantize

__all__ = ["form_of"]


def form_of(rescale: Requantize) -> RequantizerForm | None:
    """None of one that is made for its own constants."""
    if not isinstance(rescale, RoomyRequantize):
        return None
    return RequantizerForm(rescale.room.bits + rescale.fraction, rescale.factor_bits, rescale.base, rescale.extra)
