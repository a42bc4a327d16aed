"""Where tensors are in the frame memory of a shared stage: words that are free again are used again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from hwflow_base.errors import AnswerIsNo

__all__ = ["FrameMap", "FrameMemoryFull", "Life", "Place", "placed"]

#: So many tensors are tried in every order; of more, the best of some orders is taken.
EVERY_ORDER = 6
#: Orders that are tried where the first ones leave gaps.
ORDERS = 300
#: Tensors that are named where there is no room for them.
MOST = 4


@dataclass(frozen=True)
class Life:
    """`words` words are needed for `tensor` from step `first` to step `last`, both included.

    `of` says for people what makes the tensor.
    """

    tensor: str
    words: int
    first: int
    last: int
    of: str = ""

    def meets(self, other: Life) -> bool:
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Place(Life):
    """A tensor in the words from `base` on."""

    base: int = 0


@dataclass(frozen=True)
class FrameMap:
    """The places of all tensors, in the order of their first steps."""

    places: tuple[Place, ...]

    @property
    def words(self) -> int:
        """Of the memory that is used."""
        return max((place.base + place.words for place in self.places), default=0)

    def __getitem__(self, tensor: str) -> Place:
        return next(place for place in self.places if place.tensor == tensor)


class FrameMemoryFull(AnswerIsNo):
    """Tensors that are needed at the same time do not fit the frame memory."""


def placed(lives: Sequence[Life], words: int | None = None, *, word_bytes: int = 1) -> FrameMap:
    """A place for each tensor: no two that are alive in one step share a word.

    FrameMemoryFull where `words` words of `word_bytes` bytes are too few; None is as few as are found.
    """
    step, least = busiest(lives)
    if words is not None and least > words:
        raise full([life for life in lives if life.first <= step <= life.last], least, words, word_bytes)
    best: dict[int, int] = {}
    peak = -1
    near = [[j for j, other in enumerate(lives) if life.meets(other)] for life in lives]
    for order in orders(lives):
        bases = lowest(lives, near, order)
        found = max((base + lives[k].words for k, base in bases.items()), default=0)
        if peak < 0 or found < peak:
            best, peak = bases, found
        if peak == least or (words is not None and peak <= words):
            break
    if words is not None and peak > words:
        raise full([life for life in lives if life.first <= step <= life.last], peak, words, word_bytes)
    found_places = [Place(life.tensor, life.words, life.first, life.last, life.of, best[k])
                    for k, life in enumerate(lives)]
    return FrameMap(tuple(sorted(found_places, key=lambda place: (place.first, place.last, place.base))))


def busiest(lives: Sequence[Life]) -> tuple[int, int]:
    """The step in which most words are alive, and how many: no map needs fewer."""
    alive = {step: sum(life.words for life in lives if life.first <= step <= life.last)
             for step in {life.first for life in lives}}
    return max(alive.items(), key=lambda item: (item[1], -item[0]), default=(0, 0))


def lowest(lives: Sequence[Life], near: Sequence[Sequence[int]], order: Sequence[int]) -> dict[int, int]:
    """The first word of each tensor: one after another takes the lowest gap that is large enough for it.

    `near` are for each tensor those that it meets.
    """
    bases: dict[int, int] = {}
    for k in order:
        taken = sorted((bases[j], bases[j] + lives[j].words) for j in near[k] if j in bases)
        base = 0
        for first, end in taken:
            if first - base >= lives[k].words:
                break
            base = max(base, end)
        bases[k] = base
    return bases


def orders(lives: Sequence[Life]) -> Iterator[Sequence[int]]:
    """Orders in which to place the tensors, the most promising ones first.

    Some order gives the smallest map there is: that of its bases.
    """
    names = range(len(lives))
    yield sorted(names, key=lambda k: (-lives[k].words, lives[k].first))
    yield sorted(names, key=lambda k: (lives[k].first - lives[k].last, -lives[k].words))
    yield sorted(names, key=lambda k: -lives[k].words * (lives[k].last - lives[k].first + 1))
    yield sorted(names, key=lambda k: lives[k].first)
    if len(lives) <= EVERY_ORDER:
        yield from permutations(names)
        return
    shuffle = random.Random(0)  # the same map for the same network
    order = sorted(names, key=lambda k: -lives[k].words)
    for _ in range(ORDERS):
        changed = order.copy()
        for _ in range(shuffle.randint(1, 3)):
            moved = changed.pop(shuffle.randrange(len(changed)))
            changed.insert(shuffle.randrange(len(changed) + 1), moved)
        yield changed


def full(alive: Sequence[Life], need: int, words: int, word_bytes: int) -> FrameMemoryFull:
    """The error: which tensors do not fit, how many bytes they have, and what helps."""
    largest = sorted(alive, key=lambda life: -life.words)
    named = ", ".join(f"{life.of or life.tensor} {life.words * word_bytes}" for life in largest[:MOST])
    more = f" and {len(alive) - MOST} more" if len(alive) > MOST else ""
    return FrameMemoryFull(
        f"tensors that are needed at the same time must fit the {words * word_bytes} bytes of the frame memory, not "
        f"take {need * word_bytes}: {named}{more}", "use a smaller input, fewer channels, or a board with more memory")
