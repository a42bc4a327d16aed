"""Which layers a shared stage can compute, and why not."""

from __future__ import annotations

from collections.abc import Iterable

from hwflow.stages.kinds import has_hardware, stage_of
from hwflow.stages.problems import LayerProblem
from hwflow.stages.sweep import is_wide, tensor_problem, wide_problem

from ...layers.base import Layer, LayerGraph


def shared_problem(graph: LayerGraph, layer: Layer) -> str | None:
    """None if a shared stage can compute `layer`, else the reason why it cannot."""
    if not has_hardware(layer):
        return f"a shared stage has no {layer.kind}"
    stage = stage_of(graph, layer)
    problem = stage.shared_problem()
    if problem:
        return problem
    output = graph.tensors[layer.output]
    problems = [tensor_problem(graph.tensors[name]) for name in layer.inputs]
    problems.append(wide_problem(output, stage.sweeps()) if is_wide(output) else tensor_problem(output))
    return next(filter(None, problems), None)


def shared_problems(graph: LayerGraph, layers: Iterable[Layer]) -> tuple[LayerProblem, ...]:
    """Those of `layers` that a shared stage cannot compute."""
    return tuple(LayerProblem(layer.name, layer.kind, problem) for layer in layers
                 if (problem := shared_problem(graph, layer)))
