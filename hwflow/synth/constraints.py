"""The file that places a top's ports on a board's pins, in the form that each family's place and route tool reads.

The oscillator's frequency is in it; what a PLL makes of it has the goal that place and route gets on its command line.
"""

from __future__ import annotations

from .boards import Board
from .families import FAMILIES

__all__ = ["constraints"]


def constraints(board: Board, *, leds: int) -> tuple[str, str]:
    """(suffix, text) for a top with the ports clk, rx, tx, rst where the board has a reset, and `leds` LEDs."""
    family = FAMILIES[board.family]
    ports = {"clk": board.clock, "rx": board.rx, "tx": board.tx}
    if board.reset is not None:
        ports["rst"] = board.reset
    for k, pin in enumerate(board.leds[:leds]):
        ports[f"led[{k}]" if leds > 1 else "led"] = pin
    lines = [family.pin_constraint(port, pin) for port, pin in ports.items()]
    return family.constraints_suffix, "".join([*lines, family.clock_constraint(board.clock_mhz)])
