"""`SharedReader`: the images of several streams from one memory that is slow, through one RAM with a ring for each."""

from __future__ import annotations

from amaranth.hdl import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out
from amaranth.utils import ceil_log2, exact_log2

from ..stream.credit import CreditCounter
from ..stream.pipeline import delay, flip_flops
from ..stream.queue import Queue
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from ..vendor.memory import Holds
from .part import request_of
from .weight_reader import in_turn, one_of
from .weight_sharing import QUEUED, RingShape, WeightSharing


class BurstRing(wiring.Component):
    """A ring of places for a burst each, in a memory that other rings share.

    A burst is written from the beginning of its place, and read when all of it is there.

    Parameters
    ----------
    shape
        Where it is, and how long bursts are.

    Attributes
    ----------
    room : Out(1)
        There is a place for another burst; counts every `asked` of the cycles before.
    asked : In(1)
        A burst was asked for; its place is taken.
    write_addr : Out
        Where the burst that comes begins.
    came, short : In(1)
        The last piece of a burst is written; it was the last burst of the image.
    there : Out(1)
        A piece can be read, at `read_addr`; from registers.
    step : In(1)
        It is read.  Only with `there`.
    """

    def __init__(self, *, shape: RingShape):
        self.shape = shape
        bits = ceil_log2(shape.end)
        super().__init__({"room": Out(1), "asked": In(1), "write_addr": Out(bits), "came": In(1), "short": In(1),
                          "there": Out(1), "read_addr": Out(bits), "step": In(1)})

    @staticmethod
    def cost(shape: RingShape, technology: Technology | None = None) -> Resources:
        """LUT and FF estimated: two places of the ring, the place in a burst, and what counts bursts."""
        place, inside = ceil_log2(shape.end) - shape.bits, shape.bits
        counters = 2 * place + inside
        return (CreditCounter.cost(words=shape.places) + Queue.cost(width=1, depth=shape.places, technology=technology)
                + Resources(lut=counters + 2 * place + inside // 2 + 2, ff=counters))

    def elaborate(self, platform):
        m = Module()
        shape = self.shape
        # Of each burst that is there, whether it is the last one of the image.
        m.submodules.bursts = bursts = Queue(shape=1, depth=shape.places)
        m.submodules.credit = credit = CreditCounter(words=shape.places, take=1)
        inside, last = Signal(shape.bits), Signal()
        write, read = (self.place(m, name) for name in ("write", "read"))
        is_short = shape.short != shape.burst
        m.d.comb += [
            self.room.eq(credit.credit), credit.taken.eq(self.asked), credit.given.eq(bursts.o.ready),
            bursts.i.valid.eq(self.came), bursts.i.payload.eq(self.short & is_short),
            self.there.eq(bursts.o.valid), bursts.o.ready.eq(self.step & last),
            last.eq(inside == Mux(bursts.o.payload, shape.short - 1, shape.burst - 1)),
            self.write_addr.eq(Cat(inside & 0, write)), self.read_addr.eq(Cat(inside, read))]
        with m.If(self.step):
            m.d.sync += inside.eq(Mux(last, 0, inside + 1))
        self.moved(m, write, self.came)
        self.moved(m, read, bursts.o.ready)
        return m

    def place(self, m: Module, name: str) -> Signal:
        """The number of a place, counted from the beginning of the memory."""
        return Signal(range(self.shape.end >> self.shape.bits), init=self.shape.first, name=name)

    def moved(self, m: Module, place: Signal, step: Signal) -> None:
        with m.If(step):
            m.d.sync += place.eq(Mux(place == self.shape.first + self.shape.places - 1, self.shape.first, place + 1))


class SharedReader(wiring.Component):
    """Asks for a burst of one stream after the other, each only when a ring of that stream has a place for all of it.

        read ─▶ RAM with a `BurstRing` for each stream ─┬▶ register or queue ─▶ o0
                                                        ├▶ register or queue ─▶ o1

    So what it asked for it takes at once.  Streams take turns, and all read ahead, over ends of frames too.  Bursts of
    a round stand side by side in the memory, at a multiple of a power of two, so an address is the number of the round
    and a constant.

    The RAM takes a piece in a cycle and gives one, to the first stream that has a piece there and room for it, in the
    order of `WeightSharing.by_pace`.

    Parameters
    ----------
    sharing
        The memory, its streams, and their bursts.
    technology
        Makes the RAM.

    Attributes
    ----------
    enable : In(1)
        The images are in the memory.
    request : Out(stream of `request_of(part)`)
    read, o0, o1, ... : streams of pieces of words
        What was asked for; the image of each stream.

    A restart is a reset; `enable` must be low then.
    """

    def __init__(self, *, sharing: WeightSharing, technology: Technology):
        self.sharing = sharing
        self.technology = technology
        self.pieces = stream.Signature(sharing.part.piece)
        super().__init__({
            "enable": In(1), "request": Out(stream.Signature(request_of(sharing.part))), "read": In(self.pieces),
            **{f"o{n}": Out(self.pieces) for n in range(len(sharing.streams))}})

    @staticmethod
    def cost(*, sharing: WeightSharing, technology: Technology) -> Resources:
        """LUT and FF estimated, RAM exact."""
        count, bits = len(sharing.streams), sharing.part.piece
        turns = sum(ceil_log2(turns) for turns in sharing.turns)
        inside, address = max(ring.bits for ring in sharing.rings), ceil_log2(sharing.ring_pieces)
        cost = technology.ram_cost(width=bits, depth=sharing.ring_pieces, name="bursts", holds=Holds.QUEUE)
        for n, ring in enumerate(sharing.rings):
            cost += BurstRing.cost(ring, technology)
            if sharing.periods[n] == QUEUED:
                depth = QueuedOutput.DEPTH
                cost += Queue.cost(width=bits, depth=depth, technology=technology) + CreditCounter.cost(words=depth)
            else:
                cost += Resources(lut=2) + flip_flops(bits + sharing.periods[n], bits, technology)
        selected = max(ceil_log2(turns) for turns in sharing.turns) + address + (address - exact_log2(min(
            1 << ring.bits for ring in sharing.rings)))
        control = fitted("SharedReader", streams=count, place_bits=inside)
        return cost + control + Resources(lut=turns + count // 2 * 2 * selected, ff=turns + inside)

    def elaborate(self, platform):
        m = Module()
        sharing = self.sharing
        self.rings = [BurstRing(shape=shape) for shape in sharing.rings]
        for n, ring in enumerate(self.rings):
            m.submodules[f"ring{n}"] = ring
        m.submodules.ram = self.ram = self.technology.ram(
            width=sharing.part.piece, depth=sharing.ring_pieces, name="bursts")
        self.writes(m, *self.requests(m))
        self.reads(m)
        return m

    def requests(self, m: Module) -> tuple[Signal, Signal, Signal]:
        """Asks for one burst after the other.

        Gives one bit for each stream: whose burst comes; whether it is the last one of the image; and what is to be
        high when its last piece has come.
        """
        sharing, request = self.sharing, self.request.payload
        moves, ends, idle, sent, taken = Signal(), Signal(), Signal(), Signal(), Signal()
        chosen = in_turn(m, Cat(ring.room for ring in self.rings), moves)
        lasts, firsts, ends_at = [], [], []
        for n, turns in enumerate(sharing.turns):
            turn, last = Signal(range(turns), name=f"turn{n}"), Signal(name=f"last{n}")
            m.d.comb += [last.eq(turn == turns - 1), self.rings[n].asked.eq(chosen[n] & moves)]
            with m.If(self.rings[n].asked):
                m.d.sync += turn.eq(Mux(last, 0, turn + 1))
            first, stride = sharing.firsts[n], exact_log2(sharing.stride)
            end, short = (first + words - 1 for words in (sharing.bursts[n], sharing.last_bursts[n]))
            firsts.append(Cat(C(first, stride), turn))
            ends_at.append(Cat(Mux(last, C(short, stride), C(end, stride)), turn))
            lasts.append(last)
        m.d.comb += [
            request.first.eq(one_of(chosen, firsts)), request.last.eq(one_of(chosen, ends_at)), request.write.eq(0),
            self.request.valid.eq(self.enable & chosen.any() & ~sent),
            taken.eq(self.request.valid & self.request.ready), moves.eq((sent | taken) & (idle | ends))]
        with m.If(taken):
            m.d.sync += sent.eq(~moves)
        with m.Elif(moves):
            m.d.sync += sent.eq(0)
        whose, short = Signal(len(chosen), name="whose"), Signal(name="short")
        m.d.comb += idle.eq(~whose.any())
        with m.If(moves):
            m.d.sync += [whose.eq(chosen), short.eq((chosen & Cat(lasts)).any())]
        with m.Elif(ends):
            m.d.sync += whose.eq(0)
        return whose, short, ends

    def writes(self, m: Module, whose: Signal, short: Signal, ends: Signal) -> None:
        """Each piece is written to the next place of the burst that comes; drives `ends` with its last one."""
        rings, shapes = self.rings, self.sharing.rings
        place = Signal(max(shape.bits for shape in shapes), name="place")
        left = [Mux(short, shape.short - 1, shape.burst - 1) for shape in shapes]
        width = max(len(each) for each in left)
        m.d.comb += [
            self.read.ready.eq(1), self.ram.write_en.eq(self.read.valid), self.ram.write_data.eq(self.read.payload),
            self.ram.write_addr.eq(one_of(whose, [ring.write_addr for ring in rings]) | place),
            ends.eq(self.read.valid & (place == one_of(whose, [Cat(each, C(0, width))[:width] for each in left])))]
        with m.If(self.read.valid):
            m.d.sync += place.eq(Mux(ends, 0, place + 1))
        for n, ring in enumerate(rings):
            m.d.comb += [ring.came.eq(ends & whose[n]), ring.short.eq(short)]

    def reads(self, m: Module) -> None:
        """A piece a cycle, for the first stream that wants one."""
        wants = [self.output(m, n) for n in range(len(self.rings))]
        before: Value = C(0, 1)
        grants = [C(0, 1)] * len(wants)
        for n in self.sharing.by_pace:
            grants[n], before = wants[n].wants & ~before, before | wants[n].wants
        granted = Signal(len(wants))
        m.d.comb += [granted.eq(Cat(grants)),
                     self.ram.read_addr.eq(one_of(granted, [ring.read_addr for ring in self.rings]))]
        for n, ring in enumerate(self.rings):
            m.d.comb += [ring.step.eq(granted[n]), wants[n].granted.eq(granted[n])]

    def output(self, m: Module, n: int) -> PieceOutput:
        """Build what is between the RAM and `o<n>`."""
        period = self.sharing.periods[n]
        m.submodules[f"output{n}"] = output = (QueuedOutput if period == QUEUED else PieceOutput)(
            width=self.sharing.part.piece, latency=self.technology.timing.ram, period=period)
        m.d.comb += [output.there.eq(self.rings[n].there), output.data.eq(self.ram.read_data)]
        wiring.connect(m, output.o, wiring.flipped(getattr(self, f"o{n}")))
        return output


class PieceOutput(wiring.Component):
    """A register with a piece.  The next one is read when it is empty or leaves, `period` cycles after the one before,
    or later.

    Parameters
    ----------
    width
        Of a piece.
    latency, period
        From an address to its data; `period` is more.

    Attributes
    ----------
    there, wants, granted : In(1), Out(1), In(1)
        There is a piece; it wants one; its address is at the RAM.
    data : In(width)
        From the RAM.
    o : stream of pieces
    """

    def __init__(self, *, width: int, latency: int, period: int):
        self.width, self.latency, self.period = width, latency, period
        super().__init__({"there": In(1), "wants": Out(1), "granted": In(1), "data": In(width),
                          "o": Out(stream.Signature(width))})

    def elaborate(self, platform):
        m = Module()
        before = self.before(m, self.period - 1)
        m.d.comb += self.wants.eq(self.there & ~Cat(before).any() & (~self.o.valid | self.o.ready))
        with m.If(before[self.latency - 1]):
            m.d.sync += [self.o.valid.eq(1), self.o.payload.eq(self.data)]
        with m.Elif(self.o.ready):
            m.d.sync += self.o.valid.eq(0)
        return m

    def before(self, m: Module, cycles: int) -> list[Value]:
        """`granted` of the last cycles, the last one first."""
        values: list[Value] = [self.granted]
        for n in range(cycles):
            values.append(delay(m, values[-1], 1, f"granted{n}", reset_less=False))
        return values[1:]


class QueuedOutput(PieceOutput):
    """A queue with room for all that is on its way, so `period` may be less."""

    #: For a piece in every other cycle: those that are on their way, and the way of a place that is freed.
    DEPTH = 3

    def elaborate(self, platform):
        m = Module()
        m.submodules.queue = queue = Queue(shape=self.width, depth=self.DEPTH)
        m.submodules.credit = credit = CreditCounter(words=queue.capacity, take=1)
        before = self.before(m, max(self.latency, self.period - 1))
        m.d.comb += [
            self.wants.eq(self.there & credit.credit & ~Cat(before[:self.period - 1]).any()),
            credit.taken.eq(self.granted), credit.given.eq(self.o.valid & self.o.ready),
            queue.i.payload.eq(self.data), queue.i.valid.eq(before[self.latency - 1])]
        wiring.connect(m, queue.o, wiring.flipped(self.o))
        return m
