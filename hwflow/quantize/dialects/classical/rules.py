"""The pass that writes classical models of ai.onnx.ml in the form that becomes hardware."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Model
from hwflow.onnx.operators import CLAMPS, HOST_AFTER, NEVER_ON_HOST, QUANTIZERS, SELECTIONS, UNARY
from hwflow.quantize.dialects.classical.bags import rewrite_mean
from hwflow.quantize.dialects.classical.features import rewrite_join, rewrite_product, rewrite_scaler
from hwflow.quantize.dialects.classical.gaussians import inside_distances, rewrite_sum
from hwflow.quantize.dialects.classical.linear import LINEAR_RULES
from hwflow.quantize.dialects.classical.trees import rewrite_trees
from hwflow.quantize.dialects.rewriting import Rewriting, Table
from hwflow.quantize.dialects.standard import in_needed_opset
from hwflow.quantize.graphs import host_suffix
from hwflow.quantize.passes.opset import OPSET

_ML = "ai.onnx.ml"

#: Operators that become trees of integers.
TREES = frozenset((_ML, name) for name in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))

#: What no model of scikit-learn has, where it is not quantized.
_DEEP = (NEVER_ON_HOST | QUANTIZERS) - {"MatMul", "Gemm", "ReduceMean", *(name for _, name in (*TREES, *LINEAR_RULES))}

#: (domain, operator) to what becomes of it.
CLASSICAL_RULES: Table = {
    **dict.fromkeys(TREES, rewrite_trees),
    **LINEAR_RULES,
    (_ML, "Scaler"): rewrite_scaler,
}

#: Of standard operators, in models of scikit-learn and its like.
_STANDARD: Table = {
    ("", "MatMul"): rewrite_product, ("", "Concat"): rewrite_join, ("", "ReduceMean"): rewrite_mean,
    ("", "ReduceSum"): rewrite_sum,
}  # fmt: skip


def classical_to_standard(model: Model) -> Model:
    """`model` with trees of integers, linear models as Gemm, and what is around them in standard operators.

    Of `model` types and shapes are known.  A model without such nodes is returned as it is.  HwflowError: every node
    that has no such form, in one message.
    """
    table = {**CLASSICAL_RULES, **_STANDARD} if _is_classical(model) else CLASSICAL_RULES
    if not any((node.domain, node.op_type) in table for node in model.graph.nodes):
        return model
    made = Rewriting(model).run(table)
    made = replace(made, opsets={"": OPSET, **made.opsets})
    return simplify(infer(in_needed_opset(made)))


def _is_classical(model: Model) -> bool:
    """Whether `model` is one of scikit-learn and its like: operators of ai.onnx.ml, and no layers of deep networks."""
    graph = model.graph
    there = {node.op_type for node in graph.nodes}
    return any(node.domain == _ML for node in graph.nodes) and there.isdisjoint(_DEEP)


def takes_wide_integers(model: Model) -> bool:
    """Whether every layer of `model`, a classical one, is of products and limits: other functions between layers are
    tables or thresholds, which double with each bit."""
    graph = model.graph
    if not _is_classical(model):
        return False
    at_the_end = host_suffix(graph, HOST_AFTER) | inside_distances(Rewriting(model))
    return not any(
        node.op_type in (UNARY - CLAMPS) | SELECTIONS and not node.domain and not at_the_end.intersection(node.outputs)
        for node in graph.nodes)
