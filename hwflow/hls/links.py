"""What joins the stages of a graph: who feeds whom, changes of lanes, queues where words wait."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hwflow_base.short_repr import fields_repr
from hwflow_rtl.io import End, Ends
from hwflow_rtl.stream.endpoint import Endpoint
from hwflow_rtl.stream.fork import Fork
from hwflow_rtl.stream.gearbox import Gearbox
from hwflow_rtl.stream.queue_choice import QueueChoice, QueueMemory, chosen_for_spram
from hwflow_rtl.vendor import Resources, Technology

from ..layers.base import Folding, LayerGraph, Schedule
from .stages import Stage

__all__ = ["LinkPlan", "ends_of_links", "in_spram", "link_cost", "links_cost", "links_of"]


@dataclass(frozen=True)
class LinkPlan:
    """A stream that carries `tensor` from `source` to input `port` of `sink`.

    Source and sink are stages, or inputs (as a source) and outputs (as a sink) of the graph.  A beat has `lanes_out`
    elements of `bits` bits at the source and `lanes_in` at the sink; `elements` make a frame.  A queue of `depth` beats
    of the source is before the gearbox, one of `behind` beats of the sink after it.  `spram` puts the first of them
    that there is into SPRAM.
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
    behind: int = 0
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
    def beats(self) -> int:
        """How many may wait on the way, of the source in front of the change of lanes and of the sink behind it."""
        return self.depth + self.behind

    @property
    def buffer_bytes(self) -> int:
        """What the queues on the way hold."""
        return -(-(self.depth * self.width_out + self.behind * self.width_in) // 8)

    def queue(self, technology: Technology) -> QueueChoice:
        """What `depth` beats wait in."""
        return Fork.choice(width=self.width_out, depth=self.depth, technology=technology, spram=self.spram)

    def queue_behind(self, technology: Technology) -> QueueChoice:
        """What `behind` beats wait in."""
        return QueueChoice(width=self.width_in, depth=self.behind, technology=technology,
                           spram=self.spram and not self.depth)

    def memory(self, technology: Technology) -> QueueMemory:
        """Where beats wait."""
        return self.queue(technology).memory if self.depth else self.queue_behind(technology).memory


def joints(stages: Sequence[Stage], inputs: Sequence[str], outputs: Sequence[str]
           ) -> list[tuple[str, Endpoint, Endpoint, int]]:
    """Tensor, source, sink and port of every input of every stage, in order, then of every output of the graph."""
    made = {name: Endpoint.core(k) for k, name in enumerate(inputs)}
    made |= {stage.output: Endpoint.stage(k) for k, stage in enumerate(stages)}
    inner = [(name, made[name], Endpoint.stage(k), port)
             for k, stage in enumerate(stages) for port, name in enumerate(stage.inputs)]
    return [*inner, *((name, made[name], Endpoint.core(k), 0) for k, name in enumerate(outputs))]


def links_of(graph: LayerGraph, stages: Sequence[Stage], flows: Sequence[tuple[Folding, Schedule]]
             ) -> tuple[LinkPlan, ...]:
    """The links between the stages of `graph` with these foldings and schedules, without queues.

    An input of the graph has the most lanes that one of its readers takes.
    """
    found = joints(stages, graph.inputs, graph.outputs)
    taken = [flows[sink.number][1].lanes_in[port] if sink.of_stage else 0 for _, _, sink, port in found]
    given: dict[Endpoint, int] = {}
    for (_, source, _, _), lanes in zip(found, taken, strict=True):
        given[source] = flows[source.number][0].lanes if source.of_stage else max(lanes, given.get(source, 1))
    return tuple(
        LinkPlan(name, source, sink, port, given[source], lanes or given[source], graph.tensors[name].format.bits,
                 graph.tensors[name].frame.elements)
        for (name, source, sink, port), lanes in zip(found, taken, strict=True))


def link_cost(bits: int, lanes_out: int, lanes_in: int, technology: Technology | None = None) -> Resources:
    """What joins a stage that gives `lanes_out` elements of `bits` bits to one that takes `lanes_in`."""
    return Gearbox.cost(width=bits, lanes_in=lanes_out, lanes_out=lanes_in, technology=technology)


def links_cost(links: Sequence[LinkPlan], technology: Technology) -> Resources:
    """What joins all the stages: queues where something waits or a stream has several readers, changes of lanes."""
    total = sum((link_cost(link.bits, link.lanes_out, link.lanes_in, technology) for link in links), Resources())
    for source in {link.source for link in links}:
        readers = [link for link in links if link.source == source]
        if len(readers) > 1 or readers[0].depth:
            total += Fork.cost(width=readers[0].width_out, depths=[link.depth for link in readers],
                               technology=technology, spram=[link.spram for link in readers])
    return sum((link.queue_behind(technology).cost for link in links if link.behind), total)


def ends_of_links(links: Sequence[LinkPlan]) -> Ends:
    """The inputs and outputs of a core with these links."""
    def ends(found: Mapping[Endpoint, LinkPlan]) -> tuple[End, ...]:
        return tuple(End(link.lanes_out, link.bits, link.elements) for _, link in sorted(found.items(), key=first))

    def first(entry: tuple[Endpoint, LinkPlan]) -> Endpoint:
        return entry[0]

    inputs = {link.source: link for link in reversed(links) if not link.source.of_stage}
    return Ends(ends(inputs), ends({link.sink: link for link in links if not link.sink.of_stage}))


def in_spram(links: Sequence[LinkPlan], technology: Technology) -> tuple[LinkPlan, ...]:
    """`links` with those in SPRAM whose queues gain most by it, as far as the device's SPRAM goes.

    What the frames around the core take of it is theirs.
    """
    if not technology.single_port_rams:
        return tuple(links)
    around = sum(queue.cost.spram for queue in ends_of_links(links).queues(technology))
    sizes = [(link.width_out, link.depth) if link.depth else (link.width_in, link.behind) for link in links]
    chosen = chosen_for_spram(sizes, technology, technology.single_port_rams - around)
    return tuple(replace(link, spram=each) for link, each in zip(links, chosen, strict=True))
