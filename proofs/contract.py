"""The contract of streams as claims: what waits stays, nothing is lost, doubled or invented, the order is kept, and
nothing waits for ever.

Nothing of a unit is known here but its ports.  A `Follower` picks any one element that enters, in any cycle, and
follows it: it counts the elements that are before it, and when it is its turn it must be the one that leaves.  Since it
may be any element, no two can be exchanged, and none can be lost or come twice without another one being wrong.
"""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, Const, Mux, Signal, Value
from amaranth.lib import data

from .scene import Scene


def elements(port: Any) -> list[Value]:
    """The elements of a stream's payload, the first one first."""
    if isinstance(port.signature.members["payload"].shape, data.ArrayLayout):
        return [Value.cast(each) for each in port.payload]
    return [Value.cast(port.payload)]


def drive(s: Scene, port: Any, name: str, waits: bool = False, domain: str = "sync") -> None:
    """A source that offers what it likes when it likes; with `waits` it keeps to the contract.

    Without it, it may take back what it offered: a unit that is right then is right with every source.
    """
    valid, payload = s.free(1, f"{name}_valid"), s.free(len(Value.cast(port.payload)), f"{name}_payload")
    s.m.d.comb += [port.valid.eq(valid), Value.cast(port.payload).eq(payload)]
    if waits:
        waited, kept = Signal(name=f"{name}_waited"), Signal.like(payload, name=f"{name}_kept")
        s.m.d[domain] += [waited.eq(port.valid & ~port.ready), kept.eq(payload)]
        s.assume(~waited | (valid & (payload == kept)))


def take(s: Scene, port: Any, name: str) -> None:
    """A reader that is ready when it likes."""
    s.m.d.comb += port.ready.eq(s.free(1, f"{name}_ready"))


def claim_stable(s: Scene, port: Any, name: str, domain: str = "sync") -> None:
    """What is valid and not taken is there in the next cycle, the same."""
    waited = Signal(name=f"{name}_waited")
    kept = Signal(len(Value.cast(port.payload)), name=f"{name}_kept")
    s.m.d[domain] += [waited.eq(port.valid & ~port.ready), kept.eq(Value.cast(port.payload))]
    s.claim(f"{name}_stays", ~waited | (port.valid & (Value.cast(port.payload) == kept)))


def at_most(s: Scene, name: str, condition: Value, cycles: int, domain: str = "sync") -> Signal:
    """Claim that `condition` never holds for more than so many cycles in a row; the count of them so far."""
    count = Signal(range(cycles + 2), name=f"{name}_cycles")
    with s.m.If(~condition):
        s.m.d[domain] += count.eq(0)
    with s.m.Elif(count <= cycles):
        s.m.d[domain] += count.eq(count + 1)
    s.claim(name, ~condition | (count < cycles))
    return count


class Follower:
    """Follows one element from `source` to `sink`.

    `size`: how many of the elements of the beat at the sink leave with it, where they are not all; with 0 the first one
    is there and comes once more.

    Attributes
    ----------
    inside
        Elements that are in the unit, at most `most`.
    live
        One is followed, and has not left.
    left
        Elements that leave before it.
    value
        What it is.
    gone
        It has left.
    """

    def __init__(self, s: Scene, source: Any, sink: Any, *, most: int, name: str = "o", size: Value | None = None):
        m, came, goes = s.m, elements(source), elements(sink)
        push = source.valid & source.ready
        pop = sink.valid & sink.ready
        count = Const(len(goes)) if size is None else size  # elements of the beat at the sink
        self.inside = Signal(range(most + len(came) + 1), name=f"{name}_inside")
        self.live, self.gone = Signal(name=f"{name}_live"), Signal(name=f"{name}_gone")
        self.left, self.value = Signal(range(most + 1), name=f"{name}_left"), Signal(len(came[0]), name=f"{name}_value")
        chosen, lane = s.free(1, f"{name}_chosen"), s.free(range(len(came)), f"{name}_lane")
        m.d.sync += self.inside.eq(self.inside + Mux(push, len(came), 0) - Mux(pop, count, 0))
        with m.If(push & chosen & ~self.live & ~self.gone):
            m.d.sync += [self.live.eq(1), self.left.eq(self.inside - Mux(pop, count, 0) + lane),
                         self.value.eq(Cat(came).word_select(lane, len(came[0])))]
            s.assume(lane < len(came))
        self.leaves = Signal(name=f"{name}_leaves")  # if the beat at the sink is taken
        m.d.comb += self.leaves.eq(self.live & (self.left < count))
        with m.If(self.live & pop):
            with m.If(self.leaves):
                m.d.sync += [self.live.eq(0), self.gone.eq(1)]
            with m.Else():
                m.d.sync += self.left.eq(self.left - count)
        here = Cat(goes).word_select(self.left[:max(1, (len(goes) - 1).bit_length())], len(goes[0]))
        s.claim(f"{name}_in_order", ~(sink.valid & (self.leaves | (self.live & (count == 0) & (self.left == 0))))
                | (here == self.value))
        s.claim(f"{name}_not_invented", ~sink.valid | (self.inside >= count))
        s.claim(f"{name}_has_room", self.inside <= most)
        # True of every such count, and a help for proofs.
        s.claim(f"{name}_followed", ~self.live | (self.left < self.inside))
        s.reach(f"{name}_followed_to_the_end", self.gone)


