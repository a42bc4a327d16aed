"""Frame and window of a `LineBuffer`: kernel, stride, dilation, padding, groups; its schedule and ring, in numpy.

All addresses are counted in words (`lanes` channels of one pixel) from the start of the frame, row by row.  A window's
`base` is the address of its first tap.  The tap may be in the padding: before the frame, after it, or, because
addresses continue over the ends of rows and frames, in a neighbouring row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ..stream.times import Times, in_turn
from ..vendor.base import Resources

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class WindowShape:
    """A window of `kernel` taps that walks over frames of `height` x `width` pixels of `words` words each.

    height, width
        Of the input frame in pixels.
    words
        Channel words per pixel, that is channels / lanes.
    kernel, stride, dilation
        Rows, columns.
    pads
        Rows or columns of padding: top, left, bottom, right.
    kept
        The rows above a frame are not padding but the last rows of the frames before it, so many as there would be rows
        of padding.  Before the first frame they are padding.  Of a frame of one row without padding above it is so with
        the columns on its left.
    groups
        Of words: a block sees `words // groups` of them.
    tiles_per_group
        How often each group's window is played for one output pixel.
    """

    height: int
    width: int
    words: int
    kernel: tuple[int, int]
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1
    tiles_per_group: int = 1
    kept: bool = False

    def __post_init__(self) -> None:
        sizes = {
            "height": self.height, "width": self.width, "words": self.words, "groups": self.groups,
            "tiles_per_group": self.tiles_per_group, "kernel": min(self.kernel), "stride": min(self.stride),
            "dilation": min(self.dilation),
        }
        for name, size in sizes.items():
            if size < 1:
                raise ValueError(f"{name} of a WindowShape must be at least 1, not {size}")
        if min(self.pads) < 0:
            raise ValueError(f"pads of a WindowShape must be at least 0, not {self.pads}")
        if self.words % self.groups:
            raise ValueError(f"groups of a WindowShape must divide its {self.words} words, not {self.groups}")
        if self.kept:
            self.check_kept()
        for name, size, reach in (("height", self.height + self.pads[0] + self.pads[2], self.reach[0]),
                                  ("width", self.width + self.pads[1] + self.pads[3], self.reach[1])):
            if reach >= size:
                raise ValueError(f"{name} of a WindowShape with its padding must be at least that of its dilated "
                                 f"kernel, {reach + 1}, not {size}")

    def check_kept(self) -> None:
        """ValueError where the rows or columns that are kept are more than a window reaches, or follow each other in no
        raster of frames."""
        axis, (before, after) = self.kept_axis, self.pads[self.kept_axis::2]
        if before > self.reach[axis] or after:
            raise ValueError(f"a WindowShape that keeps {('rows', 'columns')[axis]} must have at most "
                             f"{self.reach[axis]} before its frames, the reach of its kernel, and none after, not "
                             f"{before} and {after}")
        if axis and (self.height, self.kernel[0], self.pads[2]) != (1, 1, 0):
            raise ValueError("a WindowShape that keeps columns must have frames and windows of one row")

    @property
    def kept_axis(self) -> int:
        """Of what is kept: 0 for rows, 1 for columns."""
        return 0 if self.pads[0] else 1

    @property
    def reach(self) -> tuple[int, int]:
        """Rows and columns from the first tap to the last."""
        return (self.kernel[0] - 1) * self.dilation[0], (self.kernel[1] - 1) * self.dilation[1]

    @property
    def out_height(self) -> int:
        return (self.height + self.pads[0] + self.pads[2] - self.reach[0] - 1) // self.stride[0] + 1

    @property
    def out_width(self) -> int:
        return (self.width + self.pads[1] + self.pads[3] - self.reach[1] - 1) // self.stride[1] + 1

    @property
    def group_words(self) -> int:
        return self.words // self.groups

    @property
    def beats(self) -> int:
        """Beats per block."""
        return self.kernel[0] * self.kernel[1] * self.group_words

    @property
    def blocks(self) -> int:
        """Blocks per frame."""
        return self.out_height * self.out_width * self.groups * self.tiles_per_group

    @property
    def input_words(self) -> int:
        """Words per frame."""
        return self.height * self.width * self.words

    def cycles(self, interval: int = 1) -> int:
        """Cycles from frame to frame; `interval` is the least from the start of a block to the next."""
        return max(self.blocks * max(self.beats, interval), self.input_words)

    @property
    def span(self) -> int:
        """Words from the base of a window to the last word that a block waits for, both included.

        That is the last word of its last tap.  A block whose window is in the padding as a whole also waits for
        the first word of its frame, so that no result leaves before the frame arrives.
        """
        last_tap = (self.reach[0] * self.width + self.reach[1]) * self.words + self.group_words
        return max(last_tap, 1 + (self.pads[0] * self.width + self.pads[1]) * self.words)

    @property
    def guard(self) -> int:
        """Words before the base that may still be needed: none, unless the padding is wider than the kernel."""
        beyond_x = (self.out_width - 1) * self.stride[1] - self.pads[1] - (self.width - 1)
        beyond_y = (self.out_height - 1) * self.stride[0] - self.pads[0] - (self.height - 1)
        return (max(0, beyond_y) * self.width + max(0, beyond_x)) * self.words

    def rows_at(self) -> IntArray:
        """Input row of each tap, [out_height, kernel rows]; in the padding where not in range(height)."""
        starts = np.arange(self.out_height) * self.stride[0] - self.pads[0]
        return starts[:, None] + np.arange(self.kernel[0]) * self.dilation[0]

    def frames_before(self) -> IntArray:
        """Where rows are kept: of how many first frames the row of each tap is before all frames, [out_height, kernel
        rows]; of columns [out_width, kernel columns]."""
        at = self.columns_at() // self.width if self.kept_axis else self.rows_at() // self.height
        return np.maximum(0, -at)

    def kept_cost(self) -> Resources:
        """What finds the padding before the first frame, where rows or columns are kept: a count of frames, and
        comparisons.  LUT and FF estimated."""
        if not self.kept:
            return Resources()
        frames = self.frames_before()
        bits = int(frames.max()).bit_length()
        compared = sum(len(np.unique(until[until > 0])) for until in frames.T)
        return Resources(lut=2 * bits + compared * (1 + bits // 3), ff=bits)

    def columns_at(self) -> IntArray:
        """Input column of each tap, [out_width, kernel columns]; in the padding where not in range(width)."""
        starts = np.arange(self.out_width) * self.stride[1] - self.pads[1]
        return starts[:, None] + np.arange(self.kernel[1]) * self.dilation[1]

    def bases(self) -> IntArray:
        """Base of each output pixel's window, [out_height * out_width]."""
        rows, columns = self.rows_at()[:, 0], self.columns_at()[:, 0]
        return ((rows[:, None] * self.width + columns) * self.words).reshape(-1)

    def group_bases(self) -> IntArray:
        """Base of each output pixel's window in each group, [out_height * out_width * groups]."""
        return (self.bases()[:, None] + np.arange(self.groups) * self.group_words).reshape(-1)

    def lookahead(self, interval: int = 1) -> int:
        """Cycles from the decision that a block starts to its start."""
        return 0 if max(interval, self.beats) == 1 else 1

    def decided(self, interval: int = 1) -> int:
        """Cycles from the write of a word to the start of the block that waits for it."""
        return 2 + self.lookahead(interval)

    def times(self, arrivals: Times, depth: int, interval: int = 1,
              begin: Callable[[Times, int], Times] = in_turn) -> tuple[Times, Times]:
        """The cycles in which a `LineBuffer` with a ring of `depth` words starts blocks and takes words.

        `arrivals` has those of the words of whole frames.  `begin`: see `play`.
        """
        def source(room: Times | None) -> tuple[Times, ...]:
            taken = in_turn(arrivals if room is None else np.maximum(arrivals, room))
            return np.maximum(arrivals, np.append(arrivals[:1], taken[:-1] + 1)), taken

        starts, (_, taken) = self.play(source, len(arrivals) // self.input_words, depth, interval, begin)
        return starts, taken

    def play(self, source: Callable[[Times | None], tuple[Times, ...]], frames: int, depth: int,
             interval: int = 1, begin: Callable[[Times, int], Times] = in_turn) -> tuple[Times, tuple[Times, ...]]:
        """The cycles in which a `LineBuffer` with a ring of `depth` words starts the blocks of `frames` frames; and the
        last answer of `source`.

        `begin(earliest, pace)`: the starts of blocks that may start from cycles `earliest` on, at least `pace` apart.

        `source` gets the cycle from which on the ring has room for each word (None: always).  It gives the cycles in
        which words arrive, those in which they are taken, and anything else that must no longer change.
        """
        pace = max(interval, self.beats)
        bases = np.repeat(self.group_bases(), self.tiles_per_group)
        first = np.arange(frames)[:, None] * self.input_words
        needs = (first + np.minimum(bases + self.span, self.input_words)).reshape(-1)
        bases = (first + bases).reshape(-1)
        least = np.arange(frames * self.input_words) - (depth - self.guard) + 1
        found = source(None)
        while True:  # each round is right for longer than the one before; most need two
            starts = begin(found[1][needs - 1] + self.decided(interval), pace)
            later = source(_room(starts, bases, least, found[0]))
            if all(np.array_equal(a, b) for a, b in zip(found, later, strict=True)):
                return starts, later
            found = later

    def ring_words(self, interval: int = 1, feed: int = 0) -> int:
        """The smallest ring, in words, that makes no window wait if words arrive evenly.

        `feed`: the least cycles in which the words of a frame can come.  Let block b start in cycle S(b) at full pace,
        and a word come every p cycles.  Word base(a - 1) + depth is written after the start of block a, the words
        after it come evenly, and the last that block b needs is written `decided` cycles before b starts.  So
        depth >= need(b) - 1 - base(a - 1) - (S(b) - S(a) - 1 - decided) / p for all a <= b.
        """
        return _ring_words(self, interval, feed)


def with_frames_before(frames: IntArray, shape: WindowShape, value: int) -> IntArray:
    """Frames [n, height, width, channels] of a sequence, each behind the rows, or columns, that its window keeps of
    those before it, which are `value` at first."""
    axis = 1 + shape.kept_axis
    kept, size = shape.pads[shape.kept_axis], frames.shape[axis]
    before = np.full((*frames.shape[1:axis], kept, *frames.shape[axis + 1:]), value, np.int64)
    sequence = np.concatenate([before, *frames], axis=axis - 1)
    return np.stack([np.take(sequence, np.arange(n * size, (n + 1) * size + kept), axis=axis - 1)
                     for n in range(len(frames))])


def _room(starts: Times, bases: IntArray, least: IntArray, there: Times) -> Times:
    """For each word the first cycle, once it has arrived, in which the playing block has a base of at least `least`.

    0 if the ring has room at once.  Bases usually grow, so room stays.  They do not if windows begin in the padding
    after a row or a frame.
    """
    block = np.searchsorted(np.maximum.accumulate(bases), least)  # the first that is far enough
    now = np.zeros_like(block)
    if (np.diff(bases) < 0).any():
        now = np.maximum(np.searchsorted(starts + 1, there, side="right") - 1, 0)
        block = np.maximum(block, now)
        ends = len(bases) - 1
        while (short := bases[np.minimum(block, ends)] < least)[block < ends].any():
            block[short & (block < ends)] += 1
    return np.where(block == now, 0, starts[np.minimum(block, len(starts) - 1)] + 1)


@lru_cache(maxsize=4096)
def _ring_words(shape: WindowShape, interval: int, feed: int) -> int:
    # The blocks that are the first with their base, of two frames.  All times are multiplied by `words`.
    cost, decided = shape.tiles_per_group * max(shape.beats, interval), shape.decided(interval)
    bases, words = shape.group_bases(), shape.input_words
    count = len(bases)
    cycles = max(count * cost, words, feed)
    early = decided + (cycles % words > 0)  # words that come evenly come in whole cycles
    last = np.minimum(bases + shape.span, words) - 1
    last, bases = np.append(last, last + words), np.append(bases, bases + words)
    before = np.append(bases[count - 1] - words, bases[:-1])
    starts = np.arange(2 * count) * cost * words
    if count * cost == cycles:
        wait = last * cycles - starts - np.minimum.accumulate(before * cycles - starts) + (1 + early) * words
        depth = max(-(-int(wait.max()) // cycles), int((last + 1 - bases).max()))
    else:  # the input is the limit: blocks start when their data arrives, and no word can wait
        starts += np.maximum.accumulate(last * cycles + early * words - starts)
        depth = -(-int((starts + words - before * cycles)[count:].max()) // cycles)
    return depth + shape.guard
