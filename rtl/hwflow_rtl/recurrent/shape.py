"""The numbers of a recurrent stage: sizes, formats, and its folding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.hdl import Shape, signed

from ..matrix.shape import SLOWEST_DRAIN, MatrixShape
from ..multiply.products import WideProductShape
from ..multiply.style import MultiplierStyle
from ..vendor.base import Technology
from ..window.shape import WindowShape


@dataclass(frozen=True)
class LoopTiming:
    """Latencies in cycles on a family.

    sums
        From the start of a block to its first gate sums, a beat of all lanes.
    lead
        So many cycles before its sums a beat is announced.
    x
        From the gate sums of the recurrent product to the addition of those of the input.
    value, memory, shown, state
        From there too, to what the table gives, an lstm's cell state and its function, and the hidden state.
    ram
        Of a RAM.
    """

    sums: int
    lead: int
    x: int
    value: int
    memory: int
    shown: int
    state: int
    ram: int

    @staticmethod
    def of(shape: RecurrentShape, technology: Technology, rescaling: int) -> LoopTiming:
        """`rescaling`: cycles from the first lane's sum to a beat of gate sums."""
        matrix, rom, ram = shape.matrix, technology.timing.rom, technology.timing.ram
        banks = shape.rows // matrix.bank_rows(technology)
        sums = (1 + ram + 1 + shape.words - 1 + matrix.word_delay(technology) + matrix.bank_latency(technology) + banks
                + rescaling)
        x = WideProductShape(shape.sum, VALUE).latency(technology) + 1 if shape.reset_after else 0
        value = x + 3 + rom
        memory = shown = 0
        state = value
        if shape.cell == "gru":
            state = value + 1 + WideProductShape(signed(shape.state.width + 1), VALUE).latency(technology) + 1
            state += shape.table.saturates
        elif shape.cell == "lstm":
            formats = shape.memory.format, VALUE
            memory = value + max(WideProductShape(a, VALUE).latency(technology) for a in formats) + 4
            shown = memory + 2 + rom
            state = value + WideProductShape(VALUE, VALUE).latency(technology) + 2
        return LoopTiming(sums, ram if shape.reset_after else 0, x, value, memory, shown, state, ram)

    def hazards(self, shape: RecurrentShape) -> list[tuple[int, int]]:
        """List what is written and must be there when it is read: blocks between the two, and cycles that they must
        take."""
        read = self.value - self.ram
        if shape.cell == "lstm":
            gates = [(1, self.ram + 1), (1, self.shown + 1 - read), (4, self.memory + 1 - (read - 1))]
        elif shape.reset_after:
            gates = [(2, self.value + 1 + self.ram), (1, self.ram), (3, self.state + 1 - (read - 1))]
        else:
            gates = [(1, self.ram)] if shape.cell == "gru" else []
        return [(distance * shape.blocks, cycles) for distance, cycles in gates]

    def returned(self, shape: RecurrentShape, block: int) -> int:
        """Cycles from the start of the last block of a gate to that of a block which reads all units' results.

        Blocks are `block` cycles apart.  The reader reads a word in each cycle, the first one a cycle after its start.
        """
        matrix, latest = shape.matrix, 0
        for word in range(shape.words):
            beat = (word + 1) * shape.cols // shape.lanes - 1
            number, place = divmod(beat, matrix.drain)
            written = ((number - shape.blocks + 1) * block + self.sums + place * matrix.drain_interval + self.state)
            latest = max(latest, written - word)
        return latest


