"""USB as the line of a simulated board, with a host that has configured it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from .base import Line

HOST = Path(__file__).parents[2] / "usb"
#: Cycles without data after which the board is taken to have said all: more than a host takes to configure a device.
QUIET = 2_000_000


@dataclass(frozen=True)
class UsbLine(Line):
    """Full speed on two pins.  A PLL is a wire in a simulation, so every clock is of 48 MHz."""

    header = Path(__file__).with_name("usb.h")
    parts: ClassVar = tuple(HOST / name for name in ("packets.h", "host.h", "session.h", "full_speed.h"))
    inputs: ClassVar = {"usb_d_p_i": 1, "usb_d_n_i": 1}
    outputs: ClassVar = {"usb_pullup": 1, "usb_d_p_o": 1, "usb_d_p_oe": 1, "usb_d_n_o": 1, "usb_d_n_oe": 1}

    @property
    def argument(self) -> str:
        return ""

    @property
    def byte_cycles(self) -> float:
        """The cycles of a byte, with 19 packets of 64 bytes in a millisecond."""
        return 48e3 / (19 * 64)

    @property
    def quiet_cycles(self) -> int:
        return QUIET


@dataclass(frozen=True)
class UlpiLine(Line):
    """High speed behind a PHY, whose clock is that of the board here."""

    header = Path(__file__).with_name("ulpi.h")
    parts: ClassVar = tuple(HOST / name for name in ("packets.h", "host.h", "session.h", "ulpi_phy.h"))
    inputs: ClassVar = {"usb_clk": 1, "usb_dir": 1, "usb_nxt": 1, "usb_data_i": 8}
    outputs: ClassVar = {"usb_stp": 1, "usb_rst": 1, "usb_data_o": 8, "usb_data_oe": 1}

    @property
    def argument(self) -> str:
        return ""

    @property
    def byte_cycles(self) -> float:
        """More than the two that the framing takes: a driver's time is counted in bytes, and a host takes 8 ms to
        configure a device at high speed."""
        return 12

    @property
    def quiet_cycles(self) -> int:
        return QUIET
