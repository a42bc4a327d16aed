"""States that no layer has for itself: which input and which output of a model hand a tensor on from frame to frame.

A pair is certain where elements of the old state move into the new one: the output has some of the input's elements,
or the input with something put into it, or it is cut from a row that the input begins; and besides it has what comes of
other inputs.  That is found by numbers that walk through the graph in place of the elements.  A state that is computed
anew from the old one looks like any input and any output; somebody must name it (`--state`), and names that fit are
proposed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Mapping

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.layers.formats import IntArray
from hwflow.onnx.model import Graph, Model, Node, Value
from hwflow.onnx.operators import JOINS, LAYOUT, MOVES
from hwflow.quantize.graphs import ancestors, apply, consumers, dynamic_inputs, moved_indices, moves, shape_of

#: What puts elements into a tensor, its first input, whose other elements stay.
_PUTS = frozenset({"Scatter", "ScatterElements", "ScatterND", "TensorScatter"})

#: Words of a name that say which end of a state it is, and nothing of which state.
_ENDS = frozenset({"in", "out", "input", "output", "new", "old", "next", "prev", "previous", "past", "present", "last",
                   "init", "initial", "updated", "cur", "current"})  # fmt: skip


def require_pair(model: Model, name: str, output: str, of_layer: bool = False) -> None:
    """HwflowError where `--state name=output` can be none: unknown names, unlike shapes, a constant output.

    Of a state that is one of a recurrent layer (`of_layer`) the shape is the layer's matter.
    """
    graph, option = model.graph, f"--state {name}={output} must name"
    ends = {"an input": (name, graph.inputs), "an output": (output, graph.outputs)}
    for what, (wanted, values) in ends.items():
        names = [value.name for value in values]
        if wanted not in names:
            raise HwflowError(f"{option} {what} of the model: {', '.join(names)}")
    if not of_layer:
        _require_alike(graph, name, output, option)
        if not _origins(graph, output):
            raise HwflowError(f"{option} an output that the model computes from its inputs, and '{output}' is constant")


def require_pairs(model: Model, pairs: Mapping[str, str]) -> None:
    """HwflowError where one output is the next value of two states, or where a pair that is known is none."""
    counts = Counter(pairs.values())
    for output in pairs.values():
        if counts[output] > 1:
            both = [other for other in pairs if pairs[other] == output]
            raise HwflowError(
                f"output '{output}' must be the next value of one state, not of {' and '.join(map(repr, both))}",
                "give each state an output of its own",
            )
    if pairs and all(value.name in pairs for value in model.graph.inputs):
        raise HwflowError("an input of the model must be no state, and here all are", "frames come with an input; give "
                          "the model one, or leave out a --state")
    names = {value.name for value in (*model.graph.inputs, *model.graph.outputs)}
    for name, output in pairs.items():
        if name in names and output in names:
            _require_alike(model.graph, name, output, f"state {name}={output} must be")


def _require_alike(graph: Graph, name: str, output: str, what: str) -> None:
    kinds = [graph.tensor_type(end) for end in (name, output)]
    if None in kinds or kinds[0] != kinds[1]:
        stated = " and ".join("no tensor" if kind is None else f"{kind.dtype} {list(kind.shape or ())}"
                              for kind in kinds)  # fmt: skip
        raise HwflowError(f"{what} an input and an output of the same type and shape, not {stated}")


def _origins(graph: Graph, name: str) -> set[str]:
    """The inputs that a tensor depends on."""
    read = {name, *(source for node in ancestors(graph, [name]) for source in node.inputs)}
    return read & {value.name for value in graph.inputs}


def zero_points(model: Model, states: Iterable[str]) -> dict[str, int]:
    """What stands for zero in those of `states` that are integers: the zero point with which they are dequantized."""
    graph, read, points = model.graph, consumers(model.graph), dict[str, int]()
    for state in states:
        kind, todo, seen = graph.tensor_type(state), [state], set[str]()
        while todo and kind is not None and kind.dtype.kind in "iu":
            name = todo.pop()
            for node in read.get(name, []) if name not in seen else ():
                zero = graph.initializers.get(node.input(2))
                if node.op_type == "DequantizeLinear" and zero is not None and zero.size == 1:
                    points.setdefault(state, int(zero.reshape(())))
                elif node.op_type in LAYOUT | MOVES | JOINS:
                    todo += node.outputs
            seen.add(name)
    return points


def found_pairs(model: Model, taken: Mapping[str, str], others: Container[str]) -> dict[str, str]:
    """The states of `model` whose elements move into their next values, or stand in front of what they are cut from:
    inputs with their outputs.

    Those of `taken`, and the inputs `others`, are none.
    """
    graph = model.graph
    candidates = _candidates(graph, taken, others)
    if not candidates:
        return {}
    moved = _Moved(model, candidates)
    cut = _Moved(model, [node.outputs[0] for node in graph.nodes if node.op_type == "Concat" and not node.domain
                         and node.outputs[0] in moved.numbers])  # fmt: skip
    marks: dict[tuple[str, str], tuple[bool, int]] = {}
    for name, outputs in candidates.items():
        for output in outputs:
            own, size = moved.count(output, name), moved.starts[name][1]
            joined = any(moved.count(row, name) == size == cut.count(output, row) for row in cut.starts)
            is_copy = own == size and output not in moved.put
            if (own or joined) and not is_copy and _origins(graph, output) - {name}:
                marks[name, output] = joined, own
    return _best(marks)


def _candidates(graph: Graph, taken: Mapping[str, str], others: Container[str]) -> dict[str, list[str]]:
    """Inputs to the outputs of their type and shape."""
    left = [value for value in graph.outputs if value.name not in set(taken.values())]
    alike = {value.name: [output.name for output in left if _kind(graph, output) == _kind(graph, value)]
             for value in graph.inputs
             if value.name not in taken and value.name not in others and _kind(graph, value) is not None}  # fmt: skip
    return {name: outputs for name, outputs in alike.items() if outputs}


def _kind(graph: Graph, value: Value) -> object:
    kind = graph.tensor_type(value.name)
    return (kind.dtype, kind.shape) if kind is not None and kind.is_static else None


def _best(marks: Mapping[tuple[str, str], tuple[bool, int]]) -> dict[str, str]:
    """The pairs with the best marks; none where two have the same."""
    pairs = dict[str, str]()
    for name, output in marks:
        rivals = [mark for (a, b), mark in marks.items() if (a == name) != (b == output)]
        if all(mark < marks[name, output] for mark in rivals):
            pairs[name] = output
    return pairs


class _Moved:
    """`numbers` of tensors with elements of the tensors `sources`: the number of each element, 0 where another stands.

    `starts` has the first number of each source, and how many it has.  Into `put` something was put.
    """

    def __init__(self, model: Model, sources: Iterable[str]) -> None:
        graph, first = model.graph, 1
        self.numbers, self.starts, self.put = dict[str, IntArray](), dict[str, tuple[int, int]](), set[str]()
        for name in sources:
            shape = shape_of(graph, name) or ()
            size = int(np.prod(shape))
            self.numbers[name], self.starts[name] = np.arange(first, first + size).reshape(shape), (first, size)
            first += size
        for node in graph.nodes:
            if not node.domain and any(name in self.numbers for name in node.inputs):
                behind = _behind(node, model, self.numbers)
                self.numbers.update({name: there for name, there in behind.items() if name not in self.starts})
                if node.op_type in _PUTS or self.put.intersection(node.inputs):
                    self.put.update(behind)

    def count(self, name: str, source: str) -> int:
        """How many elements of the tensor `name` are ones of `source`."""
        there, (first, size) = self.numbers.get(name), self.starts[source]
        return 0 if there is None else int(np.count_nonzero((there >= first) & (there < first + size)))


def _behind(node: Node, model: Model, numbers: Mapping[str, IntArray]) -> dict[str, IntArray]:
    """The numbers of the results of a node that moves elements, or puts some into others; nothing for another node."""
    graph, source = model.graph, node.inputs[0]
    dynamic = dynamic_inputs(node, graph)
    if node.op_type in _PUTS or node.op_type == "Cast":
        return {node.outputs[0]: numbers[source]} if source in numbers else {}
    if moves(node, graph):
        return {name: there + 1 for name, there in
                moved_indices(node, numbers[source] - 1, graph, model.opsets).items()}  # fmt: skip
    if node.op_type not in LAYOUT | JOINS or (node.op_type in LAYOUT and dynamic != (source,)):
        return {}
    read = {name: graph.initializers[name] for name in node.inputs if name in graph.initializers}
    for name in dynamic:
        shape = shape_of(graph, name)
        if name not in numbers and shape is None:
            return {}
        read[name] = numbers[name] if name in numbers else np.zeros(shape or (), np.int64)
    if node.op_type in JOINS:
        read = {name: array if name in numbers else np.zeros(array.shape, np.int64) for name, array in read.items()}
    return {node.outputs[0]: np.asarray(apply(node, model.opsets, read), np.int64)}


def proposals(model: Model, taken: Mapping[str, str], others: Container[str]) -> dict[str, str]:
    """Pairs of inputs and outputs besides those of `taken` and `others` that only names say are states."""
    graph, pairs = model.graph, dict[str, str]()
    for name, outputs in _candidates(graph, taken, others).items():
        stem = _stem(name)
        fitting = [output for output in outputs
                   if stem and _stem(output) == stem and _origins(graph, output) - {name}]  # fmt: skip
        if len(fitting) == 1 and fitting[0] not in pairs.values():
            pairs[name] = fitting[0]
    return pairs


def named_like_states(model: Model) -> tuple[str, ...]:
    """The outputs of `model` that are called like the next value of an input, where shapes and what they depend on
    allow it: of the input's type and shape, or longer along one axis, as a cache that a row was joined to.

    Nothing computes with this; it says which outputs a reader looks at apart from the others.
    """
    graph, inputs = model.graph, {_stem(value.name): value.name for value in model.graph.inputs}
    found = [value.name for value in graph.outputs
             if _stem(value.name) and _grows(graph, inputs.get(_stem(value.name), ""), value.name)]  # fmt: skip
    return tuple(found) if len(found) < len(graph.outputs) else ()


def _grows(graph: Graph, name: str, output: str) -> bool:
    """Whether `output` could be the next value of the input `name`, or that and rows joined to it."""
    old, new = graph.tensor_type(name), graph.tensor_type(output)
    if not name or old is None or new is None or not (old.is_static and new.is_static) or old.dtype != new.dtype:
        return False
    before, after = (kind.shape or () for kind in (old, new))
    changed = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    grows = len(before) == len(after) and len(changed) <= 1 and all(
        isinstance(a, int) and isinstance(b, int) and a < b for a, b in changed)
    return grows and bool(_origins(graph, output) - {name})


def _stem(name: str) -> str:
    """What the names of both ends of a state have in common, if they follow the custom: "h" of h0 and hn, "0.key" of
    past_key_values.0.key and present.0.key; empty where nothing but the ends is said.
    """
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[^A-Za-z0-9]+", "_", name).lower()
    if len(words) <= 3:
        return re.sub(r"(?<=[a-z])_?[0-9ntx]$", "", words)
    words = re.sub(r"key_values|kv", "", words)
    return ".".join(word for word in words.split("_") if word and word not in _ENDS)
