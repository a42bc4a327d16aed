"""Which tensors of a float model become integers.

A tensor gets integers of its own where something computes: at the start, behind each product, average, join of branches
and function.  What only moves or selects elements (layout, maximum) keeps the integers that it reads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from hwflow.onnx.model import Graph, Model, Node
from hwflow.onnx.operators import (
    BEST,
    CLAMPS,
    ELEMENTWISE,
    HOST_AFTER,
    HOST_BEFORE,
    HOST_ONLY,
    LAYOUT,
    MATRIX,
    MAX_POOLS,
    MOVES,
    NEVER_ON_HOST,
    ORDERLY,
    RANKINGS,
    TURNING,
    named,
)
from hwflow.onnx.run.sequences import state_pairs
from hwflow.onnx.traits import Trait
from hwflow.quantize.graphs import (
    attribute,
    constants,
    consumers,
    dynamic_inputs,
    host_prefix,
    host_suffix,
    interpolates,
    is_boolean,
    is_computed,
    is_embedding,
    is_product,
    label_of,
    needs_host,
    numbers_read,
    producers,
    scales,
)
from hwflow.quantize.passes.recurrent import INITIAL_STATES, is_recurrent

#: The result has the values of the first input, or some of them, and perhaps zeros.
KEEPS = LAYOUT | MOVES | MAX_POOLS | BEST

#: Operators that make classes or shares of a row of scores.
_CLASSIFIES = HOST_ONLY - named(Trait.ELEMENT)

#: Distances are ranked behind it, in the order of their squares.
_ROOTS = frozenset({"Sqrt"})


@dataclass(frozen=True)
class Point:
    """A tensor that becomes integers.

    `owner` is what settings call it: an input (`is_input`) or the node that computes it, which may stand before a Relu
    or Clip that is a part of it.  `is_scores`: a Softmax, ArgMax or the like on the host makes classes of it.
    `is_last`: no layer reads it.
    """

    tensor: str
    owner: str
    is_input: bool = False
    is_scores: bool = False
    is_last: bool = False


def points(model: Model, ranks: bool = False) -> tuple[Point, ...]:
    """The tensors that become integers, in the order of the graph.

    They are: what the first computing layers read; the result of every product, average, Concat and join of two
    tensors (Add, Mul, ...), behind its Relu or Clip; and both ends of any other function of one tensor, which may be a
    sub-graph (x * sigmoid(x)).  Behind the last layer nothing is: there the host computes.  `ranks`: an ArgMax, ArgMin
    or TopK there is the last layer, and what it compares are integers.
    """
    tensors = _Walk(model.graph, ranks).run()
    return tuple(tensors.values())


def common_ranges(model: Model, ready: tuple[Point, ...]) -> tuple[tuple[str, ...], ...]:
    """Groups of points that are best made integers the same way: the tensors of a Concat, a TensorScatter, or a Pad
    with values, and a state that stays on the chip with its next value.

    Then these only put integers beside each other, or keep them.
    """
    graph, tensors = model.graph, {point.tensor for point in ready}
    makers, group = producers(graph), {name: {name} for name in tensors}
    alike = [(*(name for name in dynamic_inputs(node, graph) if name not in numbers_read(node, graph)), node.outputs[0])
             for node in graph.nodes if node.outputs[0] in tensors
             and (node.op_type in ("Concat", "TensorScatter") or pads_values(node, graph))]
    alike += [pair for pair in state_pairs(model).items() if pair[0] in graph.kept]
    for ends in alike:
        sources = [scale_source(name, makers, tensors) for name in ends]
        merged = set().union(*(group[name] for name in sources if name in group))
        group.update(dict.fromkeys(merged, merged))
    order = [point.tensor for point in ready]
    unique = {id(names): names for name in order if len(names := group[name]) > 1}
    return tuple(tuple(name for name in order if name in names) for names in unique.values())


def pads_values(node: Node, graph: Graph) -> bool:
    """True for a Pad with a constant other than 0, which the range of its input may not hold."""
    if node.op_type != "Pad" or attribute(node, "mode", "constant") != "constant":
        return False
    fill = graph.initializers.get(node.input(2))
    return bool(attribute(node, "value", 0.0) if fill is None else fill.any())


def scale_source(name: str, makers: Mapping[str, Node], stop: Container[str]) -> str:
    """Go back over nodes that keep the values' range, to the tensor that fixed it (one of `stop` at the latest)."""
    while name not in stop and name in makers and makers[name].op_type in KEEPS:
        name = makers[name].inputs[0]
    return name


