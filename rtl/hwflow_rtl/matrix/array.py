"""The multipliers of a matrix stage: banks of rows, their weights, adder trees, accumulators and the drain chain.

Bank b works b cycles after bank 0: words, ROM addresses and flags hop from bank to bank.  The rows stand in reverse
order, so that the sums, which drain from bank to bank too, come out with channel 0 first: by the time bank b passes a
sum on, bank b + 1 is one cycle later and takes it through one more register.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import TABLE_INPUTS, table
from ..stream.pipeline import Nest, delay
from ..vendor.base import Technology
from .shape import MatrixShape

__all__ = ["MatrixArray", "weight_words"]


def weight_words(shape: MatrixShape, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[cout, kernel height, kernel width, cin / groups] in the order of the beats: [rom_depth, rows, cols].

    0 for rows without an output, and for columns without an input.
    """
    height, width, taps, deep = *shape.frame.kernel, shape.taps, shape.lanes // shape.parallel
    words = shape.window.group_words
    by_span = np.asarray(weights, dtype=np.int64).reshape(-1, shape.span, height, width // taps, taps, shape.depth)
    full = np.zeros((len(by_span), shape.period * shape.rows, *by_span.shape[2:5], words * deep), dtype=np.int64)
    full[:, :shape.span, ..., :shape.depth] = by_span
    # [span, block, row, kernel row, kernel column, tap, word, lane]
    blocks = full.reshape(len(full), shape.period, shape.rows, height, width // taps, taps, words, deep)
    return blocks.transpose(0, 1, 3, 4, 6, 2, 5, 7).reshape(shape.rom_depth, shape.rows, shape.cols)


def packed(values: npt.NDArray[np.int64], width: int) -> npt.NDArray[np.uint8]:
    """[depth, count] integers of `width` bits to [depth, bytes], the first in the lowest bits."""
    bits = (values[:, :, None] >> np.arange(width)) & 1
    return np.packbits(bits.reshape(len(values), -1).astype(np.uint8), axis=1, bitorder="little")


class MatrixBank(wiring.Component):
    """`rows` rows: one word meets `rows` words of weights; sums of blocks are left in `held`.

    Row k meets the lanes `columns[k]` of the word.

    Ports
    -----
    addr, word
        The ROM's address comes `timing.rom` cycles before the word, one more with `MatrixShape.weights_wait`.
    more
        With the word: it is not the first of a sum.  Only where the products are accumulated as they are made.
    clear, load, move
        `bank_latency` cycles after the word: begin a new sum after this one; put the sum, this one included, into
        `held`; change `held`, with `load` to the sums and else to `shifted`.  Rows from `linked` on have no `shifted`.
    """

    def __init__(self, *, shape: MatrixShape, columns: npt.NDArray[np.int64], linked: int,
                 contents: npt.NDArray[np.uint8], technology: Technology, name: str):
        self.shape = shape
        self.columns = columns
        self.rows = rows = len(columns)
        self.linked = linked
        self.contents = contents
        self.technology = technology
        self.name = name
        sums = data.ArrayLayout(signed(shape.accumulator.width), rows)
        super().__init__({
            **({"more": In(1)} if shape.products.accumulates else {}),
            "addr": In(range(shape.rom_depth)),
            "word": In(data.ArrayLayout(shape.element, shape.word_lanes)),
            "clear": In(1), "load": In(1), "move": In(1),
            "shifted": In(data.ArrayLayout(signed(shape.accumulator.width), linked)), "held": Out(sums),
        })

    def elaborate(self, platform):
        m = Module()
        shape, cols = self.shape, self.shape.cols
        m.submodules.weights = weights = self.technology.rom(
            width=self.rows * cols * shape.weight.width, contents=self.contents, name=self.name)
        if shape.products.accumulates:
            m.submodules.products = products = shape.products.sums_unit(
                self.rows * shape.terms, signed(shape.accumulator.width), self.technology)
            m.d.comb += products.more.eq(self.more)
            results = products.t
        else:
            m.submodules.products = products = shape.products.unit(self.rows * cols, self.technology)
            results = products.p
        m.d.comb += weights.addr.eq(self.addr)
        words = delay(m, weights.data, shape.weights_wait(self.rows, self.technology), "weights_late")
        width, sharing = shape.accumulator.width, shape.products.sharing
        for row in range(self.rows):
            # Rows that share their elements stand beside each other.
            places = [(row // sharing * cols + col) * sharing + row % sharing for col in range(cols)]
            for col, (place, lane) in enumerate(zip(places, self.columns[row], strict=True)):
                m.d.comb += Value.cast(products.b[place]).eq(
                    words.word_select(row * cols + col, shape.weight.width))
                if row % sharing == 0:
                    m.d.comb += products.a[place // sharing].eq(self.word[int(lane)])
            terms = range(row * shape.terms, (row + 1) * shape.terms) if shape.products.accumulates else places
            total = self.tree(m, [results[term] for term in terms], f"row{row}")
            if not shape.products.accumulates:
                total = self.accumulated(m, total, row)
            held = Signal(signed(width), name=f"held{row}", reset_less=True)
            with m.If(self.move):
                m.d.sync += held.eq(Mux(self.load, total, self.shifted[row]) if row < self.linked else total)
            m.d.comb += self.held[row].eq(held)
        return m

    def accumulated(self, m: Module, total: Value, row: int) -> Value:
        """The sum of a block so far, this cycle's `total` of a row included."""
        shape, start = self.shape, 0
        if shape.products.counts:  # the sum of n products is twice the count less n
            total, start = total << 1, -shape.cols * shape.played.beats
        if shape.played.beats == 1:
            return total + start if start else total
        accumulator = Signal(signed(shape.accumulator.width), name=f"accumulator{row}", reset_less=True, init=start)
        total = accumulator + total
        m.d.sync += accumulator.eq(Mux(self.clear, start, total))
        return total

    def tree(self, m: Module, terms: list[Value], name: str) -> Value:
        """The sum of `terms`, one level of adders a cycle; kept only as wide as the accumulator."""
        for level, count in enumerate(self.shape.tree):
            groups = [terms[k:k + count] for k in range(0, len(terms), count)]
            if count == TABLE_INPUTS:
                sums = [population(m, group, f"{name}_count{k}") for k, group in enumerate(groups)]
            else:
                sums = [sum(group) for group in groups]
            terms = []
            for k, value in enumerate(sums):
                limit = self.shape.accumulator.width
                shape = value.shape() if value.shape().width <= limit else Shape(limit, value.shape().signed)
                register = Signal(shape, name=f"{name}_sum{level}_{k}", reset_less=True)
                m.d.sync += register.eq(value)
                terms.append(register)
        return terms[0]


class MatrixArray(wiring.Component):
    """Takes the beats of a `Window`, gives the sums of its blocks, `out_lanes` channels at a time.

    Ports
    -----
    busy, beat
        Of the window.
    valid, sums
        Lane q: the sum of channel `k * out_lanes + q`, k = 0.. of a tile, `drain_interval` cycles apart.  Lane 0 is the
        last; `lead(q)` says how many cycles lane q comes before it.
    dropped
        Instead of `valid` of lane 0: a sum that is no output channel's passed by.

    Latency from the last beat of a block to lane 0 of its first sums: `latency` cycles.
    """

    def __init__(self, *, shape: MatrixShape, weights: npt.NDArray[np.int64], technology: Technology, name: str):
        self.shape = shape
        self.words = weight_words(shape, weights)
        self.technology = technology
        self.name = name
        self.bank = shape.bank_rows(technology)
        self.banks = shape.rows // self.bank
        word = data.ArrayLayout(shape.element, shape.word_lanes)
        super().__init__({
            "busy": In(1),
            "beat": In(data.StructLayout({"valid": 1, "first": 1, "last": 1, "word": word})),
            "valid": Out(shape.out_lanes),
            "sums": Out(data.ArrayLayout(shape.accumulator, shape.out_lanes)),
            "dropped": Out(1),
        })

    @property
    def latency(self) -> int:
        shape = self.shape
        return shape.word_delay(self.technology) + shape.bank_latency(self.technology) + self.banks

    def lead(self, lane: int) -> int:
        return self.bank_of(0) - self.bank_of(lane)

    def bank_of(self, row: int) -> int:
        return self.banks - 1 - row // self.bank

    def model(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Words of whole pixels, [blocks, beats, word_lanes], to sums, [pixels * channels / out_lanes, out_lanes]."""
        shape = self.shape
        words = shape.products.element.decoded(words)
        blocks = words.reshape(-1, shape.tiles, shape.played.beats, shape.word_lanes)
        weights = self.words.reshape(shape.tiles, shape.played.beats, shape.rows, shape.cols)
        if shape.parallel == 1:
            sums = np.einsum("ptbc,tbrc->ptr", blocks, weights)
        else:
            sums = np.stack([np.einsum("ptbc,tbc->pt", blocks[..., lanes], weights[:, :, row])
                             for row, lanes in enumerate(shape.columns)], axis=2)
        spans = sums.reshape(-1, shape.period * shape.rows)[:, :shape.span]
        return spans.reshape(-1, shape.out_lanes)

    def elaborate(self, platform):
        m = Module()
        shape, timing = self.shape, self.technology.timing
        late = shape.word_delay(self.technology)
        # Cycles from `busy` to the ROM's address.
        lead = late + timing.ram + 1 - timing.rom - shape.weights_wait(self.bank, self.technology)
        addr = self.address(m, delay(m, self.busy, lead, "playing", reset_less=False))
        word = delay(m, Value.cast(self.beat.word), late, "late_word")
        more = delay(m, ~self.beat.first, late, "more") if shape.products.accumulates else None

        wait = late + shape.bank_latency(self.technology)
        clear = delay(m, ~(self.beat.valid & ~self.beat.last), wait, "clear")
        early = delay(m, self.beat.last, wait - 1, "early", reset_less=False)
        load = delay(m, early, 1, "load", reset_less=False)
        move, keep = self.mover(m, early)

        banks, held, moves, keeps = [], {}, [], []
        for b in range(self.banks):
            if b:
                word, addr, clear, load = (
                    delay(m, value, 1, f"{name}_{b}") for value, name in (
                        (word, "word"), (addr, "addr"), (clear, "clear"), (load, "load")))
                more = None if more is None else delay(m, more, 1, f"more_{b}")
                move, keep = (delay(m, value, 1, f"{name}_{b}", reset_less=False)
                              for value, name in ((move, "move"), (keep, "keep")))
            m.submodules[f"bank{b}"] = bank = self.make_bank(b)
            m.d.comb += [
                bank.addr.eq(addr), Value.cast(bank.word).eq(word),
                bank.clear.eq(clear), bank.load.eq(load), bank.move.eq(move),
            ]
            if more is not None:
                m.d.comb += bank.more.eq(more)
            banks.append(bank)
            moves.append(move)
            keeps.append(keep)
            held |= {row: bank.held[k] for k, row in enumerate(self.rows_of(b))}
        self.drain(m, banks, held)
        self.leave(m, held, moves, keeps)
        return m

    def rows_of(self, b: int) -> range:
        first = (self.banks - 1 - b) * self.bank
        return range(first, first + self.bank)

    def make_bank(self, b: int) -> MatrixBank:
        rows = self.rows_of(b)
        words = self.words[:, rows.start:rows.stop].reshape(self.shape.rom_depth, -1)
        words = self.shape.products.weight.encoded(words)
        linked = min(self.bank, max(0, self.shape.rows - self.shape.out_lanes - rows.start))
        return MatrixBank(
            shape=self.shape, columns=self.shape.columns[rows.start:rows.stop], linked=linked,
            contents=packed(words, self.shape.weight.width), technology=self.technology,
            name=f"{self.name}_weights{b}")

    def address(self, m: Module, playing: Value) -> Value:
        """Counts through the ROM, once for every output pixel."""
        depth = self.shape.rom_depth
        addr, at_end = Signal(range(depth)), Signal(init=depth == 1)
        if depth > 1:
            with m.If(playing):
                m.d.sync += [addr.eq(Mux(at_end, 0, addr + 1)), at_end.eq(addr == depth - 2)]
        return addr

    def mover(self, m: Module, early: Value) -> tuple[Value, Value]:
        """`move` of bank 0, a register: with `load`, and `drain - 1` times more, `drain_interval` cycles apart.

        And `keep`, a register beside it: the sums that come first after the move are those of output channels.
        """
        shape = self.shape
        move, again = Signal(), Signal()
        m.d.sync += move.eq(early | again)
        if shape.drain == 1:
            return move, Const(1)
        left = Signal(Shape.cast(range(-1, shape.drain - 1)), init=-1)
        with m.If(early):
            m.d.sync += left.eq(shape.drain - 2)
        with m.Elif(again):
            m.d.sync += left.eq(left - 1)
        if shape.drain_interval == 1:
            m.d.comb += again.eq(~left[-1])
        else:
            # `again` is decided a cycle ahead; `wait` runs on when nothing is left, which does no harm.
            wait = Signal(range(shape.drain_interval - 1))
            m.d.sync += [wait.eq(wait - 1), again.eq((wait == 0) & ~left[-1] & ~(early | again))]
            with m.If(early | again):
                m.d.sync += wait.eq(shape.drain_interval - 2)
        return move, self.keeper(m, early, again)

    def keeper(self, m: Module, early: Value, again: Value) -> Value:
        """The last block of a span has fewer outputs than rows: its first `kept` moves bring them."""
        shape = self.shape
        if shape.kept == shape.drain:
            return Const(1)
        blocks = Nest(m, (shape.period,), name="block")
        blocks.advance(early)
        keep, left = Signal(), Signal(Shape.cast(range(-shape.drain, shape.drain - 1)))
        with m.If(early):
            m.d.sync += [keep.eq(1), left.eq(Mux(blocks.last[0], shape.kept - 2, shape.drain - 2))]
        with m.Elif(again):
            m.d.sync += [keep.eq(~left[-1]), left.eq(left - 1)]
        return keep

    def drain(self, m: Module, banks: list[MatrixBank], held: dict[int, Value]) -> None:
        """Row r passes its sum to row r - out_lanes, through a register for every bank between them."""
        lanes = self.shape.out_lanes
        for b, bank in enumerate(banks):
            for k, row in enumerate(self.rows_of(b)):
                if row + lanes < self.shape.rows:
                    hops = b - self.bank_of(row + lanes)
                    m.d.comb += bank.shifted[k].eq(delay(m, held[row + lanes], hops, f"passed{row}"))

    def leave(self, m: Module, held: dict[int, Value], moves: list[Value], keeps: list[Value]) -> None:
        for lane in range(self.shape.out_lanes):
            move, keep = (values[self.bank_of(lane)] for values in (moves, keeps))
            m.d.comb += [
                self.valid[lane].eq(delay(m, move & keep, 1, f"valid{lane}", reset_less=False)),
                Value.cast(self.sums[lane]).eq(held[lane].as_unsigned()),
            ]
        if self.shape.kept < self.shape.drain:
            move, keep = (values[self.bank_of(0)] for values in (moves, keeps))
            m.d.comb += self.dropped.eq(delay(m, move & ~keep, 1, "dropped", reset_less=False))


def population(m: Module, bits: list[Value], name: str) -> Value:
    """How many of up to four bits are set."""
    counts = [k.bit_count() for k in range(1 << len(bits))]
    return table(m, Cat(*bits), counts, Shape(len(bits).bit_length()), name)
