"""Ways from a host to a design: pins of the board on one side, tokens of packets on the other.

On a line of bytes, `Framed` puts flags between packets and escapes inside (docs/host-link.md).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amaranth.hdl import IOPort, Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Member, Out

from ...stream.streams import BYTE, link, stream_of
from ..link.bytes import TOKEN, Deframer, Framer
from ..link.shape import LinkShape


class Transport(wiring.Component):
    """A line between the pins of a board and its `HostLink`.  A subclass is one kind of line.

    It runs in the domain `sync`, which `BoardTop` renames to `line`.  Other domains it makes itself.

    Parameters
    ----------
    pins
        Its ports of the top, as members of a signature, by names that no other part of the top has.
    both_ways
        Ports in both directions, which are no members of a signature.
    clock, clock_mhz
        The pin of `pins` whose clock is that of `line`, and its frequency.  None: `line` has the oscillator's.
    members
        Further members, for a part of the board that knows this kind.  With `settable` it has `settings`, In(32),
        `settings_taken`, Out(32), and `settings_changed`, In(1), as of a `HostLink`.  With `started`, In(1), it gets
        that of `Clocking`, for a chip beside the FPGA that is to be reset.

    Attributes
    ----------
    i, o : streams of TOKEN
        Packets to the host, and from it.  Empty packets mean nothing.  A token that waits at `i` may go at a reset of
        the core, and a packet be cut; then a flag that is `bad` comes next.
    """

    #: The name of the kind in board files.
    kind = ""
    #: The size of its packets; None: what fits the FPGA's RAM best.
    shape: LinkShape | None = None
    #: Whether the host can change settings of the line.
    settable = False

    def __init__(self, pins: Mapping[str, Member], *, both_ways: tuple[IOPort, ...] = (), clock: str | None = None,
                 clock_mhz: float | None = None, members: Mapping[str, Member] | None = None):
        if clock is not None and (clock not in pins or not clock_mhz):
            raise ValueError(f"clock of a {self.kind or 'Transport'} must be one of its pins {', '.join(pins)} with a "
                             f"frequency, not {clock} of {clock_mhz} MHz")
        self.pins: Mapping[str, Member] = dict(pins)
        self.both_ways = both_ways
        self.clock = clock
        self.clock_mhz = clock_mhz
        token: Any = stream.Signature(TOKEN)
        super().__init__({**pins, "i": In(token), "o": Out(token), **(members or {})})


# Packets on a line of bytes: flags between them, and escapes inside (docs/host-link.md).


class Framed(wiring.Component):
    """Between the tokens of a `Transport` and the bytes of its line.

    Attributes
    ----------
    i, o : streams of TOKEN
        As of a `Transport`.
    received, sent : streams of bytes
        From the line and to it.
    """

    def __init__(self):
        super().__init__({
            "i": In(stream.Signature(TOKEN)), "o": Out(stream.Signature(TOKEN)),
            "received": In(stream_of(BYTE, 1)), "sent": Out(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.deframer = deframer = Deframer()
        m.submodules.framer = framer = Framer()
        link(m, wiring.flipped(self.received), deframer.i)
        link(m, deframer.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), framer.i)
        link(m, framer.o, wiring.flipped(self.sent))
        return m
