"""Sums of functions of leaves: one ensemble in place of trees whose results go through many small operators each.

What depends on the result of one tree alone is a function of the leaf that a row reaches.  It is evaluated for every
leaf, and becomes the leaf's vote; the sum of such functions over the trees is then the ensemble's own.  skl2onnx
writes an IsolationForest so: the number of a leaf, two tables, a logarithm and a choice for each tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate
from hwflow.onnx.model import Attribute, Graph, Model, Node, TensorType, Value
from hwflow.onnx.rewrite.passes import remove_unused
from hwflow.quantize.graphs import as_ints, label_of, producers

Floats = npt.NDArray[np.float64]

_ML, _TREE = "ai.onnx.ml", "TreeEnsembleRegressor"
_FLOAT = np.dtype(np.float32)

#: Attributes of a node of a tree, and of a vote, that are lists.
_OF_NODES = ("nodes_nodeids", "nodes_featureids", "nodes_modes", "nodes_values", "nodes_truenodeids",
             "nodes_falsenodeids")  # fmt: skip
_OF_VOTES = ("target_nodeids", "target_ids", "target_weights")


@dataclass(frozen=True)
class _Tree:
    """A node that is one tree with one target: a leaf `leaves[k]` gives `values[k]`, float32."""

    node: Node
    x: str
    features: tuple[int, ...]
    leaves: tuple[int, ...]
    values: npt.NDArray[np.float32]


def sums_of_leaves(model: Model) -> Model:
    """`model` with one ensemble in place of each sum of functions of leaves; types and shapes are known."""
    graph = model.graph
    trees = {node.outputs[0]: tree for node in graph.nodes if (tree := _tree_of(graph, node)) is not None}
    if len(trees) < 2:
        return model
    walk = _Walk.of(graph, trees)
    roots = walk.roots(graph)
    made = {root: _ensemble(model, walk, root, terms) for root, terms in roots.items()}
    nodes = tuple(made.get(node.outputs[0]) or node for node in graph.nodes)
    return remove_unused(replace(model, graph=replace(graph, nodes=nodes)))


def _list(node: Node, name: str) -> tuple[Any, ...]:
    values = node.attributes.get(name, ())
    return values if isinstance(values, tuple) else ()


def _tree_of(graph: Graph, node: Node) -> _Tree | None:
    """The tree that `node` is; None for other nodes, and for trees that do more."""
    plain = (node.attributes.get("post_transform", "NONE") == "NONE" and node.attributes.get("n_targets", 1) == 1
             and set(_list(node, "nodes_treeids")) == set(_list(node, "target_treeids"))
             and len(set(_list(node, "nodes_treeids"))) == 1 and set(_list(node, "target_ids")) == {0})
    lengths = {len(_list(node, name)) for name in _OF_NODES}, {len(_list(node, name)) for name in _OF_VOTES}
    if (node.domain, node.op_type) != (_ML, _TREE) or not plain or max(map(len, lengths)) > 1:
        return None
    values = dict[int, float]()
    for leaf, weight in zip(_list(node, "target_nodeids"), _list(node, "target_weights"), strict=True):
        values[leaf] = values.get(leaf, 0.0) + weight
    x, features = _columns(graph, node, _list(node, "nodes_featureids"))
    kind = graph.tensor_type(node.outputs[0])
    if kind is None or kind.shape != (1, 1) or not features:
        return None
    base = np.float32(sum(_list(node, "base_values")[:1]))
    return _Tree(node, x, features, tuple(values), np.array(list(values.values()), np.float32) + base)


def _columns(graph: Graph, node: Node, features: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
    """The tensor that a tree reads through a Gather of columns, and the features in it; () where they are not there."""
    chosen = producers(graph).get(node.inputs[0])
    numbers = None if chosen is None or len(chosen.inputs) < 2 else graph.initializers.get(chosen.inputs[1])
    gathers = chosen is not None and not chosen.domain and chosen.op_type == "Gather"
    if chosen is None or numbers is None or not gathers or chosen.attributes.get("axis") != 1 or numbers.ndim != 1:
        return node.inputs[0], features
    columns = as_ints(numbers)
    if not all(0 <= feature < len(columns) for feature in features):
        return node.inputs[0], ()
    return chosen.inputs[0], tuple(columns[feature] for feature in features)


@dataclass(frozen=True)
class _Walk:
    """What the tensors of a graph depend on.

    `trees` are by the name of their result.  `of_tree` has the tree of each tensor that depends on it and constants
    alone, `terms` those that a sum of several trees adds.
    """

    trees: Mapping[str, _Tree]
    of_tree: Mapping[str, str]
    terms: Mapping[str, tuple[str, ...]]

    @staticmethod
    def of(graph: Graph, trees: Mapping[str, _Tree]) -> _Walk:
        constant = set(graph.initializers)
        of_tree, terms = {name: name for name in trees}, dict[str, tuple[str, ...]]()
        for node in graph.nodes:
            read = [name for name in node.inputs if name and name not in constant]
            sources = {of_tree.get(name, "") for name in read}
            if node.outputs[0] in trees:
                continue
            if not read:
                constant.update(node.outputs)
            elif len(sources) == 1 and "" not in sources:
                of_tree.update(dict.fromkeys(filter(None, node.outputs), sources.pop()))
            elif node.op_type in ("Add", "Sum") and not node.domain and len(read) == len(node.inputs) and all(
                    name in terms or _is_score(graph, of_tree, name) for name in read):
                terms[node.outputs[0]] = tuple(term for name in read for term in terms.get(name, (name,)))
        return _Walk(trees, of_tree, terms)

    def roots(self, graph: Graph) -> dict[str, tuple[str, ...]]:
        """The sums that something other than such a sum reads, with their terms; all their trees read one tensor."""
        inner = {name for node in graph.nodes if node.outputs[0] in self.terms for name in node.inputs}
        outer = {name for node in graph.nodes if node.outputs[0] not in self.terms for name in node.inputs}
        outer |= {value.name for value in graph.outputs}
        return {name: terms for name, terms in self.terms.items() if (name in outer or name not in inner)
                and len({self.trees[self.of_tree[term]].x for term in terms}) == 1}


def _is_score(graph: Graph, of_tree: Mapping[str, str], name: str) -> bool:
    kind = graph.tensor_type(name)
    return name in of_tree and kind is not None and kind.dtype == _FLOAT and kind.shape == (1, 1)


def _ensemble(model: Model, walk: _Walk, root: str, terms: Sequence[str]) -> Node | None:
    """The node that makes the tensor `root`, the sum of `terms`; None where a term is no function of a leaf."""
    votes = dict[str, Floats]()
    for term in terms:
        tree = walk.of_tree[term]
        values = _of_leaves(model, walk, walk.trees[tree], term)
        if values is None:
            return None
        votes[tree] = votes.get(tree, 0.0) + values
    trees = [walk.trees[name] for name in votes]
    made = next(node for node in model.graph.nodes if root in node.outputs)
    return Node(_TREE, (trees[0].x,), (root,), _attributes(trees, list(votes.values())), label_of(made), domain=_ML)


def _of_leaves(model: Model, walk: _Walk, tree: _Tree, term: str) -> Floats | None:
    """The tensor `term` for each leaf of `tree`; None where it is not finite, or a row depends on others."""
    (start,) = tree.node.outputs
    nodes = tuple(node for node in model.graph.nodes if node is not tree.node and walk.of_tree.get(
        node.outputs[0]) == start)
    inputs = (Value(start, TensorType(_FLOAT, (None, 1))),)
    graph = replace(model.graph, nodes=nodes, inputs=inputs, outputs=(Value(term, None),), types={})
    function = remove_unused(replace(model, graph=graph))
    try:
        several = np.asarray(evaluate(function, {start: tree.values[:, None]}, (term,))[term])
        ends = sorted({0, len(tree.values) // 2, len(tree.values) - 1})
        alone = [evaluate(function, {start: tree.values[[leaf], None]}, (term,))[term] for leaf in ends]
    except HwflowError:  # it takes one row alone
        return None
    if several.shape != (len(tree.values), 1) or not np.array_equal(several[ends], np.concatenate(alone)):
        return None
    return several[:, 0].astype(np.float64) if np.isfinite(several).all() else None


def _attributes(trees: Sequence[_Tree], votes: Iterable[Floats]) -> dict[str, Attribute]:
    """The attributes of one node with all `trees`, whose leaves give `votes`."""
    joined: dict[str, list[Any]] = {name: [] for name in (
        "nodes_treeids", *_OF_NODES, "nodes_missing_value_tracks_true", "target_treeids", *_OF_VOTES)}
    for number, (tree, values) in enumerate(zip(trees, votes, strict=True)):
        count = len(tree.features)
        own = {**{name: _list(tree.node, name) for name in _OF_NODES},
               "nodes_missing_value_tracks_true":
                   _list(tree.node, "nodes_missing_value_tracks_true") or (0,) * count,
               "nodes_featureids": tree.features, "nodes_treeids": (number,) * count,
               "target_treeids": (number,) * len(values), "target_nodeids": tree.leaves,
               "target_ids": (0,) * len(values), "target_weights": tuple(values.tolist())}  # fmt: skip
        for name, part in own.items():
            joined[name].extend(part)
    return {"n_targets": 1, "post_transform": "NONE", "aggregate_function": "SUM",
            **{name: tuple(values) for name, values in joined.items()}}
