"""The stage of a recurrent layer."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache, cached_property

import numpy as np
from hwflow_rtl.matrix.stage import rescaler_latency
from hwflow_rtl.multiply.products import Operand, ProductShape
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.recurrent.shape import CellState, GateTable, LoopPace, LoopProduct, LoopTiming, RecurrentShape
from hwflow_rtl.recurrent.stage import RecurrentStageShape
from hwflow_rtl.rescale.plan import RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRounding
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.vendor import ECP5, ICE40, Gowin, Technology

from hwflow.layers.formats import IntArray
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.rescale import BLOCK_BITS, Requantize
from hwflow.stages.codes import shape_of
from hwflow.stages.folding import Folding, divisors
from hwflow.stages.rescalers import rescaler_constants, room_of, too_wide_for_blocks
from hwflow.stages.stage import LayerStage

#: Units whose gates are computed at once, at most.
MOST_LANES = 8


@cache
def families() -> tuple[Technology, ...]:
    """Each with its latencies; they keep the costs that they were asked for."""
    return ECP5(), Gowin(), ICE40(), ICE40(has_multipliers=False)


class RecurrentStage(LayerStage[Recurrent]):
    """The loop over the steps, from gate sums `x` to hidden states `y`."""

    def shared_problem(self) -> str | None:
        return "a shared stage has no product in a loop"

    @cached_property
    def _paces(self) -> dict[tuple[int, int, int, MultiplierStyle], LoopPace]:
        return {}

    @cached_property
    def _outputs(self) -> dict[tuple[Technology, int], RequantizerConstants]:
        return {}

    @cached_property
    def _rescalers(self) -> dict[RequantizerStyle, RequantizerConstants]:
        return {}

    def foldings(self) -> Iterator[Folding]:
        """Rows and columns divide the units, lanes both; results are rescaled as fast as they come."""
        hidden = self.layer.hidden
        for rows in divisors(hidden):
            for cols in divisors(hidden):
                for lanes in divisors(int(np.gcd(rows, cols))):
                    if rows // lanes <= hidden // cols and lanes <= MOST_LANES:
                        for style in self.all_styles:
                            yield Folding(rows, cols, lanes, style)

    @cached_property
    def products(self) -> ProductShape:
        return ProductShape(Operand(shape_of(self.layer.hidden_format)), Operand(shape_of(self.layer.weight_format)))

    @cached_property
    def all_styles(self) -> tuple[MultiplierStyle, ...]:
        return tuple(dict.fromkeys(style for family in families() for style in self.styles(family)))

    def styles(self, technology: Technology) -> tuple[MultiplierStyle, ...]:
        """One for each family: latencies count here, and the cycles of a schedule are those of a style.

        Products with one or two bits are made in tables everywhere, and have no other style.
        """
        if self.products.in_logic:
            return self.products.styles(technology)
        wanted = MultiplierStyle.BLOCKS if technology.operand_bits else MultiplierStyle.LOGIC
        return tuple(style for style in self.products.styles(technology) if style is wanted)

    @cached_property
    def tables(self) -> list[IntArray]:
        """The tables by the index of the unit: gates and candidates have tables of one size."""
        layer = self.layer
        first = [table for table in (layer.gate_table, layer.candidate_table) if len(table)]
        most = max(len(table) for table in first)
        return [*(widened(table, most) for table in first), *([layer.output_table] if len(layer.output_table) else [])]

    def loop_shape(self, folding: Folding) -> RecurrentShape:
        layer = self.layer
        memory = CellState()
        if layer.cell == "lstm":
            memory = CellState(shape_of(layer.cell_format), index_bits(layer.output_table),
                               layer.cell_fraction - layer.table_fraction,
                               layer.candidate_fraction - layer.cell_fraction)
        table = GateTable(index_bits(self.tables[0]), layer.gate_fraction - layer.table_fraction,
                          bool((layer.gate_table < 0).any()))
        return RecurrentShape(
            cell=layer.cell, hidden=layer.hidden, steps=self.x.frame.width, rows=folding.rows, cols=folding.cols,
            lanes=folding.lanes, sum=shape_of(layer.input_format), state=shape_of(layer.hidden_format),
            output=shape_of(self.y.format),
            product=LoopProduct(shape_of(layer.weight_format), shape_of(layer.accumulator)), table=table, memory=memory,
            reset_after=layer.linear_before_reset, streaming=layer.streaming, style=folding.style)

    def rescaler(self, technology: Technology) -> RequantizerConstants:
        """The rescaler of sums: in multiplier blocks where the family has wide ones, for they are fast."""
        in_logic = technology.operand_bits < BLOCK_BITS or too_wide_for_blocks(
            self.layer.hidden_rescale, self.layer.accumulator)
        style = RequantizerStyle.FABRIC if in_logic else RequantizerStyle.DSP
        if style not in self._rescalers:  # which keeps what it was asked
            self._rescalers[style] = constants_of(self.layer.hidden_rescale, style)
        return self._rescalers[style]

    def output(self, folding: Folding, technology: Technology) -> RequantizerConstants:
        """The rescaler of hidden states."""
        key = technology, self.loop_shape(folding).matrix.drain_interval
        if key not in self._outputs:
            made = rescaler_constants(self.layer.requantize, self.layer.hidden_format, self.y.format, *key)
            assert isinstance(made, RequantizerConstants)
            self._outputs[key] = made
        return self._outputs[key]

    def pace(self, folding: Folding) -> LoopPace:
        """The pace that is enough on all families that have the style."""
        key = folding.rows, folding.cols, folding.lanes, folding.style
        found = self._paces.get(key)
        if found is None:
            shape, timings = self.loop_shape(folding), []
            for technology in families():
                if folding.style in self.styles(technology):
                    rescaling = rescaler_latency(shape.matrix, self.rescaler(technology), technology)
                    timings.append(LoopTiming.of(shape, technology, rescaling))
            found = self._paces[key] = LoopPace.of(shape, timings)
        return found

    def shape(self, folding: Folding, technology: Technology) -> RecurrentStageShape:
        layer = self.layer
        return RecurrentStageShape(
            loop=self.loop_shape(folding), pace=self.pace(folding), weights=layer.hidden_weights, tables=self.tables,
            initial=layer.initial, rescaler=self.rescaler(technology), outputs=self.output(folding, technology))


def constants_of(rescale: Requantize, style: RequantizerStyle) -> RequantizerConstants:
    return RequantizerConstants(
        bias=rescale.bias, multiplier=rescale.multiplier, shift=rescale.shift, zero_point=rescale.zero_point,
        low=rescale.low, high=rescale.high, style=style, fraction=rescale.fraction,
        rounding=RequantizerRounding(rescale.rounding.value), room=room_of(rescale), outward=rescale.outward)


def index_bits(table: IntArray) -> int:
    return (len(table) - 1).bit_length()


def widened(table: IntArray, count: int) -> IntArray:
    """The same function with `count` entries: indices beyond the ends had the entries there."""
    more = (count - len(table)) // 2
    return np.pad(table, more, mode="edge")

