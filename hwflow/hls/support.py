"""What of a layer graph has no hardware."""

from __future__ import annotations

from ..errors import HwflowError
from ..layers.base import HardwareLayer, LayerGraph

__all__ = ["hardware_layers", "hardware_problems"]


def hardware_problems(graph: LayerGraph) -> tuple[str, ...]:
    """One line for each layer and tensor of `graph` that cannot become a stage or a stream."""
    found = []
    for layer in graph.layers:
        if not isinstance(layer, HardwareLayer):
            found.append(f"layer '{layer.name}' ({layer.kind}) has no hardware yet")
        elif problem := layer.hardware_problem(graph):
            found.append(f"layer '{layer.name}' ({layer.kind}): {problem}")
    for name in graph.inputs:
        if name in graph.outputs:
            found.append(f"tensor '{name}' is an input and an output; there is nothing for hardware to do between them")
    for name in graph.computed:
        if not graph.consumers(name) and name not in graph.outputs:
            found.append(f"tensor '{name}' must be read by a layer or be an output; nothing reads it")
    return tuple(found)


def hardware_layers(graph: LayerGraph) -> tuple[HardwareLayer, ...]:
    """The layers of `graph`, in order.  HwflowError with everything that has no hardware, in one message."""
    problems = hardware_problems(graph)
    if problems:
        lines = "".join(f"\n  {line}" for line in problems)
        raise HwflowError(f"the integer model runs in the golden model, but not in hardware:{lines}")
    return tuple(layer for layer in graph.layers if isinstance(layer, HardwareLayer))
