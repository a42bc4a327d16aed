"""`BurstTurns`: readers of a memory take turns, a request each."""

from __future__ import annotations

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..stream.pipeline import flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from .part import MemoryPart, request_of

__all__ = ["BurstTurns", "in_turn", "lowest", "one_of"]

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
