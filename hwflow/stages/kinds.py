"""Which kind of layer becomes a stage of which class."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.concat import Concat
from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.elementwise import Add, Multiply
from hwflow.layers.interpolate import Interpolate
from hwflow.layers.matmul import MatMul
from hwflow.layers.normalize import Normalize
from hwflow.layers.pixels import RunningSum, TopK
from hwflow.layers.pools import AveragePool, MaxPool
from hwflow.layers.rearrange import Rearrange
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.segments import Segments
from hwflow.layers.softmax import Softmax
from hwflow.layers.tables import Embedding, Lookup
from hwflow.layers.trees import Trees
from hwflow.layers.write_row import WriteRow
from hwflow.stages.concat import ConcatStage
from hwflow.stages.elementwise import AddStage, MultiplyStage
from hwflow.stages.interpolate import InterpolateStage
from hwflow.stages.kept_rows import kept_rows
from hwflow.stages.matmul import MatMulStage
from hwflow.stages.names import layer_names, name_of
from hwflow.stages.pools import AveragePoolStage, MaxPoolStage
from hwflow.stages.products import ConvStage, DenseStage, KeptConvStage
from hwflow.stages.rearrange import RearrangeStage
from hwflow.stages.recurrent import RecurrentStage
from hwflow.stages.rows import NormalizeStage, RunningSumStage, SoftmaxStage, TopKStage
from hwflow.stages.stage import LayerStage
from hwflow.stages.tables import EmbeddingStage, LookupStage, SegmentsStage
from hwflow.stages.trees import TreesStage
from hwflow.stages.write_row import WriteRowStage

#: The class of each kind; a kind that is not here has no hardware.
STAGES: dict[type[Layer], type[LayerStage[Layer]]] = {
    Add: AddStage, AveragePool: AveragePoolStage, Concat: ConcatStage, Conv: ConvStage, Dense: DenseStage,
    Embedding: EmbeddingStage, Interpolate: InterpolateStage, Lookup: LookupStage, MatMul: MatMulStage,
    MaxPool: MaxPoolStage, Multiply: MultiplyStage, Normalize: NormalizeStage, Rearrange: RearrangeStage,
    Recurrent: RecurrentStage, RunningSum: RunningSumStage, Segments: SegmentsStage, Softmax: SoftmaxStage,
    TopK: TopKStage, Trees: TreesStage, WriteRow: WriteRowStage,
}  # fmt: skip

#: Where a graph keeps its stages, and those of windows that keep states.
KEY, KEPT = "stages", "stages of kept rows"


def stage_of(graph: LayerGraph, layer: Layer) -> LayerStage[Layer]:
    """The stage of a layer between tensors of `graph`; that of one of its layers is made once.

    KeyError for a kind without hardware.
    """
    return stages_by_layer(graph).get(id(layer)) or new_stage(graph, name_of(0, layer), layer)


def stages_by_layer(graph: LayerGraph) -> dict[int, LayerStage[Layer]]:
    """The stages of all layers of `graph` that have hardware, by the identity of the layer; made once for a graph."""
    stages = graph.derived.get(KEY)
    if not isinstance(stages, dict):
        stages = graph.derived[KEY] = {
            id(layer): new_stage(graph, name, layer)
            for name, layer in zip(layer_names(graph), graph.layers, strict=True) if has_hardware(layer)}
    return stages


def kept_stages(graph: LayerGraph) -> dict[tuple[int, ...], KeptConvStage]:
    """The stages of all windows of `graph` that can keep a state, by the positions of their layers; made once."""
    stages = graph.derived.get(KEPT)
    if not isinstance(stages, dict):
        stages = graph.derived[KEPT] = {kept.layers: KeptConvStage.of(graph, kept) for kept in kept_rows(graph)}
    return stages


def new_stage(graph: LayerGraph, name: str, layer: Layer) -> LayerStage[Layer]:
    """The stage of `layer`, called `name`."""
    return STAGES[type(layer)](
        graph, name, layer.kind, (layer,), layer.inputs, (layer.output,), (layer.output,), layer)


def has_hardware(layer: Layer) -> bool:
    """Whether there are stages of its kind."""
    return type(layer) in STAGES


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
        if not graph.consumers(name) and name not in graph.sinks:
            found.append(f"tensor '{name}' must be read by a layer or be an output; nothing reads it")
    return tuple(found)


def hardware_problems(graph: LayerGraph) -> tuple[str, ...]:
    """One line for each layer and tensor of `graph` that cannot become a stage or a stream."""
    return (*map(str, layer_problems(graph)), *tensor_problems(graph))
