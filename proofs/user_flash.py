"""Proofs of the reader of a Gowin user flash: its pins keep to the data sheet, and every word is the right one.

The `Cell` here has the rules of the primitive as Gowin UG295 gives them for reads (sense enable, its pulses, the access
time), in half clocks of the times in ns.  It shares nothing with the controller but the numbers of the part.
"""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from math import ceil
from typing import Any

from amaranth.hdl import Cat, Mux, Signal, Value
from hwflow_rtl.memory import UserFlashPart, UserFlashTiming
from hwflow_rtl.memory.user_flash import UserFlashController

from .contract import at_most, drive, take
from .methods import Induction
from .proof import Proof
from .scene import Inside, Scene

#: Two rows of the flash of a GW1N-9 with the clock of its board, and with one that is as fast as a pulse allows.
PARTS = tuple(UserFlashPart(name="FLASH608K", bytes=512, clock_mhz=mhz, timing=UserFlashTiming(t_acc=t_acc, t_pws=5))
              for mhz, t_acc in ((114, 25), (200, 21.5)))


def clocks_of(part: UserFlashPart, time: float) -> int:
    """The least number of whole clocks that is not shorter than a time in ns."""
    return ceil(Fraction(str(time)) / (1000 / Fraction(str(part.clock_mhz))))


class Cell:
    """The cell: any one of its words has a value that stays, all others are anything in each clock.

    So is that one until an access time, and the time of the wires, after the rising sense enable, and once sense enable
    falls or the address moves.
    """

    def __init__(self, s: Scene, part: UserFlashPart, pins: Any):
        m = s.m
        pulse = clocks_of(part, part.timing.t_pws)
        access = clocks_of(part, part.timing.t_acc + part.WIRES)
        address = Cat(pins.yadr, pins.xadr)
        self.place, self.value = s.fixed(len(address), "place"), s.fixed(part.width, "value")
        self.was, kept = Signal(name="was_enabled"), Signal.like(address, name="was_address")
        was = self.was
        m.d.sync += [was.eq(pins.se), kept.eq(address)]
        moved = kept != address
        # Clocks for which sense enable has been as it is, and for which the address has, up to what is asked for.
        self.level, self.still = (Signal(range(most + 1), init=pulse, name=name) for name, most in (
            ("level", access + pulse), ("still", pulse)))
        for count, changes, most in ((self.level, was != pins.se, access + pulse), (self.still, moved, pulse)):
            m.d.sync += count.eq(Mux(changes, 1, Mux(count == most, count, count + 1)))
        s.claim("counted", (self.level >= 1) & (self.level <= access + pulse) & (self.still >= 1))
        s.claim("t_pws", (was == pins.se) | (self.level >= pulse))
        s.claim("address_before_sense_enable", ~(pins.se & ~was) | (~moved & (self.still >= pulse)))
        s.claim("address_while_sense_enable", ~(pins.se & was) | ~moved)
        self.valid = Signal(name="data_valid")  # at the end of this clock
        m.d.comb += self.valid.eq(pins.se & was & ~moved & (self.level >= access - 1) if access > 1 else pins.se)
        m.d.comb += pins.dout.eq(Mux(self.valid & (address == self.place), self.value, s.free(part.width, "noise")))


def user_flash(part: UserFlashPart) -> Scene:
    s = Scene()
    m, unit = s.m, UserFlashController(part=part)
    inside = s.put("controller", unit)
    drive(s, unit.request, "request")
    take(s, unit.read, "read")
    m.d.comb += unit.restart.eq(s.free(1, "restart"))
    cell, request, read = Cell(s, part, unit.pins), unit.request, unit.read
    asked = request.payload
    s.assume(~request.valid | (asked.first <= asked.last))
    # Words from `due` to `last` are to come; before them `one`, the last word of the request before, if it waits.
    bits = len(Value.cast(asked.first))
    due, last, one = (Signal(bits, name=name) for name in ("due", "last", "one"))
    live, waits, comes = Signal(name="live"), Signal(name="waits"), read.valid & read.ready
    with m.If(comes):
        m.d.sync += waits.eq(0)
        with m.If(~waits):
            m.d.sync += [due.eq(due + 1), live.eq(due != last)]
    with m.If(request.valid & request.ready):
        m.d.sync += [due.eq(asked.first), last.eq(asked.last), live.eq(1), one.eq(due), waits.eq(live & ~comes)]
    with m.If(unit.restart):
        m.d.sync += [live.eq(0), waits.eq(0)]
    place = Mux(waits, one, due)
    s.claim("word_that_is_due", ~(read.valid & (place == cell.place)) | (Value.cast(read.payload) == cell.value))
    s.claim("no_more_than_asked", ~read.valid | live | waits)
    s.claim("one_request_at_a_time", ~request.ready | ~(live | waits) | (read.valid & ~waits & (due == last)))
    late = at_most(s, "comes", live & ~read.valid & ~unit.restart, part.clocks.worst_latency)
    claim_stable_or_restart(s, unit)
    walks(s, inside, unit, cell, due=due, last=last, live=live, waits=waits, place=place, late=late)
    s.reach("word_after_word", comes & live & (due != last))
    s.reach("a_request_behind_a_word", waits)
    return s


def walks(s: Scene, inside: Inside, unit: UserFlashController, cell: Cell, **ours: Signal) -> None:
    """What helps: the controller is at the word that is due, and its count of clocks says how long it has sensed."""
    due, last, live, waits = (ours[name] for name in ("due", "last", "live", "waits"))
    address, left, place, ends, there, word = (inside.signal(name) for name in (
        "address", "left", "place", "ends", "there", "word"))
    reads, se, access = inside.signal("fsm_state") == 1, unit.pins.se, unit.part.clocks.access
    s.claim("senses_what_it_reads", ~se | reads)
    s.claim("reads_what_is_due", ~reads | (live & (address == (due + (there & ~waits))[:len(due)])))
    s.claim("is_left", ~reads | (left == (last - address)[:len(left)]))
    s.claim("idle", reads | (~waits & (live == there) & (~live | (due == last))))
    s.claim("waits", ~waits | there)
    s.claim("not_behind_the_last", ~(reads & there & ~waits) | (due != last))
    s.claim("word", ~there | (ours["place"] != cell.place) | (word == cell.value))
    sensed = Mux(cell.was, cell.level, 0)  # clocks before this one
    s.claim("counts", Mux(se, place == Mux(sensed >= access - 1, 0, access - 1 - sensed), place == access))
    s.claim("in_time", there | (ours["late"] <= Mux(se, 1 + sensed, 0)))
    s.claim("ends", ends == (se & (sensed >= access - 1)))


def claim_stable_or_restart(s: Scene, unit: UserFlashController) -> None:
    """What waits stays, unless it is dropped."""
    read = unit.read
    waited, kept = Signal(name="waited"), Signal.like(Value.cast(read.payload), name="kept")
    s.m.d.sync += [waited.eq(read.valid & ~read.ready & ~unit.restart), kept.eq(Value.cast(read.payload))]
    s.claim("stays", ~waited | (read.valid & (Value.cast(read.payload) == kept)))


USER_FLASH_PROOFS = tuple(
    Proof("UserFlashController", f"{part.clock_mhz} MHz, access {part.timing.t_acc:g} ns",
          "the pulses of sense enable and the address before it keep t_pws; each word of a request comes once, in "
          "order, with the data of its address, taken when t_acc and the wires are over",
          partial(user_flash, part), Induction(2), 40) for part in PARTS)
