"""Words of `hwflow doctor` about a program or a package, of simulation and of synthesis alike."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ToolStatus:
    """One line of `hwflow doctor`.  `needed` says whether nothing can be simulated without it."""

    name: str
    purpose: str
    found: bool
    version: str
    origin: str
    path: str
    remedy: str
    needed: bool = False
