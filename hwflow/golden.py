"""The golden model: what the hardware must compute, in numpy integers, layer by layer.

From here on down to the board, comparison is equality.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.layers.base import LayerGraph
from hwflow.layers.formats import IntArray
from hwflow.layers.planes import Planes, to_frames, to_planes
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model
from hwflow.onnx.rewrite.rows import over_rows
from hwflow.onnx.run.evaluate import PerModel
from hwflow.onnx.run.sequences import in_order, inputs_of_rows, state_pairs
from hwflow.quantize import Quantized

#: Called with (rows done, rows in all).
Progress = Callable[[int, int], None]

#: Rows that go through the integer graph at once, at most; gives progress something to report.
_ROWS = 64

#: Rows that go through a host program at once.
_HOST_ROWS = 512

#: Host programs are short; a model with more nodes is none, and not looked at.
_HOST_NODES = 64

#: What `_over_rows` has made, by the shapes of the model's inputs.
_MODELS_OVER_ROWS = PerModel[tuple[tuple[str, tuple[int, ...]], ...], Model | None]()

#: Elements of the largest tensor that go through the integer graph at once: bounds memory.
_ELEMENTS = 1 << 23


def run(
    graph: LayerGraph | Quantized,
    frames: IntArray | Mapping[str, IntArray],
    *,
    keep: bool = True,
    progress: Progress | None = None,
) -> dict[str, IntArray]:
    """Evaluate the integer graph on `frames`: arrays [n, h, w, c] by input name, or the array of its only input.

    Gives every tensor by name, the inputs and every stage boundary; without `keep` the outputs alone.  HwflowError
    where frames are missing, of the wrong shape, or outside their tensor's format.
    States, and layers that keep one, begin with their initial values and go on from frame to frame.
    """
    graph = graph.graph if isinstance(graph, Quantized) else graph
    inputs = checked(graph, frames)
    count = min(len(array) for array in inputs.values())
    names = dict.fromkeys(graph.computed if keep else graph.outputs)
    wanted = {*names, *(state.write for state in graph.states)}
    parts: dict[str, list[IntArray]] = {name: [] for name in names}
    rows = 1 if graph.states else _rows_at_once(graph)
    states: dict[str, IntArray | None] = {}
    handed = {state.read: state.initial[None] for state in graph.states}
    for start in range(0, max(count, 1), rows):
        block = {name: array[start : start + rows] for name, array in inputs.items()}
        block |= {name: array[:count] for name, array in handed.items()}
        made = {name: to_frames(planes) for name, planes in _stages(graph, block, states) if name in wanted}
        for name in names:
            parts[name].append(made[name])
        handed = {state.read: made[state.write].reshape(block[state.read].shape) for state in graph.states}
        if progress is not None:
            progress(min(start + rows, count), count)
    return {name: np.concatenate(part) for name, part in parts.items()}


def _rows_at_once(graph: LayerGraph) -> int:
    """So many frames that the largest tensor keeps to `_ELEMENTS`."""
    largest = max(1, *(tensor.frame.elements for tensor in graph.tensors.values()))
    return max(1, min(_ROWS, _ELEMENTS // largest))


def _stages(graph: LayerGraph, frames: Mapping[str, IntArray],
            states: dict[str, IntArray | None]) -> Iterator[tuple[str, Planes]]:
    """Every tensor as planes, the inputs first; each is dropped behind its last reader.

    `states` has the state of each layer after the frames before, and then after these.
    """
    readers = Counter(name for layer in graph.layers for name in layer.inputs)
    values = {name: to_planes(array, graph.tensors[name].format) for name, array in frames.items()}
    yield from values.items()
    for layer in graph.layers:
        output, states[layer.name] = layer.resume(
            graph, states.get(layer.name), *(values[name] for name in layer.inputs))
        readers.subtract(layer.inputs)
        values = {name: planes for name, planes in values.items() if readers[name]}
        if readers[layer.output]:
            values[layer.output] = output
        yield layer.output, output


def checked(graph: LayerGraph, frames: IntArray | Mapping[str, IntArray]) -> dict[str, IntArray]:
    """Frames of every input of `graph` as int64 [n, h, w, c] by name; HwflowError as `run`."""
    named = frames if isinstance(frames, Mapping) else dict.fromkeys(graph.inputs[:1], frames)
    return {name: _checked(graph, name, named) for name in graph.inputs}


def _checked(graph: LayerGraph, name: str, frames: Mapping[str, IntArray]) -> IntArray:
    tensor = graph.tensors[name]
    if name not in frames:
        raise HwflowError(f"frames must be given for input '{name}', not only for {sorted(frames)}")
    array = np.asarray(frames[name])
    shape = (tensor.frame.height, tensor.frame.width, tensor.frame.channels)
    if array.ndim != 4 or array.shape[1:] != shape or array.dtype.kind not in "iu":
        expected, actual = ", ".join(map(str, shape)), f"{array.dtype} {list(array.shape)}"
        raise HwflowError(f"frames of '{name}' must be integers [n, {expected}], not {actual}")
    integers = array.astype(np.int64)
    if not tensor.format.contains(integers):
        raise HwflowError(
            f"frames of '{name}' must be inside {tensor.format}, not from {integers.min()} to {integers.max()}"
        )
    return integers


def run_prologue(quantized: Quantized, feeds: Mapping[str, Array]) -> dict[str, IntArray]:
    """The host's part in front of the hardware: rows [n, *input shape] by input name to frames [n, h, w, c].

    HwflowError: a number that chooses no row of a table or a cache.
    """
    _require_rows(quantized.prologue, feeds)
    return {name: array[:, 0].astype(np.int64) for name, array in evaluate_rows(quantized.prologue, feeds).items()}


def _require_rows(program: Model, feeds: Mapping[str, Array]) -> None:
    """HwflowError where an input chooses a row that there is not: a word without a number, a text that is too long."""
    graph = program.graph
    made = {node.outputs[0]: node for node in graph.nodes}
    for node in graph.nodes:
        every = graph.initializers.get(node.inputs[0]) if node.op_type == "Gather" else None
        if every is None or every.ndim != 1 or not np.array_equal(every, np.arange(len(every))):
            continue
        name = node.inputs[1]
        while name in made and made[name].op_type in ("Cast", "Reshape"):
            name = made[name].inputs[0]
        numbers = np.asarray(feeds.get(name, 0)).reshape(len(feeds[name]) if name in feeds else 1, -1)
        wrong = np.argwhere((numbers < -len(every)) | (numbers >= len(every)))
        if len(wrong):
            row, place = wrong[0].tolist()
            raise HwflowError(
                f"input '{name}' must be from 0 to {len(every) - 1}, not {numbers[row, place]} (row {row} of the data)",
                "it chooses a row of a table or of a cache; end a sequence that is longer than its cache, and begin "
                "a new one"
            )


def enter(quantized: Quantized, feeds: Mapping[str, Array]) -> IntArray:
    """The frames of `run_prologue` alone, for a graph with one input."""
    (frames,) = run_prologue(quantized, feeds).values()
    return frames


def run_epilogue(quantized: Quantized, frames: Mapping[str, IntArray], feeds: Mapping[str, Array] | None = None,
                 states: dict[str, Array] | None = None) -> dict[str, Array]:  # fmt: skip
    """The host's part after the hardware: frames [n, h, w, c] to rows [n, *output shape] by output name.

    `feeds` are the rows that `run_prologue` made the frames of.  HwflowError where an output depends on one of them
    beside the hardware, and it is not given.  States that the host keeps are first as `states` has them, else as in
    the first frame; `states` has them afterwards.
    """
    read = feeds_of_epilogue(quantized, feeds or {})
    inputs = dict[str, Array]()
    for value in quantized.epilogue.graph.inputs:
        assert value.tensor is not None
        if value.name in quantized.graph.outputs:
            inputs[value.name] = frames[value.name][:, None].astype(value.tensor.dtype)
    rows = {**inputs, **read}
    if state_pairs(quantized.epilogue):
        return in_order(quantized.epilogue, rows, states=states)
    return evaluate_rows(quantized.epilogue, rows)


def feeds_of_epilogue(quantized: Quantized, feeds: Mapping[str, Array]) -> dict[str, Array]:
    """Those of the rows `feeds` that `run_epilogue` reads.  HwflowError where one is missing."""
    names = [value.name for value in inputs_of_rows(quantized.epilogue) if value.name not in quantized.graph.outputs]
    for name in names:
        if name not in feeds:
            raise HwflowError(f"rows of input '{name}' must be given behind the hardware, too, where an output depends "
                              "on it", "give run_epilogue the rows that run_prologue had")  # fmt: skip
    return {name: feeds[name] for name in names}


def evaluate_rows(model: Model, rows: Mapping[str, Array]) -> dict[str, Array]:
    """Evaluate an ONNX model of batch 1 on rows: [n, *input shape] to [n, *output shape]; on many at once if it can.

    Texts are arrays of fixed width.
    """
    outputs = model.graph.outputs
    read = {value.name: np.asarray(rows[value.name]) for value in model.graph.inputs}
    count = min(len(array) for array in read.values())
    read = {name: array[:count] for name, array in read.items()}
    whole = _over_rows(model, read)
    if whole is not None:
        starts = range(0, max(count, 1), _HOST_ROWS)
        parts = [evaluate(whole, {k: v[start : start + _HOST_ROWS] for k, v in read.items()}) for start in starts]
        return {value.name: _plain(np.concatenate([part[value.name] for part in parts])) for value in outputs}
    results = [evaluate(model, {name: array[k] for name, array in read.items()}) for k in range(count)]
    return {value.name: _plain(np.stack([result[value.name] for result in results])) for value in outputs}


def _plain(array: Array) -> Array:
    """Texts in a fixed width, as files and digests take them; anything else as it is."""
    return array.astype(np.str_) if array.dtype.kind == "O" else array


def _over_rows(model: Model, rows: Mapping[str, Array]) -> Model | None:
    """The model for many rows, made at the first call with rows of these shapes."""
    models, key = _MODELS_OVER_ROWS.of(model), tuple(sorted((name, array.shape[1:]) for name, array in rows.items()))
    if key not in models:
        first = {n: a[0] if len(a) else np.zeros(a.shape[1:], a.dtype) for n, a in rows.items()}
        names = tuple(filter(None, (name for node in model.graph.nodes for name in node.outputs)))
        known = {**first, **evaluate(model, first, names)} if len(model.graph.nodes) <= _HOST_NODES else {}
        models[key] = over_rows(model, known)
    return models[key]


def predict(quantized: Quantized, feeds: Mapping[str, Array], progress: Progress | None = None) -> dict[str, Array]:
    """The whole model on rows [n, *input shape]: prologue, integer graph, epilogue.  Gives [n, *output shape]."""
    made = run(quantized, run_prologue(quantized, feeds), keep=False, progress=progress)
    return run_epilogue(quantized, made, feeds)


def as_batch(outputs: Mapping[str, Array]) -> dict[str, Array]:
    """Rows [n, *output shape] in the shapes that a runtime gives for them as one batch.

    A first axis of 1 of an output is the model's batch: of [n, 1, *rest] comes [n, *rest].  Other outputs stay.
    """
    return {name: rows[:, 0] if rows.shape[1:2] == (1,) else rows for name, rows in outputs.items()}
