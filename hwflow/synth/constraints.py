"""The file that places a top's ports on a board's pins, in the form that each family's place and route tool reads.

The frequencies of the oscillator and of a transport's clock are in it; what a PLL makes of the oscillator has the goal
that place and route gets on its command line.
"""

from __future__ import annotations

from .board_memories import BoardMemory
from .boards import Board, Pin
from .families import FAMILIES

__all__ = ["constraints"]


def constraints(board: Board, *, leds: int, memory: BoardMemory | None = None) -> tuple[str, str]:
    """(suffix, text) for a top with the ports clk, those of the board's transport, rst where the board has a reset,
    `leds` LEDs, and those of `memory`."""
    family = FAMILIES[board.family]
    ports = {"clk": board.clock, **dict(board.transport.ports())}
    if board.reset is not None:
        ports["rst"] = board.reset
    for k, pin in enumerate(board.leds[:leds]):
        ports[f"led[{k}]" if leds > 1 else "led"] = pin
    ports |= {} if memory is None else memory_ports(memory)
    lines = [family.pin_constraint(port, pin) for port, pin in ports.items()]
    clocks = {"clk": board.clock_mhz, **dict([board.transport.port_clock] if board.transport.port_clock else [])}
    return family.constraints_suffix, "".join([*lines, *(family.clock_constraint(port, mhz)
                                                        for port, mhz in clocks.items())])


def memory_ports(memory: BoardMemory) -> dict[str, Pin]:
    """The ports of a memory, with the names of the board file behind `memory_`."""
    return {f"memory_{name}[{k}]" if len(pins) > 1 else f"memory_{name}": Pin(pin, memory.io_standard)
            for name, pins in memory.pins.items() for k, pin in enumerate(pins)}
