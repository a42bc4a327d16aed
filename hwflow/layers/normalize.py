"""Normalization of rows, in integers: exact sums, an exact reciprocal root, one rounding.

LayerNormalization and RMSNormalization are of this kind; InstanceNormalization and GroupNormalization too, once a
Rearrange has put the elements that are normalized together one after the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.formats import Frame, IntArray, IntFormat, Tensor
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import shift_right
from hwflow.layers.rows import rows_mapped

#: Fractional bits of `beta`, which counts steps of the output.
BETA_BITS = 8
#: Bits of the root and of what is normalized, for outputs of up to 10 bits and for wider ones.
PRECISION, WIDE_PRECISION = 16, 20
#: Fractional bits of a product with `gamma`: more of them than this change nothing.
MOST_SHIFT = 24
#: Bits of an input.
WIDEST_INPUT = 16
#: Sums of squares, times the elements of a row, stay below 2**WIDEST_POWER.
WIDEST_POWER = 60

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Normalize(Layer):
    """y = clamp(round_half_even((n * gamma + beta * 2**(shift - 8)) / 2**shift) + zero_point, low, high).

    A row are `elements` of the raster: the channels of a pixel, or of several, or some of them.
    n are the elements of a row less their mean, divided by their deviation, or, where not `centred`, divided by the
    root of the sum of their squares, in fixed point: see `normalized`.
    `epsilon` and the power that it is added to count 4**-guard.  `gamma` and `beta` are int64 [rows, period]: element j
    of row r has gamma[r % rows, j % period].  docs/integer-functions.md has the derivation.
    """

    kind: ClassVar[str] = "normalize"

    name: str
    inputs: tuple[str, ...]
    output: str
    input_format: IntFormat
    elements: int
    centred: bool
    center: int
    guard: int
    epsilon: int
    precision: int
    gamma: IntArray
    beta: IntArray
    shift: int
    zero_point: int
    low: int
    high: int

    @staticmethod
    def of(name: str, x: Tensor, y: Tensor, *, centred: bool, mean: bool, epsilon: float, gamma: Floats,
           beta: Floats, elements: int = 0) -> Normalize:
        """(x - mean) / sqrt(power + epsilon) * gamma + beta, quantized as `y` says, over rows of `elements`.

        `elements` 0: over the channels.  `centred`: the mean of the row is subtracted first.  The power is the mean of
        the squares, or with `mean` False their sum.  gamma and beta are float64 [rows, period].
        ValueError where no integers are near it.
        """
        count = elements or x.frame.channels
        if x.format.bits > WIDEST_INPUT or x.format.bipolar:
            raise ValueError(f"the input of a normalization must have 2 to {WIDEST_INPUT} bits, not {x.format}")
        # What is under the root counts x.scale**2, N**2 times it where the mean is subtracted, N times it of a mean.
        times = {(True, True): count**2, (False, True): count, (False, False): 1}[centred, mean]
        least = max(count - 1, 1) if centred else 1
        guard = max(0, math.ceil((12 - math.log2(least)) / 2))
        counted = round(Fraction(epsilon) * times / Fraction(x.scale) ** 2 * 4**guard)
        precision = PRECISION if y.format.bits <= 10 else WIDE_PRECISION
        factor = gamma * (1 if centred or not mean else math.sqrt(count)) / y.scale
        most = precision - 1 - peak(count, centred)  # fractional bits of n
        reach = float(np.abs(factor).max())
        shift = MOST_SHIFT + precision - PRECISION
        if reach > 0:
            shift = min(shift, most + precision - 2 - math.floor(math.log2(reach)))
        while np.abs(np.rint(factor * 2.0 ** (shift - most))).max() >= 1 << (precision - 1):
            shift -= 1
        if shift < BETA_BITS:
            raise ValueError(f"gamma must be smaller for an output of scale {y.scale:g}: with {np.abs(gamma).max():g} "
                             f"a step of what is normalized is {reach / 2.0**most:g} steps of the output")
        return Normalize(
            name, (x.name,), y.name, x.format, count, centred, 0 if centred else x.zero_point, guard, counted,
            precision, np.rint(factor * 2.0 ** (shift - most)).astype(np.int64),
            np.rint(beta / y.scale * (1 << BETA_BITS)).astype(np.int64), shift, y.zero_point, y.format.low,
            y.format.high)

    def output_frame(self, *inputs: Frame) -> Frame:
        (frame,) = inputs
        rows, period = self.gamma.shape
        if frame.elements % self.elements:
            raise ValueError(f"layer '{self.name}': rows must have a divisor of {frame.elements} elements, not "
                             f"{self.elements}")
        count = frame.elements // self.elements
        if self.elements % period or rows not in (1, count):
            raise ValueError(f"layer '{self.name}': gamma must be [1 or {count}, a divisor of {self.elements}], not "
                             f"{list(self.gamma.shape)}")
        return frame

    def check(self, graph: LayerGraph) -> None:
        self._check_fields()
        super().check(graph)
        self.check_input_format(graph, self.input_format)
        x, y = graph.tensors[self.inputs[0]], graph.tensors[self.output]
        if x.format.bits > WIDEST_INPUT or x.format.bipolar or y.format.bipolar:
            raise ValueError(f"layer '{self.name}': formats must be integers, of the input up to {WIDEST_INPUT} bits")
        if self.power_ends()[1] >> WIDEST_POWER:
            raise ValueError(f"layer '{self.name}': epsilon and the squares of {self.elements} elements must stay "
                             f"below 2**{WIDEST_POWER}")
        if not y.format.low <= self.low <= self.high <= y.format.high:
            raise ValueError(f"layer '{self.name}': low and high must be inside {y.format}, not {self.low} and "
                             f"{self.high}")

    def _check_fields(self) -> None:
        for name in ("gamma", "beta"):
            values = getattr(self, name)
            if values.dtype != np.int64 or values.ndim != 2 or values.shape != self.gamma.shape:
                raise ValueError(f"layer '{self.name}': {name} must be int64 [rows, period]")
        if np.abs(self.gamma).max() >= 1 << (self.precision - 1) or np.abs(self.beta).max() >= 1 << 32:
            raise ValueError(f"layer '{self.name}': gamma must have {self.precision} bits, beta 33")
        if self.precision not in (PRECISION, WIDE_PRECISION) or not BETA_BITS <= self.shift <= 40:
            raise ValueError(f"layer '{self.name}': the precision must be {PRECISION} or {WIDE_PRECISION}, the shift "
                             f"from {BETA_BITS} to 40")
        if self.epsilon < 0 or not 0 <= self.guard <= 8 or abs(self.zero_point) >= 1 << 31:
            raise ValueError(f"layer '{self.name}': epsilon must not be negative, the guard from 0 to 8")
        if not self.input_format.contains(np.array(self.center)) or (self.centred and self.center):
            raise ValueError(f"layer '{self.name}': the center must be inside {self.input_format}, and 0 where the "
                             f"mean is subtracted, not {self.center}")

    def power_ends(self) -> tuple[int, int]:
        """The least power of a row whose elements are not all alike, or not all 0, and the largest there is."""
        count = self.elements
        low, high = self.input_format.low - self.center, self.input_format.high - self.center
        if self.centred:
            least, most = max(count - 1, 1), (count * count // 4) * (high - low) ** 2
        else:
            least, most = 1, count * max(-low, high) ** 2
        return (least << 2 * self.guard) + self.epsilon, (max(least, most) << 2 * self.guard) + self.epsilon

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        (x,) = inputs
        return rows_mapped(x, self.elements, graph.tensors[self.output].format, self._rows)

    def _rows(self, x: IntArray, first: int) -> IntArray:
        rows = np.arange(first, first + len(x)) % len(self.gamma)
        period = np.arange(self.elements) % self.gamma.shape[1]
        gamma, beta = (values[rows][:, period, None] for values in (self.gamma, self.beta))
        total = self.normalized(x) * gamma + (beta << (self.shift - BETA_BITS))
        rounded = shift_right(total, np.int64(self.shift))  # type: ignore[arg-type]
        made: IntArray = np.clip(rounded + self.zero_point, self.low, self.high)
        return made

    def normalized(self, x: IntArray) -> IntArray:
        """n of the rows along axis 1, each factor rounded down.

        The power V is 4**guard times N * sum(x**2) - sum(x)**2, or sum(x**2), plus epsilon; m = floor(V / 4**k) has
        precision + 1 or + 2 bits, by the choice of k.
        """
        count, bits = self.elements, self.precision
        u = x - self.center
        power = (u * u).sum(axis=1, keepdims=True)
        if self.centred:
            total = u.sum(axis=1, keepdims=True)
            power, u = count * power - total * total, count * u - total
        power = (power << 2 * self.guard) + self.epsilon
        least, _ = self.power_ends()
        k = np.maximum((bit_length(power) - 1 - bits) >> 1, level(least, bits))
        root = reciprocal_root(moved(power, 2 * k), bits)
        place = bits // 2 - 2 + self.guard - peak(count, self.centred) - k
        made: IntArray = moved(u, -place) * root >> (bits - 1)
        return made

    def error(self, graph: LayerGraph) -> float:
        """Steps of the output by which it differs at most from the operator in reals, before that is rounded."""
        y, count, bits = graph.tensors[self.output], self.elements, self.precision
        largest = math.sqrt(count - 1) if self.centred else 1.0
        least, _ = self.power_ends()
        relative = 0.25 / least + 2.0 ** -(bits + 1) + 2.0 ** (1 - bits)
        unit = 2.0 ** -(bits - 1 - peak(count, self.centred))
        steps = float(np.abs(self.gamma).max()) / 2.0**self.shift / unit
        moved_by = (largest * relative + 3 * unit) * steps
        rounded = (largest / unit / 2.0**self.shift + 2.0**-BETA_BITS) / 2
        return moved_by + rounded + 1e-9 * y.format.high

    def deviation(self, graph: LayerGraph) -> int:
        return math.ceil(self.error(graph))

    def multiplications(self, graph: LayerGraph) -> int:
        """The squares, and the products with root and gamma."""
        return 3 * graph.tensors[self.output].frame.elements


def peak(count: int, centred: bool) -> int:
    """The least p for which no element of a row of `count`, divided by its deviation, comes near 2**p."""
    largest = count - 1 if centred else 1  # squared
    return next(p for p in range(32) if largest * 4097 <= 4096 << 2 * p)


def level(power: int, bits: int) -> int:
    """k for which power / 4**k has bits + 1 or bits + 2 bits."""
    return (power.bit_length() - 1 - bits) >> 1


def bit_length(values: IntArray) -> IntArray:
    """Bits of numbers from 0 to 2**61, exactly: float64 rounds up to a power of two at most, which is taken back."""
    found = np.frexp(values.astype(np.float64))[1].astype(np.int64)
    return np.where((found > 0) & (values >> np.maximum(found - 1, 0) == 0), found - 1, found)


def moved(values: IntArray, down: IntArray) -> IntArray:
    """floor(values / 2**down), for any sign of `down`."""
    return (values << np.maximum(-down, 0)) >> np.maximum(down, 0)


def reciprocal_root(mantissa: IntArray, bits: int) -> IntArray:
    """2**(1.5 * bits) / sqrt(mantissa), rounded down, and below 2**bits: root**2 * mantissa <= 8**bits."""
    one = np.int64(1) << 3 * bits
    root = np.floor(np.sqrt(float(one) / np.maximum(mantissa, 1))).astype(np.int64)
    root -= root * root * mantissa > one
    root += (root + 1) ** 2 * mantissa <= one
    return np.minimum(root, (1 << bits) - 1)
