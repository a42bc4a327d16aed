"""What units have in common that look at the channels of each pixel, some of them in a beat."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass

from amaranth.hdl import Shape

from ..pool.results import Results
from ..stream.queue import Queue
from ..stream.unit import UnitShape
from ..vendor.base import Technology


@dataclass(frozen=True, kw_only=True)
class PixelsShape(UnitShape):
    """Frames of `pixels` pixels of `channels` channels, `lanes` of them in a beat; `output` is what leaves."""

    pixels: int
    channels: int
    lanes: int
    output: Shape

    @property
    def beats(self) -> int:
        """Of a pixel."""
        return self.channels // self.lanes

    @property
    def lanes_in(self) -> tuple[int, ...]:
        return (self.lanes,)

    @property
    def cycles(self) -> int:
        return self.pixels * self.beats

    @abstractmethod
    def results(self, technology: Technology) -> Results:
        """The queue after the datapath."""

    def latency(self, technology: Technology) -> int:
        """Cycles from the beat that completes a result to the result at the output."""
        results = self.results(technology)
        return results.latency + Queue.latency_of(results.depth)
