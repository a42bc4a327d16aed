"""Frames of the line, found behind their preambles and judged by their FCS; and datagrams to us out of them."""

from __future__ import annotations

from collections.abc import Mapping

from amaranth.hdl import Cat, Const, Module, Signal, Value, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from ..link.bytes import TOKEN
from .headers import (
    ASKER,
    BODY,
    IP_HEADER,
    LARGEST_UDP,
    RESIDUE,
    SENDER,
    SLOTS,
    UDP,
    UDP_HEADER,
    Address,
    InternetSum,
    arp_request,
    crc_after,
    datagram_to_us,
)

PREAMBLE, SFD = 0x55, 0xD5


class MacReceiver(wiring.Component):
    """Takes what a PHY gives, a byte in each cycle of 125 MHz.

    What begins with anything but a preamble and its SFD is no frame, and is passed over to its end.  So is all that
    comes at 10 or 100 Mbit/s, where a PHY gives each nibble twice.

    Attributes
    ----------
    data, data_valid, error : In(8), In(1), In(1)
        Of the PHY.
    byte, strobe : Out(8), Out(1)
        A byte behind the SFD, FCS included.
    end, good : Out(1)
        A pulse behind the last byte, two cycles or more after it; then, whether the FCS was right and the PHY saw no
        error.
    """

    def __init__(self) -> None:
        super().__init__({"data": In(8), "data_valid": In(1), "error": In(1), "byte": Out(8), "strobe": Out(1),
                          "end": Out(1), "good": Out(1)})

    def elaborate(self, platform):
        m = Module()
        inside, foreign, failed = Signal(), Signal(), Signal()
        ended, ended_good = Signal(), Signal()
        crc = Signal(32, init=0xFFFFFFFF, reset_less=True)
        m.d.sync += [self.byte.eq(self.data), self.strobe.eq(inside & self.data_valid),
                     ended.eq(inside & ~self.data_valid)]
        with m.If(~self.data_valid):
            m.d.sync += [inside.eq(0), foreign.eq(0)]
        with m.Elif(~inside & ~foreign):
            m.d.sync += [inside.eq(self.data == SFD), foreign.eq((self.data != SFD) & (self.data != PREAMBLE)),
                         failed.eq(0)]
        with m.If(inside & self.data_valid & self.error):
            m.d.sync += failed.eq(1)
        with m.If(self.strobe):
            m.d.sync += crc.eq(crc_after(crc, self.byte))
        with m.Elif(~ended):
            m.d.sync += crc.eq(crc.init)
        m.d.sync += [ended_good.eq((crc == Const(RESIDUE, 32)) & ~failed), self.end.eq(ended)]
        m.d.comb += self.good.eq(ended_good)
        return m


#: What begins a session (docs/host-link.md): packets of these kinds, without payload.
RESETS, RESET_BYTES = (0x01, 0x04), 9
#: Bytes of a frame's check sequence.
FCS_BYTES = 4

