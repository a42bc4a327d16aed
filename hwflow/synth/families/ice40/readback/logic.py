"""The eight logic cells of each logic tile: a table, a carry and a flip-flop in each.

Sources: Project IceStorm, docs/source/logic_tile.rst (bits); Lattice FPGA-DS-02008 (what an input without a driver
is: 0, and 1 for the enable, as the kinds of flip-flops without these pins say).
"""

from __future__ import annotations

from .die import Die, TileBits

CELLS, INPUTS = 8, 4
#: Which of a cell's 20 bits holds each bit of the table, and the other four.  What is read back must not share a
#: mistake with what wrote it, so `family.TABLE_BITS`, with which new weights are written, is not used.
TABLE = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
CARRY, REGISTER, SET, AT_ONCE = 8, 9, 18, 19
#: The table whose output is its last input.
PASSES = 0xFF00


def read_logic(die: Die) -> None:
    """The cells of all logic tiles."""
    for tile in die.tiles.values():
        if tile.kind == "logic":
            read_tile(die, tile)


def read_tile(die: Die, tile: TileBits) -> None:
    cells = [LogicCell(die, tile, k) for k in range(CELLS)]
    for cell, following in zip(cells, [*cells[1:], None], strict=True):
        cell.read()
        if cell.carries and not (following and following.carries):
            cell.require_carry_taken()
    start, set_ = die.wire(tile.place, "carry_in_mux"), tile.take("CarryInSet")
    die.defaults[start] = str(set_)
    if set_ and start in die.driven:
        die.fabric.problem(tile.where, "CarryInSet and a switch both set the first carry")
    if set_ and not cells[0].carries and start not in die.taken:
        die.fabric.problem(tile.where, "CarryInSet sets a carry that nothing takes")
    if tile.has("NegClk") and any(cell.registered for cell in cells):
        tile.take("NegClk")


class LogicCell:
    """Cell `number` of `tile`; its names are those of the database without the tile."""

    def __init__(self, die: Die, tile: TileBits, number: int):
        self.die, self.tile, self.number = die, tile, number
        bits = tile.take(f"LC_{number}")
        self.table = sum((bits >> place & 1) << k for k, place in enumerate(TABLE))
        self.carries, self.registered, self.sets, self.at_once = (
            bool(bits >> place & 1) for place in (CARRY, REGISTER, SET, AT_ONCE))
        self.where = f"{tile.where} LC_{number}"
        self.out, self.carry = self.wire("out"), self.wire("cout")
        # The last one has no wire to a next cell.
        self.tabled = self.wire("lout") if number < CELLS - 1 else f"{self.out}_lut"
        self.inputs = [self.wire(f"in_{k}") for k in range(INPUTS)]

    def wire(self, name: str) -> str:
        return self.die.wire(self.tile.place, f"lutff_{self.number}/{name}")

    def name(self, kind: str) -> str:
        x, y = self.tile.place
        return f"{kind}_{x}_{y}_{self.number}"

    def read(self) -> None:
        fabric, taken = self.die.fabric, self.die.taken
        self.die.defaults.update(dict.fromkeys(self.inputs, "0"))
        if self.carries:
            before = f"lutff_{self.number - 1}/cout" if self.number else "carry_in_mux"
            fabric.cell(self.name("carry"), "SB_CARRY", {}, {
                "I0": [self.inputs[1]], "I1": [self.inputs[2]], "CI": [self.die.wire(self.tile.place, before)],
                "CO": [self.carry]}, ["CO"], self.where)
        if self.out in taken or self.tabled in taken:
            pins = {f"I{k}": [wire] for k, wire in enumerate(self.inputs)}
            fabric.cell(self.name("table"), "SB_LUT4", {"LUT_INIT": f"{self.table:016b}"},
                        {**pins, "O": [self.tabled]}, ["O"], self.where)
            if not self.registered and self.out in taken:
                fabric.switch(self.tabled, self.out, self.where)
        elif self.table:
            fabric.problem(self.where, f"has a table {self.table:04X}, and nothing takes its output")
        self.read_register()

    def require_carry_taken(self) -> None:
        """A carry that no cell takes is that of the cell with which nextpnr ends a chain whose carry leaves it: its
        table passes on the carry that comes, and it has no operands."""
        ends = self.table == PASSES and not any(wire in self.die.driven for wire in self.inputs[1:3])
        if self.carry not in self.die.taken and not ends:
            self.die.fabric.problem(self.where, "has a carry, and nothing takes it")

    def read_register(self) -> None:
        """The flip-flop, of the kind that its modes and the wires of its tile say."""
        fabric = self.die.fabric
        clock, enable, reset = (self.die.wire(self.tile.place, f"lutff_global/{name}")
                                for name in ("clk", "cen", "s_r"))
        has_reset = reset in self.die.driven
        if (self.sets or self.at_once) and not (self.registered and has_reset):
            fabric.problem(self.where, "has a mode of set and reset, and no flip-flop with one")
        if not self.registered:
            return
        if self.out not in self.die.taken:
            fabric.problem(self.where, "has a flip-flop, and nothing takes its output")
            return
        kind, pins = "SB_DFF" + "N" * self.tile.has("NegClk"), {"C": [clock], "D": [self.tabled], "Q": [self.out]}
        if enable in self.die.driven:
            kind, pins = kind + "E", {**pins, "E": [enable]}
        if has_reset:
            letter = "RS"[self.sets]
            kind, pins = kind + ("" if self.at_once else "S") + letter, {**pins, letter: [reset]}
        fabric.cell(self.name("register"), kind, {}, pins, ["Q"], self.where)
