"""`WeightStream`: what a memory outside of the FPGA gives one stage, again for each frame."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Shape

__all__ = ["WeightStream"]


@dataclass(frozen=True)
class WeightStream:
    """`beats` beats of `lanes` elements of `shape`, for each frame the same."""

    shape: Shape
    lanes: int
    beats: int

    def __post_init__(self):
        for name in ("lanes", "beats"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @property
    def width(self) -> int:
        """Bits of a beat."""
        return self.lanes * self.shape.width

    @property
    def bits(self) -> int:
        """Of a frame."""
        return self.beats * self.width
