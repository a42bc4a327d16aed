"""The line of a simulated board that is as the transport of a board file."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwflow_base.errors import HwflowError
from hwflow_rtl.io.transports.spi import CYCLES_A_BIT
from hwflow_sim.board import (
    Line,
    LinePort,
    NetworkPort,
    RgmiiLine,
    SimulatedBoard,
    SpiLine,
    UartLine,
    UlpiLine,
    UsbLine,
)

from ..synth import Board


def uart(board: Board) -> UartLine:
    return UartLine(board.clock_mhz * 1e6 / board.transport.entry["baud"])


def spi(board: Board) -> SpiLine:
    return SpiLine(CYCLES_A_BIT)


def rgmii(board: Board) -> RgmiiLine:
    clock = board.transport.clock
    assert clock is not None
    return RgmiiLine(clock[1] / board.clock_mhz)


def usb(board: Board) -> Line:
    return UlpiLine() if "clk" in board.transport.entry else UsbLine()


#: By the kind of the transport.
LINES: Mapping[str, Callable[[Board], Line]] = {"spi": spi, "uart": uart, "udp": rgmii, "usb": usb}


def line_of(board: Board) -> Line:
    """At the rate of the board file.  HwflowError for a kind of transport that is not simulated."""
    kind = board.transport.kind.name
    if kind not in LINES:
        raise HwflowError(f"transport must be one that can be simulated, {', '.join(LINES)}, not {kind}",
                          "choose one with --transport")
    return LINES[kind](board)


def port_of(simulated: SimulatedBoard, board: Board) -> LinePort | NetworkPort:
    """The port that a driver opens to reach a simulated board with the line of `line_of`."""
    if isinstance(simulated.line, RgmiiLine):
        options = board.transport.facts().options
        return NetworkPort(simulated, str(options["address"]), int(options["port"]))
    return LinePort(simulated)
