"""A core between AXI4-Stream ports (AMBA AXI4-Stream, ARM IHI 0051), for those who embed it in their own design."""

from __future__ import annotations

from typing import Any

from amaranth.hdl import Cat, ClockDomain, Const, DomainRenamer, Module, Mux, Shape, ShapeLike, Signal, Value, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from ..core import port_names
from ..stream.streams import bytes_of, payload_of
from ..vendor.base import Resources
from ..vendor.fitted import fitted
from .crossings import RESTART_CYCLES
from .frame_bytes import End, Ends, checked_ends, streams_of


class AxiStreamTop(wiring.Component):
    """A core whose streams are AXI4-Stream ports; beats stay as they are, and so does the core's pace.

    TDATA of a beat holds the core's elements, lane 0 lowest, each in as many whole bytes as its bits need: in the low
    bits of them on the way in, where the bits above are not looked at; on the way out its sign, or zeros, fill them.
    A frame has a fixed number of whole beats, so TKEEP, TSTRB and null bytes have no use here.

    TLAST stands at the last beat of every frame of every port.  On an input it is checked: where it comes at another
    beat, or not at the last one, `frame_error` rises, and neither that beat nor any behind it enters the core; two of
    them may still be taken from the line, then TREADY stays low.  So the frame with the error is never completed: an
    output that needs it gives no more TLAST.  Frames before it are completed.  Reset is the way out.

    All ports are registers: no path leads through this from a port to another.  That adds a cycle at each end to the
    latency of the core, and nothing to its interval.

    Parameters
    ----------
    core, ends
        See `FrameBytes`.

    Attributes
    ----------
    aclk, aresetn : In(1)
        The clock of all, and its reset: active low, synchronous, one cycle or more.  TREADY and TVALID are low from the
        first edge in reset until the core's pipelines have run dry, `RESTART_CYCLES` + 2 cycles after the last one.
    s_axis_tdata, s_axis_tvalid, s_axis_tready, s_axis_tlast
        The input; of several, `s0_axis_...`, `s1_axis_...`.
    m_axis_tdata, m_axis_tvalid, m_axis_tready, m_axis_tlast
        The output; of several, `m0_axis_...`, `m1_axis_...`.
    frame_error : Out(1)
        TLAST was at a wrong beat, or missing; until reset.
    """

    def __init__(self, *, core: Any, ends: Ends | None = None):
        self.core = core
        self.inputs, self.outputs = streams_of(core, "i"), streams_of(core, "o")
        self.ends = checked_ends(self.inputs, self.outputs, ends)
        self.input_names = [f"{name}_axis" for name in port_names("s", len(self.inputs))]
        self.output_names = [f"{name}_axis" for name in port_names("m", len(self.outputs))]
        members: dict[str, Any] = {"aclk": In(1), "aresetn": In(1)}
        for names, ports, there, back in ((self.input_names, self.inputs, In, Out),
                                          (self.output_names, self.outputs, Out, In)):
            for name, port in zip(names, ports, strict=True):
                members |= {f"{name}_tdata": there(8 * beat_bytes(port)), f"{name}_tvalid": there(1),
                            f"{name}_tready": back(1), f"{name}_tlast": there(1)}
        super().__init__({**members, "frame_error": Out(1)})

    @staticmethod
    def cost(ends: Ends) -> Resources:
        """Estimate of what stands around the core."""
        total = fitted("AxiStreamTop")
        for end in (*ends.inputs, *ends.outputs):
            count = (end.elements // end.lanes).bit_length()
            total += RegisterSlice.cost(width=end.lanes * end.width + 1) + fitted("AxiStreamTop end", count_bits=count)
        return total

    def elaborate(self, platform):
        m = Module()
        self.clocks(m)
        m.submodules.core = self.core
        wrong = [self.enter(m, *each) for each in zip(self.input_names, self.inputs, self.ends.inputs, strict=True)]
        for each in zip(self.output_names, self.outputs, self.ends.outputs, strict=True):
            self.leave(m, *each)
        m.d.ends += self.frame_error.eq(Cat(*wrong).any())  # such a beat stays where it is until reset
        return m

    def clocks(self, m: Module) -> None:
        """`sync` for the core, whose reset is a register; `ends` for the ports, which are quiet in the first cycle."""
        start = m.domains.start = ClockDomain("start", reset_less=True, local=True)
        ends = m.domains.ends = ClockDomain("ends", local=True)
        sync = m.domains.sync = ClockDomain("sync", local=True)
        left = Signal(range(-1, RESTART_CYCLES), init=RESTART_CYCLES - 1)  # down to its sign bit
        restart = Signal(init=1)
        m.d.start += [restart.eq(~left[-1] | ~self.aresetn), left.eq(left - ~left[-1])]
        with m.If(~self.aresetn):
            m.d.start += left.eq(RESTART_CYCLES - 1)
        m.d.comb += [start.clk.eq(self.aclk), ends.clk.eq(self.aclk), ends.rst.eq(restart | ~self.aresetn),
                     sync.clk.eq(self.aclk), sync.rst.eq(restart)]

    def enter(self, m: Module, name: str, port: Any, end: End) -> Value:
        """From the AXI port to an input of the core; whether the beat that waits has a wrong TLAST."""
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        size, width = 8 * bytes_of(shape), Shape.cast(shape).width
        flat = getattr(self, f"{name}_tdata")
        axis = RegisterSlice(shape=beat_of(lanes * width))
        m.submodules[name] = DomainRenamer("ends")(axis)
        right = Signal(name=f"{name}_right")
        last = self.last(m, name, end, port.valid & port.ready)
        m.d.comb += [
            axis.i.valid.eq(getattr(self, f"{name}_tvalid")), getattr(self, f"{name}_tready").eq(axis.i.ready),
            axis.i.payload.data.eq(Cat(flat.word_select(k, size)[:width] for k in range(lanes))),
            axis.i.payload.last.eq(getattr(self, f"{name}_tlast")),
            right.eq(axis.o.payload.last == last), port.valid.eq(axis.o.valid & right),
            axis.o.ready.eq(port.ready & right), Value.cast(port.payload).eq(axis.o.payload.data)]
        return axis.o.valid & ~right

    def leave(self, m: Module, name: str, port: Any, end: End) -> None:
        """From an output of the core to the AXI port."""
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        size, width, signed = 8 * bytes_of(shape), Shape.cast(shape).width, Shape.cast(shape).signed
        axis = RegisterSlice(shape=beat_of(lanes * width))
        m.submodules[name] = DomainRenamer("ends")(axis)
        flat = getattr(self, f"{name}_tdata")
        m.d.comb += [
            axis.i.valid.eq(port.valid), port.ready.eq(axis.i.ready), axis.i.payload.data.eq(Value.cast(port.payload)),
            axis.i.payload.last.eq(self.last(m, name, end, port.valid & port.ready)),
            getattr(self, f"{name}_tvalid").eq(axis.o.valid), axis.o.ready.eq(getattr(self, f"{name}_tready")),
            getattr(self, f"{name}_tlast").eq(axis.o.payload.last)]
        for k in range(lanes):
            element = Signal(Shape(size, signed=signed), name=f"{name}_element{k}")
            bits = axis.o.payload.data.word_select(k, width)
            m.d.comb += [element.eq(bits.as_signed() if signed else bits), flat.word_select(k, size).eq(element)]

    def last(self, m: Module, name: str, end: End, step: Value) -> Value:
        """Whether the next beat is the last one of its frame; beats are counted by `step`."""
        beats = end.elements // end.lanes
        if beats == 1:
            return Const(1, 1)
        left = Signal(Shape.cast(range(-1, beats - 1)), init=beats - 2, name=f"{name}_left")  # down to its sign bit
        with m.If(step):
            m.d.ends += left.eq(Mux(left[-1], beats - 2, left - 1))
        return left[-1]


class RegisterSlice(wiring.Component):
    """A stream through registers in both directions: the payload and valid, and ready.

    As `Queue(depth=2)`, but `i.ready` is low in reset, so that nothing is lost that comes then.
    Latency 1 cycle; a word in every cycle.
    """

    def __init__(self, *, shape: ShapeLike):
        self.shape = shape
        super().__init__({"i": In(stream.Signature(shape)), "o": Out(stream.Signature(shape))})

    @staticmethod
    def cost(*, width: int) -> Resources:
        """The cost of words of `width` bits."""
        return fitted("RegisterSlice", word_bits=width)

    def elaborate(self, platform):
        m = Module()
        word, spare = (Signal(self.shape, name=name, reset_less=True) for name in ("word", "spare"))
        ready, valid, kept = Signal(), Signal(), Signal()  # kept: `spare` holds a word
        moves = Signal()
        m.d.comb += [self.i.ready.eq(ready), self.o.valid.eq(valid), self.o.payload.eq(word),
                     moves.eq(self.o.ready | ~valid)]
        came = self.i.valid & ready
        with m.If(~kept):
            m.d.sync += spare.eq(self.i.payload)
        with m.If(moves):
            m.d.sync += [valid.eq(kept | came), kept.eq(0), ready.eq(1), word.eq(Mux(kept, spare, self.i.payload))]
        with m.Else():
            m.d.sync += [kept.eq(kept | came), ready.eq(~(kept | came))]
        return m


def beat_of(width: int) -> data.StructLayout:
    """A beat of `width` bits, and whether it is the last one of its frame."""
    return data.StructLayout({"data": unsigned(width), "last": 1})


def beat_bytes(port: Any) -> int:
    """Bytes of a beat on an AXI port."""
    return bytes_of(payload_of(port).elem_shape) * payload_of(port).length
