"""The pins of an SDR SDRAM, as the FPGA sees them."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from .sdram_part import SdramPart

__all__ = ["address_lines", "sdram_pins"]


def address_lines(part: SdramPart) -> int:
    """A0 to A10 for columns and commands, and as many as a row needs."""
    return max(11, ceil_log2(part.rows))


def sdram_pins(part: SdramPart) -> wiring.Signature:
    """The pins of `part`.

    `clk` is the inverted clock: the chip looks at its pins half a period after they change.  `dq_oe` says that the
    FPGA drives `dq_o`; where it is low the chip may drive `dq_i`.  A board that ties cke, cs_n or dqm to a level leaves
    these unconnected: cs_n is always low, cke high from the first cycle on, dqm low from the end of power-up on.
    """
    return wiring.Signature({
        "clk": Out(1), "cke": Out(1), "cs_n": Out(1), "ras_n": Out(1), "cas_n": Out(1), "we_n": Out(1),
        "ba": Out(ceil_log2(part.banks)), "a": Out(address_lines(part)), "dqm": Out(part.width // 8),
        "dq_i": In(part.width), "dq_o": Out(part.width), "dq_oe": Out(1)})
