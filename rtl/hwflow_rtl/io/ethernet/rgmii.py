"""RGMII (version 2.0): the pins between an FPGA and a PHY of gigabit Ethernet, and bytes."""

from __future__ import annotations

from dataclasses import dataclass

from amaranth.hdl import Cat, Const, Module
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ...vendor.pads import DoubleRate


@dataclass(frozen=True)
class Delays:
    """The ns by which the FPGA delays what comes from the PHY, and the clock to it.

    A clock must have its edges in the middle of the data (1.2 to 2.8 ns behind their edges): the PHY does that, or
    the board, or these.
    """

    rx: float = 0.0
    tx_clock: float = 0.0


class Rgmii(wiring.Component):
    """All in `sync`, whose clock is the PHY's, RXC; the clock to the PHY is made of it.

    Attributes
    ----------
    rxd, rx_ctl, txd, tx_ctl, txc : In(4), In(1), Out(4), Out(1), Out(1)
        The pins.
    rx_data, rx_valid, rx_error : Out(8), Out(1), Out(1)
    tx_data, tx_enable : In(8), In(1)
        A byte in a cycle.
    """

    def __init__(self, *, pads: DoubleRate, delays: Delays):
        self.pads = pads
        self.delays = delays
        super().__init__({
            "rxd": In(4), "rx_ctl": In(1), "txd": Out(4), "tx_ctl": Out(1), "txc": Out(1),
            "rx_data": Out(8), "rx_valid": Out(1), "rx_error": Out(1), "tx_data": In(8), "tx_enable": In(1)})

    def elaborate(self, platform):
        m = Module()
        pads, delays = self.pads, self.delays
        nibbles = [pads.input(m, self.rxd[k], delay_ns=delays.rx, name=f"rxd{k}") for k in range(4)]
        valid, ctl = pads.input(m, self.rx_ctl, delay_ns=delays.rx, name="rx_ctl")
        m.d.sync += [self.rx_data.eq(Cat(*(low for low, _ in nibbles), *(high for _, high in nibbles))),
                     self.rx_valid.eq(valid), self.rx_error.eq(valid ^ ctl)]
        for k in range(4):
            m.d.comb += self.txd[k].eq(pads.output(m, self.tx_data[k], self.tx_data[4 + k], delay_ns=0, name=f"txd{k}"))
        m.d.comb += [
            self.tx_ctl.eq(pads.output(m, self.tx_enable, self.tx_enable, delay_ns=0, name="tx_ctl")),
            self.txc.eq(pads.output(m, Const(1, 1), Const(0, 1), delay_ns=delays.tx_clock, name="txc"))]
        return m
