"""States that only shift in front of a window: the last rows of what a convolution reads are its first rows in the next
frame.

Such a state needs no memory of its own.  The line buffer of the convolution keeps the rows from frame to frame, and the
layers that join and cut rows (Concat, Rearrange) vanish.  Whatever these are, tracing says what they do: they move
numbers in place of elements, and where these come to decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from hwflow.layers.base import Layer, LayerGraph, State
from hwflow.layers.concat import Concat
from hwflow.layers.conv import Conv
from hwflow.layers.formats import Frame, IntArray
from hwflow.layers.rearrange import Rearrange
from hwflow.stages.joined_windows import joined_window

#: Where a graph keeps what `kept_rows` found.
KEY = "kept rows"


@dataclass(frozen=True, eq=False)
class KeptRows:
    """A window keeps `state`: `rows` rows of its `frame`, or columns where that has a single row.

    `layers` are the positions of all layers that become one stage, ascending: what joins the state with the tensor `x`
    and makes its next value, and the convolutions that read both.  `window` is the convolution of the whole frame that
    they are together; what it makes is made by the layer at `last`.  Each element of the state is `initial` at first.
    """

    state: State
    x: str
    layers: tuple[int, ...]
    last: int
    window: Conv
    frame: Frame
    rows: int
    initial: int

    @property
    def axis(self) -> int:
        """Of what is kept: 0 for rows, 1 for columns."""
        return int(self.frame.height == 1)


@dataclass(frozen=True)
class _Readers:
    """The layers that move elements of a state, the convolutions that read them, the layer that joins the results of
    several, and the tensor that the state is joined with."""

    moving: tuple[int, ...]
    windows: tuple[int, ...]
    join: int | None
    x: str

    @property
    def last(self) -> int:
        return self.windows[0] if self.join is None else self.join


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
    if readers is None or (state.initial != state.initial.flat[0]).any():
        return None
    x, moving = readers.x, list(readers.moving)
    numbers = _traced(graph, state, x, [graph.layers[k] for k in moving])
    order = _order(numbers.get(state.write), state.initial.size, graph.tensors[x].frame.elements)
    if order is None:
        return None
    places = {name: order[each] for name, each in numbers.items()} | {"": order}
    window, frame = _whole(graph, readers, places) or _joined(graph, readers, places) or (None, Frame(1, 1, 1))
    rows = None if window is None else _rows(graph, window, frame, state)
    if window is None or rows is None:
        return None
    while (k := _reshaped(graph, x, moving)) is not None:
        x, moving = graph.layers[k].inputs[0], [*moving, k]
    joins = () if readers.join is None else (readers.join,)
    return KeptRows(state, x, tuple(sorted([*moving, *readers.windows, *joins])), readers.last, window, frame, rows,
                    int(state.initial.flat[0]))


def _readers(graph: LayerGraph, state: State) -> _Readers | None:
    """What reads `state`, None where that is not all that becomes of it."""
    moved, moving, windows, joins = {state.read}, list[int](), list[int](), list[int]()
    joined, made = set[str](), list[str]()
    for k, layer in enumerate(graph.layers):
        if made and len(windows) > 1 and set(layer.inputs) == set(made) and isinstance(layer, Concat):
            joins.append(k)
        if not moved.intersection(layer.inputs):
            continue
        if isinstance(layer, Conv):
            windows.append(k)
            made.append(layer.output)
        elif _moves(layer):
            moving.append(k)
            joined.update(name for name in layer.inputs if name not in moved)
            moved.add(layer.output)
        else:
            return None
    handed = [other.write for other in graph.states if other.write in moved]
    if not windows or len(joined) != 1 or handed != [state.write] or moved.intersection(graph.outputs):
        return None
    if len(windows) == 1:
        return _Readers(tuple(moving), tuple(windows), None, joined.pop())
    alone = all(len(graph.consumers(name)) == 1 and name not in graph.sinks for name in made)
    if len(joins) != 1 or not alone or len(graph.layers[joins[0]].inputs) != len(made):
        return None
    return _Readers(tuple(moving), tuple(windows), joins[0], joined.pop())


def _order(written: IntArray | None, count: int, new: int) -> IntArray | None:
    """The place of each element in the rows: those of the state, the oldest first, then the new ones.

    `written` has for each element of the next state what it is: an element of the state, or (from `count` on) a new
    one.  None where the state does not only shift.
    """
    if written is None:
        return None
    order = np.concatenate([np.full(count, -1, np.int64), count + np.arange(new, dtype=np.int64)])
    for _ in range(-(-count // new)):
        order[:count] = np.where(order[written.reshape(-1)] < 0, -1, order[written.reshape(-1)] - new)
    return order if np.array_equal(np.sort(order), np.arange(count + new)) else None


def _whole(graph: LayerGraph, readers: _Readers, places: Mapping[str, IntArray]) -> tuple[Conv, Frame] | None:
    """The only convolution, if it reads all rows in their order."""
    layer = graph.layers[readers.last]
    if not isinstance(layer, Conv):
        return None
    read = places[layer.inputs[0]].reshape(-1)
    in_order = np.array_equal(read, np.arange(places[""].size))
    return (layer, graph.tensors[layer.inputs[0]].frame) if in_order else None


def _joined(graph: LayerGraph, readers: _Readers, places: Mapping[str, IntArray]) -> tuple[Conv, Frame] | None:
    """The convolution that several are together, over rows each of which is a frame's new elements."""
    new = graph.tensors[readers.x].frame.elements
    rows, rest = divmod(places[""].size, new)
    if rest:
        return None
    join, made = graph.layers[readers.last], {graph.layers[k].output: graph.layers[k] for k in readers.windows}
    parts = [join] if readers.join is None else [made[name] for name in join.inputs]
    window = joined_window(graph, [each for each in parts if isinstance(each, Conv)], places, rows, join.name,
                           join.output)
    return None if window is None else (replace(window, inputs=(readers.x,)), Frame(rows, 1, new))


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


def _rows(graph: LayerGraph, layer: Conv, frame: Frame, state: State) -> int | None:
    """The rows of `frame` that `state` is, columns where it has one row; None where the window cannot keep them.

    It can where the first window of a frame needs a new row: so nothing leaves before the frame comes.
    """
    window = layer.window
    axis, sizes = int(frame.height == 1), (frame.height, frame.width)
    rows, rest = divmod(state.initial.size, frame.elements // sizes[axis])
    taps, pads = window.kernel[axis], (window.pads[axis], window.pads[axis + 2])
    others = (window.pads[1 - axis], window.pads[3 - axis])
    if rest or not 0 < rows <= (taps - 1) * window.dilations[axis] or any(pads):
        return None
    if any(others) and (axis or state.initial.flat[0] != graph.tensors[layer.inputs[0]].zero_point):
        return None
    return rows
