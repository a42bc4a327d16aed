"""The numbers that follow from the folding of a matrix stage: blocks, banks, intervals, buffer depths, in plain Python.

A matrix stage has `rows` x `cols` multipliers.  Its rows are grouped in *banks*: the rows of a bank share their words
of weights and one register of activations.  Each bank works one cycle after the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape, signed

from ..multiply.products import TABLE_INPUTS, Operand, ProductShape
from ..multiply.style import MultiplierStyle
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..window.shape import WindowShape
from .row_patch import patch_cycles
from .weights import ROMS, BankWords, WeightSource

IntArray = npt.NDArray[np.int64]

#: The most rows of a bank: so many rows one activation register can drive without limiting the clock.
BANK_ROWS = 8


def banks_of(rows: int, out_lanes: int) -> list[int]:
    """The numbers of rows that a bank can have, ascending."""
    return [bank for bank in range(1, min(rows, BANK_ROWS) + 1)
            if rows % bank == 0 and (bank % out_lanes == 0 or out_lanes % bank == 0)]


def pairs_rows(rows: int, out_lanes: int, together: int) -> bool:
    """Whether two rows always share their elements: `together` rows do, and a bank has an even number of rows."""
    return together % 2 == 0 and any(bank % 2 == 0 for bank in banks_of(rows, out_lanes))


#: The most cycles from result to result.  A requantizer in logic that takes one bit of a factor in each cycle needs so
#: many: 18 significant bits, and some that align the factors of the channels.  More cycles would save nothing.
SLOWEST_DRAIN = 24


def paces(beats: int, drain: int) -> tuple[int, int]:
    """Least cycles from result to result, and from block to block, of blocks of `beats` beats and `drain` results.

    Results leave as slowly as the blocks allow, up to `SLOWEST_DRAIN` cycles apart; a block takes its beats, or longer
    if its results take longer to leave.
    """
    result = min(SLOWEST_DRAIN, max(1, beats // drain))
    return result, max(beats, drain * result)


@dataclass(frozen=True, kw_only=True)
class MatrixShape:
    """The folding of a matrix stage.

    frame
        The layer's window over its frames.  Its `words` are its `groups` of channels.
    depth, outputs
        Input channels, and output channels, of a group.
    lanes, rows
        Channels of a word, and output channels that are computed in parallel: of one group at a time, or of all of
        `parallel` groups.  If they do not divide `depth` and `outputs`, the last word of a group is partly empty, and
        its last rows are not used.
    parallel
        Groups of a word.  With more than one, `lanes` = parallel * depth, `rows` = parallel * outputs, and a row reads
        only the `depth` lanes of its own group.  If it does not divide the groups, the last word of a pixel is partly
        empty.
    out_lanes
        Results that leave the stage in one cycle; they divide the rows and the outputs.
    element, weight, accumulator, output
        Number formats: activations, weights, exact sums (in two's complement, bias or not), results.
    bipolar_element, bipolar_weight
        The one bit of an activation, or of a weight, means +1 or -1.
    style
        What multiplies.  A pair is one column of two rows of a group, in the same bank.  A block that accumulates takes
        two columns of a row.
    patch
        `RowPatch` gathers the columns of the kernel, so that one word holds `lanes` channels of a whole row of taps.
    source
        Where the weights come from.
    passes
        Frame k has the weights and constants of pass k % passes; each pass has `channels` output channels.
    """

    frame: WindowShape
    depth: int
    outputs: int
    lanes: int
    rows: int
    out_lanes: int
    element: Shape
    weight: Shape
    accumulator: Shape
    output: Shape
    parallel: int = 1
    patch: bool = False
    bipolar_element: bool = False
    bipolar_weight: bool = False
    style: MultiplierStyle = MultiplierStyle.BLOCKS
    source: WeightSource = ROMS
    passes: int = 1

    def __post_init__(self) -> None:
        check_folding(self)

    @cached_property
    def products(self) -> ProductShape:
        return ProductShape(Operand(self.element, self.bipolar_element), Operand(self.weight, self.bipolar_weight),
                            self.style)

    @property
    def taps(self) -> int:
        """Kernel columns of a word."""
        return self.frame.kernel[1] if self.patch else 1

    @property
    def cols(self) -> int:
        """Products per row and cycle."""
        return self.lanes // self.parallel * self.taps

    @property
    def word_lanes(self) -> int:
        """Activations per word."""
        return self.lanes * self.taps

    @cached_property
    def columns(self) -> IntArray:
        """The lanes of a word that each row multiplies, [rows, cols]."""
        lanes = np.arange(self.word_lanes).reshape(self.taps, self.parallel, -1)
        of_group = np.moveaxis(lanes, 1, 0).reshape(self.parallel, self.cols)
        return np.repeat(of_group, self.rows // self.parallel, axis=0)

    @property
    def span(self) -> int:
        """Output channels that are divided into blocks of whole beats: those of a group, or of all groups."""
        return self.outputs if self.parallel == 1 else self.channels

    @property
    def pixels(self) -> int:
        """Output pixels."""
        return self.frame.out_height * self.frame.out_width

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.frame.groups * self.outputs

    @property
    def period(self) -> int:
        """Blocks of `span` outputs."""
        return -(-self.span // self.rows)

    @cached_property
    def window(self) -> WindowShape:
        """Over the words that are made of the input's channels."""
        if self.parallel > 1:
            return replace(self.frame, words=self.period, groups=self.period)
        return replace(self.frame, words=self.frame.groups * -(-self.depth // self.lanes),
                       tiles_per_group=self.period)

    @cached_property
    def played(self) -> WindowShape:
        """The window of the stage's `LineBuffer`: with a patch, `RowPatch` before it has gathered the columns."""
        shape = self.window
        if not self.patch:
            return shape
        kept = shape.kept and shape.kept_axis == 0  # columns are kept before
        return replace(shape, kept=kept, width=shape.out_width, kernel=(shape.kernel[0], 1),
                       stride=(shape.stride[0], 1), dilation=(shape.dilation[0], 1),
                       pads=(shape.pads[0], 0, shape.pads[2], 0))

    @property
    def chunk(self) -> int:
        """Input channels after which a new word begins."""
        return self.depth if self.parallel == 1 else self.depth * self.frame.groups

    @property
    def lanes_in(self) -> int:
        """Channels of an input beat: a word, or a number that divides words and chunks."""
        return gcd(self.lanes, self.chunk)

    @property
    def joins(self) -> bool:
        """Whether `WordJoin` makes the words."""
        return self.lanes_in != self.lanes

    @property
    def tiles(self) -> int:
        """Blocks per output pixel."""
        return self.window.groups * self.window.tiles_per_group

    @property
    def kept(self) -> int:
        """Beats of results of the last block of `period`; of the others it is `drain`."""
        return (self.span - (self.period - 1) * self.rows) // self.out_lanes

    @property
    def drain(self) -> int:
        """Beats in which the results of a block leave."""
        return self.rows // self.out_lanes

    @property
    def weight_lanes(self) -> int:
        """Weights of a beat of the stream `weights`; 0 where there is none."""
        return self.source.lanes(self.cols)

    @property
    def weight_beats(self) -> int:
        """Beats of the stream `weights` for a frame of each pass; 0 where there is none."""
        return self.passes * self.tiles * self.block_weights

    @property
    def block_weights(self) -> int:
        """Beats of the stream `weights` for the words of a block."""
        return self.played.beats * self.rows * self.cols // self.weight_lanes if self.weight_lanes else 0

    @cached_property
    def paces(self) -> tuple[int, int]:
        return paces(max(self.played.beats, self.tile_cycles // self.pixels), self.drain)

    @property
    def tile_cycles(self) -> int:
        """Least cycles in which the weights of a block arrive; all output pixels are computed with them."""
        return self.source.block_cycles(self.block_weights)

    @property
    def drain_interval(self) -> int:
        """Cycles from result to result of a row of requantizers."""
        return self.paces[0]

    @property
    def block_interval(self) -> int:
        """Cycles from the start of a block to the next."""
        return self.paces[1]

    @property
    def work(self) -> int:
        """Cycles of a frame in which the multipliers work."""
        return self.played.blocks * self.played.beats

    @cached_property
    def feed(self) -> int:
        """Least cycles in which the words of a frame can arrive."""
        frame = self.frame
        beats = frame.height * frame.width * frame.groups * self.depth // self.lanes_in
        return max(beats, patch_cycles(self.window)) if self.patch else beats

    def cycles(self) -> int:
        """Cycles from frame to frame if neither the source nor the reader stalls the stage.

        That is `work`, unless the results of a block take longer to leave than its beats, its weights take longer to
        arrive, or there are more input words.
        """
        return max(self.played.cycles(self.block_interval), self.feed, self.tiles * self.tile_cycles)

    @property
    def terms(self) -> int:
        """Numbers that the multipliers give for a row in a cycle."""
        return self.cols // 2 if self.products.accumulates else self.cols

    @cached_property
    def tree(self) -> tuple[int, ...]:
        """How many terms each level of adders sums to one: two, or as many single bits as a table has inputs.

        The terms are the products of a cycle, or the sums of two of them if the multiplier blocks accumulate.
        """
        levels, terms = [], self.terms
        while terms > 1:
            levels.append(TABLE_INPUTS if not levels and self.products.shape == Shape(1) else 2)
            terms = -(-terms // levels[-1])
        return tuple(levels)

    def bank_cost(self, bank: int, technology: Technology) -> Resources:
        """Multipliers and weights of one bank of `bank` rows."""
        count = bank * self.cols
        registers = count * self.weight.width if self.weights_wait(bank, technology) else 0
        products = (self.products.sums_cost(count // 2, signed(self.accumulator.width), technology)
                    if self.products.accumulates
                    else self.products.cost(count, technology, len(np.unique(self.columns[:bank]))))
        return products + Resources(ff=registers) + self.weights_cost(bank, technology)

    def weights_cost(self, bank: int, technology: Technology) -> Resources:
        """The cost of the weights of a bank of `bank` rows."""
        return self.source.cost(self.bank_words(bank), technology)

    def bank_words(self, bank: int) -> BankWords:
        """The words of weights that a bank of `bank` rows reads."""
        return BankWords(width=bank * self.cols * self.weight.width, beats=self.played.beats, blocks=self.tiles,
                         pixels=self.pixels, banks=self.rows // bank, rows=bank, interval=self.block_interval)

    def weights_wait(self, bank: int, technology: Technology) -> bool:
        """Whether weights pass a register between source and multipliers, and their address comes a cycle earlier.

        They do if `Technology.has_distant_blocks`.  Multipliers in logic contain this register; pairs have one after a
        table.
        """
        late = self.word_delay(technology) + technology.timing.ram < self.source.latency(technology)
        if not technology.has_distant_blocks or late or self.style is MultiplierStyle.LOGIC:
            return False
        cost = self.weights_cost(bank, technology)
        return cost.ram > 0 and (cost.lut > 0 or self.style is not MultiplierStyle.PAIRS)

    @property
    def possible_banks(self) -> list[int]:
        """The numbers of rows that a bank can have: weights that arrive in a beat are those of whole banks."""
        return [bank for bank in banks_of(self.rows, self.out_lanes)
                if bank % self.products.sharing == 0 and self.source.arriving_rows % bank == 0]

    @cached_property
    def _bank_rows(self) -> WeakKeyDictionary[Technology, int]:
        """The cache of `bank_rows`."""
        return WeakKeyDictionary()

    def bank_rows(self, technology: Technology) -> int:
        """Rows per bank: as few as need no more multiplier blocks, and an eighth more RAM blocks, than the best choice.

        Words of several rows side by side fill the width of RAM blocks better; small banks are faster.
        """
        if technology not in self._bank_rows:
            costs = {}
            for bank in self.possible_banks:
                cost, count = self.bank_cost(bank, technology), self.rows // bank
                costs[bank] = (cost.dsp * count, cost.ram * count)
            dsp = min(cost[0] for cost in costs.values())
            ram = min(cost[1] for cost in costs.values() if cost[0] == dsp)
            self._bank_rows[technology] = next(
                bank for bank, cost in costs.items() if cost[0] == dsp and 8 * cost[1] <= 9 * ram)
        return self._bank_rows[technology]

    def bank_latency(self, technology: Technology) -> int:
        """Cycles from a word at a bank to its sum at the accumulators."""
        return self.products.latency(technology) + len(self.tree)

    def word_delay(self, technology: Technology) -> int:
        """Cycles that words wait for weights from a source slower than the window."""
        return max(0, self.source.latency(technology) - technology.timing.ram - 1)

    def queue_depth(self, technology: Technology, requantizer_latency: int) -> int:
        """The depth of the output FIFO with which the window never waits for a credit while it holds at most two words.

        A block reserves `drain` places at its start.  `first` cycles later the first of them is free again and counted,
        and then one more every `drain_interval` cycles, if the reader takes every word at once.  One place more lets a
        word wait until the next one arrives, as before a join that takes turns with its other input.
        """
        banks = self.rows // self.bank_rows(technology)
        to_results = 1 + (technology.timing.ram + 1) + (self.played.beats - 1) + self.word_delay(technology)
        first = (to_results + self.bank_latency(technology) + banks + requantizer_latency
                 + 2  # queue
                 + 2)  # the register of the transfer, the counter
        taken, age = self.drain, self.block_interval - 1
        while age < first + self.drain * self.drain_interval:
            back = 0 if age < first else (age - first) // self.drain_interval + 1
            taken += self.drain - min(back, self.drain)
            age += self.block_interval
        taken += 1
        return max(2, taken) if taken <= Queue.SHIFT_DEPTH else -(-taken // 16) * 16


def check_folding(shape: MatrixShape) -> None:
    """Refuse rows, lanes, styles and sources that do not fit the layer or each other; ValueError."""
    if shape.rows < 1 or shape.lanes < 1:
        raise ValueError(f"rows and lanes of a matrix stage must be at least 1, not {shape.rows} and {shape.lanes}")
    if shape.parallel == 1:
        if shape.rows > shape.outputs or shape.lanes > shape.depth:
            raise ValueError(f"rows and lanes of a matrix stage must be at most the {shape.outputs} outputs and "
                             f"{shape.depth} inputs of a group, not {shape.rows} and {shape.lanes}")
    elif not 1 < shape.parallel <= shape.frame.groups:
        raise ValueError(f"parallel groups of a matrix stage must be 1 to {shape.frame.groups}, not {shape.parallel}")
    elif (shape.rows, shape.lanes) != (shape.parallel * shape.outputs, shape.parallel * shape.depth):
        raise ValueError(f"rows and lanes of a matrix stage must be the {shape.parallel * shape.outputs} outputs and "
                         f"{shape.parallel * shape.depth} inputs of its {shape.parallel} groups, not {shape.rows} and "
                         f"{shape.lanes}")
    if shape.out_lanes < 1 or shape.rows % shape.out_lanes or shape.span % shape.out_lanes:
        raise ValueError(f"out_lanes of a matrix stage must divide its {shape.rows} rows and {shape.span} outputs, "
                         f"not {shape.out_lanes}")
    if shape.bipolar_weight and shape.parallel == 1 and shape.depth % shape.lanes:
        raise ValueError(f"lanes of a matrix stage must divide the {shape.depth} inputs of a group where no weight "
                         f"is 0, not {shape.lanes}")
    together = shape.rows // shape.parallel
    if shape.style is MultiplierStyle.PAIRS and not pairs_rows(shape.rows, shape.out_lanes, together):
        raise ValueError(f"style of a matrix stage must be blocks or logic with {shape.rows} rows, {together} of a "
                         f"group, and {shape.out_lanes} results at once, not pairs: two rows must be of one group "
                         "and in one bank")
    if shape.style is MultiplierStyle.MACS and shape.cols % 2:
        raise ValueError(f"style of a matrix stage must be blocks or logic with {shape.cols} products of a row in a "
                         "cycle, not macs: they are added up in twos")
    if shape.source.arriving_rows:
        check_arriving(shape)
    elif shape.passes != 1:
        raise ValueError(f"passes of a matrix stage must be 1 where its weights do not arrive, not {shape.passes}")


def check_arriving(shape: MatrixShape) -> None:
    """Refuse foldings that a stage with streamed weights cannot have."""
    if shape.pixels != 1 and shape.tiles != 1 and not shape.source.whole:
        raise ValueError(f"output pixels of a matrix stage must be 1 where its weights are streamed and a pixel takes "
                         f"{shape.tiles} tiles of them, not {shape.pixels}: its order of blocks would read each weight "
                         "once for each pixel; use a TiledStage")
    if shape.rows % shape.source.arriving_rows:
        raise ValueError(f"rows of a StreamSource must divide the {shape.rows} rows of the matrix stage, not "
                         f"{shape.source.arriving_rows}")
    if not shape.possible_banks:
        raise ValueError(f"rows of a StreamSource must be a multiple of the rows that share a multiplier block and "
                         f"are in one bank, not {shape.source.arriving_rows}; choose another style, or more rows")
