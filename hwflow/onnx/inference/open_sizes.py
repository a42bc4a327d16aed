"""Sizes that suit a model whose inputs leave some open: for messages, and to look at such a model at all.

The sizes are tried by inference.  That a model accepts them says nothing about what it was trained on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from hwflow.onnx.model import Array, Dim, Graph, Value, size_name

Shapes = Mapping[str, tuple[int, ...]]

#: Sizes that pictures usually have come first, then every other one up to the last number.
USUAL, LAST = (32, 64, 96, 128, 224, 256, 28, 299, 384, 416, 512, 640), 512

#: After so many seconds no further size is tried.
SECONDS = 3.0


def shapes_of_rows(graph: Graph, given: Shapes | None, rows: Mapping[str, Array] | None) -> Shapes:
    """`given`, and the shapes of the other inputs that leave a size open and of which there are rows, [n, *shape]."""
    found, rows = dict(given or {}), rows or {}
    for value in graph.inputs:
        if value.name in found or value.name not in rows or value.tensor is None:
            continue
        stated, row = value.tensor.shape, rows[value.name].shape[1:]
        fits = stated is None or (len(stated) == len(row) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(stated, row, strict=True)))
        if fits and (stated is None or not all(isinstance(dim, int) for dim in stated)):
            found[value.name] = row
    return found


def suiting_shapes(graph: Graph, given: Shapes, suits: Callable[[Shapes], bool]) -> Shapes | None:
    """Shapes for the inputs of `graph` that `given` leaves open; None where no size was found that `suits`.

    All open axes but batch and channels get the same size.  `suits` gets these shapes and those of `given`.
    """
    started = time.monotonic()
    for size in chain(USUAL, (size for size in range(1, LAST + 1) if size not in USUAL)):
        for shapes in with_size(graph, given, size):
            if suits({**given, **shapes}):
                return shapes
            if time.monotonic() - started > SECONDS:
                return None
    return None


def with_size(graph: Graph, given: Shapes, size: int) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes of the open inputs where their open axes have `size`, the likeliest number of channels first."""
    known = dict.fromkeys(count for value in graph.inputs if (count := _channels(value, graph)) is not None)
    seen: list[dict[str, tuple[int, ...]]] = [{}]
    for channels in (*known, None) if known else (None, 3, 1):
        shapes = _shapes(graph, given, size, channels)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _shapes(graph: Graph, given: Shapes, size: int, channels: int | None) -> dict[str, tuple[int, ...]]:
    """`channels` None gives an open axis of channels the size of the others."""
    found: dict[str, tuple[int, ...]] = {}
    symbols: dict[str, int] = {}

    def learn(stated: tuple[Dim, ...], sizes: tuple[int, ...]) -> None:
        for dim, number in zip(stated, sizes, strict=False):
            if (name := size_name(dim)) is not None:
                symbols.setdefault(name, number)

    for value in graph.inputs:
        if value.name in given and value.tensor is not None:
            learn(value.tensor.shape or (), given[value.name])
    for value in graph.inputs:
        if value.name in given or value.tensor is None:
            continue
        stated = value.tensor.shape if value.tensor.shape is not None else _open_axes(value, graph)
        dims = [dim if isinstance(dim, int) and dim >= 0 else symbols.get(size_name(dim) or "") for dim in stated]
        for axis in batch_axes(stated):
            dims[axis] = 1 if dims[axis] is None else dims[axis]
        if value.tensor.shape is not None and None not in dims:
            continue
        if channels is not None and len(dims) > 2 and dims[1] is None:
            dims[1] = channels
        found[value.name] = tuple(size if dim is None else dim for dim in dims)
        learn(stated, found[value.name])
    return found


def batch_axes(stated: Sequence[Dim]) -> Sequence[int]:
    """Axes that count rows of data: of the first two those whose size is called so, as the second one of a sequence is;
    else the first."""
    names = [(size_name(dim) or "").lower() for dim in stated[:2]]
    return [axis for axis, name in enumerate(names) if "batch" in name or name == "n"] or range(min(1, len(stated)))


def _open_axes(value: Value, graph: Graph) -> tuple[Dim, ...]:
    """For an input of unknown rank: as many axes as its reader asks for, else those of a picture."""
    rank = rank_of_reader(value, graph)
    return (None, 3, None, None) if rank is None else (None,) * rank


def rank_of_reader(value: Value, graph: Graph) -> int | None:
    """The rank that the Conv or Gemm that reads an input asks for; None where there is no such reader."""
    weights = _weights(value, graph)
    if weights is None:
        return None
    return len(weights[1]) if weights[0] == "Conv" else 2


def _channels(value: Value, graph: Graph) -> int | None:
    """What the Conv that reads the input asks for."""
    weights = _weights(value, graph)
    if weights is None or weights[0] != "Conv" or len(weights[1]) < 2:
        return None
    return weights[1][1] * weights[2]


def _weights(value: Value, graph: Graph) -> tuple[str, tuple[int, ...], int] | None:
    """Operator, shape of the constant weights and groups of the first product that reads the input."""
    for node in graph.nodes:
        if node.op_type in ("Conv", "Gemm") and not node.domain and node.inputs[:1] == (value.name,):
            array = graph.initializers.get(node.inputs[1]) if len(node.inputs) > 1 else None
            group = node.attributes.get("group", 1)
            if array is not None:
                return node.op_type, array.shape, group if isinstance(group, int) else 1
    return None
