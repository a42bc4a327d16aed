"""States that the host keeps: those that are read behind the last layer alone, where nothing has hardware.

The overlap that an inverse Fourier transform adds to the next frame is one.  On the chip its next value would have to
be computed there.
"""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx.model import Graph, Model
from hwflow.onnx.operators import HOST_AFTER, NEVER_ON_HOST
from hwflow.onnx.run.sequences import state_pairs
from hwflow.quantize.graphs import behind_host, dynamic_inputs, host_suffix


def leave_to_the_host(model: Model) -> Model:
    """`model`, in which a state is none of the chip whose next value needs the host, and which no layer depends on."""
    graph = model.graph
    if not graph.kept:
        return model
    apart = {name: output for name, output in state_pairs(model).items() if name in graph.kept}
    free = replace(graph, kept=frozenset())
    late, suffix = behind_host(free), host_suffix(free, HOST_AFTER)
    own = {name: output for name, output in apart.items()
           if output in late & suffix and _ends_on_host(graph, name, suffix)}  # fmt: skip
    if not own:
        return model
    return replace(model, graph=replace(graph, kept=graph.kept - set(own) - set(own.values())))


def notes_on(before: Graph, after: Graph) -> tuple[str, ...]:
    """What to know of the states that the pass took from the chip."""
    names = [value.name for value in before.inputs if value.name in before.kept - after.kept]
    return tuple(f"state '{name}' is kept by the host: its next value is computed behind the hardware"
                 for name in names)  # fmt: skip


def _ends_on_host(graph: Graph, name: str, suffix: set[str]) -> bool:
    """Whether all that depends on the input `name` is of `suffix`, or leads there and depends on inputs alone."""
    light, reached = {value.name for value in graph.inputs}, {name}
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        if node.op_type not in NEVER_ON_HOST and light.issuperset(dynamic):
            light.update(filter(None, node.outputs))
        if reached.intersection(dynamic):
            reached.update(filter(None, node.outputs))
            if not (suffix | light).intersection(node.outputs):
                return False
    return True
