"""Multipliers, large memories and PLLs: cells that lie over several tiles.

Sources: Project IceStorm, docs/source/ultraplus.rst and the database's own `.extra_cell`; Lattice FPGA-TN-02007 (inputs
of a multiplier without a driver are 0, its clock enable 1) and FPGA-TN-02052 (PLL).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .database import ExtraCell, Tile
from .die import Die, TileBits
from .logic import CELLS, TABLE
from .pads import Pad

#: Each output of such a cell leaves its tile through a table that passes on its input 2, which has the cell's output.
PASSES = 0xF0F0
IP_TILES = ("dsp0", "dsp1", "dsp2", "dsp3", "ipcon")

#: PLLTYPE: the kind of PLL, whether its clock is that of a pad, and its outputs.
PLLS = {2: ("SB_PLL40_PAD", True, "A"), 4: ("SB_PLL40_2_PAD", True, "AB"), 6: ("SB_PLL40_2F_PAD", True, "AB"),
        3: ("SB_PLL40_CORE", False, "A"), 7: ("SB_PLL40_2F_CORE", False, "AB")}
#: Settings that every PLL of hwflow has: our model of it knows no others.
PLL_FIXED = {"FEEDBACK_PATH": 1, "DELAY_ADJMODE_FB": 0, "DELAY_ADJMODE_REL": 0, "FDA_FEEDBACK": 0, "FDA_RELATIVE": 0,
             "SHIFTREG_DIV_MODE": 0, "PLLOUT_SELECT_A": 0, "PLLOUT_SELECT_B": 0, "ENABLE_ICEGATE_PORTA": 0,
             "ENABLE_ICEGATE_PORTB": 0, "TEST_MODE": 0}
PLL_FREE = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
PLL_INPUTS = ("EXTFEEDBACK", "BYPASS", "LATCHINPUTVALUE", "SDI", "SCLK")
#: Modes of a multiplier that take something from the one below; and the values of its settings that mean so.
CASCADES = {"TOPADDSUB_CARRYSELECT": 2, "BOTADDSUB_CARRYSELECT": 2, "BOTADDSUB_LOWERINPUT": 3}
MAC_OUTPUTS, SPRAM_OUTPUTS = {"O": 32, "CO": 1}, {"DATAOUT": 16}


@dataclass(frozen=True)
class Block:
    """A cell of the database on its die; settings have names with `prefix` in their tiles."""

    die: Die
    cell: ExtraCell
    prefix: str

    @property
    def where(self) -> str:
        return f"{self.cell.kind} {','.join(map(str, self.cell.place))}"

    @property
    def name(self) -> str:
        return "_".join([self.cell.kind.lower(), *map(str, self.cell.place)])

    def entries(self, name: str) -> list[tuple[Tile, str]]:
        """Where the bits of a pin or setting are, from the lowest on."""
        entries, found = self.cell.entries, list[tuple[Tile, str]]()
        if name in entries:
            return [entries[name]]
        while f"{name}_{len(found)}" in entries:
            found.append(entries[f"{name}_{len(found)}"])
        return found

    def bits(self, name: str) -> list[tuple[TileBits, str]]:
        return [(self.die.tiles[place], self.prefix + bit) for place, bit in self.entries(name)]

    def has(self, name: str) -> int:
        return sum(tile.has(bit) << k for k, (tile, bit) in enumerate(self.bits(name)))

    def take(self, name: str) -> int:
        return sum(tile.take(bit) << k for k, (tile, bit) in enumerate(self.bits(name)))

    def wires(self, name: str) -> list[str]:
        return [self.die.wire(place, wire) for place, wire in self.entries(name)]

    def inputs(self, name: str, default: str | None) -> list[str]:
        """The wires of an input; `default`: its level without a driver."""
        wires = self.wires(name)
        if default is not None:
            self.die.defaults.update(dict.fromkeys(wires, default))
        return wires

    def outputs(self, name: str) -> list[str]:
        """The wires of an output of a cell in the tiles at the sides, which must lead out of them where it is taken."""
        wires = self.wires(name)
        for k, (wire, (place, local)) in enumerate(zip(wires, self.entries(name), strict=True)):
            if wire in self.die.taken and not passes(self.die.tiles[place], int(local.rsplit("_", 1)[1]) % CELLS):
                self.die.fabric.problem(self.where, f"{name} {k} is taken, and its tile does not pass it on")
        return wires

    def pin_names(self) -> list[str]:
        """The names of pins, without the numbers of their bits."""
        names = [name for name, entry in self.cell.entries.items() if entry in self.die.database.wires]
        return list(dict.fromkeys(base if base and number.isdigit() else name for name in names
                                  for base, _, number in [name.rpartition("_")]))

    def settings(self) -> list[str]:
        names = [name for name, entry in self.cell.entries.items() if entry not in self.die.database.wires]
        return list(dict.fromkeys(base if base and number.isdigit() else name for name in names
                                  for base, _, number in [name.rpartition("_")]))


def read_side_tiles(die: Die) -> None:
    """The tables of the tiles at the sides, which hold no logic: each passes on, or has no bits."""
    for tile in die.tiles.values():
        if tile.kind in IP_TILES:
            for number in range(CELLS):
                if passes(tile, number):
                    tile.take(f"LC_{number}")
                    tile.take(cascade(tile, number))


def cascade(tile: TileBits, number: int) -> str:
    """The setting that puts an output of the block at input 2 of a table."""
    return f"Cascade.{'IPCON' if tile.kind == 'ipcon' else f'MULT{tile.kind[-1]}'}_LC0{number}_inmux02_5"


def passes(tile: TileBits, number: int) -> bool:
    """Whether table `number` of a tile at the side passes on its input 2."""
    bits = sum((PASSES >> k & 1) << place for k, place in enumerate(TABLE))
    return tile.has(f"LC_{number}") == bits and bool(tile.has(cascade(tile, number)))


def read_blocks(die: Die) -> dict[Pad, str]:
    """All multipliers, memories and PLLs; the pads at which outputs of PLLs come out, as `read_pads` wants them."""
    read_side_tiles(die)
    pads: dict[Pad, str] = {}
    for cell in die.database.cells:
        if cell.kind == "MAC16":
            read_multiplier(Block(die, cell, "IpConfig."))
        elif cell.kind == "SPRAM":
            read_spram(Block(die, cell, "IpConfig."))
        elif cell.kind == "PLL":
            pads |= read_pll(Block(die, cell, "PLL."))
    return pads


def read_multiplier(block: Block) -> None:
    die = block.die
    inputs = [name for name in block.pin_names() if name not in MAC_OUTPUTS]
    driven = any(wire in die.driven for name in inputs for wire in block.wires(name))
    taken = any(wire in die.taken for name in MAC_OUTPUTS for wire in block.wires(name))
    if not (driven or taken or any(block.has(name) for name in block.settings())):
        return
    values = {name: block.take(name) for name in block.settings()}
    for name, value in CASCADES.items():
        if values[name] == value:
            die.fabric.problem(block.where, f"{name} {value} takes from the multiplier below, which has no model")
    clock = die.tiles[block.entries("CLK")[0][0]]
    parameters = {name: f"{value:0{len(block.entries(name))}b}" for name, value in values.items()}
    pins = {name: block.inputs(name, "1" if name == "CE" else "0") for name in inputs}
    pins |= {name: ["0"] for name in ("ACCUMCI", "SIGNEXTIN")} | {name: block.outputs(name) for name in MAC_OUTPUTS}
    die.fabric.cell(block.name, "SB_MAC16", {**parameters, "NEG_TRIGGER": str(clock.take("NegClk"))}, pins,
                    MAC_OUTPUTS, block.where)


def read_spram(block: Block) -> None:
    if block.take("SPRAM_EN"):
        pins = {name: block.inputs(name, None if name == "CLOCK" else "0") for name in block.pin_names()
                if name not in SPRAM_OUTPUTS}
        pins |= {name: block.outputs(name) for name in SPRAM_OUTPUTS}
        block.die.fabric.cell(block.name, "SB_SPRAM256KA", {}, pins, SPRAM_OUTPUTS, block.where)


def read_pll(block: Block) -> dict[Pad, str]:
    """A PLL that is on, with its dividers; the pads of its outputs, and the wires that go to the global ones."""
    die, number = block.die, block.take("PLLTYPE")
    if not number:
        return {}
    if number not in PLLS:
        die.fabric.problem(block.where, f"PLLTYPE must be one of {', '.join(map(str, PLLS))}, not {number}")
        return {}
    kind, at_pad, outputs = PLLS[number]
    for name, value in PLL_FIXED.items():
        if block.take(name) != value:
            die.fabric.problem(block.where, f"{name} must be {value}: other settings have no model")
    parameters = {name: f"{block.take(name):0{width}b}" for name, width in PLL_FREE.items()}
    pins: dict[str, list[str]] = {"RESETB": block.inputs("RESETB", None), "LOCK": block.wires("LOCK"),
                                  "DYNAMICDELAY": block.inputs("DYNAMICDELAY", "0")}
    pins |= {name: block.inputs(name, "0") for name in PLL_INPUTS}
    drives, pads = ["LOCK"], dict[Pad, str]()
    for output in outputs:
        pad, port = output_pad(block, output), output if len(outputs) > 1 else ""
        pads[pad] = f"X{pad[0][0]}/Y{pad[0][1]}/io_{pad[1]}/PLL"
        ends = {f"PLLOUTGLOBAL{port}": pads[pad], f"PLLOUTCORE{port}": die.wire(pad[0], f"io_{pad[1]}/D_IN_0")}
        pins |= {name: [wire] for name, wire in ends.items()}
        drives += ends
    (x, y), number = output_pad(block, "A")
    pins |= {"PACKAGEPIN": [f"X{x}/Y{y}/io_{number}/PAD"]} if at_pad else {
        "REFERENCECLK": block.inputs("REFERENCECLK", None)}
    die.fabric.cell(block.name, kind, {**parameters, **text_parameters(outputs)}, pins, drives, block.where)
    return pads


def output_pad(block: Block, output: str) -> Pad:
    """The pad whose place in the fabric an output of the PLL has."""
    place, number = block.cell.entries[f"PLLOUT_{output}"]
    return place, int(number)


def text_parameters(outputs: str) -> Mapping[str, str]:
    """Settings of which the reader knows one value only, as netlists have them."""
    ports = [""] if len(outputs) == 1 else [f"_PORT{output}" for output in outputs]
    return {"FEEDBACK_PATH": "SIMPLE", **{f"PLLOUT_SELECT{port}": "GENCLK" for port in ports}}
