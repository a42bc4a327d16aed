"""A serial line goes up from the rate of the board file, which is safe, to the highest one that carries packets.

The board changes its rate when it is asked to (the packet LINE), and goes back to the safe one at a break.  A rate is
trusted when a number of packets of every size went both ways without a loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, runtime_checkable

from hwflow.host.host_link import HostLink
from hwflow.host.rates import bit_time, rates_of
from hwflow.host.wire import BytePort, LinkFailed

__all__ = ["RatedPort", "raise_rate", "start_safe"]

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
        wanted = bit_time(float(options["clock_hz"]), rate)
        taken = link.settle(wanted)
        if taken == wanted:
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
