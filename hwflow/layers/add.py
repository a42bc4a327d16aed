"""Sum or difference of two tensors with scales of their own, element by element."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from hwflow.layers.base import LayerGraph
from hwflow.layers.elementwise import Elementwise
from hwflow.layers.formats import Tensor
from hwflow.layers.planes import Planes
from hwflow.layers.rescale import Requantize
from hwflow.layers.sweep import Line, Sweep, zero_point_problem

if TYPE_CHECKING:
    from hwflow_rtl.join.join import JoinFunction


@dataclass(frozen=True, eq=False)
class Add(Elementwise):
    """y = clamp(round_half_even((m0 * (a - za) + m1 * (b - zb)) / 2**shift) + zero_point, low, high).

    m0 and m1 are `multipliers`: the ratios s_a / s_y and s_b / s_y over the common denominator 2**shift, so that there
    is one rounding.  Each has at most 32 significant bits; a negative one subtracts.
    """

    kind: ClassVar[str] = "add"

    name: str
    inputs: tuple[str, ...]
    output: str
    multipliers: tuple[int, int]
    shift: int
    zero_point: int
    low: int
    high: int

    def exact(self, a: Planes, b: Planes) -> Planes:
        exact: Planes = self.multipliers[0] * a + self.multipliers[1] * b
        return exact

    def factors(self) -> tuple[int, ...]:
        return self.multipliers

    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        products = [[m * end for end in ends] for m, ends in zip(self.multipliers, (a, b), strict=True)]
        return sum(min(*ends, 0) for ends in products), sum(max(*ends, 0) for ends in products)

    def multiplications(self, graph: LayerGraph) -> int:
        return 0

    def function(self, graph: LayerGraph) -> JoinFunction:
        from hwflow_rtl.join.add import AddFunction

        from hwflow.layers.hardware import shape_of

        return AddFunction.of(
            operands=self.operands(graph), zero_points=self.zero_points(graph), multipliers=self.multipliers,
            shift=self.shift, zero_point=self.zero_point, low=self.low, high=self.high,
            output=shape_of(graph.tensors[self.output].format))

    def shared_problem(self, graph: LayerGraph) -> str | None:
        return zero_point_problem(self.zero_point)

    def sweeps(self, graph: LayerGraph) -> tuple[Sweep, ...]:
        copies, (a, b) = self.whole_operands(graph)
        return (*copies, self._sum(a, b, graph.tensors[self.output]))

    def _sum(self, a: Tensor, b: Tensor, y: Tensor) -> Sweep:
        """What divides both multipliers multiplies their sum."""
        common = math.gcd(*self.multipliers) or 1
        twos = (common & -common).bit_length() - 1
        spare = min(twos, self.shift)
        m0, m1 = ((m // common) << (twos - spare) for m in self.multipliers)
        channels = y.frame.channels
        rescale = Requantize(
            bias=np.full(channels, -(m0 * a.zero_point + m1 * b.zero_point), np.int64),
            multiplier=np.full(channels, common >> twos, np.int64),
            shift=np.full(channels, self.shift - spare, np.int64), zero_point=self.zero_point, low=self.low,
            high=self.high)
        return Sweep(layer=self.name, inputs=(a, b), output=y, rescale=rescale, rows=Line(0, y.frame.height),
                     columns=Line(0, y.frame.width), multipliers=(m0, m1))
