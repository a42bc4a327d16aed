"""The numbers of a recurrent stage: sizes, formats, and its folding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from amaranth.hdl import Shape, signed

from ..matrix.shape import SLOWEST_DRAIN, MatrixShape
from ..multiply.style import MultiplierStyle
from ..window.shape import WindowShape

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
    sum, state, memory, output
        Formats, signed: gate sums, hidden state, an lstm's cell state, elements that leave.
    weight, accumulator
        Of the recurrent product.
    index_bits, output_index_bits
        Of an index of the table of gates and candidates, and of an lstm's output table.
    sum_drop, memory_drop
        Bits of a gate sum, and of a cell state, below those of the indices.
    finer
        Fractional bits that an lstm's candidates have more than its cell state.
    saturates
        A gate may be negative, so that a gru's state may leave its format.
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
    weight: Shape
    accumulator: Shape
    index_bits: int
    sum_drop: int
    reset_after: bool = False
    memory: Shape = VALUE
    output_index_bits: int = 0
    memory_drop: int = 0
    finer: int = 0
    saturates: bool = True
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
        """Of a gate."""
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
            element=self.state, weight=self.weight, accumulator=self.accumulator, output=self.sum, style=self.style)

    def styled(self, style: MultiplierStyle) -> RecurrentShape:
        return replace(self, style=style)
