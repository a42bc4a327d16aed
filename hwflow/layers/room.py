"""What the hardware of a rescaling with room for other constants is made for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow.layers.rescale import Requantize, RoomyRequantize

if TYPE_CHECKING:
    from hwflow_rtl.rescale.requantizer import RequantizerForm

__all__ = ["form_of"]


def form_of(rescale: Requantize) -> RequantizerForm | None:
    """None of one that is made for its own constants."""
    from hwflow_rtl.rescale.requantizer import RequantizerForm

    if not isinstance(rescale, RoomyRequantize):
        return None
    return RequantizerForm(rescale.room.bits + rescale.fraction, rescale.factor_bits, rescale.base, rescale.extra)
