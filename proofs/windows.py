"""Proofs of the line buffer: every beat has the word of its place in its frame, or the padding, whatever stalls.

Any one word that enters is followed, of any frame: when the windows come to its place in its frame, it must be what is
played.  So no word is read that is not there, none that was written over, and none of another frame.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

from amaranth.hdl import Array, Const, Mux, Signal, Value, unsigned
from amaranth.utils import ceil_log2
from hwflow_rtl.vendor import Generic, Technology, Timing
from hwflow_rtl.window.line_buffer import LineBuffer, LineBufferShape, can_wrap
from hwflow_rtl.window.shape import WindowShape

from .contract import at_most, drive
from .methods import Bound, Method
from .proof import Proof
from .scene import Scene


@dataclass(frozen=True, kw_only=True)
class OfDepth(LineBufferShape):
    """A line buffer whose ring has `words` words, whatever they cost."""

    words: int

    def depth(self, technology: Technology) -> int:
        return self.words


def places(window: WindowShape) -> list[int]:
    """The word of its frame that each beat of a frame has; -1 for the padding."""
    found = []
    top, left = window.pads[:2]
    for row in range(window.out_height):
        for column in range(window.out_width):
            for group in range(window.groups):
                for _ in range(window.tiles_per_group):
                    for tap_row in range(window.kernel[0]):
                        for tap in range(window.kernel[1]):
                            y = row * window.stride[0] - top + tap_row * window.dilation[0]
                            x = column * window.stride[1] - left + tap * window.dilation[1]
                            inside = 0 <= y < window.height and 0 <= x < window.width
                            first = (y * window.width + x) * window.words + group * window.group_words
                            found += [first + word if inside else -1 for word in range(window.group_words)]
    return found


def line_buffer(window: WindowShape, depth: int, ram: int = 1) -> Scene:
    s = Scene()
    m = s.m
    shape = OfDepth(window=window, element=unsigned(1), lanes=1, pad_value=1, words=depth)
    unit = LineBuffer(shape=shape, technology=Generic(timing=Timing(multiply=2, ram=ram)))
    s.put("buffer", unit)
    drive(s, unit.i, "i")
    credit, had = s.free(1, "credit"), Signal(name="had")
    m.d.comb += unit.credit.eq(credit)
    m.d.sync += had.eq(credit & ~unit.start)
    s.assume(~had | credit)  # a credit falls with a start alone

    frame, order = window.input_words, places(window)
    push, beat = unit.i.valid & unit.i.ready, unit.beat
    into, out = Signal(range(frame), name="into"), Signal(range(len(order)), name="out")
    ahead = Signal(range(4), name="ahead")  # frames from the one that is played to the one that enters
    live, place = Signal(name="live"), Signal(range(frame), name="place")
    value, frames = Signal(name="value"), Signal(range(4), name="frames")
    enters, leaves = push & (into == frame - 1), beat.valid & (out == len(order) - 1)
    chosen = s.free(1, "chosen")
    with m.If(push):
        m.d.sync += into.eq(Mux(enters, 0, into + 1))
    with m.If(beat.valid):
        m.d.sync += out.eq(Mux(leaves, 0, out + 1))
    m.d.sync += ahead.eq(ahead + enters - leaves)
    with m.If(push & chosen & ~live):
        m.d.sync += [live.eq(1), place.eq(into), value.eq(Value.cast(unit.i.payload)), frames.eq(ahead - leaves)]
    with m.Elif(live & leaves):
        m.d.sync += [live.eq(frames != 0), frames.eq(frames - 1)]
    wanted = Array(Const(max(each, 0), len(into)) for each in order)[out]
    padding = Array(Const(each < 0, 1) for each in order)[out]
    word = Value.cast(beat.word)
    s.claim("padding", ~(beat.valid & padding) | (word == 1))
    s.claim("word_of_its_place", ~(beat.valid & ~padding & live & (frames == 0) & (wanted == place)) | (word == value))
    s.claim("word_is_there", ~(beat.valid & ~padding & (ahead == 0)) | (wanted < into))
    s.claim("frames_in_turn", ~beat.valid | (ahead != 3))
    s.claim("first", ~beat.valid | (beat.first == (out % window.beats == 0)))
    s.claim("last", ~beat.valid | (beat.last == (out % window.beats == window.beats - 1)))
    stuck = credit & ~unit.start & unit.i.valid & ~unit.i.ready
    at_most(s, "moves_on", stuck, window.beats + 6)
    s.reach("next_frame", ahead == 1)
    s.reach("frame_is_played", leaves)
    return s


def smallest(window: WindowShape) -> int:
    """The smallest ring that a plan may give to this window."""
    words = max(2, window.ring_words())
    return words if can_wrap(window, words, 1) else 1 << ceil_log2(words)


def proof(case: str, method: Method, within: int = 60, **window: Any) -> Proof:
    shape = WindowShape(**window)
    depth = smallest(shape)
    return Proof("LineBuffer", f"{case}, ring of {depth}",
                 "each beat has the word of its place in its frame, or the padding; no word is read before it is there "
                 "or after it was written over; nothing waits for ever", partial(line_buffer, shape, depth), method,
                 within)


WINDOW_PROOFS = (
    proof("1 x 2 of 1 x 4", Bound(16), height=1, width=4, words=1, kernel=(1, 2)),
    proof("1 x 3 of 1 x 4, padding 1", Bound(16), height=1, width=4, words=1, kernel=(1, 3), pads=(0, 1, 0, 1)),
    proof("2 x 2 of 3 x 2, padding above", Bound(16), height=3, width=2, words=1, kernel=(2, 2), pads=(1, 0, 0, 0)),
    proof("1 x 1 of 3 x 3, stride 2", Bound(16), height=3, width=3, words=1, kernel=(1, 1), stride=(2, 2)),
)
