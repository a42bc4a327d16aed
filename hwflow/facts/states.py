"""What a model keeps from frame to frame: its states, how many bits they have, and where a plan keeps them."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from ..hls.plan.plan import Plan
from ..layers.base import LayerGraph, State, name_of, state_name
from ..layers.recurrent import Recurrent
from ..stages.partition import kept_states


@dataclass(frozen=True)
class StateFacts:
    """A state: the name that the user's model has for it, its frame and integers, and the `bits` of all of them.

    `kept` is "layer", "window", "queue" or "frame memory", `where` the layer, the stage whose window keeps the rows,
    the kind of memory of the queue, or the shared stage; both are None where only a plan would say it.
    """

    state: str
    frame: str
    format: str
    bits: int
    kept: str | None
    where: str | None


def states_of_graph(graph: LayerGraph, plan: Plan | None = None) -> list[dict[str, object]]:
    """A fact for each state of `graph`, then for each layer that has states of its own; `plan` is one of it."""
    own = [_of_layer(graph, layer) for layer in graph.layers if layer.keeps_state and isinstance(layer, Recurrent)]
    return [asdict(fact) for fact in (*(_of_graph(graph, state, plan) for state in graph.states), *own)]


def _of_graph(graph: LayerGraph, state: State, plan: Plan | None) -> StateFacts:
    tensor = graph.tensors[state.read]
    bits = tensor.frame.elements * tensor.format.bits
    kept, where = (None, None) if plan is None else _place(graph, state, plan)
    return StateFacts(state_name(graph, state), str(tensor.frame), str(tensor.format), bits, kept, where)


def _place(graph: LayerGraph, state: State, plan: Plan) -> tuple[str, str]:
    for stage in plan.partition.shared:
        if state in kept_states(graph, [graph.layers[k] for k in stage.layers]):
            return "frame memory", stage.name
    for window in plan.partition.windows(graph):
        if window.state is state:
            return "window", next(stage.name for stage in plan.stages
                                  if stage.boundaries == (window.window.output,))
    number = [each.read for each in plan.partition.states_outside(graph)].index(state.read)
    (written,) = (link for link in plan.links if link.sink.of_state and link.sink.number == number)
    return "queue", written.memory(plan.device).value


def _of_layer(graph: LayerGraph, layer: Recurrent) -> StateFacts:
    """Its hidden state, and the cell state of an LSTM."""
    formats = [layer.hidden_format, *([layer.cell_format] if layer.cell_bits else [])]
    bits = layer.hidden * sum(format.bits for format in formats)
    text = f"{name_of(graph, layer)}, {layer.said}"
    return StateFacts(text, f"1x1x{layer.hidden}", " and ".join(map(str, formats)), bits, "layer", layer.name)
