"""Proofs of what takes streams from one clock to another: for two clocks that tick as they like.

In each step of a run either clock, both or none may rise, so every ratio and every phase is among the runs.  A
synchronizer gives what was there before the edge or after it, as the edges fall; levels between are not modelled.
"""

from __future__ import annotations

from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

from amaranth.hdl import Cat, Module, ResetSignal, Signal, Value
from hwflow_rtl.io.link.bytes import ByteCrossing
from hwflow_rtl.stream.crossing import StreamCrossing

from .contract import claim_stable, one_hot_prefix
from .methods import Bound, Invariant
from .proof import Proof
from .scene import Inside, Scene

CLOCKS = ("line", "sync")
CLAIM = "what waits stays; nothing lost, doubled or invented; order kept; for all ratios and phases of the clocks"


def two_clocks() -> Scene:
    s = Scene(CLOCKS)
    for name in CLOCKS:
        s.assume(~ResetSignal(name))
    return s


def drive_from_registers(s: Scene, port: Any, payload: Value) -> None:
    """A source in `line` that keeps to the contract, as it must here: the payload is taken while it waits."""
    m, valid = s.m, Signal(name="i_valid")
    word = Signal(len(Value.cast(port.payload)), name="i_payload")
    m.d.comb += [port.valid.eq(valid), Value.cast(port.payload).eq(word)]
    with m.If(~valid | port.ready):
        m.d.line += [valid.eq(s.free(1, "i_offers")), word.eq(payload)]


class Followed(NamedTuple):
    """Words that entered and that left, and the word that is followed: its number and what it is."""

    into: Signal
    out: Signal
    live: Value
    number: Signal
    value: Signal


def follow(s: Scene, unit: Any, most: int) -> Followed:
    """Any one word, counted in both clocks: the n-th that enters is the n-th that leaves."""
    m: Module = s.m
    bits = (2 * most + 1).bit_length()
    into, out = Signal(bits, name="into"), Signal(bits, name="out")
    live, number, value = Signal(name="live"), Signal(bits, name="number"), Signal.like(
        Value.cast(unit.i.payload), name="value")
    gone = Signal(name="gone")
    push, pop = unit.i.valid & unit.i.ready, unit.o.valid & unit.o.ready
    m.d.line += into.eq(into + push)
    m.d.sync += out.eq(out + pop)
    with m.If(push & s.free(1, "chosen") & ~live):
        m.d.line += [live.eq(1), number.eq(into), value.eq(Value.cast(unit.i.payload))]
    with m.If(live & pop & (out == number)):
        m.d.sync += gone.eq(1)
    inside = Signal(bits, name="inside")
    m.d.comb += inside.eq(into - out)
    s.claim("has_room", inside <= most)
    s.claim("not_invented", ~unit.o.valid | (inside != 0))
    s.claim("in_order", ~(live & ~gone & unit.o.valid & (out == number)) | (Value.cast(unit.o.payload) == value))
    s.claim("followed", ~live | gone | ((number - out)[:bits] < inside))
    s.reach("followed_to_the_end", gone)
    return Followed(into, out, live & ~gone, number, value)


def byte_crossing() -> Scene:
    s = two_clocks()
    unit = ByteCrossing(source="line", target="sync")
    s.put("crossing", unit)
    drive_from_registers(s, unit.i, s.free(8, "i_next"))
    s.m.d.comb += unit.o.ready.eq(s.free(1, "o_ready"))
    out = Signal(2, name="count_out")
    into = Signal(2, name="count_in")
    pop, push = unit.o.valid & unit.o.ready, unit.i.valid & unit.i.ready
    # A byte leaves before it is taken: what was offered, and not yet taken, is the one that leaves.
    s.m.d.line += into.eq(into + push)
    s.m.d.sync += out.eq(out + pop)
    s.claim("leaves_once", ((out - into)[:2] == 0) | ((out - into)[:2] == 1))
    s.claim("is_offered", ~unit.o.valid | (unit.i.valid & (out == into)))
    s.claim("taken_when_it_left", ~unit.i.ready | ((out - into)[:2] == 1))
    s.claim("same_byte", ~unit.o.valid | (Value.cast(unit.o.payload) == Value.cast(unit.i.payload)))
    claim_stable(s, unit.o, "o")
    s.reach("two_bytes", out == 2)
    return s


def stream_crossing(width: int) -> Scene:
    s = two_clocks()
    unit = StreamCrossing(shape=width, source="line", target="sync", depth=16)
    inside = s.put("crossing", unit)
    drive_from_registers(s, unit.i, s.free(width, "i_next"))
    s.m.d.comb += unit.o.ready.eq(s.free(1, "o_ready"))
    followed = follow(s, unit, 18)
    claim_stable(s, unit.o, "o")
    counters_in_turn(s, inside, followed)
    return s


def number_of(code: Value) -> Value:
    """The number of a Gray code: each bit is the parity of those from it on."""
    return Cat(code[k:].xor() for k in range(len(code)))


def counters_in_turn(s: Scene, inside: Inside, followed: Followed) -> None:
    """What helps: each side's count is not behind what the other side has seen of it, and no more than all places are
    between the oldest and the newest."""
    m, (into, out, live, number, value) = s.m, followed
    written, taken, known, space = (inside.signal(name) for name in ("written", "taken", "known", "space"))
    there, back = inside["to_target"], inside["to_source"]
    chain = [written, number_of(inside.signal("written_code")), number_of(there.signal("stage0")),
             number_of(there.signal("stage1")), known, taken]
    behind = [taken, number_of(inside.signal("taken_code")), number_of(back.signal("stage0")),
              number_of(back.signal("stage1"))]
    steps = []
    for n, (newer, older) in enumerate([*pairwise(chain), *pairwise(behind)]):
        step = Signal(len(written), name=f"step{n}")
        m.d.comb += step.eq(newer - older)
        steps.append(step)
    places = 16
    s.claim("oldest_to_newest", sum(steps) <= places)
    s.claim("written_code", steps[0] == 0)
    s.claim("taken_code", steps[5] <= 1)
    s.claim("space", ~space | (sum(steps) < places))
    s.claim("no_restart", ~Cat(inside.signal(name) for name in ("asked", "wanted", "stopped", "restarted")).any()
            & ~Cat(inside[part].signal(f"stage{k}") for part in ("asked", "answered") for k in range(2)).any())
    queue = inside["queue"]
    used, words = queue.signal("used"), [queue.signal(f"word{k}") for k in range(2)]
    s.claim("queue", one_hot_prefix(used))
    s.claim("counted_in", into[:len(written)] == written)
    s.claim("counted_out", (taken - out)[:len(taken)] == sum(used))
    place = Signal(len(into), name="place")
    m.d.comb += place.eq(number - out)
    kept = inside["words"].word(number[:4], "kept")
    for k, word in enumerate(words):
        s.claim(f"word{k}", ~(live & (place == k) & used[k]) | (word == value))
    s.claim("memory", ~(live & (place >= sum(used)) & (place < (into - out)[:len(into)])) | (kept == value))


CROSSING_PROOFS = (
    Proof("ByteCrossing", "two free clocks", CLAIM, byte_crossing, Invariant(), 40),
    Proof("StreamCrossing", "16 words of 1 bit, two free clocks", CLAIM, partial(stream_crossing, 1), Bound(16), 40),
)
