"""The sum of two elements with a constant factor each, rounded once."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Module, Shape, Value
from amaranth.lib import wiring

from ..multiply.products import Operand
from ..vendor.base import Resources, Technology
from .add_rounded import RoundedSum
from .join import JoinFunction


@dataclass(frozen=True)
class AddFunction(JoinFunction):
    """y = clamp(round_half_even((m0 * (a - za) + m1 * (b - zb)) / 2**shift) + zero_point, low, high).

    No multiplier blocks: for two elements of 8 bits four tables of four inputs and three adders, less than half of what
    one block is worth.
    """

    sum: RoundedSum

    @staticmethod
    def of(*, operands: tuple[Operand, Operand], zero_points: tuple[int, int], multipliers: tuple[int, int], shift: int,
           zero_point: int, low: int, high: int, output: Shape) -> AddFunction:
        return AddFunction(operands, output, RoundedSum(
            operands, zero_points, multipliers, shift, zero_point, low, high, output))

    def exactly(self, a: int, b: int) -> int:
        return self.sum.exactly(a, b)

    def latency(self, technology: Technology) -> int:
        return self.sum.latency

    @property
    def begins_in_tables(self) -> bool:
        return not self.is_narrow and bool(self.sum.ways.tables)

    def cost(self, technology: Technology) -> Resources:
        return self.sum.cost(technology)

    def unit(self, technology: Technology) -> wiring.Component:
        return Adder(self)


class Adder(wiring.Component):
    """`y` = function(`a`, `b`), `function.sum.latency` cycles later; a result in every cycle."""

    def __init__(self, function: AddFunction):
        self.function = function
        super().__init__(function.ports)

    def elaborate(self, platform):
        m = Module()
        values = [Value.cast(self.a), Value.cast(self.b)]
        m.d.comb += Value.cast(self.y).eq(self.function.sum.build(m, values, "sum"))
        return m
