"""What the pipeline of a cell costs."""

from __future__ import annotations

from amaranth.hdl import Shape, signed

from ..multiply.products import WideProductShape
from ..stream.pipeline import adder_luts
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .memories import StateMemory, beats_memory_cost
from .shape import VALUE, RecurrentShape
from .timing import LoopTiming


def cell_cost(shape: RecurrentShape, timing: LoopTiming, zero: bool, technology: Technology) -> Resources:
    """Of a `Cell`: DSP and RAM exact, LUT and FF estimated."""
    lanes, width = shape.lanes, shape.sum.width
    total = technology.rom_cost(width=VALUE.width, depth=(1 + (shape.cell != "rnn")) << shape.index_bits, name="table",
                                holds=Holds.TABLE).copies(lanes)
    # Sum, steps and index of the table.
    total += lane(adders=(width + 1, width + 1 - shape.sum_drop), bits=shape.index_bits, technology=technology,
                  lanes=lanes)
    if shape.cell == "gru":
        total += gru_cost(shape, timing, zero, technology)
    elif shape.cell == "lstm":
        total += lstm_cost(shape, zero, technology)
    counted = shape.beats.bit_length() + timing.state
    return total + fitted("Cell", trail_bits=counted)


def gru_cost(shape: RecurrentShape, timing: LoopTiming, zero: bool, technology: Technology) -> Resources:
    lanes, state = shape.lanes, shape.state.width
    wide = signed(state + 1)
    total = products(shape, wide, technology)
    total += states(shape, "hidden", shape.state, zero, technology) + values(shape, "update", technology)
    if shape.reset_after:
        total += products(shape, shape.sum, technology) + values(shape, "reset", technology)
        total += lane(adders=(shape.sum.width + 2,), bits=0, technology=technology, lanes=lanes)
        total += Resources(ff=lanes * shape.sum.width * timing.x)
    wait = timing.state - timing.value - 1 - shape.saturates
    return total + Resources(ff=lanes * state * wait) + lane(
        adders=(state + 1, state + 3), bits=state * shape.saturates, technology=technology, lanes=lanes)


def lstm_cost(shape: RecurrentShape, zero: bool, technology: Technology) -> Resources:
    lanes, memory, state = shape.lanes, shape.memory.width, shape.state.width
    total = technology.rom_cost(width=VALUE.width, depth=1 << shape.output_index_bits, name="output_table",
                                holds=Holds.TABLE).copies(lanes)
    for each in (shape.memory, VALUE, VALUE):
        total += products(shape, each, technology)
    total += states(shape, "cell", shape.memory, zero, technology)
    for name in ("input", "forget", "shown"):
        total += values(shape, name, technology)
    product = memory + VALUE.width + max(0, shape.finer) + 1
    total += lane(adders=(product, memory + 2), bits=memory, technology=technology, lanes=lanes)
    total += Resources(ff=lanes * (memory + 2))  # rounded in two cycles
    total += lane(adders=(memory + 1 - shape.memory_drop,), bits=shape.output_index_bits, technology=technology,
                  lanes=lanes)
    return total + lane(adders=(state + 2,), bits=state, technology=technology, lanes=lanes)


def products(shape: RecurrentShape, a: Shape, technology: Technology) -> Resources:
    return WideProductShape(a, VALUE).cost(shape.lanes, technology)


def values(shape: RecurrentShape, name: str, technology: Technology) -> Resources:
    return beats_memory_cost(width=VALUE.width * shape.lanes, depth=shape.beats, technology=technology, name=name)


def states(shape: RecurrentShape, name: str, element: Shape, zero: bool, technology: Technology) -> Resources:
    return StateMemory.cost(width=element.width * shape.lanes, depth=shape.beats, zero=zero, technology=technology,
                            memory=name)


def lane(*, adders: tuple[int, ...], bits: int, technology: Technology, lanes: int) -> Resources:
    """Additions with a register after each, and a saturation to `bits`."""
    return Resources(lut=lanes * (sum(adder_luts(width, technology) for width in adders) + bits),
                     ff=lanes * (sum(adders) + bits))
