"""When things happen in the loop: latencies on a family, and the paces that are enough on all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from amaranth.hdl import signed

from ..multiply.products import WideProductShape
from ..vendor.base import Technology
from .shape import VALUE, RecurrentShape


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
            state += shape.saturates
        elif shape.cell == "lstm":
            memory = value + max(WideProductShape(a, VALUE).latency(technology) for a in (shape.memory, VALUE)) + 4
            shown = memory + 2 + rom
            state = value + WideProductShape(VALUE, VALUE).latency(technology) + 2
        return LoopTiming(sums, ram if shape.reset_after else 0, x, value, memory, shown, state, ram)

    def hazards(self, shape: RecurrentShape) -> list[tuple[int, int]]:
        """What is written must be there when it is read: blocks between the two, and cycles that they must take."""
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
        matrix, found = shape.matrix, 0
        for word in range(shape.words):
            beat = (word + 1) * shape.cols // shape.lanes - 1
            number, place = divmod(beat, matrix.drain)
            written = ((number - shape.blocks + 1) * block + self.sums + place * matrix.drain_interval + self.state)
            found = max(found, written - word)
        return found


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
        """What is enough for all of `timings`."""
        needs = [-(-cycles // blocks) for timing in timings for blocks, cycles in timing.hazards(shape)]
        block = max(shape.matrix.block_interval, *needs, 1)
        back = max(block, *(timing.returned(shape, block) for timing in timings))
        return LoopPace(block, back, back if shape.reset_before else 0)

    def starts(self, shape: RecurrentShape) -> list[int]:
        """Of the blocks of a step, after the first."""
        found = [0]
        for number in range(1, len(shape.gates) * shape.blocks):
            start = found[-1] + self.block
            if shape.reset_before and number == 2 * shape.blocks:
                start = max(start, found[shape.blocks - 1] + self.reset)
            found.append(start)
        return found

    def cycles(self, shape: RecurrentShape) -> int:
        """From frame to frame.  A frame that begins anew does not wait for the results of the last one."""
        last = self.starts(shape)[-1]
        between = last + self.step
        return shape.steps * between if shape.streaming else (shape.steps - 1) * between + last + self.block