@dataclass
class _Walk:
    """Finds the points of one graph."""

    graph: Graph
    ranks: bool
    read: dict[str, list[Node]] = field(init=False)
    made: dict[str, Node] = field(init=False)
    outputs: set[str] = field(init=False)
    before: set[str] = field(init=False)
    after: set[str] = field(init=False)
    #: Results behind the last layer, if ArgMax and TopK are on the host.
    at_the_end: set[str] = field(init=False)
    #: Results of fused functions: tensor in front of them to the last one.
    ends: dict[str, str] = field(default_factory=dict)
    fused: set[str] = field(default_factory=set)
    #: For the result of an element-wise node, the one tensor that it is a function of.
    roots: dict[str, str] = field(default_factory=dict)
    #: Results inside such a function that others read too: what follows is a function of them.
    cuts: set[str] = field(default_factory=set)
    found: dict[str, Point] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.graph
        self.read, self.made = consumers(graph), producers(graph)
        self.outputs = {value.name for value in graph.outputs}
        self.before = host_prefix(graph, HOST_BEFORE)
        self.at_the_end = host_suffix(graph, HOST_AFTER)
        for node in graph.nodes:
            if self._computes(node) and node.op_type != "Concat":
                self._fuse(node.outputs[0], node.op_type in MATRIX, is_product(node, graph.initializers))
        self._find_roots()
        self.cuts |= {name for name in self.roots if self._curves_behind(name)}
        self._find_roots()
        while self._cut():
            self._find_roots()
        self.after = self._suffix()

    def run(self) -> dict[str, Point]:
        for name in sorted(self.graph.kept & self.before):
            self._add_start(name)
        for node in self.graph.nodes:
            dynamic = dynamic_inputs(node, self.graph)
            result = node.outputs[0]
            if not dynamic or result in self.before or result in self.after:
                continue
            for name in dynamic:
                is_state = is_recurrent(node) and name in node.inputs[INITIAL_STATES]
                if name in self.before and not is_state and name not in numbers_read(node, self.graph):
                    self._add_start(name)
            if self._is_join(node) or self._computes(node):
                self._add(self.ends.get(result, result), node)
            elif node.op_type in ELEMENTWISE and result not in self.fused:
                self._add_function(node)
        return self._with_owners()

    def _add(self, tensor: str, node: Node) -> None:
        is_last = all(self.after.issuperset(filter(None, reader.outputs)) for reader in self.read.get(tensor, ()))
        point = Point(tensor, label_of(node), is_scores=self._is_scores(tensor), is_last=is_last)
        self.found.setdefault(tensor, point)

    def _add_start(self, name: str) -> None:
        """A tensor that the host makes."""
        self.found.setdefault(name, Point(name, ""))

    def _merge_starts(self) -> None:
        """Tensors that the host makes of one tensor by other layouts alone become integers there, once."""
        roots = {name: self._layout_root(name) for name, point in self.found.items() if not point.owner}
        counts = Counter(roots.values())
        shared = {name: root for name, root in roots.items() if counts[root] > 1}
        self.found = {shared.get(name, name): replace(point, tensor=shared.get(name, name))
                      for name, point in self.found.items()}  # fmt: skip

    def _layout_root(self, name: str) -> str:
        while name in self.made and self.made[name].op_type in LAYOUT:
            name = self.made[name].inputs[0]
        return name

    def _with_owners(self) -> dict[str, Point]:
        """An input owns itself, or else the first of what the host makes of it; the rest belongs to its last node."""
        self._merge_starts()
        owners: dict[str, str] = {}
        starts = [name for name, point in self.found.items() if not point.owner]
        for name in sorted(starts, key=lambda name: name in self.made):
            origin = name
            while origin in self.made:
                origin = dynamic_inputs(self.made[origin], self.graph)[0]
            owners.setdefault(origin, name)
        inputs = {name: origin for origin, name in owners.items()}
        for name in starts:
            owner = inputs.get(name)
            self.found[name] = Point(name, owner or label_of(self.made[name]), is_input=owner is not None)
        return self.found

    def _add_function(self, node: Node) -> None:
        """Both ends of a function; nothing for a node inside a function of several nodes."""
        result = node.outputs[0]
        inside, outside = self._readers(result)
        if inside and not outside:
            return
        root = self.roots[result]
        source = scale_source(root, self.made, self.before)
        if source in self.before:
            self._add_start(source)
        elif source in self.made:
            self._add(source, self.made[source])
        self._add(result, node)

    def _readers(self, name: str) -> tuple[bool, bool]:
        """Whether nodes of the same function read an element-wise result, and whether anything else does."""
        readers = [node.outputs[0] for node in self.read.get(name, [])]
        inside = [self.roots.get(reader) == self.roots[name] for reader in readers]
        return any(inside), name in self.outputs or not all(inside)

    def _cut(self) -> bool:
        """Find results inside of functions that others read too; False where there are no more."""
        new = {name for name in self.roots if name not in self.cuts and self._readers(name) == (True, True)}
        self.cuts |= new
        return bool(new)

    def _curves_behind(self, name: str) -> bool:
        """Whether constants that differ between elements are followed by a function that no thresholds compute."""
        readers = [node for node in self.read.get(name, []) if node.op_type in ELEMENTWISE]
        turns = len(readers) > 1 or any(node.op_type in TURNING for node in readers)
        return turns and any(value.size > 1 for value in constants(self.made[name], self.graph))

    def _is_scores(self, name: str) -> bool:
        readers = self.read.get(name, [])
        while len(readers) == 1 and readers[0].op_type in LAYOUT | _ROOTS:
            readers = self.read.get(readers[0].outputs[0], [])
        return bool(readers) and all(node.op_type in _CLASSIFIES for node in readers)

    def _computes(self, node: Node) -> bool:
        """True for what is neither a function of elements nor keeps its input's values."""
        ranked = node.op_type in ORDERLY and node.outputs[0] in self.at_the_end  # what ranks its result leaves it out
        on_host = needs_host(node, self.graph) and (ranked or not is_computed(node))
        known = (node.op_type in ELEMENTWISE | KEEPS and not interpolates(node)) or on_host
        makes = not known or pads_values(node, self.graph) or is_embedding(node, self.graph)
        return makes and bool(dynamic_inputs(node, self.graph))

    def _is_join(self, node: Node) -> bool:
        apart = node.outputs[0] not in self.roots and node.outputs[0] not in self.fused
        return node.op_type in ELEMENTWISE and apart and self._is_dynamic(node)

    def _is_dynamic(self, node: Node) -> bool:
        return bool(dynamic_inputs(node, self.graph))

    def _fuse(self, name: str, is_matrix: bool = False, of_two: bool = False) -> None:
        """Follow the Relu and Clip (and layout between them) that alone read `name`: they are a part of what made it.

        Behind a product so is a PRelu with a slope per channel: no table for all elements can hold it; and behind one
        `of_two` computed tensors, which has no weights that could take them in, a factor and constants that are added.
        """
        start, passed = name, list[str]()
        while name not in self.outputs and len(self.read.get(name, [])) == 1:
            follower = self.read[name][0]
            if follower.op_type not in LAYOUT and not (
                    _is_fusible(follower, self.graph, is_matrix)
                    or (of_two and _follows_product(follower, self.graph))):
                return
            name = follower.outputs[0]
            passed.append(name)
            if follower.op_type not in LAYOUT:
                self.ends[start] = name
                self.fused.update(passed)

    def _find_roots(self) -> None:
        """Which element-wise nodes are functions of one tensor.  The others join branches: a Relu behind is fused."""
        self.roots = {}
        for node in self.graph.nodes:
            dynamic, result = dynamic_inputs(node, self.graph), node.outputs[0]
            if node.op_type not in ELEMENTWISE or not dynamic or result in self.before | self.fused:
                continue
            roots = {name if name in self.cuts else self.roots.get(name, name) for name in dynamic}
            if len(roots) == 1:
                self.roots[result] = roots.pop()
            else:
                self._fuse(result)

    def _suffix(self) -> set[str]:
        """Results of the nodes behind the last layer: from there on only host operators lead to the outputs."""
        forced = set(self._forced())
        names: set[str] = set()
        for node in reversed(self.graph.nodes):
            result, followers = node.outputs[0], [n for name in node.outputs for n in self.read.get(name, [])]
            fits = node.op_type in HOST_AFTER or needs_host(node, self.graph)
            fits = fits or (result in forced and node.op_type not in NEVER_ON_HOST)
            if self._is_last_layer(node) or not fits or not all(set(n.outputs) & names for n in followers):
                continue
            stays = self._is_join(node) and result not in forced and not is_boolean(result, self.graph)
            if result in self.fused | self.graph.kept or stays:
                continue
            names.update(filter(None, node.outputs))
        return names

    def _is_last_layer(self, node: Node) -> bool:
        return self.ranks and node.op_type in RANKINGS and not node.domain

    def _forced(self) -> Iterator[str]:
        """Results of operators that the host computes behind the last layer, and of all that follows."""
        forced: set[str] = set()
        for node in self.graph.nodes:
            on_host = needs_host(node, self.graph) and (not is_computed(node) or node.outputs[0] in self.at_the_end)
            reached = on_host or forced.intersection(node.inputs)
            if reached and node.outputs[0] not in self.before:
                forced.update(filter(None, node.outputs))
        yield from forced


