"""Sizes that suit a model whose inputs leave some open: for messages, and to look at such a model at all.

The sizes are tried by inference.  That a model accepts them says nothing about what it was trained on.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain

from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import Unsupported
from hwflow.onnx.model import Array, Dim, Graph, TensorType, Value, size_name
from hwflow.onnx.ops.base import Known
from hwflow.onnx.run.operands import describe

Shapes = Mapping[str, tuple[int, ...]]

#: Sizes that pictures usually have come first, then every other one up to the last number.
USUAL, LAST = (32, 64, 96, 128, 224, 256, 28, 299, 384, 416, 512, 640), 512

#: After so many seconds no further size is tried.
SECONDS = 3.0


def shapes_of_rows(graph: Graph, known: Shapes | None, rows: Mapping[str, Array] | None) -> Shapes:
    """`known`, and the shapes of the other inputs that leave a size open and of which there are rows, [n, *shape]."""
    shapes, rows = dict(known or {}), rows or {}
    for value in graph.inputs:
        if value.name in shapes or value.name not in rows or value.tensor is None:
            continue
        stated, row = value.tensor.shape, rows[value.name].shape[1:]
        fits = stated is None or (len(stated) == len(row) and all(
            not isinstance(dim, int) or dim == size for dim, size in zip(stated, row, strict=True)))
        if fits and (stated is None or not all(isinstance(dim, int) for dim in stated)):
            shapes[value.name] = row
    return shapes


def suiting_shapes(graph: Graph, stated: Shapes, suits: Callable[[Shapes], bool]) -> Shapes | None:
    """Shapes for the inputs of `graph` that `stated` leaves open; None where no size was found that `suits`.

    All open axes but batch and channels get the same size.  `suits` gets these shapes and those of `stated`.
    """
    started = time.monotonic()
    for size in chain(USUAL, (size for size in range(1, LAST + 1) if size not in USUAL)):
        for shapes in with_size(graph, stated, size):
            if suits({**stated, **shapes}):
                return shapes
            if time.monotonic() - started > SECONDS:
                return None
    return None


def with_size(graph: Graph, stated: Shapes, size: int) -> Iterator[dict[str, tuple[int, ...]]]:
    """Shapes of the open inputs where their open axes have `size`, the likeliest number of channels first."""
    known = dict.fromkeys(count for value in graph.inputs if (count := _channels(value, graph)) is not None)
    seen: list[dict[str, tuple[int, ...]]] = [{}]
    for channels in (*known, None) if known else (None, 3, 1):
        shapes = _shapes(graph, stated, size, channels)
        if shapes not in seen:
            seen.append(shapes)
            yield shapes


def _shapes(graph: Graph, known: Shapes, size: int, channels: int | None) -> dict[str, tuple[int, ...]]:
    """`channels` None gives an open axis of channels the size of the others."""
    shapes: dict[str, tuple[int, ...]] = {}
    symbols: dict[str, int] = {}

    def learn(stated: tuple[Dim, ...], sizes: tuple[int, ...]) -> None:
        for dim, number in zip(stated, sizes, strict=False):
            if (name := size_name(dim)) is not None:
                symbols.setdefault(name, number)

    for value in graph.inputs:
        if value.name in known and value.tensor is not None:
            learn(value.tensor.shape or (), known[value.name])
    for value in graph.inputs:
        if value.name in known or value.tensor is None:
            continue
        stated = value.tensor.shape if value.tensor.shape is not None else _open_axes(value, graph)
        dims = [dim if isinstance(dim, int) and dim >= 0 else symbols.get(size_name(dim) or "") for dim in stated]
        for axis in batch_axes(stated):
            dims[axis] = 1 if dims[axis] is None else dims[axis]
        if value.tensor.shape is not None and None not in dims:
            continue
        if channels is not None and len(dims) > 2 and dims[1] is None:
            dims[1] = channels
        shapes[value.name] = tuple(size if dim is None else dim for dim in dims)
        learn(stated, shapes[value.name])
    return shapes


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
    """The sizes that the Conv that reads the input asks for."""
    weights = _weights(value, graph)
    if weights is None or weights[0] != "Conv" or len(weights[1]) < 2:
        return None
    return weights[1][1] * weights[2]


def _weights(value: Value, graph: Graph) -> tuple[str, tuple[int, ...], int] | None:
    """Operator, shape of the constant weights and groups of the first product that reads the input."""
    for node in graph.nodes:
        if node.op_type in ("Conv", "Gemm") and not node.domain and node.inputs[:1] == (value.name,):
            array = graph.initializers.get(node.input(1))
            group = node.attributes.get("group", 1)
            if array is not None:
                return node.op_type, array.shape, group if isinstance(group, int) else 1
    return None


def fixed_inputs(
    graph: Graph, shapes: Shapes, suiting: Callable[[], Shapes | None] = lambda: None
) -> tuple[tuple[Value, ...], tuple[str, ...]]:
    """The inputs with static shapes, and what was decided on the way, one sentence each.

    `suiting` gives shapes of the open inputs that the message for the user may name.
    """
    symbols = sizes_given(graph, shapes)
    for value in graph.inputs:
        if value.tensor is None:
            raise Unsupported(f"input '{value.name}' must be a tensor, not another kind", "hardware takes tensors only")
    notes: list[str] = []
    fixed = tuple(_fixed_input(value, shapes.get(value.name), symbols, notes, suiting, _longer(value, graph))
                  for value in graph.inputs)
    return fixed, tuple(notes)


def sizes_given(graph: Graph, shapes: Shapes) -> dict[str, int]:
    """Sizes of open dims by name, from the shapes of inputs.  Raises HwflowError for shapes that do not fit."""
    known = {value.name for value in graph.inputs}
    for name in shapes:
        if name not in known:
            listed = ", ".join(f"'{n}'" for n in sorted(known)) or "none"
            raise HwflowError(f"--input-shape must name an input of the model ({listed}), not '{name}'")
    symbols: dict[str, int] = {}
    for value in graph.inputs:
        if value.name in shapes and value.tensor is not None:
            _bind_symbols(value, tuple(shapes[value.name]), symbols)
    return symbols


def _bind_symbols(value: Value, sizes: tuple[int, ...], symbols: dict[str, int]) -> None:
    """Compare a given shape with the file's, and learn what the names of its dims stand for."""
    assert value.tensor is not None  # sizes_given
    stated = value.tensor.shape if value.tensor.shape is not None else (None,) * len(sizes)
    fits = len(stated) == len(sizes) and all(size > 0 for size in sizes)
    for dim, size in zip(stated, sizes, strict=False):
        name = size_name(dim)
        expected = dim if name is None else symbols.setdefault(name, size)
        fits = fits and (not isinstance(expected, int) or expected == size)
    if not fits:
        raise HwflowError(
            f"--input-shape of '{value.name}' must fit the model's {describe(value.tensor.dtype, value.tensor.shape)}, "
            f"not be {','.join(map(str, sizes))}"
        )


