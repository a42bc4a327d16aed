"""Layers as a shared stage sees them: windows that move over frames, sums or maxima of them, and a rescaling.

Nothing here knows the size of the array or where frames are; `hwflow.hls.shared` makes the steps of a program of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.layers.formats import IntArray, IntFormat, Tensor
from hwflow.layers.rescale import Requantize, shift_right
from hwflow.layers.window import Window

#: Bits of an element of a frame, and of a weight, that a shared stage computes with.
ELEMENT_BITS = 8


@dataclass(frozen=True)
class Line:
    """The rows or the columns `first`, `first + step`, ... of an output, `count` of them."""

    first: int
    count: int
    step: int = 1


@dataclass(frozen=True, kw_only=True)
class MovingWindow:
    """A window of `kernel` elements, `dilations` apart, that moves over a frame; both are of rows and of columns.

    origin
        Row and column of the input where the window of the first pixel begins; outside of the frame there is padding.
    row_step, column_step
        How far (rows, columns) the window moves in the input for the next row and for the next column.
    """

    kernel: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    origin: tuple[int, int] = (0, 0)
    row_step: tuple[int, int] = (1, 0)
    column_step: tuple[int, int] = (0, 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Sweep:
    """y[..., first_channel + o] = rescale(sum over the window of weights[o, i, j, d] * x[..., channels[o, d]]).

    All numbers are the integers of the tensors' formats.

    inputs
        One tensor, or the two operands of a sum or a product element by element.
    rows, columns
        The part of the output that is computed.
    weights
        int64[channels, kernel height, kernel width, depth]; None for the maximum of a window, channel by channel.
    channels
        int64[channels, depth]: the input channel that each weight multiplies.
    multipliers
        Of a sum of two operands: y = rescale(multipliers[0] * a + multipliers[1] * b); then there are no weights.
    product
        y = rescale((a - zero point of a) * (b - zero point of b)); then there are no weights.
    table
        What `rescale` gives, an element of the input's format, is looked up: int64[2**bits], that of the lowest integer
        first.  None: it stays as it is.
    window
        What of the input meets the weights.
    pad
        The integer outside of the input's frame.
    """

    layer: str
    inputs: tuple[Tensor, ...]
    output: Tensor
    rescale: Requantize
    rows: Line
    columns: Line
    first_channel: int = 0
    weights: IntArray | None = None
    channels: IntArray | None = None
    multipliers: tuple[int, ...] = ()
    product: bool = False
    table: IntArray | None = None
    window: MovingWindow = MovingWindow()
    pad: int = 0

    def through(self, window: Window) -> Sweep:
        """The same, through a window that moves over a padded frame to its rows and columns of the output."""
        (row, column), (top, left, *_) = window.strides, window.pads
        return replace(self, window=MovingWindow(
            kernel=window.kernel, dilations=window.dilations, row_step=(row, 0), column_step=(0, column),
            origin=(self.rows.first * row - top, self.columns.first * column - left)))

    @property
    def lane_wise(self) -> bool:
        """Each channel of the output is computed from the same channel of the inputs."""
        return self.weights is None

    @property
    def single(self) -> bool:
        """One pixel."""
        return self.rows.count * self.columns.count == 1

    @property
    def padded(self) -> bool:
        """Some window reaches over the edge of the frame."""
        frame, window = self.inputs[0].frame, self.window
        for axis, size in enumerate((frame.height, frame.width)):
            ends = [(line.count - 1) * step[axis]
                    for line, step in ((self.rows, window.row_step), (self.columns, window.column_step))]
            low = window.origin[axis] + sum(min(end, 0) for end in ends)
            high = window.origin[axis] + sum(max(end, 0) for end in ends)
            if low < 0 or high + (window.kernel[axis] - 1) * window.dilations[axis] >= size:
                return True
        return False

    @property
    def fits(self) -> bool:
        """It is known that no sum of products with weights is clamped."""
        if self.weights is None:
            return False
        x, q = self.inputs[0].format, self.rescale
        products = self.weights.reshape(len(self.weights), -1) * np.array([x.low, x.high])[:, None, None]
        ends = np.stack([products.min(axis=0).sum(axis=1), products.max(axis=0).sum(axis=1)])
        products = ((ends << q.fraction) + q.bias) * q.multiplier
        products += np.where(products < 0, -q.moves, q.moves)
        made = shift_right(products, q.shift, q.rounding) + q.zero_point
        return bool((made >= q.low).all() and (made <= q.high).all())

    def weight_sums(self) -> tuple[IntArray | int, ...]:
        """For each input, but of a product, by how much a sum grows where all its elements grow by one: [channels], or
        for all."""
        if self.weights is not None:
            return (self.weights.sum(axis=(1, 2, 3)),)
        return self.multipliers or (1,)


def identity(format: IntFormat, channels: int) -> Requantize:
    """Sums become elements as they are."""
    return Requantize(np.zeros(channels, np.int64), np.ones(channels, np.int64), np.zeros(channels, np.int64), 0,
                      format.low, format.high)


def copied(layer: str, x: Tensor, y: Tensor, *, first_channel: int = 0, stretch: bool = False) -> Sweep:
    """The elements of `x` in the channels of `y` from `first_channel` on; `stretch`: its one pixel in all of `y`'s, and
    its one channel, if it has just one, in all of `y`'s."""
    count = y.frame.channels if stretch else x.frame.channels
    source = np.arange(count) if x.frame.channels == count else np.zeros(count)
    down, right = ((0, 0), (0, 0)) if stretch else ((1, 0), (0, 1))
    return Sweep(
        layer=layer, inputs=(x,), output=y, rescale=identity(x.format, count), rows=Line(0, y.frame.height),
        columns=Line(0, y.frame.width), first_channel=first_channel, weights=np.ones((count, 1, 1, 1), np.int64),
        channels=source.astype(np.int64)[:, None], window=MovingWindow(row_step=down, column_step=right))


