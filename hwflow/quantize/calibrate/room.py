"""Room in ranges for rows beyond the calibration data: what regressors give for them is not the largest value seen.

It costs a bit where there are 16, as classical models have them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model, Node, TensorType, Value
from hwflow.onnx.operators import ELEMENTWISE, LAYOUT
from hwflow.quantize.calibrate.points import Point
from hwflow.quantize.calibrate.ranges import Range, used_elements
from hwflow.quantize.graphs import dynamic_inputs, producers

#: Values of a tensor, from end to end, of which a function is computed.
_STEPS = 65


@dataclass(frozen=True)
class Room:
    """Room in the ranges of `points` of `model`: `share` of a range at each end.

    `beyond` are the ranges on rows that lie farther out than the calibration data do: each float feature is stretched
    about the middle of its range, so that `share` of it is added at each end.  So what is behind a Relu has room above
    alone, and a cube has more of it than the sums in it.
    """

    model: Model
    points: Sequence[Point]
    share: float
    beyond: Mapping[str, Range]

    @classmethod
    def of(cls, model: Model, points: Sequence[Point], rows: Mapping[str, Array], share: float) -> Room | None:
        """None where none is asked for.  `rows` maps every input of `model` to an array [n, *its shape]."""
        if not share:
            return None
        return cls(model, points, share, _ranges(model, [point.tensor for point in points], _stretched(rows, share)))

    def added(self, point: Point, ends: Range, known: Mapping[str, Range]) -> Range:
        """The range `ends` of a point with room; `known` are the ranges of points before it.

        A function has all its values of what it is of.  Scores have no room: the classes of such rows are those at the
        ends, and close scores need every bit.  Nor do inputs have it from the rows farther out: features that are
        squares would lose two bits.
        """
        low, high = ends
        if point.is_scores:
            return ends
        if point.is_input or point.is_last:
            low, high = low - self.share * (high - low), high + self.share * (high - low)
        others = [] if point.is_input else [self.beyond.get(point.tensor, ends)]
        others += self._of_function(point.tensor, known)
        return min([low, *(end for end, _ in others)]), max([high, *(end for _, end in others)])

    def _of_function(self, name: str, known: Mapping[str, Range]) -> list[Range]:
        """The range of the function that `name` is of the range of one point; none where it is no function of one."""
        graph, made = self.model.graph, producers(self.model.graph)
        nodes, todo, sources = dict[str, Node](), [name], set[str]()
        while todo:
            tensor = todo.pop()
            node = made.get(tensor)
            if tensor in known and tensor != name:
                sources.add(tensor)
            elif node is None or node.domain or node.op_type not in ELEMENTWISE | LAYOUT:
                return []
            elif tensor not in nodes:
                nodes[tensor] = node
                todo += dynamic_inputs(node, graph)
        if len(sources) != 1 or not nodes:
            return []
        source = sources.pop()
        kind = graph.tensor_type(source)
        if kind is None or kind.shape is None or not kind.is_static:
            return []
        inside = replace(graph, nodes=tuple(node for node in graph.nodes if node.outputs[0] in nodes),
                         inputs=(Value(source, TensorType(kind.dtype, kind.shape)),), outputs=(Value(name, None),))
        shape = tuple(int(size) for size in kind.shape if isinstance(size, int))
        steps = np.linspace(*known[source], _STEPS).astype(kind.dtype)
        rows = {source: np.broadcast_to(steps.reshape(-1, *(1,) * len(shape)), (_STEPS, *shape)).copy()}
        return list(_ranges(replace(self.model, graph=inside), [name], rows).values())


def _stretched(rows: Mapping[str, Array], share: float) -> dict[str, Array]:
    stretched = dict(rows)
    for name, array in rows.items():
        if array.dtype.kind == "f" and np.isfinite(array).any(axis=0).all():
            finite = np.where(np.isfinite(array), array, np.nan)
            middle = (np.nanmin(finite, axis=0) + np.nanmax(finite, axis=0)) / 2
            stretched[name] = (middle + (1 + 2 * share) * (array - middle)).astype(array.dtype)
    return stretched


def _ranges(model: Model, tensors: Sequence[str], rows: Mapping[str, Array]) -> dict[str, Range]:
    """The range of each of `tensors` on `rows`.

    Values that are NaN or infinite, as they may be so far out, do not count; a tensor without others is left out.
    """
    count, used, found = min(len(array) for array in rows.values()), used_elements(model, tensors), dict[str, Range]()
    for k in range(count):
        values = evaluate(model, {name: array[k] for name, array in rows.items()}, fetch=tuple(tensors))
        for name in tensors:
            there = values[name][used[name]] if name in used else values[name]
            there = there[np.isfinite(there)]
            if there.size:
                low, high = found.get(name, (np.inf, -np.inf))
                found[name] = min(low, float(there.min())), max(high, float(there.max()))
    return found
