"""The file that places a top's ports on a board's pins, in the form that each family's place and route tool reads.

The oscillator's frequency is in it; what a PLL makes of it has the goal that place and route gets on its command line.
"""

from __future__ import annotations

from collections.abc import Callable

from .boards import Board, Pin

__all__ = ["constraints"]


def constraints(board: Board, *, leds: int) -> tuple[str, str]:
    """(suffix, text) for a top with the ports clk, rx, tx, rst where the board has a reset, and `leds` LEDs."""
    suffix, line, frequency = WRITERS[board.family]
    ports = {"clk": board.clock, "rx": board.rx, "tx": board.tx}
    if board.reset is not None:
        ports["rst"] = board.reset
    for k, pin in enumerate(board.leds[:leds]):
        ports[f"led[{k}]" if leds > 1 else "led"] = pin
    return suffix, "".join(line(port, pin) for port, pin in ports.items()) + frequency.format(board.clock_mhz)


def lpf(port: str, pin: Pin) -> str:
    """Lattice Diamond's logical preferences; PULLMODE as in FPGA-TN-02032."""
    pull = f" PULLMODE={pin.pull.upper()}" if pin.pull else ""
    return f'LOCATE COMP "{port}" SITE "{pin.name}";\nIOBUF PORT "{port}" IO_TYPE={pin.io_standard}{pull};\n'


def pcf(port: str, pin: Pin) -> str:
    """Physical constraints of iCE40.  The standard is that of the bank's supply; the pads pull up or not at all."""
    pull = "-pullup yes " if pin.pull == "up" else ""
    return f"set_io {pull}{port} {pin.name}\n"


def cst(port: str, pin: Pin) -> str:
    """Gowin's physical constraints."""
    pull = f" PULL_MODE={pin.pull.upper()}" if pin.pull else ""
    return f'IO_LOC "{port}" {pin.name};\nIO_PORT "{port}" IO_TYPE={pin.io_standard}{pull};\n'


#: Suffix, what places a pin, and what tells the clock's frequency: Gowin's constraint files cannot.
WRITERS: dict[str, tuple[str, Callable[[str, Pin], str], str]] = {
    "ecp5": ("lpf", lpf, 'FREQUENCY PORT "clk" {:g} MHZ;\n'), "ice40": ("pcf", pcf, "set_frequency clk {:g}\n"),
    "gowin": ("cst", cst, ""),
}
