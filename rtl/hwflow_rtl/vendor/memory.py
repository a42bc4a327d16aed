"""Memories as units ask for them: what a unit says of a memory that it asks a `Technology` for, and the places that it
may be in.

Costs carry the memories that they are made of (`Resources.memories`), so whoever plans a design sees every memory with
its name, and may choose another place for it.  A memory has the same latency in every place: a choice changes what a
design takes, and not when anything happens.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass


class Place(enum.Enum):
    """Where a memory is."""

    #: RAM blocks.
    BLOCKS = "blocks"
    #: Lookup tables: a ROM of tables, or distributed RAM.
    TABLES = "tables"
    #: Large memories with a single port.
    SPRAM = "spram"


class MemoryKind(enum.Enum):
    """A ROM has a read port, a RAM a write port and a read port."""

    ROM = "rom"
    RAM = "ram"


class Holds(enum.Enum):
    """Says what is in a memory."""

    WEIGHTS = "weights"
    CONSTANTS = "constants"
    #: The rows of a frame that windows need.
    RING = "ring"
    #: Frames that are read again, or in another order.
    FRAMES = "frames"
    QUEUE = "queue"
    #: Partial results of a reduction.
    PARTIAL = "partial results"
    #: A function of its address, or an order of addresses.
    TABLE = "table"


@dataclass(frozen=True)
class Memory:
    """`depth` words of `width` bits.  `name` is unique in its stage; in a unit it may be shorter or empty.

    `fixed`: the only place for it, because its unit reads it in another number of cycles than a `Technology`'s memories
    take; None where it may be in each of the family's places.
    """

    name: str
    kind: MemoryKind
    holds: Holds
    width: int
    depth: int
    fixed: Place | None = None

    @property
    def bits(self) -> int:
        return self.width * self.depth

    @property
    def ports(self) -> int:
        return 1 if self.kind is MemoryKind.ROM else 2
