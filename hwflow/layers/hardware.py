"""What the hardware halves of the layers share: shapes, divisors, the arguments of a requantizer."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Shape
from hwflow_rtl.requantize import RequantizerStyle
from hwflow_rtl.vendor import Technology
from hwflow_rtl.window import WindowShape

from hwflow.layers.formats import Frame, IntFormat
from hwflow.layers.rescale import Requantize, Rescale, Rounding
from hwflow.layers.window import Window

__all__ = ["divisors", "pool_window", "requantizer_arguments", "requantizer_style", "rescale_problem", "shape_of"]


def shape_of(format: IntFormat) -> Shape:
    return Shape(format.bits, format.signed)


def divisors(count: int) -> list[int]:
    """Every divisor of `count`, ascending."""
    return [n for n in range(1, count + 1) if count % n == 0]


def requantizer_style(technology: Technology) -> RequantizerStyle:
    """Multipliers of the family, or logic where the family has too few of them."""
    return RequantizerStyle.FABRIC if technology.prefers_fabric_requantizer else RequantizerStyle.DSP


def requantizer_arguments(requantize: Rescale, technology: Technology) -> dict[str, Any]:
    """The keyword arguments that every stage with a requantizer takes, but for the shape of its output."""
    assert isinstance(requantize, Requantize), "asked only where `rescale_problem` is None"
    return {
        "bias": requantize.bias, "multiplier": requantize.multiplier, "shift": requantize.shift,
        "zero_point": requantize.zero_point, "low": requantize.low, "high": requantize.high,
        "requantizer_style": requantizer_style(technology),
    }


def pool_window(window: Window, frame: Frame, lanes: int) -> WindowShape:
    """A window that looks at `lanes` channels after the other."""
    words = frame.channels // lanes
    return WindowShape(
        height=frame.height, width=frame.width, words=words, groups=words, kernel=window.kernel, stride=window.strides,
        dilation=window.dilations, pads=window.pads)


def rescale_problem(rescale: Rescale) -> str | None:
    """None where a stage can compute `rescale`, else why it cannot."""
    if not isinstance(rescale, Requantize):
        return "thresholds have no hardware yet"
    if rescale.fraction or rescale.rounding is not Rounding.HALF_EVEN:
        return f"{rescale.rounding} rounding with {rescale.fraction} fractional bits of the bias has no hardware yet"
    return None
