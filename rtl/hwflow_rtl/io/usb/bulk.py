"""The bulk endpoints of a USB device, on LUNA's interface for endpoints: packets of bytes to a stream and back.

A stream of bytes has no packets, so a packet ends where the bytes end for the moment, and nothing waits for more.
What comes twice, because its acknowledgement was lost, is taken once (USB 2.0, 8.6).
"""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ...stream.credit import CreditCounter
from ...stream.deep_queue import DeepQueue
from ...stream.pipeline import delay
from ...stream.queue import Queue
from ...stream.streams import BYTE, link, stream_of
from ...vendor.base import Ram, Technology
from .identity import FULL_SPEED_PACKET, HIGH_SPEED_PACKET
from .luna_parts import EndpointInterface, USBSpeed

#: Bytes of the buffer of each direction: one RAM block of an ECP5, four packets of high speed.
DEPTH = 2048


class Endpoint(wiring.Component):
    """The base of all endpoints: `interface` to LUNA's device.  They are in the domain `usb`, as all of LUNA.

    Parameters
    ----------
    number
        Of the endpoint, 1 to 15.

    Attributes
    ----------
    restart : In(1)
        The bus was reset, or a configuration chosen: the next packet is a DATA0.
    """

    def __init__(self, number: int, members: dict[str, wiring.Member] | None = None):
        self.number = number
        self.interface = EndpointInterface()
        super().__init__({"restart": In(1), **(members or {})})

    def elaborate(self, platform):
        m = Module()
        self.build(m)
        return DomainRenamer("usb")(m)

    def build(self, m: Module) -> None:
        """Build what the endpoint is, in `sync`."""
        raise NotImplementedError

    def asked(self, token: Value) -> Value:
        """Whether the last token is for this endpoint, of a device that is configured."""
        here = self.interface.tokenizer.endpoint == self.number
        return token & here & (self.interface.active_config != 0)

    def begins_anew(self, *, to_host: bool) -> Value:
        """The next packet is a DATA0: after `restart`, and where the host has cleared the halt of the endpoint."""
        clear = self.interface.clear_endpoint_halt_in
        return self.restart | clear.enable & (clear.number == self.number) & (clear.direction == to_host)

    def packet(self) -> Value:
        """The largest packet at the speed of the bus."""
        return Mux(self.interface.speed == USBSpeed.HIGH, HIGH_SPEED_PACKET, FULL_SPEED_PACKET)


class Silent(Endpoint):
    """An endpoint that never has anything for the host."""

    def build(self, m: Module) -> None:
        token = self.interface.tokenizer
        m.d.comb += self.interface.handshakes_out.nak.eq(self.asked(token.is_in) & token.ready_for_response)