def contract(s: Scene, source: Any, sink: Any, *, most: int, latency: int, enough: int | None = None,
             ready_within: int | None = None, granule: int | None = None, name: str = "o",
             size: Value | None = None) -> Follower:
    """All claims of a unit that passes its elements on; `s` has its environment already.

    most
        Elements that it holds at most.
    latency
        Cycles until a beat whose elements are inside is offered, counted from when the one before was taken.
    enough
        With fewer elements inside it is ready.
    ready_within
        With a reader that is always ready, cycles until it is ready itself.
    size
        As of a `Follower`.
    granule
        Elements that must be inside before a beat has to come; None: those of a beat.
    """
    follower = Follower(s, source, sink, most=most, name=name, size=size)
    claim_stable(s, sink, name)
    if enough is not None:
        s.claim(f"{name}_takes", (follower.inside >= enough) | source.ready)
    at_most(s, f"{name}_comes", (follower.inside >= (granule or len(elements(sink)))) & ~sink.valid, latency)
    if ready_within is not None:
        at_most(s, f"{name}_moves_on", sink.ready & ~source.ready, ready_within)
    return follower


def one_hot_prefix(bits: Value) -> Value:
    """Bits that are filled from one end: no set one above a clear one."""
    return ~((bits >> 1) & ~bits).any()


def queue_helps(inside: Any, queue: Any, follower: Follower, s: Scene, name: str, *, before: Value | int = 0,
                level: Value | None = None) -> None:
    """What is true of the registers and the memory of a `Queue`: with it the claims are inductive at once.

    `before`: elements that leave before the first word of this queue.
    """
    level = follower.inside if level is None else level
    place = follower.left - before  # of the followed word in this queue
    here = follower.live & (follower.left >= before) & (place < level)
    if queue.depth <= queue.SHIFT_DEPTH:
        used = inside.signal("used")
        s.claim(f"{name}_fills_from_one_end", one_hot_prefix(used))
        s.claim(f"{name}_level", sum(used) == level)
        for k in range(queue.depth):
            s.claim(f"{name}_word{k}", ~(here & (place == k)) | (inside.signal(f"word{k}") == follower.value))
        return
    some, full, word = (inside.signal(each) for each in ("some", "full", "word"))
    stored = inside.signal("stored") + inside.signal("stored_step")
    space, ring = inside.signal("space"), inside["ring"]
    write, read = pointers(ring)
    places = 1 << len(write)
    s.claim(f"{name}_level", stored + full == level)
    s.claim(f"{name}_some", some == (stored != 0))
    s.claim(f"{name}_space", space == (stored != queue.depth))
    s.claim(f"{name}_pointers", (write - read)[:len(write)] == stored[:len(write)])
    s.claim(f"{name}_stored", (stored >= 0) & (stored <= queue.depth))
    at = Signal(range(places), name=f"{name}_at")
    s.m.d.comb += at.eq(read + place - full)
    kept = ring.word(at, f"{name}_kept")
    s.claim(f"{name}_word", ~(here & full & (place == 0)) | (word == follower.value))
    s.claim(f"{name}_memory", ~(here & ((place != 0) | ~full)) | (Value.cast(kept) == follower.value))


def pointers(ring: Any) -> tuple[Value, Value]:
    """The addresses of the first write port and of the first read port of a memory."""
    return ring.fragment._write_ports[0]._addr, ring.fragment._read_ports[0]._addr
