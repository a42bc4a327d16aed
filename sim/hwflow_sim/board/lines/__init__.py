"""The lines to the host that a simulated board may have: the model in C++ of each, and how fast it is."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

#: Where the headers in C++ are.
HERE = Path(__file__).parent


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
        """The argument that the model is made with; "" where it takes none."""
        return ""

    @property
    def byte_cycles(self) -> float:
        raise NotImplementedError

    @property
    def quiet_cycles(self) -> int:
        raise NotImplementedError


#: Bits of a byte on a serial line, with its start and its stop bit.
UART_BITS = 10
#: Bit times without any movement after which the board is taken to have said all: what a frame may take it.
QUIET_BITS = 20_000


@dataclass(frozen=True)
class UartLine(Line):
    """`bit_cycles` are clock cycles of one bit, at the rate of the other end: the board's clock by its baud rate."""

    bit_cycles: float

    header = HERE / "uart.h"
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
        return UART_BITS * self.bit_cycles

    @property
    def quiet_cycles(self) -> int:
        return round(QUIET_BITS * self.bit_cycles)


#: Bytes without anything but flags after which the board is taken to have said all: what a frame may take it.
QUIET_BYTES = 2000


@dataclass(frozen=True)
class SpiLine(Line):
    """`bit_cycles` are clock cycles of a bit.

    With `asks` the master clocks flags all the time and drops those that come, so that the bus looks like a line with
    bytes of its own both ways; without, it is as it is: each byte to the board brings one back.
    """

    bit_cycles: float
    asks: bool = True

    header = HERE / "spi.h"
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
        return 8 * self.bit_cycles

    @property
    def quiet_cycles(self) -> int:
        return round(QUIET_BYTES * self.byte_cycles)


HOST = HERE.parents[1] / "usb"
#: Cycles without data after which the board is taken to have said all: more than a host takes to configure a device.
USB_QUIET = 2_000_000


@dataclass(frozen=True)
class UsbLine(Line):
    """Full speed on two pins.  A PLL is a wire in a simulation, so every clock is of 48 MHz."""

    header = HERE / "usb.h"
    parts: ClassVar = tuple(HOST / name for name in ("packets.h", "host.h", "session.h", "full_speed.h"))
    inputs: ClassVar = {"usb_d_p_i": 1, "usb_d_n_i": 1}
    outputs: ClassVar = {"usb_pullup": 1, "usb_d_p_o": 1, "usb_d_p_oe": 1, "usb_d_n_o": 1, "usb_d_n_oe": 1}

    @property
    def byte_cycles(self) -> float:
        """The cycles of a byte, with 19 packets of 64 bytes in a millisecond."""
        return 48e3 / (19 * 64)

    @property
    def quiet_cycles(self) -> int:
        return USB_QUIET


@dataclass(frozen=True)
class UlpiLine(Line):
    """High speed behind a PHY, whose clock is that of the board here."""

    header = HERE / "ulpi.h"
    parts: ClassVar = tuple(HOST / name for name in ("packets.h", "host.h", "session.h", "ulpi_phy.h"))
    inputs: ClassVar = {"usb_clk": 1, "usb_dir": 1, "usb_nxt": 1, "usb_data_i": 8}
    outputs: ClassVar = {"usb_stp": 1, "usb_rst": 1, "usb_data_o": 8, "usb_data_oe": 1}

    @property
    def byte_cycles(self) -> float:
        """More than the two that the framing takes: a driver's time is counted in bytes, and a host takes 8 ms to
        configure a device at high speed."""
        return 12

    @property
    def quiet_cycles(self) -> int:
        return USB_QUIET


#: Cycles of the PHY's clock without any movement after which the board is taken to have said all.
RGMII_QUIET = 400_000


@dataclass(frozen=True)
class RgmiiLine(Line):
    """`ratio` are the cycles of the PHY's clock, 125 MHz, in one of the board's."""

    ratio: float = 1.0

    header = HERE / "rgmii.h"
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
        return round(RGMII_QUIET / self.ratio)
