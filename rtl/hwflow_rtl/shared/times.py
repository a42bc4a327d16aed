"""The cycles of a shared stage: when it takes and gives beats, and when its steps begin."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from ..rescale.plan import RequantizerStyle
from ..stream.times import Times, in_turn
from ..vendor.base import Technology
from .array import array_latency
from .encoding import Encoding
from .ends import fill_latency
from .program import Program
from .results import ResultsShape
from .sequencer import GATE_CYCLES
from .steps import Compute, Fill, IntArray, Load, Operation, Store
from .weights import LATENCY, PERIOD, SLOTS

# When a shared stage takes the beats of its inputs: as soon as a frame is let in, beside the results of others.


class Loading:
    """Follows the frames of all inputs while a program is played, step after step.

    `results` gets arrays of the cycles in which words of results are complete, in order, None where no frame comes in
    meanwhile.
    """

    def __init__(self, program: Program, arrivals: Sequence[Times], lanes_in: Sequence[int]):
        self.program = program
        self.arrivals = arrivals
        self.lanes_in = lanes_in
        self.results: list[Times] | None = None if program.opens is None else []
        #: By port the first cycle in which a beat may be taken.
        self.ready = [1 for _ in arrivals]

    def begins(self, number: int, begin: int) -> None:
        """The step of this number begins in cycle `begin`."""
        step = self.program.steps[number]
        if number == self.program.opens and self.results is not None:
            self.ready = [begin + 2 for _ in self.arrivals]
            self.results[:] = [each for each in self.results if each[-1] > begin]
        elif self.program.opens is None and isinstance(step, Load):
            self.ready[step.port] = begin + 2

    def times(self, step: Load, frame: int) -> Times:
        """The cycles in which the beats of a frame are taken."""
        lanes = self.lanes_in[step.port]
        beats = step.pixels * step.channels // lanes
        came = np.maximum(self.arrivals[step.port][frame * beats:(frame + 1) * beats], self.ready[step.port])
        if self.results is None:
            return in_turn(came)
        ends = words_ending(step, self.program.shape.columns, lanes)
        return completed(came, ends, self.results, step.port, len(self.arrivals))


def words_ending(step: Load, columns: int, lanes: int) -> IntArray:
    """The beats of a frame that complete a word."""
    of_pixel, of_word = step.channels // lanes, max(1, columns // lanes)
    ends = np.unique(np.append(np.arange(of_word, of_pixel + 1, of_word), of_pixel)) - 1
    return (np.arange(step.pixels)[:, None] * of_pixel + ends).reshape(-1)


def completed(earliest: Times, ends: IntArray, results: Sequence[Times], port: int, ports: int) -> Times:
    """The cycles in which the beats of a frame are taken, none before its `earliest`, while others are computed.

    The beats `ends` complete words.  They are taken in turn with those of the other ports, and in no cycle in which a
    word of results is complete.
    """
    busy = set(np.concatenate(results).tolist()) if results else set()
    counts = np.diff(ends, prepend=-1)
    in_word = np.arange(len(earliest)) - np.repeat(ends - counts + 1, counts)
    slack = np.repeat(counts, counts) - 1 - in_word  # beats of the word after each
    alone = np.maximum.reduceat(earliest + slack, ends - counts + 1)
    at, moments = -1, []
    for word, count in zip(alone.tolist(), counts.tolist(), strict=True):
        at = max(word, at + count)
        at += (port - at) % ports
        while at in busy:
            at += ports
        moments.append(at)
    last = np.array(moments, np.int64)
    begins = np.concatenate([[0], last[:-1] + 1])
    times = in_turn(np.maximum(earliest, np.repeat(begins, counts)))
    times[ends] = last
    return times


@dataclass(frozen=True)
class SharedTimes:
    """Cycles: `taken[k]`, of the beats of input k; `departures[k]`, of those of output k; `begins` [frames, steps], in
    which the steps begin; `waits` [frames, steps], of them those in which the array waits for weights."""

    taken: tuple[Times, ...]
    departures: tuple[Times, ...]
    begins: Times
    waits: Times

    @property
    def ends(self) -> Times:
        """The cycles in which the steps end: the next one begins, of the same frame or of the one after it."""
        after = np.append(self.begins[1:, 0], self.begins[-1, 0] + self.interval)
        ends: Times = np.concatenate([self.begins[:, 1:], after[:, None]], axis=1)
        return ends

    @property
    def interval(self) -> int:
        """Cycles from the first step of the last frame but one to that of the last frame; of a frame alone those until
        it has given its last result and begun its last step."""
        if len(self.begins) == 1:
            return 1 + max(int(self.begins[0, -1]), *(int(times[-1]) for times in self.departures)) - int(
                self.begins[0, 0])
        return int(self.begins[-1, 0] - self.begins[-2, 0])


class Player:
    """Plays the program frame by frame; each part's weights fill the buffer before the part is computed."""

    def __init__(self, program: Program, technology: Technology, style: RequantizerStyle, interval: Fraction,
                 first_beat: int):
        self.program = program
        self.shape = program.shape
        self.interval = interval
        self.ram = technology.timing.ram
        self.fetch = Encoding(program).chunks + technology.timing.rom + 1
        self.array = array_latency(self.shape, technology)
        self.results = ResultsShape(shape=self.shape, style=style).latency(technology)
        self.groups_cycles = (self.shape.columns // self.shape.lanes - 1) * self.shape.interval
        #: When the stream of weights has its next beat: so many parts of a cycle, `interval.denominator` in each.
        self.next_beat = first_beat * interval.denominator
        self.done = [-1] * SLOTS  # cycles in which slots of constants became free, the oldest first
        self.words = 0
        #: When the last beats left the queue of those that came ahead: as many as it has room for.
        self.gone = np.full(self.shape.ahead, -PERIOD, np.int64)
        #: Words of weights that are freed with a part, and when.
        self.freed_words, self.freed_at = [0], [-2]

    def take(self, earliest: Times) -> Times:
        """The beats of weights from the next one on, not before `earliest`."""
        if not self.shape.ahead:
            return self.come(earliest)
        count = len(earliest)
        least = np.maximum(earliest, self.come(self.gone[:count] + 1) + LATENCY)
        even = np.arange(count, dtype=np.int64) * PERIOD
        least[0] = max(int(least[0]), int(self.gone[-1]) + PERIOD)
        turns = -(-least // PERIOD) * PERIOD  # it gives them in its own cycles
        taken = np.maximum.accumulate(turns - even) + even
        self.gone = np.concatenate([self.gone[count:], taken])
        return taken

    def come(self, earliest: Times) -> Times:
        """Beats that the stream gives, not before `earliest`."""
        scale, step = self.interval.denominator, self.interval.numerator
        even = np.arange(len(earliest), dtype=np.int64) * step
        scaled = np.maximum.accumulate(np.maximum(earliest * scale, self.next_beat) - even) + even
        self.next_beat = int(scaled[-1]) + step
        return -(-scaled // scale)

    def last_of(self, groups: Sequence[tuple[int, int]], count: int) -> int:
        """The cycle of the last of `count` beats; of each group the number of its first beat, and the cycle before
        which its beats cannot come."""
        if self.shape.ahead:
            firsts, earliest = np.array(groups, np.int64).T
            return int(self.take(np.repeat(earliest, np.diff(firsts, append=count)))[-1])
        scale, step = self.interval.denominator, self.interval.numerator  # as `come`, for the first beats of groups
        begin = max(self.next_beat, *(earliest * scale - first * step for first, earliest in groups))
        self.next_beat = begin + count * step
        return -(-(self.next_beat - step) // scale)

    def tile(self) -> int:
        """Header and constants of a tile; the cycle of the last of these beats."""
        return self.last_of([(0, self.done.pop(0) + 1)], self.shape.header_beats)

    def part(self, words: int) -> int:
        """The weights of a part; the cycle of the last beat."""
        beats = self.shape.columns // self.shape.stream_rows
        first = self.words + 1 - self.shape.buffer  # as many words must be free for the first word, one more for each
        groups, word = ([(0, 0)], 1 - first) if first <= 0 else ([], 0)
        while word < words:
            place = bisect_left(self.freed_words, first + word)
            groups.append((word * beats, self.freed_at[place] + 2))
            word = self.freed_words[place] + 1 - first
        self.words += words
        return self.last_of(groups, words * beats)

    def compute(self, step: Compute, begin: int, results: list[Times] | None) -> tuple[int, int]:
        """The cycle in which the sequencer starts to read the next step; cycles of waiting for weights.

        `results` gets the cycles in which words of results are complete.
        """
        period = self.shape.period(step)
        start, waited, last = begin + 1, 0, 0
        weighted = step.operation is not Operation.MAXIMUM
        for _ in range(step.loops.tiles):
            there = self.tile() + 1
            for _ in range(step.turns_of_tile):
                if weighted:
                    there = max(there, self.part(step.part) + 2)
                earliest = start + GATE_CYCLES - 1
                gate = max(earliest, there)
                waited += gate - earliest
                blocks = step.loops.blocks_in_tile
                last = gate + (blocks - 1) * period + self.shape.cycles(step)
                start = gate + 1 + blocks * period
                if weighted:
                    self.freed_words.append(self.freed_words[-1] + step.part)
                    self.freed_at.append(last)
            self.done.append(last + self.array + self.groups_cycles)
            if results is not None:
                after = (step.loops.blocks_in_tile - 1 - step.writers[0]) * period
                results.append(last + self.ram + self.array + self.results - after)
        self.freed_words, self.freed_at = self.freed_words[-4096:], self.freed_at[-4096:]
        written = last + self.ram + self.array + self.results + 1
        return max(written + 1, start), waited


def filled(program: Program, step: Fill, begin: int, results: list[Times] | None, technology: Technology) -> int:
    """The cycle in which the sequencer starts to read the next step; `results` as of `Player.compute`."""
    words = begin + 1 + fill_latency(program.image, technology) + np.arange(step.words)
    if results is not None:
        results.append(words)
    return int(words[-1]) + 2


def play(program: Program, *, arrivals: Sequence[Times], lanes_in: Sequence[int], lanes_out: Sequence[int],
         frames: int, technology: Technology, style: RequantizerStyle, interval: Fraction | None = None,
         left: Sequence[Times] | None = None) -> SharedTimes:
    """The cycles of `frames` frames whose beats arrive as `arrivals` says.

    `interval` is that of the beats of weights that arrive on a stream, from cycle 0 on; None: they are in a ROM.
    `left` has for each output the cycles in which the reader takes the beats; None: it takes each at once.

    Exact, to the cycle, where weights come in every cycle; else a bound.  Cycle 0 is the first without reset.
    """
    in_rom = interval is None
    player = Player(program, technology, style, Fraction(1) if interval is None else interval,
                    technology.timing.rom + 1 if in_rom else 0)
    loading, storing = Loading(program, arrivals, lanes_in), Storing(program, lanes_out, technology.timing.ram, left)
    taken: list[list[Times]] = [[] for _ in arrivals]
    begins, waits = np.zeros((2, frames, len(program.steps)), np.int64)
    begin = player.fetch - 1
    for frame in range(frames):
        for number, step in enumerate(program.steps):
            begins[frame, number] = begin
            if isinstance(step, Fill):
                if frame == 0:
                    begin = filled(program, step, begin, loading.results, technology) + player.fetch
                continue
            loading.begins(number, begin)
            if isinstance(step, Compute):
                next_fetch, waits[frame, number] = player.compute(step, begin, loading.results)
            elif isinstance(step, Load):
                times = loading.times(step, frame)
                taken[step.port].append(times)
                next_fetch = max(int(times[-1]) + 2, begin + 1)
            else:
                next_fetch = storing.store(step, begin)
            begin = next_fetch + player.fetch
    return SharedTimes(tuple(map(np.concatenate, taken)), storing.departures, begins, waits)


class Storing:
    """Follows the beats of all outputs; `left` as of `play`."""

    def __init__(self, program: Program, lanes_out: Sequence[int], ram: int, left: Sequence[Times] | None):
        self.columns = program.shape.columns
        self.lanes_out = lanes_out
        self.ram = ram
        #: By port, when the beat before each has left.
        self.before = None if left is None else [np.append(-1, each) for each in left]
        #: By port the beats of its frames up to now.
        self.made: list[list[Times]] = [[] for _ in lanes_out]

    @property
    def departures(self) -> tuple[Times, ...]:
        return tuple(map(np.concatenate, self.made))

    def store(self, step: Store, begin: int) -> int:
        """A frame that is stored from cycle `begin` on; the cycle in which its last word is read."""
        columns, lanes, made = self.columns, self.lanes_out[step.port], self.made[step.port]
        words = -(-step.channels // columns)
        beats = np.full(words, max(1, columns // lanes) if words > 1 else step.channels // lanes)
        beats[-1] = (step.channels - (words - 1) * columns) // lanes
        beats = np.tile(beats, step.pixels)
        firsts, count = np.cumsum(beats) - beats, int(beats.sum())
        before = np.full(count, -1)
        if self.before is not None:
            before = self.before[step.port][len(made) * count:][:count]
        more = self.ram + 1 if step.wide else 0  # the word with the high bytes comes so much later
        even = firsts + np.arange(len(beats)) * (self.ram + 1 + more)
        least = np.maximum(begin, before[firsts]) + 1 + more  # the beats of the word before it have left
        fetched = np.maximum.accumulate(least - even) + even
        of_word = np.arange(count) - np.repeat(firsts, beats)
        made.append(np.maximum(np.repeat(fetched, beats) + self.ram + 1 + of_word, before + 1))
        return int(fetched[-1])
