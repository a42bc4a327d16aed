"""Between the host link, as fast as the oscillator, and the other clocks of a board: the core's and a memory's."""

from __future__ import annotations

from amaranth.hdl import DomainRenamer, Module, Mux, ResetInserter, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.cdc import FFSynchronizer
from amaranth.lib.wiring import In, Out

from ..stream.crossing import StreamCrossing
from ..stream.gearbox import Gearbox
from ..stream.pipeline import delay
from ..stream.streams import BYTE, link, payload_of, stream_of
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted
from .link.bytes import ByteCrossing
from .link.image import MemoryState

#: Cycles of `sync` in which a restart keeps the core in reset: more than its longest pipeline without reset.
RESTART_CYCLES = 32
#: Registers between what wants the core to be reset and the core.
RESET_HOPS = 2


class CoreCrossing(wiring.Component):
    """Bytes from the domain `line` to `sync` and back, and a restart after which no older byte arrives on either side.

    Whatever the ratio of the two clocks, a restart takes four steps, each of which waits for the one before:

    1. `restart` rises.  From now on there must come nothing at `data`.  `results` are taken and mean nothing.
    2. In `sync` the core is reset for RESTART_CYCLES, and what still comes to it is taken and lost.
    3. `stopped` rises when those have passed and no byte is on its way in either direction; then `restart` must fall.
    4. The core leaves its reset; then `stopped` falls, and `data` may come again.

    So `data` and `results` must be quiet while `restart` or `stopped` is high.

    Attributes
    ----------
    data : stream of bytes
        For the core, in `line`.  Its payload must come from registers that a restart does not reset.
    results : stream of bytes
        From the core, in `line`.
    restart, stopped : In(1), Out(1)
        In `line`; `restart` from a register.
    core_data, core_results : streams of bytes
        The same in `sync`.
    reset : Out(1)
        Resets the core; in `sync`, from a register, which the reset of `sync` sets, too, some cycles later.
    """

    def __init__(self):
        byte = stream_of(BYTE, 1)
        super().__init__({
            "data": In(byte), "results": Out(byte), "restart": In(1), "stopped": Out(1),
            "core_data": Out(byte), "core_results": In(byte), "reset": Out(1, init=1)})

    @staticmethod
    def cost() -> Resources:
        """Both crossings, and the count of the cycles of a restart."""
        return fitted("CoreCrossing")

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = ByteCrossing(source="line", target="sync")
        m.submodules.leaving = leaving = ByteCrossing(source="sync", target="line")
        link(m, wiring.flipped(self.data), arriving.i)
        link(m, wiring.flipped(self.core_results), leaving.i)
        wanted, done, seen_done = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.restart, wanted, o_domain="sync")
        m.submodules.done = FFSynchronizer(done, seen_done, o_domain="line")
        left = Signal(range(-1, RESTART_CYCLES), init=RESTART_CYCLES - 1)  # down to its sign bit
        m.d.comb += [
            self.core_data.valid.eq(arriving.o.valid), self.core_data.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(self.core_data.ready | wanted),
            self.results.valid.eq(leaving.o.valid), self.results.payload.eq(leaving.o.payload),
            leaving.o.ready.eq(self.results.ready | self.restart),
            self.stopped.eq(seen_done & ~arriving.busy),
        ]
        # Registers on the way give place and route time to bring the reset to all of the core.  Only the first is reset
        # itself, for else that reset would have to reach the others.
        wants = Signal(init=1)
        m.d.sync += wants.eq(wanted)
        late = delay(m, wants, RESET_HOPS, "reset_hop")
        m.d.comb += self.reset.eq(late)
        # The count begins when the core is in reset, and so gives no byte any more; it ends when the core has left it.
        m.d.sync += done.eq((wanted | self.reset) & left[-1] & ~leaving.busy)
        with m.If(~self.reset):
            m.d.sync += left.eq(left.init)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        return m


# Between a host link on a fast line and the core: a `CoreCrossing` that moves a word in every cycle.


#: Words that are on their way in a direction, and cycles of `line` in which all of them arrive.
WORDS, DRAIN_CYCLES = 16, 32


