"""The core: a graph of stages connected by streams, with probes so that a simulation can compare every stage."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from amaranth.hdl import Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from .stream.endpoint import Endpoint
from .stream.fork import Fork
from .stream.gearbox import Gearbox
from .stream.initial_frame import InitialFrame
from .stream.queue_choice import make_queue
from .stream.streams import lanes_of, link, payload_of
from .vendor.base import Technology


@dataclass(frozen=True)
class Link:
    """A stream from the output of one stage to an input of another.

    source, sink
        The source is a stage, an input of the core or a state; the sink is a stage, an output of the core or a state.
    port
        Number of the sink's input.
    depth
        Depth of the FIFO before the gearbox, in beats of the source.  0: no FIFO, unless the source has other readers.
    depth_after
        Depth of the FIFO after the gearbox, in beats of the sink; 0: no FIFO.  It is for a sink that takes beats in
        bursts and a narrow source that gives an element in every cycle: without it, backpressure from the pauses of the
        sink would stall the source.
    spram
        Put this link's FIFO into SPRAM: the one before the gearbox, or, if there is none, the one after it.
    """

    source: Endpoint
    sink: Endpoint
    port: int = 0
    depth: int = 0
    depth_after: int = 0
    spram: bool = False


class Core(wiring.Component):
    """A graph of stages.  Each stage is a component with one or more input streams, one or more output streams (`o`, or
    `o0`, `o1`, ...) and the port `busy`.

    A stage with a memory of its own reports each word that it writes at the port `wrote`: a struct of `valid`, `step`
    and `word`.

    A source with several readers or with a FIFO is connected to a `Fork`.  A link whose source and sink have different
    lanes has a `Gearbox`.  A state is an `InitialFrame`: what is written waits in the FIFO of the link that writes it.

    Parameters
    ----------
    stages
        Pairs of a name and a stage, in topological order.
    inputs
        The signatures of the core's input streams.
    links
        Every input of every stage, and every output of the core, is the sink of exactly one link.  The number of links
        to core outputs is the number of outputs of the core.
    technology
        Makes the memories of deep FIFOs.
    states
        What each state gives in the first frame after a reset.
    beats
        Beats of a frame at the first input, with whose first beat a frame of each state begins.
    written
        For each stage with the port `wrote`, by its number: the tensors that it writes into its memory, each as the
        steps that write it.  Each of these tensors has a probe.

    Ports
    -----
    i, o
        The input and the output; with several, `i0`, `i1`, ... and `o0`, `o1`, ...
    weights0, weights1, ...
        The stream `weights` of each stage that has one, in the order of the stages (`weighted`).
    probe{k}_valid, probe{k}_data
        A beat leaves stage `probes[k]` in this cycle; its payload as bits, lane 0 lowest.  The probe is before forks
        and gearboxes.  The last probes of a stage are those of its outputs, in order; the probes before them show the
        words that it writes into its memory.
    stall{k}
        Stage k offers a beat at some output, and the reader does not take it (backpressure).
    busy{k}
        Stage k computes.
    full{e}, empty{e}, level{e}
        Link e takes no beat from its source; link e has no beat for its sink; the number of words in its FIFO.
    """

    def __init__(self, *, stages: Sequence[tuple[str, wiring.Component]], inputs: Sequence[stream.Signature],
                 links: Sequence[Link], technology: Technology | None = None, states: Sequence[InitialFrame] = (),
                 beats: int = 1,
                 written: Mapping[int, Sequence[Collection[int]]] = MappingProxyType({})):
        if not stages:
            raise ValueError("stages of a Core must be at least one, not none")
        self.stages = tuple(stages)
        self.written = {k: tuple(written.get(k, ())) for k in range(len(self.stages))}
        self.probes = tuple(k for k, (_, stage) in enumerate(self.stages)
                            for _ in range(len(self.written[k]) + len(outputs_of(stage))))
        self.links = tuple(links)
        self.technology = technology
        self.states, self.beats = tuple(states), beats
        self.input_names = port_names("i", len(inputs))
        self.output_names = port_names("o", sum(link.sink.of_core for link in links))
        self.check_sinks()
        members: dict[str, Any] = {name: In(each) for name, each in zip(self.input_names, inputs, strict=True)}
        for each in self.links:
            if each.sink.of_core:
                payload = self.payload_of_source(each, inputs)
                members[self.output_names[each.sink.number]] = Out(stream.Signature(payload))
            else:
                self.check_elements(each, inputs)
        self.weighted = tuple(k for k, (_, stage) in enumerate(self.stages) if "weights" in stage.signature.members)
        members |= {f"weights{n}": In(stream.Signature(payload_of(self.stages[k][1].weights)))
                    for n, k in enumerate(self.weighted)}
        for k, (_, stage) in enumerate(self.stages):
            shown = [*(stage.wrote.word for _ in self.written[k]), *(each.payload for each in outputs_of(stage))]
            for probe, word in zip(self.probes_of(k), shown, strict=True):
                members |= {f"probe{probe}_valid": Out(1), f"probe{probe}_data": Out(len(Value.cast(word)))}
            members |= {f"stall{k}": Out(1), f"busy{k}": Out(1)}
        for e in range(len(self.links)):
            members |= {f"full{e}": Out(1), f"empty{e}": Out(1), f"level{e}": Out(range(self.capacity(e) + 1))}
        super().__init__(members)

    def probes_of(self, k: int) -> range:
        """The numbers of the probes of stage k; the last ones are at its outputs."""
        first = self.probes.index(k)
        return range(first, first + self.probes.count(k))

    def has_queue(self, e: int) -> bool:
        """Whether link e has a FIFO before its gearbox: it has a depth, or its source has other readers."""
        each = self.links[e]
        return each.depth > 0 or sum(other.source == each.source for other in self.links) > 1

    def capacity(self, e: int) -> int:
        """Words that this FIFO can hold; 0 without one."""
        return Fork.depth_of(self.links[e].depth) if self.has_queue(e) else 0

    def check_sinks(self) -> None:
        """Check that each input of a stage and each output of the core has one source, which is an earlier stage."""
        ends = {(Endpoint.stage(k), port) for k, (_, stage) in enumerate(self.stages)
                  for port in range(len(inputs_of(stage)))}
        ends |= {(Endpoint.core(k), 0) for k in range(len(self.output_names))}
        ends |= {(Endpoint.state(k), 0) for k in range(len(self.states))}
        sinks = [(each.sink, each.port) for each in self.links]
        if len(sinks) != len(set(sinks)) or set(sinks) != ends:
            raise ValueError(f"links of a Core must feed each of {sorted(ends)} once, not {sorted(sinks)}")
        for each in self.links:
            source, sink = each.source, each.sink
            later = sink.number if sink.of_stage else len(self.stages)
            ends_there = len(self.states if source.of_state else self.input_names)
            if not 0 <= source.number < (later if source.of_stage else ends_there) or (
                    source.of_stage and source not in self.made()):
                raise ValueError(f"source of {each} must be an input or a state of the Core, or an earlier stage")
        sources = [*map(Endpoint.core, range(len(self.input_names))), *self.made(),
                   *map(Endpoint.state, range(len(self.states)))]
        read = {each.source for each in self.links}
        unread = [self.name_of(source) for source in sources if source not in read]
        if unread:
            raise ValueError(f"sources of a Core must each have a reader; {', '.join(unread)} has none")

    def made(self) -> dict[Endpoint, Any]:
        """The output streams of all stages."""
        return {Endpoint.stage(k, port): each for k, (_, stage) in enumerate(self.stages)
                for port, each in enumerate(outputs_of(stage))}

    def payload_of_source(self, each: Link, inputs: Sequence[stream.Signature]) -> Any:
        if each.source.of_core:
            return inputs[each.source.number].members["payload"].shape
        if each.source.of_state:
            return payload_of(self.states[each.source.number].o)
        return payload_of(self.made()[each.source])

    def check_elements(self, each: Link, inputs: Sequence[stream.Signature]) -> None:
        ours, theirs = self.payload_of_source(each, inputs).elem_shape, payload_of(self.sink_of(each)).elem_shape
        if ours != theirs:
            sink = f"state {each.sink.number}" if each.sink.of_state else f"stage '{self.stages[each.sink.number][0]}'"
            raise wiring.ConnectionError(
                f"input elements of {sink} must be of the shape that {self.name_of(each.source)} gives, "
                f"{ours!r}, not {theirs!r}")

    def sink_of(self, each: Link) -> Any:
        """The stream that a link to a stage or a state feeds."""
        if each.sink.of_state:
            return self.states[each.sink.number].i
        return inputs_of(self.stages[each.sink.number][1])[each.port]

    def name_of(self, source: Endpoint) -> str:
        if source.of_stage:
            return f"stage '{self.stages[source.number][0]}'"
        if source.of_state:
            return f"state {source.number}"
        return f"input '{self.input_names[source.number]}'"

    def elaborate(self, platform):
        m = Module()
        names = submodule_names([name for name, _ in self.stages])
        for k, (name, (_, stage)) in enumerate(zip(names, self.stages, strict=True)):
            m.submodules[name] = stage
            probes, outputs, written = self.probes_of(k), outputs_of(stage), self.written[k]
            for probe, steps in zip(probes[:len(written)], written, strict=True):
                m.d.comb += [
                    getattr(self, f"probe{probe}_valid").eq(stage.wrote.valid & stage.wrote.step.matches(*steps)),
                    getattr(self, f"probe{probe}_data").eq(Value.cast(stage.wrote.word)),
                ]
            for probe, each in zip(probes[len(written):], outputs, strict=True):
                m.d.comb += [getattr(self, f"probe{probe}_valid").eq(each.valid & each.ready),
                             getattr(self, f"probe{probe}_data").eq(Value.cast(each.payload))]
            m.d.comb += [getattr(self, f"stall{k}").eq(Cat(each.valid & ~each.ready for each in outputs).any()),
                         getattr(self, f"busy{k}").eq(stage.busy)]
        for n, k in enumerate(self.weighted):
            link(m, wiring.flipped(getattr(self, f"weights{n}")), self.stages[k][1].weights)
        sources = {Endpoint.core(k): (wiring.flipped(getattr(self, name)), name)
                   for k, name in enumerate(self.input_names)}
        self.begin_states(m)
        sources |= {Endpoint.state(k): (state.o, f"state{k}.o") for k, state in enumerate(self.states)}
        for endpoint, source in self.made().items():
            ports = port_names("o", len(outputs_of(self.stages[endpoint.number][1])))
            sources[endpoint] = source, f"{names[endpoint.number]}.{ports[endpoint.output]}"
        for endpoint, (source, source_name) in sources.items():
            readers = [(e, each) for e, each in enumerate(self.links) if each.source == endpoint]
            self.spread(m, source, source_name, readers, names)
        return m

    def begin_states(self, m: Module) -> None:
        """Tell each state when a frame is offered at the first input, and when it enters."""
        if not self.states:
            return
        port = getattr(self, self.input_names[0])
        place, first = Signal(range(max(self.beats, 2)), name="place"), Signal(init=1, name="first")
        with m.If(port.valid & port.ready):
            last = place == self.beats - 1
            m.d.sync += [place.eq(Mux(last, 0, place + 1)), first.eq(last)]
        for k, state in enumerate(self.states):
            m.submodules[f"state{k}"] = state
            m.d.comb += [state.offered.eq(port.valid & first), state.entered.eq(port.valid & port.ready & first)]

    def spread(self, m: Module, source: Any, source_name: str, readers: Sequence[tuple[int, Link]],
               names: Sequence[str]) -> None:
        """Connect one source to all its readers, through a fork, FIFOs and gearboxes."""
        fork = None
        if not self.has_queue(readers[0][0]):
            streams = [(source, source_name)]
        else:
            fork_name = f"fork_{source_name.removesuffix('.o').replace('.', '_')}"
            m.submodules[fork_name] = fork = Fork(
                shape=payload_of(source), depths=[each.depth for _, each in readers], technology=self.technology,
                spram=[each.spram for _, each in readers])
            link(m, source, fork.i, names=(source_name, f"{fork_name}.i"))
            streams = [(getattr(fork, f"o{n}"), f"{fork_name}.o{n}") for n in range(len(readers))]
        for n, (e, each) in enumerate(readers):
            reader, reader_name = streams[n]
            if fork is None:
                full = reader.valid & ~reader.ready
            else:
                full = ~fork.queues[n].i.ready
                m.d.comb += getattr(self, f"level{e}").eq(fork.queues[n].level)
            m.d.comb += [getattr(self, f"full{e}").eq(full), getattr(self, f"empty{e}").eq(~reader.valid)]
            if not each.sink.of_core:
                sink = self.sink_of(each)
                sink_name = f"{names[each.sink.number] if each.sink.of_stage else f'state{each.sink.number}'}.i"
            else:
                sink, sink_name = wiring.flipped(getattr(self, self.output_names[each.sink.number])), "o"
            if lanes_of(reader) != lanes_of(sink):
                m.submodules[f"gearbox{e}"] = gearbox = Gearbox(
                    shape=payload_of(sink).elem_shape, lanes_in=lanes_of(reader), lanes_out=lanes_of(sink))
                link(m, reader, gearbox.i, names=(reader_name, f"gearbox{e}.i"))
                reader, reader_name = gearbox.o, f"gearbox{e}.o"
            if each.depth_after:
                m.submodules[f"behind{e}"] = queue = make_queue(
                    shape=payload_of(sink), depth=max(2, each.depth_after), technology=self.technology,
                    spram=each.spram and not each.depth)
                link(m, reader, queue.i, names=(reader_name, f"behind{e}.i"))
                reader, reader_name = queue.o, f"behind{e}.o"
            link(m, reader, sink, names=(reader_name, sink_name))


def inputs_of(stage: Any) -> list[Any]:
    """The input streams of a stage: `i`, or `i0`, `i1`, ..."""
    return ports_of(stage, "i")


def outputs_of(stage: Any) -> list[Any]:
    """The output streams of a stage: `o`, or `o0`, `o1`, ..."""
    return ports_of(stage, "o")


def ports_of(stage: Any, letter: str) -> list[Any]:
    if letter in stage.signature.members:
        return [getattr(stage, letter)]
    count = sum(name.startswith(letter) and name[1:].isdigit() for name in stage.signature.members)
    return [getattr(stage, f"{letter}{k}") for k in range(count)]


def port_names(letter: str, count: int) -> list[str]:
    """`i`, or `i0`, `i1`, ... for several."""
    return [letter] if count == 1 else [f"{letter}{k}" for k in range(count)]


def submodule_names(names: Sequence[str]) -> list[str]:
    """The name `stage{k}_{name}` of each stage, with only letters, digits and underscores.

    The position k makes the names unique.  It is not repeated if `name` already begins with it.
    """
    result = []
    for k, name in enumerate(names):
        clean = "".join(c if c.isascii() and c.isalnum() else "_" for c in name).strip("_").removeprefix(f"{k}_")
        result.append(f"stage{k}_{clean}".rstrip("_"))
    return result
