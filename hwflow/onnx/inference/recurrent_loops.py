"""Loops that are recurrent layers: written out, they compute what an RNN, GRU or LSTM computes on random inputs.

What a round reads of tensors outside is found by tracing: the moving nodes are run on numbers of elements, which gives
the sequence as a Gather of those tensors.  The cell is found in the second round (`recurrent_cells`).  Names and the
forms of nodes play no part, and the whole loop is compared with the layer at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.inference.recurrent_cells import Cell, Floats, Step, cells_of
from hwflow.onnx.inference.unrolled import MOVING, Lists, Round, Unrolled, lists_of, places_in
from hwflow.onnx.model import Array, Attribute, Graph, Node
from hwflow.onnx.ops.base import Known
from hwflow.onnx.rewrite.renaming import Fresh
from hwflow.onnx.run.evaluate import evaluate_nodes

#: Nodes of a round, beyond which it is no step of a layer; random inputs that are tried; what results may be apart.
_MOST_NODES, _DRAWS, _ERROR = 200, 3, 1e-4


class Walk(Protocol):
    """What writing out needs of the walk over the graph."""

    known: dict[str, Known]
    nodes: list[Node]
    opsets: Mapping[str, int]
    unread: frozenset[str]

    @property
    def fresh(self) -> Fresh:
        """Gives names that nothing has."""
        ...

    def constants(self, graph: Graph, names: Mapping[str, str]) -> None:
        """Take a graph's constants, by their names here."""
        ...

    def suggest(self, names: Iterable[str]) -> str:
        """The options that make constants of what these tensors depend on."""
        ...


def constant(walk: Walk, wish: str, value: Array) -> str:
    """A constant of the graph that is made."""
    name = walk.fresh(wish)
    walk.known[name] = Known(value.dtype, value.shape, value)
    return name


def recurrent_of(node: Node, rounds: Sequence[Round], ends: Sequence[Node], walk: Walk) -> list[Node] | None:
    """The nodes of the recurrent layer that the loop `node` is; None where it is none.

    `rounds` are its rounds, at the end of the nodes of `walk`, and `ends` the nodes that make its results of them.
    """
    if len(rounds) < 2:
        return None
    bounds = [turn.start for turn in rounds] + [len(walk.nodes)]
    parts = [walk.nodes[a:b] for a, b in pairwise(bounds)]
    loop = Unrolled(node, rounds, parts, ends, walk.known, walk.opsets)
    lists = lists_of(loop)
    states = [place for place in _states(loop) if place not in lists]
    if len(parts[1]) > _MOST_NODES or not 1 <= len(states) <= 2:
        return None
    try:
        xs = [_read_outside(part, turn.changing, walk.known) for part, turn in zip(parts, rounds, strict=True)]
        if not xs[1] or len({len(names) for names in xs}) > 1:
            return None
        sequence = _sequence(loop, xs)
        before = [rounds[1].before[k] for k in states]
        step = Step(_without_moves(loop, xs[1], lists), xs[1], before, walk.known, walk.opsets)
        for cell in cells_of(step):
            made = _written(loop, cell, states, sequence, lists, walk)
            if _same(loop, made, walk):
                return made
    except HwflowError:  # what cannot be evaluated is no layer
        return None
    return None


def _states(loop: Unrolled) -> list[int]:
    """The places of the carried values that are computed from data, each once."""
    last, found = loop.rounds[-1], dict[str, int]()
    for place, (name, before) in enumerate(zip(last.after, last.before, strict=True)):
        if name != before and loop.known[name].value is None:
            found.setdefault(loop.rounds[0].after[place], place)
    return list(found.values())


def _read_outside(nodes: Sequence[Node], before: set[str], known: Mapping[str, Known]) -> list[str]:
    """The tensors that moving nodes alone make of what the round reads outside, and that other nodes read."""
    made = {name for node in nodes for name in node.outputs}
    moved, found = set[str](), dict[str, None]()
    for node in nodes:
        dynamic = [name for name in node.inputs if name and known[name].value is None]
        moved.update(name for name in dynamic if name not in made and name not in before)
        if _is_move(node, dynamic, moved):
            moved.update(filter(None, node.outputs))
        else:
            found.update(dict.fromkeys(name for name in dynamic if name in moved))
    return list(found)


def _is_move(node: Node, dynamic: Sequence[str], moved: set[str]) -> bool:
    return not node.domain and node.op_type in MOVING and dynamic == [node.inputs[0]] and node.inputs[0] in moved


