"""Control flow: operators that run the graphs in their attributes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.onnx.model import Graph, Operand, Value
from hwflow.onnx.ops.base import Arr, Call, Kernel, Operator, Table, axis_in
from hwflow.onnx.run.operands import size_of


def _truth(call: Call, value: Operand, what: str) -> bool:
    if not isinstance(value, np.ndarray) or value.size != 1:
        raise call.error(f"{what} must be one boolean, not {_shown(value)}")
    return bool(value.reshape(()))


def _shown(value: Operand) -> str:
    return f"an array of shape {list(value.shape)}" if isinstance(value, np.ndarray) else type(value).__name__


def _if(call: Call, condition: Arr) -> tuple[Operand, ...]:
    return call.subgraph("then_branch" if _truth(call, condition, "the condition") else "else_branch")


def _body(call: Call) -> Graph:
    graph = call.node.attributes.get("body")
    if not isinstance(graph, Graph):
        raise call.error(f"attribute 'body' must be a graph, not {graph!r}", "export the model again")
    return graph


class _Collected:
    """The elements that iterations of a loop add to one of its outputs."""

    def __init__(self, call: Call, declared: Value, axis: int = 0, backward: bool = False) -> None:
        self._call = call
        self._declared = declared
        self._axis = axis
        self._backward = backward
        self._rows: list[Arr] = []

    def add(self, row: Operand) -> None:
        name = self._declared.name
        if not isinstance(row, np.ndarray):
            raise self._call.error(f"scan output '{name}' must be a tensor in each iteration, not {_shown(row)}")
        if self._rows and (row.shape, row.dtype) != (self._rows[0].shape, self._rows[0].dtype):
            raise self._call.error(
                f"scan output '{name}' must have the same shape in each iteration, "
                f"not {list(self._rows[0].shape)} and {list(row.shape)}"
            )
        self._call.meter.hold(size_of(row), self._call.path)
        self._rows.append(row)

    def result(self) -> Arr:
        """All rows along a new axis; without a row, what the body declares of its output, open dims as 0."""
        if not self._rows:
            tensor = self._declared.tensor
            if tensor is None:
                raise self._call.error(f"scan output '{self._declared.name}' must have a declared type, not none")
            rest = [d if isinstance(d, int) else 0 for d in tensor.shape or ()]
            axis = axis_in(self._call, self._axis, len(rest) + 1)
            return np.zeros((*rest[:axis], 0, *rest[axis:]), tensor.dtype)
        first = self._rows[0]
        self._call.check_size((len(self._rows), *first.shape), first.dtype)
        axis = axis_in(self._call, self._axis, first.ndim + 1)
        stacked = np.stack(self._rows[::-1] if self._backward else self._rows, axis)
        self._call.meter.hold(-sum(map(size_of, self._rows)), self._call.path)
        return stacked


def _loop(call: Call, count: Arr | None = None, condition: Arr | None = None, *state: Operand) -> tuple[Operand, ...]:
    """While the condition holds, at most `count` times; no count and no condition: until a limit is met."""
    outputs = _body(call).outputs
    if len(outputs) < 1 + len(state):
        raise call.error(f"the body must have {1 + len(state)} or more outputs, not {len(outputs)}")
    if count is not None and count.size != 1:
        raise call.error(f"the trip count must be one integer, not {_shown(count)}")
    limit = None if count is None else int(count.reshape(()))
    collected = [_Collected(call, value) for value in outputs[1 + len(state) :]]
    iteration, going = 0, condition is None or _truth(call, condition, "the condition")
    while going and (limit is None or iteration < limit):
        call.meter.iteration(f"{call.path} {call.node.label}")
        results = call.subgraph("body", (np.array(iteration, np.int64), np.array(True), *state))
        if condition is not None:  # without one the operator's text says to ignore what the body gives
            going = _truth(call, results[0], "the condition that the body gives")
        state = results[1 : 1 + len(state)]
        for output, row in zip(collected, results[1 + len(state) :], strict=True):
            output.add(row)
        iteration += 1
    return (*state, *(output.result() for output in collected))


def _per_output(call: Call, name: str, count: int) -> tuple[int, ...]:
    """A list attribute with one number for each scanned input or output; all 0 where it is left out."""
    values = call.integers(name, ()) if call.has(name) else (0,) * count
    if len(values) != count:
        raise call.error(f"attribute '{name}' must have {count} numbers, not {list(values)}", "export the model again")
    return values


def _slices(call: Call, scanned: Sequence[Operand], axes: Sequence[int], backward: Sequence[int]) -> list[Arr]:
    """Each scanned input with its axis in front, in the order of the iterations."""
    slices = []
    for array, axis, back in zip(scanned, axes, backward, strict=True):
        if not isinstance(array, np.ndarray):
            raise call.error(f"a scanned input must be a tensor, not {_shown(array)}")
        moved = np.moveaxis(array, axis_in(call, axis, array.ndim), 0)
        slices.append(moved[::-1] if back else moved)
    lengths = [len(array) for array in slices]
    if len(set(lengths)) != 1:
        raise call.error(f"the scanned inputs must be of one length, not {lengths or 'none'}")
    return slices


def _run_scan(
    call: Call, state: tuple[Operand, ...], rows: Sequence[Arr], length: int, collected: Sequence[_Collected]
) -> tuple[Operand, ...]:
    """The state behind `length` iterations over rows; what they give goes into `collected`."""
    for index in range(length):
        call.meter.iteration(f"{call.path} {call.node.label}")
        results = call.subgraph("body", (*state, *(array[index] for array in rows)))
        state = results[: len(state)]
        for output, row in zip(collected, results[len(state) :], strict=True):
            output.add(row)
    return state


def _scanned_count(call: Call, operands: Sequence[Operand]) -> tuple[int, int]:
    """How many of the operands are state, and how many outputs are collected."""
    states = len(operands) - call.integer("num_scan_inputs")
    outputs = len(_body(call).outputs) - states
    if not 0 <= states < len(operands) or outputs < 0:
        raise call.error(
            f"'num_scan_inputs' must be 1 to {len(operands)} and leave as many state variables as the body gives, "
            f"not {call.integer('num_scan_inputs')}", "export the model again"
        )
    return states, outputs


def _scan(call: Call, *operands: Operand) -> tuple[Operand, ...]:
    states, outputs = _scanned_count(call, operands)
    scanned = operands[states:]
    rows = _slices(
        call,
        scanned,
        _per_output(call, "scan_input_axes", len(scanned)),
        _per_output(call, "scan_input_directions", len(scanned)),
    )
    axes = _per_output(call, "scan_output_axes", outputs)
    backward = _per_output(call, "scan_output_directions", outputs)
    declared = _body(call).outputs[states:]
    collected = [_Collected(call, v, axis, bool(b)) for v, axis, b in zip(declared, axes, backward, strict=True)]
    state = _run_scan(call, operands[:states], rows, len(rows[0]), collected)
    return (*state, *(output.result() for output in collected))


def _scan_batched(call: Call, lengths: Arr | None, *operands: Arr) -> tuple[Operand, ...]:
    """Version 8: the first axis of everything is a batch, the second one of scanned inputs the sequence.

    Sequences may be shorter than their tensor; outputs behind their end are 0.
    """
    states, outputs = _scanned_count(call, operands)
    batch = {array.shape[0] if array.ndim else -1 for array in operands}
    if len(batch) != 1 or batch == {0} or any(array.ndim < 2 for array in operands[states:]):
        raise call.error(f"all inputs must have the same batch axis, not shapes {[list(a.shape) for a in operands]}")
    backward = _per_output(call, "directions", len(operands) - states)
    longest = operands[states].shape[1]
    steps = [longest] * batch.pop() if lengths is None else [int(n) for n in lengths.reshape(-1)]
    if any(not 0 <= n <= longest for n in steps) or len(steps) != len(operands[states]):
        raise call.error(f"'sequence_lens' must be one length from 0 to {longest} for each of the batch, not {steps}")
    declared = _body(call).outputs[states:]
    finals, scans = [], []
    for entry, length in enumerate(steps):
        collected = [_Collected(call, value) for value in declared]
        sequences = [array[entry][:length] for array in operands[states:]]
        rows = _slices(call, sequences, (0,) * len(sequences), backward)
        finals.append(_run_scan(call, tuple(a[entry] for a in operands[:states]), rows, length, collected))
        scans.append([_padded(output.result(), longest) for output in collected])
    results = [np.stack([np.asarray(final[i]) for final in finals]) for i in range(states)]
    return (*results, *(np.stack([scan[i] for scan in scans]) for i in range(outputs)))


def _padded(array: Arr, length: int) -> Arr:
    return np.concatenate([array, np.zeros((length - len(array), *array.shape[1:]), array.dtype)])


def _sequence_map(call: Call, sequence: list[Operand], *others: Operand) -> tuple[Operand, ...]:
    """The body once for each element; other sequences are walked too, tensors are passed as they are."""
    lengths = {len(other) for other in (sequence, *others) if isinstance(other, list)}
    if len(lengths) != 1:
        raise call.error(f"the sequences must be of one length, not {sorted(lengths)}")
    results: tuple[list[Operand], ...] = tuple([] for _ in _body(call).outputs)
    for index, element in enumerate(sequence):
        call.meter.iteration(f"{call.path} {call.node.label}")
        inputs = (other[index] if isinstance(other, list) else other for other in others)
        for output, value in zip(results, call.subgraph("body", (element, *inputs)), strict=True):
            call.meter.hold(size_of(value), call.path)
            output.append(value)
    call.meter.hold(-sum(size_of(value) for output in results for value in output), call.path)
    return results


def _versions(kernel: Kernel, since: int) -> tuple[Operator, ...]:
    return (Operator(since, kernel, None),)


OPERATORS: Table = {
    ("", "If"): _versions(_if, 1),
    ("", "Loop"): _versions(_loop, 1),
    ("", "Scan"): (Operator(8, _scan_batched, None), Operator(9, _scan, None)),
    ("", "SequenceMap"): _versions(_sequence_map, 17),
}
