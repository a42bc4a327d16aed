"""Types of operators that run graphs: If, Loop, Scan, SequenceMap."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from hwflow.onnx.inference.facts import UNKNOWN, Fact, Holder, TensorFact, elements_in, join, refined
from hwflow.onnx.inference.worlds import Size, Worlds
from hwflow.onnx.model import Graph
from hwflow.onnx.ops.base import Call

_INT64, _BOOL = np.dtype(np.int64), np.dtype(np.bool_)
#: Rounds until the sizes that change from one iteration to the next are known to be unknown.
_MAX_ROUNDS = 4


class Body(Protocol):
    """Infers a graph in an attribute for facts of its inputs; gives the facts of its outputs."""

    def __call__(self, name: str, graph: Graph, inputs: Sequence[Fact]) -> list[Fact]: ...


#: Takes the call, its operands, the worlds, and how graphs are inferred; gives the outputs, None without a graph.
Rule: TypeAlias = Callable[[Call, Sequence["Fact | None"], Worlds, Body], "list[Fact] | None"]


def _graph(call: Call, name: str) -> Graph | None:
    graph = call.node.attributes.get(name)
    return graph if isinstance(graph, Graph) else None


def _number(call: Call, name: str, default: int = 0) -> int:
    value = call.node.attributes.get(name, default)
    return value if isinstance(value, int) else default


def _numbers(call: Call, name: str, count: int) -> list[int]:
    values = call.node.attributes.get(name)
    numbers = [v for v in values if isinstance(v, int)] if isinstance(values, tuple) else []
    return (numbers + [0] * count)[:count]


def _plain(fact: Fact | None) -> Fact:
    return replace(fact, elements=None) if isinstance(fact, TensorFact) else fact or UNKNOWN


def truth(fact: Fact | None, worlds: Worlds) -> bool | None:
    """A condition that is the same at any size; None where it is not known to be."""
    elements = elements_in(fact, worlds) if isinstance(fact, TensorFact) else {}
    values = {bool(array.reshape(-1)[0]) for array in elements.values() if array.size == 1}
    return values.pop() if len(values) == 1 and len(elements) == len(worlds.alive) else None


def _if(call: Call, operands: Sequence[Fact | None], worlds: Worlds, body: Body) -> list[Fact] | None:
    """A value is what either branch gives; only the branch that a constant condition takes."""
    branches = [(name, graph) for name in ("then_branch", "else_branch") if (graph := _graph(call, name)) is not None]
    if len(branches) != 2:
        return None
    taken = truth(operands[0], worlds)
    chosen = branches if taken is None else branches[:1] if taken else branches[1:]
    outcomes = [body(name, graph, ()) for name, graph in chosen]
    results = outcomes[0]
    for other in outcomes[1:]:
        results = [_either(a, b, worlds) for a, b in zip(results, other, strict=False)]
    return results


def _either(a: Fact, b: Fact, worlds: Worlds) -> Fact:
    """The same as `join`; an optional that one branch leaves empty has the other's element."""
    for one, other in ((a, b), (b, a)):
        if isinstance(one, Holder) and isinstance(other, Holder) and one.optional and one.element is UNKNOWN:
            return other
    return join(_plain(a), _plain(b), worlds)


@dataclass
class _Carried:
    """Values that go from one iteration to the next; sizes that change become unknown and stay it."""

    worlds: Worlds
    facts: list[Fact]
    changed: bool = False
    _opened: set[tuple[int, ...]] = field(default_factory=set)

    def take(self, outputs: Sequence[Fact]) -> None:
        self.changed = False
        self.facts = [self._widened(a, b) for a, b in zip(self.facts, outputs, strict=False)]

    def _widened(self, before: Fact, after: Fact) -> Fact:
        if isinstance(before, Holder) and isinstance(after, Holder) and before.optional == after.optional:
            return Holder(before.optional, self._widened(before.element, after.element))
        if isinstance(before, TensorFact) and isinstance(after, TensorFact):
            return self._tensor(before, after)
        if before is UNKNOWN or (type(before) is type(after) and before == after):
            return before
        self.changed = True
        return UNKNOWN

    def _tensor(self, before: TensorFact, after: TensorFact) -> TensorFact:
        dtype = before.dtype if before.dtype == after.dtype else None
        self.changed |= dtype != before.dtype
        if before.shape is None:
            return TensorFact(dtype, None)
        if after.shape is None or len(after.shape) != len(before.shape):
            self.changed = True
            return TensorFact(dtype, None)
        return TensorFact(dtype, tuple(self._size(p, q) for p, q in zip(before.shape, after.shape, strict=True)))

    def _size(self, before: Size, after: Size) -> Size:
        if self.worlds.key(before) in self._opened or self.worlds.same(before, after):
            return before
        self.changed = True
        size = self.worlds.fresh()
        self._opened.add(self.worlds.key(size))
        return size

    def forget(self) -> None:
        """Keep the element types alone."""
        self.facts = [TensorFact(f.dtype, None) if isinstance(f, TensorFact) else UNKNOWN for f in self.facts]