def _without_moves(loop: Unrolled, xs: Sequence[str], lists: Lists) -> list[Node]:
    """The nodes of the second round that its functions and results depend on, from `xs` on."""
    carried = [name for place, name in enumerate(loop.rounds[1].after) if place not in lists]
    needed, nodes = {*carried, *loop.rounds[1].rows}, list[Node]()
    for node in reversed(loop.nodes[1]):
        if needed.intersection(node.outputs) and not set(node.outputs).intersection(xs):
            nodes.insert(0, node)
            needed.update(node.inputs)
    return nodes


@dataclass(frozen=True)
class _Part:
    """`places` [rounds, elements] of the flat tensor `source`."""

    source: str
    places: Array


def _sequence(loop: Unrolled, xs: Sequence[Sequence[str]]) -> list[_Part]:
    """The sequence that the rounds read, side by side."""
    parts = list[_Part]()
    for number in range(len(xs[0])):
        traced = [_traced(loop, nodes, names[number]) for nodes, names in zip(loop.nodes, xs, strict=True)]
        if len({source for source, _ in traced}) > 1:
            raise HwflowError("the rounds must read one tensor each time")
        part = _Part(traced[0][0], np.stack([places for _, places in traced]))
        if parts and parts[-1].source == part.source:
            parts[-1] = _Part(part.source, np.concatenate([parts[-1].places, part.places], axis=1))
        else:
            parts.append(part)
    return parts


def _traced(loop: Unrolled, nodes: Sequence[Node], name: str) -> tuple[str, Array]:
    """The tensor outside of which `name` is made, and the places of its elements."""
    makers, way = {output: node for node in nodes for output in node.outputs}, list[Node]()
    source = name
    while source in makers:
        way.insert(0, makers[source])
        source = makers[source].inputs[0]
    shape = loop.known[source].shape
    numbers = np.arange(int(np.prod(shape))).reshape(shape)
    if not way:
        return source, numbers.ravel()
    constants = {key: array for node in way for key in node.inputs[1:]
                 if key and (array := loop.known[key].value) is not None}
    moved = evaluate_nodes(way, {source: numbers}, [name], loop.opsets, constants)[name]
    return source, np.asarray(moved, np.int64).ravel()


def _written(loop: Unrolled, cell: Cell, states: Sequence[int], sequence: Sequence[_Part], lists: Lists, walk: Walk
             ) -> list[Node]:
    """The recurrent node, what brings its sequence together, and the results of the loop."""
    write = _Writer(loop, walk)
    x = [write.steps(part) for part in sequence]
    joined = x[0] if len(x) == 1 else write.emit("Concat", *x, wish="sequence", axis=2)
    dtype = walk.known[loop.rounds[1].after[states[0]]].dtype
    weights = [constant(walk, f"{write.base}/{name}", array.astype(dtype))
               for name, array in (("W", cell.w), ("R", cell.r), ("B", cell.b))]
    initial = [write.initial(loop.rounds[0].before[states[place]], cell.hidden) for place in cell.states]
    inputs = [joined, *weights, "", *initial]
    while not inputs[-1]:
        inputs.pop()
    named = [walk.fresh(f"{write.base}/{name}") for name in ("Y", "Y_h", "Y_c")[: 1 + len(cell.states)]]
    layer = len(write.nodes)
    kept = {states[place]: name for place, name in zip(cell.states, named[1:], strict=True)}
    for place, output in enumerate(loop.node.outputs):
        if output in loop.results and place in lists:
            places = places_in(loop, lists[place], place, states[cell.states[0]])
            write.listed(places, output, named[0], len(loop.rounds) * cell.hidden)
        elif output in loop.results:
            write.result(place, output, kept, named[0], cell.hidden)
    read = {name for node in write.nodes[layer:] for name in node.inputs}
    outputs = [name if name in read else "" for name in named]
    while outputs and not outputs[-1]:
        outputs.pop()
    write.nodes.insert(layer, Node(cell.op, tuple(inputs), tuple(outputs), cell.attributes, name=write.base))
    return write.nodes


