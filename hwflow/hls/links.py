"""What joins the stages of a graph: who feeds whom, changes of lanes, queues where words wait."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwflow_rtl.deep_queue import QueueChoice
from hwflow_rtl.fork import Fork
from hwflow_rtl.streams import Gearbox
from hwflow_rtl.vendor import Resources, Technology

from ..layers.base import Folding, LayerGraph, Schedule

__all__ = ["LinkPlan", "link_cost", "links_cost", "links_of"]


@dataclass(frozen=True)
class LinkPlan:
    """A stream that carries `tensor` from `source` to input `port` of `sink`.

    Source and sink are positions of layers; `~k` is input k of the graph as a source, output k of it as a sink.  A beat
    has `lanes_out` elements of `bits` bits at the source and `lanes_in` at the sink; `elements` make a frame.  `depth`
    beats of the source may wait on the way, and `behind` beats of the sink behind the change of lanes.
    """

    tensor: str
    source: int
    sink: int
    port: int
    lanes_out: int
    lanes_in: int
    bits: int
    elements: int
    depth: int = 0
    behind: int = 0

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
    def buffer_bytes(self) -> int:
        """What the queues on the way hold."""
        return -(-(self.depth * self.width_out + self.behind * self.width_in) // 8)


def joints(graph: LayerGraph) -> list[tuple[str, int, int, int]]:
    """Tensor, source, sink and port of every input of every layer, in order, then of every output of the graph."""
    made = {name: ~k for k, name in enumerate(graph.inputs)}
    made |= {layer.output: k for k, layer in enumerate(graph.layers)}
    inner = [(name, made[name], sink, port)
             for sink, layer in enumerate(graph.layers) for port, name in enumerate(layer.inputs)]
    return [*inner, *((name, made[name], ~k, 0) for k, name in enumerate(graph.outputs))]


def links_of(graph: LayerGraph, flows: Sequence[tuple[Folding, Schedule]]) -> tuple[LinkPlan, ...]:
    """The links between stages that have these foldings and schedules, without queues.

    An input of the graph has the most lanes that one of its readers takes.
    """
    found = joints(graph)
    taken = [flows[sink][1].lanes_in[port] if sink >= 0 else 0 for _, _, sink, port in found]
    given: dict[int, int] = {}
    for (_, source, _, _), lanes in zip(found, taken, strict=True):
        given[source] = flows[source][0].lanes if source >= 0 else max(lanes, given.get(source, 1))
    return tuple(
        LinkPlan(name, source, sink, port, given[source], lanes or given[source], graph.tensors[name].format.bits,
                 graph.tensors[name].frame.elements)
        for (name, source, sink, port), lanes in zip(found, taken, strict=True))


def link_cost(bits: int, lanes_out: int, lanes_in: int) -> Resources:
    """What joins a stage that gives `lanes_out` elements of `bits` bits to one that takes `lanes_in`."""
    return Gearbox.cost(width=bits, lanes_in=lanes_out, lanes_out=lanes_in)


def links_cost(links: Sequence[LinkPlan], technology: Technology) -> Resources:
    """What joins all the stages: queues where something waits or a stream has several readers, changes of lanes."""
    total = sum((link_cost(link.bits, link.lanes_out, link.lanes_in) for link in links), Resources())
    for source in {link.source for link in links}:
        readers = [link for link in links if link.source == source]
        if len(readers) > 1 or readers[0].depth:
            total += Fork.cost(width=readers[0].width_out, depths=[link.depth for link in readers],
                               technology=technology)
    behind = (QueueChoice(width=link.width_in, depth=link.behind, technology=technology).cost
              for link in links if link.behind)
    return sum(behind, total)
