"""From a plan to hardware: the Amaranth core."""

from __future__ import annotations

from hwflow_rtl.core import Core, Link
from hwflow_rtl.stream.streams import stream_of
from hwflow_rtl.vendor import Technology

from ..layers.base import LayerGraph
from ..layers.hardware import shape_of
from .plan import Plan
from .stages import stages_of

__all__ = ["lower"]


def lower(graph: LayerGraph, plan: Plan, technology: Technology) -> Core:
    """The core that computes `graph` with the foldings of `plan`; `technology` makes its multipliers and memories."""
    stages = [(stage.name, stage.unit(planned.folding, technology.placing(f"stage{stage.name}", planned.places)))
              for stage, planned in zip(stages_of(graph), plan.stages, strict=True)]
    inputs = [stream_of(shape_of(graph.tensors[name].format), lanes)
              for name, lanes in zip(graph.inputs, plan.input_lanes, strict=True)]
    links = [Link(link.source, link.sink, link.port, link.depth, link.depth_after, link.spram)
             for link in plan.links]
    return Core(stages=stages, inputs=inputs, links=links, technology=technology)
