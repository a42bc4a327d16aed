"""Product of two tensors, element by element; the gate of a squeeze-and-excitation block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.elementwise import Elementwise
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import MULTIPLIER_BITS, Requantize
from hwflow.layers.sweep import Line, Sweep, zero_point_problem

if TYPE_CHECKING:
    from hwflow_rtl.join.join import JoinFunction


@dataclass(frozen=True, eq=False)
class Multiply(Elementwise):
    """y = clamp(round_half_even((a - za) * (b - zb) * multiplier / 2**shift) + zero_point, low, high).

    `multiplier` / 2**shift is the ratio s_a * s_b / s_y; the multiplier has at most 32 significant bits.
    """

    kind: ClassVar[str] = "multiply"

    name: str
    inputs: tuple[str, ...]
    output: str
    multiplier: int
    shift: int
    zero_point: int
    low: int
    high: int

    def exact(self, a: Planes, b: Planes) -> Planes:
        return a * b * self.multiplier

    def factors(self) -> tuple[int, ...]:
        return (self.multiplier,)

    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        products = [0, *(x * y * self.multiplier for x in a for y in b)]
        return min(products), max(products)

    def multiplications(self, graph: LayerGraph) -> int:
        return graph.tensors[self.output].frame.elements

    def shared_problem(self, graph: LayerGraph) -> str | None:
        for tensor in (graph.tensors[name] for name in self.inputs):
            if not tensor.format.low <= tensor.zero_point <= tensor.format.high:
                return (f"zero points of operands that a shared stage multiplies must be inside their format, not "
                        f"{tensor.zero_point} as that of '{tensor.name}' ({tensor.format})")
        multiplier, _ = self._ratio
        if not 0 <= multiplier < 1 << MULTIPLIER_BITS:
            return f"multipliers of a shared stage must be from 0 to {(1 << MULTIPLIER_BITS) - 1}, not {multiplier}"
        return zero_point_problem(self.zero_point)

    @property
    def _ratio(self) -> tuple[int, int]:
        """Multiplier and shift without twos that both have."""
        twos = (self.multiplier & -self.multiplier).bit_length() - 1
        spare = min(twos, self.shift) if self.multiplier else 0
        return self.multiplier >> spare, self.shift - spare

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        copies, operands = self.whole_operands(graph)
        y, (multiplier, shift) = graph.tensors[self.output], self._ratio
        channels = y.frame.channels
        rescale = Requantize(np.zeros(channels, np.int64), np.full(channels, multiplier, np.int64),
                             np.full(channels, shift, np.int64), self.zero_point, self.low, self.high)
        return (*copies, Sweep(layer=self.name, inputs=operands, output=y, rescale=rescale, product=True,
                               rows=Line(0, y.frame.height), columns=Line(0, y.frame.width)))

    def function(self, graph: LayerGraph) -> JoinFunction:
        from hwflow_rtl.join.multiply import MultiplyFunction

        from hwflow.layers.hardware import shape_of

        return MultiplyFunction(
            operands=self.operands(graph), zero_points=self.zero_points(graph), multiplier=self.multiplier,
            shift=self.shift, zero_point=self.zero_point, low=self.low, high=self.high,
            output=shape_of(graph.tensors[self.output].format))
