"""The simulated chip: an Amaranth component for the top of a simulation, and Verilog for a simulated board."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from amaranth.hdl import Instance, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.memory import SdramPart, sdram_pins
from hwflow_rtl.memory.sdram_part import address_lines

from ..board import BoardChip, chip_verilog

#: To be given to the simulator beside the design.
MODEL = Path(__file__).parent / "sdr_sdram.sv"
#: The pins that the controller drives, but for the data.
INPUTS = ("clk", "cke", "cs_n", "ras_n", "cas_n", "we_n", "ba", "a", "dqm")
#: Pins that a board may tie to a level.
TIED = {"cke": "1'b1", "cs_n": "1'b0"}
#: The counters of the model, in their order.
VIOLATIONS = (
    "command before the end of power-up", "access before the end of the power-up sequence", "t_rc", "t_ras",
    "t_ras_max", "t_rp", "t_rcd", "t_rrd", "t_rfc", "t_wr", "t_mrd", "more than 8 refreshes owed", "retention time",
    "access to a closed bank", "activate of an open bank", "refresh or mode with an open bank", "both sides drive data",
    "write without data", "mode register", "clock period", "address outside of the chip", "cke low",
    "command that the model does not know", "unused")


@dataclass(frozen=True)
class SdramLimits:
    """The model's parameters for a part: the data sheet's numbers as integers of ps, nothing rounded to clocks."""

    values: dict[str, int]

    @staticmethod
    def of(part: SdramPart) -> SdramLimits:
        timing = part.timing

        def ps(time: float) -> int:
            return round(time * 1000)

        other = 1 if timing.cas_latency == 2 else 10**9  # this clock was asked about at one CAS latency alone
        return SdramLimits({
            "CLOCK": round(part.period * 1000), "T_CK2": ps(timing.t_ck) if timing.cas_latency == 2 else other,
            "T_CK3": ps(timing.t_ck), "T_RC": ps(timing.t_rc), "T_RAS": ps(timing.t_ras),
            "T_RAS_MAX": ps(timing.t_ras_max), "T_RP": ps(timing.t_rp), "T_RCD": ps(timing.t_rcd),
            "T_RRD": ps(timing.t_rrd), "T_RFC": ps(timing.t_rfc), "T_WR": ps(timing.t_wr), "T_REFI": ps(timing.t_refi),
            "T_POWER_UP": ps(timing.power_up), "C_WR": timing.t_wr_clocks, "C_RRD": timing.t_rrd_clocks,
            "C_MRD": timing.t_mrd_clocks, "POWER_UP_REFRESHES": timing.power_up_refreshes})


def parameters_of(part: SdramPart) -> dict[str, int]:
    """All parameters of the model for a part."""
    sizes = {"BANK_BITS": part.banks, "ROW_BITS": part.rows, "COLUMN_BITS": part.columns}
    return {**{name: (count - 1).bit_length() for name, count in sizes.items()}, "WIDTH": part.width,
            "ADDRESS_BITS": address_lines(part), **SdramLimits.of(part).values}


class Sdram(wiring.Component):
    """The chip at the other end of `sdram_pins(part)`; simulators need `MODEL` beside the design.

    Attributes
    ----------
    pins
        Flipped: connects to those of a controller.
    counts : Out
        A number of 32 bits for each of `VIOLATIONS`.
    total, first_kind, first_cycle : Out
        All violations; the index and the cycle of the first.
    """

    def __init__(self, *, part: SdramPart):
        self.part = part
        super().__init__({
            "pins": In(sdram_pins(part)), "counts": Out(32 * len(VIOLATIONS)), "total": Out(32), "first_kind": Out(32),
            "first_cycle": Out(64)})

    def elaborate(self, platform):
        m = Module()
        pins = self.pins
        m.submodules.chip = Instance(
            "hwflow_sdr_sdram", **{f"p_{name}": value for name, value in parameters_of(self.part).items()},
            **{f"i_{name}": getattr(pins, name) for name in INPUTS},
            i_dq_in=pins.dq_o, i_dq_driven=pins.dq_oe, o_dq_out=pins.dq_i, o_counts=self.counts, o_total=self.total,
            o_first_kind=self.first_kind, o_first_cycle=self.first_cycle, o_cycle=Signal(64))
        return m


def board_chip(part: SdramPart, names: Collection[str]) -> BoardChip:
    """`part` at the pins `names` of a board's design, where `dq` is `memory_dq_i`, `memory_dq_o` and `memory_dq_oe`.

    The first violation of the data sheet ends the simulation.
    """
    tied = {**TIED, "dqm": f"{part.width // 8}'b0"}
    pins = {**{name: f"memory_{name}" if name in names else tied[name] for name in INPUTS},
            "dq_in": "memory_dq_o", "dq_driven": "memory_dq_oe", "dq_out": "memory_dq_i", "first_cycle": "chip_moment",
            "cycle": "chip_now"}
    return BoardChip("  wire [63:0] chip_now;\n" + chip_verilog(
        "hwflow_sdr_sdram", parameters_of(part), pins, title="memory chip, cycle %0d", violations=VIOLATIONS), MODEL)
