"""`StreamCrossing` takes a stream from one clock domain to another, a word in every cycle of the slower clock."""

from __future__ import annotations

from amaranth.hdl import Cat, DomainRenamer, Module, Mux, ResetInserter, ShapeLike, Signal, Value
from amaranth.lib import memory, stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2

from ..vendor.base import Resources, Technology
from .pipeline import flip_flops
from .queue import Queue, has_tables


def gray(binary: Value) -> Value:
    """Gray code: the codes of consecutive numbers differ in one bit."""
    return binary ^ (binary >> 1)


def binary(gray_code: Value) -> Value:
    return Cat(gray_code[k:].xor() for k in range(len(gray_code)))


class StreamCrossing(wiring.Component):
    """An asynchronous FIFO: its ends are in two clock domains, whatever the ratio of the clocks.

    The two sides exchange their counters in Gray code, so that a synchronizer never gives a wrong number.  A restart
    drops all words inside.  It begins in `target`, goes to `source` and comes back; no word from before the restart
    arrives after it.

    Parameters
    ----------
    shape
        Of the payload.
    source, target
        Clock domains.
    depth
        Words that it holds, a power of two of at least 16: so many cycles pass until a word has crossed and its place
        is known to be free again.

    Attributes
    ----------
    i, o : streams
        In `source` and in `target`.
    restart : In(1)
        In `target`, from a register; any length.
    restarted : Out(1)
        In `source`, from a register: the unit that makes the words must begin anew; no word is taken meanwhile.
    """

    def __init__(self, *, shape: ShapeLike, source: str, target: str, depth: int = 16):
        if depth < 16 or depth & (depth - 1):
            raise ValueError(f"depth of a StreamCrossing must be a power of two of at least 16, not {depth}")
        self.shape = shape
        self.source = source
        self.target = target
        self.depth = depth
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape)), "restart": In(1),
                          "restarted": Out(1)})

    @staticmethod
    def cost(*, width: int, depth: int = 16, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: words in tables, or in registers where there are none, and counters in Gray code."""
        bits = ceil_log2(depth) + 1
        control = flip_flops(9 * bits + 14, 0, technology) + Resources(lut=11 * bits + 10)
        queue = Queue.cost(width=width, depth=2)
        if technology is not None and not has_tables(technology):
            return (control + queue + Resources(lut=depth * width // 2)
                    + flip_flops(depth * width, depth * width, technology))
        table = 6 if technology is None else technology.ram_cost(width=4, depth=16).lut
        return control + queue + Resources(lut=-(-depth // 16) * -(-width // 4) * table)

    def elaborate(self, platform):
        m = Module()
        bits = ceil_log2(self.depth)
        m.submodules.words = words = memory.Memory(shape=self.shape, depth=self.depth, init=[],
                                                   attrs={"ram_style": "distributed"})
        write, read = words.write_port(domain=self.source), words.read_port(domain="comb")
        written, taken = Signal(bits + 1), Signal(bits + 1)  # words, counted in each domain
        written_code, taken_code = Signal(bits + 1), Signal(bits + 1)
        written_seen, taken_seen = Signal(bits + 1), Signal(bits + 1)
        m.submodules.to_target = FFSynchronizer(written_code, written_seen, o_domain=self.target)
        m.submodules.to_source = FFSynchronizer(taken_code, taken_seen, o_domain=self.source)
        stopped = self.stops(m)

        space, push, next_written = Signal(), Signal(), Signal(bits + 1)
        inside = Signal(bits + 1)  # words; the FIFO is full if the highest bit is set; `push` arrives late in a cycle
        m.d.comb += [
            self.i.ready.eq(space & ~self.restarted), push.eq(self.i.valid & self.i.ready),
            next_written.eq(written + push), inside.eq(written - binary(taken_seen)),
            write.en.eq(push), write.addr.eq(written), write.data.eq(self.i.payload)]
        m.d[self.source] += [
            written.eq(Mux(self.restarted, 0, next_written)),
            written_code.eq(Mux(self.restarted, 0, gray(next_written))),
            space.eq(~self.restarted & ~inside[-1] & ~(inside[:-1].all() & push))]

        # The FIFO and the registers separate the path of the reader's `ready` from that of the codes.
        queue = Queue(shape=self.shape, depth=2)
        m.submodules.queue = ResetInserter({self.target: stopped})(DomainRenamer(self.target)(queue))
        known, pull = Signal(bits + 1), Signal()
        m.d.comb += [
            queue.i.valid.eq(~stopped & (known != taken)), pull.eq(queue.i.valid & queue.i.ready),
            queue.i.payload.eq(read.data), read.addr.eq(taken)]
        m.d[self.target] += [
            known.eq(binary(written_seen)), taken.eq(Mux(stopped, 0, taken + pull)), taken_code.eq(gray(taken))]
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m

    def stops(self, m: Module) -> Signal:
        """Each side stops, and starts again when the other one has stopped; high while `target` is stopped."""
        asked, answered, seen_asked, wanted = Signal(), Signal(), Signal(), Signal()
        m.submodules.asked = FFSynchronizer(asked, seen_asked, o_domain=self.source)
        m.submodules.answered = FFSynchronizer(self.restarted, answered, o_domain=self.target)
        m.d[self.source] += self.restarted.eq(seen_asked)
        stopped = Signal(name="stopped")
        m.d.comb += stopped.eq(self.restart | wanted | asked | answered)
        m.d[self.target] += wanted.eq(self.restart | (wanted & (asked | answered)))
        with m.If(~asked & ~answered):
            m.d[self.target] += asked.eq(wanted)
        with m.Elif(asked & answered):
            m.d[self.target] += asked.eq(0)
        return stopped