@dataclass(frozen=True)
class LoopPace:
    """Least cycles between blocks.

    block
        From a block to the next.
    step
        From the last block of a step to the first of the next step.
    reset
        From the last block of r to the first of n where n's product needs r; else 0.
    """

    block: int
    step: int
    reset: int

    @staticmethod
    def of(shape: RecurrentShape, timings: Sequence[LoopTiming]) -> LoopPace:
        """Find the pace that is enough for all of `timings`."""
        needs = [-(-cycles // blocks) for timing in timings for blocks, cycles in timing.hazards(shape)]
        block = max(shape.matrix.block_interval, *needs, 1)
        back = max(block, *(timing.returned(shape, block) for timing in timings))
        return LoopPace(block, back, back if shape.reset_before else 0)

    def starts(self, shape: RecurrentShape) -> list[int]:
        """The starts of the blocks of a step, after the first."""
        moments = [0]
        for number in range(1, len(shape.gates) * shape.blocks):
            start = moments[-1] + self.block
            if shape.reset_before and number == 2 * shape.blocks:
                start = max(start, moments[shape.blocks - 1] + self.reset)
            moments.append(start)
        return moments

    def cycles(self, shape: RecurrentShape) -> int:
        """From frame to frame.  A frame that begins anew does not wait for the results of the last one."""
        last = self.starts(shape)[-1]
        between = last + self.step
        return shape.steps * between if shape.streaming else (shape.steps - 1) * between + last + self.block


#: The gates of each cell, in the order in which they are computed.
GATES = {"rnn": ("h",), "gru": ("r", "z", "n"), "lstm": ("i", "f", "c", "o")}
#: What tables give; the gates r, z, i, f and o in units of 2**-15.
VALUE = signed(16)
ONE_FRACTION = 15
#: Results of a block leave in this part of its cycles, if each can have a cycle of its own,
DRAINED_IN = 8
#: or slowly, which is cheaper, where that, with so many cycles of a slow rescaler, is at most this part of a step.
SHARE, SLOW_RESCALER = 8, 16


class LoopMatrix(MatrixShape):
    """The product of a loop, for which latency counts: results leave soon, and few banks follow each other."""

    @cached_property
    def paces(self) -> tuple[int, int]:
        beats, drain = self.played.beats, self.drain
        slow = min(SLOWEST_DRAIN, beats // drain)
        if SHARE * (slow * drain + SLOW_RESCALER) > self.tiles * beats:
            slow = beats // (DRAINED_IN * drain)
        return max(1, slow), max(beats, drain * max(1, slow))

    @property
    def possible_banks(self) -> list[int]:
        return super().possible_banks[-1:]


@dataclass(frozen=True)
class LoopProduct:
    """The formats of the weights of the recurrent product, and of its sums."""

    weight: Shape
    accumulator: Shape


@dataclass(frozen=True)
class GateTable:
    """The table of gates and candidates: bits of its index, and bits of a gate sum below those of the index.

    `saturates`: a gate may be negative, so that a gru's state may leave its format.
    """

    index_bits: int
    drop: int
    saturates: bool = True


@dataclass(frozen=True)
class CellState:
    """The cell state of an lstm: its format, bits of the index of the output table, and bits of the state below those.

    `finer`: fractional bits that candidates have more than the state.
    """

    format: Shape = VALUE
    index_bits: int = 0
    drop: int = 0
    finer: int = 0


@dataclass(frozen=True, kw_only=True)
class RecurrentShape:
    """A cell of `hidden` units over `steps` steps, and the folding of its stage.

    cell, reset_after
        A key of `GATES`; of a gru: r is multiplied with the sum of n (else with the state, in front of the product).
    rows, cols
        Sums that are computed at once, units of one gate; units whose states they read in a cycle.  They divide
        `hidden`.
    lanes
        Units whose gates are computed at once; they divide rows and cols.
    sum, state, output
        Formats, signed: gate sums, hidden state, elements that leave.
    product
        The sums of hidden states times weights.
    table
        The table of gates and candidates.
    memory
        An lstm's cell state.
    streaming
        The state goes on from frame to frame.
    """

    cell: str
    hidden: int
    steps: int
    rows: int
    cols: int
    lanes: int
    sum: Shape
    state: Shape
    output: Shape
    product: LoopProduct
    table: GateTable
    reset_after: bool = False
    memory: CellState = CellState()
    streaming: bool = False
    style: MultiplierStyle = MultiplierStyle.BLOCKS

    def __post_init__(self) -> None:
        if self.hidden % self.rows or self.hidden % self.cols or self.rows % self.lanes or self.cols % self.lanes:
            raise ValueError(f"rows and cols of a recurrent stage must divide its {self.hidden} units, and lanes both, "
                             f"not {self.rows}, {self.cols} and {self.lanes}")
        if self.rows // self.lanes > self.hidden // self.cols:
            raise ValueError(f"lanes of a recurrent stage must be at least {self.rows} * {self.cols} / {self.hidden}, "
                             f"not {self.lanes}: results come faster")
        if self.reset_after and self.cell != "gru":
            raise ValueError(f"reset_after of a recurrent stage must be of a gru, not of cell '{self.cell}'")

    @property
    def gates(self) -> tuple[str, ...]:
        return GATES[self.cell]

    @property
    def reset_before(self) -> bool:
        """The product of n has r times the state as its operand."""
        return self.cell == "gru" and not self.reset_after

    @property
    def words(self) -> int:
        """Words of `cols` units, the beats of a block."""
        return self.hidden // self.cols

    @property
    def blocks(self) -> int:
        """The blocks of a gate."""
        return self.hidden // self.rows

    @property
    def beats(self) -> int:
        """Beats of `lanes` units of a gate."""
        return self.hidden // self.lanes

    @cached_property
    def matrix(self) -> LoopMatrix:
        """The product of a step."""
        return LoopMatrix(
            frame=WindowShape(height=1, width=1, words=1, kernel=(1, 1)), depth=self.hidden,
            outputs=len(self.gates) * self.hidden, lanes=self.cols, rows=self.rows, out_lanes=self.lanes,
            element=self.state, weight=self.product.weight,
            accumulator=self.product.accumulator, output=self.sum, style=self.style)

    def styled(self, style: MultiplierStyle) -> RecurrentShape:
        return replace(self, style=style)