def _fixed_input(
    value: Value, chosen: tuple[int, ...] | None, symbols: dict[str, int], notes: list[str],
    suiting: Callable[[], Shapes | None], longer: str,
) -> Value:  # fmt: skip
    assert value.tensor is not None  # fixed_inputs
    stated = value.tensor.shape
    if chosen is not None:
        return Value(value.name, TensorType(value.tensor.dtype, tuple(chosen)))
    dims = [dim if isinstance(dim, int) else symbols.get(size_name(dim) or "") for dim in stated or ()]
    open_batches = [axis for axis in batch_axes(stated or ()) if dims[axis] is None]
    if open_batches:
        for axis in open_batches:
            dims[axis] = 1
        if None not in dims:
            notes.append(f"input '{value.name}': the open batch axis is fixed to 1")
    if stated is None or None in dims:
        suited = suiting()
        example = (1, 3, 32, 32) if stated is None else tuple(32 if d is None else d for d in dims)
        guess = "" if suited else "; that is a guess, and no size that was tried suits the model"
        named = suited or {value.name: example}
        options = (f"--input-shape {name}={','.join(map(str, sizes))}" for name, sizes in named.items())
        given = f"give it with {' '.join(options)}{guess}"
        problem = f"the shape of input '{value.name}' must be known, not {describe(value.tensor.dtype, stated)}"
        if longer:
            raise HwflowError(f"{problem}, and it is a cache that grows: '{longer}' has a row more",
                              f"{_STATIC_CACHE}; for a single length of the past {given}")
        raise HwflowError(problem, given)
    return Value(value.name, TensorType(value.tensor.dtype, tuple(dims)))


_STATIC_CACHE = (
    "export the model with a static cache: one of constant size, and a position as an input that says which row is "
    "written (StaticCache of Hugging Face; docs/language-model.md)"
)


def _longer(value: Value, graph: Graph) -> str:
    """The output that is the input `value` with more rows along an axis that is open; "" where none is."""
    stated = () if value.tensor is None else value.tensor.shape or ()
    outputs = {output.name for output in graph.outputs}
    for node in graph.nodes:
        axis = node.attributes.get("axis")
        if (node.op_type == "Concat" and value.name in node.inputs and outputs.intersection(node.outputs)
                and isinstance(axis, int) and -len(stated) <= axis < len(stated)
                and not isinstance(stated[axis], int)):
            return node.outputs[0]
    return ""


def contradictions(graph: Graph, known: Mapping[str, Known]) -> tuple[str, ...]:
    """Where the file states other types than its operators give; the operators are right."""
    claims = {**graph.types, **{v.name: v.type for v in graph.outputs}}
    stated = {name: claim for name, claim in claims.items() if isinstance(claim, TensorType)}
    notes = []
    for name, claim in stated.items():
        type_ = known.get(name)
        if type_ is not None and not _agrees(claim, type_):
            notes.append(
                f"'{name}' is {describe(type_.dtype, type_.shape)}, not {describe(claim.dtype, claim.shape)} "
                f"as the file says"
            )
    return tuple(notes)


def _agrees(claim: TensorType, known: Known) -> bool:
    if claim.dtype != known.dtype:
        return False
    if claim.shape is None:
        return True
    return len(claim.shape) == len(known.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(claim.shape, known.shape, strict=True)
    )
