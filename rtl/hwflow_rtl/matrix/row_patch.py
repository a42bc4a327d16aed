"""`RowPatch` gathers the taps of a row of the kernel into one word, so that an array can multiply several at once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import Nest, prefetched
from ..stream.queue import Queue, has_tables
from ..stream.streams import link, payload_of, stream_of
from ..stream.times import Times
from ..stream.word_join import spaced
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds, Memory, MemoryKind, Place
from ..window.address import before_first
from ..window.shape import WindowShape, with_frames_before

IntArray = npt.NDArray[np.int64]


#: The longest delay, in words, in registers.
SHIFT_DEPTH = 4
#: The deepest delay in tables: 64 places of 4 bits take as much logic as two registers of 16 bits.
TABLE_DEPTH = 64
#: Depth of the output FIFO in windows; with 1 the reader's ready would have a combinational path to the source.
WAITING = 2


@dataclass(frozen=True, kw_only=True)
class RowPatchShape:
    """[height, width, words] words of `lanes` channels become [height, out_width, words] of kernel columns x `lanes`.

    Horizontal padding, stride and dilation are applied here; lane `kx * lanes + c` holds channel c of tap column kx.
    Only the width, the words, and the columns of kernel, stride, dilation and pads, of `window` matter: rows are
    independent, unless the window keeps columns.  Then a frame has one row, and the row of the frame before is on its
    left: the delay line has its last words.
    """

    window: WindowShape
    element: Shape
    lanes: int
    pad_value: int = 0

    def __post_init__(self) -> None:
        window = self.window
        if window.pads[1] > window.reach[1]:
            raise ValueError(f"left padding of a RowPatch must be at most the reach of its kernel, {window.reach[1]}, "
                             f"not {window.pads[1]}")

    @property
    def keeps(self) -> bool:
        """Whether columns of the frames before are kept."""
        return self.window.kept and self.window.kept_axis == 1

    @property
    def places(self) -> int:
        """Words from a tap to the next."""
        return self.window.dilation[1] * self.window.words

    def shift_depth(self, technology: Technology) -> int:
        """The longest delay, in words, that is in registers."""
        return max(SHIFT_DEPTH, technology.timing.ram + 1)

    def in_blocks(self, technology: Technology) -> bool:
        """Whether a longer delay is in RAM blocks."""
        return self.places > TABLE_DEPTH or not has_tables(technology)

    def cost(self, technology: Technology) -> Resources:
        """LUT and FF estimated; RAM exact."""
        window, width = self.window, self.lanes * self.element.width
        masked = sum(bool(((taps < 0) | (taps >= window.width)).any()) for taps in window.columns_at().T)
        counters = 3 * window.width.bit_length() + 3 * (window.words - 1).bit_length()
        total = (Queue.cost(width=window.kernel[1] * width, depth=WAITING)
                 + (window.kept_cost() if self.keeps else Resources())
                 + fitted("RowPatch", counter_bits=counters, masked_taps=masked))
        places, bits = self.places, (window.kernel[1] - 1) * width
        if places <= self.shift_depth(technology) or not bits:
            return total + Resources(ff=places * bits)
        total += fitted("RowPatch in memory", address_bits=ceil_log2(places))
        if not self.in_blocks(technology):
            # It is read in the cycle of its address, so of the registers of `ram` it has only the one of the word.
            line = Memory("line", MemoryKind.RAM, Holds.RING, bits, places, fixed=Place.TABLES)
            return total + replace(technology.preferred_cost(line), ff=bits)
        latency = technology.timing.ram
        return (total + technology.ram_cost(width=bits, depth=places - latency, name="line")
                + Resources(lut=latency * bits, ff=(latency + 1) * bits))

    def build(self, technology: Technology) -> RowPatch:
        return RowPatch(shape=self, technology=technology)


def blanks_of(window: WindowShape) -> int:
    """Blank pixels after every row, without which its last windows would leave after the next row's first."""
    # Pixels after the last one of a row until its last window is complete.
    tail = max(0, (window.out_width - 1) * window.stride[1] - window.pads[1] + window.reach[1] - (window.width - 1))
    head = window.reach[1] - window.pads[1]
    return tail if max(tail, head) >= window.width else max(0, tail - head)