def _iterate(carried: _Carried, run: Callable[[Sequence[Fact]], list[Fact]]) -> list[Fact]:
    """The body's outputs once the facts of the carried values hold in every iteration."""
    count = len(carried.facts)
    for _ in range(_MAX_ROUNDS):
        outputs = run(carried.facts)
        carried.take(outputs[:count])
        if not carried.changed:
            return outputs
    carried.forget()
    return run(carried.facts)


def _loop(call: Call, operands: Sequence[Fact | None], worlds: Worlds, body: Body) -> list[Fact] | None:
    graph = _graph(call, "body")
    if graph is None:
        return None
    start = operands[1] if len(operands) > 1 else None
    goes_on = TensorFact(_BOOL, (), np.array(True)) if start is None or truth(start, worlds) else TensorFact(_BOOL, ())
    index = TensorFact(_INT64, ())
    carried = _Carried(worlds, [_plain(o) for o in operands[2:]])

    def run(facts: Sequence[Fact]) -> list[Fact]:
        outputs = body("body", graph, (index, goes_on, *facts))
        return [*outputs[1:], *outputs[:1]]

    outputs = _iterate(carried, run)
    trips = _trips(operands[0] if operands else None, truth(outputs[-1], worlds) is True, worlds) if outputs else 0
    scanned = [_stacked(fact, trips, 0) for fact in outputs[len(carried.facts) : -1]]
    return [*carried.facts, *scanned]


def _trips(limit: Fact | None, always: bool, worlds: Worlds) -> Size:
    """How often a loop runs: its limit where the body always goes on."""
    elements = elements_in(limit, worlds) if isinstance(limit, TensorFact) else {}
    if not always or not elements or any(array.size != 1 for array in elements.values()):
        return worlds.fresh()
    return worlds.gather({world: max(0, int(array.reshape(-1)[0])) for world, array in elements.items()})


def _stacked(fact: Fact, count: Size, axis: int) -> Fact:
    """Values of all iterations along a new axis."""
    if not isinstance(fact, TensorFact):
        return UNKNOWN
    if fact.shape is None or not -len(fact.shape) - 1 <= axis <= len(fact.shape):
        return TensorFact(fact.dtype, None)
    place = axis % (len(fact.shape) + 1)
    return TensorFact(fact.dtype, (*fact.shape[:place], count, *fact.shape[place:]))


def _without(fact: Fact | None, axes: Sequence[int]) -> Fact:
    """A value without some of its axes."""
    if not isinstance(fact, TensorFact) or fact.shape is None:
        return _plain(fact)
    rank = len(fact.shape)
    dropped = {axis % rank for axis in axes if -rank <= axis < rank}
    return TensorFact(fact.dtype, tuple(d for i, d in enumerate(fact.shape) if i not in dropped))


def _size_at(facts: Sequence[Fact | None], axes: Sequence[int], worlds: Worlds) -> Size:
    """The size that the scanned values have in their axes."""
    for fact, axis in zip(facts, axes, strict=False):
        if isinstance(fact, TensorFact) and fact.shape is not None and -len(fact.shape) <= axis < len(fact.shape):
            return fact.shape[axis]
    return worlds.fresh()


def _scan(call: Call, operands: Sequence[Fact | None], worlds: Worlds, body: Body) -> list[Fact] | None:
    """Operator set 8 has lengths as its first input, and a batch in front of every value."""
    graph, count = _graph(call, "body"), _number(call, "num_scan_inputs")
    batched = call.opset < 9
    values = list(operands[1:] if batched else operands)
    if graph is None or not 0 < count <= len(values):
        return None
    states, scanned = values[: len(values) - count], values[len(values) - count :]
    axes = [1] * count if batched else _numbers(call, "scan_input_axes", count)
    length = _size_at(scanned, axes, worlds)
    batch = _size_at(scanned, [0] * count, worlds)
    slices = [_without(fact, [axis, 0] if batched else [axis]) for fact, axis in zip(scanned, axes, strict=True)]
    carried = [_without(s, [0]) if batched else _plain(s) for s in states]
    outputs = body("body", graph, (*carried, *slices))
    if any(isinstance(f, TensorFact) and f.shape is None for f in carried):  # the shape of a state never changes
        carried = [refined(a, _plain(b), worlds) for a, b in zip(carried, outputs, strict=False)]
        outputs = body("body", graph, (*carried, *slices))
    rest = outputs[len(carried) :]
    places = [0] * len(rest) if batched else _numbers(call, "scan_output_axes", len(rest))
    results = [*carried, *(_stacked(fact, length, axis) for fact, axis in zip(rest, places, strict=True))]
    return [_stacked(fact, batch, 0) for fact in results] if batched else results


def _sequence_map(call: Call, operands: Sequence[Fact | None], worlds: Worlds, body: Body) -> list[Fact] | None:
    graph = _graph(call, "body")
    if graph is None:
        return None
    elements = [o.element if isinstance(o, Holder) else _plain(o) for o in operands]
    return [Holder(False, _plain(fact)) for fact in body("body", graph, elements)]


#: By operator of the default domain.
CONTROL: Mapping[str, Rule] = {"If": _if, "Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
