"""Packets that wait, whole, and become datagrams; and answers to who asks for our MAC."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Module, Mux, Signal, Value, ValueLike
from amaranth.lib import enum, stream, wiring
from amaranth.lib.wiring import In, Out

from ...stream.pipeline import delay
from ...stream.queue import Queue
from ...vendor.base import Resources, Technology
from ..link.bytes import TOKEN
from .headers import (
    ANSWERED,
    BODY,
    IP_HEADER,
    LARGEST_UDP,
    RECEIVER,
    SLOTS,
    UDP_HEADER,
    Address,
    InternetSum,
    Peers,
    arp_reply,
    crc_after,
    datagram_from_us,
)
from .receiver import PREAMBLE, SFD

# Packets that wait to be sent, whole: a datagram says how long it is before its contents.


#: Bytes of a packet, at most.
LARGEST = LARGEST_UDP - UDP_HEADER
#: Bytes that wait: one RAM block, more than a packet.  While one is sent the next comes as fast as that leaves room.
ROOM = 2048
#: Packets that wait.
PACKETS = 4


class PacketStore(wiring.Component):
    """Tokens in, and packets of which the length is known.

    A packet whose flag is `bad`, or which is longer than `LARGEST`, is dropped, and so is an empty one.

    Attributes
    ----------
    i : stream of TOKEN
    length : stream of bytes of the packets that are whole
        Taken when its last byte has been taken.
    take : In(1)
        The next byte of all packets; there must be one.
    byte : Out(8)
        What `take` took, `Peers.LATENCY` cycles later, as all that is sent.
    """

    def __init__(self, *, technology: Technology):
        self.technology = technology
        super().__init__({"i": In(stream.Signature(TOKEN)), "length": Out(stream.Signature(range(LARGEST + 1))),
                          "take": In(1), "byte": Out(8)})

    @staticmethod
    def memory_cost(technology: Technology) -> Resources:
        """The cost of the packets."""
        return Resources(ram=technology.ram_cost(width=8, depth=ROOM).ram)

    def elaborate(self, platform):
        m = Module()
        m.submodules.ram = ram = self.technology.ram(width=8, depth=ROOM)
        m.submodules.lengths = lengths = Queue(shape=range(LARGEST + 1), depth=PACKETS, technology=self.technology)
        written, whole, read = (Signal(range(2 * ROOM), name=name) for name in ("written", "whole", "read"))
        count, some, long = Signal(range(LARGEST + 2)), Signal(), Signal()
        token, taken, room = self.i.payload, Signal(), Signal()
        # One cycle late: the byte that comes meanwhile has its place.
        m.d.sync += room.eq((written - read)[:len(read)] < ROOM - 2)
        m.d.comb += [
            self.i.ready.eq((room | long) & lengths.i.ready), taken.eq(self.i.valid & self.i.ready),
            ram.write_en.eq(taken & ~token.flag), ram.write_addr.eq(written[:-1]), ram.write_data.eq(token.byte),
            ram.read_addr.eq(read[:-1]),
            self.byte.eq(delay(m, ram.read_data, Peers.LATENCY - self.technology.timing.ram, "byte")),
            lengths.i.payload.eq(count), lengths.i.valid.eq(taken & token.flag & ~token.bad & ~long & some)]
        with m.If(taken & token.flag):
            m.d.sync += [count.eq(0), some.eq(0), long.eq(0)]
            with m.If(lengths.i.valid):
                m.d.sync += whole.eq(written)
            with m.Else():
                m.d.sync += written.eq(whole)
        with m.Elif(taken & ~long):
            m.d.sync += [written.eq(written + 1), count.eq(count + 1), some.eq(1), long.eq(count == LARGEST)]
        m.d.sync += read.eq(read + self.take)
        wiring.connect(m, lengths.o, wiring.flipped(self.length))
        return m


#: Bytes of the shortest frame without its FCS; of the preamble with its SFD; of the FCS.
SHORTEST, PREAMBLE_BYTES, FCS_BYTES = 60, 8, 4
#: Places of the header of IP: they are summed up, with two zeros behind them for the carry.
IP_BEGIN, IP_END = 14, 36
#: Cycles in which a datagram of `LARGEST` bytes sends none of them; 66 are the least that IEEE 802.3 allows.
OVERHEAD = 1 + IP_END - IP_BEGIN + PREAMBLE_BYTES + BODY + FCS_BYTES


class State(enum.Enum, shape=3):
    """Which part of a frame is sent."""

    IDLE = 0
    #: Nothing is sent while the header of IP is summed up: more than the 12 bytes of a gap between frames.
    SUM = 1
    PREAMBLE = 2
    HEADER = 3
    PACKET = 4
    PAD = 5
    FCS = 6


class MacSender(wiring.Component):
    """Sends an answer that is wanted, else the next packet, to `Peers`.

    Attributes
    ----------
    length, take, packet : stream, Out(1), In(8)
        Of a `PacketStore`: `length`, `take` and `byte`.
    hold, read_slot, read_asker, read_byte
        As of `Peers`.
    wants_answer, answered
        As of `DatagramReceiver`.
    data, enable : Out(8), Out(1)
        To the PHY.
    """

    def __init__(self, *, address: Address):
        self.address = address
        super().__init__({
            "length": In(stream.Signature(range(LARGEST + 1))), "take": Out(1), "packet": In(8),
            "hold": Out(1), "read_slot": Out(range(SLOTS)), "read_asker": Out(1), "read_byte": In(8),
            "wants_answer": In(1), "answered": Out(1), "data": Out(8), "enable": Out(1)})

    def elaborate(self, platform):
        m = Module()
        state, answers = Signal(State), Signal()
        place, left = Signal(range(SHORTEST + 1)), Signal(range(-1, LARGEST + 1))  # `left` down to its sign bit
        self.steps(m, state, place, left, answers)
        m.d.comb += [self.take.eq(state == State.PACKET), self.read_asker.eq(answers),
                     self.hold.eq(Cat(state == part for part in (State.SUM, State.PREAMBLE, State.HEADER)).any())]
        m.submodules.sum = ip_sum = InternetSum()
        constant, from_peer = self.header(m, state, place, answers, ip_sum)
        # A byte is found as late as the memories give theirs; so late is all that goes with it.
        late = Peers.LATENCY
        header = Mux(delay(m, from_peer, late - 1, "from_peer"), self.read_byte,
                     delay(m, constant, late - 1, "constant"))
        then = delay(m, state, late, "state", reset_less=False)
        self.send(m, then, delay(m, place == PREAMBLE_BYTES - 1, late, "is_sfd"), header, ip_sum)
        return m

    def steps(self, m: Module, state: Signal, place: Signal, left: Signal, answers: Signal) -> None:
        """Follow the fields of a frame.  `place` counts the bytes of the frame, up to those of the shortest; of other
        parts, theirs."""
        with m.Switch(state):
            with m.Case(State.IDLE):
                m.d.sync += [place.eq(IP_BEGIN), answers.eq(self.wants_answer), left.eq(self.length.payload - 1)]
                with m.If(self.wants_answer | self.length.valid):
                    m.d.sync += state.eq(State.SUM)
            with m.Case(State.SUM):
                m.d.sync += place.eq(place + 1)
                with m.If(place == IP_END - 1):
                    m.d.sync += [place.eq(0), state.eq(State.PREAMBLE)]
            with m.Case(State.PREAMBLE):
                m.d.sync += place.eq(place + 1)
                with m.If(place == PREAMBLE_BYTES - 1):
                    m.d.sync += [place.eq(0), state.eq(State.HEADER)]
            with m.Case(State.HEADER):
                m.d.sync += place.eq(place + 1)
                with m.If(place == BODY - 1):
                    m.d.sync += state.eq(Mux(answers, State.PAD, State.PACKET))
                    m.d.comb += self.answered.eq(answers)
            with m.Case(State.PACKET):
                m.d.sync += [left.eq(left - 1), place.eq(Mux(place == SHORTEST, SHORTEST, place + 1))]
                with m.If(left == 0):
                    m.d.comb += self.length.ready.eq(1)
                    m.d.sync += state.eq(Mux(place >= SHORTEST - 1, State.FCS, State.PAD))
                    with m.If(place >= SHORTEST - 1):
                        m.d.sync += place.eq(0)
            with m.Case(State.PAD):
                m.d.sync += place.eq(place + 1)
                with m.If(place == SHORTEST - 1):
                    m.d.sync += [place.eq(0), state.eq(State.FCS)]
            with m.Case(State.FCS):
                m.d.sync += place.eq(place + 1)
                with m.If(place == FCS_BYTES - 1):
                    m.d.sync += state.eq(State.IDLE)
            with m.Default():  # which only a bad clock of the PHY leads to
                m.d.sync += state.eq(State.IDLE)

    def header(self, m: Module, state: Signal, place: Signal, answers: Signal, ip_sum: InternetSum
               ) -> tuple[Signal, Signal]:
        """The byte at a place of the header, and whether it is one of the peer's; a cycle late.

        While the header is summed up, its checksum is zero, and so is what follows it.
        """
        constant, from_peer = Signal(8), Signal()
        total, length = Signal(11), Signal(11)
        m.d.sync += [total.eq(self.length.payload + IP_HEADER + UDP_HEADER),
                     length.eq(self.length.payload + UDP_HEADER), constant.eq(0), from_peer.eq(0)]
        numbers = {16: total[8:], 17: total[:8], 24: ~ip_sum.sum[8:], 25: ~ip_sum.sum[:8], 38: length[8:],
                   39: length[:8]}
        summed = range(IP_BEGIN, IP_BEGIN + IP_HEADER)
        with m.If(answers):
            self.fill(m, place, arp_reply(self.address), ANSWERED, constant, from_peer)
        with m.Elif(state == State.SUM):
            self.fill(m, place, {k: value for k, value in (datagram_from_us(self.address) | numbers).items()
                                 if k in summed and k not in (24, 25)}, RECEIVER, constant, from_peer)
        with m.Else():
            self.fill(m, place, datagram_from_us(self.address) | numbers, RECEIVER, constant, from_peer)
        return constant, from_peer

    def fill(self, m: Module, place: Signal, octets: Mapping[int, ValueLike], slots: Mapping[int, int],
             constant: Signal, from_peer: Signal) -> None:
        with m.Switch(place):
            for k, octet in octets.items():
                with m.Case(k):
                    m.d.sync += constant.eq(octet)
            for k, number in slots.items():
                with m.Case(k):
                    m.d.comb += self.read_slot.eq(number)
                    m.d.sync += from_peer.eq(1)

    def send(self, m: Module, state: Value, is_sfd: Value, header: Value, ip_sum: InternetSum) -> None:
        """The bytes of a frame, and the register of their CRC."""
        crc, byte = Signal(32, init=0xFFFFFFFF), Signal(8)
        part, sfd = Signal(State), Signal()
        m.d.sync += [
            part.eq(state), sfd.eq(is_sfd), byte.eq(0), self.data.eq(byte),
            self.enable.eq((part != State.IDLE) & (part != State.SUM))]
        m.d.comb += [ip_sum.load.eq(part == State.IDLE), ip_sum.add.eq(part == State.SUM), ip_sum.byte.eq(byte)]
        with m.If((state == State.HEADER) | (state == State.SUM)):
            m.d.sync += byte.eq(header)
        with m.Elif(state == State.PACKET):
            m.d.sync += byte.eq(self.packet)
        with m.If(part == State.PREAMBLE):
            m.d.sync += [self.data.eq(Mux(sfd, SFD, PREAMBLE)), crc.eq(crc.init)]
        with m.Elif(part == State.FCS):
            m.d.sync += [self.data.eq(~crc[:8]), crc.eq(crc >> 8)]
        with m.Else():
            m.d.sync += crc.eq(crc_after(crc, byte))
