"""The links between the stages of a graph: source and sink, gearboxes, queues (FIFOs), and what these cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm

import numpy as np
from hwflow_base.short_repr import fields_repr
from hwflow_rtl.io import End, Ends
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.initial_frame import InitialFrame
from hwflow_rtl.stream.queue_choice import QueueChoice, chosen_for_spram
from hwflow_rtl.stream.times import Times, in_turn
from hwflow_rtl.vendor import Resources, Technology
from hwflow_rtl.vendor.memory import Place

from hwflow.layers.base import LayerGraph, State
from hwflow.layers.formats import IntArray
from hwflow.stages.folding import Folding
from hwflow.stages.partition import SHARED, kept_states
from hwflow.stages.stage import Stage


@dataclass(frozen=True)
class LinkPlan:
    """A stream that carries `tensor` from `source` to input `port` of `sink`.

    The source is a stage, an input of the graph or a state; the sink is a stage, an output or a state.  A beat has
    `lanes_out` elements of `bits` bits at the source and `lanes_in` at the sink; a gearbox converts between the two.  A
    frame has `elements` elements.  `depth` is the depth of the queue before the gearbox, in beats of the source;
    `depth_after` is the depth of the queue after the gearbox, in beats of the sink; 0 means no queue.  `spram` puts the
    queue before the gearbox into SPRAM, or, where there is none, the one after it.
    """

    tensor: str
    source: Endpoint
    sink: Endpoint
    port: int
    lanes_out: int
    lanes_in: int
    bits: int
    elements: int
    depth: int = 0
    depth_after: int = 0
    spram: bool = False

    __repr__ = fields_repr

    @property
    def width_out(self) -> int:
        """Bits of a beat of the source."""
        return self.lanes_out * self.bits

    @property
    def width_in(self) -> int:
        """Bits of a beat of the sink."""
        return self.lanes_in * self.bits

    @property
    def cycles(self) -> int:
        """Beats of a frame on the narrower side."""
        return self.elements // min(self.lanes_out, self.lanes_in)

    @property
    def parts_split(self) -> int:
        """Beats that the gearbox makes of each of the source, which are given before the next one is taken."""
        parts, rest = divmod(self.lanes_out, self.lanes_in)
        return 1 if rest else max(1, parts)

    @property
    def beats(self) -> int:
        """Beats that the two queues can hold together."""
        return self.depth + self.depth_after

    @property
    def buffer_bytes(self) -> int:
        """Bytes that the two queues can hold together."""
        return -(-(self.depth * self.width_out + self.depth_after * self.width_in) // 8)

    def between(self, stages: Sequence[str]) -> tuple[str, str]:
        """The names of source and sink, for the names of all `stages`; "input", "output" and "state" of the graph."""
        return tuple(stages[end.number] if end.of_stage else "state" if end.of_state else what  # type: ignore[return-value]
                     for end, what in ((self.source, "input"), (self.sink, "output")))

    def queue(self, technology: Technology) -> QueueChoice:
        """The queue before the gearbox."""
        return Fork.choice(width=self.width_out, depth=self.depth, technology=technology, spram=self.spram)

    def queue_after(self, technology: Technology) -> QueueChoice:
        """The queue after the gearbox."""
        return QueueChoice(width=self.width_in, depth=self.depth_after, technology=technology,
                           spram=self.spram and not self.depth)

    def memory(self, technology: Technology) -> Place:
        """The memory of the link's queue: of the one before the gearbox, or, where there is none, of the one after."""
        return self.queue(technology).memory if self.depth else self.queue_after(technology).memory


def joints(stages: Sequence[Stage], graph: LayerGraph) -> list[tuple[str, Endpoint, Endpoint, int]]:
    """Tensor, source, sink and port of every input of every stage, in order, then of every output of the graph, and of
    every state.
    """
    ends = {name: Endpoint.core(k) for k, name in enumerate(graph.inputs)}
    states = streamed_states(graph, stages)
    ends |= {state.read: Endpoint.state(k) for k, state in enumerate(states)}
    ends |= {name: Endpoint.stage(k, port) for k, stage in enumerate(stages) for port, name in enumerate(stage.outputs)}
    inner = [(name, ends[name], Endpoint.stage(k), port)
             for k, stage in enumerate(stages) for port, name in enumerate(stage.inputs)]
    return [*inner, *((name, ends[name], Endpoint.core(k), 0) for k, name in enumerate(graph.outputs)),
            *((state.write, ends[state.write], Endpoint.state(k), 0) for k, state in enumerate(states))]


