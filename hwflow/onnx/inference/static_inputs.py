"""The interface of a model that shall have static shapes: open dims of its inputs, and what the file states."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import Unsupported
from hwflow.onnx.inference.open_sizes import Shapes, batch_axes
from hwflow.onnx.model import Graph, TensorType, Value, size_name
from hwflow.onnx.ops.base import Known
from hwflow.onnx.run.operands import describe


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
    fixed = tuple(_fixed_input(value, shapes.get(value.name), symbols, notes, suiting) for value in graph.inputs)
    return fixed, tuple(notes)


def sizes_given(graph: Graph, shapes: Shapes) -> dict[str, int]:
    """What the shapes of inputs say of the names of open dims.  Raises HwflowError for shapes that do not fit."""
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


def _bind_symbols(value: Value, given: tuple[int, ...], symbols: dict[str, int]) -> None:
    """Compare a given shape with the file's, and learn what the names of its dims stand for."""
    assert value.tensor is not None  # sizes_given
    stated = value.tensor.shape if value.tensor.shape is not None else (None,) * len(given)
    fits = len(stated) == len(given) and all(size > 0 for size in given)
    for dim, size in zip(stated, given, strict=False):
        name = size_name(dim)
        expected = dim if name is None else symbols.setdefault(name, size)
        fits = fits and (not isinstance(expected, int) or expected == size)
    if not fits:
        raise HwflowError(
            f"--input-shape of '{value.name}' must fit the model's {describe(value.tensor.dtype, value.tensor.shape)}, "
            f"not be {','.join(map(str, given))}"
        )


def _fixed_input(
    value: Value, given: tuple[int, ...] | None, symbols: dict[str, int], notes: list[str],
    suiting: Callable[[], Shapes | None],
) -> Value:  # fmt: skip
    assert value.tensor is not None  # fixed_inputs
    stated = value.tensor.shape
    if given is not None:
        return Value(value.name, TensorType(value.tensor.dtype, tuple(given)))
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
        raise HwflowError(
            f"the shape of input '{value.name}' must be known, not {describe(value.tensor.dtype, stated)}",
            f"give it with {' '.join(options)}{guess}"
        )
    return Value(value.name, TensorType(value.tensor.dtype, tuple(dims)))


def contradictions(graph: Graph, known: Mapping[str, Known]) -> tuple[str, ...]:
    """Where the file states other types than its operators give; the operators are right."""
    claims = {**graph.types, **{v.name: v.type for v in graph.outputs}}
    stated = {name: claim for name, claim in claims.items() if isinstance(claim, TensorType)}
    notes = []
    for name, claim in stated.items():
        found = known.get(name)
        if found is not None and not _agrees(claim, found):
            notes.append(
                f"'{name}' is {describe(found.dtype, found.shape)}, not {describe(claim.dtype, claim.shape)} "
                f"as the file says"
            )
    return tuple(notes)


def _agrees(claim: TensorType, found: Known) -> bool:
    if claim.dtype != found.dtype:
        return False
    if claim.shape is None:
        return True
    return len(claim.shape) == len(found.shape) and all(
        not isinstance(d, int) or d == n for d, n in zip(claim.shape, found.shape, strict=True)
    )
