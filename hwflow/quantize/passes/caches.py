"""Caches whose rows are written at a computed place, and what such a place decides besides.

    ScatterND, ScatterElements, Where, layout   ─▶  TensorScatter(cache, row, number)
    anything of a number alone                  ─▶  Gather(table, number)
    Where(hidden, -inf, scores) -> Softmax      ─▶  Add(scores, Gather(table, number)) -> Softmax

What a node does is seen by numbers that are sent through it, once for each place that there is.  A number is an integer
tensor with one element that writes a row of a cache: it has as many values as the cache has rows.  What only such a
number decides, masks and rotations, is computed for each of its values, and is a table from then on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate, infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node, TensorType, Value
from hwflow.onnx.operators import LAYOUT, NEVER_ON_HOST, QUANTIZERS
from hwflow.quantize.graphs import (
    Additions,
    ancestors,
    attribute,
    consumers,
    dynamic_inputs,
    is_embedding,
    leading_to,
    producers,
    shape_of,
)
from hwflow.quantize.passes.computed_masks import HIDDEN
from hwflow.quantize.passes.normalise import in_opset

#: The operators that put elements at places that are computed, or choose between two tensors.
_WRITERS = frozenset({"ScatterND", "ScatterElements", "Scatter", "Where"})
#: What only brings a number into another shape or type.
_SAME_NUMBER = LAYOUT | {"Cast", "Expand", "Identity", "Concat", "Tile"}
#: The operator set that has TensorScatter.
_SINCE = 24
#: Elements of the largest table that is computed, and of all results of a node that is looked through.
_LARGEST_TABLE, _MOST_WORK = 1 << 20, 1 << 28


def caches_to_rows(model: Model) -> Model:
    """Write what replaces a row as TensorScatter, and what its number decides as rows of tables."""
    model = _with_rows_written(model)
    makers, numbers = producers(model.graph), dict[str, tuple[str, int]]()
    for node in model.graph.nodes:
        cache = shape_of(model.graph, node.inputs[0]) if node.op_type == "TensorScatter" and node.input(2) else None
        if cache is not None:
            rows = cache[attribute(node, "axis", -2)]
            number = _root(model, makers, node.inputs[2], rows)
            numbers.setdefault(number, (node.inputs[2], rows))
    for number, (place, rows) in numbers.items():
        model = _with_tables(model, number, place, rows)
    return model


def _root(model: Model, makers: Mapping[str, Node], place: str, rows: int) -> str:
    """The first integer that is what `place` is, wherever that is from 0 to `rows` - 1."""
    number = place
    while number in makers:
        sources = {_only_source(model.graph, name) for name in dynamic_inputs(makers[number], model.graph)}
        source = sources.pop() if len(sources) == 1 else None
        if source is None:
            return number
        traced = _Traced(model, {}, source, number)
        same = all(np.array_equal(traced.at(k).ravel(), [k]) for k in range(rows))
        if not same:
            return number
        number = source
    return number


def _number_of(graph: Graph, makers: Mapping[str, Node], name: str) -> str:
    """The integer with one element that the tensor `name` has in another shape; empty where there is none."""
    while name in makers and makers[name].op_type in _SAME_NUMBER and not makers[name].domain:
        before = set(dynamic_inputs(makers[name], graph))
        if len(before) != 1 or any(value.dtype.kind == "f" for value in _constants(makers[name], graph)):
            break
        (name,) = before
    kind, shape = graph.tensor_type(name), shape_of(graph, name)
    one = shape is not None and int(np.prod(shape)) == 1
    return name if one and kind is not None and kind.dtype.kind in "iu" else ""


def _constants(node: Node, graph: Graph) -> Iterator[Array]:
    return (graph.initializers[name] for name in node.inputs if name in graph.initializers)


# Rows that are written.


@dataclass(frozen=True)
class _Write:
    """`result` is `cache`, but along `axis` at the place that the integer `number` says it is `row`.

    `order` are the numbers of the elements of the tensor `row`, in the shape that the row has in the cache.  `wraps`:
    -1 is the last place.  A place that there is not is an error in hwflow, even where `result` is `cache` then.
    """

    cache: str
    row: str
    number: str
    result: str
    axis: int
    order: IntArray
    wraps: bool


def _with_rows_written(model: Model) -> Model:
    """Every write of one row as a TensorScatter."""
    graph = model.graph
    makers, readers = producers(graph), consumers(graph)
    writes = dict[str, _Write]()
    for node in graph.nodes:
        for write in _candidates(model, makers, readers, node) if node.op_type in _WRITERS and not node.domain else ():
            writes[write.result] = write
            break
    if not writes:
        return model
    added, places = Additions(graph), dict[tuple[str, int, bool], str]()
    for node in graph.nodes:
        if node.outputs[0] in writes:
            _emit_write(added, writes[node.outputs[0]], places)
        else:
            added.nodes.append(node)
    nodes = leading_to(added.nodes, [value.name for value in graph.outputs])
    added.nodes[:] = nodes
    written = added.into(model)
    newer = in_opset(model, _SINCE) if model.opsets.get("", 0) < _SINCE else model
    if newer is not model:  # the nodes as that set writes them; writers are the same there
        return _with_rows_written(newer)
    return simplify(infer(written))


def _candidates(model: Model, makers: Mapping[str, Node], readers: Mapping[str, list[Node]], node: Node
                ) -> Iterator[_Write]:
    """The writes of a row that `node` may be, with layout around it first."""
    graph = model.graph
    dynamic = dynamic_inputs(node, graph)
    shape = shape_of(graph, node.outputs[0])
    places = [name for name in dynamic if (kind := graph.tensor_type(name)) is not None and kind.dtype.kind in "biu"]
    reals = [name for name in dynamic if name not in places]
    if shape is None or len(reals) != 2 or not places:
        return
    numbers = {_only_source(graph, name) for name in places}
    if len(numbers) != 1 or None in numbers:
        return
    (number,) = numbers
    assert number is not None
    results = [node.outputs[0]]
    while len(after := readers.get(results[-1], [])) == 1 and after[0].op_type in LAYOUT:
        results.append(after[0].outputs[0])
    for cache, row in (reals, reals[::-1]):
        if shape_of(graph, cache) != shape:
            continue
        roots = [cache]
        while roots[-1] in makers and makers[roots[-1]].op_type in LAYOUT:
            roots.append(makers[roots[-1]].inputs[0])
        for root in reversed(roots):
            for result in reversed(results):
                write = _write(model, root, row, number, result)
                if write is not None:
                    yield write


def _only_source(graph: Graph, name: str) -> str | None:
    """The number that alone decides the tensor `name`; None where there is none."""
    makers, todo, found = producers(graph), [name], set[str]()
    while todo:
        tensor = todo.pop()
        number = _number_of(graph, makers, tensor)
        if number:
            found.add(number)
        elif tensor not in makers or makers[tensor].op_type in NEVER_ON_HOST or makers[tensor].domain:
            return None
        else:
            todo += dynamic_inputs(makers[tensor], graph)
    return found.pop() if len(found) == 1 else None


def _write(model: Model, cache: str, row: str, number: str, result: str) -> _Write | None:
    """What the nodes from these three tensors to `result` do, where it is a write of one row; else None."""
    graph = model.graph
    shape, small = shape_of(graph, cache), shape_of(graph, row)
    if shape is None or small is None or shape_of(graph, result) != shape or not shape:
        return None
    size, count = int(np.prod(shape)), int(np.prod(small))
    old, new = np.arange(1, size + 1, dtype=np.float32).reshape(shape), -np.arange(1, count + 1, dtype=np.float32)
    traced = _Traced(model, {cache: old, row: new.reshape(small)}, number, result)
    try:
        first = traced.at(0).astype(np.float64)
    except HwflowError:  # there is no place 0
        return None
    axis = next((k for k in range(len(shape)) if np.array_equal(first < 0, _at(shape, k, 0))), None)
    if axis is None or size * shape[axis] > _MOST_WORK or size >= 1 << 24:
        return None
    own = np.take(first, [0], axis)
    for place in range(shape[axis]):
        if not np.array_equal(traced.at(place), np.where(_at(shape, axis, place), own, old)):
            return None
    last = np.where(_at(shape, axis, shape[axis] - 1), own, old)
    return _Write(cache, row, number, result, axis, (-own - 1).astype(np.int64), traced.gives(-1, last))


def _at(shape: tuple[int, ...], axis: int, place: int) -> Array:
    """True for the elements at `place` along `axis`."""
    found: Array = np.indices(shape, sparse=True)[axis] == place
    return np.broadcast_to(found, shape)


class _Traced:
    """A part of a model from fixed tensors and one number to `results`."""

    def __init__(self, model: Model, feeds: Mapping[str, Array], number: str, *results: str) -> None:
        graph = model.graph
        kind = graph.tensor_type(number)
        assert kind is not None
        self.number, self.dtype, self.shape = number, kind.dtype, shape_of(graph, number) or ()
        self.feeds, self.results = feeds, results
        inputs = tuple(Value(name, TensorType(array.dtype, array.shape)) for name, array in feeds.items())
        cut = replace(graph, nodes=tuple(node for node in graph.nodes if not {number, *feeds} & set(node.outputs)))
        outputs = tuple(Value(name, None) for name in results)
        part = Graph("part", tuple(ancestors(cut, results)), (*inputs, Value(number, kind)), outputs,
                     graph.initializers)
        self.model = Model(part, model.ir_version, model.opsets)

    def all_at(self, place: int) -> Mapping[str, Array]:
        return evaluate(self.model, {**self.feeds, self.number: np.full(self.shape, place, self.dtype)})

    def at(self, place: int) -> Array:
        result: Array = self.all_at(place)[self.results[0]]
        return result

    def gives(self, place: int, expected: Array) -> bool:
        """Whether the first result is `expected` there, and not an error."""
        try:
            return np.array_equal(self.at(place), expected)
        except HwflowError:
            return False


def _emit_write(added: Additions, write: _Write, places: dict[tuple[str, int, bool], str]) -> None:
    """The TensorScatter, in a batch of its own where the cache has none; `places` has what each number is called there.
    """
    base, shape = write.result, shape_of(added.graph, write.cache)
    assert shape is not None
    batched = write.axis > 0 and shape[0] == 1
    row_shape = (*(() if batched else (1,)), *write.order.shape)
    row, flat = write.row, write.order.ravel()
    if not np.array_equal(flat, np.arange(flat.size)) or shape_of(added.graph, row) != row_shape:
        if not np.array_equal(flat, np.arange(flat.size)):
            row = added.reshaped(row, (-1,), f"{base}.elements")
            row = added.emit("Gather", row, added.int64(f"{base}.order", flat), wish=f"{base}.in_order", axis=0)
        row = added.reshaped(row, row_shape, f"{base}.row")
    cache = write.cache if batched else added.reshaped(write.cache, (1, *shape), f"{base}.old")
    rows = shape[write.axis]
    number = places.setdefault((write.number, rows, write.wraps), "") or _place(added, write, rows)
    places[write.number, rows, write.wraps] = number
    axis = write.axis + (not batched)
    output = "" if not batched else write.result
    made = added.emit("TensorScatter", cache, row, number, wish=f"{base}.new", output=output, axis=axis)
    if not batched:
        added.reshaped(made, shape, base, output=write.result)


def _place(added: Additions, write: _Write, rows: int) -> str:
    """The number as int64 [1] from 0 to `rows` - 1; the host says where it is another."""
    base = write.number
    name = added.emit("Cast", added.reshaped(base, (1,), f"{base}.flat"), wish=f"{base}.int64", to=7)
    if not write.wraps:
        below = added.emit("Less", name, added.int64(f"{base}.zero", 0), wish=f"{base}.below")
        name = added.emit("Where", below, added.int64(f"{base}.size", rows), name, wish=f"{base}.inside")
    every = added.int64(f"{base}.places", np.arange(rows))
    return added.emit("Gather", every, name, wish=f"{base}.place", axis=0)


# Tables of what a number decides.


def _with_tables(model: Model, number: str, place: str, rows: int) -> Model:
    """What only `number`, from 0 to `rows` - 1, decides and something else reads, as rows of tables.

    `place` is the number as int64 [1].
    """
    graph = model.graph
    decided, readers = _decided(graph, number), consumers(graph)
    outputs = {value.name for value in graph.outputs}
    read = {name: [node for node in readers.get(name, ()) if not decided.issuperset(node.outputs)]
            for name in decided if name != number and name not in outputs}
    makers = producers(graph)
    reals = {name for name, nodes in read.items()
             if nodes and _is_real(graph, name) and not _is_row(graph, makers, name, place)}
    masks = {node.outputs[0]: mask for node in graph.nodes
             if not decided.issuperset(node.outputs) and (mask := _mask(graph, node, decided, readers)) is not None
             and not _is_row(graph, makers, mask.hidden, place)}
    conditions = {name for mask in masks.values() for name in (mask.condition, mask.hidden) if name in decided}
    if not reals and not masks:
        return model
    values = _tables(model, number, rows, [*reals, *conditions])
    written = _Tables(graph, place, values)
    for node in _decided_first(graph, number, place, decided):
        written.write(node, reals, masks)
    written.added.nodes[:] = leading_to(written.added.nodes, outputs)
    return simplify(infer(written.added.into(model)))


def _decided(graph: Graph, number: str) -> set[str]:
    """The tensors that `number` alone decides, itself included."""
    names = {number}
    for node in graph.nodes:
        dynamic = dynamic_inputs(node, graph)
        others = node.op_type in NEVER_ON_HOST | QUANTIZERS or node.domain
        if dynamic and names.issuperset(dynamic) and not others:
            names.update(filter(None, node.outputs))
    return names


def _decided_first(graph: Graph, number: str, place: str, decided: set[str]) -> list[Node]:
    """The nodes in an order in which those that `number` decides follow it at once, `place` and what makes it first."""
    early = [node for node in graph.nodes if decided - {number} >= set(filter(None, node.outputs))]
    first = {id(node) for node in leading_to(early, [place])}
    early.sort(key=lambda node: id(node) not in first)
    others = [node for node in graph.nodes if not any(node is each for each in early)]
    start = next((k + 1 for k, node in enumerate(others) if number in node.outputs), 0)
    return [*others[:start], *early, *others[start:]]


def _is_real(graph: Graph, name: str) -> bool:
    kind = graph.tensor_type(name)
    return kind is not None and kind.dtype.kind == "f"


def _is_row(graph: Graph, makers: Mapping[str, Node], name: str, place: str) -> bool:
    """Whether the tensor `name` is a row of a table that `place` chooses, in whatever shape."""
    while name in makers and makers[name].op_type in LAYOUT:
        name = makers[name].inputs[0]
    return name in makers and is_embedding(makers[name], graph) and makers[name].inputs[1] == place


@dataclass(frozen=True)
class _Mask:
    """Where(`condition`, `hidden`, `scores`), or with both others exchanged; `hidden` + `scores` without condition."""

    condition: str
    hidden: str
    scores: str
    where: bool


def _mask(graph: Graph, node: Node, decided: set[str], readers: Mapping[str, list[Node]]) -> _Mask | None:
    """What `node` hides of the scores of a Softmax; None where it does no such thing."""
    chooses = node.op_type == "Where" and node.inputs[0] in decided
    if node.domain or not (chooses or (node.op_type == "Add" and decided.intersection(node.inputs))):
        return None
    known = [name in graph.initializers or name in decided for name in node.inputs[-2:]]
    after = readers.get(node.outputs[0], [])
    while len(after) == 1 and after[0].op_type in LAYOUT:
        after = readers.get(after[0].outputs[0], [])
    if sum(known) != 1 or not after or any(reader.op_type != "Softmax" for reader in after):
        return None
    hidden, scores = node.inputs[-2:] if known[0] else node.inputs[:-3:-1]
    return _Mask(node.inputs[0] if chooses else "", hidden, scores, known[0])


def _tables(model: Model, number: str, rows: int, names: Iterable[str]) -> dict[str, Array]:
    """For each tensor that `number` decides its values, [rows, *its shape]; without those that are too large."""
    small = [name for name in dict.fromkeys(names)
             if rows * int(np.prod(shape_of(model.graph, name) or ())) <= _LARGEST_TABLE]
    traced = _Traced(model, {}, number, *small)
    found = [traced.all_at(place) for place in range(rows)]
    return {name: np.stack([values[name] for values in found]) for name in small}


class _Tables:
    """Writes rows of the tables `values`, by the names of the tensors that have them, where they are made or hide."""

    def __init__(self, graph: Graph, place: str, values: Mapping[str, Array]) -> None:
        self.graph, self.place, self.values = graph, place, values
        self.added = Additions(graph)
        self._rows: dict[tuple[bytes, int], str] = {}
        #: Scores that hide others, up to the Softmax: they have other values there than the model's.
        self._masked: dict[str, str] = {}

    def write(self, node: Node, reals: set[str], masks: Mapping[str, _Mask]) -> None:
        """`node`, or what takes its place."""
        mask = masks.get(node.outputs[0])
        table = self._hiding(mask) if mask is not None else None
        if mask is not None and table is not None:
            rank = len(shape_of(self.graph, mask.scores) or ())
            shape = (*(1,) * (rank - table.ndim + 1), *table.shape[1:])
            row = self._row(table, shape, f"{node.outputs[0]}.mask")
            masked = self.added.emit("Add", mask.scores, row, wish=f"{node.outputs[0]}.masked")
            self._masked[node.outputs[0]] = masked
            return
        if self._masked.keys() & set(node.inputs):
            node = replace(node, inputs=tuple(self._masked.get(name, name) for name in node.inputs))
            if node.op_type in LAYOUT:
                self._masked[node.outputs[0]] = self.added.new(f"{node.outputs[0]}.masked")
                node = replace(node, outputs=(self._masked[node.outputs[0]],))
        instead = [name for name in node.outputs if name in reals and name in self.values]
        if not instead:
            self.added.nodes.append(node)
            return
        rest = tuple(self.added.new(name) if name in instead else name for name in node.outputs)
        self.added.nodes.append(replace(node, outputs=rest))
        for name in instead:
            self._row(self.values[name], shape_of(self.graph, name) or (), f"{name}.rows", name)

    def _hiding(self, mask: _Mask) -> Array | None:
        """What is added to scores: 0, or far less where they are hidden; None where it is no mask."""
        condition = self.values.get(mask.condition) if mask.condition else np.full((1, 1), mask.where)
        hidden = self.graph.initializers.get(mask.hidden)
        hidden = self.values.get(mask.hidden) if hidden is None else hidden[None]
        if condition is None or hidden is None:
            return None
        rank = max(condition.ndim, hidden.ndim)
        condition, hidden = (x.reshape(len(x), *(1,) * (rank - x.ndim), *x.shape[1:]) for x in (condition, hidden))
        table = np.where(condition == mask.where, hidden, 0)
        hides = bool((table[table != 0] <= HIDDEN).all())
        return np.maximum(table, HIDDEN).astype(np.float32) if hides else None

    def _row(self, table: Array, shape: tuple[int, ...], wish: str, output: str = "") -> str:
        """The row of `table` that the number chooses, as a tensor of `shape`; of equal tables it is read once."""
        flat = np.ascontiguousarray(table.reshape(len(table), -1), np.float32)
        key = (flat.tobytes(), flat.shape[1])
        if key not in self._rows:
            name = self.added.constant(wish, flat)
            self._rows[key] = self.added.emit("Gather", name, self.place, wish=f"{wish}.row", axis=0)
        return self.added.reshaped(self._rows[key], shape, f"{wish}.shaped", output=output)

