"""What a data file says of the inputs that a model leaves open: its rows have every axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from hwflow_base.errors import HwflowError

from ..onnx.inference.open_sizes import Shapes, rank_of_reader, sizes_given
from ..onnx.limits import DEFAULT_LIMITS, Limits
from ..onnx.model import Array, Dim, Graph, Model, Value, size_name
from ..onnx.run.sequences import state_inputs
from .dataset import array_of_input, read_arrays, with_batch


def given_shapes(data: Path | None, model: Model, known: Shapes, limits: Limits, say: Callable[[str], None]) -> Shapes:
    """The shapes `known`, and those that the rows of `data` decide, each of which `say` hears of."""
    decided = {} if data is None else shapes_of_data(data, model, known, limits)
    for name, shape in decided.items():
        say(f"input '{name}': '{data}' decides its shape, {list(shape)}")
    return {**known, **decided}


def shapes_of_data(path: str | Path, model: Model, given: Shapes, limits: Limits = DEFAULT_LIMITS) -> Shapes:
    """Shapes of the inputs whose axes neither `model`, as its file has it, nor `given` (--input-shape) decides.

    The first axis is the batch: an open one is 1, whatever the rows say, and then no shape is needed for its sake.
    HwflowError where the rows contradict the model, `given`, or each other in a size that two inputs share by name.
    """
    states = state_inputs(model.graph)
    inputs = tuple(value for value in model.graph.inputs if value.name not in states)
    known: dict[str, tuple[int, str]] = {}
    for name, size in sizes_given(model.graph, given).items():
        known[name] = size, "--input-shape"
    undecided = [value for value in inputs if value.name not in given and _is_open(value, known)]
    states_left = [value for value in model.graph.inputs if value.name in states - set(given)]
    open_states = [value for value in states_left if _is_open(value, known)]
    if not undecided and not open_states and not given:
        return {}
    file = Path(path)
    arrays = read_arrays(file, inputs, (), limits)
    for value in inputs:
        if value.name in given and value.tensor is not None:
            _require_given(file, value, given[value.name], arrays[array_of_input(file, arrays, value)].shape)
    shapes = {}
    for value in undecided:
        name = array_of_input(file, arrays, value)
        row = _row(file, name, arrays[name], value, model.graph)
        stated = _stated(value, len(row))
        for dim, size in zip(stated[1:], row[1:], strict=True):
            _agree(file, name, dim, size, known)
        batch = stated[0] if stated else 1
        first = (batch if isinstance(batch, int) else known.get(size_name(batch) or "", (1, ""))[0],)
        shapes[value.name] = (first + row[1:]) if row else ()
    return shapes | {value.name: _of_state(value, known) for value in open_states}


def _of_state(value: Value, known: Mapping[str, tuple[int, str]]) -> tuple[int, ...]:
    """A data file has no states; what is open in their shapes is the batch, or decided by another input."""
    stated = _stated(value, 0)
    return tuple(dim if isinstance(dim, int) else known.get(size_name(dim) or "", (1, ""))[0] for dim in stated)


def _row(file: Path, name: str, array: Array, value: Value, graph: Graph) -> tuple[int, ...]:
    """The shape of one row, with the batch axis that the file may leave out."""
    row = with_batch(file, name, array, value).shape[1:]
    rank = rank_of_reader(value, graph)
    if value.tensor is not None and value.tensor.shape is None and rank == len(row) + 1:
        return 1, *row
    return row


def _is_open(value: Value, known: Mapping[str, object]) -> bool:
    """Whether an axis other than the batch has no size yet."""
    if value.tensor is None:
        return False
    shape = value.tensor.shape
    return shape is None or any(not isinstance(dim, int) and size_name(dim) not in known for dim in shape[1:])


def _stated(value: Value, rank: int) -> tuple[Dim, ...]:
    shape = value.tensor.shape if value.tensor is not None else None
    return (None,) * rank if shape is None else shape


def _agree(file: Path, array: str, dim: Dim, size: int, known: dict[str, tuple[int, str]]) -> None:
    """One name of a size stands for one number in all inputs."""
    name = size_name(dim)
    if name is None:
        return
    number, source = known.setdefault(name, (size, f"array '{array}'"))
    if number != size:
        raise HwflowError(
            f"{file}: the size '{name}' of the model must be the same in all inputs, not {number} in {source} and "
            f"{size} in array '{array}'"
        )


def _require_given(file: Path, value: Value, shape: tuple[int, ...], actual: tuple[int, ...]) -> None:
    """The rows have the shape that --input-shape names."""
    assert value.tensor is not None
    if actual[1:] not in (shape, shape[1:] if shape[:1] == (1,) else shape):
        raise HwflowError(
            f"the rows of input '{value.name}' must have the shape {list(shape)} that --input-shape gives, not "
            f"{list(actual[1:])}",
            "leave --input-shape out, and the data decide",
            where=str(file),
        )

