"""Frames in, results out, between one RESET and the next: sends ahead while results come, asks for what was lost."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from hwflow.host.packets import Identity, Kind, Memory, MemoryState, Packet, Status
from hwflow.host.sliding_window import Arrival, Collector, Outbox, Unanswered
from hwflow.host.wire import LinkFailed, Wire

# When to ask again, and when to give up: by measured round trips, so a fast line is asked early, a slow one late.


#: The shortest time before the host asks again, in seconds: what an operating system takes now and then.
SHORTEST = 0.05
#: Round trips of the first, short packets that the first answer to a long one may take.
FIRST = 8.0
#: Weights of the newest sample and factor of the deviation, of RFC 6298 (retransmission timer of TCP).
GAIN, DEVIATION_GAIN, DEVIATIONS = 1 / 8, 1 / 4, 4
#: How much longer every further question waits, and how often at least a silent board is asked until it is given up:
#: where one bit of 500 is wrong, every third question has no answer.
BACK_OFF, QUESTIONS = 2.0, 16
#: The share of the board's time that a single answer may take.
SHARE = 1 / 4


@dataclass(frozen=True)
class Patience:
    """Seconds until the host gives up.  `silence`: nothing right comes from the board; `stall`: it answers, but takes
    no data and gives no results."""

    silence: float = 3.0
    stall: float = 30.0


class Pace:
    """The time to wait for an answer: smoothed round trip plus four deviations (RFC 6298), longer after each question
    without an answer, but never so long that the board is given up before it was asked many times."""

    def __init__(self, patience: Patience, first: float) -> None:
        """`first` is the round trip of a short packet, in seconds: the only one known before data are sent."""
        self.longest = patience.silence * SHARE
        self.longest_back_off = patience.silence / QUESTIONS
        self.round_trip, self.deviation = FIRST * first, 0.0
        self.factor = 1.0

    @property
    def usual(self) -> float:
        """Seconds in which nearly every answer comes that is not lost."""
        return max(self.round_trip + DEVIATIONS * self.deviation, SHORTEST)

    @property
    def wait(self) -> float:
        """Seconds until the host asks."""
        return min(self.usual * self.factor, max(self.usual, self.longest_back_off), self.longest)

    @property
    def late(self) -> float:
        """Seconds after which no answer comes any more."""
        return max(4 * self.usual, self.longest / 2)

    def sample(self, seconds: float) -> None:
        """The round trip of a packet that was sent once (a repeated one says nothing: Karn's rule)."""
        off = seconds - self.round_trip
        self.deviation += DEVIATION_GAIN * (abs(off) - self.deviation)
        self.round_trip += GAIN * off

    def asked(self) -> None:
        self.factor *= BACK_OFF

    def answered(self) -> None:
        self.factor = 1.0


#: Called with (bytes that came of results, or arrived of an image; bytes in all).
Progress = Callable[[int, int], None]
#: Whole frames to send, any number; None: there are none at the moment.
Item = bytes | None
#: What a source gives that has ended.
END = object()

#: Packets that are written before the host looks what came.
BURST = 8
#: Packets of results that are acknowledged by themselves where data, whose answer lets more data go, are on their way.
PATIENT = 4
#: Seconds until a source that has nothing at the moment is asked again.
PAUSE = 1e-3
#: Packets in a row that say what cannot be, which may be late ones where a line does not keep the order.
LATE = 16
#: STATUS in a row without news that mean there, as in TCP, that data were lost.
SAME = 3


class Session:
    """The packets and counts that host and board have of each other since a RESET.

    Its clock stands still while the caller of `stream`, or the source, has its turn: the board is not late then.
    """

    def __init__(self, wire: Wire, identity: Identity, patience: Patience, round_trip: float) -> None:
        self.wire, self.identity, self.patience = wire, identity, patience
        self.statistics = wire.statistics
        #: Seconds of the caller's and the source's turns.
        self.away = 0.0
        self.pace = Pace(patience, round_trip)
        self.outbox, self.collector = Outbox(identity.room, identity.largest), Collector()
        #: Bytes of results that were asked for, that came, and of data to send.
        self.wanted = self.came = self.size = 0
        self.progress: Progress | None = None
        #: When something right came, when something new came, since when an answer is waited for.
        self.heard = self.moved = self.timer = self.clock()
        self.unanswered = 0
        #: Packets in a row that said what cannot be.
        self.strange = 0
        #: STATUS in a row that said nothing new, and until when they may answer what was repeated.
        self.same, self.repeated_until = 0, 0.0
        self.unsettled = Unanswered()
        #: The packet of results that was missing when the host last asked for it.
        self.gap: int | None = None
        #: Packets of results that came and that the board does not know to have arrived.
        self.owed = 0
        #: When the packets from `outbox.base` on were sent; None for those sent again.
        self.sent: deque[float | None] = deque()

    def clock(self) -> float:
        """Seconds of the wire's clock, without the turns of others."""
        return self.wire.clock() - self.away

    def exchange(self, data: bytes, progress: Progress | None = None) -> bytes:
        """The outputs of the whole frames `data`.  LinkFailed where they do not come or might be others."""
        return b"".join(self.stream((data,), progress))

    def fill(self, image: bytes, progress: Progress | None = None) -> None:
        """All bytes of an image to the board, after a CLEAR.  LinkFailed where they do not arrive."""
        for _ in self._play(iter((image,)), 0, progress):
            pass

    def stream(self, source: Iterable[Item], progress: Progress | None = None) -> Iterator[bytes]:
        """The outputs of each item of `source`, in order, as soon as they are all there.

        An item is taken while less waits to be sent than the board has room for, and results are read while the caller
        waits for some: so neither side runs away from the other.  LinkFailed where results do not come or might be
        others.
        """
        yield from self._play(iter(source), self.identity.bytes_out, progress)
        if self.owed:
            self.acknowledge()

    def _play(self, source: Iterator[Item], bytes_out: int, progress: Progress | None) -> Iterator[bytes]:
        """Send the items, and give `bytes_out` bytes of results for each of their frames."""
        self.collector.data.clear()
        self.wanted = self.came = self.size = 0
        self.progress = progress
        self.heard = self.moved = self.timer = self.clock()
        under_way: deque[int] = deque()  # bytes of the results of each item
        ended = False
        while not (ended and not under_way and self.outbox.done):
            while under_way and len(self.collector.data) >= under_way[0]:
                results = self.collector.away(under_way.popleft())
                since = self.wire.clock()
                yield results
                self.away += self.wire.clock() - since
            pause = False
            if not ended and self.hungry:
                since = self.wire.clock()
                item = next(source, END)
                self.away += self.wire.clock() - since
                ended, pause = item is END, item is None
                if isinstance(item, bytes):
                    under_way.append(len(item) // self.identity.bytes_in * bytes_out)
                    self.offer(item, under_way[-1])
            more = self.send(short=ended or pause)
            self.listen(0.0 if more or (self.hungry and not ended and not pause) else PAUSE if pause else None)

    @property
    def hungry(self) -> bool:
        """Whether there is room for more data."""
        return self.outbox.uncut < self.outbox.capacity

    def offer(self, data: bytes, results: int) -> None:
        """Send `data`, and take `results` bytes of results for them."""
        self.outbox.offer(data)
        self.size += len(data)
        self.wanted += results

    def listen(self, limit: float | None) -> None:
        """Take what comes; waits for it until the next question is due, and at most `limit` seconds."""
        wait = self.timer + self.pace.wait - self.clock()
        packets = self.wire.receive(wait if limit is None else min(wait, limit))
        if packets:
            self.heard, self.unanswered = self.clock(), 0
        for packet in packets:
            self.take(packet)
        if not self.outbox.done or self.came < self.wanted:
            self.look_at_the_clock()
        else:  # nothing is under way
            self.heard = self.moved = self.timer = self.clock()

    def send(self, *, short: bool = True) -> bool:
        """Put on the line what has room; whether there may be more.

        Without `short`, as long as more data come, packets are full where the board is not idle (RFC 896).
        """
        packets: list[Packet] = []
        waiting = self.outbox.in_flight
        while len(packets) < BURST:
            place, again = self.outbox.in_flight, self.outbox.again
            cut = self.outbox.next(short=short or not self.outbox.in_flight)
            if cut is None:
                break
            if again:
                self.sent[place] = None
                self.statistics.resent += 1
            else:
                self.sent.append(self.clock())
            self.unsettled.add(self.outbox.cursor - 1, self.clock())
            packets.append(Packet(Kind.DATA, cut[0], self.collector.acknowledge, cut[1]))
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
            self.same = SAME
            self.poll()

    def take(self, packet: Packet) -> None:
        if packet.kind == Kind.STATUS and (status := Status.of(packet)) is not None:
            self.take_status(status)
        elif packet.kind == Kind.RESULT and 0 < len(packet.payload) <= self.identity.largest:
            self.take_result(packet)
        elif packet.kind == Kind.IDENTITY:
            if not self.late():
                self.lost("started anew")
        elif (memory := Memory.of(packet)) is not None:
            if not self.late():
                raise without_weights(self.wire.name, memory)
        else:
            self.statistics.unknown += 1

    def late(self) -> bool:
        """Whether a packet that says what cannot be may have been on its way for long."""
        self.strange += 1
        return not self.wire.line.ordered and self.strange <= LATE

    def take_status(self, status: Status) -> None:
        arrived = self.outbox.status(status.expected, status.room)
        if arrived is None:
            if not self.late():
                self.lost("asks for data that was never sent to it, or that it has already")
            return
        self.strange = 0
        if arrived:
            for _ in range(arrived):
                begun = self.sent.popleft()
                if begun is not None:
                    self.pace.sample(self.clock() - begun)
            self.same = 0
            self.unsettled.settle(self.outbox.base - 1)
            self.progressed()
            if self.progress is not None and not self.wanted:
                self.progress(self.size - self.outbox.left, self.size)
        elif self.outbox.in_flight and self.dropped():
            self.outbox.go_back()

    def dropped(self) -> bool:
        """A STATUS says nothing new: whether the board has not got data that are on the line.

        Where the line keeps the order it is known which packet a STATUS answers.  Else several of them mean it, but
        those that answer what was sent before the last repetition do not.
        """
        if self.wire.line.ordered:
            return self.unsettled.dropped(self.outbox.base)
        self.same += 1
        now = self.clock()
        if self.same < SAME or now < self.repeated_until:
            return False
        self.same, self.repeated_until = 0, now + self.pace.round_trip + DEVIATIONS * self.pace.deviation
        return True

    def take_result(self, packet: Packet) -> None:
        arrival = self.collector.take(packet.sequence, packet.payload)
        if arrival is Arrival.REPEAT:
            self.statistics.repeated += 1
        elif arrival is Arrival.NEXT:
            self.came += len(packet.payload)
            self.check(len(packet.payload))
            self.owed += 1
            self.progressed()
            if self.progress is not None:
                self.progress(self.came, self.wanted)
        elif self.gap != self.collector.expected:  # once; where the answer is lost, the clock asks again
            self.gap = self.collector.expected
            self.statistics.gaps += 1
            self.poll()

    def check(self, length: int) -> None:
        """A packet of results ends where a frame ends, and none comes unasked."""
        total, size = self.came, self.identity.bytes_out
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