def _is_fusible(node: Node, graph: Graph, is_matrix: bool) -> bool:
    if node.op_type == "PRelu":
        return is_matrix and any(value.size > 1 for value in constants(node, graph))
    return node.op_type in CLAMPS and len(dynamic_inputs(node, graph)) == 1


def _follows_product(node: Node, graph: Graph) -> bool:
    """Whether a product of two computed tensors takes `node` in: a factor, or constants that are added, such as a mask,
    and are the same for all heads.
    """
    added = node.op_type == "Add" or (node.op_type == "Sub" and node.inputs[0] not in graph.initializers)
    summands = constants(node, graph)
    return scales(node, graph) or (added and len(summands) == 1 and all(size == 1 for size in summands[0].shape[:-2]))


# Which points are squares and sums of squares: they get twice the bits, because a square of n bits has 2 n.
#
# The magnitude of a spectrum is one: sqrt(x * x + y * y).  With squares of 8 bits every bin below a sixteenth of the
# loudest one is 0.


#: The operators that may read a square of twice the bits.
_READERS = named(Trait.READS_SQUARES)


def squares(model: Model, points: Iterable[Point]) -> frozenset[str]:
    """The tensors of `points` that are squares or sums of two squares, and that only functions of one element read."""
    graph, tensors = model.graph, {point.tensor for point in points}
    makers, squared = producers(graph), set[str]()
    for node in graph.nodes:
        name = node.outputs[0]
        if name in tensors and (is_square(node, graph) or _is_sum(node, graph, squared)):
            squared.add(name)
    read = consumers(graph)
    while True:  # a square next to one that is none would only lose its bits
        left = {name for name in squared
                if _readers(name, read) <= _READERS and _are_with(makers[name], graph, squared)}
        if left == squared:
            return frozenset(squared)
        squared = left


