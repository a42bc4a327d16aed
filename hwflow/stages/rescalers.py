"""Rescalers of the units, which make elements of sums: from the constants of layers to those of the hardware, and their
cost."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hwflow_rtl.multiply.style import MultiplierStyle
from hwflow_rtl.rescale.plan import WIDEST_SUM, RequantizerStyle
from hwflow_rtl.rescale.ranges import RequantizerRoom, RequantizerRounding
from hwflow_rtl.rescale.requantizer import RequantizerConstants
from hwflow_rtl.rescale.rescaler import RescalerConstants
from hwflow_rtl.rescale.thresholder import MOST_LEVELS, ThresholderConstants
from hwflow_rtl.vendor import ECP5, Resources, Technology
from hwflow_rtl.vendor import price as cells

from hwflow.layers.formats import IntFormat
from hwflow.layers.rescale import Requantize, Rescale, RoomyRequantize, RoomyThresholds, Thresholds
from hwflow.stages.codes import shape_of

#: The technology of estimates while no board is known.
REFERENCE: Technology = ECP5()
#: Cycles from sum to sum of a stage where its folding is not known.
REFERENCE_INTERVAL = 4


def price(resources: Resources) -> float:
    """One number for comparisons where no board is known: the logic cells that `resources` are worth.

    A table or a flip-flop counts 1, a multiplier block 536, a RAM block 402: their shares of an LFE5U-85F.
    """
    return float(cells(resources))


def rescaler_constants(rescale: Rescale, accumulator: IntFormat, output: IntFormat, technology: Technology,
                       interval: int = 1, style: MultiplierStyle | None = None) -> RescalerConstants:
    """The constants of the hardware of `rescale` between sums of format `accumulator` and elements of format `output`.

    `interval`: least cycles from sum to sum; with time between them it may be cheaper to multiply in logic.  `style`:
    what multiplies, logic or (None) the cheaper.
    """
    if isinstance(rescale, Thresholds):
        any_values = isinstance(rescale, RoomyThresholds)
        if output.bipolar:  # the bit says whether the step from -1 to +1 is made
            return ThresholderConstants(rescale.values[:, 1::2], 0, any_values=any_values)
        return ThresholderConstants(rescale.values, rescale.low, any_values=any_values)
    logic = RequantizerConstants(
        bias=rescale.bias, multiplier=rescale.multiplier, shift=rescale.shift, zero_point=rescale.zero_point,
        low=rescale.low, high=rescale.high, style=RequantizerStyle.FABRIC, fraction=rescale.fraction,
        rounding=RequantizerRounding(rescale.rounding.value), room=room_of(rescale), outward=rescale.outward)
    in_logic_alone = technology.prefers_fabric_requantizer or too_wide_for_blocks(rescale, accumulator)
    if style is MultiplierStyle.LOGIC or in_logic_alone:
        return logic
    blocks = replace(logic, style=RequantizerStyle.DSP)
    costs = [made.cost(accumulator=shape_of(accumulator), output=shape_of(output), interval=interval,
                       technology=technology) for made in (logic, blocks)]
    in_logic, in_blocks = (cells(replace(cost, dsp=0)) + technology.cells_for_a_multiplier * cost.dsp for cost in costs)
    return logic if in_logic <= in_blocks else blocks


def room_of(rescale: Requantize) -> RequantizerRoom | None:
    """The room that the hardware of `rescale` has room for; None of hardware that is made for its own constants."""
    if not isinstance(rescale, RoomyRequantize):
        return None
    return RequantizerRoom(rescale.room.bits + rescale.fraction, rescale.factor_bits, rescale.base, rescale.extra,
                           rescale.outward)


def too_wide_for_blocks(rescale: Requantize, accumulator: IntFormat) -> bool:
    """Whether sums with their bias are too wide for two operands of multiplier blocks."""
    least, most = rescale.bias_ends
    low, high = (accumulator.low << rescale.fraction) + least, (accumulator.high << rescale.fraction) + most
    return IntFormat.covering(min(low, -1), high).bits > WIDEST_SUM


def rescale_problem(rescale: Rescale, output: IntFormat) -> str | None:
    """None where a stage can compute `rescale` into elements of format `output`, else why it cannot."""
    if isinstance(rescale, Thresholds):
        levels = rescale.values.shape[1]
        if not 1 <= levels <= MOST_LEVELS:
            return f"thresholds must have 1 to {MOST_LEVELS} levels, not {levels}"
        if output.bipolar and not (
                levels == 2 and rescale.low == -1 and np.array_equal(rescale.values[:, 0], rescale.values[:, 1])):
            return "thresholds of a bipolar output must be pairs of equal values that step from -1 to +1"
    elif output.bipolar:
        return "a bipolar output must come from thresholds, not from a multiplication"
    return None


def rescale_cost(rescale: Rescale, accumulator: IntFormat, output: IntFormat,
                 technology: Technology = REFERENCE) -> Resources:
    """Count what the output stage of one lane costs, with a sum every `REFERENCE_INTERVAL` cycles.

    DSP and RAM exact, LUT and FF estimated.  The default technology is for the choice between thresholds and
    multiplication, which is made before a board is known.  ValueError where there is no such hardware
    (`rescale_problem`).
    """
    problem = rescale_problem(rescale, output)
    if problem:
        raise ValueError(problem)
    return rescaler_constants(rescale, accumulator, output, technology, REFERENCE_INTERVAL).cost(
        accumulator=shape_of(accumulator), output=shape_of(output), interval=REFERENCE_INTERVAL, technology=technology)
