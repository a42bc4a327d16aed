"""The bit rates of a serial line: which ones both ends have, and how a board is told."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["RATES", "UNIT", "bit_time", "rates_of"]

#: Bit rates above the usual ones that USB bridges make exactly.  Those of FTDI divide 3 MHz, at high speed 12 MHz, by
#: n + k/8 from 2 on, and have besides 3 and 2 Mbaud, 12 and 8 Mbaud (AN232B-05, DS_FT2232H).
RATES = (12_000_000, 8_000_000, 6_000_000, 4_000_000, 3_000_000, 2_000_000, 1_500_000, 1_000_000)
#: Parts of a clock cycle in which the packet LINE counts bit times, and those that a board's line has.
UNIT, PARTS = 256, 16
#: The shortest bit of a board's line, in its clock cycles.
SHORTEST = 4
#: How far a bit of a board's line may be from the one that the host wants.
LARGEST_ERROR = 0.01


def bit_time(clock_hz: float, baud: int) -> int:
    """The time of a bit in 1/256 cycles of the board's clock, as near as its line has it: what the packet LINE says."""
    return round(clock_hz * PARTS / baud) * (UNIT // PARTS)


def rates_of(options: Mapping[str, int | str]) -> list[int]:
    """The bit rates above `baud` that bridge and board have, the fastest first: those up to `fastest` of which the
    board's clock, `clock_hz`, makes bits.  None where the options do not say them."""
    baud, fastest, clock = (int(options.get(name, 0)) for name in ("baud", "fastest", "clock_hz"))
    return [rate for rate in RATES if baud < rate <= fastest and clock >= SHORTEST * rate
            and abs(bit_time(clock, rate) * rate / clock / UNIT - 1) <= LARGEST_ERROR]
