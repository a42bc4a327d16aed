"""The base of every line of a simulated board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar


@dataclass(frozen=True)
class Line:
    """A line to the host: its model in C++ and its speed.

    `byte_cycles` are cycles of the board's clock in which a byte passes, `quiet_cycles` those without any movement
    after which the board is taken to have said all.
    """

    #: The file with a class `Line`; that of a serial line says what it has.
    header: ClassVar[Path]
    #: Files that it includes.
    parts: ClassVar[tuple[Path, ...]] = ()
    #: The ports of the board's top that are its pins, with their widths; those that the board drives.
    inputs: ClassVar[dict[str, int]]
    outputs: ClassVar[dict[str, int]]
    #: Ports that the top may have besides, and the Verilog that they are connected to.
    tied: ClassVar[dict[str, str]] = {}

    @property
    def argument(self) -> str:
        """The argument that the model is made with."""
        raise NotImplementedError

    @property
    def byte_cycles(self) -> float:
        raise NotImplementedError

    @property
    def quiet_cycles(self) -> int:
        raise NotImplementedError
