"""Between a core's streams and two streams of bytes: its frames, input after input and output after output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd
from typing import Any

from amaranth.hdl import Cat, Const, Module, Shape, Signal, Value, unsigned
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from ..stream.gearbox import Gearbox
from ..stream.queue import Pair
from ..stream.queue_choice import QueueChoice, chosen_for_spram, make_queue
from ..stream.streams import BYTE, bytes_of, link, payload_of, stream_of
from ..vendor.base import Resources, Technology
from ..vendor.fitted import fitted

#: Bytes of the widest word between a core and a fast line: more in a cycle than any of them brings.
WIDEST = 8


@dataclass(frozen=True)
class End:
    """An input or output of a core: beats of `lanes` elements of `width` bits, `elements` in a frame."""

    lanes: int
    width: int
    elements: int

    def queue(self, technology: Technology | None, *, spram: bool = False) -> QueueChoice:
        """The queue that holds a whole frame."""
        return QueueChoice(width=self.beat, depth=self.depth, technology=technology, spram=spram)

    @property
    def beat(self) -> int:
        """Bits of a beat."""
        return self.lanes * self.width

    @property
    def beat_bytes(self) -> int:
        """The bytes of a beat on the line."""
        return self.lanes * bytes_of(unsigned(self.width))

    @property
    def depth(self) -> int:
        return max(2, self.elements // self.lanes)


@dataclass(frozen=True)
class Ends:
    """All inputs and outputs of a core, in order."""

    inputs: tuple[End, ...]
    outputs: tuple[End, ...]

    @property
    def words(self) -> tuple[int, int]:
        """Bytes of the widest words of which all beats of the inputs, and of the outputs, are made, up to `WIDEST`."""
        most_in, most_out = (gcd(*(end.beat_bytes for end in group)) for group in (self.inputs, self.outputs))
        return widest(most_in), widest(most_out)

    @property
    def waiting(self) -> tuple[End, ...]:
        """The streams of which a whole frame waits while the line serves the others."""
        return (*self.inputs[:-1], *self.outputs[1:])

    def queues(self, technology: Technology | None) -> tuple[QueueChoice, ...]:
        """The queues that hold the frames of `waiting`.  They have the first choice of the device's SPRAM, before the
        links between stages: a whole frame is what is large."""
        sizes = [(end.beat, end.depth) for end in self.waiting]
        spram = [False] * len(sizes) if technology is None else chosen_for_spram(
            sizes, technology, technology.single_port_rams)
        return tuple(end.queue(technology, spram=each) for end, each in zip(self.waiting, spram, strict=True))


class FrameBytes(wiring.Component):
    """Connects a core, which stands beside it, to streams of bytes.

    One byte is one element of up to 8 bits; wider elements take as many bytes as they need, low first.

    An element is in the low bits of its bytes; on the way out its sign, or zeros, fill them.

    Of a core with several inputs there comes a frame of input 0, then one of input 1, and so on; then the next of
    input 0.  All but the last input have a queue for a whole frame, since the core may take nothing of one before
    another has come.  Back go a frame of output 0, then one of output 1, and so on; all but the first have a queue for
    a whole frame.  Nothing waits in a circle: what a queue at an output has no room for is of a later frame than the
    bytes are at, and all that this frame needs has passed before it.

    On a large die, whose blocks are far from each other, paths end in a `Pair` at each port of the core and at each end
    of the link: the link is at its pads, the core where its multipliers and memories are, and a gearbox between them.
    An output has two, one at the core and one at its gearbox, since the queue it comes from asks much of `ready`.

    Parameters
    ----------
    core
        A component with streams `i` and `o` whose payloads are arrays of elements of any width; with several, `i0`,
        `i1`, ... and `o0`, `o1`, ..., as a `Core`.
    ends
        The frames of its inputs and outputs.  Without, a core with one of each has frames of one beat.
    technology
        What makes the queues for whole frames.
    wide
        Whether the streams have words of several bytes, as many as all beats of the core are made of, at most
        `WIDEST`.  So they take as much as the core, where all beats have as many bytes.

    Attributes
    ----------
    i, o : streams of bytes
    """

    def __init__(self, *, core: Any, ends: Ends | None = None, technology: Technology | None = None,
                 wide: bool = False):
        self.core = core
        self.technology = technology
        self.inputs, self.outputs = streams_of(core, "i"), streams_of(core, "o")
        self.ends = checked_ends(self.inputs, self.outputs, ends)
        self.width_in, self.width_out = self.ends.words if wide else (1, 1)
        super().__init__({"i": In(stream_of(BYTE, self.width_in)), "o": Out(stream_of(BYTE, self.width_out))})

    @staticmethod
    def cost(ends: Ends, technology: Technology, *, wide: bool = False) -> Resources:
        """Count what changes lanes, and queues for whole frames of more than one input and one output."""
        total = Resources()
        width_in, width_out = ends.words if wide else (1, 1)
        for width, group in ((width_in, ends.inputs), (width_out, ends.outputs)):
            for end in group:
                total += Gearbox.cost(width=8, lanes_in=width, lanes_out=end.beat_bytes)
        if technology.has_distant_blocks:
            at_core = [end.beat for end in (*ends.inputs, *ends.outputs, *ends.outputs)]
            total += sum((Pair.cost(width=bits) for bits in (8 * width_in, 8 * width_out, *at_core)), Resources())
        for queue in ends.queues(technology):
            total += queue.cost + fitted("FrameBytes queue")
        return total

    @property
    def bytes_in(self) -> int:
        """Bytes of all inputs of a frame."""
        return frame_bytes(self.inputs, self.ends.inputs)

    @property
    def bytes_out(self) -> int:
        """Bytes of all outputs of a frame."""
        return frame_bytes(self.outputs, self.ends.outputs)

    def elaborate(self, platform):
        m = Module()
        line = self.behind_pair(m, "from_line", wiring.flipped(self.i))
        turns = self.turns(m, "in", self.inputs, line.valid & line.ready)
        readies = [self.gather(m, k, line, turn) for k, turn in enumerate(turns)]
        m.d.comb += line.ready.eq(Cat(*readies).any())

        line = self.before_pair(m, "to_line", wiring.flipped(self.o))
        turns = self.turns(m, "out", self.outputs, line.valid & line.ready)
        offers = [self.scatter(m, k, line, turn) for k, turn in enumerate(turns)]
        m.d.comb += line.valid.eq(Cat(*(valid for valid, _ in offers)).any())
        for turn, (_, word) in zip(turns, offers, strict=True):
            with m.If(turn):
                m.d.comb += Value.cast(line.payload).eq(word)
        return m

    def turns(self, m: Module, name: str, streams: Sequence[Any], step: Value) -> list[Value]:
        """Which of the streams the line serves: each for the words of a frame, one for each `step`, in order."""
        if len(streams) == 1:
            return [Const(1, 1)]
        ends = self.ends.inputs if name == "in" else self.ends.outputs
        width = self.width_in if name == "in" else self.width_out
        last = [end.elements * bytes_of(payload_of(port).elem_shape) // width - 2
                for end, port in zip(ends, streams, strict=True)]
        turn = Signal(len(streams), init=1, name=f"turn_{name}")
        left = Signal(Shape.cast(range(-1, max(last) + 1)), init=last[0], name=f"left_{name}")  # down to its sign bit
        with m.If(step):
            m.d.sync += left.eq(left - 1)
            with m.If(left[-1]):
                m.d.sync += turn.eq(turn.rotate_left(1))
                for k, count in enumerate(last):
                    with m.If(turn[k - 1]):
                        m.d.sync += left.eq(count)
        return list(turn)

    def gather(self, m: Module, k: int, line: Any, turn: Value) -> Value:
        """Bytes of the line to input k while it is its turn; whether it takes one in this cycle."""
        port = self.inputs[k]
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        count, width = bytes_of(shape), Shape.cast(shape).width
        m.submodules[f"gather{k}"] = gather = Gearbox(shape=BYTE, lanes_in=self.width_in,
                                                               lanes_out=lanes * count)
        m.d.comb += [gather.i.valid.eq(line.valid & turn), gather.i.payload.eq(line.payload)]
        sink = self.before_pair(m, f"to_core{k}", port)
        if k < len(self.inputs) - 1:
            m.submodules[f"frame_in{k}"] = queue = self.frame_queue(port, k)
            link(m, queue.o, sink)
            sink = queue.i
        flat = Value.cast(gather.o.payload)
        m.d.comb += [
            sink.valid.eq(gather.o.valid), gather.o.ready.eq(sink.ready),
            Value.cast(sink.payload).eq(Cat(flat.word_select(n, 8 * count)[:width] for n in range(lanes)))]
        return gather.i.ready & turn

    def scatter(self, m: Module, k: int, line: Any, turn: Value) -> tuple[Value, Value]:
        """Words of output k to the line while it is its turn: whether there is one, and which."""
        port = self.outputs[k]
        shape, lanes = payload_of(port).elem_shape, payload_of(port).length
        count = bytes_of(shape)
        m.submodules[f"scatter{k}"] = scatter = Gearbox(shape=BYTE, lanes_in=lanes * count,
                                                                 lanes_out=self.width_out)
        source = self.behind_pair(m, f"to_link{k}", self.behind_pair(m, f"from_core{k}", port))
        if k:
            m.submodules[f"frame_out{k}"] = queue = self.frame_queue(port, len(self.inputs) - 1 + k - 1)
            link(m, source, queue.i)
            source = queue.o
        m.d.comb += [scatter.i.valid.eq(source.valid), source.ready.eq(scatter.i.ready),
                     scatter.o.ready.eq(line.ready & turn)]
        for n in range(lanes):
            element = Signal(Shape(8 * count, signed=Shape.cast(shape).signed), name=f"element{k}_{n}")
            m.d.comb += [element.eq(source.payload[n]),
                         Value.cast(scatter.i.payload).word_select(n, 8 * count).eq(element)]
        return scatter.o.valid & turn, Value.cast(scatter.o.payload)

    def behind_pair(self, m: Module, name: str, source: Any) -> Any:
        """`source`, or on a large die the far end of a `Pair` behind it."""
        if not self.is_large:
            return source
        m.submodules[name] = pair = Pair(shape=payload_of(source))
        link(m, source, pair.i)
        return pair.o

    def before_pair(self, m: Module, name: str, sink: Any) -> Any:
        """`sink`, or on a large die the near end of a `Pair` before it."""
        if not self.is_large:
            return sink
        m.submodules[name] = pair = Pair(shape=payload_of(sink))
        link(m, pair.o, sink)
        return pair.i

    @property
    def is_large(self) -> bool:
        """Whether the core may be far from the link."""
        return self.technology is not None and self.technology.has_distant_blocks

    def frame_queue(self, port: Any, place: int) -> wiring.Component:
        """For the frames of `port`, which of all that wait is at `place`."""
        choice = self.ends.queues(self.technology)[place]
        return make_queue(shape=payload_of(port), depth=choice.depth, technology=self.technology,
                          spram=choice.in_spram)


def widest(most: int) -> int:
    """The widest word of which `most` bytes are made."""
    return max(width for width in range(1, WIDEST + 1) if most % width == 0)


def streams_of(core: Any, letter: str) -> list[Any]:
    """The inputs `i`, or `i0`, `i1`, ..., of a core, or its outputs."""
    members = getattr(core, "signature", None)
    if members is None or letter in members.members:
        return [getattr(core, letter, None)]
    count = sum(name.startswith(letter) and name[1:].isdigit() for name in members.members)
    return [getattr(core, f"{letter}{k}") for k in range(count)]


def frame_bytes(ports: Sequence[Any], ends: Sequence[End]) -> int:
    return sum(end.elements * bytes_of(payload_of(port).elem_shape) for port, end in zip(ports, ends, strict=True))


def checked_ends(inputs: Sequence[Any], outputs: Sequence[Any], ends: Ends | None) -> Ends:
    """`ends`, if they are those of the streams; ValueError if not, or if there are none for several streams."""
    sizes = [[(payload_of(port).length, Shape.cast(payload_of(port).elem_shape).width) for port in ports]
             for ports in (inputs, outputs)]
    if ends is None:
        if len(inputs) > 1 or len(outputs) > 1:
            raise ValueError(f"ends must be given for a core with {len(inputs)} inputs and "
                             f"{len(outputs)} outputs")
        return Ends(*(tuple(End(lanes, width, lanes) for lanes, width in streams) for streams in sizes))
    for what, streams, said in (("inputs", sizes[0], ends.inputs), ("outputs", sizes[1], ends.outputs)):
        if [(end.lanes, end.width) for end in said] != streams or any(end.elements % end.lanes for end in said):
            raise ValueError(f"ends must be whole beats of the core's {what}, of the lanes and widths "
                             f"{streams}, not {list(said)}")
    return ends
