"""Product of two tensors, element by element; the gate of a squeeze-and-excitation block."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from hwflow.layers.base import LayerGraph
from hwflow.layers.elementwise import Elementwise
from hwflow.layers.planes import Planes


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
