"""The pass that writes classical models of ai.onnx.ml in the form that becomes hardware."""

from __future__ import annotations

from dataclasses import replace

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Model
from hwflow.quantize.dialects.classical.features import rewrite_scaler
from hwflow.quantize.dialects.classical.linear import LINEAR_RULES
from hwflow.quantize.dialects.classical.trees import rewrite_trees
from hwflow.quantize.dialects.rewriting import Rewriting, Table
from hwflow.quantize.dialects.standard import in_needed_opset
from hwflow.quantize.passes.opset import OPSET

__all__ = ["CLASSICAL_RULES", "TREES", "classical_to_standard"]

_ML = "ai.onnx.ml"

#: Operators that become trees of integers.
TREES = frozenset((_ML, name) for name in ("TreeEnsemble", "TreeEnsembleClassifier", "TreeEnsembleRegressor"))

#: (domain, operator) to what becomes of it.
CLASSICAL_RULES: Table = {
    **dict.fromkeys(TREES, rewrite_trees),
    **LINEAR_RULES,
    (_ML, "Scaler"): rewrite_scaler,
}


def classical_to_standard(model: Model) -> Model:
    """`model` with trees of integers, linear models as Gemm, and what is around them in standard operators.

    Of `model` types and shapes are known.  A model without such nodes is returned as it is.  HwflowError: every node
    that has no such form, in one message.
    """
    if not any((node.domain, node.op_type) in CLASSICAL_RULES for node in model.graph.nodes):
        return model
    made = Rewriting(model).run(CLASSICAL_RULES)
    made = replace(made, opsets={"": OPSET, **made.opsets})
    return simplify(infer(in_needed_opset(made)))
