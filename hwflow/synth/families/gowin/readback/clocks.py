"""PLLs, the ends of long wires, and what is set once for the whole chip.

Sources: Project Apicula (MIT): table PLL of the database and gowin_pack's `set_pll_attrs` (what a static PLL has
besides its dividers), tables CFG and GSR and gowin_pack's `gsr`, `alonenode_6` and gowin_pack's `isolate_segments`;
Gowin UG286.
The charge pump and the filter of a PLL (ICPSEL, LPR, FLDCOUNT) are analog: any of their values is taken.
"""

from __future__ import annotations

from collections.abc import Mapping

from .chip import as_spot, fuses, rows_of
from .settings import UNSET, Settings
from .tiles import Tile
from .tracing import Tracing

#: Attributes of a PLL without anything dynamic, whose feedback is inside.
STATIC: Mapping[str, str | int] = {
    "INSEL": "CLKIN1", "FBSEL": "CLKFB3", "PLOCK": "ENABLE", "FLOCK": "ENABLE", "FLTOP": "ENABLE", "GMCMODE": 15,
    "CLKOUTDIV3": "ENABLE", "CLKOUTDIV": "ENABLE", "CLKOUTPS": "ENABLE", "PDN": "ENABLE", "PASEL": 0,
    "IRSTEN": "DISABLE", "SRSTEN": "DISABLE", "PWDEN": "ENABLE", "RSTEN": "ENABLE", "GMCGAIN": 0, "SDIV": 2,
    "OSDLY": "DISABLE", "OPDLY": "DISABLE", "PHASE": 0, "DUTY": 8}
ANALOG: Mapping[str, tuple[str | int, ...]] = {
    "ICPSEL": tuple(range(10, 330, 10)), "LPR": tuple(f"R{k}" for k in range(1, 8)),
    "FLDCOUNT": tuple(range(16, 272, 16))}
MOST = 64
DIVIDERS: Mapping[str, tuple[int, ...]] = {"IDIV": tuple(range(1, MOST + 1)), "FDIV": tuple(range(1, MOST + 1)),
                                           "ODIV": (2, 4, 8, 16, 32, 48, 64, 80, 96, 112, 128)}
#: The first attributes by number, which have the value 0 in each PLL.
ZEROS = 16
#: Tiles beside the first, which go towards the middle of the chip.
MORE_TILES = 3
INPUTS: Mapping[str, int] = {"CLKIN": 0, "CLKFB": 0, "RESET": 0, "RESET_P": 0, "FBDSEL": 6, "IDSEL": 6, "ODSEL": 6,
                             "PSDA": 4, "DUTYDA": 4, "FDLY": 4}
OUTPUTS = ("CLKOUT", "CLKOUTP", "CLKOUTD", "CLKOUTD3", "LOCK")
#: Of every design: the global reset is used at the end of configuration, and no pin is another's.
CONFIGURATION = (("GSR", "USED"), ("GSR", "F0"), ("GOE", "F0"), ("GWD", "F0"), ("DONE", "F0"))