def flags(model: Model, points: Iterable[Point]) -> dict[str, tuple[float, float]]:
    """The tensors of `points` that are rows of a table with two values, 0 and another: one bit has them exactly."""
    graph, made = model.graph, producers(model.graph)
    found = {}
    for point in points:
        node = made.get(point.tensor)
        table = graph.initializers[node.inputs[0]] if node is not None and is_embedding(node, graph) else None
        values = np.unique(table).tolist() if table is not None else []
        if len(values) == 2 and 0 in values:
            found[point.tensor] = (values[0], values[1])
    return found


def is_square(node: Node, graph: Graph) -> bool:
    """Whether `node` multiplies a computed tensor with itself."""
    if node.domain:
        return False
    if node.op_type == "Pow":
        exponent = graph.initializers.get(node.inputs[1])
        return exponent is not None and exponent.size == 1 and float(exponent.reshape(())) == 2
    return node.op_type == "Mul" and node.inputs[0] == node.inputs[1] and node.inputs[0] not in graph.initializers


def _is_sum(node: Node, graph: Graph, squared: Container[str]) -> bool:
    dynamic, makers = dynamic_inputs(node, graph), producers(graph)
    both = len(dynamic) == 2 and node.op_type == "Add" and not node.domain
    return both and all(scale_source(name, makers, squared) in squared for name in dynamic)


def _are_with(node: Node, graph: Graph, squared: set[str]) -> bool:
    """Whether the operands of a sum still are squares."""
    return node.op_type != "Add" or _is_sum(node, graph, squared)


def _readers(name: str, read: dict[str, list[Node]]) -> set[str]:
    """The operators that read a tensor, also after its elements have moved."""
    operators, todo = set[str](), [name]
    while todo:
        for node in read.get(todo.pop(), []):
            if node.op_type in LAYOUT | MOVES and not interpolates(node):
                todo += node.outputs
            else:
                operators.add(node.op_type)
    return operators
