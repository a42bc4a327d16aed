"""Ensembles of decision trees with integer votes, over quantized features or ranks."""

from __future__ import annotations

import numpy as np

from hwflow.layers import IntFormat, Tensor, Trees
from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Node
from hwflow.onnx.ops.ml.trees import MEMBER, MODES, Ensemble, Forest
from hwflow.quantize.dialects.classical.trees import is_integer, read_ensemble
from hwflow.quantize.dialects.rewriting import Refused
from hwflow.quantize.importer.node_context import NodeContext
from hwflow.quantize.importer.states import TensorState, Unsupported, image_index


def trees(context: NodeContext, node: Node, dynamic: list[str]) -> TensorState:
    """A TreeEnsemble or TreeEnsembleRegressor; its reals are the very integers that the layer gives."""
    try:
        ensemble = read_ensemble(node, dict(context.opsets))
    except Refused as refusal:
        raise Unsupported(refusal.why, refusal.remedy) from None
    if not is_integer(ensemble):
        raise Unsupported("the votes of trees must be integers here", "let hwflow quantize the float model")
    held = context.flat(dynamic[0])
    x = context.tensors[held.tensor]
    output = context.building.tensor_name(node.outputs[0])
    layer = _layer(context.building.name_of(node), x, output, ensemble, held.index.ravel())
    results = layer.ends if layer.aggregate == "sum" else layer.leaves
    format = IntFormat.covering(min(int(results.min()), -1), max(int(results.max()), 0))  # signed: ONNX has no uint32
    y = Tensor(layer.output, layer.output_frame(x.frame), format, 1.0, 0)
    return context.building.made(layer, y, node.outputs[0], image_index(y.frame, 2))


def _layer(name: str, x: Tensor, output: str, ensemble: Ensemble, index: IntArray) -> Trees:
    """`index` is the channel of each feature."""
    forest = ensemble.forest
    there = _reached(forest)
    inner = np.flatnonzero(there & ~forest.leaf)
    leaves = np.flatnonzero(there & forest.leaf)
    place = np.zeros(len(there), np.int64)
    place[inner], place[leaves] = np.arange(len(inner)), -1 - np.arange(len(leaves))
    thresholds, equal, turned = _thresholds(forest, inner, x)
    children = np.stack([place[forest.false[inner]], place[forest.true[inner]]], axis=1)
    children = np.where(turned[:, None], children[:, ::-1], children)
    votes, roots = _votes(forest, leaves, ensemble.aggregate), place[forest.roots]
    features = index[forest.features[inner]]
    # A tree that is a leaf alone becomes a node both of whose leaves vote as it does.
    for tree in np.flatnonzero(roots < 0).tolist():
        leaf, roots[tree] = -1 - roots[tree], len(features)
        votes = np.concatenate([votes, votes[leaf:leaf + 1]])
        features, thresholds, equal = (np.append(a, b) for a, b in
                                       ((features, 0), (thresholds, x.format.low), (equal, 0)))
        children = np.concatenate([children, [[-1 - leaf, -len(votes)]]])
    return Trees(name, (x.name,), output, x.format, features, thresholds, equal, children, roots, votes,
                 ensemble.aggregate.lower())


def _reached(forest: Forest) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
    """Which nodes are in a tree."""
    there = np.zeros(len(forest.leaf), np.bool_)
    level = forest.roots
    while level.size:
        there[level] = True
        level = level[~forest.leaf[level]]
        level = np.concatenate([forest.true[level], forest.false[level]])
    return there


def _thresholds(forest: Forest, nodes: IntArray, x: Tensor) -> tuple[IntArray, IntArray, IntArray]:
    """For each node the integer of `x` from which on it holds, whether it holds for that one alone, and whether its
    sides change places: as the comparison of the dequantized float32 with its threshold says.
    """
    modes, limits = forest.modes[nodes], forest.thresholds[nodes].astype(np.float32)
    if (modes == MEMBER).any():
        raise Unsupported("asks whether a quantized feature is in a set", "train without categorical features")
    codes = np.arange(x.format.low, x.format.high + 1)
    reals = (codes - x.zero_point).astype(np.float32) * np.float32(x.scale)
    names = np.array(MODES)[modes]
    right = np.isin(names, ("BRANCH_LEQ", "BRANCH_GT"))
    firsts = x.format.low + np.where(right, np.searchsorted(reals, limits, "right"), np.searchsorted(reals, limits))
    equal = np.isin(names, ("BRANCH_EQ", "BRANCH_NEQ"))
    at = np.minimum(firsts - x.format.low, len(codes) - 1)
    firsts = np.where(equal & (reals[at] != limits), x.format.high + 1, firsts)  # none is equal
    turned = np.isin(names, ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_NEQ"))
    return firsts.astype(np.int64), equal.astype(np.int64), turned.astype(np.int64)


def _votes(forest: Forest, leaves: IntArray, aggregate: str) -> IntArray:
    """[leaves, targets].  Where not all leaves vote for a target, only a sum has a meaning."""
    first, last = forest.first_vote[leaves], forest.first_vote[leaves + 1]
    counts = last - first
    votes = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts - first, counts)
    rows, targets = np.repeat(np.arange(len(leaves)), counts), forest.vote_targets[votes]
    integers = forest.vote_weights[votes].astype(np.int64)
    table = np.zeros((len(leaves), forest.targets), np.int64)
    if aggregate == "SUM":
        np.add.at(table, (rows, targets), integers)
        return table
    if len(np.unique(rows * forest.targets + targets)) != table.size or len(votes) != table.size:
        raise Unsupported(f"with aggregate_function {aggregate} every leaf must vote once for every target",
                          "train one regressor for each target")
    table[rows, targets] = integers
    return table


