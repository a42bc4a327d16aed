"""The mean of the scores of several models, as a bag (scikit-learn's BaggingClassifier) has it.

Trees become one ensemble, whose sums are exact; of other models the host adds the scores.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from hwflow.onnx.model import Node
from hwflow.onnx.ops.base import Arr
from hwflow.onnx.ops.ml.trees import Ensemble, Forest, scores_of_two
from hwflow.quantize.dialects.classical.trees import emit_ensemble, read_ensemble, require_few
from hwflow.quantize.dialects.rewriting import Rewriting
from hwflow.quantize.graphs import as_ints, label_of

_ML = "ai.onnx.ml"


def rewrite_mean(r: Rewriting, node: Node) -> None:
    """A ReduceMean of the scores [n, classes] of several models; any other one stays."""
    scores = _scores(r, node)
    if not scores:
        r.nodes.append(node)
        return
    bag = _bag_of_trees(r, scores)
    if bag is None:
        total, *others = [_on_host(r, name, node.outputs[0]) for name in scores]
        for name in others:
            total = r.emit("Add", total, name, wish=f"{node.outputs[0]}.sum")
        count = r.constant(f"{node.outputs[0]}.share", np.array(1 / len(scores), np.float32))
        r.emit("Mul", total, count, output=node.outputs[0], name=node.name)
        return
    made, x = bag
    first, outputs = r.made[scores[0]], ("", node.outputs[0]) if made.labels is not None else node.outputs
    emit_ensemble(r, replace(first, outputs=outputs, name=f"{label_of(first)}.bag"), made, x, 1 / len(scores))


def _on_host(r: Rewriting, scores: str, wish: str) -> str:
    """`scores` [n, classes] behind an operator that only the host runs."""
    row = r.new_name(f"{wish}.row")
    r.nodes.append(Node("FeatureVectorizer", (scores,), (row,), {"inputdimensions": r.shape(scores)[1:]}, row, _ML))
    return row


def _scores(r: Rewriting, node: Node) -> list[str]:
    """The tensors [n, classes] made by operators of ai.onnx.ml whose mean `node` is; none where it is another mean."""
    join = r.made.get(node.inputs[0])
    axes = r.value(node.inputs[1]) if len(node.inputs) > 1 else node.attributes.get("axes", ())
    if (axes is None or as_ints(axes) != (0,) or node.attributes.get("keepdims", 1) or join is None
            or join.op_type != "Concat" or join.attributes.get("axis") != 0):
        return []
    turned = [r.made.get(name) for name in join.inputs]
    found = [each.inputs[0] for each in turned if each is not None and each.op_type in ("Reshape", "Unsqueeze")
             and r.shape(each.outputs[0]) == (1, *r.shape(each.inputs[0]))]
    of_models = all(name in r.made and r.made[name].domain == _ML for name in found)
    return found if of_models and len(found) == len(turned) else []


def _bag_of_trees(r: Rewriting, scores: Sequence[str]) -> tuple[Ensemble, str] | None:
    """One ensemble of all trees, and the features that they read; None for other models, or ones of different kinds."""
    ensembles, read = list[Ensemble](), set[str]()
    for name in scores:
        node = r.made[name]
        if not node.op_type.startswith("TreeEnsemble") or name != next(n for n in reversed(node.outputs) if n):
            return None
        made, chosen = read_ensemble(node, dict(r.model.opsets)), r.made.get(node.inputs[0])
        columns = r.value(chosen.inputs[1]) if chosen is not None and _chooses(chosen) else None
        read.add(node.inputs[0] if chosen is None or columns is None else chosen.inputs[0])
        if columns is not None:
            features = made.forest.features
            if features.max(initial=0) >= columns.size:
                return None
            made = replace(made, forest=replace(made.forest, features=columns.ravel()[features]))
        ensembles.append(made)
    kinds = {(made.aggregate, made.transform, scores_of_two(made), made.forest.targets, made.base.size,
              None if made.labels is None else tuple(made.labels.tolist()), _is_positive(made)) for made in ensembles}
    if len(kinds) > 1 or len(read) > 1 or (ensembles[0].aggregate, ensembles[0].transform) != ("SUM", "NONE"):
        return None
    require_few(sum(len(made.forest.leaf) for made in ensembles))
    base = np.sum([made.base for made in ensembles], axis=0)
    return replace(ensembles[0], forest=_joined([made.forest for made in ensembles]), base=base), read.pop()


def _chooses(node: Node) -> bool:
    """Whether a node chooses columns of [n, features]."""
    return node.op_type == "ArrayFeatureExtractor" or (node.op_type == "Gather" and node.attributes.get("axis") == 1)


def _is_positive(made: Ensemble) -> bool:
    """What decides how the score of the first of two classes follows from that of the second."""
    return bool((made.forest.vote_weights >= 0).all())


def _joined(forests: Sequence[Forest]) -> Forest:
    """All trees of `forests` in one."""
    starts = np.cumsum([0, *(len(each.leaf) for each in forests)]).tolist()
    votes = np.cumsum([0, *(each.first_vote[-1] for each in forests)]).tolist()

    def nodes(name: str, offsets: Sequence[int] = ()) -> Arr:
        parts = [getattr(each, name) for each in forests]
        return np.concatenate([part + offset for part, offset in zip(parts, offsets, strict=False)] or parts)

    first = [each.first_vote[:-1] + offset for each, offset in zip(forests, votes, strict=False)]
    joined: dict[str, Any] = {
        **{name: nodes(name) for name in (
            "features", "thresholds", "modes", "missing_is_true", "leaf", "vote_targets", "vote_weights")},
        **{name: nodes(name, starts) for name in ("true", "false", "roots")},
        "first_vote": np.concatenate([*first, votes[-1:]]),
        "members": {node + start: values for each, start in zip(forests, starts, strict=False)
                    for node, values in each.members.items()}}
    return replace(forests[0], **joined)
