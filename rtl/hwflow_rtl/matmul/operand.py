"""The second matrix of a product, held in the banks of a matrix stage: `OperandSource`, a source of its "weights".

    stream ─▶ OperandFiller ─▶ OperandBuffer of each bank ─▶ multipliers

The buffers have room for two matrices (or for more, where those are small): while one is read, again for each row of
the first matrix, the next one is filled.  A block of products starts when its matrix is complete.  The stream has the
elements in any order in which a tensor can have them; the filler counts through this order and writes each beat to the
place from which the array reads it, so nothing is rearranged before.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from amaranth.hdl import Const, Module, Mux, Shape, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..matrix.weights import BankWords, Contents, WeightSource
from ..stream.pipeline import Nest, adder_luts, delay, flip_flops
from ..stream.times import Times, in_turn
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds


@dataclass(frozen=True)
class Loop:
    """A loop over the beats of a matrix.

    count
        Iterations.
    stride
        Words of a bank from one iteration to the next; None: the next part of the same words.
    """

    count: int
    stride: int | None


@dataclass(frozen=True)
class OperandSource(WeightSource):
    """A buffer for each bank that holds whole matrices, filled by the stage's stream `weights`.

    loops
        The order of the beats of a matrix, innermost first; one loop at most goes through the parts of words.
    by_columns
        Whether a beat has one column of all rows of multipliers; else all columns of one row.
    rows
        Of multipliers of the stage.
    """

    loops: tuple[Loop, ...]
    by_columns: bool
    rows: int

    @property
    def arriving_rows(self) -> int:
        return self.rows if self.by_columns else 1

    @property
    def whole(self) -> bool:
        return True

    def lanes(self, cols: int) -> int:
        return self.rows if self.by_columns else cols

    @property
    def beats(self) -> int:
        """The beats of a matrix."""
        return prod(loop.count for loop in self.loops)

    @property
    def parts(self) -> int:
        """Beats that make up a word of all banks."""
        return prod(loop.count for loop in self.loops if loop.stride is None)

    def block_cycles(self, words: int) -> int:
        """Blocks need not be slowed down for a matrix that comes slowly: nothing but the next matrix waits for it."""
        return 0

    def latency(self, technology: Technology) -> int:
        return technology.timing.ram

    def copies(self, words: BankWords) -> int:
        """Matrices that the buffers have room for: so many that filling and reading never wait for each other.

        A matrix is filled in `beats` cycles and read in `read`.  Between its last block and the first beat that takes
        its place are `freed_after` cycles and one, between its last beat and its first block up to two.  With n places
        these follow each other once in n matrices, so they must take no longer than n times the slower of the two.
        """
        read = words.pixels * words.blocks * max(words.beats, words.interval)
        around = self.beats + read + freed_after(words) + 3
        return max(2, -(-around // max(self.beats, read)))

    def places(self, words: BankWords) -> int:
        return self.copies(words) * self.tile(words)

    def cost(self, words: BankWords, technology: Technology) -> Resources:
        count = self.memories(words)
        return sum((technology.ram_cost(width=words.width // count, depth=self.places(words), name=f"weights{k}_",
                                        holds=Holds.FRAMES) for k in range(count)), Resources())

    def memories(self, words: BankWords) -> int:
        """RAMs of a bank: each is written alone."""
        return self.parts if self.by_columns else words.rows

    def control_cost(self, words: BankWords, technology: Technology) -> Resources:
        address = (self.places(words) - 1).bit_length()
        # The array goes back to the start of the matrix for each row of the first one; it counts both.
        again = Nest.bits((self.tile(words), words.pixels)) + address + 1
        blocks = Nest.bits((words.pixels * words.blocks,))
        return self.filler_cost(words, technology) + Resources(lut=again + address + blocks, ff=again + blocks)

    def filler_cost(self, words: BankWords, technology: Technology) -> Resources:
        """The cost of an `OperandFiller`, estimated."""
        places, copies = self.places(words), self.copies(words)
        address, loops = (places - 1).bit_length(), Nest.bits(loop.count for loop in self.loops)
        control = fitted("OperandFiller", counter_bits=loops, address_bits=address, parts=self.parts,
                         copy_bits=copies.bit_length())
        chains = adder_luts(address, technology)
        return Resources(lut=control.lut + chains) + flip_flops(
            control.ff + address + loops + self.parts + freed_after(words), freed_after(words), technology)

    def starts(self, earliest: Times, pace: int, words: BankWords, arrivals: Times | None) -> tuple[Times, ...]:
        """Each matrix is filled into the place that the last block of an earlier one has freed."""
        blocks, copies = words.pixels * words.blocks, self.copies(words)
        matrices = len(earliest) // blocks
        if arrivals is None or len(arrivals) != matrices * self.beats:
            raise ValueError(f"arrivals of the held operand must be {matrices * self.beats} cycles, not "
                             f"{'none' if arrivals is None else len(arrivals)}")
        started, taken = earliest.reshape(matrices, blocks).copy(), arrivals.reshape(matrices, -1).copy()
        decided = 1 if pace == 1 else 2  # cycles from the last beat of a matrix to the start of its first block
        for n, (reads, writes) in enumerate(zip(started, taken, strict=True)):
            writes[0] = max(writes[0], taken[n - 1, -1] + 1 if n else 0,
                            started[n - copies, -1] + freed_after(words) + 1 if n >= copies else 0)
            writes[:] = in_turn(writes)
            reads[0] = max(reads[0], writes[-1] + decided, started[n - 1, -1] + pace if n else 0)
            reads[:] = in_turn(reads, pace)
        return started.reshape(-1), taken.reshape(-1)

    def weights(self, *, words: BankWords, contents: Contents, technology: Technology, name: str) -> HeldOperand:
        return HeldOperand(self, words, technology)


def freed_after(words: BankWords) -> int:
    """Cycles from the start of the last block that reads a matrix to the moment when its place is counted as free.

    The first word of the block is read so many cycles after the start at the last bank, then one in each cycle.
    Earlier blocks are read by then, and no order of the stream comes to word n of a block before its beat n.
    """
    return 1 + words.banks


class HeldOperand:
    """The `StageWeights` of an `OperandSource`."""

    def __init__(self, source: OperandSource, words: BankWords, technology: Technology):
        self.source = source
        self.words = words
        count = source.memories(words)
        self.buffers = [OperandBuffer(width=words.width, depth=source.places(words), count=count,
                                      by_columns=source.by_columns, rows=words.rows, technology=technology, bank=b)
                        for b in range(words.banks)]

    def bank(self, b: int) -> wiring.Component:
        return self.buffers[b]

    def gated(self, m: Module, *, credit: Value, start: Value, arrivals: Any) -> Value:
        source, words = self.source, self.words
        m.submodules.filler = filler = OperandFiller(
            shape=arrivals.payload.shape(), loops=source.loops, tile=source.tile(words), copies=source.copies(words),
            freed_after=freed_after(words))
        wiring.connect(m, arrivals, filler.i)
        blocks = Nest(m, (words.blocks * words.pixels,), name="matrix_block")
        blocks.advance(start)
        m.d.comb += filler.start.eq(start & blocks.last[0])
        payload = Value.cast(arrivals.payload)
        for b, buffer in enumerate(self.buffers):
            first = (words.banks - 1 - b) * words.rows  # the rows are in reverse order
            m.d.comb += buffer.write_addr.eq(filler.write_addr)
            if source.by_columns:
                width = len(payload) // source.rows * words.rows
                m.d.comb += [buffer.write_en.eq(filler.write_en), buffer.write_data.eq(
                    payload.word_select(first // words.rows, width))]
            else:
                m.d.comb += [buffer.write_en.eq(filler.write_en[first:first + words.rows]),
                             buffer.write_data.eq(payload)]
        return credit & filler.complete


class OperandBuffer(wiring.Component):
    """The words of one bank: `data` is the word at `addr`, `timing.ram` cycles later.

    It is made of `count` RAMs, one for each row of the bank, or for each column (`by_columns`); `write_en` has a bit
    for each of them, and all are offered the same `write_data`.
    """

    def __init__(self, *, width: int, depth: int, count: int, by_columns: bool, rows: int, technology: Technology,
                 bank: int):
        self.width = width
        self.depth = depth
        self.count = count
        self.by_columns = by_columns
        self.rows = rows
        self.technology = technology
        self.bank = bank
        super().__init__({"addr": In(range(depth)), "data": Out(width), "write_en": In(count),
                          "write_addr": In(range(depth)), "write_data": In(width // count)})

    def elaborate(self, platform):
        m = Module()
        part = self.width // self.count
        for k in range(self.count):
            ram = self.technology.ram(width=part, depth=self.depth, name=f"weights{k}_{self.bank}")
            m.submodules[f"ram{k}"] = ram
            m.d.comb += [
                ram.read_addr.eq(self.addr), ram.write_en.eq(self.write_en[k]), ram.write_addr.eq(self.write_addr),
                ram.write_data.eq(self.write_data)]
            if not self.by_columns:
                m.d.comb += self.data.word_select(k, part).eq(ram.read_data)
                continue
            weight = part // self.rows  # the columns of a row are side by side
            for row in range(self.rows):
                m.d.comb += self.data.word_select(row * self.count + k, weight).eq(
                    ram.read_data.word_select(row, weight))
        return m


class OperandFiller(wiring.Component):
    """Counts through the beats of a stream of matrices; says where each is written and which matrices are complete.

    Parameters
    ----------
    shape
        Of a beat.
    loops
        The order of the beats, as in `OperandSource`.
    tile
        Words of a matrix in each bank.
    copies
        Matrices that there is room for.
    freed_after
        Cycles from `start` to the moment when the matrix's place is free.

    Ports
    -----
    i
        The stream; a beat is written in the cycle in which it is taken.
    write_en, write_addr
        A bit for each part of a word.
    start
        The last block that reads a matrix starts.
    complete
        The matrix of the next block is in the buffers: a register that counts every start of the cycles before.
    """

    def __init__(self, *, shape: data.ArrayLayout, loops: tuple[Loop, ...], tile: int, copies: int, freed_after: int):
        self.loops = loops
        self.tile = tile
        self.copies = copies
        self.freed_after = freed_after
        self.parts = prod(loop.count for loop in loops if loop.stride is None)
        super().__init__({"i": In(stream.Signature(shape)), "start": In(1), "complete": Out(1),
                          "write_en": Out(self.parts), "write_addr": Out(range(copies * tile))})

    def elaborate(self, platform):
        m = Module()
        taken, ends = Signal(), Signal()
        # The sign bits are the answers: free places less one, complete matrices less one.
        free = Signal(Shape.cast(range(-1, self.copies)), init=self.copies - 1)
        full = Signal(Shape.cast(range(-1, self.copies)), init=-1)
        m.d.comb += [self.i.ready.eq(~free[-1]), self.complete.eq(~full[-1]), taken.eq(self.i.valid & self.i.ready)]
        nest = Nest(m, [loop.count for loop in self.loops], name="fill")
        nest.advance(taken)
        m.d.comb += ends.eq(taken & all_of(nest.last))
        self.address(m, taken, nest)
        # A place is taken with the last beat of the matrix before, so that no beat of the next one comes too early.
        freed = delay(m, self.start, self.freed_after, "freed", reset_less=False)
        m.d.sync += [free.eq(free + freed - ends), full.eq(full + ends - self.start)]
        return m

    def address(self, m: Module, taken: Value, nest: Nest) -> None:
        """The place of the next beat: the innermost loop that is not in its last iteration moves on, those inside of
        it begin anew; after the last beat the next matrix begins."""
        part, address = Signal(self.parts, init=1), Signal(range(self.copies * self.tile), name="place")
        m.d.comb += [self.write_en.eq(part & taken.replicate(self.parts)), self.write_addr.eq(address)]
        width = Shape.cast(range(-self.copies * self.tile, self.copies * self.tile))
        steps, turned, back = [], [], 0
        for loop, last in zip(self.loops, nest.last, strict=True):
            steps.append((last, Const((loop.stride or 0) - back, width)))
            turned.append((last, loop.stride is None))
            back += (loop.count - 1) * (loop.stride or 0)
        wraps = Signal(init=self.copies == 1)
        copy = Nest(m, (self.copies,), name="copy")
        copy.advance(taken & all_of(nest.last))
        m.d.comb += wraps.eq(copy.last[0])
        step: Value = Mux(wraps, Const(-(self.copies - 1) * self.tile - back, width), Const(self.tile - back, width))
        for last, jump in reversed(steps):
            step = Mux(last, step, jump)
        with m.If(taken):
            m.d.sync += address.eq(address + step)
        moves: Value = Const(0)  # the part moves on where its own loop does, and begins anew by itself
        inner: Value = Const(1)
        for last, is_part in turned:
            if is_part:
                moves = inner
            inner = inner & last
        with m.If(taken & moves):
            m.d.sync += part.eq(part.rotate_left(1))


def all_of(flags: Iterable[Value]) -> Value:
    all_last: Value = Const(1, 1)
    for flag in flags:
        all_last = all_last & flag
    return all_last
