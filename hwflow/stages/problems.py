"""The layers and tensors of a layer graph that have no hardware."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwflow.layers.base import LayerGraph
from hwflow.stages.kinds import has_hardware, stage_of

#: Layers that are named where many have the same problem.
MOST_NAMES = 3


@dataclass(frozen=True)
class LayerProblem:
    """A layer of `kind` that cannot become a stage; `why` is empty if its kind has no hardware at all."""

    layer: str
    kind: str
    why: str

    def __str__(self) -> str:
        return said("layer", [self])


def said(what: str, problems: Sequence[LayerProblem]) -> str:
    """Layers with the same reason, the first ones by name: "layers 'a', 'b' (softmax): why"."""
    names, more = ", ".join(f"'{each.layer}'" for each in problems[:MOST_NAMES]), len(problems) - MOST_NAMES
    kind, why = problems[0].kind, problems[0].why
    return (f"{what} {names}{f' and {more} more' if more > 0 else ''} ({kind})"
            + (f": {why}" if why else " has no hardware yet"))


def each_once(problems: Sequence[LayerProblem]) -> list[str]:
    """A line for each reason, with all layers that have it."""
    found: dict[tuple[str, str], list[LayerProblem]] = {}
    for problem in problems:
        found.setdefault((problem.kind, problem.why), []).append(problem)
    return [said("layer" if len(same) == 1 else "layers", same) for same in found.values()]


def layer_problems(graph: LayerGraph) -> tuple[LayerProblem, ...]:
    """The layers of `graph` that cannot become stages, in order."""
    problems = []
    for layer in graph.layers:
        why = stage_of(graph, layer).hardware_problem() if has_hardware(layer) else ""
        if why is not None:
            problems.append(LayerProblem(layer.name, layer.kind, why))
    return tuple(problems)


def tensor_problems(graph: LayerGraph) -> tuple[str, ...]:
    """One line for each tensor of `graph` that cannot become a stream."""
    found = []
    for name in graph.inputs:
        if name in graph.outputs:
            found.append(f"tensor '{name}' is an input and an output; there is nothing for hardware to do between them")
    for name in graph.computed:
        if not graph.consumers(name) and name not in graph.outputs:
            found.append(f"tensor '{name}' must be read by a layer or be an output; nothing reads it")
    return tuple(found)


def hardware_problems(graph: LayerGraph) -> tuple[str, ...]:
    """One line for each layer and tensor of `graph` that cannot become a stage or a stream."""
    return (*map(str, layer_problems(graph)), *tensor_problems(graph))