def patch_cycles(window: WindowShape) -> int:
    """Cycles of a frame if words arrive in time and there is no backpressure."""
    return window.height * (window.width + blanks_of(window)) * window.words


class RowPatch(wiring.Component):
    """The patches of `shape`.

    A delay line holds the words from the first to the last tap of the kernel.  It continues over the ends of rows; taps
    outside the row are masked.  The last windows of a row reach over its end.  They leave when the first words of the
    next row enter, or blanks if no word has arrived, so they never wait for the next row.  After the first word of a
    row, only words of that row enter.

    Latency from the last word of a window to the window: 1 cycle.  Throughput: one word a cycle at the input or, if
    there are more windows than words, one window a cycle at the output.
    """

    def __init__(self, *, shape: RowPatchShape, technology: Technology):
        self.shape = shape
        self.technology = technology
        super().__init__({
            "i": In(stream_of(shape.element, shape.lanes)),
            "o": Out(stream_of(shape.element, shape.lanes * shape.window.kernel[1])),
        })

    def model(self, frames: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """[n, height, width, words * lanes] to [n, height, out_width, words * kernel columns * lanes]."""
        window, lanes = self.shape.window, self.shape.lanes
        left, right = window.pads[1], window.pads[3]
        frames = np.asarray(frames, dtype=np.int64)
        if self.shape.keeps:
            frames, left = with_frames_before(frames, window, self.shape.pad_value), 0
        padded = np.pad(frames, ((0, 0), (0, 0), (left, right), (0, 0)),
                        constant_values=self.shape.pad_value)
        words = padded.reshape(*padded.shape[:3], window.words, lanes)
        taps = words[:, :, window.columns_at() + window.pads[1]]  # [n, row, out column, tap, word, lane]
        taps = np.moveaxis(taps, 3, 4)
        return taps.reshape(*taps.shape[:3], -1)

    def elaborate(self, platform):
        m = Module()
        shape = self.shape.window
        blanks, head = blanks_of(shape), shape.reach[1] - shape.pads[1]
        free, shift, emit, step = Signal(name="free"), Signal(name="shift"), Signal(name="emit"), Signal(name="step")

        # Words of the row, then the blanks that it needs.  The flags about them are registers, set a word ahead.
        words = Nest(m, (shape.words, shape.width + blanks), ahead=1, name="word")
        words.advance(step)
        at_start = self.flag(m, words, step, [0], "at_start")
        blank = self.flag(m, words, step, range(shape.width, shape.width + blanks), "blank", first_word=False)
        # The first window is complete with the pixel `head`, the next ones `stride` pixels later each.
        first = self.flag(m, words, step, [head], "first")
        more = Signal()  # the row's first window is out and its last is not
        filling = at_start & more  # shift even without a word
        m.d.comb += [
            self.i.ready.eq(free & ~blank), step.eq(free & (blank | self.i.valid)),
            shift.eq(free & (blank | self.i.valid | filling)),
        ]
        windows = Nest(m, (shape.words, shape.out_width), ahead=1, name="window")
        windows.advance(emit)
        ends = Signal(init=shape.out_width * shape.words == 1)
        m.d.comb += emit.eq((step & first) | (shift & more & self.due(m, shift, emit)))
        with m.If(emit):
            m.d.sync += [ends.eq(windows.last[0] & windows.last[1]), more.eq(~ends)]

        self.outputs(m, windows, self.taps(m, shift), emit, free, ends)
        return m

    def flag(self, m: Module, words: Nest, step: Signal, pixels: Iterable[int], name: str, *,
             first_word: bool = True) -> Value:
        """Whether the next word belongs to one of these pixels; with `first_word`, whether it is the first word of one.

        `words` is a word ahead.
        """
        pixels = tuple(pixels)
        if not pixels:
            return Const(0, 1)
        flag = Signal(init=0 in pixels, name=name)
        with m.If(step):
            m.d.sync += flag.eq(words.at(1, pixels) & (words.at(0, [0]) if first_word else 1))
        return flag

    def due(self, m: Module, shift: Signal, emit: Signal) -> Value:
        """Whether the next word or blank completes a window, after the first window of the row."""
        pause = (self.shape.window.stride[1] - 1) * self.shape.window.words
        if not pause:
            return Const(1)
        parts = Nest(m, (self.shape.window.words,), name="part")
        parts.advance(emit)
        gap = Signal(Shape.cast(range(-1, pause)), init=-1)
        with m.If(emit):  # also of the first window of a row, if the pause of the previous row is not over
            m.d.sync += gap.eq(Mux(parts.last[0], pause - 1, -1))
        with m.Elif(shift & ~gap[-1]):
            m.d.sync += gap.eq(gap - 1)
        return gap[-1]

    def taps(self, m: Module, shift: Signal) -> list[Value]:
        """The word of each kernel column, in the order of the columns."""
        columns, places = self.shape.window.kernel[1], self.shape.places
        newest = Value.cast(self.i.payload)
        width = len(newest)
        if columns == 1:
            return [newest]
        if places <= self.shape.shift_depth(self.technology):
            words = [newest]
            for k in range(self.shape.window.reach[1] * self.shape.window.words):
                word = Signal(width, name=f"word_{k}", reset_less=True)
                with m.If(shift):
                    m.d.sync += word.eq(words[-1])
                words.append(word)
            return words[::-places]
        old = self.line(m, shift, newest, places, width * (columns - 1))
        return [old.word_select(k, width) for k in reversed(range(columns - 1))] + [newest]

    def line(self, m: Module, shift: Signal, newest: Value, places: int, width: int) -> Value:
        """All taps but the newest come out of one memory, and are written back into it, one column further.

        RAM blocks are read ahead: by as many shifts as their latency in cycles, and one more.
        """
        latency = self.technology.timing.ram if self.shape.in_blocks(self.technology) else 0
        depth = places - latency
        words = [Signal(width, name=f"old_{k}", reset_less=True) for k in range(latency + 1)]
        here, ahead = Signal(range(depth), name="here"), Signal(range(depth), init=1, name="ahead")
        wraps = Signal(init=depth == 2)
        with m.If(shift):
            m.d.sync += [here.eq(ahead), ahead.eq(Mux(wraps, 0, ahead + 1)), wraps.eq(ahead == depth - 2)]
        word = Cat(newest, words[0])[:width]
        if latency:
            m.submodules.line = line = self.technology.ram(width=width, depth=depth, name="line")
            m.d.comb += [line.write_en.eq(shift), line.write_addr.eq(here), line.write_data.eq(word),
                         line.read_addr.eq(ahead)]
            return prefetched(m, shift, line.read_data, words)
        m.submodules.line = line = memory.Memory(
            shape=width, depth=depth, init=[], attrs={"ram_style": "distributed"})
        write, read = line.write_port(), line.read_port(domain="comb")
        m.d.comb += [write.en.eq(shift), write.addr.eq(here), write.data.eq(word), read.addr.eq(ahead)]
        return prefetched(m, shift, read.data, words)

    def outputs(self, m: Module, windows: Nest, taps: list[Value], emit: Signal, free: Signal, ends: Signal) -> None:
        """The FIFO at the output, with the padding in place of masked taps; `free` is a register."""
        width = len(taps[0])
        shape = self.shape
        padding = Cat(*(Const(shape.pad_value, shape.element) for _ in range(shape.lanes)))
        m.submodules.waiting = waiting = Queue(shape=payload_of(self.o), depth=WAITING)
        patch = Value.cast(waiting.i.payload)
        m.d.comb += [free.eq(waiting.i.ready), waiting.i.valid.eq(emit)]
        link(m, waiting.o, wiring.flipped(self.o))
        if shape.keeps:
            flags = before_first(m, shape.window, windows, 1, emit, ends)
            for k, masked in enumerate(flags):
                m.d.comb += patch.word_select(k, width).eq(Mux(masked, padding, taps[k]))
            return
        columns = shape.window.columns_at()
        for k, outside in enumerate(((columns < 0) | (columns >= shape.window.width)).T):
            masked = Signal(init=int(outside[0]), name=f"outside_{k}")
            if outside.all():
                m.d.comb += masked.eq(1)
            elif outside.any():
                with m.If(emit):
                    m.d.sync += masked.eq(windows.at(1, (int(i) for i in np.flatnonzero(outside))))
            m.d.comb += patch.word_select(k, width).eq(Mux(masked, padding, taps[k]))


class PatchTimes:
    """The cycles in which a `RowPatch` takes words and gives windows, if words arrive late and windows wait.

    The blanks after a row depend on when the next row arrives, and this depends on when windows are taken.  So `play`
    is repeated with the times of the reader of the windows, until they do not change.  Each round is right up to a
    later cycle than the one before, because no cycle depends on later ones.
    """

    def __init__(self, shape: WindowShape, earliest: Times, spacing: IntArray):
        """`earliest[k]`: when word k can arrive; `spacing[k]`: the least cycles from the word before it to word k."""
        pixels = np.arange(shape.out_width) * shape.stride[1] - shape.pads[1] + shape.reach[1]
        #: The shift, counted from the row's first, with which each window is complete.
        self.at = (pixels[:, None] * shape.words + np.arange(shape.words)).reshape(-1)
        words, blanks = shape.width * shape.words, blanks_of(shape) * shape.words
        self.row = words + blanks  # shifts of a row
        self.late = max(0, int(self.at[-1]) + 1 - self.row)  # shifts after the row that its last windows wait for
        self.earliest = earliest.reshape(-1, words)
        self.rows = len(self.earliest)
        self.spacing = spacing.reshape(self.earliest.shape)
        #: Blanks that fill the pause after each row; words are taken at `words`.
        self.fillers: IntArray = np.zeros(self.rows, dtype=np.int64)
        self.words: Times = np.zeros_like(self.earliest) - self.spacing

    def play(self, room: Times | None) -> Times:
        """The cycles in which windows are offered, if window j can be taken from cycle `room[j]` on."""
        waits = None if room is None else np.append(0, room[:-1] + 1).reshape(self.rows, -1)
        words = self.earliest.shape[1]
        bound, spacing = np.zeros((self.rows, self.row), dtype=np.int64), np.ones((self.rows, self.row), dtype=np.int64)
        bound[:, :words], spacing[:, :words] = self.earliest, self.spacing
        if self.row > words:  # the word before is further away than the blank before
            bound[1:, 0] = np.maximum(bound[1:, 0], self.words[:-1, -1] + self.spacing[1:, 0])
            spacing[:, 0] = 1
        if waits is not None:
            self.wait(bound, waits)
        shifts = spaced(bound.reshape(-1), spacing.reshape(-1)).reshape(bound.shape)
        self.words = shifts[:, :words]
        leaving = np.empty((self.rows, len(self.at)), dtype=np.int64)
        inside = self.at < self.row
        leaving[:, inside] = shifts[:, self.at[inside]]
        if self.late:
            leaving[:, ~inside] = self.behind(shifts, waits)
        return leaving.reshape(-1) + 1

    def wait(self, bound: Times, waits: Times) -> None:
        """After a window nothing moves until a place is free: one cycle after the window before it is taken."""
        after = self.at + 1
        inside = after < self.row
        bound[:, after[inside]] = np.maximum(bound[:, after[inside]], waits[:, inside])
        for j in np.flatnonzero(~inside):
            place = after[j] - self.row - self.fillers[:-1]
            rows = np.flatnonzero(place >= 0)
            place = place[rows]
            bound[rows + 1, place] = np.maximum(bound[rows + 1, place], waits[rows, j])

    def behind(self, shifts: Times, waits: Times | None) -> Times:
        """The cycles in which windows that reach over the end of a row are completed, by blanks or by words of the
        next row.
        """
        there = np.maximum(self.earliest[1:, 0], self.words[:-1, -1] + self.spacing[1:, 0])
        bound = np.zeros((self.rows, self.late), dtype=np.int64)
        bound[:, 0] = shifts[:, -1] + 1
        if waits is not None:
            held = (self.at + 1 >= self.row) & (self.at + 1 < self.row + self.late)
            places = self.at[held] + 1 - self.row
            bound[:, places] = np.maximum(bound[:, places], waits[:, held])
        even = np.arange(self.late)
        blanks = np.maximum.accumulate(bound - even, axis=1) + even
        filled = np.ones(bound.shape, dtype=bool)
        filled[:-1] = blanks[:-1] < there[:, None]
        self.fillers = filled.sum(axis=1)
        place = self.at[self.at >= self.row] - self.row
        rest = np.maximum(place - self.fillers[:, None], 0)
        following = np.concatenate([shifts[1:], shifts[-1:]])
        return np.where(filled[:, place], blanks[:, place], np.take_along_axis(following, rest, axis=1))
