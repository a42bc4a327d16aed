"""What values a float model's tensors take on calibration data."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model, Value
from hwflow.onnx.run.missing import missing_taken, odd_places
from hwflow.onnx.run.sequences import with_state_rows
from hwflow.quantize.calibration.histogram import Histogram
from hwflow.quantize.graphs import attribute, dynamic_inputs, is_embedding, producers
from hwflow.quantize.used import used_elements

__all__ = ["SYNTHETIC_ROWS", "Progress", "checked", "measure", "synthetic"]

#: Called with (rows done, rows in all).
Progress = Callable[[int, int], None]

#: How many rows of made-up data stand in for missing calibration data.
SYNTHETIC_ROWS = 64


def synthetic(model: Model) -> dict[str, Array]:
    """Rows for every input of `model` where there is no data: normal values, mean 0, deviation 1, seed 0.

    Integers of 8 bits are pixels or quantized values, and numbers choose rows of a table: all are equally likely.
    States are what the rows before left.
    """
    generator = np.random.default_rng(0)
    rows: dict[str, Array] = {}
    chosen = _rows_of_tables(model)
    for value in model.graph.inputs:
        assert value.tensor is not None
        assert value.tensor.shape is not None
        shape = (SYNTHETIC_ROWS, *(size for size in value.tensor.shape if isinstance(size, int)))
        dtype = value.tensor.dtype
        if value.name in chosen:
            rows[value.name] = generator.integers(chosen[value.name], size=shape).astype(dtype)
        elif dtype.kind in "iu" and dtype.itemsize == 1:
            rows[value.name] = generator.integers(256, size=shape, dtype=np.uint8).view(dtype)
        else:
            rows[value.name] = generator.standard_normal(shape).astype(dtype)
    return with_state_rows(model, rows)


def _rows_of_tables(model: Model) -> dict[str, int]:
    """Integer inputs whose elements are numbers of rows of a table, to the number of rows; the least of several."""
    graph, found = model.graph, dict[str, int]()
    integers = {value.name for value in graph.inputs if value.tensor is not None and value.tensor.dtype.kind in "iu"}
    made = producers(graph)
    for node in graph.nodes:
        if not is_embedding(node, graph):
            continue
        name = node.inputs[1]
        while name in made and len(before := dynamic_inputs(made[name], graph)) == 1:
            name = before[0]
        rows = graph.initializers[node.inputs[0]].shape[attribute(node, "axis", 0)]
        if name in integers:
            found[name] = min(rows, found.get(name, rows))
    return found


def checked(model: Model, rows: Mapping[str, Array]) -> dict[str, Array]:
    """`rows` of every input of `model`, [n, *its shape].

    HwflowError: an input without rows, or rows of another shape or type, no row at all, NaN or infinite values where
    the host does not deal with them, different numbers of rows.
    """
    taken = missing_taken(model.graph, host=True)
    found = {value.name: _of_input(value, rows, taken[value.name]) for value in model.graph.inputs}
    counts = {name: len(array) for name, array in found.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        raise HwflowError("calibration data must have the same number of rows for all inputs", f"{listed}")
    return found


def _of_input(value: Value, rows: Mapping[str, Array], missing: Collection[str]) -> Array:
    name, tensor = value.name, value.tensor
    if name not in rows:
        there = ", ".join(f"'{key}'" for key in rows) or "nothing"
        raise HwflowError(f"calibration data must cover the input '{name}', not only {there}", "add rows for it")
    array = np.asarray(rows[name])
    assert tensor is not None
    assert tensor.shape is not None
    if array.ndim == 0 or len(array) == 0:
        raise HwflowError(f"calibration data of input '{name}' must have at least one row, not none")
    if array.dtype != tensor.dtype and not (tensor.dtype.kind == "O" and array.dtype.kind == "U"):
        raise HwflowError(f"calibration data of input '{name}' must be {tensor.dtype}, not {array.dtype}")
    if array.shape[1:] != tuple(tensor.shape):
        shape = ", ".join(map(str, ("rows", *tensor.shape)))
        raise HwflowError(f"calibration data of input '{name}' must have the shape [{shape}], not {list(array.shape)}")
    odd = odd_places(array, missing)
    if odd.any():
        where = np.argwhere(odd)[0]
        raise HwflowError(
            f"calibration data of input '{name}' must be finite, not {array[tuple(where)]} in row {where[0]} "
            f"at {where[1:].tolist()}", "leave out or repair that row"
        )
    return array


def measure(
    model: Model, rows: Mapping[str, Array], tensors: Sequence[str], progress: Progress | None = None
) -> dict[str, Histogram]:
    """The values of each of `tensors` over all rows, in one pass, row by row, in bounded memory.

    Elements that nothing computes with are left out.  `rows` maps every input of `model` to an array [n, *its shape].
    HwflowError where a tensor becomes NaN or infinite.
    """
    count = min(len(array) for array in rows.values())
    seen = {name: Histogram() for name in tensors}
    used = used_elements(model, tensors)
    for k in range(count):
        values = evaluate(model, {name: array[k] for name, array in rows.items()}, fetch=tuple(tensors))
        for name, histogram in seen.items():
            there = values[name][used[name]] if name in used else values[name]
            low, high = float(there.min()), float(there.max())
            if not (np.isfinite(low) and np.isfinite(high)):
                raise HwflowError(
                    f"tensor '{name}' must be finite on calibration data, not {low} to {high} in row {k}",
                    "check the data and the weights of the layers before it"
                )
            histogram.add(there)
        if progress is not None:
            progress(k + 1, count)
    return seen
