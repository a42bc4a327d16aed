"""Frames in, results out, between one RESET and the next: sends ahead while results come, asks for what was lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NoReturn

from hwflow.host.pace import Pace, Patience
from hwflow.host.packets import Identity, Kind, Memory, MemoryState, Packet, Status
from hwflow.host.sliding_window import Arrival, Collector, Outbox, Unanswered
from hwflow.host.wire import LinkFailed, Wire

__all__ = ["Progress", "Session", "without_weights"]

#: Called with (bytes that came of results, or arrived of an image; bytes in all).
Progress = Callable[[int, int], None]

#: Packets that are written before the host looks what came.
BURST = 8
#: Packets of results that are acknowledged by themselves where data, whose answer lets more data go, are on their way.
PATIENT = 4


class Session:
    """What host and board have of each other since a RESET."""

    def __init__(self, wire: Wire, identity: Identity, patience: Patience, round_trip: float) -> None:
        self.wire, self.identity, self.patience = wire, identity, patience
        self.clock, self.statistics = wire.clock, wire.statistics
        self.pace = Pace(patience, round_trip)
        self.outbox, self.collector = Outbox(identity.room), Collector()
        #: Bytes of results that are to come, and of data to send.
        self.wanted = self.size = 0
        self.progress: Progress | None = None
        #: When something right came, when something new came, since when an answer is waited for.
        self.heard = self.moved = self.timer = self.clock()
        self.unanswered = 0
        self.unsettled = Unanswered()
        #: The packet of results that was missing when the host last asked for it.
        self.gap: int | None = None
        #: Packets of results that came and that the board does not know to have arrived.
        self.owed = 0
        #: When the packets from `outbox.base` on were sent; None for those sent again.
        self.sent: deque[float | None] = deque()

    def exchange(self, data: bytes, progress: Progress | None = None) -> bytes:
        """The outputs of the whole frames `data`.  LinkFailed where they do not come or might be others."""
        self.collector.data.clear()
        self.run(data, len(data) // self.identity.bytes_in * self.identity.bytes_out, progress)
        if self.owed:
            self.acknowledge()
        return bytes(self.collector.data)

    def fill(self, image: bytes, progress: Progress | None = None) -> None:
        """All bytes of an image to the board, after a CLEAR.  LinkFailed where they do not arrive."""
        self.run(image, 0, progress)

    def run(self, data: bytes, wanted: int, progress: Progress | None) -> None:
        """Send `data`, and take `wanted` bytes of results."""
        self.outbox.offer(data)
        self.wanted, self.progress, self.size = wanted, progress, len(data)
        self.heard = self.moved = self.timer = self.clock()
        while len(self.collector.data) < self.wanted or not self.outbox.done:
            more = self.send()
            packets = self.wire.receive(0.0 if more else self.timer + self.pace.wait - self.clock())
            if packets:
                self.heard, self.unanswered = self.clock(), 0
            for packet in packets:
                self.take(packet)
            self.look_at_the_clock()

    def send(self) -> bool:
        """Put on the line what has room; whether there may be more."""
        packets: list[Packet] = []
        waiting = self.outbox.in_flight
        while len(packets) < BURST:
            place, again = self.outbox.in_flight, self.outbox.again
            found = self.outbox.next()
            if found is None:
                break
            if again:
                self.sent[place] = None
                self.statistics.resent += 1
            else:
                self.sent.append(self.clock())
            self.unsettled.add(self.outbox.cursor - 1, self.clock())
            packets.append(Packet(Kind.DATA, found[0], self.collector.acknowledge, found[1]))
        if packets:
            if not waiting:
                self.timer = self.clock()
            self.owed = 0
            self.wire.send(*packets)
        elif self.owed and (not self.outbox.in_flight or self.owed >= PATIENT):
            self.acknowledge()
        return len(packets) == BURST

    def acknowledge(self) -> None:
        """Tell the board which results have come where there are no data to say it with."""
        self.wire.send(Packet(Kind.DATA, self.outbox.unexpected(), self.collector.acknowledge, b"\0"))
        self.unsettled.add(None, self.clock())
        self.owed = 0

    def poll(self) -> None:
        self.wire.send(Packet(Kind.POLL, 0, self.collector.acknowledge))
        self.unsettled.add(None, self.clock())
        self.timer = self.clock()
        self.owed = 0

    def look_at_the_clock(self) -> None:
        """Ask where an answer is late; give up where too many are."""
        now = self.clock()
        if now - self.heard > self.patience.silence and self.unanswered > 2:
            raise LinkFailed(
                f"the board on {self.wire.name} does not answer any more",
                "run again when it is powered, connected, and its bitstream loaded",
            )
        if now - self.moved > self.patience.stall:
            raise LinkFailed(
                f"the board on {self.wire.name} answers, but took no data and gave no results for "
                f"{self.patience.stall:g} s",
                "load its bitstream again",
            )
        if now >= self.timer + self.pace.wait:
            self.pace.asked()
            self.unanswered += 1
            self.unsettled.forget(now - self.pace.late)
            self.poll()

    def take(self, packet: Packet) -> None:
        if packet.kind == Kind.STATUS and (status := Status.of(packet)) is not None:
            self.take_status(status)
        elif packet.kind == Kind.RESULT and packet.payload:
            self.take_result(packet)
        elif packet.kind == Kind.IDENTITY:
            self.lost("started anew")
        elif (memory := Memory.of(packet)) is not None:
            raise without_weights(self.wire.name, memory)
        else:
            self.statistics.unknown += 1

    def take_status(self, status: Status) -> None:
        arrived = self.outbox.status(status.expected, status.room)
        if arrived is None:
            self.lost("asks for data that was never sent to it, or that it has already")
        elif arrived:
            for _ in range(arrived):
                begun = self.sent.popleft()
                if begun is not None:
                    self.pace.sample(self.clock() - begun)
            self.unsettled.settle(self.outbox.base - 1)
            self.progressed()
            if self.progress is not None and not self.wanted:
                self.progress(self.size - self.outbox.left, self.size)
        elif self.outbox.in_flight and self.unsettled.dropped(self.outbox.base):
            self.outbox.go_back()

    def take_result(self, packet: Packet) -> None:
        arrival = self.collector.take(packet.sequence, packet.payload)
        if arrival is Arrival.REPEAT:
            self.statistics.repeated += 1
        elif arrival is Arrival.NEXT:
            self.check(len(packet.payload))
            self.owed += 1
            self.progressed()
            if self.progress is not None:
                self.progress(len(self.collector.data), self.wanted)
        elif self.gap != self.collector.expected:  # once; where the answer is lost, the clock asks again
            self.gap = self.collector.expected
            self.statistics.gaps += 1
            self.poll()

    def check(self, length: int) -> None:
        """A packet of results ends where a frame ends, and none comes unasked."""
        total, size = len(self.collector.data), self.identity.bytes_out
        if total > self.wanted:
            self.lost(f"sent more than the {self.wanted} bytes of results that were asked for")
        if (total - length) // size != (total - 1) // size:
            self.lost(f"sent results across the end of a frame of {size} bytes")

    def progressed(self) -> None:
        self.moved = self.timer = self.clock()
        self.pace.answered()

    def lost(self, what: str) -> NoReturn:
        raise LinkFailed(
            f"the board on {self.wire.name} {what}",
            "it was reset, or another program uses the port: no results of this run can be trusted, so run again",
        )


#: What is wrong with a memory, and what to do.
FILL = "fill it with `hwflow program --weights`"
LOOK = "switch the board off and on, and see that it has the memory of its board file"
WITHOUT = {
    MemoryState.EMPTY: ("has none", FILL),
    MemoryState.FILLING: ("is still being filled, or read and checked", "run again in a second"),
    MemoryState.NO_ANSWER: ("is a flash that does not answer: its lines stay at one level", LOOK),
    MemoryState.WRONG_PART: (
        "is a flash with another JEDEC identifier than those of the board file",
        "is it the board that the design was made for? Else add its identifier to 'jedec_ids' of a board file of your "
        "own, with the numbers of its data sheet"),
    MemoryState.NOT_QUAD: ("is a flash that stays with two lines: its bit QE is 0 after it was set",
                           f"{LOOK}, or write 'lines: 2' into a board file of your own"),
    MemoryState.OTHER_DESIGN: ("has an image that was made for another design", FILL),
    MemoryState.DAMAGED: ("has an image that is cut or damaged: its CRC is wrong", FILL)}


def without_weights(port: str, memory: Memory) -> LinkFailed:
    """A board refuses frames, because its memory does not have the weights for them."""
    what, remedy = WITHOUT.get(memory.state, (f"has others (digest {memory.digest.hex()})", FILL))
    return LinkFailed(f"the memory of the board on {port} must have the weights of the design, but {what}", remedy)