def streamed_states(graph: LayerGraph, stages: Sequence[Stage]) -> tuple[State, ...]:
    """The states of `graph` that no stage keeps, in order: `Endpoint.state(k)` is the k-th of them."""
    kept = {state.read for stage in stages if stage.kind == SHARED or len(stage.layers) > 1
            for state in kept_states(graph, stage.layers)}
    return tuple(state for state in graph.states if state.read not in kept)


def links_of(graph: LayerGraph, stages: Sequence[Stage], flows: Sequence[tuple[Folding, tuple[int, ...]]]
             ) -> tuple[LinkPlan, ...]:
    """The links between the stages of `graph` without queues.

    `flows` has for each stage its folding, and for each of its inputs the elements of a beat.

    An input of the graph has the most lanes that one of its readers takes, and so has a state, which is written in the
    lanes in which it is read.
    """
    joined = joints(stages, graph)
    taken = [flows[sink.number][1][port] if sink.of_stage else 0 for _, _, sink, port in joined]
    parts: dict[Endpoint, int] = {}
    for (_, source, _, _), lanes in zip(joined, taken, strict=True):
        parts[source] = (stages[source.number].lanes_out(flows[source.number][0])[source.output] if source.of_stage
                         else max(lanes, parts.get(source, 1)))
    return tuple(
        LinkPlan(name, source, sink, port, parts[source],
                 lanes or parts[sink if sink.of_state else source], graph.tensors[name].format.bits,
                 graph.tensors[name].frame.elements)
        for (name, source, sink, port), lanes in zip(joined, taken, strict=True))


def link_cost(bits: int, lanes_out: int, lanes_in: int, technology: Technology | None = None) -> Resources:
    """The cost of the gearbox from `lanes_out` to `lanes_in` elements of `bits` bits; nothing if they are equal."""
    return Gearbox.cost(width=bits, lanes_in=lanes_out, lanes_out=lanes_in, technology=technology)


