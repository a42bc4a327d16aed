"""USB at full speed on two pins of the FPGA: the PHY in gateware, the device, and the crossing to the line."""

from __future__ import annotations

from amaranth.hdl import Cat, ClockDomain, DomainRenamer, Module, Mux, ResetSignal, Signal
from amaranth.lib import wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Technology
from ..link.bytes import ByteCrossing
from .device import SerialDevice
from .identity import UsbIdentity

# A PHY for full speed in gateware: the two data lines on one side, UTMI on the other, all at four samples a bit.
#
# LUNA's own needs a second clock of 12 MHz and answers 10 to 15 bit times after a packet, where the specification
# allows 6.5 (USB 2.0, 7.1.18.1) and hosts give up after 16. With everything at 48 MHz the answer is there after 3 to
# 5, and nothing crosses between clocks.


#: Four samples of 12 Mbit/s.
SAMPLE_MHZ = 48
SAMPLES = 4
#: Zeros in front of the one that ends a sync; of its seven the first may be lost (7.1.10).
ZEROS = 5
#: Ones in a row; behind them a zero is stuffed (7.1.9).
ONES = 6
#: Bits of the end of a packet: two of SE0; one more, and it is a reset.
END_BITS = 3
#: Modes of UTMI: all else but this leaves the lines alone.
NORMAL = 0


