"""What the names of a netlist's cells say: which part of the core a cell belongs to, and their order."""

from __future__ import annotations

import re

__all__ = ["module_of", "natural"]

#: Modules that are told apart in the core: a stage, its array, a bank of it.
DEPTH = 3


def module_of(cell: str) -> str:
    """The part of the core that a cell belongs to: the path of its modules, or what a cell of the core itself is called
    after; empty for what is around the core."""
    found = re.match(r"(?:.*\.)?core\.(.+)", cell)
    if not found:
        return ""
    *modules, name = found[1].split(".")
    return ".".join(modules[:DEPTH]) or re.split(r"_TRELLIS|_LUT4|_CCU2C|\[", name)[0]


def natural(name: str) -> list[tuple[int, str]]:
    """A key that sorts by the numbers in a name."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]
