"""Which kind of layer becomes a stage of which class."""

from __future__ import annotations

from hwflow.layers.add import Add
from hwflow.layers.average_pool import AveragePool
from hwflow.layers.base import Layer, LayerGraph
from hwflow.layers.concat import Concat
from hwflow.layers.conv import Conv
from hwflow.layers.dense import Dense
from hwflow.layers.embedding import Embedding
from hwflow.layers.lookup import Lookup
from hwflow.layers.matmul import MatMul
from hwflow.layers.max_pool import MaxPool
from hwflow.layers.multiply import Multiply
from hwflow.layers.normalize import Normalize
from hwflow.layers.rearrange import Rearrange
from hwflow.layers.recurrent import Recurrent
from hwflow.layers.running_sum import RunningSum
from hwflow.layers.softmax import Softmax
from hwflow.layers.top_k import TopK
from hwflow.layers.trees import Trees
from hwflow.stages.add import AddStage
from hwflow.stages.average_pool import AveragePoolStage
from hwflow.stages.concat import ConcatStage
from hwflow.stages.conv import ConvStage
from hwflow.stages.dense import DenseStage
from hwflow.stages.embedding import EmbeddingStage
from hwflow.stages.lookup import LookupStage
from hwflow.stages.matmul import MatMulStage
from hwflow.stages.max_pool import MaxPoolStage
from hwflow.stages.multiply import MultiplyStage
from hwflow.stages.names import layer_names, name_of
from hwflow.stages.normalize import NormalizeStage
from hwflow.stages.rearrange import RearrangeStage
from hwflow.stages.recurrent import RecurrentStage
from hwflow.stages.running_sum import RunningSumStage
from hwflow.stages.softmax import SoftmaxStage
from hwflow.stages.stage import LayerStage
from hwflow.stages.top_k import TopKStage
from hwflow.stages.trees import TreesStage

#: The class of each kind; a kind that is not here has no hardware.
STAGES: dict[type[Layer], type[LayerStage[Layer]]] = {
    Add: AddStage, AveragePool: AveragePoolStage, Concat: ConcatStage, Conv: ConvStage, Dense: DenseStage,
    Embedding: EmbeddingStage, Lookup: LookupStage, MatMul: MatMulStage, MaxPool: MaxPoolStage,
    Multiply: MultiplyStage, Normalize: NormalizeStage, Rearrange: RearrangeStage, Recurrent: RecurrentStage,
    RunningSum: RunningSumStage, Softmax: SoftmaxStage, TopK: TopKStage, Trees: TreesStage,
}  # fmt: skip

#: Where a graph keeps its stages.
KEY = "stages"


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


def new_stage(graph: LayerGraph, name: str, layer: Layer) -> LayerStage[Layer]:
    """The stage of `layer`, called `name`."""
    return STAGES[type(layer)](
        graph, name, layer.kind, (layer,), layer.inputs, (layer.output,), (layer.output,), layer)


def has_hardware(layer: Layer) -> bool:
    """Whether there are stages of its kind."""
    return type(layer) in STAGES