class _Writer:
    """Makes the nodes around a recurrent node."""

    def __init__(self, loop: Unrolled, walk: Walk) -> None:
        self.loop, self.walk, self.nodes = loop, walk, list[Node]()
        self.base = loop.node.name or next(filter(None, loop.node.outputs))

    def emit(self, op: str, *inputs: str, wish: str = "", output: str = "", **attributes: Attribute) -> str:
        name = output or self.walk.fresh(f"{self.base}/{wish}")
        self.nodes.append(Node(op, inputs, (name,), attributes, name=name))
        return name

    def reshaped(self, name: str, sizes: Sequence[int], output: str = "") -> str:
        """The tensor in another shape."""
        shape = constant(self.walk, f"{self.base}/shape", np.array(sizes, np.int64))
        return self.emit("Reshape", name, shape, wish="reshaped", output=output)

    def steps(self, part: _Part) -> str:
        """The part of the sequence [rounds, 1, elements]."""
        size = int(np.prod(self.walk.known[part.source].shape))
        sizes = (len(part.places), 1, part.places.shape[1])
        if np.array_equal(part.places.ravel(), np.arange(size)):
            return self.reshaped(part.source, sizes)
        places = constant(self.walk, f"{self.base}/places", part.places.ravel())
        return self.reshaped(self.emit("Gather", self.reshaped(part.source, (size,)), places, wish="chosen", axis=0),
                             sizes)

    def listed(self, places: Array, output: str, y: str, size: int) -> None:
        """The elements `places` of the states of all rounds, which are `size`."""
        flat = self.reshaped(y, (-1,))
        if not np.array_equal(places.ravel(), np.arange(places.size)) or places.size < size:
            chosen = constant(self.walk, f"{self.base}/places", places.ravel())
            flat = self.emit("Gather", flat, chosen, wish="chosen", axis=0)
        self.reshaped(flat, places.shape, output)

    def initial(self, name: str, hidden: int) -> str:
        """The initial state; empty where it is zero."""
        value = self.walk.known[name].value
        return "" if value is not None and not value.any() else self.reshaped(name, (1, 1, hidden))

    def result(self, place: int, output: str, kept: Mapping[int, str], y: str, hidden: int) -> None:
        """One result of the loop."""
        rounds, first = self.loop.rounds, self.loop.rounds[0]
        if place < len(first.after):
            same = [k for k in kept if rounds[-1].after[k] == rounds[-1].after[place]]
            if same:
                self.reshaped(kept[same[0]], self.walk.known[rounds[-1].after[place]].shape, output)
                return
            self.nodes.append(next(node for node in self.loop.ends if node.outputs[0] == output))
            return
        shape = self.walk.known[first.rows[place - len(first.after)]].shape
        end = next(node for node in self.loop.ends if node.outputs[0] == output)
        axis = end.attributes.get("axis", 0)
        rows = (len(rounds), *shape)
        assert isinstance(axis, int)
        if axis % len(rows) == 0:
            self.reshaped(y, rows, output)
            return
        order = list(range(1, len(rows)))
        order.insert(axis % len(rows), 0)
        self.emit("Transpose", self.reshaped(y, rows), output=output, perm=tuple(order))


def _same(loop: Unrolled, made: Sequence[Node], walk: Walk) -> bool:
    """Whether `made` gives what the loop gives, on random inputs."""
    unrolled = [*(node for part in loop.nodes for node in part), *loop.ends]
    outside = [name for name in _free(unrolled) if walk.known[name].value is None]
    if any(name not in outside and walk.known[name].value is None for name in _free(made)):
        return False
    rng = np.random.default_rng(1)
    for _ in range(_DRAWS):
        fed = {name: rng.standard_normal(walk.known[name].shape).astype(walk.known[name].dtype) for name in outside}
        expected, found = (_evaluated(nodes, fed, loop.results, walk) for nodes in (unrolled, made))
        for a, b in zip(expected, found, strict=True):
            if a.shape != b.shape or not np.abs(a - b).max() <= _ERROR * max(np.abs(a).max(), 1e-3):
                return False
    return True


def _evaluated(nodes: Sequence[Node], fed: Mapping[str, Array], results: Sequence[str], walk: Walk) -> list[Floats]:
    constants = {name: array for name in _free(nodes) if name not in fed and (array := walk.known[name].value)
                 is not None}
    computed = evaluate_nodes(nodes, fed, results, walk.opsets, constants)
    return [np.asarray(computed[name], np.float64) for name in results]


def _free(nodes: Sequence[Node]) -> list[str]:
    """What the nodes read and do not make."""
    made = {name for node in nodes for name in node.outputs}
    return list(dict.fromkeys(name for node in nodes for name in node.inputs if name and name not in made))
