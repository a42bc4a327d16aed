"""The pass that finds out which element feeds which: what writes and chooses at constant places only moves elements.

ScatterND, ScatterElements and a Where with a constant mask take elements of several tensors, and so do the moving nodes
in front of them.  All of these are run on numbers of elements in place of values; what comes out is a map, whichever
operators wrote it.  Where it puts slices side by side along an axis, it is a Concat of these; any other map is a Gather
of all elements in one row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.layers.formats import IntArray
from hwflow.onnx import evaluate_nodes, infer, simplify
from hwflow.onnx.model import Array, Graph, Model, Node
from hwflow.onnx.operators import LAYOUT, RESIZES
from hwflow.quantize.graphs import Additions, dynamic_inputs, label_of, leading_to, moves, producers, shape_of

#: The positions of the inputs whose elements may come out; of any other node that is the first one.
_DATA: Mapping[str, tuple[int, ...]] = {"ScatterND": (0, 2), "ScatterElements": (0, 2), "Where": (1, 2)}
#: Elements, and nodes, beyond which no map is made.
_ELEMENTS, _NODES = 1 << 20, 500


@dataclass(frozen=True)
class _Piece:
    """A slice of the tensor `source` along an axis, from `start` to before `end`; "": `end` times a constant."""

    source: str
    start: int
    end: int
    value: float = 0.0


@dataclass(frozen=True)
class _Map:
    """The elements of a tensor: `numbers` in its shape, of the elements of `leaves`, each of which begins at `first`.

    From 1 on; below 1 are the constants `values`, counted from the end.
    """

    numbers: IntArray
    leaves: Mapping[str, int]
    sizes: Mapping[str, tuple[int, ...]]
    values: Array

    def leaf_of(self, number: int) -> str:
        """The tensor that an element is of; empty for a constant."""
        return "" if number < 1 else max((first, name) for name, first in self.leaves.items() if first <= number)[1]


def traced_moves(model: Model) -> Model:
    """Elements that are written or chosen at constant places as Concat, Slice, Pad and Gather."""
    graph = model.graph
    if not any(_is_end(node, graph) for node in graph.nodes):
        return model
    makers, added, changed = producers(graph), Additions(graph), False
    for node in graph.nodes:
        mapped = _traced(node, model, makers) if _is_end(node, graph) else None
        if mapped is None:
            added.nodes.append(node)
        else:
            _write(node, mapped, added)
            changed = True
    if not changed:
        return model
    nodes = leading_to(added.nodes, [value.name for value in graph.outputs])
    return simplify(infer(replace(added.into(model), graph=replace(added.into(model).graph, nodes=tuple(nodes)))))


def _is_end(node: Node, graph: Graph) -> bool:
    """Whether a node takes elements of several tensors, at places that constants say."""
    if node.domain or node.op_type not in _DATA or not dynamic_inputs(node, graph):
        return False
    if node.attributes.get("reduction", "none") not in ("none", b"none"):
        return False
    control = [name for k, name in enumerate(node.inputs) if k not in _DATA[node.op_type]]
    if any(name not in graph.initializers for name in control):
        return False
    return node.op_type != "Where" or len(dynamic_inputs(node, graph)) == 2


def _data_of(node: Node, graph: Graph) -> tuple[int, ...] | None:
    """The positions of the inputs of a moving node whose elements may come out; None for other nodes."""
    if _is_end(node, graph):
        return _DATA[node.op_type]
    if node.domain or node.op_type in RESIZES:
        return None
    if node.op_type == "Concat":
        return tuple(range(len(node.inputs)))
    if node.op_type == "Pad" and moves(node, graph):
        return None if node.attributes.get("mode", "constant") != "constant" else (0, 2)
    return (0,) if node.op_type in LAYOUT | {"Identity"} or moves(node, graph) else None


def _traced(end: Node, model: Model, makers: Mapping[str, Node]) -> _Map | None:
    """The map of the result of `end`, from the tensors in front of the moving nodes that lead to it."""
    graph = model.graph
    nodes, leaves, todo, data = list[Node](), dict[str, tuple[int, ...]](), [end.outputs[0]], dict[str, Array]()
    while todo:
        name = todo.pop()
        if name in leaves or name in data or any(name in node.outputs for node in nodes):
            continue
        node = makers.get(name)
        places = None if node is None else _data_of(node, graph)
        if name in graph.initializers:
            data[name] = graph.initializers[name]
        elif node is None or places is None or len(nodes) >= _NODES:
            shape = shape_of(graph, name)
            if shape is None:
                return None
            leaves[name] = shape
        else:
            nodes.append(node)
            todo += [node.inputs[k] for k in places if k < len(node.inputs) and node.inputs[k]]
    sizes = {name: int(np.prod(shape)) for name, shape in leaves.items()}
    if not leaves or sum(sizes.values()) > _ELEMENTS:
        return None
    ordered = [node for node in graph.nodes if any(node is one for one in nodes)]
    return _run(end.outputs[0], ordered, leaves, data, model)


def _run(result: str, nodes: Sequence[Node], leaves: Mapping[str, tuple[int, ...]], data: Mapping[str, Array],
         model: Model) -> _Map:
    """Run the moving `nodes` on numbers: 0 is the zero of a Pad, and constants have numbers below that."""
    graph, first, feeds, values = model.graph, dict[str, int](), dict[str, Array](), [np.zeros(1)]
    count = 1
    for name, shape in leaves.items():
        first[name] = count
        feeds[name] = np.arange(count, count + int(np.prod(shape))).reshape(shape)
        count += int(np.prod(shape))
    count = 1
    for name, array in data.items():
        feeds[name] = -np.arange(count, count + array.size).reshape(array.shape)
        values.append(array.astype(np.float64).ravel())
        count += array.size
    renamed, constants = list[Node](), dict[str, Array]()
    for node in nodes:
        places = _data_of(node, graph) or ()
        inputs = tuple(f"{name}\0" if k in places and name in data else name for k, name in enumerate(node.inputs))
        constants.update({name: graph.initializers[name] for name in inputs if name in graph.initializers})
        renamed.append(replace(node, inputs=inputs))
    fed = {f"{name}\0" if name in data else name: array for name, array in feeds.items()}
    numbers = evaluate_nodes(renamed, fed, [result], model.opsets, constants)[result]
    return _Map(np.asarray(numbers, np.int64), first, dict(leaves), np.concatenate(values))


def _write(node: Node, mapped: _Map, added: Additions) -> None:
    """The nodes that compute what `node` does, of the leaves of its map."""
    shape = mapped.numbers.shape
    for axis in range(len(shape)):
        pieces = _pieces(mapped, axis)
        if pieces is not None:
            _write_pieces(node, pieces, axis, mapped, added)
            return
    _write_row(node, mapped, added)


def _pieces(mapped: _Map, axis: int) -> list[_Piece] | None:
    """The slices along `axis` that stand side by side; None where there is something else."""
    pieces = list[_Piece]()
    grids = {name: np.arange(first, first + int(np.prod(mapped.sizes[name]))).reshape(mapped.sizes[name])
             for name, first in mapped.leaves.items()}
    for part in np.moveaxis(mapped.numbers, axis, 0):
        first = int(part.flat[0])
        name = mapped.leaf_of(first)
        if not name:
            values = mapped.values[-part] if (part < 1).all() else np.arange(2)
            if (values != values.flat[0]).any():
                return None
            piece = _Piece("", 0, 1, float(values.flat[0]))
        else:
            if grids[name].ndim != mapped.numbers.ndim:
                return None
            at = int(np.unravel_index(first - mapped.leaves[name], mapped.sizes[name])[axis])
            if not np.array_equal(grids[name].take(at, axis), part):
                return None
            piece = _Piece(name, at, at + 1)
        last = pieces[-1] if pieces else None
        if last and not last.source and not name and last.value != piece.value:
            return None
        if last and last.source == piece.source and last.value == piece.value and (not name or last.end == piece.start):
            pieces[-1] = replace(last, end=last.end + 1)
        else:
            pieces.append(piece)
    return pieces if len(pieces) <= 2 * len(mapped.leaves) + 2 and any(piece.source for piece in pieces) else None


def _write_pieces(node: Node, pieces: Sequence[_Piece], axis: int, mapped: _Map, added: Additions) -> None:
    """A Concat of slices, and of constants between them."""
    base, shape, parts = label_of(node), mapped.numbers.shape, list[str]()
    for piece in pieces:
        if not piece.source:
            sizes = [*shape[:axis], piece.end, *shape[axis + 1 :]]
            parts.append(added.constant(f"{base}.fill", np.full(sizes, piece.value, _dtype(node, added.graph))))
        elif (piece.start, piece.end) == (0, mapped.sizes[piece.source][axis]):
            parts.append(piece.source)
        else:
            ends = [added.int64(f"{base}.{key}", [value]) for key, value in
                    (("start", piece.start), ("end", piece.end), ("axis", axis))]
            parts.append(added.emit("Slice", piece.source, *ends, wish=f"{base}.slice"))
    if len(parts) == 1:
        added.emit("Identity", parts[0], output=node.outputs[0], name=base)
    else:
        added.emit("Concat", *parts, output=node.outputs[0], name=base, axis=axis)


def _dtype(node: Node, graph: Graph) -> np.dtype[np.generic]:
    """The type of the elements of a result."""
    kind = graph.tensor_type(node.outputs[0])
    return kind.dtype if kind else np.dtype(np.float32)


def _write_row(node: Node, mapped: _Map, added: Additions) -> None:
    """A Gather of all elements in one row; other constants than one are added."""
    base, numbers, shape = label_of(node), mapped.numbers.ravel(), mapped.numbers.shape
    used = [name for name, first in mapped.leaves.items()
            if ((numbers >= first) & (numbers < first + int(np.prod(mapped.sizes[name])))).any()]
    dtype = _dtype(node, added.graph)
    fixed = np.where(numbers < 1, mapped.values[-np.minimum(numbers, 0)], 0.0)
    if not used:  # infer makes it an initializer
        added.emit("Constant", output=node.outputs[0], name=base, value=fixed.reshape(shape).astype(dtype))
        return
    rows, at, places = list[str](), 0, np.full(numbers.size, -1)
    for name in used:
        size, first = int(np.prod(mapped.sizes[name])), mapped.leaves[name]
        inside = (numbers >= first) & (numbers < first + size)
        places[inside] = numbers[inside] - first + at
        rows.append(added.reshaped(name, (1, size), f"{base}.reshaped"))
        at += size
    fills = np.unique(fixed[numbers < 1])
    if len(fills):
        rows.append(added.constant(f"{base}.fill", np.full((1, 1), fills[0] if len(fills) == 1 else 0, dtype)))
        places[numbers < 1] = at
    row = rows[0] if len(rows) == 1 else added.emit("Concat", *rows, wish=f"{base}.row", axis=1)
    chosen = added.emit("Gather", row, added.int64(f"{base}.places", places), wish=f"{base}.chosen", axis=1)
    last = node.outputs[0] if len(fills) < 2 else ""
    moved = added.reshaped(chosen, shape, f"{base}.reshaped", last)
    if len(fills) > 1:
        constants = added.constant(f"{base}.constants", fixed.reshape(shape).astype(dtype))
        added.emit("Add", moved, constants, output=node.outputs[0], name=base)