class BulkOut(Endpoint):
    """Bytes from the host.  A packet is taken whole: its bytes are seen at `o` when its checksum was right.

    A packet for which there may be no room is refused (NAK), and one that is too long is not answered.

    Attributes
    ----------
    o : stream of bytes
        Takes a byte in each cycle, if it is ready.
    """

    def __init__(self, number: int, *, technology: Technology):
        self.technology = technology
        super().__init__(number, {"o": Out(stream_of(BYTE, 1))})

    def build(self, m: Module) -> None:
        m.submodules.ram = ram = self.technology.ram(width=8, depth=DEPTH)
        # One bit more than an address has, so that full and empty differ.
        written, committed, read = (
            Signal(ceil_log2(DEPTH) + 1, name=name) for name in ("written", "committed", "read"))
        taken = self.transactions(m, written, committed, read)
        m.d.comb += [ram.write_en.eq(taken), ram.write_addr.eq(written[:-1]),
                     ram.write_data.eq(self.interface.rx.payload)]
        words = ReadAhead(technology=self.technology, ram=ram)
        m.submodules.words = words
        m.d.comb += [words.some.eq(committed != read), ram.read_addr.eq(read[:-1])]
        with m.If(words.pull):
            m.d.sync += read.eq(read + 1)
        link(m, words.o, wiring.flipped(self.o))

    def transactions(self, m: Module, written: Signal, committed: Signal, read: Signal) -> Signal:
        """Moves `written` and `committed`; whether a byte is written in this cycle."""
        usb, token = self.interface, self.interface.tokenizer
        toggle, room = Signal(), Signal()
        # Of the transaction: its packet is to come; it fits; it was too long; it is to be answered so.
        armed, fits, long, ack, nak = Signal(), Signal(), Signal(), Signal(), Signal()
        place, taken, expected = Signal(range(HIGH_SPEED_PACKET + 1)), Signal(), Signal()
        m.d.comb += [
            expected.eq(usb.rx_pid_toggle[0] == toggle),
            taken.eq(armed & fits & usb.rx.valid & usb.rx.next & (place != self.packet())),
            usb.handshakes_out.ack.eq(ack & usb.rx_ready_for_response | self.pinged(room)),
            usb.handshakes_out.nak.eq(nak & usb.rx_ready_for_response | self.pinged(~room)),
        ]
        # As of the cycle before; while a packet comes, nothing is committed, and `read` only makes more room.
        m.d.sync += room.eq((committed - read)[:len(read)] <= DEPTH - HIGH_SPEED_PACKET)
        with m.If(armed & usb.rx.valid & usb.rx.next):
            m.d.sync += [place.eq(place + (place != self.packet())), long.eq(long | (place == self.packet()))]
        with m.If(taken):
            m.d.sync += written.eq(written + 1)
        with m.If(usb.rx_ready_for_response):
            m.d.sync += [ack.eq(0), nak.eq(0)]
        with m.If(armed & (usb.rx_complete | usb.rx_invalid)):
            m.d.sync += [armed.eq(0), written.eq(committed)]
            with m.If(usb.rx_complete & ~expected):  # once more, for our answer was lost
                m.d.sync += ack.eq(1)
            with m.Elif(usb.rx_complete & ~fits):
                m.d.sync += nak.eq(1)
            with m.Elif(usb.rx_complete & ~long):
                m.d.sync += [ack.eq(1), toggle.eq(~toggle), committed.eq(written), written.eq(written)]
        with m.If(token.new_token):
            m.d.sync += [armed.eq(self.asked(token.is_out)), fits.eq(room), long.eq(0), place.eq(0), ack.eq(0),
                         nak.eq(0), written.eq(committed)]
        with m.If(self.begins_anew(to_host=False)):
            m.d.sync += [toggle.eq(0), armed.eq(0), ack.eq(0), nak.eq(0), written.eq(committed)]
        return taken

    def pinged(self, answer: Value) -> Value:
        """A host at high speed asks, after it was refused, whether there is room now (USB 2.0, 8.5.1)."""
        token = self.interface.tokenizer
        return self.asked(token.is_ping) & token.ready_for_response & answer