class FastCrossing(wiring.Component):
    """Bytes from `line` to words in `sync` and back, and a restart as of a `CoreCrossing`.

    A frame must be whole words.  What was begun of a word is dropped by a restart, as all that is on its way.

    Parameters
    ----------
    data_bytes, result_bytes
        Of a word there, and back.

    Attributes
    ----------
    data, results, restart, stopped, reset
        As of a `CoreCrossing`; a byte in every cycle of `line`.
    core_data, core_results : streams of bytes
        In `sync`, words of them; a word in every cycle of the slower clock.
    """

    def __init__(self, *, data_bytes: int = 1, result_bytes: int = 1):
        self.data_bytes, self.result_bytes = data_bytes, result_bytes
        byte = stream_of(BYTE, 1)
        super().__init__({
            "data": In(byte), "results": Out(byte), "restart": In(1), "stopped": Out(1),
            "core_data": Out(stream_of(BYTE, data_bytes)), "core_results": In(stream_of(BYTE, result_bytes)),
            "reset": Out(1, init=1)})

    @staticmethod
    def cost(technology: Technology, *, data_bytes: int = 1, result_bytes: int = 1) -> Resources:
        """Both crossings and changes of words, and the count of the cycles of a restart."""
        total = fitted("FastCrossing")
        for lanes_in, lanes_out in ((1, data_bytes), (result_bytes, 1)):
            total += Gearbox.cost(width=8, lanes_in=lanes_in, lanes_out=lanes_out)
            total += StreamCrossing.cost(width=8 * max(lanes_in, lanes_out), depth=WORDS, technology=technology)
        return total

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = StreamCrossing(
            shape=payload_of(self.core_data), source="line", target="sync", depth=WORDS)
        m.submodules.leaving = leaving = StreamCrossing(
            shape=payload_of(self.core_results), source="sync", target="line", depth=WORDS)
        # What was begun of a word goes in a restart; what comes from the core meanwhile is taken and lost.
        stops_now = self.restart | self.stopped
        stops = ResetInserter({"line": stops_now})
        on_line = DomainRenamer("line")
        m.submodules.join = join = stops(on_line(Gearbox(shape=BYTE, lanes_in=1, lanes_out=self.data_bytes)))
        m.submodules.split = split = stops(on_line(Gearbox(shape=BYTE, lanes_in=self.result_bytes, lanes_out=1)))
        link(m, wiring.flipped(self.data), join.i)
        link(m, join.o, arriving.i)
        link(m, wiring.flipped(self.core_results), leaving.i)
        m.d.comb += [split.i.valid.eq(leaving.o.valid & ~stops_now), split.i.payload.eq(leaving.o.payload),
                     leaving.o.ready.eq(split.i.ready | stops_now)]
        link(m, split.o, wiring.flipped(self.results))
        self.restarts(m, arriving)
        return m

    def restarts(self, m: Module, arriving: StreamCrossing) -> None:
        """The order of a restart.  Until its end what comes to the core is dropped; and when the core has been in reset
        for long, so that nothing new comes from it, what is on its way from it has time to arrive and be dropped."""
        wanted, done, seen_done = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.restart, wanted, o_domain="sync")
        m.submodules.done = FFSynchronizer(done, seen_done, o_domain="line")
        left = Signal(range(-1, RESTART_CYCLES), init=RESTART_CYCLES - 1)  # down to its sign bit
        coming = Signal(range(-1, DRAIN_CYCLES), init=DRAIN_CYCLES - 1)
        # As in `CoreCrossing`: registers on the way to all of the core.
        wants = Signal(init=1)
        m.d.sync += wants.eq(wanted)
        m.d.comb += [
            self.core_data.valid.eq(arriving.o.valid), self.core_data.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(self.core_data.ready | wanted), self.reset.eq(delay(m, wants, RESET_HOPS, "reset_hop")),
            self.stopped.eq(seen_done & coming[-1])]
        m.d.sync += done.eq((wanted | self.reset) & left[-1])
        with m.If(~self.reset):
            m.d.sync += left.eq(left.init)
        with m.Elif(~left[-1]):
            m.d.sync += left.eq(left - 1)
        with m.If(~seen_done):
            m.d.line += coming.eq(coming.init)
        with m.Elif(~coming[-1]):
            m.d.line += coming.eq(coming - 1)


# From the host link to a memory beside the FPGA: the bytes of an image as words, and the order to forget the last.


