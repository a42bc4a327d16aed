"""Tiles of logic: tables, adders, flip-flops, small memories and the multiplexers that join tables.

Sources: Project Apicula (MIT): tables CLS0 to CLS3 and LUT of the database, doc/alu.md (an adder's table of 16 bits:
the whole of it is the half sum, the lowest four bits what the carry becomes where the half sum is 0) and doc/muxes.md
(which outputs the multiplexers join); pins as its `fse_luts` numbers them.  A set bit of a table is a 0 in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .chip import Spot, as_spot
from .tiles import Tile
from .tracing import Pin, Tracing

#: Slices with flip-flops, and tables, of a tile.
SLICES, TABLES = 3, 8
LETTERS, ENTRIES, ONES = "ABCD", 16, 0xFFFF
#: What an entry of an adder gives as carry out where it lets the one pass that comes in.
CARRY = "carry"
#: Of the multiplexer that gives OFk: its kind, what it takes at 0 and at 1 of SELk.
JOINS = {**{k: ("MUX2_LUT5", f"F{k}", f"F{k + 1}") for k in (0, 2, 4, 6)},
         1: ("MUX2_LUT6", "OF2", "OF0"), 5: ("MUX2_LUT6", "OF6", "OF4"), 3: ("MUX2_LUT7", "OF5", "OF1"),
         7: ("MUX2_LUT8", "OF3", "OF3")}
#: The first input of OF7 is OF3 of the tile to the right.
ACROSS = 7
#: Settings of a slice, and the attributes of the row of its table that stands for each; "-": unless it has the value.
SETTINGS: Mapping[str, Sequence[tuple[str, str]]] = {
    "adders": (("MODE", "ALU"),), "asynchronous": (("SRMODE", "ASYNC"),), "no reset": (("-LSRONMUX", "LSRMUX"),),
    "falling": (("REGMODE", "FF"), ("CLKMUX_CLK", "INV")), "inverted": (("LSR_MUX_LSR", "INV"),),
    "0 to reset": (("REG0_REGSET", "RESET"),), "1 to reset": (("REG1_REGSET", "RESET"),)}
#: The slice whose clock and reset a small memory takes to write; where the bit is that makes the tile one.
WRITES, MEMORY = 2, "CLS3"
#: Suffix and pin of a flip-flop by (to 1, at once).
RESETS = {(False, False): ("R", "RESET"), (True, False): ("S", "SET"), (False, True): ("C", "CLEAR"),
          (True, True): ("P", "PRESET")}


class Logic:
    """The tiles of logic of a device, as their bits say it."""

    def __init__(self, tracing: Tracing):
        self.tracing = tracing
        self.slices: dict[str, list[frozenset[str]]] = {}
        self.tables: dict[str, list[int]] = {}
        self.memories: set[str] = set()
        #: Tables and carries that a cell was made of.
        self.used: set[tuple[str, int]] = set()
        self.spots: dict[int, list[dict[str, frozenset[Spot]]]] = {}
        tracing.logic = self.drive

    def read(self, tile: Tile) -> None:
        """The settings of a tile."""
        if not tile.bits:
            self.tables[tile.where], self.slices[tile.where] = [ONES] * TABLES, [frozenset()] * SLICES
            return
        self.tables[tile.where] = [
            ONES ^ sum(1 << entry for entry, spots in tile.data.bels[f"LUT{k}"].flags.items()
                       if tile.take(map(as_spot, spots)))
            for k in range(TABLES)]
        self.slices[tile.where] = [
            frozenset(name for name, spots in settings.items() if spots <= tile.bits and tile.take(spots))
            for settings in self.settings_of(tile)]
        db = self.tracing.chip.db
        memory = db.shortval[tile.kind].get(MEMORY, {}).get((db.logicinfo["SLICE"].get((0, 2), 2), 0))
        if memory and tile.take(map(as_spot, memory)):
            self.memories.add(tile.where)

    def settings_of(self, tile: Tile) -> list[dict[str, frozenset[Spot]]]:
        """For each slice the bits of each setting."""
        if tile.kind not in self.spots:
            chip = self.tracing.chip
            rows = {name: tuple(chip.attribute("SLICE", key.lstrip("-"), value) * (-1 if key[0] == "-" else 1)
                                for key, value in row) for name, row in SETTINGS.items()}
            tables = [{tuple(n for n in key if n): frozenset(map(as_spot, spots))
                       for key, spots in chip.db.shortval[tile.kind][f"CLS{k}"].items()} for k in range(SLICES)]
            self.spots[tile.kind] = [{name: table[row] for name, row in rows.items()} for table in tables]
        return self.spots[tile.kind]

    def drive(self, tile: Tile, wire: str) -> None:
        """The cell that drives a wire of a tile of logic, if one does; a carry is a wire of the cell that takes it."""
        kind, k = wire.rstrip("0123456789"), int(wire[-1]) if wire[-1].isdigit() else 0
        if kind == "CIN" and k == 0:
            tile, k = self.tracing.tiles.get((tile.row, tile.column - 1), tile), 2 * SLICES
        makers = {"F": self.make_output, "OF": self.make_join, "Q": self.make_flip_flop, "CIN": self.make_carry}
        if tile.where in self.tables and kind in makers and wire[:-1] == kind:
            makers[kind](tile, k - 1 if kind == "CIN" else k)

    def adds(self, tile: Tile, k: int) -> bool:
        return k < 2 * SLICES and "adders" in self.slices[tile.where][k // 2]

    def make_output(self, tile: Tile, k: int) -> None:
        """What drives Fk: a table, an adder, or a bit of a small memory."""
        self.used.add((tile.where, k))
        if tile.where in self.memories and k < len(LETTERS):
            self.make_memory(tile, k)
        elif self.adds(tile, k):
            table = self.tables[tile.where][k]
            self.half(tile, k, "SUM", [str(table >> entry & 1) for entry in range(ENTRIES)],
                      self.tracing.take(tile, f"CIN{k}"))
        else:
            table = self.tables[tile.where][k]
            pins = self.inputs(tile, k, [str(table >> entry & 1) for entry in range(ENTRIES)])
            self.tracing.fabric.cell(f"{tile.where}/LUT{k}", "LUT4", {"INIT": f"{table:016b}"}, {
                **{f"I{n}": [pins[letter]] for n, letter in enumerate(LETTERS)},
                "F": [self.tracing.name(tile, f"F{k}")]}, ["F"], tile.where)

    def met(self, tile: Tile, k: int) -> list[int]:
        """The entries of a table that can be met: half of them for each input that a level is led to."""
        levels = {letter: self.tracing.level(tile, f"{letter}{k}") for letter in LETTERS
                  if self.tracing.explicit(tile, f"{letter}{k}")}
        return [entry for entry in range(ENTRIES)
                if all(level is None or int(level) == entry >> n & 1
                       for n, letter in enumerate(LETTERS) if (level := levels.get(letter)) is not None)]

    def inputs(self, tile: Tile, k: int, outputs: Sequence[str]) -> dict[str, Pin]:
        """The inputs of a table with these outputs by its entries.  One that something is led to is taken, and one that
        the output depends on; what else the chip may have at it does not matter."""
        met = set(self.met(tile, k))
        return {letter: self.tracing.take(tile, f"{letter}{k}")
                if self.tracing.explicit(tile, f"{letter}{k}") or any(
                    outputs[entry] != outputs[entry ^ 1 << n] for entry in met if entry ^ 1 << n in met) else "0"
                for n, letter in enumerate(LETTERS)}

    def make_carry(self, tile: Tile, k: int) -> None:
        """The carry out of cell k, also of one whose slice does not add: the chain goes through all cells.

        The carry into it is taken where some entry of the table that can be met lets it pass.  Inputs at a level leave
        half of the entries: an adapter's third input is 1, and with that its table never lets the carry pass.
        """
        self.used.add((tile.where, k))
        table = self.tables[tile.where][k]
        outputs = [CARRY if table >> entry & 1 else str(table >> entry % 4 & 1) for entry in range(ENTRIES)]
        passes = any(outputs[entry] == CARRY for entry in self.met(tile, k))
        self.half(tile, k, "COUT", outputs, self.tracing.take(tile, f"CIN{k}") if passes else "0")

    def half(self, tile: Tile, k: int, output: str, outputs: Sequence[str], carry: Pin) -> None:
        """One of the two outputs of an adder's cell."""
        wire = self.tracing.name(tile, f"{'F' if output == 'SUM' else output}{k}")
        pins = {letter: [pin] for letter, pin in self.inputs(tile, k, outputs).items()}
        self.tracing.fabric.cell(f"{tile.where}/ALU{k}_{output}", f"ALU16_{output}", {
            "TABLE": f"{self.tables[tile.where][k]:016b}"}, {**pins, "CIN": [carry], output: [wire]}, [output],
            tile.where)

    def make_memory(self, tile: Tile, k: int) -> None:
        """A bit of each word of a small memory: the table that holds it, and what writes it."""
        settings = self.slices[tile.where][WRITES]
        if settings != {"inverted"}:
            self.tracing.fabric.problem(tile.where, "the small memory must be written at a rising clock while its pin "
                                                    f"is 1, and has the settings {sorted(settings)}")
        self.tracing.hold(tile, f"CE{WRITES}", "1")
        take = self.tracing.take
        self.tracing.fabric.cell(f"{tile.where}/RAM{k}", "RAM16SDP1", {
            "INIT_0": f"{self.tables[tile.where][k]:016b}"}, {
            "DI": [take(tile, f"{LETTERS[k]}5")], "WAD": [take(tile, f"{letter}4") for letter in LETTERS],
            "RAD": [take(tile, f"{letter}{k}") for letter in LETTERS], "WRE": [take(tile, f"LSR{WRITES}")],
            "CLK": [take(tile, f"CLK{WRITES}")], "DO": [self.tracing.name(tile, f"F{k}")]}, ["DO"], tile.where)

    def make_join(self, tile: Tile, k: int) -> None:
        kind, low, high = JOINS[k]
        self.tracing.fabric.cell(f"{tile.where}/MUX{k}", kind, {}, {
            "I0": [self.across(tile) if k == ACROSS else self.tracing.take(tile, low)],
            "I1": [self.tracing.take(tile, high)], "S0": [self.tracing.take(tile, f"SEL{k}")],
            "O": [self.tracing.name(tile, f"OF{k}")]}, ["O"], tile.where)

    def across(self, tile: Tile) -> Pin:
        """OF3 of the tile to the right."""
        neighbour = self.tracing.tiles.get((tile.row, tile.column + 1))
        if neighbour is None or neighbour.where not in self.tables:
            self.tracing.fabric.problem(tile.where, "MUX7 must have a tile of logic to its right")
            return "0"
        return self.tracing.take(neighbour, "OF3")

    def make_flip_flop(self, tile: Tile, k: int) -> None:
        """The flip-flop behind table k; its clock enable is 1 where nothing is led to it.

        At the start, and at the global reset, it has the value that its reset gives, with one or without.
        """
        settings, number = self.slices[tile.where][k // 2], k // 2
        one = f"{k % 2} to reset" not in settings
        kind = "DFFN" if "falling" in settings else "DFF"
        pins = {"CLK": [self.tracing.take(tile, f"CLK{number}")], "CE": [self.tracing.take(tile, f"CE{number}")],
                "D": [self.tracing.take(tile, f"F{k}")], "Q": [self.tracing.name(tile, f"Q{k}")]}
        if "no reset" not in settings:
            letter, pin = RESETS[one, "asynchronous" in settings]
            kind += letter
            pins[pin] = [self.tracing.take(tile, f"LSR{number}")]
            self.require_plain(tile, number, settings - {"adders"})
        self.tracing.fabric.cell(f"{tile.where}/DFF{k}", f"{kind}E", {"INIT": str(int(one))}, pins, ["Q"], tile.where)

    def require_plain(self, tile: Tile, number: int, settings: frozenset[str]) -> None:
        if "inverted" in settings:
            self.tracing.fabric.problem(tile.where, f"the reset of slice {number} is inverted, which no cell has")

    def read_unread(self) -> None:
        """The tables whose output nothing takes, and to which something is led: designs have such, from memories in
        tables of which a bit is never read.  A table that is set and to which nothing is led is a problem.

        Adders stand in pairs: of a pair in use one may be left over.
        """
        for where, tables in self.tables.items():
            for k, table in enumerate(tables):
                pair = {k, k ^ 1} if "adders" in self.settings_at(where, k) else {k}
                if any((where, n) in self.used for n in pair) or (where in self.memories and k < len(LETTERS)):
                    continue
                column, row = map(int, where[1:].split("Y"))
                tile = self.tracing.tiles[row, column]
                if any(self.tracing.explicit(tile, f"{letter}{k}") for letter in LETTERS):
                    self.make_output(tile, k)
                elif table != ONES:
                    self.tracing.fabric.problem(where, f"table {k} is set ({table:04x}), and nothing takes its output")

    def settings_at(self, where: str, k: int) -> frozenset[str]:
        return self.slices[where][k // 2] if k < 2 * SLICES else frozenset()
