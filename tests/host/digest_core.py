"""A core as small as can be that gives a few bytes for the many of a frame, and its boards on any transport."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from amaranth.hdl import Array, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from hwflow_rtl.io import BoardTop, Clocking, End, Ends
from hwflow_rtl.io.transports import Transport
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Generic
from hwflow_sim.board import CompiledBoard, Line, UartLine, compile_board, rtl_design

IDENTITY = b"digest.1"


class DigestCore(wiring.Component):
    """Byte k of a frame enters register k modulo `bytes_out`: thrice what it was and the byte.  Then all of them are
    given, and start from 0."""

    def __init__(self, bytes_in: int, bytes_out: int):
        self.bytes_in, self.bytes_out = bytes_in, bytes_out
        super().__init__({"i": In(stream_of(8, 1)), "o": Out(stream_of(8, 1))})

    def elaborate(self, platform):
        m = Module()
        registers = Array(Signal(8, name=f"register{k}") for k in range(self.bytes_out))
        place, gives = Signal(range(self.bytes_out)), Signal()
        left = Signal(range(self.bytes_in), init=self.bytes_in - 1)
        here = registers[place]
        m.d.comb += [self.i.ready.eq(~gives), self.o.valid.eq(gives), self.o.payload[0].eq(here)]
        last = place == self.bytes_out - 1
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += [here.eq(here + (here << 1) + self.i.payload[0]), place.eq(place + 1), left.eq(left - 1)]
            with m.If(last):
                m.d.sync += place.eq(0)
            with m.If(left == 0):
                m.d.sync += [gives.eq(1), left.eq(self.bytes_in - 1), place.eq(0)]
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += [here.eq(0), place.eq(place + 1)]
            with m.If(last):
                m.d.sync += [place.eq(0), gives.eq(0)]
        return m


def digests(data: bytes, bytes_in: int, bytes_out: int) -> bytes:
    """What the core makes of frames."""
    rows = np.frombuffer(data, np.uint8).reshape(-1, bytes_in).astype(np.int64)
    registers = np.zeros((len(rows), bytes_out), np.int64)
    for k in range(bytes_in):
        registers[:, k % bytes_out] = (3 * registers[:, k % bytes_out] + rows[:, k]) % 256
    return registers.astype(np.uint8).tobytes()


def frames(count: int, bytes_in: int, seed: int = 3) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, count * bytes_in, dtype=np.uint8).tobytes()


def digest_board(transport: Transport, place: Path, cache: Path, bytes_in: int, bytes_out: int, *, mhz: float = 25.0,
                 line: type[Line] = UartLine) -> CompiledBoard:
    """The program that simulates a board with this core."""
    technology = Generic(hex_roms=True)
    top = BoardTop(core=DigestCore(bytes_in, bytes_out), technology=technology, transport=transport, identity=IDENTITY,
                   ends=Ends((End(1, 8, bytes_in),), (End(1, 8, bytes_out),)),
                   clocking=Clocking(technology=technology, board_mhz=mhz, has_reset=True))
    return compile_board(rtl_design(top, technology.roms, line=line), folder=place / "board", cache=cache)
