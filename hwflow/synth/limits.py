"""Clocks that a device must not exceed, whatever the place and route tool reports.

nextpnr does not know the delay inside the multiplier blocks of iCE40 and Gowin and has placeholders for some of their
RAM paths: an unregistered MULT9X9 passes at 795 MHz.  The clock that hwflow reports is never above these limits.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LIMITS", "Limit", "binding_limit"]

#: Where a figure is attributed to a data sheet without its table at hand: to be checked before a design relies on it.
UNCHECKED = "as remembered from the data sheet, not checked against its table"
#: A path between two registers of the block is a part of the one through all of it.  A quarter is left for what the
#: tables of Project IceStorm, which are those of the vendor's tool, may not say.
MAC16 = ("Project IceStorm timings_up5k.txt, SB_MAC16: 8.4 ns the longest of the paths that were read through the "
         "unregistered 16 x 16 multiplier, 1.6 ns from clock to output; 12.5 ns allowed")
#: The slowest of 528 wires from an ALU54B was 3.7 ns, of 264 to its opcode 4.8 ns, in a device with little else.
ALU54B = ("hwflow's own cautious figure: nextpnr times neither an ALU54B nor the wires from and to it; of 10 ns 8 are "
          "left for such a wire")
OWN = "hwflow's own cautious figure: the tools have no timing of it and no figure of the vendor's could be verified"


@dataclass(frozen=True)
class Limit:
    """`mhz` holds for a design that uses `what`: "clock" (always), "dsp" or "ram" blocks, "spram", or the "alu" behind
    two multipliers.  `source` says where from."""

    what: str
    mhz: float
    source: str


LIMITS: dict[str, tuple[Limit, ...]] = {
    # Speed grade 6, the slowest: right for every board, cautious for faster ones.
    "ecp5": (
        Limit("clock", 257.0, f"Lattice FPGA-DS-02012, primary clock, speed grade 6; {UNCHECKED}"),
        Limit("alu", 100.0, ALU54B),
    ),
    "ice40": (
        Limit("clock", 185.0, f"Lattice FPGA-DS-02008, global buffer; {UNCHECKED}"),
        Limit("ram", 150.0, f"Lattice FPGA-DS-02008, 256 x 16 pseudo dual port RAM; {UNCHECKED}"),
        Limit("dsp", 80.0, MAC16),
        Limit("spram", 70.0, f"Lattice FPGA-DS-02008, 16384 x 16 single port RAM; {UNCHECKED}"),
    ),
    "gowin": (
        Limit("clock", 400.0, f"Gowin DS117, clock tree of GW1NR-9 C6/I5; {UNCHECKED}"),
        Limit("ram", 150.0, OWN),
        Limit("dsp", 150.0, OWN),
    ),
}


def binding_limit(family: str, *, dsp: int, ram: int, spram: int = 0, alu: int = 0) -> Limit:
    """The lowest limit for a design with that many blocks."""
    used = {"clock": 1, "dsp": dsp, "ram": ram, "spram": spram, "alu": alu}
    return min((limit for limit in LIMITS[family] if used[limit.what]), key=lambda limit: limit.mhz)
