"""Operators of ai.onnx.ml: LabelEncoder, and ensembles of trees.

TreeEnsembleRegressor and -Classifier became TreeEnsemble with ai.onnx.ml 5.  There the leaves are numbered on their own
and vote for one target each.  A tree whose leaves have several votes becomes several trees, which only differ in their
votes.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from hwflow.onnx.conversion.node_conversion import NodeConversion
from hwflow.onnx.conversion.steps import Steps, narrow, newer
from hwflow.onnx.model import Attribute

_MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ")

_AGGREGATES = {"AVERAGE": 0, "SUM": 1, "MIN": 2, "MAX": 3}

_TRANSFORMS = {"NONE": 0, "SOFTMAX": 1, "LOGISTIC": 2, "SOFTMAX_ZERO": 3, "PROBIT": 4}

#: Transforms that one operator of the default operator set computes, and its attributes.
_NODES: dict[str, tuple[str, dict[str, int]]] = {"LOGISTIC": ("Sigmoid", {}), "SOFTMAX": ("Softmax", {"axis": 1})}

#: The first version of the default operator set that broadcasts.
_BROADCASTING = 7

#: (target, weight)
_Vote = tuple[int, float]


@dataclass
class _Forest:
    """The attributes of TreeEnsemble while trees are added; `children` are (is a leaf, number) on both sides."""

    features: list[int] = field(default_factory=list)
    splits: list[float] = field(default_factory=list)
    modes: list[int] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)
    children: list[tuple[tuple[int, int], tuple[int, int]]] = field(default_factory=list)
    leaves: list[_Vote] = field(default_factory=list)
    roots: list[int] = field(default_factory=list)

    def node(self, feature: int, split: float, mode: int, missing: int) -> int:
        """A new node, whose children are set later."""
        self.features.append(feature)
        self.splits.append(split)
        self.modes.append(mode)
        self.missing.append(missing)
        self.children.append(((1, 0), (1, 0)))
        return len(self.features) - 1

    def attributes(self, targets: int, dtype: npt.DTypeLike) -> dict[str, Attribute]:
        yes, no = zip(*self.children, strict=True)
        return {
            "n_targets": targets,
            "tree_roots": tuple(self.roots),
            "nodes_featureids": tuple(self.features),
            "nodes_splits": np.array(self.splits, dtype),
            "nodes_modes": np.array(self.modes, np.uint8),
            "nodes_missing_value_tracks_true": tuple(self.missing),
            "nodes_truenodeids": tuple(number for _, number in yes),
            "nodes_trueleafs": tuple(leaf for leaf, _ in yes),
            "nodes_falsenodeids": tuple(number for _, number in no),
            "nodes_falseleafs": tuple(leaf for leaf, _ in no),
            "leaf_targetids": tuple(target for target, _ in self.leaves),
            "leaf_weights": np.array([weight for _, weight in self.leaves], dtype),
        }


def _floats(site: NodeConversion, name: str) -> list[float]:
    tensor = site.node.attributes.get(f"{name}_as_tensor")
    if isinstance(tensor, np.ndarray) and tensor.size:
        return [float(v) for v in tensor.reshape(-1)]
    return [float(v) for v in site.attribute(name) or ()]


@dataclass
class _Old:
    """The trees of a node before version 5; `votes` is the prefix of the attributes of their leaves."""

    site: NodeConversion
    votes: str
    aggregate: str

    def __post_init__(self) -> None:
        site = self.site
        self.ids = list(zip(site.attribute("nodes_treeids"), site.attribute("nodes_nodeids"), strict=True))
        self.place = {key: index for index, key in enumerate(self.ids)}
        self.values = _floats(site, "nodes_values")
        self.missing = site.attribute("nodes_missing_value_tracks_true") or (0,) * len(self.ids)
        for name in ("nodes_featureids", "nodes_modes", "nodes_truenodeids", "nodes_falsenodeids", "nodes_values"):
            held = self.values if name == "nodes_values" else site.attribute(name)
            if len(held) != len(self.ids):
                raise ValueError(f"'{name}' must have {len(self.ids)} elements, not {len(held)}")
        keys = zip(site.attribute(f"{self.votes}_treeids"), site.attribute(f"{self.votes}_nodeids"), strict=True)
        pairs = zip(site.attribute(f"{self.votes}_ids"), _floats(site, f"{self.votes}_weights"), strict=True)
        self.of_leaf: dict[tuple[int, int], list[_Vote]] = {}
        for key, vote in zip(keys, pairs, strict=True):
            if self.is_leaf(key):
                self.of_leaf.setdefault(key, []).append(vote)

    def is_leaf(self, key: tuple[int, int]) -> bool:
        return bool(self.site.attribute("nodes_modes")[self.place[key]] == "LEAF")

    @property
    def trees(self) -> list[int]:
        return list(dict.fromkeys(tree for tree, _ in self.ids))

    def forest(self, target: int | None = None) -> _Forest:
        """All trees; with `target` every vote is for that one."""
        trees = _Forest()
        for tree in self.trees:
            leaves = [key for key in self.ids if key[0] == tree and self.is_leaf(key)]
            for copy in range(max((len(self.of_leaf.get(key, ())) for key in leaves), default=1) or 1):
                votes = {key: self.vote(key, copy) for key in leaves}
                if target is not None:
                    votes = {key: (target, weight) for key, (_, weight) in votes.items()}
                trees.roots.append(self.added(trees, (tree, 0), votes))
        return trees

    def vote(self, key: tuple[int, int], copy: int) -> _Vote:
        """Vote number `copy` of a leaf, or one that changes nothing."""
        own_votes = self.of_leaf.get(key, [])
        if copy < len(own_votes):
            return own_votes[copy]
        if self.aggregate in ("SUM", "AVERAGE"):
            return 0, 0.0
        if not own_votes:
            raise self.site.refuse(
                f"a leaf of tree {key[0]} has no vote, which counts as none for {self.aggregate}, and every leaf of "
                f"TreeEnsemble votes",
                "stay with version 4 of ai.onnx.ml, or train the model with one vote in each leaf",
            )
        return own_votes[-1]

    def added(self, forest: _Forest, root: tuple[int, int], votes: dict[tuple[int, int], _Vote]) -> int:
        """The number of the root of a tree that is added; where it is a leaf, of a node with that leaf twice."""
        site = self.site

        def leaf(key: tuple[int, int]) -> tuple[int, int]:
            forest.leaves.append(votes[key])
            return 1, len(forest.leaves) - 1

        if self.is_leaf(root):
            number = forest.node(0, 0.0, 0, 0)
            forest.children[number] = (leaf(root),) * 2
            return number
        numbers: dict[tuple[int, int], int] = {}

        def inner(key: tuple[int, int]) -> int:
            k = self.place[key]
            mode = _MODES.index(site.attribute("nodes_modes")[k])
            numbers[key] = forest.node(site.attribute("nodes_featureids")[k], self.values[k], mode, self.missing[k])
            return numbers[key]

        todo = [root]
        inner(root)
        while todo:
            key = todo.pop()
            k, sides = self.place[key], []
            for side in ("nodes_truenodeids", "nodes_falsenodeids"):
                child = (key[0], site.attribute(side)[k])
                if self.is_leaf(child):
                    sides.append(leaf(child))
                    continue
                if child in numbers:
                    raise ValueError(f"several ways lead to node {child[1]} of tree {child[0]}")
                sides.append((0, inner(child)))
                todo.append(child)
            forest.children[numbers[key]] = (sides[0], sides[1])
        return numbers[root]


def _scores(site: NodeConversion, old: _Old, targets: int, target: int | None = None, transform: str = "NONE") -> str:
    """The sums of the votes, with base values where the node has them, in the type in which they are computed."""
    x, dtype = site.input(0), _dtype(site)
    aggregate, divisor = old.aggregate, 0
    forest = old.forest(target)
    if aggregate == "AVERAGE" and len(forest.roots) != len(old.trees):
        aggregate, divisor = "SUM", len(old.trees)
    base = _floats(site, "base_values")
    if target is not None:
        base = [sum(base)] if base else []
    later = bool(base or divisor)
    scores = site.add(
        "TreeEnsemble", site.cast(x, dtype), domain="ai.onnx.ml", aggregate_function=_AGGREGATES[aggregate],
        post_transform=0 if later else _TRANSFORMS[transform], **forest.attributes(targets, dtype),
    )  # fmt: skip
    if divisor:
        scores = site.add("Div", scores, site.constant(divisor, dtype))
    if base:
        scores = site.add("Add", scores, site.constant(base, dtype))
    return _transformed(site, scores, transform) if later else scores


def _dtype(site: NodeConversion) -> type[np.float32 | np.float64]:
    """float32 where input and trees are: integers and tensors of doubles are compared in float64."""
    wide = any(isinstance(v, np.ndarray) and v.dtype == np.float64 for v in site.node.attributes.values())
    return np.float32 if site.needs_dtype(site.input(0)) == np.float32 and not wide else np.float64


def _transformed(site: NodeConversion, scores: str, transform: str) -> str:
    if transform == "NONE":
        return scores
    if transform not in _NODES:
        raise site.refuse(
            f"post_transform {transform} after base values, or of two classes, is no operator and not in TreeEnsemble",
            "stay with version 4 of ai.onnx.ml, which newer runtimes still take",
        )
    operator, attributes = _NODES[transform]
    return site.add(operator, scores, domain="", **attributes)


def _as_float(site: NodeConversion, name: str, result: str) -> None:
    """The output `result`, which is float32 whatever the type of the input."""
    if _dtype(site) == np.float32:
        site.node_for(result, "Identity", name)
    else:
        site.node_for(result, "Cast", name, to=1)


def _with_operators(site: NodeConversion) -> None:
    """Let the nodes around the ensemble be of the default operator set that is wanted."""
    version = site.opsets[""] = site.targets.get("", site.opsets[""])
    if version < _BROADCASTING:
        raise site.refuse(
            f"operator set {version} of ai.onnx does not broadcast, which the nodes around TreeEnsemble need",
            f"convert ai.onnx to {_BROADCASTING} or newer at the same time",
        )


def _regressor(site: NodeConversion) -> None:
    _with_operators(site)
    old = _Old(site, "target", site.attribute("aggregate_function"))
    targets = site.attribute("n_targets") or max(site.attribute("target_ids"), default=0) + 1
    scores = _scores(site, old, targets, transform=site.attribute("post_transform"))
    _as_float(site, scores, site.node.outputs[0])


def _classifier(site: NodeConversion) -> None:
    _with_operators(site)
    texts, numbers = site.attribute("classlabels_strings"), site.attribute("classlabels_int64s")
    labels = np.array(texts, np.object_) if texts else np.array(numbers, np.int64)
    old, transform = _Old(site, "class", "SUM"), site.attribute("post_transform")
    voted = {target for votes in old.of_leaf.values() for target, _ in votes}
    if len(labels) == 2 and len(voted) == 1 and len(_floats(site, "base_values")) < 2:
        chosen, result = _two_classes(site, old, voted.pop(), transform)
    else:
        scores = _scores(site, old, len(labels))
        chosen = site.add("ArgMax", scores, axis=1, keepdims=0)
        again = transform != "NONE" and transform not in _NODES
        if again:
            result = _scores(site, old, len(labels), transform=transform)
        else:
            result = _transformed(site, scores, transform)
    if site.names(0):
        site.node_for(site.node.outputs[0], "Gather", site.constant(labels), chosen, axis=0)
    if site.names(1):
        _as_float(site, result, site.node.outputs[1])


def _two_classes(site: NodeConversion, old: _Old, voted: int, transform: str) -> tuple[str, str]:
    """The places of the labels and the scores of two classes, of which the leaves vote for one."""
    dtype = _dtype(site)
    score = _scores(site, old, 1, target=0)
    positive = all(weight >= 0 for votes in old.of_leaf.values() for _, weight in votes)
    above = site.add("Greater", score, site.constant(0.5 if positive else 0, dtype))
    chosen = site.add("Reshape", site.add("Cast", above, to=7), site.constant([-1], np.int64))
    if voted:
        zero = site.add("Mul", score, site.constant(0, dtype))
        return chosen, _transformed(site, site.add("Concat", zero, score, axis=1), transform)
    other = site.add("Neg", score)
    if transform == "LOGISTIC":
        return chosen, site.add("Sigmoid", site.add("Concat", other, score, axis=1))
    if positive or transform == "PROBIT":
        other = site.add("Sub", site.constant(1, dtype), score)
    both = site.add("Concat", other, score, axis=1)
    return chosen, _transformed(site, both, transform if transform == "PROBIT" else "NONE")


def _keys_and_values(site: NodeConversion) -> None:
    """LabelEncoder to 2: classes are numbered; a text becomes its number, a number its text."""
    classes = site.attribute("classes_strings") or ()
    numbers = tuple(range(len(classes)))
    others = site.attributes("classes_strings", "default_string", "default_int64")
    if site.needs_dtype(site.input(0)).kind in "OU":
        pairs = {"keys_strings": classes, "values_int64s": numbers, "default_int64": site.attribute("default_int64")}
    else:
        pairs = {"keys_int64s": numbers, "values_strings": classes, "default_string": site.attribute("default_string")}
    site.keep(attributes={**others, **pairs})


#: How lists of each element type are called.
_LISTS = {"int64": "int64s", "float32": "floats", "object": "strings"}

_DEFAULTS = {"int64": "default_int64", "float32": "default_float", "object": "default_string"}


def _lists(site: NodeConversion) -> None:
    """LabelEncoder below 4 has no tensors."""
    site.require_types()
    attributes = dict[str, Attribute]()
    for name, value in site.node.attributes.items():
        part, _, kind = name.partition("_")
        if kind != "tensor":
            attributes[name] = value
            continue
        assert isinstance(value, np.ndarray)
        names = _DEFAULTS if part == "default" else _LISTS
        if value.dtype.name not in names:
            raise newer(site, f"attribute '{name}' of {value.dtype}")
        items = tuple(value.reshape(-1).tolist())
        if part == "default":
            attributes[names[value.dtype.name]] = items[0]
        else:
            attributes[f"{part}_{names[value.dtype.name]}"] = items
    narrow(site, attributes=attributes)


def _classes(site: NodeConversion) -> None:
    """LabelEncoder 1: texts, whose numbers are their places."""
    texts, numbers = site.attribute("keys_strings"), site.attribute("values_int64s")
    if texts is None:
        texts, numbers = site.attribute("values_strings"), site.attribute("keys_int64s")
    if texts is None or numbers is None or tuple(numbers) != tuple(range(len(texts))):
        raise newer(site, "keys and values other than texts and their places")
    defaults = {name: site.attribute(name) for name in ("default_string", "default_int64")}
    narrow(site, attributes={"classes_strings": tuple(texts), **defaults})


def _tree_lists(site: NodeConversion) -> None:
    """Trees below version 3 have lists of floats."""
    attributes = dict[str, Attribute]()
    for name, value in site.node.attributes.items():
        if not name.endswith("_as_tensor"):
            attributes[name] = value
            continue
        assert isinstance(value, np.ndarray)
        if value.dtype != np.float32:
            raise newer(site, f"attribute '{name}' of {value.dtype}")
        attributes[name.removesuffix("_as_tensor")] = tuple(value.reshape(-1).tolist())
    narrow(site, attributes=attributes)


UP: Steps = {
    "TreeEnsembleClassifier": {5: _classifier}, "TreeEnsembleRegressor": {5: _regressor},
    "LabelEncoder": {2: _keys_and_values},
}

DOWN: Steps = {
    "LabelEncoder": {2: _classes, 4: _lists},
    "TreeEnsembleClassifier": {3: _tree_lists},
    "TreeEnsembleRegressor": {3: _tree_lists},
}
