"""A loop written out round by round, and the lists that it fills with its states.

TensorFlow collects what a loop computes in a list, a tensor that is carried along and has a part of it replaced in each
round (Slice and Concat, a scatter).  Which state an element of the last list is, is found by running the nodes that
move elements on numbers of elements.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.model import Array, Node
from hwflow.onnx.operators import LAYOUT, MOVES, PADS, RESIZES
from hwflow.onnx.ops.base import Known
from hwflow.onnx.run.evaluate import evaluate_nodes

#: What moves elements, and puts in no others.
MOVING = (LAYOUT | MOVES | {"Identity"}) - PADS - RESIZES
#: What puts elements of several tensors into one.
_JOINING = MOVING | {"Concat", "ScatterND", "ScatterElements"}


@dataclass(frozen=True)
class Round:
    """One round: the names of its carried values before and after it, of the rows that it adds, and the place of its
    first node.
    """

    before: tuple[str, ...]
    after: tuple[str, ...]
    rows: tuple[str, ...]
    start: int

    @property
    def changing(self) -> set[str]:
        """The carried values before it that it does not hand on as they are."""
        return {before for before, after in zip(self.before, self.after, strict=True) if before != after}


@dataclass(frozen=True)
class Unrolled:
    """A loop written out: its rounds, the nodes of each, and `ends`, which make its results of them."""

    node: Node
    rounds: Sequence[Round]
    nodes: Sequence[Sequence[Node]]
    ends: Sequence[Node]
    known: Mapping[str, Known]
    opsets: Mapping[str, int]

    @property
    def results(self) -> list[str]:
        """The results that somebody reads."""
        return [node.outputs[0] for node in self.ends if node.outputs[0] in self.node.outputs]


#: For the place of a carried value that is a list: the nodes of each round that make the next list.
Lists: TypeAlias = Mapping[int, Sequence[Sequence[Node]]]


def lists_of(loop: Unrolled) -> Lists:
    """The carried values that a round only makes of what is carried, by moving elements."""
    found = {}
    for place in range(len(loop.rounds[0].after)):
        ways = [_way(nodes, turn.after[place], {*turn.before, *turn.after}, loop.known)
                for nodes, turn in zip(loop.nodes, loop.rounds, strict=True)]
        known = [way for way in ways if way]
        if len(known) == len(ways):
            found[place] = known
    return found


def _way(nodes: Sequence[Node], name: str, carried: Collection[str], known: Mapping[str, Known]) -> list[Node] | None:
    """The nodes that make `name` of other carried values; None where others than moves do, or of other tensors."""
    needed, way = {name}, list[Node]()
    for node in reversed(nodes):
        if not needed.intersection(node.outputs):
            continue
        if node.domain or node.op_type not in _JOINING:
            return None
        way.insert(0, node)
        needed.difference_update(node.outputs)
        needed.update(each for each in node.inputs if each and each not in carried and known[each].value is None)
    return None if needed else way


def places_in(loop: Unrolled, ways: Sequence[Sequence[Node]], place: int, state: int) -> Array:
    """For each element of the last list at `place` its number among the states of all rounds, side by side.

    `state` is the place of the carried value whose elements it must have.  HwflowError where it has others.
    """
    first = loop.rounds[0]
    numbers: dict[str, Array] = {
        first.before[k]: np.full(loop.known[first.before[k]].shape, -1, np.int64) for k in (place, state)}
    for count, (way, turn) in enumerate(zip(ways, loop.rounds, strict=True)):
        shape = loop.known[turn.after[state]].shape
        size = int(np.prod(shape))
        numbers[turn.after[state]] = np.arange(count * size, (count + 1) * size).reshape(shape)
        numbers[turn.after[place]] = _moved(way, turn.after[place], numbers, loop)
    found = np.asarray(numbers[loop.rounds[-1].after[place]], np.int64)
    if found.size == 0 or (found < 0).any():
        raise HwflowError("a list must be filled by the rounds")
    return found


def _moved(way: Sequence[Node], name: str, numbers: Mapping[str, Array], loop: Unrolled) -> Array:
    """What nodes make of numbers of elements."""
    made = {output for node in way for output in node.outputs}
    read = list(dict.fromkeys(each for node in way for each in node.inputs if each and each not in made))
    constants = {each: array if array.dtype.kind in "iub" else np.full(array.shape, -1, np.int64)  # places, or elements
                 for each in read if (array := loop.known[each].value) is not None and each not in numbers}
    if missing := [each for each in read if each not in constants and each not in numbers]:
        raise HwflowError(f"a list must be made of states, not of {missing[0]}")
    fed = {each: numbers[each] for each in read if each in numbers}
    return np.asarray(evaluate_nodes(way, fed, [name], loop.opsets, constants)[name], np.int64)
