"""Which layers a shared stage can compute, and why not."""

from __future__ import annotations

from collections.abc import Iterable

from ...layers.base import HardwareLayer, Layer, LayerGraph
from ...layers.sweep import is_wide, tensor_problem, wide_problem
from ..support import LayerProblem


def shared_problem(graph: LayerGraph, layer: Layer) -> str | None:
    """None if a shared stage can compute `layer`, else the reason why it cannot."""
    if not isinstance(layer, HardwareLayer):
        return f"a shared stage has no {layer.kind}"
    problem = layer.shared_problem(graph)
    if problem:
        return problem
    output = graph.tensors[layer.output]
    problems = [tensor_problem(graph.tensors[name]) for name in layer.inputs]
    problems.append(wide_problem(output, layer.sweeps(graph)) if is_wide(output) else tensor_problem(output))
    return next(filter(None, problems), None)


def shared_problems(graph: LayerGraph, layers: Iterable[Layer]) -> tuple[LayerProblem, ...]:
    """Those of `layers` that a shared stage cannot compute."""
    return tuple(LayerProblem(layer.name, layer.kind, problem) for layer in layers
                 if (problem := shared_problem(graph, layer)))
