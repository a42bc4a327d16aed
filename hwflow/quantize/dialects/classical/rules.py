"""The pass that writes classical models of ai.onnx.ml in the form that becomes hardware.

A bag (scikit-learn's BaggingClassifier) has the mean of the scores of several models.  Trees become one ensemble,
whose sums are exact; of other models the host adds the scores.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Model, Node
from hwflow.onnx.operators import CLAMPS, NEVER_ON_HOST, QUANTIZERS, SELECTIONS, UNARY
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.ops.ml.trees import Ensemble, Forest, scores_of_two
from hwflow.quantize.dialects.classical.distances import inside_squares, rewrite_squares
from hwflow.quantize.dialects.classical.features import by_host, rewrite_join, rewrite_product, rewrite_scaler
from hwflow.quantize.dialects.classical.leaves import sums_of_leaves
from hwflow.quantize.dialects.classical.linear import LINEAR_RULES
from hwflow.quantize.dialects.classical.missing import EXPORTER
from hwflow.quantize.dialects.classical.trees import emit_ensemble, read_ensemble, require_few, rewrite_trees
from hwflow.quantize.dialects.rewriting import Rewriting, Table
from hwflow.quantize.dialects.standard import in_needed_opset
from hwflow.quantize.graphs import ancestors, as_ints, label_of, on_host
from hwflow.quantize.passes.normalise import OPSET

_ML = "ai.onnx.ml"


def rewrite_mean(r: Rewriting, node: Node) -> None:
    """A ReduceMean of the scores [n, classes] of several models, or of what an ArrayFeatureExtractor has chosen, as the
    values of nearest neighbours: the host sums them.  Any other one stays.
    """
    scores = _scores(r, node)
    if not scores and any(other.op_type == "ArrayFeatureExtractor" for other in ancestors(r.graph, node.inputs[:1])):
        whole = r.emit_like(replace(node, op_type="ReduceSum"), node.inputs[0], wish=f"{node.outputs[0]}.sum")
        share = math.prod(r.shape(node.outputs[0])) / math.prod(r.shape(node.inputs[0]))
        r.emit("Mul", whole, r.float32(f"{node.outputs[0]}.share", share), output=node.outputs[0])
        return
    if not scores:
        r.nodes.append(node)
        return
    bag = _bag_of_trees(r, scores)
    if bag is None:
        total, *others = [by_host(r, name, r.shape(name)[1], node.outputs[0]) for name in scores]
        for name in others:
            total = r.emit("Add", total, name, wish=f"{node.outputs[0]}.sum")
        count = r.float32(f"{node.outputs[0]}.share", 1 / len(scores))
        r.emit("Mul", total, count, output=node.outputs[0], name=node.name)
        return
    ensemble, x = bag
    first, outputs = r.made[scores[0]], ("", node.outputs[0]) if ensemble.labels is not None else node.outputs
    emit_ensemble(r, replace(first, outputs=outputs, name=f"{label_of(first)}.bag"), ensemble, x, 1 / len(scores))


def _scores(r: Rewriting, node: Node) -> list[str]:
    """The tensors [n, classes] made by operators of ai.onnx.ml whose mean `node` is; none where it is another mean."""
    join = r.made.get(node.inputs[0])
    axes = r.value(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get("axes", ())
    if (axes is None or as_ints(axes) != (0,) or node.attributes.get("keepdims", 1) or join is None
            or join.op_type != "Concat" or join.attributes.get("axis") != 0):
        return []
    turned = [r.made.get(name) for name in join.inputs]
    tensors = [
        reshape.inputs[0] for reshape in turned if reshape is not None and reshape.op_type in ("Reshape", "Unsqueeze")
        and r.shape(reshape.outputs[0]) == (1, *r.shape(reshape.inputs[0]))]
    of_models = all(name in r.made and r.made[name].domain == _ML for name in tensors)
    return tensors if of_models and len(tensors) == len(turned) else []


def _bag_of_trees(r: Rewriting, scores: Sequence[str]) -> tuple[Ensemble, str] | None:
    """One ensemble of all trees, and the features that they read; None for other models, or ones of different kinds."""
    ensembles, read = list[Ensemble](), set[str]()
    for name in scores:
        node = r.made[name]
        if not node.op_type.startswith("TreeEnsemble") or name != next(n for n in reversed(node.outputs) if n):
            return None
        ensemble, chosen = read_ensemble(node, dict(r.model.opsets)), r.made.get(node.inputs[0])
        columns = r.value(chosen.inputs[1]) if chosen is not None and _chooses(chosen) else None
        read.add(node.inputs[0] if chosen is None or columns is None else chosen.inputs[0])
        if columns is not None:
            features = ensemble.forest.features
            if features.max(initial=0) >= columns.size:
                return None
            ensemble = replace(ensemble, forest=replace(ensemble.forest, features=columns.ravel()[features]))
        ensembles.append(ensemble)
    kinds = {_kind_of(ensemble) for ensemble in ensembles}
    if len(kinds) > 1 or len(read) > 1 or (ensembles[0].aggregate, ensembles[0].transform) != ("SUM", "NONE"):
        return None
    require_few(sum(len(ensemble.forest.leaf) for ensemble in ensembles))
    base = np.sum([ensemble.base for ensemble in ensembles], axis=0)
    return replace(ensembles[0], forest=_joined([ensemble.forest for ensemble in ensembles]), base=base), read.pop()


def _chooses(node: Node) -> bool:
    """Whether a node chooses columns of [n, features]."""
    return node.op_type == "ArrayFeatureExtractor" or (node.op_type == "Gather" and node.attributes.get("axis") == 1)


def _kind_of(ensemble: Ensemble) -> tuple[object, ...]:
    """All that ensembles of a bag have in common."""
    labels = None if ensemble.labels is None else tuple(ensemble.labels.tolist())
    return (ensemble.aggregate, ensemble.transform, scores_of_two(ensemble), ensemble.forest.targets,
            ensemble.base.size, labels, _is_positive(ensemble))


def _is_positive(ensemble: Ensemble) -> bool:
    """Whether the weights are positive, which decides how the score of the first of two classes follows from that of
    the second.
    """
    return bool((ensemble.forest.vote_weights >= 0).all())


def _joined(forests: Sequence[Forest]) -> Forest:
    """All trees of `forests` in one."""
    starts = np.cumsum([0, *(len(forest.leaf) for forest in forests)]).tolist()
    votes = np.cumsum([0, *(forest.first_vote[-1] for forest in forests)]).tolist()

    def nodes(name: str, offsets: Sequence[int] = ()) -> Arr:
        parts = [getattr(forest, name) for forest in forests]
        return np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=False)] or parts)

    first = [forest.first_vote[:-1] + offset for forest, offset in zip(forests, votes, strict=False)]
    joined: dict[str, Any] = {
        **{name: nodes(name) for name in (
            "features", "thresholds", "modes", "missing_is_true", "leaf", "vote_targets", "vote_weights")},
        **{name: nodes(name, starts) for name in ("true", "false", "roots")},
        "first_vote": np.concatenate([*first, votes[-1:]]),
        "members": {node + start: values for forest, start in zip(forests, starts, strict=False)
                    for node, values in forest.members.items()}}
    return replace(forests[0], **joined)



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
    ("", "ReduceSum"): rewrite_squares, ("", "ReduceSumSquare"): rewrite_squares,
    ("", "ReduceMax"): rewrite_squares,
}  # fmt: skip


def classical_to_standard(model: Model) -> Model:
    """`model` with trees of integers, linear models as Gemm, and what is around them in standard operators.

    Of `model` types and shapes are known.  A model without such nodes is returned as it is.  HwflowError: every node
    that has no such form, in one message.
    """
    model = sums_of_leaves(model)
    table = {**CLASSICAL_RULES, **_STANDARD} if _is_classical(model) else CLASSICAL_RULES
    if not any((node.domain, node.op_type) in table for node in model.graph.nodes):
        return model
    rewritten = Rewriting(model).run(table)
    sets = {_ML: 1} if any(node.domain == _ML for node in rewritten.graph.nodes) else {}
    rewritten = replace(rewritten, opsets={"": OPSET, **sets, **rewritten.opsets})
    return simplify(infer(in_needed_opset(rewritten)))


def _is_classical(model: Model) -> bool:
    """Whether `model` is one of scikit-learn and its like: no layers of deep networks, and operators of ai.onnx.ml, or
    made by scikit-learn's exporter, as regressors of standard operators alone are."""
    graph = model.graph
    there = {node.op_type for node in graph.nodes}
    theirs = model.producer_name == EXPORTER or any(node.domain == _ML for node in graph.nodes)
    return theirs and there.isdisjoint(_DEEP)


def takes_wide_integers(model: Model) -> bool:
    """Whether every layer of `model`, a classical one, is of products and limits: other functions between layers are
    tables or thresholds, which double with each bit."""
    graph = model.graph
    if not _is_classical(model):
        return False
    outside = on_host(graph) | inside_squares(Rewriting(model))
    return not any(
        node.op_type in (UNARY - CLAMPS) | SELECTIONS and not node.domain and not outside.intersection(node.outputs)
        for node in graph.nodes)