class DatagramReceiver(wiring.Component):
    """Takes the bytes of a `MacReceiver` and gives the contents of datagrams as tokens, with a flag behind each.

    A datagram is for us if its MAC, IP and port are ours; what goes to all is not.  The header of IP has no options and
    a right checksum, and both lengths agree.  What is no whole datagram is dropped: fragments, more than
    `LARGEST_UDP`.  The contents pass on while they come, so what only the end tells is in the flag: it is `bad` where
    FCS or checksum are wrong, or the frame is cut.

    The peer is who began the session: who sent RESET or CLEAR last.  Others are not heard in a session; before the
    first one everybody is, and is the peer until another one comes.

    Attributes
    ----------
    byte, strobe, end, good
        As of `MacReceiver`.
    o : stream of TOKEN
        It must take a byte in each cycle: what it does not take is lost, and the packet `bad`.
    slot, sends, asks, begin, same, adopt
        As of `Peers`, which has `byte` too.
    wants_answer, answered : Out(1), In(1)
        There was a request for our MAC; the answer is on its way.  Others are not heard meanwhile.
    """

    def __init__(self, *, address: Address):
        self.address = address
        super().__init__({
            "byte": In(8), "strobe": In(1), "end": In(1), "good": In(1), "o": Out(stream.Signature(TOKEN)),
            "slot": Out(range(SLOTS)), "sends": Out(1), "asks": Out(1), "begin": Out(1), "same": In(1),
            "adopt": Out(1), "wants_answer": Out(1), "answered": In(1)})

    def elaborate(self, platform):
        m = Module()
        place, body, arp = Signal(range(BODY + 1)), Signal(), Signal()
        free = Signal()  # what is known of who asked may be overwritten
        m.d.comb += [body.eq(place == BODY), self.begin.eq(self.end)]
        with m.If(place == 0):
            m.d.sync += free.eq(~self.wants_answer)
        with m.If(self.end):
            m.d.sync += [place.eq(0), arp.eq(0)]
        with m.Elif(self.strobe & ~body):
            m.d.sync += place.eq(place + 1)
        with m.If(self.strobe & (place == 13)):
            m.d.sync += arp.eq(self.byte[1])  # where the type is one of the two
        length, left = self.lengths(m, place, body)
        to_us, to_all = self.compare(m, place, arp, length)
        self.addresses(m, place, arp, free)

        inside = Signal()  # of the contents
        m.d.comb += inside.eq(self.strobe & body & ~left[-1])
        headed, checked = self.sums(m, place, body, inside, length)
        rest = Signal(range(FCS_BYTES + 1))  # bytes behind the contents
        with m.If(~body):
            m.d.sync += rest.eq(0)
        with m.Elif(self.strobe & left[-1] & ~rest[-1]):
            m.d.sync += rest.eq(rest + 1)
        fits = Signal()
        m.d.sync += fits.eq(length <= LARGEST_UDP)
        self.give(m, inside=inside, heard=to_us & ~arp & headed & fits, reset_length=length == (
            RESET_BYTES + UDP_HEADER), whole=self.good & checked & rest[-1])
        self.answer(m, self.good & arp & body & (to_us | to_all), free)
        return m

    def lengths(self, m: Module, place: Signal, body: Signal) -> tuple[Signal, Signal]:
        """Bytes of UDP by the header of IP; and how many bytes of contents follow this one, below 0 behind the last."""
        total, length, left = Signal(11), Signal(signed(12)), Signal(signed(12))
        with m.If(self.strobe), m.Switch(place):
            with m.Case(16):
                m.d.sync += total[8:].eq(self.byte)
            with m.Case(17):
                m.d.sync += total[:8].eq(self.byte)
        m.d.sync += length.eq(total - IP_HEADER)
        with m.If(~body):
            m.d.sync += left.eq(length - UDP_HEADER - 1)
        with m.Elif(self.strobe & ~left[-1]):
            m.d.sync += left.eq(left - 1)
        return length, left

    def compare(self, m: Module, place: Signal, arp: Signal, length: Signal) -> tuple[Value, Value]:
        """Whether the headers are right and the MAC ours; and the same for a MAC of all."""
        byte, want, mask, strobe, of_mac = Signal(8), Signal(8), Signal(8), Signal(), Signal()
        right, ours, everyone = Signal(init=1), Signal(init=1), Signal(init=1)
        now, care = Signal(8), Signal(8)
        with m.If(arp), m.Switch(place):
            for k, (value, bits) in arp_request(self.address).items():
                with m.Case(k):
                    m.d.comb += [now.eq(value), care.eq(bits)]
        with m.Else(), m.Switch(place):
            for k, (value, bits) in datagram_to_us(self.address).items():
                with m.Case(k):
                    m.d.comb += [now.eq(value), care.eq(bits)]
            with m.Case(38):
                m.d.comb += [now.eq(length[8:]), care.eq(0xFF)]
            with m.Case(39):
                m.d.comb += [now.eq(length[:8]), care.eq(0xFF)]
        m.d.sync += [byte.eq(self.byte), want.eq(now), mask.eq(care), strobe.eq(self.strobe), of_mac.eq(place < 6)]
        differs = Signal()
        m.d.comb += differs.eq(strobe & ((byte ^ want) & mask).any())
        m.d.sync += [
            ours.eq(ours & ~(differs & of_mac)), right.eq(right & ~(differs & ~of_mac)),
            everyone.eq(everyone & ~(strobe & of_mac & ~byte.all()))]
        # The two types, 0800 and 0806, differ in two bits.
        with m.If(self.strobe & (place == 13) & (self.byte[1] ^ self.byte[2])):
            m.d.sync += right.eq(0)
        with m.If(self.end):
            m.d.sync += [right.eq(1), ours.eq(1), everyone.eq(1)]
        return right & ours, right & everyone

    def addresses(self, m: Module, place: Signal, arp: Signal, free: Signal) -> None:
        """The bytes of who sends, and of who asks."""
        def write(slots: Mapping[int, int], strobe: Signal) -> None:
            with m.Switch(place):
                for k, slot in slots.items():
                    with m.Case(k):
                        m.d.comb += [self.slot.eq(slot), strobe.eq(self.strobe)]

        asks = Signal()
        with m.If(arp):
            write(ASKER, asks)
        with m.Else():
            write(SENDER, self.sends)
        m.d.comb += self.asks.eq(asks & free)

    def sums(self, m: Module, place: Signal, body: Signal, inside: Signal, length: Signal) -> tuple[Value, Value]:
        """Whether the sum of IP's header is right, and that of UDP, or there is none."""
        m.submodules.ip_sum, m.submodules.udp_sum = ip, udp = InternetSum(), InternetSum()
        some = Signal()
        m.d.sync += [
            ip.byte.eq(self.byte), ip.load.eq(place < 14), ip.add.eq(self.strobe & (place < 34)),
            # The addresses of IP, all of UDP; at first what stands before it in the sum: its length and its protocol.
            udp.byte.eq(self.byte), udp.load.eq(place < 26), udp.first.eq(length + UDP),
            udp.add.eq(self.strobe & (~body | inside))]
        with m.If(place < 40):
            m.d.sync += some.eq(0)
        with m.Elif(self.strobe & ~body):
            m.d.sync += some.eq(some | self.byte.any())
        headed, checked = Signal(), Signal()
        m.d.sync += [headed.eq(ip.good), checked.eq(udp.good | ~some)]
        return headed, checked

    def give(self, m: Module, *, inside: Value, heard: Value, reset_length: Value, whole: Value) -> None:
        """The contents as tokens, three cycles late, where the datagram is heard; its flag; and who is the peer."""
        session, first, listens, fits_reset = Signal(), Signal(init=1), Signal(), Signal()
        resets, gives, lost, waits, bad = Signal(), Signal(), Signal(), Signal(), Signal()
        contents, byte, is_reset = Signal(3), Signal(24), Signal()
        m.d.sync += [
            contents.eq(Cat(inside, contents)), byte.eq(Cat(self.byte, byte)), fits_reset.eq(reset_length),
            listens.eq(heard), is_reset.eq(Cat(byte[:8] == kind for kind in RESETS).any())]
        with m.If(self.end):
            m.d.sync += first.eq(1)
        with m.Elif(contents[1]):
            m.d.sync += first.eq(0)
        with m.If(first & contents[1]):
            m.d.sync += [gives.eq(listens & (is_reset & fits_reset | self.same | ~session) & ~waits),
                         resets.eq(is_reset & fits_reset), lost.eq(0)]
        given = Signal()
        m.d.comb += [
            given.eq(gives & contents[2]), self.o.valid.eq(given | waits), self.o.payload.byte.eq(byte[16:]),
            self.o.payload.flag.eq(waits), self.o.payload.bad.eq(bad)]
        with m.If(given & ~self.o.ready):
            m.d.sync += lost.eq(1)
        with m.If(self.o.ready):
            m.d.sync += waits.eq(0)
        accepted = Signal()
        m.d.comb += [accepted.eq(gives & self.end & whole & ~lost), self.adopt.eq(accepted & ~self.same)]
        with m.If(accepted):
            m.d.sync += session.eq(session | resets)
        with m.If(self.end):
            m.d.sync += [gives.eq(0), bad.eq(~accepted)]
            with m.If(gives):
                m.d.sync += waits.eq(1)

    def answer(self, m: Module, asked: Value, free: Signal) -> None:
        """A request waits for its answer, unless the one before did when it began."""
        with m.If(self.answered):
            m.d.sync += self.wants_answer.eq(0)
        with m.If(self.end & asked & free):
            m.d.sync += self.wants_answer.eq(1)
