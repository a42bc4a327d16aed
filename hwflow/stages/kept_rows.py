"""States that only shift in front of a window: the last rows of what a convolution reads are its first rows in the next
frame.

Such a state needs no memory of its own.  The line buffer of the convolution keeps the rows from frame to frame, and the
layers that join and cut rows (Concat, Rearrange) vanish.  Whatever these are, tracing says what they do: they move
numbers in place of elements, and where these come to decides.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from hwflow.layers.base import Layer, LayerGraph, State
from hwflow.layers.concat import Concat
from hwflow.layers.conv import Conv
from hwflow.layers.formats import IntArray
from hwflow.layers.rearrange import Rearrange

#: Where a graph keeps what `kept_rows` found.
KEY = "kept rows"


@dataclass(frozen=True)
class KeptRows:
    """The window of `graph.layers[conv]` keeps `state`: `rows` rows, or columns where its frames have a single row.

    `layers` are the positions of all layers that become one stage, ascending: the convolution, and what joins the state
    with the tensor `x` and makes its next value.  Each element of the state is `initial` at first.
    """

    state: State
    x: str
    conv: int
    layers: tuple[int, ...]
    rows: int
    initial: int


def kept_rows(graph: LayerGraph) -> tuple[KeptRows, ...]:
    """The states of `graph` that windows can keep, in order; found once for a graph."""
    found = graph.derived.get(KEY)
    if not isinstance(found, tuple):
        each = [_of_state(graph, state) for state in graph.states]
        found = graph.derived[KEY] = tuple(kept for kept in each if kept is not None)
    return found


def _of_state(graph: LayerGraph, state: State) -> KeptRows | None:
    """How a window keeps `state`; None where none does, or where something else reads what only the window may."""
    readers = _readers(graph, state)
    if readers is None:
        return None
    moving, conv, x = readers
    numbers = _traced(graph, state, x, [graph.layers[k] for k in moving])
    layer, count = graph.layers[conv], state.initial.size
    assert isinstance(layer, Conv)
    read, written = numbers.get(layer.inputs[0]), numbers.get(state.write)
    if read is None or written is None:
        return None
    read, written = read.reshape(-1), written.reshape(-1)
    new = graph.tensors[x].frame.elements
    first = read[:count]
    in_order = np.array_equal(read[count:], count + np.arange(new)) and np.array_equal(np.sort(first), np.arange(count))
    if not in_order or not np.array_equal(written[first], read[new:]):
        return None
    rows = _rows(graph, layer, state)
    if rows is None:
        return None
    while (k := _reshaped(graph, x, moving)) is not None:
        x, moving = graph.layers[k].inputs[0], [*moving, k]
    return KeptRows(state, x, conv, tuple(sorted([*moving, conv])), rows, int(state.initial.flat[0]))


def _readers(graph: LayerGraph, state: State) -> tuple[list[int], int, str] | None:
    """The layers that move elements of `state`, the convolution that reads them, and the tensor that they join the
    state with.

    None where that is not all that becomes of the state.
    """
    moved, moving, windows = {state.read}, list[int](), list[int]()
    joined: set[str] = set()
    for k, layer in enumerate(graph.layers):
        if not moved.intersection(layer.inputs):
            continue
        if isinstance(layer, Conv):
            windows.append(k)
        elif _moves(layer):
            moving.append(k)
            joined.update(name for name in layer.inputs if name not in moved)
            moved.add(layer.output)
        else:
            return None
    handed = [other.write for other in graph.states if other.write in moved]
    if len(windows) != 1 or len(joined) != 1 or handed != [state.write] or moved.intersection(graph.outputs):
        return None
    return moving, windows[0], joined.pop()


def _reshaped(graph: LayerGraph, x: str, readers: Iterable[int]) -> int | None:
    """The layer that makes `x` for `readers` alone and leaves all elements in order; None where there is none."""
    for k, layer in enumerate(graph.layers):
        if layer.output == x and isinstance(layer, Rearrange) and _moves(layer) and x not in graph.sinks:
            (source,) = (graph.tensors[name].frame.elements for name in layer.inputs)
            rows, columns, channels = layer.offsets
            order = (rows[:, None, None] + columns[:, None] + channels).reshape(-1)
            alone = {id(reader) for reader in graph.consumers(x)} <= {id(graph.layers[j]) for j in readers}
            if alone and np.array_equal(order, np.arange(source)):
                return k
    return None


def _moves(layer: Layer) -> bool:
    """Whether each element of its output is one of an input."""
    return isinstance(layer, Concat) or (
        isinstance(layer, Rearrange) and all((table >= 0).all() for table in layer.offsets))


def _traced(graph: LayerGraph, state: State, x: str, layers: Iterable[Layer]) -> dict[str, IntArray]:
    """Where elements come to: for each tensor that `layers` make, the numbers of its elements in its raster; those of
    the state count from 0, those of `x` follow."""
    numbers: dict[str, IntArray] = {}
    first = 0
    for name in (state.read, x):
        frame = graph.tensors[name].frame
        raster = first + np.arange(frame.elements, dtype=np.int64)
        numbers[name] = raster.reshape(frame.height, frame.width, frame.channels)
        first += frame.elements
    for layer in layers:
        planes = [numbers[name].transpose(2, 0, 1)[..., None] for name in layer.inputs]
        numbers[layer.output] = np.ascontiguousarray(layer.compute(graph, *planes)[..., 0].transpose(1, 2, 0))
    return numbers


def _rows(graph: LayerGraph, layer: Conv, state: State) -> int | None:
    """The rows of the layer's frames that `state` is, columns where they have one row; None where a window cannot keep
    them.

    It can where the first window of a frame needs a new row: so nothing leaves before the frame comes.  A window over
    columns may then not be slower than columns that come one after another, of which a layer that reads the whole frame
    takes several at once.
    """
    x, window = graph.tensors[layer.inputs[0]], layer.window
    axis, sizes = int(x.frame.height == 1), (x.frame.height, x.frame.width)
    rows, rest = divmod(state.initial.size, x.frame.elements // sizes[axis])
    taps, pads = window.kernel[axis], (window.pads[axis], window.pads[axis + 2])
    values, others = np.unique(state.initial), (window.pads[1 - axis], window.pads[3 - axis])
    if rest or not 0 < rows <= (taps - 1) * window.dilations[axis] or any(pads) or len(values) != 1:
        return None
    if any(others) and (values[0] != x.zero_point or axis):
        return None
    if axis and taps * window.positions(x.frame)[1] > x.frame.width:
        return None
    return rows
