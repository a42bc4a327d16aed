"""What the unit of a stage says of itself before it is built: `UnitShape`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

from amaranth.lib.wiring import Component

from ..vendor.base import Resources, Technology
from .times import StageTimes, Times


@dataclass(frozen=True, kw_only=True)
class UnitShape(ABC):
    """The sizes, formats and constants of a unit: a frozen object, from which all follows that is known of the unit.

    Where no such unit is possible, making the object raises ValueError.

    name
        What messages call the unit.  Shapes that differ in it alone are equal.
    """

    name: str = field(default="", compare=False, repr=False)

    def called(self, kind: str) -> str:
        """The unit in a message: `lookup 'table'`."""
        return f"{kind} '{self.name}'"

    @property
    @abstractmethod
    def lanes_in(self) -> tuple[int, ...]:
        """For each input, the elements of a beat."""

    @property
    @abstractmethod
    def cycles(self) -> int:
        """Cycles from frame to frame (initiation interval), if neither sources nor reader stall the unit."""

    @property
    def work(self) -> int:
        """Cycles of a frame in which it computes."""
        return self.cycles

    @property
    def multipliers(self) -> int:
        """Multiplications that it can do in one cycle."""
        return 0

    @abstractmethod
    def cost(self, technology: Technology) -> Resources:
        """DSP and RAM exact, LUT and FF estimated."""

    @abstractmethod
    def times(self, technology: Technology, *arrivals: Times, left: Times | None = None) -> StageTimes:
        """When beats are taken and results given, to the cycle.

        `arrivals` has, for each input, the cycles in which the beats of one or more whole frames arrive, at most one a
        cycle.  `left` has the cycles in which the reader takes the beats of the output; None: each at once.
        """

    @abstractmethod
    def build(self, technology: Technology, name: str) -> Component:
        """The unit, with the streams `i` (of several inputs `i0`, `i1`, ...) and `o` and the output `busy`.

        `name` begins the names of its ROMs.
        """
