"""Shapes: what the unit of a stage says of itself before it is built: `UnitShape`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

from amaranth.hdl import Shape
from amaranth.lib.wiring import Component, In, Out

from ..vendor.base import Resources, Technology
from .streams import stream_of
from .times import StageTimes, Times


@dataclass(frozen=True, kw_only=True, eq=False)
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


class ShapedUnit(Component):
    """A unit whose `shape` says its ports and all else.

    `technology` makes its memories and multipliers; the names of its ROMs begin with `name`.
    """

    def __init__(self, *, shape: Any, technology: Technology, name: str = ""):
        self.shape = shape
        self.technology = technology
        self.name = name
        super().__init__(shape.ports)


@dataclass(frozen=True, kw_only=True, eq=False)
class LanesShape(UnitShape):
    """A unit with one input, whose beats have `lanes` elements of format `element`, and one output."""

    lanes: int
    element: Shape

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.lanes,)

    @property
    def width(self) -> int:
        """Bits of a beat that comes."""
        return self.lanes * self.element.width

    @property
    def words_out(self) -> Any:
        """The signature of the output; as that of the input where nothing else is said."""
        return stream_of(self.element, self.lanes)

    @property
    def ports(self) -> dict[str, Any]:
        """The members of the unit's signature."""
        return {"i": In(stream_of(self.element, *self.lanes_in)), "o": Out(self.words_out), "busy": Out(1)}