class FullSpeedPhy(wiring.Component):
    """Bytes of packets from and to the data lines, in a domain `sync` of 48 MHz.

    Attributes
    ----------
    d_p_i, d_n_i : In(1)
        The lines, asynchronous.
    d_p_o, d_n_o, oe : Out(1)
        From registers.
    pullup : Out(1)
        Pulls D+ up.
    rx_active, rx_valid, rx_data : Out(1), Out(1), Out(8)
        A packet comes; a byte of it, for one cycle.  The packet ends where the lines are idle behind it.
    tx_valid, tx_data, tx_ready : In(1), In(8), Out(1)
        A packet goes out as long as `tx_valid` is set; a byte is taken with `tx_ready`.
    line_state : Out(2)
        D+ and D-.
    op_mode, term_select : In(2), In(1)
        UTMI's: whether the lines may be driven, whether D+ is pulled up.
    rx_error, session_end : Out(1)
        Never set: a wrong bit shows in a checksum, and the bus powers the board.
    xcvr_select, dp_pulldown, dm_pulldown : In(2), In(1), In(1)
        Mean nothing here.
    """

    def __init__(self):
        super().__init__({
            "d_p_i": In(1, init=1), "d_n_i": In(1), "d_p_o": Out(1), "d_n_o": Out(1), "oe": Out(1), "pullup": Out(1),
            "rx_active": Out(1), "rx_valid": Out(1), "rx_data": Out(8), "rx_error": Out(1), "tx_valid": In(1),
            "tx_data": In(8), "tx_ready": Out(1), "line_state": Out(2), "session_end": Out(1), "op_mode": In(2),
            "term_select": In(1), "xcvr_select": In(2), "dp_pulldown": In(1), "dm_pulldown": In(1)})

    def elaborate(self, platform):
        m = Module()
        d_p, d_n = Signal(init=1), Signal()
        m.submodules.d_p = FFSynchronizer(self.d_p_i, d_p, init=1)
        m.submodules.d_n = FFSynchronizer(self.d_n_i, d_n)
        m.d.comb += [self.line_state.eq(Cat(d_p, d_n)), self.pullup.eq(self.term_select)]
        self.receive(m, d_p, d_n)
        self.transmit(m)
        return m

    def receive(self, m: Module, d_p: Signal, d_n: Signal) -> None:
        """Edges set the phase, and the second sample behind one is the bit, so a glitch of a sample is none."""
        was, phase, sample = Signal(2), Signal(range(SAMPLES)), Signal()
        m.d.sync += [was.eq(Cat(d_p, d_n)), phase.eq(Mux(was == Cat(d_p, d_n), phase + 1, 0))]
        m.d.comb += sample.eq((phase == 0) & (was == Cat(d_p, d_n)))
        # The last bit's level; whether this one is the same; neither.
        level, bit, none = Signal(init=1), Signal(), Signal()
        m.d.comb += [bit.eq(d_p == level), none.eq(d_p == d_n)]
        with m.If(sample):
            m.d.sync += level.eq(d_p | none)
        with m.If(self.oe):  # what the device says itself
            m.d.sync += level.eq(1)
        self.decode(m, sample, bit, none)

    def decode(self, m: Module, sample: Signal, bit: Signal, none: Signal) -> None:
        """Bytes of packets of the bits that are not `none`."""
        zeros, ones, low = Signal(range(ZEROS + 1)), Signal(range(ONES + 1)), Signal(range(END_BITS))
        shift, whole = Signal(8), Signal()
        m.d.comb += whole.eq(shift[0])
        m.d.sync += self.rx_valid.eq(0)
        with m.If(sample):
            m.d.sync += [low.eq(0), ones.eq(Mux(bit, ones + (ones != ONES), 0)),
                         zeros.eq(Mux(bit | none, 0, zeros + (zeros != ZEROS)))]
        with m.If(self.oe):
            m.d.sync += zeros.eq(0)
        with m.FSM():
            with m.State("SYNC"):
                # The one at the left end moves down; when it is out, a byte is whole.
                m.d.sync += shift.eq(0x80)
                with m.If(sample & bit & ~none & (zeros == ZEROS)):
                    m.d.sync += [self.rx_active.eq(1), ones.eq(1)]
                    m.next = "BYTES"
            with m.State("BYTES"), m.If(sample):
                with m.If(none):
                    m.next = "END"
                with m.Elif(ones == ONES):
                    m.d.sync += ones.eq(0)
                    with m.If(bit):  # no packet has seven ones: its end was lost, or more
                        m.d.sync += self.rx_active.eq(0)
                        m.next = "SYNC"
                with m.Else():
                    m.d.sync += shift.eq(Mux(whole, 0x80, Cat(shift[1:], bit)))
                    with m.If(whole):
                        m.d.sync += [self.rx_valid.eq(1), self.rx_data.eq(Cat(shift[1:], bit))]
            with m.State("END"), m.If(sample):
                m.d.sync += low.eq(low + 1)
                with m.If(~none | (low == END_BITS - 1)):
                    m.d.sync += self.rx_active.eq(0)
                    m.next = "SYNC"

    def transmit(self, m: Module) -> None:
        """A bit every four cycles: the sync, the bytes, two bits of SE0 and one of J."""
        phase, ones = Signal(range(SAMPLES)), Signal(range(ONES + 1))
        shift, left = Signal(8), Signal(range(9))
        tick, stuff, bit = Signal(), Signal(), Signal()
        m.d.sync += phase.eq(phase + 1)
        m.d.comb += [tick.eq(phase == SAMPLES - 1), stuff.eq(ones == ONES), bit.eq(shift[0] & ~stuff)]
        with m.FSM():
            with m.State("IDLE"):
                m.d.sync += [self.oe.eq(0), self.d_p_o.eq(1), self.d_n_o.eq(0), ones.eq(0), shift.eq(0x80), left.eq(8)]
                with m.If(self.tx_valid & (self.op_mode == NORMAL) & ~self.rx_active):
                    m.d.sync += phase.eq(SAMPLES - 1)
                    m.next = "BITS"
            with m.State("BITS"), m.If(tick):
                m.d.sync += [self.oe.eq(1), ones.eq(Mux(bit, ones + 1, 0))]
                with m.If(~bit):
                    m.d.sync += [self.d_p_o.eq(~self.d_p_o), self.d_n_o.eq(~self.d_n_o)]
                with m.If(~stuff):
                    m.d.sync += [shift.eq(shift >> 1), left.eq(left - 1)]
                    with m.If(left == 0):
                        with m.If(self.tx_valid):
                            # Its first bit goes out at once.
                            m.d.comb += [self.tx_ready.eq(1), bit.eq(self.tx_data[0])]
                            m.d.sync += [shift.eq(self.tx_data >> 1), left.eq(7)]
                        with m.Else():
                            m.d.comb += bit.eq(1)
                            m.d.sync += [self.d_p_o.eq(0), self.d_n_o.eq(0), left.eq(2)]
                            m.next = "END"
            with m.State("END"), m.If(tick):
                m.d.sync += left.eq(left - 1)
                with m.If(left == 1):
                    m.d.sync += [self.d_p_o.eq(1), self.d_n_o.eq(0)]
                with m.If(left == 0):
                    m.d.sync += self.oe.eq(0)
                    m.next = "IDLE"


