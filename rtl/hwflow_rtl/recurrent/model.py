"""The beats of a recurrent stage in numpy, gate by gate, from what its array, tables and multipliers do."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from amaranth.hdl import Shape

from ..matrix.array import MatrixArray
from ..rescale.ranges import RequantizerRounding
from ..rescale.rescaler import Rescaler
from .shape import ONE_FRACTION, RecurrentShape

IntArray = npt.NDArray[np.int64]


class LoopModel:
    """Steps of a `RecurrentStage` with these parts."""

    def __init__(self, shape: RecurrentShape, array: MatrixArray, rescalers: Sequence[Rescaler],
                 outputs: Sequence[Rescaler], tables: Sequence[IntArray], initial: IntArray):
        self.shape, self.array = shape, array
        self.rescalers, self.outputs = rescalers, outputs
        self.tables, self.initial = tables, initial
        self.state, self.cell = initial[0], initial[-1]

    def beats(self, frames: IntArray) -> IntArray:
        """As `RecurrentStage.model`."""
        made = []
        for frame in frames.reshape(-1, self.shape.steps, len(self.shape.gates), self.shape.hidden):
            if not self.shape.streaming:
                self.state, self.cell = self.initial[0], self.initial[-1]
            for sums in frame:
                self.step(sums)
                made.append(self.outputs[0].model(self.state).reshape(-1, self.shape.lanes))
        return np.concatenate(made) if made else np.zeros((0, self.shape.lanes), np.int64)

    def product(self, operand: IntArray) -> IntArray:
        """Gate sums [gates, hidden] of the product with a state."""
        tiles = len(self.shape.gates) * self.shape.blocks
        words = np.broadcast_to(operand.reshape(1, self.shape.words, -1), (tiles, self.shape.words, self.shape.cols))
        sums = self.array.model(words)
        lanes = [unit.model(sums[:, q]) for q, unit in enumerate(self.rescalers)]
        return np.stack(lanes, axis=1).reshape(-1, self.shape.hidden)

    def step(self, x: IntArray) -> None:
        own = self.product(self.state)
        {"rnn": self.rnn, "gru": self.gru, "lstm": self.lstm}[self.shape.cell](x, own)

    def index(self, values: IntArray, drop: int, bits: int) -> IntArray:
        half = 1 << (bits - 1)
        return np.clip(divided(values, drop), -half, half - 1) + half

    def looked_up(self, sums: IntArray, table: int) -> IntArray:
        found: IntArray = self.tables[table][self.index(sums, self.shape.sum_drop, self.shape.index_bits)]
        return found

    def rnn(self, x: IntArray, own: IntArray) -> None:
        self.state = self.looked_up(x[0] + own[0], 0)

    def gru(self, x: IntArray, own: IntArray) -> None:
        shape = self.shape
        r, z = (self.looked_up(x[k] + own[k], 0) for k in (0, 1))
        if shape.reset_after:
            last = divided(r * own[2], ONE_FRACTION)
        else:
            last = self.product(limited(divided(r * self.state, ONE_FRACTION), shape.state))[2]
        n = self.looked_up(x[2] + last, 1)
        self.state = limited(n + divided(z * (self.state - n), ONE_FRACTION), shape.state)

    def lstm(self, x: IntArray, own: IntArray) -> None:
        shape = self.shape
        i, f, o = (self.looked_up(x[k] + own[k], 0) for k in (0, 1, 3))
        candidate = self.looked_up(x[2] + own[2], 1)
        total = (f * self.cell << max(0, shape.finer)) + (i * candidate << max(0, -shape.finer))
        self.cell = limited(divided(total, ONE_FRACTION + max(0, shape.finer)), shape.memory)
        shown = self.tables[2][self.index(self.cell, shape.memory_drop, shape.output_index_bits)]
        self.state = limited(divided(o * shown, ONE_FRACTION), shape.state)


def divided(values: IntArray, bits: int) -> IntArray:
    """values / 2**bits, rounded half to even."""
    return RequantizerRounding.HALF_EVEN.of_quotient(values, np.asarray(bits, np.int64))


def limited(values: IntArray, shape: Shape) -> IntArray:
    half = 1 << (shape.width - 1)
    return np.clip(values, -half, half - 1)
