"""Ranges of the values that a model's tensors take on calibration data, of the elements that something computes with.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from hwflow_base.errors import HwflowError

from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Graph, Model, Node, Value
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT
from hwflow.onnx.rewrite.renaming import reads
from hwflow.onnx.run.missing import missing_taken, odd_places
from hwflow.onnx.run.sequences import with_state_rows
from hwflow.outcome import OutcomeCode, OutcomeWarning
from hwflow.quantize.calibrate.activations import Histogram
from hwflow.quantize.graphs import (
    ancestors,
    chosen_rows,
    consumers,
    dynamic_inputs,
    moved_indices,
    moves,
    shape_of,
)
from hwflow.quantize.passes.computed_masks import hides, masking_nodes

#: The lowest and the highest value of a tensor.
Range: TypeAlias = tuple[float, float]

#: Called with (rows done, rows in all).
Progress = Callable[[int, int], None]

#: How many rows of made-up data stand in for missing calibration data.
SYNTHETIC_ROWS = 64


def synthetic(model: Model) -> dict[str, Array]:
    """Rows for every input of `model` where there is no data: normal values, mean 0, deviation 1, seed 0.

    Integers of 8 bits are pixels or quantized values, and numbers choose rows of a table: all are equally likely.
    What is true or false, or decides a mask, has both values along its last axis, so no row of scores is hidden.
    States are what the rows before left.
    """
    generator = np.random.default_rng(0)
    rows: dict[str, Array] = {}
    chosen, masks = _rows_of_tables(model), _deciding_masks(model.graph)
    for value in model.graph.inputs:
        assert value.tensor is not None
        assert value.tensor.shape is not None
        shape = (SYNTHETIC_ROWS, *(size for size in value.tensor.shape if isinstance(size, int)))
        dtype = value.tensor.dtype
        if value.name in chosen:
            rows[value.name] = generator.integers(chosen[value.name], size=shape).astype(dtype)
        elif dtype.kind == "b" or value.name in masks:
            flags = generator.integers(2, size=shape)
            if flags.ndim > 1 and flags.shape[-1] > 1:
                flags[..., 0], flags[..., -1] = 0, 1
            rows[value.name] = flags.astype(dtype)
        elif dtype.kind in "iu" and dtype.itemsize == 1:
            rows[value.name] = generator.integers(256, size=shape, dtype=np.uint8).view(dtype)
        else:
            rows[value.name] = generator.standard_normal(shape).astype(dtype)
    return with_state_rows(model, rows)


def _deciding_masks(graph: Graph) -> set[str]:
    """The inputs of integers that decide which scores a Softmax sees."""
    integers = {value.name for value in graph.inputs if value.tensor is not None and value.tensor.dtype.kind in "iu"}
    if not integers:
        return set()
    inside = masking_nodes(graph)
    hiding = [node.outputs[0] for node in graph.nodes if id(node) in inside and hides(node, graph)]
    return {name for node in ancestors(graph, hiding) for name in node.inputs if name in integers}


def _rows_of_tables(model: Model) -> dict[str, int]:
    """Integer inputs whose elements are numbers of rows of a table, to the number of rows; the least of several."""
    graph, table_rows = model.graph, dict[str, int]()
    integers = {value.name for value in graph.inputs if value.tensor is not None and value.tensor.dtype.kind in "iu"}
    for node in graph.nodes:
        place, rows = chosen_rows(node, graph)
        if not rows:
            continue
        way = [step for step in ancestors(graph, [node.inputs[place]]) if dynamic_inputs(step, graph)]
        sources = {node.inputs[place], *(name for step in way for name in dynamic_inputs(step, graph))}
        for name in sources & integers if len(sources & {value.name for value in graph.inputs}) == 1 else ():
            table_rows[name] = min(rows, table_rows.get(name, rows))
    return table_rows


def checked(model: Model, rows: Mapping[str, Array]) -> dict[str, Array]:
    """`rows` of every input of `model`, [n, *its shape].

    HwflowError: an input without rows, or rows of another shape or type, no row at all, NaN or infinite values where
    the host does not deal with them, different numbers of rows.
    """
    taken = missing_taken(model.graph, host=True)
    arrays = {value.name: _of_input(value, rows, taken[value.name]) for value in model.graph.inputs}
    counts = {name: len(array) for name, array in arrays.items()}
    if len(set(counts.values())) > 1:
        listed = ", ".join(f"'{name}' has {count}" for name, count in counts.items())
        raise HwflowError("calibration data must have the same number of rows for all inputs", f"{listed}")
    return arrays


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
    model: Model, rows: Mapping[str, Array], tensors: Sequence[str], progress: Progress | None = None,
    numbers: Sequence[int] | None = None, seen: Mapping[str, Histogram] | None = None,
) -> dict[str, Histogram]:  # fmt: skip
    """The values of each of `tensors` over all rows, or those of these `numbers`, row by row, in bounded memory.

    They are added to what was `seen`.  Elements that nothing computes with are left out.  `rows` maps every input of
    `model` to an array [n, *its shape].  HwflowError where a tensor becomes NaN or infinite.
    """
    count = min(len(array) for array in rows.values())
    seen = {name: Histogram() for name in tensors} if seen is None else {n: copy.deepcopy(h) for n, h in seen.items()}
    used = used_elements(model, tensors)
    numbers = range(count) if numbers is None else numbers
    for done, k in enumerate(numbers, count - len(numbers)):
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
            progress(done + 1, count)
    return seen


# Which elements of a tensor something computes with; the others are cut off, and their values do not matter.
#
# A transposed convolution computes whole rows of pixels and then cuts off its pads. What is cut off may be far larger
# than what stays, and would make the steps of all integers coarser.


#: True for the elements of a tensor that are used, in its shape.
Mask: TypeAlias = npt.NDArray[np.bool_]


def used_elements(model: Model, tensors: Iterable[str]) -> dict[str, Mask]:
    """The used elements of those of `tensors` that have others, too."""
    graph, used = model.graph, dict[str, Mask]()
    for value in graph.outputs:
        _use(used, value.name, None, model)
    for node in reversed(graph.nodes):
        if not any(used[name].any() for name in node.outputs if name in used):
            continue
        for name in reads(node):
            if name in graph.initializers:
                continue
            if (name,) == node.inputs[:1] and _only_moves(node, model):
                _use(used, name, _moved_back(node, used, model), model)
            else:
                _use(used, name, _computed_back(node, name, used, model), model)
    partly_used = {name: used[name] for name in tensors if name in used}
    return {name: mask for name, mask in partly_used.items() if mask.any() and not mask.all()}


def _only_moves(node: Node, model: Model) -> bool:
    """True where constants say which element of the first input stands where."""
    layout = node.op_type in LAYOUT and not node.domain and len(node.outputs) == 1
    return moves(node, model.graph) or (layout and dynamic_inputs(node, model.graph) == node.inputs[:1])


def _use(used: dict[str, Mask], name: str, mask: Mask | None, model: Model) -> None:
    """Elements of a tensor are used, by one reader more; None: all of them."""
    shape = shape_of(model.graph, name)
    if shape is None:
        return
    before = used.get(name, np.zeros(shape, np.bool_))
    used[name] = np.ones(shape, np.bool_) if mask is None else before | mask


def _moved_back(node: Node, used: dict[str, Mask], model: Model) -> Mask | None:
    """The elements that stand in used places of the results of `node`."""
    shape = shape_of(model.graph, node.inputs[0])
    if shape is None:
        return None
    index = np.arange(int(np.prod(shape)), dtype=np.int64)
    mask = np.zeros(len(index), np.bool_)
    for name, places in moved_indices(node, index.reshape(shape), model.graph, model.opsets).items():
        if name in used:
            read = places[used[name]]
            mask[read[read >= 0]] = True
    return mask.reshape(shape)


def _computed_back(node: Node, name: str, used: dict[str, Mask], model: Model) -> Mask | None:
    """The elements of `name` that used results are made of."""
    mask = used.get(node.outputs[0])
    alike = mask is not None and mask.shape == shape_of(model.graph, name)
    return mask if node.op_type in ELEMENTWISE and not node.domain and alike else None


# Ranges for tensors that are 0 everywhere in the calibration data, where any scale is as good for the tensor itself.
#
# The layer that reads such a tensor adds a bias, in steps of the tensor's scale times the weight's. A scale of 1
# would make these steps as coarse as the weight's, so the tensor takes the range of the reader's result.


NOTHING: Range = (0.0, 0.0)


def ranges_of_silent(graph: Graph, ranges: Mapping[str, Range]) -> dict[str, Range]:
    """The range for each tensor of `ranges` that has only 0: the narrowest one of the results made of it.

    A result is the next tensor of `ranges` on the way to the outputs of `graph`, which is in topological order.  Where
    all results have only 0, too, theirs is taken; where there is none, the tensor is not in the answer.
    """
    read, ranges_after = consumers(graph), dict[str, Range]()
    #: For a tensor: the narrowest range of what is made of it, itself included where it has one.
    narrowest: dict[str, Range] = {}
    names = [*(value.name for value in graph.inputs), *(name for node in graph.nodes for name in node.outputs if name)]
    for name in reversed(names):
        own = ranges.get(name, NOTHING)
        if own != NOTHING:
            narrowest[name] = own
            continue
        results = [result for node in read.get(name, []) for result in node.outputs if result in narrowest]
        if results:
            narrowest[name] = min((narrowest[result] for result in results), key=lambda ends: ends[1] - ends[0])
            if name in ranges:
                ranges_after[name] = narrowest[name]
    return ranges_after


# Calibration data that shows one row only.


def equal_rows(calibration: Mapping[str, Array]) -> tuple[OutcomeWarning, ...]:
    """A warning where the rows [n, ...] of every input are equal, or are one row of a single value.

    An input that is the same in every row is fine where another one is not.
    """
    flat = [array.reshape(len(array), -1) for array in calibration.values() if array.dtype.kind == "f" and array.size]
    if not flat or not all((rows == rows[:1]).all() for rows in flat):
        return ()
    everywhere = all((rows == rows[0, 0]).all() for rows in flat)
    if not everywhere and len(flat[0]) == 1:
        return ()
    what = "one number everywhere" if everywhere else f"{len(flat[0])} equal rows"
    remedy = "ranges come from it: give some hundred rows like those of the data (calib_ arrays)"
    return (OutcomeWarning(OutcomeCode.EQUAL_CALIBRATION, "calibration data", f"has {what}", remedy),)