#: Ports that are those of the PHY.
LINES = ("d_p_i", "d_n_i", "d_p_o", "d_n_o", "oe", "pullup")


class FullSpeedPort(wiring.Component):
    """Bytes from and to a host in `sync`; the bus is in the domain `usb` of 48 MHz.

    A reset of `sync` takes the device from the bus.

    Parameters
    ----------
    identity
        The descriptors.
    technology
        Makes the buffers.
    own_clock
        Whether `usb` has a clock of its own.  Else `sync` is of 48 MHz, and nothing crosses.

    Attributes
    ----------
    sample_clk, locked : In(1)
        With `own_clock`: 48 MHz, and whether they run.
    d_p_i, d_p_o, d_n_i, d_n_o, oe : In(1), Out(1)
        The two data lines, and whether the device drives them.
    pullup : Out(1)
        High where the host is to see a device at full speed: pulls D+ up through 1.5 kOhm.
    o, i : streams of bytes
    """

    def __init__(self, *, identity: UsbIdentity, technology: Technology, own_clock: bool):
        self.identity = identity
        self.technology = technology
        self.own_clock = own_clock
        self.phy = FullSpeedPhy()
        super().__init__({
            **({"sample_clk": In(1), "locked": In(1)} if own_clock else {}),
            **{name: self.phy.signature.members[name] for name in LINES},
            "o": Out(stream_of(BYTE, 1)), "i": In(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        for name in LINES:
            here, there = getattr(self, name), getattr(self.phy, name)
            m.d.comb += there.eq(here) if self.signature.members[name].flow is In else here.eq(there)
        device = SerialDevice(bus=self.phy, identity=self.identity, high_speed=False, technology=self.technology)
        domains = {"sync": "usb"} if self.own_clock else {"usb": "sync"}
        m.submodules.phy, m.submodules.device = DomainRenamer(domains)(self.phy), DomainRenamer(domains)(device)
        if not self.own_clock:
            link(m, device.o, wiring.flipped(self.o))
            link(m, wiring.flipped(self.i), device.i)
            return m
        self.clock(m)
        m.submodules.arriving = arriving = ByteCrossing(source="usb", target="sync")
        m.submodules.leaving = leaving = ByteCrossing(source="sync", target="usb")
        link(m, device.o, arriving.i)
        link(m, arriving.o, wiring.flipped(self.o))
        link(m, wiring.flipped(self.i), leaving.i)
        link(m, leaving.o, device.i)
        return m

    def clock(self, m: Module) -> None:
        """The domain `usb`, in reset as long as `sync` is, or its clock does not run."""
        start, usb = ClockDomain("usb_start", reset_less=True, local=True), ClockDomain("usb", local=True)
        m.domains += [start, usb]
        stopped = Signal()
        m.d.comb += [start.clk.eq(self.sample_clk), usb.clk.eq(self.sample_clk),
                     stopped.eq(ResetSignal("sync", allow_reset_less=True) | ~self.locked)]
        m.submodules.usb_reset = FFSynchronizer(stopped, usb.rst, o_domain="usb_start", init=1, stages=3)
