"""Several plans as one: the graphs side by side, so that one compilation serves them all.

Each graph keeps its own streams, queues and stages; only the list of inputs and outputs is common.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hwflow_rtl.stream.endpoint import Endpoint

from hwflow import hls
from hwflow.layers import LayerGraph
from hwflow.layers.formats import IntArray


@dataclass(frozen=True)
class Part:
    """Where a graph stands in the union: the positions of its stages and outputs."""

    graph: LayerGraph
    plan: hls.Plan
    stages: range
    outputs: range


def renamed(graph: LayerGraph, mark: str) -> LayerGraph:
    """The same graph; every name begins with `mark`."""
    tensors = {mark + name: replace(t, name=mark + name) for name, t in graph.tensors.items()}
    layers = tuple(replace(layer, name=mark + layer.name, inputs=tuple(mark + name for name in layer.inputs),
                           output=mark + layer.output) for layer in graph.layers)
    return LayerGraph(graph.name, tensors, layers, tuple(mark + name for name in graph.inputs),
                      tuple(mark + name for name in graph.outputs))


def union(pairs: Sequence[tuple[LayerGraph, hls.Plan]]) -> tuple[LayerGraph, hls.Plan, tuple[Part, ...]]:
    """The graph and the plan of all, and where each stands in them; the plans are of one technology."""
    tensors, layers, inputs, outputs, stages, links, parts = {}, [], [], [], [], [], []
    for k, (graph, plan) in enumerate(pairs):
        first = len(layers), len(inputs), len(outputs)
        marked = renamed(graph, f"n{k}_")
        tensors |= dict(marked.tensors)
        stages += [replace(stage, name=f"{first[0] + n}_n{k}_{stage.name}", layers=(layer.name,),
                           boundaries=(layer.output,))
                   for n, (stage, layer) in enumerate(zip(plan.stages, marked.layers, strict=True))]
        links += [replace(link, tensor=f"n{k}_{link.tensor}", source=moved(link.source, first[0], first[1]),
                          sink=moved(link.sink, first[0], first[2])) for link in plan.links]
        layers += marked.layers
        inputs += marked.inputs
        outputs += marked.outputs
        parts.append(Part(graph, plan, range(first[0], len(layers)), range(first[2], len(outputs))))
    graph = LayerGraph("union", tensors, tuple(layers), tuple(inputs), tuple(outputs))
    latency = tuple(cycles for _, plan in pairs for cycles in plan.latency)
    whole = replace(pairs[0][1], model="union", stages=tuple(stages), links=tuple(links), latency=latency)
    return graph, whole, tuple(parts)


def moved(endpoint: Endpoint, stages: int, ports: int) -> Endpoint:
    """The stage, or the port, in the union."""
    return replace(endpoint, number=endpoint.number + (stages if endpoint.of_stage else ports))


def union_frames(frames: Sequence[Mapping[str, IntArray]]) -> dict[str, IntArray]:
    """The frames of every graph under the names in the union."""
    return {f"n{k}_{name}": array for k, each in enumerate(frames) for name, array in each.items()}
