"""A serial line goes up from the rate of the board file, which is safe, to the highest one that carries packets.

The board changes its rate when it is asked to (the packet LINE), and goes back to the safe one at a break.  A rate is
trusted when a number of packets of every size went both ways without a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hwflow.host.host_link import HostLink
from hwflow.host.wire import BytePort, LinkFailed

# The bit rates of a serial line: which ones both ends have, and how a board is told.


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


#: Questions that must all be answered at a rate before it is trusted: some hundred thousand bits there.
PROOF = 16


@runtime_checkable
class RatedPort(BytePort, Protocol):
    """A serial line whose bit rate can be set while it is open."""

    @property
    def has_rate(self) -> bool:
        """False for what has no bits of its own: a pseudo-terminal, a line behind a network."""

    def set_rate(self, baud: int) -> None:
        """Bits a second from now on; what is on its way leaves before, and what comes meanwhile is lost."""

    def send_break(self) -> None:
        """Hold the line low for longer than any byte is."""


def start_safe(port: object) -> None:
    """Bring the board back to the rate of its board file, at which `port` is, whatever was agreed before."""
    if isinstance(port, RatedPort) and port.has_rate:
        port.send_break()


def raise_rate(link: HostLink, options: Mapping[str, int | str], only: int | None = None) -> int | None:
    """Go to the highest rate of `rates_of(options)`, or to `only`; the rate of the line then, None where it stays.

    The link must have been reset at the safe rate, and is as after a reset then.  LinkFailed where the board does not
    come back from a rate that did not work, or where `only` does not work.
    """
    port, baud = link.port, int(options["baud"])
    rates: Sequence[int] = [only] if only is not None else rates_of(options)
    if not isinstance(port, RatedPort) or not port.has_rate:
        return None
    for rate in rates:
        setting = bit_time(float(options["clock_hz"]), rate)
        taken = link.settle(setting)
        if taken == setting:
            port.set_rate(rate)
            if link.proves(PROOF):
                return rate
            port.set_rate(baud)
        if taken != 0:
            port.send_break()
            link.reset()
    if only is not None:
        raise LinkFailed(f"the line to the board on {port.name} must carry {only} baud, but packets were lost at it",
                         "leave --baud out, or name a lower rate")
    return None
