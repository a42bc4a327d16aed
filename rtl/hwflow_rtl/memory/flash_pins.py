"""The pins of a QSPI flash, as the FPGA sees them."""

from __future__ import annotations

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from .flash_part import FlashPart

__all__ = ["flash_pins"]


def flash_pins(part: FlashPart) -> wiring.Signature:
    """The pins of `part`: IO0 (its DI) is bit 0 of `io_i`, `io_o` and `io_oe`, IO1 (its DO) bit 1.

    Where a bit of `io_oe` is low, the chip may drive that line.  Between a controller and its `FlashPads` they are what
    the registers of the pads take and give, and `sck` is set for a cycle where the chip gets a clock.
    """
    lines = part.lines
    return wiring.Signature({
        "sck": Out(1), "cs_n": Out(1, init=1), "io_i": In(lines), "io_o": Out(lines), "io_oe": Out(lines)})
