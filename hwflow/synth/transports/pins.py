"""A pin of an FPGA's package."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Pin"]


@dataclass(frozen=True)
class Pin:
    """A pin of the package: its name, its electrical standard, and `pull` (up, down, none) where that matters."""

    name: str
    io_standard: str
    pull: str | None = None
