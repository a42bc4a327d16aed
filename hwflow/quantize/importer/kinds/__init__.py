"""The operators that become layers of their own: a file for each kind, and `HANDLERS`, which names them all.

A handler gives what becomes of the node's results: one state for all of them, or one for each by name; None where
another part of the importer has to look at the node.  What it raises as ValueError is the reason, in words for the
user, why there is no layer; a Refusal also says what to do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from hwflow.onnx.model import Node
from hwflow.onnx.operators import BEST, SUMS
from hwflow.quantize.importer.kinds.caches import tensor_scatter
from hwflow.quantize.importer.kinds.matrix import conv
from hwflow.quantize.importer.kinds.products import embedding, matmul
from hwflow.quantize.importer.kinds.recurrent import recurrent
from hwflow.quantize.importer.kinds.reductions import (
    average_pool,
    global_norm,
    max_pool,
    norm_pool,
    reduce_best,
    reduce_sum,
    running_sum,
)
from hwflow.quantize.importer.kinds.resize import resize
from hwflow.quantize.importer.kinds.rows import (
    group_normalization,
    instance_normalization,
    layer_normalization,
    length_normalization,
    mean_variance_normalization,
    rms_normalization,
    softmax,
)
from hwflow.quantize.importer.kinds.trees import trees
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import TensorState

__all__ = ["HANDLERS", "Handler"]

#: `dynamic` are the inputs of the node that are not constant.
Handler: TypeAlias = Callable[[NodeContext, Node, list[str]], TensorState | dict[str, TensorState] | None]

#: (domain, operator) to its handler.
HANDLERS: Mapping[tuple[str, str], Handler] = {
    ("", "AveragePool"): average_pool,
    ("", "Conv"): conv,
    ("", "CumSum"): running_sum,
    ("", "Gather"): embedding,
    ("", "Gemm"): matmul,
    ("", "GlobalAveragePool"): average_pool,
    ("", "GlobalLpPool"): global_norm,
    ("", "GlobalMaxPool"): max_pool,
    ("", "GroupNormalization"): group_normalization,
    ("", "InstanceNormalization"): instance_normalization,
    ("", "LayerNormalization"): layer_normalization,
    ("", "LpNormalization"): length_normalization,
    ("", "LpPool"): norm_pool,
    ("", "MatMul"): matmul,
    ("", "MaxPool"): max_pool,
    ("", "GRU"): recurrent,
    ("", "LSTM"): recurrent,
    ("", "RNN"): recurrent,
    ("", "MeanVarianceNormalization"): mean_variance_normalization,
    ("", "RMSNormalization"): rms_normalization,
    ("", "Resize"): resize,
    ("", "TensorScatter"): tensor_scatter,
    ("ai.onnx.ml", "TreeEnsemble"): trees,
    ("ai.onnx.ml", "TreeEnsembleRegressor"): trees,
    ("", "Softmax"): softmax,
    ("", "Upsample"): resize,
    **{("", name): reduce_best for name in BEST},
    **{("", name): reduce_sum for name in SUMS},
}
