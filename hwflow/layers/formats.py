"""The meaning of integers and how they are laid out: number formats, frames, tensors.

Tensors of the integer world are frames: `[height, width, channels]`, channels fastest.  A 1-D signal has height 1, a
vector has height and width 1.  Arrays carry a leading axis of frames: `[n, height, width, channels]`, dtype int64.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.by_value import ByValue
from hwflow_base.short_repr import fields_repr

IntArray = npt.NDArray[np.int64]

#: The largest number of bits of an element: accumulators that leave the hardware as they are.
MAX_BITS = 32

#: Bits at most of all weights, and of all activations, where one choice is for a whole model.
MOST_UNIFORM_BITS = 8, 16


@dataclass(frozen=True)
class IntFormat:
    """A signed (two's complement) or unsigned integer of `bits` bits; `bipolar`: the one bit that means -1 or +1."""

    bits: int
    signed: bool
    bipolar: bool = False

    @property
    def low(self) -> int:
        if self.bipolar:
            return -1
        return -(1 << (self.bits - 1)) if self.signed else 0

    @property
    def high(self) -> int:
        if self.bipolar:
            return 1
        return (1 << (self.bits - 1)) - 1 if self.signed else (1 << self.bits) - 1

    @property
    def step(self) -> int:
        """The distance between neighbouring integers of the format."""
        return 2 if self.bipolar else 1

    def __str__(self) -> str:
        return "bipolar" if self.bipolar else f"{'' if self.signed else 'u'}int{self.bits}"

    @staticmethod
    def parse(text: str) -> IntFormat:
        """The format that `str` wrote.  ValueError for other text."""
        if text == "bipolar":
            return BIPOLAR
        return IntFormat(int(text.removeprefix("u").removeprefix("int")), signed=not text.startswith("u"))

    def contains(self, values: npt.NDArray[Any]) -> bool:
        """True where every entry of `values` (any shape) can be written in this format."""
        if self.bipolar:
            return bool(np.all(np.abs(values) == 1))
        return values.size == 0 or (int(values.min()) >= self.low and int(values.max()) <= self.high)

    @staticmethod
    def covering(low: int, high: int) -> IntFormat:
        """The narrowest format that holds every integer from `low` to `high`; signed where `low` is negative."""
        if low < 0:
            return IntFormat(max((-low - 1).bit_length(), high.bit_length()) + 1, signed=True)
        return IntFormat(max(high.bit_length(), 1), signed=False)


#: One bit that means -1 or +1.
BIPOLAR = IntFormat(1, signed=True, bipolar=True)


@dataclass(frozen=True)
class Frame:
    """Height, width and channels of one frame."""

    height: int
    width: int
    channels: int

    @property
    def elements(self) -> int:
        return self.height * self.width * self.channels

    def __str__(self) -> str:
        return f"{self.height}x{self.width}x{self.channels}"


@dataclass(frozen=True)
class Tensor:
    """A quantized tensor: real value = scale * (integer - zero_point)."""

    name: str
    frame: Frame
    format: IntFormat
    scale: float
    zero_point: int

    def check(self) -> None:
        """Raise ValueError where the fields leave what the integer world can compute with."""
        frame = (self.frame.height, self.frame.width, self.frame.channels)
        if min(frame) < 1:
            raise ValueError(f"tensor '{self.name}': a frame must have at least one element, not {self.frame}")
        if not 1 <= self.format.bits <= MAX_BITS:
            raise ValueError(f"tensor '{self.name}': elements must have 1 to {MAX_BITS} bits, not {self.format.bits}")
        if not (math.isfinite(self.scale) and self.scale > 0):
            raise ValueError(f"tensor '{self.name}': the scale must be finite and above 0, not {self.scale}")
        if abs(self.zero_point) >= 1 << MAX_BITS:
            raise ValueError(f"tensor '{self.name}': the zero point must fit {MAX_BITS} bits, not {self.zero_point}")


class EqualByValue(ByValue):
    """`ByValue`, of which the types and shapes of arrays are shown."""

    def __init_subclass__(cls) -> None:
        cls.__repr__ = fields_repr  # type: ignore[method-assign]  # which dataclasses leave as it is
