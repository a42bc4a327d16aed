"""Proofs of the units that pass streams on: queues, forks, gearboxes, and what counts room for them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import lcm

from amaranth.hdl import Module, Mux, Signal, Value, unsigned
from hwflow_rtl.stream.credit import CreditCounter
from hwflow_rtl.stream.deep_queue import DeepQueue
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue import Pair, Queue
from hwflow_rtl.vendor import Generic

from .contract import contract, drive, queue_helps, take
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
)
