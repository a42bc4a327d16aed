"""What the layers that join two tensors element by element share: which frames fit, and the one rounding at the end."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import Refusal
from hwflow_rtl.stream.times import StageTimes, Times

from hwflow.layers.base import Folding, HardwareLayer, LayerGraph, Schedule, divisors
from hwflow.layers.formats import Frame, IntFormat, Tensor
from hwflow.layers.matrix import require
from hwflow.layers.planes import Planes, compact
from hwflow.layers.rescale import MAX_SHIFT, MULTIPLIER_BITS, shift_right
from hwflow.layers.sweep import Sweep, copied

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component
    from hwflow_rtl.join.join import JoinFunction, JoinShape
    from hwflow_rtl.multiply.products import Operand
    from hwflow_rtl.vendor import Resources, Technology

#: Every exact result stays inside int64 with the rounding's carry.
_BITS = 63

#: Integers below are exact in float64.
_EXACT = 1 << 53

#: Elements that are joined at once.
_BLOCK = 1 << 17


def significant_bits(multiplier: int) -> int:
    """Bits of the odd part of |multiplier|: those that a multiplier in hardware must have."""
    magnitude = abs(multiplier)
    return (magnitude >> ((magnitude & -magnitude).bit_length() - 1)).bit_length() if magnitude else 0


class Elementwise(HardwareLayer):
    """y = clamp(round_half_even(exact(a - za, b - zb) / 2**shift) + zero_point, low, high), element by element.

    za and zb are the zero points of the inputs' tensors.  The operands' frames are equal, or one of them is 1x1xC or
    1x1x1 and counts for all the elements of the other (of all pixels, of all channels).
    """

    shift: int
    zero_point: int
    low: int
    high: int

    @abstractmethod
    def exact(self, a: Planes, b: Planes) -> Planes:
        """The result in units of 2**-shift, of operands whose zero points are subtracted."""

    @abstractmethod
    def factors(self) -> tuple[int, ...]:
        """The constants that multiply the operands."""

    @abstractmethod
    def exact_ends(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        """The lowest and the highest integer of `exact` and its partial sums, of operands between these ends."""

    @abstractmethod
    def function(self, graph: LayerGraph) -> JoinFunction:
        """What the stage computes in each lane."""

    def exact_format(self, graph: LayerGraph) -> IntFormat:
        """The narrowest format of everything that comes before the division by 2**shift."""
        return IntFormat.covering(*self.exact_ends(*(_ends(graph, name) for name in self.inputs)))

    def output_frame(self, *inputs: Frame) -> Frame:
        a, b = inputs
        for whole, part in ((a, b), (b, a)):
            if part == whole or part in (Frame(1, 1, whole.channels), Frame(1, 1, 1)):
                return whole
        raise ValueError(
            f"layer '{self.name}': the inputs must have equal frames, or one of them 1x1x1 or 1x1 pixels of the "
            f"other's channels, not {a} and {b}"
        )

    def check(self, graph: LayerGraph) -> None:
        super().check(graph)
        if not 0 <= self.shift <= MAX_SHIFT:
            raise ValueError(f"layer '{self.name}': the shift must be from 0 to {MAX_SHIFT}, not {self.shift}")
        for factor in self.factors():
            if significant_bits(factor) > MULTIPLIER_BITS:
                raise ValueError(
                    f"layer '{self.name}': multipliers must have at most {MULTIPLIER_BITS} significant bits, not "
                    f"{significant_bits(factor)} ({factor})"
                )
        exact = self.exact_format(graph)
        if exact.bits > _BITS or abs(self.zero_point) >= 1 << 31:
            raise Refusal(
                f"layer '{self.name}': the exact result must fit {_BITS} bits, and the zero point 32, not {exact} and "
                f"{self.zero_point}", "use smaller multipliers and a smaller shift"
            )
        if self.low > self.high:
            raise ValueError(f"layer '{self.name}': low must not be above high, not {self.low} and {self.high}")
        ends, format = np.array([self.low, self.high], np.int64), graph.tensors[self.output].format
        require(f"layer '{self.name}': low and high", ends, format)
        if format.bipolar:
            raise ValueError(f"layer '{self.name}': a bipolar output has no 0 between -1 and +1")

    def compute(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        a, b = inputs
        shape = np.broadcast_shapes(a.shape, b.shape)
        made = np.empty(shape, compact(graph.tensors[self.output].format))
        step = max(1, _BLOCK // max(math.prod(shape[1:]), 1))  # channels: their float64 fit the cache
        for first in range(0, shape[0], step):
            parts = (x if len(x) < shape[0] else x[first : first + step] for x in inputs)
            made[first : first + step] = self._elements(graph, *parts)
        return made

    def _elements(self, graph: LayerGraph, *inputs: Planes) -> Planes:
        exact = self.exact_format(graph)
        in_floats = 2 * max(-exact.low, exact.high) < _EXACT  # then each operation below is exact in float64
        kind: npt.DTypeLike = np.float64 if in_floats else np.int64
        a, b = (_centred(values, graph.tensors[n], kind) for n, values in zip(self.inputs, inputs, strict=True))
        values = self.exact(a, b)
        require(f"layer '{self.name}': exact result", values, exact)
        if in_floats:
            values *= np.ldexp(1.0, -self.shift)
            np.rint(values, out=values)
        else:
            values = shift_right(values, np.asarray(self.shift, np.int64))
        np.clip(values, self.low - self.zero_point, self.high - self.zero_point, out=values)
        values += self.zero_point
        return values

    def foldings(self, graph: LayerGraph) -> Iterator[Folding]:
        """Any divisor of the channels goes through at once."""
        return (Folding(1, lanes, lanes) for lanes in divisors(graph.tensors[self.output].frame.channels))

    def schedule(self, graph: LayerGraph, folding: Folding) -> Schedule:
        shape = self._shape(graph, folding)
        multipliers = folding.lanes if self.multiplications(graph) else 0
        return Schedule(work=shape.beats, interval=shape.beats, multipliers=multipliers, lanes_in=shape.lanes_in)

    def cost(self, graph: LayerGraph, folding: Folding, technology: Technology) -> Resources:
        from hwflow_rtl.join.join import JoinStage

        return JoinStage.cost(**self._arguments(graph, folding, technology))

    def unit(self, graph: LayerGraph, folding: Folding, technology: Technology, name: str) -> Component:
        from hwflow_rtl.join.join import JoinStage

        return JoinStage(**self._arguments(graph, folding, technology))

    def times(self, graph: LayerGraph, folding: Folding, technology: Technology, *arrivals: Times,
              left: Times | None = None) -> StageTimes:
        from hwflow_rtl.join.join import JoinStage

        return JoinStage.times(*arrivals, **self._arguments(graph, folding, technology), left=left)

    def _arguments(self, graph: LayerGraph, folding: Folding, technology: Technology) -> dict[str, Any]:
        return {
            "shape": self._shape(graph, folding), "function": self.function(graph), "technology": technology}

    def _shape(self, graph: LayerGraph, folding: Folding) -> JoinShape:
        """An operand of one element has one lane; of others as many go in as come out."""
        from hwflow_rtl.join.join import JoinShape

        a, b = (graph.tensors[name].frame.elements for name in self.inputs)
        lanes = folding.lanes
        lanes_in = (1 if a == 1 else lanes, 1 if b == 1 else lanes)
        return JoinShape(beats=max(a, b) // lanes, lanes=lanes, words=(a // lanes_in[0], b // lanes_in[1]),
                         lanes_in=lanes_in)

    def whole_operands(self, graph: LayerGraph) -> tuple[list[Sweep], tuple[Tensor, Tensor]]:
        """For a shared stage, operands of the output's frame, and the sweeps that repeat one that has a smaller one."""
        y, copies, found = graph.tensors[self.output], [], []
        for x in (graph.tensors[name] for name in self.inputs):
            if x.frame != y.frame:
                whole = replace(x, name=f"{self.name}/{x.name}", frame=y.frame)
                copies.append(copied(self.name, x, whole, stretch=True))
                x = whole
            found.append(x)
        return copies, (found[0], found[1])

    def operands(self, graph: LayerGraph) -> tuple[Operand, Operand]:
        """What the bits of the inputs' elements mean."""
        from hwflow_rtl.multiply.products import Operand

        from hwflow.layers.hardware import shape_of

        a, b = (graph.tensors[name].format for name in self.inputs)
        return Operand(shape_of(a), a.bipolar), Operand(shape_of(b), b.bipolar)

    def zero_points(self, graph: LayerGraph) -> tuple[int, int]:
        """Of the inputs."""
        a, b = (graph.tensors[name].zero_point for name in self.inputs)
        return a, b


def _centred(planes: Planes, tensor: Tensor, kind: npt.DTypeLike) -> Planes:
    """The integers without their zero point."""
    return np.subtract(planes, tensor.zero_point, dtype=kind)


def _ends(graph: LayerGraph, name: str) -> tuple[int, int]:
    """The lowest and the highest integer of a tensor without its zero point."""
    tensor = graph.tensors[name]
    return tensor.format.low - tensor.zero_point, tensor.format.high - tensor.zero_point
