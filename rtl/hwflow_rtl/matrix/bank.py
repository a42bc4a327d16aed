"""A bank of a matrix stage: rows of multipliers that share a word of weights, adder trees, accumulators."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Cat, Module, Mux, Shape, Signal, Value, signed
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from ..multiply.products import TABLE_INPUTS, table
from ..stream.pipeline import delay
from ..vendor.base import Technology
from .shape import MatrixShape


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
