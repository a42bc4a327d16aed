"""The reader of a flash with the check of its seal, and nothing else: what is routed alone."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import ClockDomain, Elaboratable, Module, Signal
from amaranth.lib import wiring
from hwflow_rtl.memory import FlashError, SealedFlash

from hwflow.synth import Board


class Reader(Elaboratable):
    """Reads all `words` of an image again and again and shows a bit of them; `far` has the pins at the other end."""

    def __init__(self, board: Board, words: int, far: Any):
        self.words, self.far = words, far
        self.controller = SealedFlash(board.memories[0].part, words=words, mark=b"anything").controller(
            board.technology())
        self.clk = Signal()
        self.led = Signal()

    def elaborate(self, platform):
        m = Module()
        sync = m.domains.sync = ClockDomain(reset_less=True)
        m.d.comb += sync.clk.eq(self.clk)
        m.submodules.controller, m.submodules.far = controller, far = self.controller, self.far
        wiring.connect(m, controller.pins, far.pins)
        m.d.comb += [controller.request.valid.eq(1), controller.request.payload.last.eq(self.words - 1),
                     controller.read.ready.eq(1)]
        with m.If(controller.read.valid):
            m.d.sync += self.led.eq(controller.read.payload.xor() ^ (controller.error != FlashError.NONE))
        return m
