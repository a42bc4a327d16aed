"""A serial line of a simulated board."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .base import Line

#: Bit times without any movement after which the board is taken to have said all: what a frame may take it.
QUIET_BITS = 20_000
BITS_OF_A_BYTE = 10


@dataclass(frozen=True)
class UartLine(Line):
    """`bit_cycles` are clock cycles of one bit, at the rate of the other end: the board's clock by its baud rate."""

    bit_cycles: float

    header = Path(__file__).with_name("uart.h")
    inputs: ClassVar = {"rx": 1}
    outputs: ClassVar = {"tx": 1}
    tied: ClassVar = {"rts_n": "1'b0", "cts_n": ""}

    def __post_init__(self) -> None:
        if self.bit_cycles < 4:
            raise ValueError(f"bit_cycles must be at least 4, not {self.bit_cycles}")

    @property
    def argument(self) -> str:
        return repr(float(self.bit_cycles))

    @property
    def byte_cycles(self) -> float:
        return BITS_OF_A_BYTE * self.bit_cycles

    @property
    def quiet_cycles(self) -> int:
        return round(QUIET_BITS * self.bit_cycles)
