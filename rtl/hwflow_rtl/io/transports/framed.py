"""Packets on a line of bytes: flags between them, and escapes inside (docs/host-link.md)."""

from __future__ import annotations

from amaranth.hdl import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ...stream.streams import link, stream_of
from ..link_bytes import TOKEN, Deframer, Framer
from ..uart import BYTE

__all__ = ["Framed"]


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