class Pll:
    """The rPLL whose first tile is `tile`."""

    def __init__(self, tracing: Tracing, tile: Tile):
        self.tracing, self.tile = tracing, tile
        self.ports = tile.data.bels["RPLLA"].portmap
        inward = 1 if tile.column < tracing.chip.db.cols // 2 else -1
        parts = [tracing.tiles[tile.row, tile.column + inward * k] for k in range(MORE_TILES + 1)]
        self.settings = Settings(tracing.chip, "PLL", "PLL", parts, tracing.fabric)
        self.made = False
        for name in OUTPUTS:
            tracing.makers[tracing.name(tile, self.ports[name])] = self.make

    def make(self) -> None:
        if self.made:
            return
        self.made = True
        dividers = {name: self.value(name, values) for name, values in DIVIDERS.items()}
        analog = {name: self.value(name, values) for name, values in ANALOG.items()}
        self.require({**STATIC, **{name: value for name, value in {**dividers, **analog}.items() if value != UNSET}})
        take, name = self.tracing.take, self.tracing.name
        wires = {port: name(self.tile, self.ports[port]) for port in OUTPUTS}
        self.tracing.met.update(wires.values())
        pins = {port: [take(self.tile, self.ports[f"{port}{k}" if width else port]) for k in range(width or 1)]
                for port, width in INPUTS.items()}
        less = {"IDIV": 1, "FDIV": 1, "ODIV": 0}
        parameters = {{"IDIV": "IDIV_SEL", "FDIV": "FBDIV_SEL", "ODIV": "ODIV_SEL"}[key]:
                      f"{int(value or 1) - less[key]:032b}" for key, value in dividers.items()}
        self.tracing.fabric.cell(f"{self.tile.where}/PLL", "rPLL", parameters,
                                 {**pins, **{port: [wire] for port, wire in wires.items()}}, OUTPUTS, self.tile.where)

    def value(self, name: str, values: tuple[str | int, ...]) -> str | int:
        """Of values without bits of their own the last one."""
        found = self.settings.of(name, values)
        if found != UNSET:
            return found
        return next((value for value in reversed(values) if not self.settings.pattern(name, value)), UNSET)

    def require(self, attributes: Mapping[str, str | int]) -> None:
        """All bits of the PLL must be those of `attributes`."""
        chip = self.tracing.chip
        codes = chip.attributes("PLL", attributes) | {
            code for k in range(ZEROS) if (code := chip.db.logicinfo["PLL"].get((k, 0)))}
        for tile in self.settings.parts:
            wanted = fuses(rows_of(chip.db.shortval.get(tile.kind, {}).get("PLL", {})), codes)
            tile.take(wanted)
            for spot in sorted(wanted - tile.bits):
                self.tracing.fabric.problem(tile.where, f"bit {spot} of the PLL must be set, as it is with dividers "
                                            + ", ".join(f"{name} {attributes.get(name)}" for name in DIVIDERS))


def read_configuration(tracing: Tracing) -> None:
    """The bits of tables CFG and GSR must be those of every design."""
    chip = tracing.chip
    wanted = {"CFG": frozenset(chip.attribute("CFG", name, value) for name, value in CONFIGURATION),
              "GSR": chip.attributes("GSR", {"GSRMODE": "ACTIVE_LOW"})}
    for tile in tracing.tiles.values():
        for name, codes in wanted.items():
            if table := chip.db.shortval.get(tile.kind, {}).get(name):
                bits = fuses(rows_of(table), codes)
                tile.take(bits)
                for spot in sorted(bits - tile.bits):
                    tracing.fabric.problem(tile.where, f"bit {spot} must be set: the chip's {name} is not what every "
                                                       "design has")
    for (row, column), functions in chip.db.extra_func.items():
        if "gsr" in functions:
            tracing.hold(tracing.tiles[row, column], functions["gsr"]["wire"], "1")


def read_constants(tracing: Tracing) -> None:
    """Bits that every bitstream has, by the kind of tile (`const` of the database)."""
    for tile in tracing.tiles.values():
        spots = frozenset(map(as_spot, tracing.chip.db.const.get(tile.kind, ())))
        for spot in sorted(spots - tile.take(spots)):
            tracing.fabric.problem(tile.where, f"bit {spot} must be set: every bitstream has it")


def read_isolated(tracing: Tracing) -> None:
    """Ends of long wires that are cut off.  The upper end of a column drives it by itself while nothing cuts it off, so
    it must be where the lower end drives the wire, and only there."""
    ends = {(segment["top_row"], column, segment["top_wire"]): (segment["bottom_row"], column, segment["bottom_wire"])
            for (_, column, _), segment in tracing.chip.db.segments.items()}
    for tile in tracing.tiles.values():
        for wire, entries in tile.data.alonenode_6.items():
            spots = frozenset(as_spot(spot) for _, bits in entries for spot in bits)
            if not spots or not spots <= tile.bits:
                continue
            tile.take(spots)
            if (tile.where, wire) in tracing.led_at:
                tracing.fabric.problem(tile.where, f"{wire} is cut off and driven")
    for (row, column, wire), (low_row, low_column, low_wire) in ends.items():
        top, bottom = tracing.tiles[row, column], tracing.tiles[low_row, low_column]
        if (bottom.where, low_wire) in tracing.led_at:
            spots = frozenset(as_spot(spot) for _, bits in top.data.alonenode_6.get(wire, ()) for spot in bits)
            if not spots <= top.bits:
                tracing.fabric.problem(top.where, f"{wire} must be cut off, because the other end drives it")
