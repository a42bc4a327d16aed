"""`WeightReader`: an image in memory as a stream of words, burst by burst; `BurstTurns`: readers take turns."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..stream.queue_choice import QueueChoice, make_queue
from ..vendor.base import Resources, Technology
from .part import MemoryPart, request_of


class WeightReader(wiring.Component):
    """Asks for a burst only when its own queue has room for all of it, so what it asked for it takes at once.

    It reads ahead, over ends of frames too.

    Parameters
    ----------
    part
        The memory.
    first, words
        Address and length of the image.
    burst
        Words that it asks for at once; the last burst of an image may be shorter.
    depth
        Words of the queue; with 0 it has none, and takes words as `o` is ready.  Then it must be alone at the memory.
    technology
        Makes the queue.

    Attributes
    ----------
    enable : In(1)
        The image is in the memory; must stay high until `restart`.
    restart : In(1)
        Begins with the first word of the image again; the same signal as the controller's.
    request : Out(stream of `request_of(part)`)
    read, o : streams of words, or of their pieces
        What was asked for; what was read.
    """

    def __init__(self, *, part: MemoryPart, first: int, words: int, burst: int, depth: int = 0,
                 technology: Technology | None = None):
        if depth and part.piece < part.width:
            raise ValueError(f"depth of a WeightReader must be 0 at a memory that gives pieces of words, not {depth}")
        if depth and depth < burst:
            raise ValueError(f"depth of the queue of a WeightReader must be at least {burst}, the words of a burst, "
                             f"not {depth}")
        self.first, self.words, self.burst = first, words, burst
        self.width, self.depth, self.technology = part.piece, depth, technology
        super().__init__({
            "enable": In(1), "restart": In(1), "request": Out(stream.Signature(request_of(part))),
            "read": In(stream.Signature(part.piece)), "o": Out(stream.Signature(part.piece))})

    @property
    def turns(self) -> int:
        """Bursts of the image."""
        return -(-self.words // self.burst)

    @property
    def spared(self) -> int:
        """Words by which the last burst is shorter."""
        return self.turns * self.burst - self.words

    @property
    def capacity(self) -> int:
        """Words that may be in the queue and on their way to it."""
        return self.choice.capacity

    @property
    def choice(self) -> QueueChoice:
        return QueueChoice(width=self.width, depth=self.depth, technology=self.technology)

    @staticmethod
    def cost(*, part: MemoryPart, first: int, words: int, burst: int, depth: int = 0,
             technology: Technology | None = None) -> Resources:
        """LUT and FF estimated, RAM exact: the queue, its credit, two addresses, and the bursts that are left."""
        turns = -(-words // burst)
        walk = 2 * ceil_log2(first + words) + ceil_log2(turns) if turns > 1 else 0
        queue = Resources()
        if depth:
            choice = QueueChoice(width=part.width, depth=depth, technology=technology)
            queue = choice.cost.within("words") + CreditCounter.cost(
                words=choice.capacity, take=burst, give=1 + turns * burst - words)
        return queue + Resources(lut=2 * walk, ff=walk)

    def elaborate(self, platform):
        m = Module()
        last_burst = self.requests(m)
        credit = self.queued(m, last_burst) if self.depth else 1
        if not self.depth:
            wiring.connect(m, wiring.flipped(self.read), wiring.flipped(self.o))
        m.d.comb += self.request.valid.eq(self.enable & ~self.restart & credit)
        return m

    def requests(self, m: Module):
        """Drives the addresses of the next burst; high where it is the last one of the image."""
        end = self.first + self.words - 1
        asked = self.request.payload
        m.d.comb += asked.write.eq(0)
        if self.turns == 1:
            m.d.comb += [asked.first.eq(self.first), asked.last.eq(end)]
            return 1
        begin = Signal.like(asked.first, init=self.first, name="begin")
        stop = Signal.like(asked.last, init=self.first + self.burst - 1, name="stop")
        left = Signal(range(self.turns), init=self.turns - 1)
        m.d.comb += [asked.first.eq(begin), asked.last.eq(stop)]
        with m.If(self.request.valid & self.request.ready):
            m.d.sync += [left.eq(left - 1), begin.eq(begin + self.burst),
                         stop.eq(Mux(left == 1, end, stop + self.burst))]
        with m.If(self.restart | (self.request.valid & self.request.ready & (left == 0))):
            m.d.sync += [left.eq(left.init), begin.eq(begin.init), stop.eq(stop.init)]
        return left == 0

    def queued(self, m: Module, last_burst) -> Signal:
        """A queue between `read` and `o`; high where it has room for a burst besides what is on its way."""
        queue = make_queue(shape=self.width, depth=self.depth, technology=self.technology)
        credit = CreditCounter(words=self.capacity, take=self.burst, give=1 + self.spared)
        m.submodules.queue, m.submodules.credit = (ResetInserter(self.restart)(each) for each in (queue, credit))
        wiring.connect(m, wiring.flipped(self.read), queue.i)
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        taken = self.request.valid & self.request.ready
        m.d.comb += [
            credit.taken.eq(taken),
            credit.given.eq((self.o.valid & self.o.ready) + Mux(taken & last_burst, self.spared, 0))]
        return credit.credit


#: Requests whose words have not all come: one in the controller, and those whose words are behind its commands.
UNDER_WAY = 4


class BurstTurns(wiring.Component):
    """Chooses whose request comes next, and gives each word to who asked for it.

    After a request of reader k comes one of k + 1 if it has one, else of k + 2, and so on round and round.  The next
    request is chosen while the controller works on the one before, so that it waits when that ends.

    Parameters
    ----------
    part
        The memory.
    readers
        How many, at least 2.
    longest
        Most words of a request.

    Attributes
    ----------
    request0, read0, request1, ...
        The streams of each reader, as of a controller.  Readers take words as they come; one that does not stops all.
    request, read
        The streams to a controller.

    A restart is a reset; it must reset the controller and all readers as well.
    """

    def __init__(self, *, part: MemoryPart, readers: int, longest: int):
        if readers < 2:
            raise ValueError(f"readers of BurstTurns must be at least 2, not {readers}")
        self.readers = readers
        request, words = stream.Signature(request_of(part)), stream.Signature(part.width)
        self.turn = data.StructLayout({"reader": readers, "others": max(ceil_log2(longest), 1)})
        super().__init__({
            **{f"request{n}": In(request) for n in range(readers)}, **{f"read{n}": Out(words) for n in range(readers)},
            "request": Out(request), "read": In(words)})

    @staticmethod
    def cost(*, part: MemoryPart, readers: int, longest: int, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: what multiplexes two addresses, the choice, and the turns that are under way."""
        address, count = ceil_log2(part.words), ceil_log2(longest)
        return (Queue.cost(width=readers + count, depth=UNDER_WAY, technology=technology)
                + Resources(lut=2 * address * (readers // 2) + 4 * readers + 3 * count + 8)
                + flip_flops(2 * readers + count, 0, technology))

    def elaborate(self, platform):
        m = Module()
        m.submodules.turns = turns = Queue(shape=self.turn, depth=UNDER_WAY)
        requests = [getattr(self, f"request{n}") for n in range(self.readers)]
        sent = Signal()
        chosen = in_turn(m, Cat(each.valid for each in requests), sent)
        asked = self.request.payload
        m.d.comb += [
            self.request.valid.eq(chosen.any() & turns.i.ready), sent.eq(self.request.valid & self.request.ready),
            turns.i.valid.eq(sent), turns.i.payload.reader.eq(chosen),
            turns.i.payload.others.eq(asked.last - asked.first)]
        for name in ("first", "last"):
            m.d.comb += asked[name].eq(one_of(chosen, [each.payload[name] for each in requests]))
        for n, each in enumerate(requests):
            m.d.comb += each.ready.eq(chosen[n] & sent)
        self.words(m, turns.o)
        return m

    def words(self, m: Module, turn) -> None:
        """Each word goes to the reader whose turn it is; the last of its words ends the turn."""
        passed = Signal.like(turn.payload.others)
        moves, taken = Signal(), []
        for n in range(self.readers):
            to = getattr(self, f"read{n}")
            here = turn.valid & turn.payload.reader[n]
            m.d.comb += [to.payload.eq(self.read.payload), to.valid.eq(self.read.valid & here)]
            taken.append(here & to.ready)
        m.d.comb += [
            self.read.ready.eq(Cat(taken).any()), moves.eq(self.read.valid & self.read.ready),
            turn.ready.eq(moves & (passed == turn.payload.others))]
        with m.If(moves):
            m.d.sync += passed.eq(passed + 1)
            with m.If(turn.ready):
                m.d.sync += passed.eq(0)


def in_turn(m: Module, wants: Value, sent: Value) -> Signal:
    """One bit for each reader, at most one of them set: whose turn it is, of those that want one, until `sent`.

    Who has had the turn does not get the next one at once.
    """
    count = len(wants)
    chosen, after, others, next_one = Signal(count), Signal(count), Signal(count), Signal(count)
    later = others & after
    m.d.comb += [
        others.eq(wants & ~chosen),
        next_one.eq(lowest(later) | (lowest(others) & ~later.any().replicate(count)))]
    with m.If(~chosen.any() | sent):
        m.d.sync += chosen.eq(next_one)
        with m.If(others.any()):
            m.d.sync += after.eq(Cat(next_one[:n].any() for n in range(count)))
    return chosen


def lowest(bits: Value) -> Value:
    """The lowest of the bits that are set."""
    return bits & (~bits + 1)[:len(bits)]


def one_of(chosen: Signal, values: list[Value]) -> Value:
    """The value whose bit is set, else 0."""
    gated = [value & chosen[n].replicate(len(value)) for n, value in enumerate(values)]
    whole = gated[0]
    for each in gated[1:]:
        whole |= each
    return whole