class ImageCrossing(wiring.Component):
    """Bytes from the domain `line` to words in `sync`, and a way to clear the memory after which no older byte arrives.

    It takes four steps, whatever the ratio of the clocks:

    1. `clear` rises.  From now on there must come nothing at `data`.
    2. In `sync` `forget` rises, and what still comes is taken and lost.
    3. `cleared` rises when no byte is on its way; then `clear` must fall.
    4. `forget` falls, then `cleared`, and `data` may come again.

    Parameters
    ----------
    width
        Bits of a word of the memory, whole bytes; the low byte comes first.

    Attributes
    ----------
    data : stream of bytes
        In `line`.  Its payload must come from registers that nothing resets.
    clear, cleared : In(1), Out(1)
        In `line`; `clear` from a register.
    complete : Out(1)
        `filled` in `line`.
    words : stream of words
        In `sync`.
    forget : Out(1)
        In `sync`, from a register.
    filled : In(1)
        In `sync`: all words of an image are in the memory.
    """

    def __init__(self, *, width: int):
        if width < 8 or width % 8:
            raise ValueError(f"width must be whole bytes, not {width} bits")
        self.width = width
        super().__init__({
            "data": In(stream_of(BYTE, 1)), "clear": In(1), "cleared": Out(1), "complete": Out(1),
            "words": Out(stream.Signature(width)), "forget": Out(1), "filled": In(1)})

    @staticmethod
    def cost(width: int) -> Resources:
        """LUT and FF estimated."""
        return fitted("ImageCrossing") + Gearbox.cost(width=8, lanes_in=1, lanes_out=width // 8)

    def elaborate(self, platform):
        m = Module()
        m.submodules.arriving = arriving = ByteCrossing(source="line", target="sync")
        m.submodules.gearbox = gearbox = ResetInserter(self.forget)(
            Gearbox(shape=BYTE, lanes_in=1, lanes_out=self.width // 8))
        wanted, seen, filled = Signal(), Signal(), Signal()
        m.submodules.wanted = FFSynchronizer(self.clear, wanted, o_domain="sync")
        m.submodules.seen = FFSynchronizer(self.forget, seen, o_domain="line")
        m.submodules.complete = FFSynchronizer(filled, self.complete, o_domain="line")
        link(m, wiring.flipped(self.data), arriving.i)
        m.d.sync += [self.forget.eq(wanted), filled.eq(self.filled)]
        m.d.comb += [
            gearbox.i.valid.eq(arriving.o.valid & ~self.forget), gearbox.i.payload.eq(arriving.o.payload),
            arriving.o.ready.eq(gearbox.i.ready | self.forget), self.cleared.eq(seen & ~arriving.busy),
            self.words.valid.eq(gearbox.o.valid & ~self.forget),
            self.words.payload.eq(Value.cast(gearbox.o.payload)), gearbox.o.ready.eq(self.words.ready)]
        return m


# From a flash with an image of weights to the host link: the digest of the image, and whether it may be read.


class SealCrossing(wiring.Component):
    """A digest and a state from `sync` to `line`.

    Attributes
    ----------
    digest : stream of bytes
        In `sync`, from registers that nothing resets.
    state : In(MemoryState)
        In `sync`.  `FILLING` until the digest was given or is not to come; then it stays until a reset of both domains.
    line_digest, line_state
        The same in `line`; all of the digest has come before `FILLED`.
    """

    def __init__(self):
        byte = stream_of(BYTE, 1)
        super().__init__({"digest": In(byte), "state": In(MemoryState), "line_digest": Out(byte),
                          "line_state": Out(MemoryState)})

    @staticmethod
    def cost() -> Resources:
        """LUT and FF as synthesized."""
        return fitted("SealCrossing")

    def elaborate(self, platform):
        m = Module()
        m.submodules.bytes = octets = ByteCrossing(source="sync", target="line")
        link(m, wiring.flipped(self.digest), octets.i)
        link(m, octets.o, wiring.flipped(self.line_digest))
        held, ended, seen = Signal(MemoryState, init=MemoryState.FILLING), Signal(), Signal()
        m.submodules.ended = FFSynchronizer(ended, seen, o_domain="line")
        # The state stays when its end is seen in `line`.
        m.d.sync += [held.eq(self.state), ended.eq((held != MemoryState.FILLING) & ~octets.busy)]
        m.d.comb += self.line_state.eq(Mux(seen, held, MemoryState.FILLING))
        return m