def is_wide(tensor: Tensor) -> bool:
    """Its elements are two elements of a shared stage each."""
    return tensor.format.bits > ELEMENT_BITS


def tensor_problem(tensor: Tensor) -> str | None:
    """None if a shared stage can hold `tensor`, else the reason why it cannot."""
    if tensor.format.bipolar:
        return f"tensor '{tensor.name}' is bipolar, and a shared stage computes with integers"
    if tensor.format.bits > ELEMENT_BITS:
        return (f"elements of a shared stage must have at most {ELEMENT_BITS} bits, and '{tensor.name}' is "
                f"{tensor.format}")
    return None


def wide_problem(tensor: Tensor, sweeps: Sequence[Sweep]) -> str | None:
    """The same of a tensor with elements of more than `ELEMENT_BITS` bits that `sweeps` make and none reads."""
    most = 2 * ELEMENT_BITS if tensor.format.signed else 2 * ELEMENT_BITS - 1
    if tensor.format.bits > most:
        return (f"elements that leave a shared stage must have at most {most} bits, and '{tensor.name}' is "
                f"{tensor.format}")
    if all(sweep.first_channel == 0 and sweep.fits for sweep in sweeps):
        return None
    return (f"elements of a shared stage must have at most {ELEMENT_BITS} bits, or be sums that no limit cuts off, and "
            f"'{tensor.name}' is {tensor.format}")


def multiplication_problem(rescale: Requantize | None) -> str | None:
    """The same of what makes elements of sums, None where that is no multiplication."""
    if rescale is None:
        return "a shared stage makes elements of sums by multiplication, and these thresholds are none"
    return zero_point_problem(rescale.zero_point)


def zero_point_problem(zero_point: int) -> str | None:
    """The same of the zero point of an output: that of any element is possible."""
    low, high = -(1 << (ELEMENT_BITS - 1)), (1 << ELEMENT_BITS) - 1
    if not low <= zero_point <= high:
        return f"zero points of a shared stage must be from {low} to {high}, not {zero_point}"
    return None


def weight_problem(weights: IntArray) -> str | None:
    """The same of weights."""
    reach = 1 << (ELEMENT_BITS - 1)
    if weights.min() < -reach or weights.max() >= reach:
        return (f"weights of a shared stage must be from {-reach} to {reach - 1}, not {weights.min()} to "
                f"{weights.max()}")
    return None
