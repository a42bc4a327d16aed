"""The Ethernet of a simulated board: a PHY at RGMII."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .base import Line

#: Cycles of the PHY's clock without any movement after which the board is taken to have said all.
QUIET = 400_000


@dataclass(frozen=True)
class RgmiiLine(Line):
    """`ratio` are the cycles of the PHY's clock, 125 MHz, in one of the board's."""

    ratio: float = 1.0

    header = Path(__file__).with_name("rgmii.h")
    inputs: ClassVar = {"udp_rxc": 1, "udp_rxd": 4, "udp_rx_ctl": 1}
    outputs: ClassVar = {"udp_txc": 1, "udp_txd": 4, "udp_tx_ctl": 1, "udp_reset_n": 1}

    def __post_init__(self) -> None:
        if not 0.01 <= self.ratio <= 100:
            raise ValueError(f"ratio must be from 0.01 to 100, not {self.ratio}")

    @property
    def argument(self) -> str:
        return repr(float(self.ratio))

    @property
    def byte_cycles(self) -> float:
        return 1 / self.ratio

    @property
    def quiet_cycles(self) -> int:
        return round(QUIET / self.ratio)
