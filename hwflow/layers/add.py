"""Sum or difference of two tensors with scales of their own, element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hwflow.layers.base import LayerGraph
from hwflow.layers.elementwise import Elementwise
from hwflow.layers.planes import Planes


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
