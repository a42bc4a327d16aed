"""The ports of a top, and the pins of the board that they are placed on."""

from __future__ import annotations

from .board_memories import BoardMemory
from .boards import Board
from .families import FAMILIES
from .transports import Pin


def ports_of(board: Board, *, leds: int, memory: BoardMemory | None = None) -> dict[str, Pin]:
    """The pin of each bit of a top's ports: clk, those of the board's transport, rst where the board has a reset,
    `leds` LEDs, and those of `memory`.  Bits of a port of several are "led[0]", "led[1]" and so on."""
    ports = {"clk": board.clock, **dict(board.transport.ports())}
    if board.reset is not None:
        ports["rst"] = board.reset
    for k, pin in enumerate(board.leds[:leds]):
        ports[f"led[{k}]" if leds > 1 else "led"] = pin
    return ports | ({} if memory is None else memory_ports(memory))


def memory_ports(memory: BoardMemory) -> dict[str, Pin]:
    """The ports of a memory, with the names of the board file behind `memory_`."""
    return {f"memory_{name}[{k}]" if len(pins) > 1 else f"memory_{name}": Pin(pin, memory.io_standard)
            for name, pins in memory.pins.items() for k, pin in enumerate(pins)}


def constraints(board: Board, *, leds: int, memory: BoardMemory | None = None) -> tuple[str, str]:
    """(suffix, text) of the file that places the ports of `ports_of`, as the family's place and route tool reads it.

    The frequencies of the oscillator and of a transport's clock are in it; what a PLL makes of the oscillator has the
    goal that place and route gets on its command line.
    """
    family = FAMILIES[board.family]
    lines = [family.pin_constraint(port, pin) for port, pin in ports_of(board, leds=leds, memory=memory).items()]
    clocks = {"clk": board.clock_mhz, **dict([board.transport.port_clock] if board.transport.port_clock else [])}
    return family.constraints_suffix, "".join([*lines, *(family.clock_constraint(port, mhz)
                                                        for port, mhz in clocks.items())])