def links_cost(links: Sequence[LinkPlan], technology: Technology) -> Resources:
    """The cost of all links: gearboxes, queues, forks where a stream has several readers, and the first frames of
    states, as constants."""
    total = sum((link_cost(link.bits, link.lanes_out, link.lanes_in, technology) for link in links), Resources())
    total += sum((InitialFrame.cost(width=link.width_in, beats=link.elements // link.lanes_in)
                  for link in links if link.sink.of_state), Resources())
    for source in {link.source for link in links}:
        readers = [link for link in links if link.source == source]
        if len(readers) > 1 or readers[0].depth:
            total += Fork.cost(width=readers[0].width_out, depths=[link.depth for link in readers],
                               technology=technology, spram=[link.spram for link in readers])
    return sum((link.queue_after(technology).cost for link in links if link.depth_after), total)


def ends_of_links(links: Sequence[LinkPlan]) -> Ends:
    """The inputs and outputs of a core with these links."""
    def ends(links: Mapping[Endpoint, LinkPlan]) -> tuple[End, ...]:
        return tuple(End(link.lanes_out, link.bits, link.elements) for _, link in sorted(links.items(), key=first))

    def first(entry: tuple[Endpoint, LinkPlan]) -> Endpoint:
        return entry[0]

    inputs = {link.source: link for link in reversed(links) if link.source.of_core}
    return Ends(ends(inputs), ends({link.sink: link for link in links if link.sink.of_core}))


def spram_around(links: Sequence[LinkPlan], technology: Technology) -> int:
    """SPRAMs of the queues for frames around a core with these links."""
    return sum(queue.cost.spram for queue in ends_of_links(links).queues(technology))


def in_spram(links: Sequence[LinkPlan], technology: Technology, taken: int = 0) -> tuple[LinkPlan, ...]:
    """`links`, with the queues that gain most from SPRAM moved into it, as many as the device has SPRAMs for.

    The queues for frames around the core take their SPRAMs first; stages have `taken` some.
    """
    if not technology.single_port_rams:
        return tuple(links)
    around = spram_around(links, technology)
    sizes = [(link.width_out, link.depth) if link.depth else (link.width_in, link.depth_after) for link in links]
    chosen = chosen_for_spram(sizes, technology, max(0, technology.single_port_rams - around - taken))
    return tuple(replace(link, spram=in_spram) for link, in_spram in zip(links, chosen, strict=True))


def parts_of(link: LinkPlan) -> int:
    """Beats of the source that a gearbox to more lanes collects for a beat of the sink, which no queue holds; else
    1."""
    parts, rest = divmod(link.lanes_in, link.lanes_out)
    return 1 if rest or link.depth_after else max(1, parts)


def collected(link: LinkPlan, arrivals: Times, taken: Times) -> Times:
    """The arrivals of wide beats, each collected from its source, one element a cycle, after the beat before it."""
    parts = parts_of(link)
    if parts == 1 or (taken == arrivals).all():
        return arrivals
    return in_turn(np.concatenate([arrivals[:1], np.maximum(arrivals[1:], taken[:-1] + parts)]), parts)


def later(times: Times, held: Times | None) -> Times:
    return times if held is None else in_turn(np.maximum(times, held))


def waiting(entered: Times, gone: Times) -> int:
    """The largest number of beats that have entered and not left, over all cycles."""
    return int(np.max(np.arange(1, len(entered) + 1) - np.searchsorted(gone, entered, side="left")))


def leaving(link: LinkPlan, taken: Times, beats: IntArray, skid: int = 0) -> Times:
    """The cycles in which beats of the source leave the queue.

    They go to the sink, or into the gearbox after it has given the beats that it held before.  The gearbox can hold
    `skid` more beats of its narrow side, and then uses free room one cycle later.
    """
    if link.lanes_out == link.lanes_in:
        return taken[beats]
    both = lcm(link.lanes_out, link.lanes_in)
    if skid and both not in (link.lanes_out, link.lanes_in):  # joined to their multiple, which is then split
        joined = (beats - skid) * link.lanes_out // both
        before = (joined - 1) * (both // link.lanes_in) - 1 - skid
    elif link.lanes_out < link.lanes_in:
        before = (beats - skid) * link.lanes_out // link.lanes_in - 1
    else:
        before = beats * link.lanes_out // link.lanes_in - 1 - skid
    return np.where(before < 0, 0, taken[np.maximum(before, 0)] + (skid > 0))


def passed_on(link: LinkPlan, departures: Times, taken: Times) -> Times:
    """The cycles in which beats of the source leave it, with no queue before the gearbox or the sink, which gives or
    takes its own as `taken` says."""
    gone = np.maximum(departures, leaving(link, taken, np.arange(len(departures)), Gearbox.SKID))
    return in_turn(gone, link.parts_split)


@dataclass(frozen=True)
class Played:
    """The cycle of every beat: `departures` by source; `arrivals` and `taken` by link, in beats of its sink.

    Where `frames` is not 0, that many frames were played, and all later ones follow the last one every `interval`
    cycles.
    """

    departures: Mapping[Endpoint, Times]
    arrivals: Mapping[int, Times]
    taken: Mapping[int, Times]
    frames: int = 0
    interval: int = 0

    def waiting(self, entered: Times, gone: Times) -> int:
        """The largest number of beats that have entered and not left, over all cycles of all frames.

        It grows from frame to frame until as many frames are in the design as ever are; so the last ones have it.  Of
        these, a beat that enters in cycle s of an interval finds the beats of each earlier frame gone that left in an
        earlier cycle of their interval, or some intervals before.
        """
        if not self.frames:
            return waiting(entered, gone)
        entering, leaving = entered.reshape(self.frames, -1)[-1], gone.reshape(self.frames, -1)[-1]
        whole_in, part_in = np.divmod(entering, self.interval)
        whole_out, part_out = np.divmod(leaving, self.interval)
        before = np.searchsorted(np.sort(part_out), part_in, side="left")
        still = np.arange(1, len(entering) + 1) - len(entering) * whole_in + int(whole_out.sum()) - before
        return max(int(still.max()), waiting(entered, gone))

    def ahead(self, links: Sequence[LinkPlan], frames: int, interval: int) -> int:
        """The most frames that follow one into a stage before it has left, if each of `frames` played ones stays as
        long as the last one and they come every `interval` cycles.

        A stage with several inputs takes frames of one while it waits for another, as many as its memories hold; only
        a frame behind these waits on the link.  A stage with one input does not wait for what it has taken.
        """
        entered: dict[Endpoint, list[int]] = {}
        for link, taken in ((links[e], taken) for e, taken in self.taken.items() if links[e].sink.of_stage):
            entered.setdefault(link.sink, []).append(int(taken[-(len(taken) // frames)]))
        return max((int(self.departures[stage][-1] - min(firsts)) // interval
                    for stage, firsts in entered.items() if len(firsts) > 1), default=0)
