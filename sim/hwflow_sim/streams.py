"""The streams of a core that a run plays and watches: inputs, stages, outputs, and the links between them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hwflow_rtl.stream.endpoint import Endpoint

from .results import Boundary, Element, ElementShape

if TYPE_CHECKING:
    from amaranth.lib.wiring import Component


@dataclass(frozen=True)
class Input:
    """An input stream of the core, which brings `tensor`: `lanes` elements of `shape` a beat.

    `name` is what messages call it.
    """

    tensor: str
    name: str
    lanes: int
    shape: Element


@dataclass(frozen=True)
class Output:
    """An output stream of the core: the beats of `tensor`, which a stage makes or an input brings."""

    name: str
    tensor: str


@dataclass(frozen=True)
class Edge:
    """A link from `source` to `sink`, by their names; its queue is made for `capacity` words, 0 without a queue."""

    source: str
    sink: str
    capacity: int


@dataclass(frozen=True)
class Streams:
    """All of them; `probed` is the number of the stage of each boundary, `weights` how many streams of weights come
    from outside of the core."""

    inputs: tuple[Input, ...]
    boundaries: tuple[Boundary, ...]
    probed: tuple[int, ...]
    outputs: tuple[Output, ...]
    edges: tuple[Edge, ...]
    weights: int


def streams_of(core: Component, boundaries: Sequence[Boundary], inputs: Sequence[str] | None,
               outputs: Sequence[str] | None) -> Streams:
    """The streams of a `hwflow_rtl.core.Core`.  `inputs` and `outputs` name its ends; ValueError where they do not fit
    the core."""
    from amaranth.hdl import Shape  # not where a run only plays them

    if len(core.probes) != len(boundaries):
        raise ValueError(f"boundaries must be one for each of the core's {len(core.probes)} probes, not "
                         f"{len(boundaries)}")
    if len({boundary.tensor for boundary in boundaries}) != len(boundaries):
        raise ValueError(f"tensors of boundaries must differ, not {[boundary.tensor for boundary in boundaries]}")
    links = core.links
    sources = {link.sink.number: link.source for link in links if link.sink.of_core}
    makers = {Endpoint.stage(k, port): boundary.tensor for k, port, boundary in leaving(core, boundaries)}
    ins = names_of("input", inputs, len(core.input_names))
    outs = names_of("output", outputs, len(core.output_names))
    stages = {k: boundary.name for k, port, boundary in leaving(core, boundaries)}
    inputs_of_core = []
    for tensor, name, port in zip(inputs or core.input_names, ins, core.input_names, strict=True):
        layout = getattr(core, port).payload.shape()
        element = Shape.cast(layout.elem_shape)
        inputs_of_core.append(Input(tensor, name, layout.length, ElementShape(element.width, element.signed)))
    states = [f"state {k}" for k in range(len(getattr(core, "states", ())))]

    def named(end: Endpoint, ends: Sequence[str]) -> str:
        return stages[end.number] if end.of_stage else (states if end.of_state else ends)[end.number]

    edges = tuple(Edge(named(link.source, ins), named(link.sink, outs), core.capacity(e))
                  for e, link in enumerate(links))
    makers |= {Endpoint.core(k): source.tensor for k, source in enumerate(inputs_of_core)}
    return Streams(tuple(inputs_of_core), tuple(boundaries), tuple(core.probes),
                   tuple(Output(name, makers[sources[k]]) for k, name in enumerate(outs)), edges,
                   len(getattr(core, "weight_stalls", ())))


def leaving(core: Component, boundaries: Sequence[Boundary]) -> list[tuple[int, int, Boundary]]:
    """The outputs of all stages: the stage's number, that of the output, and the boundary there."""
    counts = Counter(link.source.number for link in {link.source: link for link in core.links}.values()
                     if link.source.of_stage)
    streams = []
    for k, count in sorted(counts.items()):
        own = [boundary for number, boundary in zip(core.probes, boundaries, strict=True) if number == k]
        streams += [(k, port, boundary) for port, boundary in enumerate(own[-count:])]
    return streams


def names_of(end: str, names: Sequence[str] | None, count: int) -> list[str]:
    """`input`, or `input 'x'` where there are several."""
    if names is not None and len(names) != count:
        raise ValueError(f"{end}s must be the names of the core's {count} {end}s, not {len(names)}")
    if count == 1:
        return [end]
    return [f"{end} '{name}'" for name in (names or range(count))]
