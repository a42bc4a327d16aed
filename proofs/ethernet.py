"""Proofs of the receiver of Ethernet frames: whatever the PHY gives, it calls those good that are.

The `Line` here finds frames as IEEE 802.3 has them: bytes while data are valid, the first one that is none of the
preamble is the SFD, or the line carries something else until data end.  A frame is right where the CRC-32 over all that
follows the SFD, FCS included, leaves the rest that it always leaves.
"""

from __future__ import annotations

from amaranth.hdl import Const, Mux, Signal, Value
from hwflow_rtl.io.ethernet.receiver import MacReceiver

from .links import crc_of
from .methods import Induction
from .proof import Proof
from .scene import Inside, Scene

PREAMBLE, SFD = 0x55, 0xD5
#: What the register has behind a frame and its FCS: the polynomial's rest of 32 ones, in the order of the bits.
REST = 0xDEBB20E3


class Line:
    """What the PHY has given up to this cycle."""

    def __init__(self, s: Scene, unit: MacReceiver):
        m = s.m
        self.valid, data, error = unit.data_valid, unit.data, unit.error
        self.decided, self.ours, self.failed = (Signal(name=name) for name in ("decided", "ours", "line_failed"))
        self.crc = Signal(32, init=0xFFFFFFFF, name="line_crc")
        self.brings, self.ends = self.ours & self.valid, self.ours & ~self.valid
        self.right = ~self.failed & (self.crc == REST)
        with m.If(~self.valid):
            m.d.sync += [self.decided.eq(0), self.ours.eq(0), self.failed.eq(0), self.crc.eq(0xFFFFFFFF)]
        with m.Elif(self.brings):
            m.d.sync += [self.crc.eq(crc_of(self.crc, data)), self.failed.eq(self.failed | error)]
        with m.Elif(~self.decided & (data != PREAMBLE)):
            m.d.sync += [self.decided.eq(1), self.ours.eq(data == SFD)]


def later(s: Scene, value: Value, clocks: int, name: str) -> Signal:
    """The same some cycles ago; zeros before the start."""
    for age in range(clocks):
        signal = Signal(len(value), name=f"{name}_{age + 1}_ago")
        s.m.d.sync += signal.eq(value)
        value = signal
    return value


def mac_receiver() -> Scene:
    s, unit = Scene(), MacReceiver()
    inside = s.put("receiver", unit)
    s.m.d.comb += [unit.data.eq(s.free(8, "data")), unit.data_valid.eq(s.free(1, "valid")),
                   unit.error.eq(s.free(1, "error"))]
    line = Line(s, unit)
    s.claim("gives_the_bytes", unit.strobe == later(s, line.brings, 1, "brings"))
    s.claim("as_they_came", ~unit.strobe | (unit.byte == later(s, unit.data, 1, "data")))
    s.claim("tells_the_end", unit.end == later(s, line.ends, 2, "ends"))
    s.claim("good_where_it_is_right", ~unit.end | (unit.good == later(s, line.right, 2, "right")))
    walks_with_the_line(s, inside, unit, line)
    s.reach("a_byte", unit.strobe)
    s.reach("the_end_of_a_bad_frame", unit.end & ~unit.good)
    return s


def walks_with_the_line(s: Scene, inside: Inside, unit: MacReceiver, line: Line) -> None:
    """What helps: the receiver knows where it is, and its checksum is a cycle behind."""
    ended, was = inside.signal("ended"), later(s, ~line.crc, 1, "crc")  # inverted: it begins with ones
    s.claim("inside", inside.signal("inside") == line.ours)
    s.claim("foreign", inside.signal("foreign") == (line.decided & ~line.ours))
    s.claim("decided", line.decided | ~line.ours)
    s.claim("ended", ended == later(s, line.ends, 1, "ended"))
    s.claim("failed", Mux(line.ours, inside.signal("failed") == line.failed, ~line.failed))
    s.claim("failed_at_the_end", ~ended | (inside.signal("failed") == later(s, line.failed, 1, "failed")))
    s.claim("checksum", ~(unit.strobe | ended) | (inside.signal("crc") == ~was))
    s.claim("begins_anew", line.ours | (line.crc == Const(0xFFFFFFFF, 32)))


ETHERNET_PROOFS = (
    Proof("MacReceiver", "arbitrary bytes, gaps and errors",
          "it gives the bytes behind an SFD, all and in order, tells where they end, and calls a frame good where its "
          "checksum is right and the PHY saw no error, and only there", mac_receiver, Induction(2), 20),
)