class BulkIn(Endpoint):
    """Bytes to the host.  A packet has what is there when the host asks, and stays the same until it is acknowledged.

    After a packet of the largest size the host waits for more.  If there is none, it gets an empty packet, once.

    Attributes
    ----------
    i : stream of bytes
        Takes a byte in each cycle, if there is room.
    """

    def __init__(self, number: int, *, technology: Technology):
        self.technology = technology
        super().__init__(number, {"i": In(stream_of(BYTE, 1))})

    def build(self, m: Module) -> None:
        m.submodules.ram = ram = self.technology.ram(width=8, depth=DEPTH)
        # One bit more than an address has.  `begin` is that of the packet which is to be acknowledged next.
        filled, begin, read = (Signal(ceil_log2(DEPTH) + 1, name=name) for name in ("filled", "begin", "read"))
        space, again = Signal(), Signal()
        m.d.comb += [
            self.i.ready.eq(space), ram.write_en.eq(self.i.valid & space), ram.write_addr.eq(filled[:-1]),
            ram.write_data.eq(self.i.payload[0]), ram.read_addr.eq(read[:-1])]
        # A byte may enter in this cycle, which the count does not know yet.
        m.d.sync += [filled.eq(filled + ram.write_en), space.eq((filled - begin)[:len(begin)] < DEPTH - 1)]
        words = ReadAhead(technology=self.technology, ram=ram)
        m.submodules.words = ResetInserter(again)(words)
        self.transactions(m, filled, begin, words.o, again)
        m.d.comb += words.some.eq(filled != read)
        with m.If(again):
            m.d.sync += read.eq(begin)
        with m.Elif(words.pull):
            m.d.sync += read.eq(read + 1)

    def transactions(self, m: Module, filled: Signal, begin: Signal, words, again: Signal) -> None:
        """Moves `begin`, and takes `words` from there on after `again`."""
        usb, token = self.interface, self.interface.tokenizer
        toggle, asked = Signal(), Signal()
        # A packet of `length` bytes was made, and is not acknowledged; it is on its way out; it has left.
        made, sending, left = Signal(), Signal(), Signal()
        owed = Signal()  # an empty packet, behind a largest one
        there, packet = Signal.like(filled), Signal(range(HIGH_SPEED_PACKET + 1))
        length, place = Signal.like(packet), Signal.like(packet)
        m.d.comb += [
            asked.eq(self.asked(token.is_in)), there.eq(filled - begin), packet.eq(self.packet()),
            again.eq(token.new_token & asked), usb.tx_pid_toggle.eq(toggle), usb.tx.payload.eq(words.payload[0]),
            usb.tx.valid.eq(sending), usb.tx.first.eq(sending & (place == 0) & (length != 0)),
            usb.tx.last.eq(sending & ((place + 1 == length) | (length == 0))), words.ready.eq(sending & usb.tx.ready)]
        with m.If(token.new_token):
            m.d.sync += [sending.eq(0), left.eq(0)]
        with m.If(asked & token.ready_for_response):
            with m.If(made | owed | (there != 0)):
                m.d.sync += [made.eq(1), sending.eq(1), place.eq(0)]
                with m.If(~made):
                    m.d.sync += length.eq(Mux(there > packet, packet, there))
            with m.Else():
                m.d.comb += usb.handshakes_out.nak.eq(1)
        with m.If(sending & (usb.tx.ready | (length == 0))):
            m.d.sync += place.eq(place + 1)
            with m.If(usb.tx.last):
                m.d.sync += [sending.eq(0), left.eq(1)]
        with m.If(left & asked & usb.handshakes_in.ack):
            m.d.sync += [left.eq(0), made.eq(0), toggle.eq(~toggle), begin.eq(begin + length),
                         owed.eq(length == packet)]
        with m.If(self.begins_anew(to_host=True)):
            m.d.sync += [toggle.eq(0), made.eq(0), sending.eq(0), left.eq(0), owed.eq(0)]


class ReadAhead(wiring.Component):
    """The words of a RAM as a stream with a word in every cycle, whatever the latency of the RAM.

    Attributes
    ----------
    some, pull : In(1), Out(1)
        There is a word at the address of `ram`; it is read, and the address moves on.
    o : stream of bytes
    """

    def __init__(self, *, technology: Technology, ram: Ram):
        self.technology = technology
        self.ram = ram
        super().__init__({"some": In(1), "pull": Out(1), "o": Out(stream_of(BYTE, 1))})

    def elaborate(self, platform):
        m = Module()
        words = DeepQueue.front_of(self.technology)
        m.submodules.front = front = Queue(shape=self.o.payload.shape(), depth=words)
        m.submodules.credit = credit = CreditCounter(words=words, take=1)
        read = self.pull
        for n in range(self.technology.timing.ram):
            read = delay(m, read, 1, f"read{n}", reset_less=False)
        m.d.comb += [
            self.pull.eq(self.some & credit.credit), credit.taken.eq(self.pull),
            credit.given.eq(front.o.valid & front.o.ready), front.i.valid.eq(read),
            front.i.payload[0].eq(self.ram.read_data)]
        link(m, front.o, wiring.flipped(self.o))
        return m
