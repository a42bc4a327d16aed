"""Proofs of the units that pass streams on: queues, forks, gearboxes, and what counts room for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import lcm
from typing import NoReturn

from amaranth.hdl import Module, Mux, Signal, Value, signed, unsigned
from hwflow_rtl.join.feed import Feed, Hold
from hwflow_rtl.join.join import JoinFunction, JoinShape, JoinStageShape
from hwflow_rtl.multiply.products import Operand
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Pair, Queue
from hwflow_rtl.stream.word_join import WordJoinShape
from hwflow_rtl.vendor import Generic, Technology

from .contract import claim_stable, contract, drive, queue_helps, take
from .methods import Induction, Invariant
from .proof import Proof
from .scene import Scene

CONTRACT = "what waits stays; nothing lost, doubled or invented; order kept; nothing waits for ever"


def queue(depth: int, width: int, kind: type[Queue] = Queue) -> Scene:
    s = Scene()
    unit = kind(shape=width, depth=depth)
    inside = s.put("queue", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    follower = contract(s, unit.i, unit.o, most=unit.capacity, enough=depth, latency=unit.latency - 1)
    s.claim("level", unit.level == follower.inside)
    queue_helps(inside, unit, follower, s, "queue")
    if depth <= Queue.SHIFT_DEPTH:
        s.reach("full", follower.inside == unit.capacity)
    return s


def pair(width: int) -> Scene:
    s = Scene()
    unit = Pair(shape=width)
    s.put("pair", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    follower = contract(s, unit.i, unit.o, most=2, enough=2, latency=0)
    s.reach("full", follower.inside == 2)
    return s


def deep_queue(depth: int, width: int) -> Scene:
    s = Scene()
    unit = DeepQueue(shape=width, depth=depth, technology=Generic())
    s.put("queue", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    follower = contract(s, unit.i, unit.o, most=depth, enough=depth - unit.front, latency=unit.latency - 1)
    s.claim("level", unit.level == follower.inside)
    s.reach("full", follower.inside == depth)
    return s


def fork(depths: Sequence[int], width: int) -> Scene:
    s = Scene()
    unit = Fork(shape=width, depths=depths)
    inside = s.put("fork", unit)
    drive(s, unit.i, "i")
    followers = []
    for k, each in enumerate(unit.queues):
        sink = getattr(unit, f"o{k}")
        take(s, sink, f"o{k}")
        follower = contract(s, unit.i, sink, most=each.capacity, latency=each.latency - 1, name=f"o{k}")
        queue_helps(inside[f"queue{k}"], each, follower, s, f"queue{k}")
        followers.append((each, follower))
    full = [follower.inside >= each.depth for each, follower in followers]
    s.claim("takes_while_all_have_room", unit.i.ready | Value.cast(sum(full) != 0))
    s.reach("one_is_full", sum(full) == 1)
    return s


def gearbox(lanes_in: int, lanes_out: int, width: int) -> Scene:
    s = Scene()
    unit = Gearbox(shape=unsigned(width), lanes_in=lanes_in, lanes_out=lanes_out)
    s.put("gearbox", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    both = lcm(lanes_in, lanes_out)
    if both in (lanes_in, lanes_out):
        most, latency = both + Gearbox.SKID * min(lanes_in, lanes_out), 1
    else:
        most, latency = 2 * both + Gearbox.SKID * (lanes_in + lanes_out), 3
    contract(s, unit.i, unit.o, most=most, latency=latency, granule=both,
             ready_within=both // lanes_out * (1 if both in (lanes_in, lanes_out) else 2))
    return s


def credit(words: int, take_: int, slack: int, give: int) -> Scene:
    """A FIFO of `words` words, of which blocks take room before their words come."""
    s = Scene()
    unit = CreditCounter(words=words, take=take_, slack=slack, give=give)
    s.put("credit", unit)
    m: Module = s.m
    held = Signal(range(words + 1), name="held")  # room that blocks have taken and not given back
    start, given = s.free(1, "start"), s.free(range(give + 1), "given")
    s.assume((given <= give) & (given <= held))
    old = [unit.credit]
    for k in range(slack):  # the starter looks at the credit of up to `slack` cycles ago
        later = Signal(name=f"credit{k}")
        m.d.sync += later.eq(old[-1])
        old.append(later)
    m.d.comb += [unit.taken.eq(start & old[-1]), unit.given.eq(given)]
    m.d.sync += held.eq(held - given + Mux(unit.taken, take_, 0))
    s.claim("room_for_all", held <= words)
    quiet = Signal(range(slack + 3), name="quiet")
    m.d.sync += quiet.eq(Mux(unit.taken | (given != 0), 0, Mux(quiet == slack + 2, quiet, quiet + 1)))
    s.claim("credit_where_there_is_room",
            (quiet == 0) | (unit.credit == (words - held >= take_ * (1 + slack))))
    s.reach("all_taken", held > words - take_)
    return s


def word_join(lanes_in: int, lanes: int, chunk: int) -> Scene:
    """Words of `lanes` elements, the last one of a chunk with what is left of it."""
    s = Scene()
    shape = WordJoinShape(element=unsigned(1), lanes_in=lanes_in, lanes=lanes, chunk=chunk)
    unit = shape.build()
    s.put("join", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    words, rest = -(-chunk // lanes), chunk % lanes or lanes
    word = Signal(range(words + 1), name="word")
    with s.m.If(unit.o.valid & unit.o.ready):
        s.m.d.sync += word.eq(Mux(word == words - 1, 0, word + 1))
    s.claim("word", word < words)
    contract(s, unit.i, unit.o, most=lanes + 2 * lanes_in, latency=1, ready_within=1, granule=lanes,
             size=Mux(word == words - 1, rest, lanes))
    return s


def hold(repeats: int, width: int) -> Scene:
    s = Scene()
    unit = Hold(feed=Feed(1, repeats, Generic()), shape=width)
    s.put("hold", unit)
    drive(s, unit.i, "i")
    take(s, unit.o, "o")
    given = Signal(range(repeats), name="given")
    with s.m.If(unit.o.valid & unit.o.ready):
        s.m.d.sync += given.eq(Mux(given == repeats - 1, 0, given + 1))
    s.claim("given", given < repeats)
    contract(s, unit.i, unit.o, most=2, latency=0, enough=2, size=given == repeats - 1)
    return s


@dataclass(frozen=True)
class Weighed(JoinFunction):
    """3 a - b, which tells its operands apart."""

    def exactly(self, a: int, b: int) -> int:
        return 3 * a - b

    def unit(self, technology: Technology) -> NoReturn:
        raise NotImplementedError("it is narrow, so a table has its results")

    latency = cost = unit


def join_stage() -> Scene:
    """The n-th result is of the n-th elements of both inputs, for any n, however the inputs stall."""
    s = Scene()
    m, places = s.m, 8
    function = Weighed((Operand(unsigned(2)), Operand(unsigned(2))), signed(5))
    unit = JoinStageShape(streams=JoinShape(4, 1, (4, 4), (1, 1)), function=function).build(Generic(), "join")
    s.put("join", unit)
    inputs = (unit.i0, unit.i1)
    for k, port in enumerate(inputs):
        drive(s, port, f"i{k}")
    take(s, unit.o, "o")
    claim_stable(s, unit.o, "o")
    pop, place = unit.o.valid & unit.o.ready, s.free(range(2 * places), "place")
    begins, live, left = s.free(1, "begins"), Signal(name="live"), Signal(range(2 * places), name="left")
    values = []
    for k, port in enumerate(inputs):
        push, inside = port.valid & port.ready, Signal(range(places + 1), name=f"inside{k}")
        m.d.sync += inside.eq(inside + push - pop)
        before, value, has = Signal(range(2 * places), name=f"before{k}"), Signal(2, name=f"value{k}"), Signal(
            name=f"has{k}")
        with m.If(begins & ~live):  # the one that is followed is not in yet, in neither input
            s.assume(place >= inside + 1)
            m.d.sync += [before.eq(place - inside - push), has.eq(0)]
        with m.Elif(live & push & ~has):
            m.d.sync += [before.eq(before - 1), has.eq(before == 0), value.eq(Value.cast(port.payload))]
        values.append(value)
        s.claim(f"has_room{k}", inside <= places)
        s.claim(f"not_invented{k}", ~unit.o.valid | (inside != 0))
        s.claim(f"followed{k}", ~live | (left == Mux(has, left, before + inside)))
        s.claim(f"followed_inside{k}", ~(live & has) | (left < inside))
        s.claim(f"takes{k}", port.ready | (inside >= 2))
    with m.If(begins & ~live):
        m.d.sync += [live.eq(1), left.eq(place - pop)]
    with m.Elif(live & pop):
        m.d.sync += [left.eq(left - 1), live.eq(left != 0)]
    result = Signal(signed(5), name="result")
    m.d.comb += result.eq(values[0] * 3 - values[1])
    s.claim("result", ~(live & (left == 0) & unit.o.valid) | (Value.cast(unit.o.payload).as_signed() == result))
    s.reach("followed_to_the_end", live & (left == 0) & pop)
    return s


STREAM_PROOFS = (
    *(Proof("Queue", f"{depth} words of {width} bits", CONTRACT, partial(queue, depth, width), Induction(2), within)
      for depth, width, within in ((2, 8, 8), (3, 8, 10), (4, 8, 12), (8, 8, 12), (16, 8, 12), (64, 8, 10))),
    Proof("Pair", "8 bits", CONTRACT, partial(pair, 8), Invariant(), 10),
    *(Proof("DeepQueue", f"{depth} words of {width} bits", CONTRACT, partial(deep_queue, depth, width), Invariant(), 20)
      for depth, width in ((6, 1), (7, 2))),
    *(Proof("Fork", f"queues of {', '.join(map(str, depths))} words", f"each reader: {CONTRACT}",
            partial(fork, depths, 4), Induction(2), 14) for depths in ((2, 2), (2, 4, 3), (2, 8))),
    *(Proof("Gearbox", f"{lanes_in} to {lanes_out} lanes", CONTRACT, partial(gearbox, lanes_in, lanes_out, 1),
            Invariant(), 20)
      for lanes_in, lanes_out in ((1, 2), (1, 3), (2, 4), (2, 1), (4, 1), (4, 2), (2, 3), (3, 2))),
    *(Proof("CreditCounter", f"{words} words, blocks of {take_}, slack {slack}, {give} at once",
            "blocks never have more room than there is, and are let in where there is enough",
            partial(credit, words, take_, slack, give), Invariant(), 20)
      for words, take_, slack, give in ((1, 1, 0, 1), (4, 1, 0, 1), (10, 1, 2, 1), (16, 1, 1, 1), (12, 4, 0, 1),
                                        (12, 4, 1, 4), (9, 2, 0, 2))),
    *(Proof("WordJoin", f"{lanes_in} to {lanes} lanes, chunks of {chunk}", CONTRACT,
            partial(word_join, lanes_in, lanes, chunk), Invariant(), 20)
      for lanes_in, lanes, chunk in ((1, 2, 4), (1, 2, 3), (2, 4, 6))),
    *(Proof("Hold", f"{repeats} times", f"each word so many times; {CONTRACT}", partial(hold, repeats, 2), Invariant(),
            20) for repeats in (2, 3, 5)),
    Proof("JoinStage", "two streams of 2 bits, a table", "the n-th result is of the n-th elements of both inputs",
          join_stage, Invariant(), 30),
)
