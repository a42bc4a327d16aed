"""The multipliers of a matrix stage: banks of rows, their weights, adder trees, accumulators and the drain chain.

Bank b works b cycles after bank 0 (the *skew*): words, addresses of weights and flags pass from bank to bank through a
register.  The sums also drain from bank to bank.  The rows are in reverse order, so that channel 0 leaves first.  A sum
of bank b passes one more register on its way to bank b + 1, which works one cycle later.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Const, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..multiply.products import TABLE_INPUTS, table
from ..stream.pipeline import Nest, adder_luts, delay
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.known import once_known
from .shape import MatrixShape
from .weights import packed


def weight_words(shape: MatrixShape, weights: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """[cout, kernel height, kernel width, cin / groups] in the order of the beats: [words, rows, cols].

    0 for rows without an output, and for columns without an input.
    """
    height, width, taps, deep = *shape.frame.kernel, shape.taps, shape.lanes // shape.parallel
    words = shape.window.group_words
    by_span = np.asarray(weights, dtype=np.int64).reshape(-1, shape.span, height, width // taps, taps, shape.depth)
    full = np.zeros((len(by_span), shape.period * shape.rows, *by_span.shape[2:5], words * deep), dtype=np.int64)
    full[:, :shape.span, ..., :shape.depth] = by_span
    # [span, block, row, kernel row, kernel column, tap, word, lane]
    blocks = full.reshape(len(full), shape.period, shape.rows, height, width // taps, taps, words, deep)
    return blocks.transpose(0, 1, 3, 4, 6, 2, 5, 7).reshape(-1, shape.rows, shape.cols)


class MatrixArray(wiring.Component):
    """Takes the beats of a `LineBuffer` and gives the sums of its blocks, `out_lanes` channels at a time.

    Ports
    -----
    busy, beat
        From the `LineBuffer`.
    valid, sums
        Lane q: the sum of channel `k * out_lanes + q`, k = 0.. of a tile, `drain_interval` cycles apart.  Lane 0 is the
        last; `lead(q)` says how many cycles lane q comes before it.
    dropped
        Instead of `valid` of lane 0: a sum that belongs to no output channel left.

    Latency from the last beat of a block to lane 0 of its first sums: `latency` cycles.
    """

    def __init__(self, *, shape: MatrixShape, weights: npt.NDArray[np.int64], technology: Technology, name: str):
        self.shape = shape
        self.words = weight_words(shape, weights)
        self.technology = technology
        self.bank = shape.bank_rows(technology)
        self.banks = shape.rows // self.bank
        self.weights = shape.source.weights(
            words=shape.bank_words(self.bank), contents=self.contents, technology=technology, name=name)
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

    @staticmethod
    @once_known
    def cost(shape: MatrixShape, technology: Technology) -> Resources:
        """Multipliers and RAM exact; LUT and FF estimated: adders, accumulators, drain chain, hops."""
        bank = shape.bank_rows(technology)
        banks = shape.rows // bank
        blocks = shape.bank_cost(bank, technology).copies(banks)
        width, product = shape.accumulator.width, shape.products.shape.width
        if shape.products.accumulates:
            product = width
        adders, registers, count = 0, width, shape.terms
        for level, terms in enumerate(shape.tree):
            if terms == TABLE_INPUTS:
                sums, adders, product = -(-count // terms), adders + 3 * (count // terms) + 2, 2
                count, registers = sums, registers + 3 * sums
                continue
            sum_width = min(width, product + level + 1)
            adders += count // 2 * adder_luts(sum_width, technology)
            count -= count // 2
            registers += count * sum_width
        if shape.played.beats > 1 and not shape.products.accumulates:
            adders, registers = adders + adder_luts(width, technology), registers + width
        words = shape.bank_words(bank)
        address = ceil_log2(shape.source.places(words))
        per_row = Resources(lut=adders + (width if shape.drain > 1 else 0), ff=registers)
        # If words hold several groups, each bank passes on only the lanes that later banks need: half of them, on
        # average.  If multipliers begin with a register, synthesis merges it with the register to the next bank.
        activations = shape.word_lanes * shape.element.width // (2 if shape.parallel > 1 else 1)
        if shape.parallel == 1 and shape.products.registers_elements(technology):
            activations = 0
        per_hop = fitted("MatrixArray hop") + Resources(
            ff=activations + address + (width if shape.drain > 1 else shape.output.width * banks // 2))
        control = shape.source.control_cost(words, technology) + fitted(
            "MatrixArray", address_bits=address, latency=shape.bank_latency(technology))
        return blocks + control + per_row.copies(shape.rows) + per_hop.copies(banks - 1)

    def model(self, words: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Words of frames of all passes, [blocks, beats, word_lanes], to sums, [values / out_lanes, out_lanes]."""
        shape = self.shape
        words = shape.products.element.decoded(words)
        # [frame, pass, pixel, tile, beat, lane], [pass, tile, beat, row, column]
        blocks = words.reshape(-1, shape.passes, shape.pixels, shape.tiles, shape.played.beats, shape.word_lanes)
        weights = self.words.reshape(shape.passes, shape.tiles, shape.played.beats, shape.rows, shape.cols)
        if shape.parallel == 1:
            sums = np.einsum("nvptbc,vtbrc->nvptr", blocks, weights)
        else:
            sums = np.stack([np.einsum("nvptbc,vtbc->nvpt", blocks[..., lanes], weights[:, :, :, row])
                             for row, lanes in enumerate(shape.columns)], axis=4)
        spans = sums.reshape(-1, shape.period * shape.rows)[:, :shape.span]
        return spans.reshape(-1, shape.out_lanes)

    def elaborate(self, platform):
        m = Module()
        shape, ram = self.shape, self.technology.timing.ram
        late = shape.word_delay(self.technology)
        # Cycles from `busy` to the address of the weights.
        lead = late + ram + 1 - shape.source.latency(self.technology) - shape.weights_wait(self.bank, self.technology)
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
        linked = min(self.bank, max(0, self.shape.rows - self.shape.out_lanes - rows.start))
        return MatrixBank(shape=self.shape, columns=self.shape.columns[rows.start:rows.stop], linked=linked,
                          weights=self.weights.bank(b), technology=self.technology)

    def contents(self, b: int) -> npt.NDArray[np.uint8]:
        """The words of weights that bank b reads, in the form of `StageWeights`."""
        rows = self.rows_of(b)
        words = self.words[:, rows.start:rows.stop].reshape(len(self.words), -1)
        return packed(self.shape.products.weight.encoded(words), self.shape.weight.width)

    def address(self, m: Module, playing: Value) -> Value:
        """The address of the words of weights, which counts through the places of the source.

        If several pixels use a tile, it goes back to the start of the tile after each of these pixels but the last.
        """
        words = self.shape.bank_words(self.bank)
        depth = self.shape.source.places(words)
        addr, at_end = Signal(range(depth)), Signal(init=depth == 1)
        if depth == 1:
            return addr
        following, ends = Mux(at_end, 0, addr + 1), addr == depth - 2
        with m.If(playing):
            m.d.sync += [addr.eq(following), at_end.eq(ends)]
        if self.shape.weight_lanes and words.pixels > 1:
            nest = Nest(m, (self.shape.source.tile(words), words.pixels), name="of_tile")
            nest.advance(playing)
            first, first_at_end = Signal.like(addr, name="tile_start"), Signal()
            with m.If(playing & nest.last[0]):
                with m.If(nest.last[1]):
                    m.d.sync += [first.eq(following), first_at_end.eq(ends)]
                with m.Else():
                    m.d.sync += [addr.eq(first), at_end.eq(first_at_end)]
        return addr

    def mover(self, m: Module, early: Value) -> tuple[Value, Value]:
        """`move` of bank 0, a register: with `load`, and `drain - 1` times more, `drain_interval` cycles apart.

        Also `keep`, a second register: the sums that leave first after the move belong to output channels.
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
        """High for moves that bring outputs: the last block of a span may have some only in its first `kept` moves."""
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


class MatrixBank(wiring.Component):
    """Rows of multipliers.  Each row multiplies the same word of activations by its weights; `held` has the sums of a
    block.

    Row k multiplies the lanes `columns[k]` of the word.  `weights` is the component of `StageWeights.bank`.

    Ports
    -----
    addr, word
        The address of the weights comes `WeightSource.latency` cycles before the word, one more with
        `MatrixShape.weights_wait`.
    more
        With the word: it is not the first of a sum.  Only if the multiplier blocks accumulate the products themselves.
    clear, load, move
        `bank_latency` cycles after the word: begin a new sum after this one; put the sum, this one included, into
        `held`; change `held`, with `load` to the sums and else to `shifted`.  Rows from `linked` on have no `shifted`.
    """

    def __init__(self, *, shape: MatrixShape, columns: npt.NDArray[np.int64], linked: int,
                 weights: wiring.Component, technology: Technology):
        self.shape = shape
        self.columns = columns
        self.rows = rows = len(columns)
        self.linked = linked
        self.weights = weights
        self.technology = technology
        sums = data.ArrayLayout(signed(shape.accumulator.width), rows)
        super().__init__({
            **({"more": In(1)} if shape.products.accumulates else {}),
            "addr": In(weights.addr.shape()),
            "word": In(data.ArrayLayout(shape.element, shape.word_lanes)),
            "clear": In(1), "load": In(1), "move": In(1),
            "shifted": In(data.ArrayLayout(signed(shape.accumulator.width), linked)), "held": Out(sums),
        })

    def elaborate(self, platform):
        m = Module()
        shape, cols = self.shape, self.shape.cols
        m.submodules.weights = weights = self.weights
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
            # Rows that share their elements are neighbours.
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


def population(m: Module, bits: list[Value], name: str) -> Value:
    """The number of set bits of up to four."""
    counts = [k.bit_count() for k in range(1 << len(bits))]
    return table(m, Cat(*bits), counts, Shape(len(bits).bit_length()), name)
