"""Which stages compute a graph: the layers that a partition puts together, each other layer by itself."""

from __future__ import annotations

from hwflow_base.errors import HwflowError

from hwflow.hls.shared.stage import SharedStage
from hwflow.layers.base import LayerGraph
from hwflow.stages.kinds import hardware_problems, kept_stages, stage_of
from hwflow.stages.names import layer_names
from hwflow.stages.partition import DATAFLOW, Group, Partition
from hwflow.stages.stage import Stage


def stages_of(graph: LayerGraph, partition: Partition = DATAFLOW) -> tuple[Stage, ...]:
    """The stages that compute `graph`, each after those that it reads.

    HwflowError that lists everything without hardware, in one message; or that says what is wrong with `partition`.
    """
    problems = hardware_problems(graph)
    if problems:
        lines = "".join(f"\n  {line}" for line in problems)
        raise HwflowError(f"the integer model runs in the golden model, but not in hardware:{lines}")
    names = layer_names(graph)
    shared = {stage_layers.name: stage_layers for stage_layers in partition.shared}

    def stage(group: Group) -> Stage:
        layers = tuple(graph.layers[k] for k in group.layers)
        if group.name is not None:
            return SharedStage.of(graph, shared[group.name], layers, group.inputs(graph))
        if len(layers) > 1:
            return kept_stages(graph)[group.layers]
        return stage_of(graph, *layers)

    return tuple(stage(group) for group in partition.groups(graph, names))


def stage_names(graph: LayerGraph, partition: Partition = DATAFLOW) -> tuple[str, ...]:
    """The names of the stages of `graph` in order, also if some of its layers have no hardware."""
    names = layer_names(graph)
    return tuple(group.name or names[group.layer(graph)] for group in partition.groups(graph, names))
