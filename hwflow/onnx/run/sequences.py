"""Rows that are one sequence: a streaming model reads its states as inputs, and a row finds what the one before left.

Such a model went through `hwflow.quantize.passes.streaming.keep_states`, whose pairs are in its metadata.  A file may
have them there before, with initial values: so a front end says what it knows of states.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Graph, Model, Value
from hwflow.onnx.operators import named
from hwflow.onnx.run.evaluate import evaluate
from hwflow.onnx.traits import Trait

#: Of the model's metadata: a JSON object that maps the inputs which are states to the outputs that give the next ones.
KEY = "hwflow.states"
#: The same of the model's file, where a state may be several of a layer, or of layers, in one tensor.
FILE_KEY = "hwflow.states_of_file"
#: What states are at first: a JSON object that maps such inputs to one number for all elements, or to a flat list of
#: all of them in their order.  A state that is not there begins with zeros.
INITIAL_KEY = "hwflow.states.initial"


#: What moves the elements of its first input.
_MOVING = named(Trait.LAYOUT | Trait.MOVE) | {"Cast"}


def _read(model: Model, key: str) -> dict[str, str]:
    text = model.metadata.get(key, "{}")
    try:
        return {str(name): str(output) for name, output in json.loads(text).items()}
    except (ValueError, AttributeError):
        raise HwflowError(
            f"the model's metadata '{key}' must be a JSON object of an output's name for each state, not {text[:60]!r}",
            "remove that entry; hwflow finds states by itself",
        ) from None


def state_names(model: Model) -> dict[str, str]:
    """The states of `model` as its file has them: inputs, each with the output that is its next value."""
    return _read(model, FILE_KEY if FILE_KEY in model.metadata else KEY)


def state_pairs(model: Model) -> dict[str, str]:
    """The inputs of `model` that are states of a layer, each with the output that is its next state."""
    inputs, outputs = ({value.name for value in values} for values in (model.graph.inputs, model.graph.outputs))
    pairs = _read(model, KEY)
    return {name: output for name, output in pairs.items() if name in inputs and output in outputs}


def initial_states(model: Model) -> dict[str, Array]:
    """What each state of `model` is at first, in the type and shape of its input.

    HwflowError where the metadata says other than numbers that this type has, one or as many as there are elements.
    """
    text = model.metadata.get(INITIAL_KEY, "{}")
    try:
        stated = dict(json.loads(text))
    except (ValueError, TypeError):
        raise _unfit_initial(text) from None
    pairs = state_pairs(model)
    return {value.name: _initial(value, stated.get(value.name, 0)) for value in model.graph.inputs
            if value.name in pairs}  # fmt: skip


def _initial(value: Value, stated: object) -> Array:
    zeros = _zeros(value)
    try:
        numbers = np.asarray(stated)
        exact = numbers.astype(zeros.dtype)
        fits = numbers.dtype.kind in "iuf" and numbers.size in (1, zeros.size) and bool(np.isfinite(numbers).all())
        if fits and (zeros.dtype.kind == "f" or np.array_equal(exact, numbers)):
            zeros[...] = exact.reshape(zeros.shape if exact.size == zeros.size else ())
            return zeros
    except (ValueError, TypeError, OverflowError):
        pass
    raise _unfit_initial(f"{value.name}: {stated}", f" {zeros.dtype} {list(zeros.shape)}")


def _unfit_initial(text: str, kind: str = "") -> HwflowError:
    return HwflowError(
        f"the model's metadata '{INITIAL_KEY}' must be a JSON object of a number, or of a flat list of all elements, "
        f"for each state{kind}, not {text[:60]!r}", "remove that entry: then states begin with zeros"
    )


def state_inputs(graph: Graph) -> frozenset[str]:
    """The inputs of a graph as its file has it that seem to be states: initial ones of recurrent nodes come of them."""
    makers = {name: node for node in graph.nodes for name in node.outputs if name}
    todo = [name for node in graph.nodes if node.op_type in ("GRU", "LSTM", "RNN") for name in node.inputs[5:7]]
    seen = set[str]()
    while todo:
        name = todo.pop()
        if name not in seen:
            seen.add(name)
            todo += makers[name].inputs[:1] if name in makers and makers[name].op_type in _MOVING else ()
    return frozenset(value.name for value in graph.inputs if value.name in seen)


def inputs_of_rows(model: Model) -> tuple[Value, ...]:
    """The inputs that somebody feeds: all but states."""
    states = state_pairs(model)
    return tuple(value for value in model.graph.inputs if value.name not in states)


def outputs_of_rows(model: Model) -> tuple[Value, ...]:
    """The outputs that somebody gets: all but the next values of states."""
    states = set(state_pairs(model).values())
    return tuple(value for value in model.graph.outputs if value.name not in states)


def _steps(model: Model, rows: Mapping[str, Array], known: dict[str, Array] | None = None
           ) -> Iterator[tuple[dict[str, Array], dict[str, Array]]]:  # fmt: skip
    """For each row in order what the model is fed, states included, and its outputs; `known` as `states` of `in_order`.
    """
    pairs, known = state_pairs(model), {} if known is None else known
    states = initial_states(model) | known
    count = min(len(array) for name, array in rows.items() if name not in pairs)
    for k in range(count):
        fed = {**{value.name: rows[value.name][k] for value in inputs_of_rows(model)}, **states}
        outputs = evaluate(model, fed)
        yield fed, outputs
        states = {name: outputs[output] for name, output in pairs.items()}
        known.update(states)


def _zeros(value: Value) -> Array:
    assert value.tensor is not None
    assert value.tensor.shape is not None
    return np.zeros([size for size in value.tensor.shape if isinstance(size, int)], value.tensor.dtype)


def in_order(
    model: Model, rows: Mapping[str, Array], progress: Callable[[int, int], None] | None = None,
    states: dict[str, Array] | None = None,
) -> dict[str, Array]:  # fmt: skip
    """The outputs [n, *shape] of a streaming model for rows [n, *input shape] in order, without its states.

    The first row finds what `states` has, else the initial states, each other one what the row before it left; then
    `states` has what the last one left.  `progress` hears of (rows done, rows in all).
    """
    rows_made = []
    for _, outputs in _steps(model, rows, states):
        rows_made.append(outputs)
        if progress is not None:
            progress(len(rows_made), min(map(len, rows.values())))
    return {value.name: np.stack([outputs[value.name] for outputs in rows_made]) for value in outputs_of_rows(model)}


def with_state_rows(model: Model, rows: Mapping[str, Array]) -> dict[str, Array]:
    """`rows` [n, *input shape] with what each state is in each row; `rows` itself where `model` has no states."""
    pairs = state_pairs(model)
    if not pairs:
        return dict(rows)
    fed = [states for states, _ in _steps(model, rows)]
    return {**rows, **{name: np.stack([row[name] for row in fed]) for name in pairs}}
