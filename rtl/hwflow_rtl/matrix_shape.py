"""The numbers that follow from the folding of a matrix stage: blocks, banks, intervals, buffer depths, in plain Python.

A matrix stage has `rows` x `cols` multipliers.  Its rows stand in *banks*: the rows of a bank share one weight ROM and
one register of activations, and the banks follow each other one cycle apart.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.hdl import Shape
from amaranth.utils import ceil_log2

from .pipeline import adder_luts
from .products import TABLE_INPUTS, Operand, ProductShape
from .row_patch import RowPatch
from .streams import Queue
from .vendor.base import Resources, Technology
from .window import Window, WindowShape

__all__ = ["MatrixShape"]

#: The most rows of a bank: what one activation register drives without limiting the clock.
BANK_ROWS = 8


@dataclass(frozen=True, kw_only=True)
class MatrixShape:
    """The folding of a matrix stage.

    window
        Of the layer.  Its `words` are channels / lanes, its `tiles_per_group` output channels / groups / rows.
    lanes
        Channels per input word.
    rows, out_lanes
        Output channels computed at once, and results that leave the stage at once; `out_lanes` divides `rows`.
    element, weight, accumulator, output
        Number formats: activations, weights, exact sums (in two's complement, bias or not), results.
    bipolar_element, bipolar_weight
        The one bit of an activation, or of a weight, means +1 or -1.
    patch
        `RowPatch` gathers the columns of the kernel, so that one word holds a whole row of taps.  Then `lanes` are all
        channels, and `cols` = kernel columns x lanes.
    """

    window: WindowShape
    lanes: int
    rows: int
    out_lanes: int
    element: Shape
    weight: Shape
    accumulator: Shape
    output: Shape
    patch: bool = False
    bipolar_element: bool = False
    bipolar_weight: bool = False

    def __post_init__(self) -> None:
        if self.rows < 1 or self.lanes < 1:
            raise ValueError(f"rows and lanes of a matrix stage must be at least 1, not {self.rows} and {self.lanes}")
        if self.out_lanes < 1 or self.rows % self.out_lanes:
            raise ValueError(f"out_lanes of a matrix stage must divide its {self.rows} rows, not {self.out_lanes}")
        if self.patch and self.window.words != 1:
            raise ValueError(f"words of the window of a matrix stage with a patch must be 1, not {self.window.words}: "
                             f"one word holds all channels of a pixel")

    @cached_property
    def products(self) -> ProductShape:
        return ProductShape(Operand(self.element, self.bipolar_element), Operand(self.weight, self.bipolar_weight))

    @property
    def cols(self) -> int:
        """Products per row and cycle."""
        return self.lanes * self.window.kernel[1] if self.patch else self.lanes

    @cached_property
    def played(self) -> WindowShape:
        """What the stage's `Window` walks over: with a patch, columns are taken care of before it."""
        shape = self.window
        if not self.patch:
            return shape
        return replace(shape, width=shape.out_width, kernel=(shape.kernel[0], 1), stride=(shape.stride[0], 1),
                       dilation=(shape.dilation[0], 1), pads=(shape.pads[0], 0, shape.pads[2], 0))

    @property
    def tiles(self) -> int:
        """Blocks per output pixel."""
        return self.window.groups * self.window.tiles_per_group

    @property
    def channels(self) -> int:
        """Output channels."""
        return self.tiles * self.rows

    @property
    def drain(self) -> int:
        """Beats in which the results of a block leave."""
        return self.rows // self.out_lanes

    @property
    def drain_interval(self) -> int:
        """Cycles from result to result of a row of requantizers: as slow as the blocks allow, up to 8."""
        return min(8, max(1, self.played.beats // self.drain))

    @property
    def block_interval(self) -> int:
        """Cycles from the start of a block to the next: its beats, or more if its results take longer to leave."""
        return max(self.played.beats, self.drain * self.drain_interval)

    @property
    def work(self) -> int:
        """Cycles of a frame in which the multipliers have something to do."""
        return self.played.blocks * self.played.beats

    def cycles(self) -> int:
        """Cycles from frame to frame when the input is always there and the output always taken.

        That is `work`, unless the results need longer to leave than a block takes, or the input words are more.
        """
        played = self.played.cycles(self.block_interval)
        return max(played, RowPatch.cycles(shape=self.window)) if self.patch else played

    @property
    def rom_depth(self) -> int:
        return self.tiles * self.played.beats

    @cached_property
    def tree(self) -> tuple[int, ...]:
        """How many terms each level of adders sums to one: two, or as many single bits as a table has inputs."""
        levels, terms = [], self.cols
        while terms > 1:
            levels.append(TABLE_INPUTS if not levels and self.products.shape == Shape(1) else 2)
            terms = -(-terms // levels[-1])
        return tuple(levels)

    def bank_cost(self, bank: int, technology: Technology) -> Resources:
        """Multipliers and weight ROM of one bank of `bank` rows."""
        count = bank * self.cols
        return (self.products.cost(count, technology)
                + technology.rom_cost(width=count * self.weight.width, depth=self.rom_depth))

    def bank_rows(self, technology: Technology) -> int:
        """Rows per bank: as few as need no more multiplier blocks, and an eighth more RAM blocks, than the best choice.

        Words of several rows side by side fill the width of RAM blocks better; small banks are faster.
        """
        costs = {}
        for bank in range(1, min(self.rows, BANK_ROWS) + 1):
            if self.rows % bank == 0 and (bank % self.out_lanes == 0 or self.out_lanes % bank == 0):
                cost, count = self.bank_cost(bank, technology), self.rows // bank
                costs[bank] = (cost.dsp * count, cost.ram * count)
        dsp = min(cost[0] for cost in costs.values())
        ram = min(cost[1] for cost in costs.values() if cost[0] == dsp)
        return next(bank for bank, cost in costs.items() if cost[0] == dsp and 8 * cost[1] <= 9 * ram)

    def bank_latency(self, technology: Technology) -> int:
        """Cycles from a word at a bank to its sum at the bank's accumulators."""
        return self.products.latency(technology) + len(self.tree)

    def word_delay(self, technology: Technology) -> int:
        """Cycles that words wait for weights from a ROM slower than the window."""
        return max(0, technology.timing.rom - technology.timing.ram - 1)

    def queue_depth(self, technology: Technology, requantizer_latency: int) -> int:
        """Words of the output queue with which the window never waits for a credit while the output is taken.

        A block takes `drain` places at its start; `first` cycles later the first is free again and seen to be, then
        one every `drain_interval` cycles.
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
        return max(2, taken) if taken <= Queue.SHIFT_DEPTH else -(-taken // 16) * 16

    def array_cost(self, technology: Technology) -> Resources:
        """Multipliers and RAM exact; LUT and FF estimated: adders, accumulators, drain chain, hops."""
        bank = self.bank_rows(technology)
        banks = self.rows // bank
        blocks = Resources()
        for _ in range(banks):
            blocks += self.bank_cost(bank, technology)
        width, product = self.accumulator.width, self.products.shape.width
        adders, registers, count = 0, width, self.cols
        for level, terms in enumerate(self.tree):
            if terms == TABLE_INPUTS:
                sums, adders, product = -(-count // terms), adders + 3 * (count // terms) + 2, 2
                count, registers = sums, registers + 3 * sums
                continue
            sum_width = min(width, product + level + 1)
            adders += count // 2 * adder_luts(sum_width, technology)
            count -= count // 2
            registers += count * sum_width
        if self.played.beats > 1:
            adders, registers = adders + adder_luts(width, technology), registers + width
        address = ceil_log2(self.rom_depth)
        per_row = Resources(lut=adders + (width if self.drain > 1 else 0), ff=registers)
        per_hop = Resources(ff=self.cols * self.element.width + address + 3
                            + (width if self.drain > 1 else self.output.width * banks // 2))
        total = blocks + Resources(lut=2 * address + 20, ff=address + self.bank_latency(technology) * 3 + 12)
        for _ in range(self.rows):
            total += per_row
        for _ in range(banks - 1):
            total += per_hop
        return total

    def front_cost(self, technology: Technology) -> Resources:
        """The window, and the patch before it.  RAM exact, LUT and FF estimated."""
        window = Window.cost(shape=self.played, width=self.cols * self.element.width, technology=technology,
                             interval=self.block_interval)
        if not self.patch:
            return window
        return window + RowPatch.cost(shape=self.window, width=self.lanes * self.element.width)
