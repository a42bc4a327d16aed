"""Types of a netlist in JSON, as yosys' `write_json` and nextpnr's `--write` give it."""

from __future__ import annotations

from typing import NotRequired, TypedDict

#: The number of a wire, or the constant "0", "1", "x" or "z".
Bit = int | str


class Cell(TypedDict):
    """One cell; numbers among its parameters and attributes are texts of bits."""

    hide_name: NotRequired[int]
    type: str
    parameters: dict[str, str]
    attributes: dict[str, str]
    port_directions: dict[str, str]
    connections: dict[str, list[Bit]]


class Port(TypedDict):
    """A port of a module; `direction` is input, output or inout."""

    direction: str
    bits: list[Bit]


class NetName(TypedDict):
    """A name of wires."""

    hide_name: int
    bits: list[Bit]
    attributes: dict[str, str]


#: The cells of a module, by name.
Cells = dict[str, Cell]


class Module(TypedDict):
    """A module of a netlist."""

    ports: dict[str, Port]
    cells: Cells
    netnames: dict[str, NetName]


class Netlist(TypedDict):
    """A netlist; designs here are flattened into the one module `top`."""

    modules: dict[str, Module]


def numbers_of(cell: Cell) -> dict[str, int]:
    """The parameters of a cell that are numbers."""
    return {name: int(value, 2) for name, value in cell["parameters"].items() if value and set(value) <= {"0", "1"}}
