"""Gathers the taps of a kernel's row into one word, so that an array can fold over taps where channels are few."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .pipeline import Nest
from .streams import stream_of
from .times import Times, in_turn
from .vendor.base import Resources
from .window_shape import WindowShape

__all__ = ["RowPatch"]


class RowPatch(wiring.Component):
    """[height, width] words of `lanes` channels become [height, out_width] words of kernel columns x `lanes`.

    Horizontal padding, stride and dilation are applied here; lane `kx * lanes + c` holds channel c of tap column kx.
    Only the width, and the columns of kernel, stride, dilation and pads, of `shape` matter: rows are independent.

    A shift register holds as many words as the kernel reaches over.  It runs on over the ends of rows; taps outside the
    row are masked.  The last windows of a row reach over its end: they come out with the first words of the next row,
    or with blanks if no word is there yet.  Once a row's first word is in, only its own words follow.

    Latency from the last word of a window to the window: 1 cycle.  One word in every cycle, in or out, whichever are
    more.
    """

    def __init__(self, *, shape: WindowShape, element: Shape, lanes: int, pad_value: int):
        if shape.words != 1:
            raise ValueError(f"words of the shape of a RowPatch must be 1, not {shape.words}")
        if shape.pads[1] > shape.reach[1]:
            raise ValueError(f"left padding of a RowPatch must be at most the reach of its kernel, {shape.reach[1]}, "
                             f"not {shape.pads[1]}")
        self.shape = shape
        self.element = Shape.cast(element)
        self.lanes = lanes
        self.pad_value = pad_value
        super().__init__({
            "i": In(stream_of(self.element, lanes)),
            "o": Out(stream_of(self.element, lanes * shape.kernel[1])),
        })

    @staticmethod
    def tail(shape: WindowShape) -> int:
        """Words after a row's last until its last window is complete."""
        return max(0, (shape.out_width - 1) * shape.stride[1] - shape.pads[1] + shape.reach[1] - (shape.width - 1))

    @staticmethod
    def blanks(shape: WindowShape) -> int:
        """Blanks that every row needs, because its last windows would not be out before the next row's first."""
        tail, head = RowPatch.tail(shape), shape.reach[1] - shape.pads[1]
        return tail if max(tail, head) >= shape.width else max(0, tail - head)

    @staticmethod
    def cycles(*, shape: WindowShape) -> int:
        """Cycles of a frame when input and output never wait."""
        return shape.height * (shape.width + RowPatch.blanks(shape))

    @staticmethod
    def times(arrivals: Times, *, shape: WindowShape) -> tuple[Times, Times]:
        """When words are taken and windows are given."""
        blanks = RowPatch.blanks(shape)
        rows = arrivals.reshape(-1, shape.width)
        shifts = in_turn(np.pad(rows, ((0, 0), (0, blanks))).reshape(-1)).reshape(len(rows), -1)
        last = np.arange(shape.out_width) * shape.stride[1] - shape.pads[1] + shape.reach[1]
        inside = np.minimum(last, shape.width + blanks - 1)
        given = shifts[:, inside] + (last - inside) + 1
        return shifts[:, :shape.width].reshape(-1), in_turn(given.reshape(-1))

    @staticmethod
    def cost(*, shape: WindowShape, width: int) -> Resources:
        """Estimate for words of `width` bits."""
        masked = sum(bool(((taps < 0) | (taps >= shape.width)).any()) for taps in shape.columns_at().T)
        counters = 3 * shape.width.bit_length()
        return Resources(lut=counters + masked * width // 2 + 16,
                         ff=(shape.reach[1] + shape.kernel[1]) * width + counters + 8)

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[n, height, width, lanes] to [n, height, out_width, kernel columns * lanes]."""
        left, right = self.shape.pads[1], self.shape.pads[3]
        padded = np.pad(np.asarray(frames, dtype=np.int64), ((0, 0), (0, 0), (left, right), (0, 0)),
                        constant_values=self.pad_value)
        taps = padded[:, :, self.shape.columns_at() + left]
        return taps.reshape(*taps.shape[:3], -1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        blanks, head, stride = self.blanks(shape), shape.reach[1] - shape.pads[1], shape.stride[1]
        free, shift, emit = Signal(), Signal(), Signal()

        # Words of the row, then the blanks that it needs.
        words = Nest(m, (shape.width + blanks,), name="word")
        more = Signal()  # the row's first window is out and its last is not
        at_start, blank = words.at(0, [0]), words.at(0, range(shape.width, shape.width + blanks))
        filling = at_start & more & ~self.i.valid
        m.d.comb += [
            self.i.ready.eq(free & ~blank),
            shift.eq(free & (blank | self.i.valid | filling)),
        ]
        words.advance(shift & ~filling)

        # The first window is complete with word `head`, the next ones `stride` words later each.
        first, due = words.at(0, [head]) & ~filling, Const(1)
        if stride > 1:
            gap = Signal(Shape.cast(range(-1, stride - 1)), init=-1)
            with m.If(emit):
                m.d.sync += gap.eq(stride - 2)
            with m.Elif(shift & ~gap[-1]):
                m.d.sync += gap.eq(gap - 1)
            due = gap[-1]
        windows = Nest(m, (shape.out_width,), ahead=1, name="window")
        windows.advance(emit)
        ends = Signal(init=shape.out_width == 1)
        m.d.comb += emit.eq(shift & (first | (more & due)))
        with m.If(emit):
            m.d.sync += [ends.eq(windows.last[0]), more.eq(~ends)]

        self.taps(m, windows, shift, emit, free)
        return m

    def taps(self, m: Module, windows: Nest, shift: Signal, emit: Signal, free: Signal) -> None:
        """The shift register, and the output register with the padding put in."""
        shape = self.shape
        width = self.element.width * self.lanes
        padding = Cat(*(Const(self.pad_value, self.element) for _ in range(self.lanes)))
        words = [Value.cast(self.i.payload)]
        for k in range(shape.reach[1]):
            word = Signal(width, name=f"word_{k}", reset_less=True)
            with m.If(shift):
                m.d.sync += word.eq(words[-1])
            words.append(word)

        valid, patch = Signal(), Signal(width * shape.kernel[1], reset_less=True)
        m.d.comb += [free.eq(~valid | self.o.ready), self.o.valid.eq(valid), Value.cast(self.o.payload).eq(patch)]
        with m.If(free):
            m.d.sync += valid.eq(emit)
        taps = shape.columns_at()
        for k, outside in enumerate(((taps < 0) | (taps >= shape.width)).T):
            tap = words[shape.reach[1] - k * shape.dilation[1]]
            masked = Signal(init=int(outside[0]), name=f"outside_{k}")
            if outside.all():
                m.d.comb += masked.eq(1)
            elif outside.any():
                with m.If(emit):
                    m.d.sync += masked.eq(windows.at(0, (int(i) for i in np.flatnonzero(outside))))
            with m.If(free):
                m.d.sync += patch.word_select(k, width).eq(Mux(masked, padding, tap))
