"""The schedule of a `RearrangeStage` in numpy: the address of every output word, the words still needed, the ring.

An output word (r, c, g) is the input word `rows[r] + columns[c] + groups[g]`, or padding.  Three nested loops play
them; what is added to an address at the end of a group, a column or a row depends on that loop's entry alone (`Axis`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ..stream.times import Times, in_turn

IntArray = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Axis:
    """Says what happens at the end of each entry of a loop.

    step
        Words from the last output word of this entry to the first of the next.
    freed
        Words that nothing wants any more once this entry's last word is played.
    outside
        The entry is padding.
    final
        The entry gives words free while it plays; else they are all given free at its end.
    low, high
        The first word that is wanted when the entry starts, and when its last word is played, from the start of the
        loop's first entry on.
    """

    step: IntArray
    freed: IntArray
    outside: Flags
    final: Flags
    low: IntArray
    high: IntArray

    @staticmethod
    def of(table: IntArray, span: int, low: int, high: int, frame: int | None = None) -> Axis:
        """The loop over `table`, -1 being padding.

        The loops inside move on by `span` words and give free what is before `low`, at their end before `high`.
        `frame` is the number of words of a frame if this is the outermost loop; the next frame follows its last entry.
        """
        outside, words = table < 0, held(table)
        real = np.flatnonzero(~outside)
        last = int(real[-1])
        last_wanted = np.where(outside, words.max(), words)
        first = np.minimum.accumulate(last_wanted[::-1])[::-1] + low  # of what follows, padding aside
        after = np.append(first[1:], (1 << 62) if frame is None else frame + first[0])
        after[last] = after[-1]
        ends, final = words + high, np.zeros(len(table), dtype=bool)
        final[:last + 1] = ~outside[:last + 1] & (ends <= after)[:last + 1]
        first[last + 1:] = ends[last] if final[last] else first[last]
        last_word = np.where(final, ends, first)
        following = np.append(first[1:], last_word[-1] if frame is None else frame + first[0])
        step = np.append(words[1:], words[-1] + span if frame is None else frame + words[0]) - words - span
        return Axis(step, following - last_word, outside, final, first, last_word)


def held(table: IntArray) -> IntArray:
    """`table` with padding replaced by the entry before it, or by the first where there is none."""
    place = np.maximum.accumulate(np.where(table >= 0, np.arange(len(table)), -1))
    return table[np.where(place < 0, np.argmax(table >= 0), place)]


@dataclass(frozen=True, eq=False, kw_only=True)
class RearrangeShape:
    """Output words rows x columns x groups out of frames of `input_words` words.

    rows, columns, groups
        int64 words of the input frame, whose sums lead to one of its words; -1: padding.
    earliest
        int64[input_words + 1], the earliest cycles in which the words of a frame and the first word of the next one can
        come, from the first word on; also from any word to any later one.  None: a word can come in each cycle.
    """

    input_words: int
    rows: IntArray
    columns: IntArray
    groups: IntArray
    earliest: IntArray | None = None

    def __post_init__(self) -> None:
        tables = {"rows": self.rows, "columns": self.columns, "groups": self.groups}
        for name, table in tables.items():
            if not len(table) or table.min() < -1:
                raise ValueError(f"{name} of a RearrangeShape must be words, or -1 for padding, and at least one, not "
                                 f"{table.tolist()}")
        highest = sum(max(0, int(table.max())) for table in tables.values())
        if highest >= self.input_words:
            raise ValueError(f"rows, columns and groups of a RearrangeShape must lead to one of the {self.input_words} "
                             f"words of a frame, not to word {highest}")

    @staticmethod
    def problem(rows: IntArray, columns: IntArray, channels: IntArray, lanes: int) -> str | None:
        """None where words of `lanes` elements can be moved as they are, for offsets in elements."""
        if len(channels) % lanes:
            return f"lanes must divide the {len(channels)} output channels, not be {lanes}"
        groups = channels.reshape(-1, lanes)
        start = groups[:, :1]
        if not np.array_equal(groups, np.where(start < 0, -1, start + np.arange(lanes))):
            return f"lanes must be such that channels move in words of neighbours, not {lanes}"
        offsets = [table[table >= 0] % lanes for table in (rows, columns, start[:, 0])]
        if all(len(rests) for rests in offsets) and (
                any((rests != rests[0]).any() for rests in offsets) or sum(int(rests[0]) for rests in offsets) % lanes):
            return f"lanes must be such that words of the output are words of the input, not {lanes}"
        return None

    @staticmethod
    def of(rows: IntArray, columns: IntArray, channels: IntArray, *, elements: int, lanes: int) -> RearrangeShape:
        """For offsets in elements of a frame that has `elements` of them.  ValueError where `lanes` do not fit."""
        problem = RearrangeShape.problem(rows, columns, channels, lanes)
        if problem or elements % lanes:
            raise ValueError(problem or f"lanes must divide the {elements} elements of the input, not be {lanes}")
        tables = [rows, columns, channels[::lanes]]
        lowest = [int(table[table >= 0].min(initial=1 << 62)) for table in tables]
        if max(lowest) == 1 << 62:  # nothing but padding
            zeros = [np.zeros(len(table), dtype=np.int64) for table in tables]
            return RearrangeShape(input_words=elements // lanes, rows=zeros[0] - 1, columns=zeros[1], groups=zeros[2])
        base = [sum(lowest) // lanes, 0, 0]
        words = [np.where(table < 0, -1, (table - low) // lanes + first)
                 for table, low, first in zip(tables, lowest, base, strict=True)]
        return RearrangeShape(input_words=elements // lanes, rows=words[0], columns=words[1], groups=words[2])

    @property
    def output_words(self) -> int:
        return len(self.rows) * len(self.columns) * len(self.groups)

    def cycles(self) -> int:
        """Cycles from frame to frame."""
        return max(self.output_words, self.input_words)

    @cached_property
    def axes(self) -> tuple[Axis, Axis, Axis]:
        """Groups, columns, rows.  What is said of the last group and column belongs to the loop around them."""
        if (self.rows < 0).all():  # the frame is given free at its end
            zeros, rows = np.zeros(1, dtype=np.int64), np.zeros(len(self.rows), dtype=np.int64)
            inner = [Axis(*(np.zeros(len(t), kind) for kind in (np.int64, np.int64, bool, bool, np.int64, np.int64)))
                     for t in (self.groups, self.columns)]
            ends = np.append(rows[:-1], self.input_words + zeros)
            return inner[0], inner[1], Axis(ends, ends, rows == 0, rows != 0, rows, rows)
        groups = Axis.of(self.groups, 0, 0, 0)
        columns = Axis.of(self.columns, self.span(self.groups), int(groups.low[0]), int(groups.high[-1]))
        span = self.span(self.columns) + self.span(self.groups)
        return groups, columns, Axis.of(self.rows, span, int(columns.low[0]), int(columns.high[-1]), self.input_words)

    @staticmethod
    def span(table: IntArray) -> int:
        """Words from the first entry of a loop to its last."""
        words = held(table)
        return int(words[-1] - words[0])

    @cached_property
    def steps(self) -> IntArray:
        """Words from each output word's address to the next one's, over the end of the frame too."""
        return self._unrolled("step")

    @cached_property
    def freed(self) -> IntArray:
        """Words that are given free with each output word, after which they may be overwritten."""
        return self._unrolled("freed")

    def _unrolled(self, field: str) -> IntArray:
        groups, columns, rows = self.axes
        words = np.empty((len(self.rows), len(self.columns), len(self.groups)), dtype=np.int64)
        words[:] = getattr(groups, field)
        ends = np.broadcast_to(getattr(columns, field), words.shape[:2]).copy()
        if field == "freed":
            words *= (rows.final[:, None] & columns.final)[:, :, None]
            ends *= rows.final[:, None]
        ends[:, -1] = getattr(rows, field)
        words[:, :, -1] = ends
        return words.reshape(-1)

    @cached_property
    def outside(self) -> Flags:
        """Whether each output word is padding."""
        groups, columns, rows = (axis.outside for axis in self.axes)
        return (rows[:, None, None] | columns[:, None] | groups).reshape(-1)

    @property
    def in_order(self) -> bool:
        """Whether each word is wanted at most once, in the order of the input, and none is padding."""
        return not self.outside.any() and int(self.steps.min()) > 0

    @property
    def first(self) -> int:
        """The address of the first output word; of padding, any."""
        return 0 if (self.rows < 0).all() else sum(int(held(t)[0]) for t in (self.rows, self.columns, self.groups))

    @property
    def skipped(self) -> int:
        """Words at the start of a frame that nothing wants."""
        return int(self.axes[2].low[0])

    @cached_property
    def addresses(self) -> IntArray:
        """Word of each output word; of padding, one before it or the first."""
        return self.first + np.append(0, np.cumsum(self.steps[:-1]))

    @cached_property
    def wanted(self) -> IntArray:
        """The first word of the frame that this output word or a later one needs."""
        return self.skipped + np.append(0, np.cumsum(self.freed[:-1]))

    @cached_property
    def needs(self) -> IntArray:
        """Words of the frame that must have come for each output word: its own, of padding the frame's first."""
        return np.where(self.outside, 1, self.addresses + 1)

    @cached_property
    def essential(self) -> RearrangeShape:
        """With two of equal rows that follow each other: more of them need no larger ring and no larger counters.

        What the others want has been there for the first of the two, and is given free with the last.
        """
        again = self.rows[1:] == self.rows[:-1]
        rows = self.rows[np.append(True, ~np.append(False, again[1:] & again[:-1])[:len(again)])]
        few = len(rows) == len(self.rows) or len(rows) * len(self.columns) * len(self.groups) < self.input_words
        return self if few else replace(self, rows=rows)

    @cached_property
    def ring_words(self) -> int:
        """Words of a ring with which it never makes anything wait at full pace.

        A word that output word b needs is written a cycle before b is played, and into a place that was given free a
        cycle before.  With b played in cycle S(b), depth >= (need(b) - S(b)) - (wanted(a - 1) - S(a)) for all a <= b;
        where input is the limit, S(b) follows the needs, and what has come by S(b) must have found its place.
        """
        if self.essential is not self:
            return self.essential.ring_words
        if self.earliest is not None:
            return max(2, self._words_for(self.earliest))
        words, count = self.input_words, self.output_words
        needs = np.concatenate([self.needs, self.needs + words])
        neighbours = np.concatenate([self.wanted[-1:] - words, self.wanted, self.wanted[:-1] + words])
        even = np.arange(len(needs))
        if count >= words:
            depth = np.max(needs - even - np.minimum.accumulate(neighbours - even))
        else:
            depth = np.max((in_turn(needs) + 1 - np.append(neighbours[1:], self.wanted[-1] + words))[count:])
        return max(2, int(depth))

    def _words_for(self, earliest: IntArray) -> int:
        """Words of the ring with which no word waits for room if words come at `earliest`.

        If they come later, output words are played later by at most the same time, so no word waits either.
        """
        frames = np.arange(3)[:, None]
        come = (frames * earliest[-1] + earliest[:-1]).reshape(-1)
        needs = (frames * self.input_words + self.needs).reshape(-1)
        until = np.append(frames * self.input_words + self.wanted, 3 * self.input_words + self.skipped)
        played = in_turn(come[needs - 1] + 1)
        return int((np.arange(len(come)) + 1 - until[np.searchsorted(played, come)]).max())

    def times(self, arrivals: Times, depth: int, room: Times | None = None) -> tuple[Times, Times]:
        """When output words are played and input words taken, which come as `arrivals` says, whole frames.

        The ring has `depth` words.  Output words are played from the cycles `room` on; None: at once.
        """
        frames = len(arrivals) // self.input_words
        offsets = np.arange(frames)[:, None] * self.input_words
        needs = (offsets + self.needs).reshape(-1)
        writable = (offsets + self.wanted).reshape(-1) + depth
        waits = np.searchsorted(writable, np.arange(len(arrivals)), side="right")  # output words played before
        taken = in_turn(arrivals)
        while True:  # each round lets words wait longer; most need one
            there = taken[needs - 1] + 1
            played = in_turn(there if room is None else np.maximum(there, room))
            writable_at = np.where(waits == 0, 0, played[waits - 1] + 1)
            later = in_turn(np.maximum(arrivals, writable_at))
            if np.array_equal(later, taken):
                return played, taken
            taken = later
