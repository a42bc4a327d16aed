"""Types of operators that run graphs (If, Loop, Scan, SequenceMap), and of those on sequences and optionals."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeAlias

import numpy as np

from hwflow.onnx.inference.by_rule import Contradiction
from hwflow.onnx.inference.facts import UNKNOWN, Fact, Holder, TensorFact, elements_in, fact_of, join, refined
from hwflow.onnx.inference.schema_types import attribute_dtype
from hwflow.onnx.inference.worlds import Size, Worlds
from hwflow.onnx.model import Graph, MapType, OptionalType, SequenceType, TensorType
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
    """Without elements: what one of many is."""
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


#: Takes the call, its operands, and the worlds; gives the outputs.
_OfSequence: TypeAlias = Callable[[Call, Sequence[Fact | None], Worlds], list[Fact]]


def _element(fact: Fact | None) -> Fact:
    return fact.element if isinstance(fact, Holder) else UNKNOWN


def _joined(facts: Sequence[Fact | None], worlds: Worlds) -> Fact:
    fact = _plain(facts[0]) if facts else UNKNOWN
    for other in facts[1:]:
        fact = join(fact, _plain(other), worlds)
    return fact


def _construct(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [Holder(False, _joined(operands, worlds))]


def _empty(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    dtype = attribute_dtype(call, "dtype") or np.dtype(np.float32)
    return [Holder(False, TensorFact(dtype, None))]


def _at(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [_element(operands[0])]


def _insert(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [Holder(False, join(_element(operands[0]), _plain(operands[1]), worlds))]


def _erase(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [operands[0] or UNKNOWN]


def _length(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [TensorFact(_INT64, ())]


def _split_to_sequence(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    """Parts of equal size where the size is one constant that divides the axis, and without their axis by default."""
    x = operands[0]
    if not isinstance(x, TensorFact) or x.shape is None:
        return [Holder(False, TensorFact(x.dtype, None) if isinstance(x, TensorFact) else UNKNOWN)]
    axis = call.node.attributes.get("axis", 0)
    rank = len(x.shape)
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return [Holder(False, TensorFact(x.dtype, None))]
    place = axis % rank
    split = operands[1] if len(operands) > 1 else None
    if split is None:
        part: tuple[Size, ...] = (1,) if call.node.attributes.get("keepdims", 1) else ()
    else:
        part = (_part(split, x.shape[place], worlds),)
    return [Holder(False, TensorFact(x.dtype, (*x.shape[:place], *part, *x.shape[place + 1 :])))]


def _part(split: Fact, whole: Size, worlds: Worlds) -> Size:
    sizes = split.elements if isinstance(split, TensorFact) else None
    if not isinstance(sizes, np.ndarray) or not sizes.size:
        return worlds.fresh()
    first, least = int(sizes.reshape(-1)[0]), 0 if sizes.ndim else 1
    if int(sizes.min()) < least:
        raise Contradiction(f"'split' must be {least} or more, not {int(sizes.min())}")
    if sizes.ndim:
        return first if bool((sizes == first).all()) else worlds.fresh()
    return first if isinstance(whole, int) and whole % first == 0 else worlds.fresh()


def _concat_from_sequence(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    x = _element(operands[0])
    if not isinstance(x, TensorFact) or x.shape is None:
        return [TensorFact(x.dtype, None) if isinstance(x, TensorFact) else UNKNOWN]
    axis, new = call.node.attributes.get("axis"), bool(call.node.attributes.get("new_axis", 0))
    rank = len(x.shape) + new
    if not isinstance(axis, int) or not -rank <= axis < rank:
        return [TensorFact(x.dtype, None)]
    place = axis % rank
    rest = x.shape[place:] if new else x.shape[place + 1 :]
    return [TensorFact(x.dtype, (*x.shape[:place], worlds.fresh(), *rest))]


def _optional(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    if operands and operands[0] is not None:
        return [Holder(True, _plain(operands[0]))]
    stated = call.node.attributes.get("type")
    known = isinstance(stated, (TensorType, SequenceType, OptionalType))
    return [Holder(True, fact_of(stated, worlds) if known else UNKNOWN)]  # type: ignore[arg-type]


def _get_element(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    x = operands[0]
    return [x.element if isinstance(x, Holder) and x.optional else x or UNKNOWN]


def _has_element(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    return [TensorFact(_BOOL, ())]


def _zip_map(call: Call, operands: Sequence[Fact | None], worlds: Worlds) -> list[Fact]:
    texts = bool(call.node.attributes.get("classlabels_strings"))
    value = TensorType(np.dtype(np.float32), None)
    return [Holder(False, MapType(np.dtype(np.object_) if texts else _INT64, value))]


#: By domain and operator.
SEQUENCES: Mapping[tuple[str, str], _OfSequence] = {
    ("", "ConcatFromSequence"): _concat_from_sequence,
    ("", "Optional"): _optional,
    ("", "OptionalGetElement"): _get_element,
    ("", "OptionalHasElement"): _has_element,
    ("", "SequenceAt"): _at,
    ("", "SequenceConstruct"): _construct,
    ("", "SequenceEmpty"): _empty,
    ("", "SequenceErase"): _erase,
    ("", "SequenceInsert"): _insert,
    ("", "SequenceLength"): _length,
    ("", "SplitToSequence"): _split_to_sequence,
    ("ai.onnx.ml", "ZipMap"): _zip_map,
}
