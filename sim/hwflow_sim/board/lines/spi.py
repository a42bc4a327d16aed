"""An SPI bus of a simulated board, whose master is the other end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .base import Line

#: Bytes without anything but flags after which the board is taken to have said all: what a frame may take it.
QUIET_BYTES = 2000
BITS_OF_A_BYTE = 8


@dataclass(frozen=True)
class SpiLine(Line):
    """`bit_cycles` are clock cycles of a bit.

    With `asks` the master clocks flags all the time and drops those that come, so that the bus looks like a line with
    bytes of its own both ways; without, it is as it is: each byte to the board brings one back.
    """

    bit_cycles: float
    asks: bool = True

    header = Path(__file__).with_name("spi.h")
    inputs: ClassVar = {"spi_sck": 1, "spi_mosi": 1, "spi_cs_n": 1}
    outputs: ClassVar = {"spi_miso": 1}

    def __post_init__(self) -> None:
        if self.bit_cycles < 4:
            raise ValueError(f"bit_cycles must be at least 4, not {self.bit_cycles}")

    @property
    def argument(self) -> str:
        return f"{float(self.bit_cycles)!r} {int(self.asks)}"

    @property
    def byte_cycles(self) -> float:
        return BITS_OF_A_BYTE * self.bit_cycles

    @property
    def quiet_cycles(self) -> int:
        return round(QUIET_BYTES * self.byte_cycles)
