"""Where tensors are in the frame memory of a shared stage: words that are free again are used again."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from types import MappingProxyType

import numpy as np
from hwflow_base.errors import AnswerIsNo

from hwflow.stages.stage import Life, Place

#: So many tensors are tried in every order; of more, the best of some orders is taken.
EVERY_ORDER = 6
#: Orders that are tried where the first ones leave gaps.
ORDERS = 300
#: Tensors that are named where there is no room for them.
MOST = 4


@dataclass(frozen=True)
class Over:
    """A tensor begins `offset` words after `tensor`, whose words it takes in the step that reads these last."""

    tensor: str
    offset: int


@dataclass(frozen=True)
class FrameMap:
    """The places of all tensors, in the order of their first steps."""

    places: tuple[Place, ...]

    @property
    def words(self) -> int:
        """The words of the memory that is used."""
        return max((place.base + place.words for place in self.places), default=0)

    def __getitem__(self, tensor: str) -> Place:
        return next(place for place in self.places if place.tensor == tensor)


class FrameMemoryFull(AnswerIsNo):
    """Tensors that are needed at the same time do not fit the frame memory."""


def placed(lives: Sequence[Life], words: int | None = None, *, word_bytes: int = 1,
           over: Mapping[str, Over] = MappingProxyType({})) -> FrameMap:
    """A place for each tensor: no two that are alive in one step share a word, but those that `over` puts together.

    FrameMemoryFull where `words` words of `word_bytes` bytes are too few; None is as few as are found.
    """
    chains = chains_of(lives, over)
    step, least = busiest(lives, chains)
    if words is not None and least > words:
        raise full([life for life in lives if life.needed(step)], least, words, word_bytes)
    best: dict[int, int] = {}
    peak = -1
    chain_of = {k: chain for chain in chains for k in chain}
    near = [[j for j, other in enumerate(lives) if life.meets(other) and j not in chain_of[k]]
            for k, life in enumerate(lives)]
    for order in orders(lives):
        bases = lowest(lives, near, order, chain_of)
        top = max((base + lives[k].words for k, base in bases.items()), default=0)
        if peak < 0 or top < peak:
            best, peak = bases, top
        if peak == least or (words is not None and peak <= words):
            break
    if words is not None and peak > words:
        raise full([life for life in lives if life.needed(step)], peak, words, word_bytes)
    found_places = [Place(life.tensor, life.words, life.first, life.last, life.of, life.again, best[k])
                    for k, life in enumerate(lives)]
    return FrameMap(tuple(sorted(found_places, key=lambda place: (place.first, place.last, place.base))))


#: Tensors that are placed together, by their number, with the words from the first of them to each.
Chain = Mapping[int, int]


def chains_of(lives: Sequence[Life], over: Mapping[str, Over]) -> list[Chain]:
    """The tensors that are placed together: each but the first is over another one."""
    numbers = {life.tensor: k for k, life in enumerate(lives)}
    offsets: dict[str, tuple[str, int]] = {}

    def from_first(name: str) -> tuple[str, int]:
        if name not in offsets:
            first, offset = from_first(over[name].tensor) if name in over else (name, 0)
            offsets[name] = first, offset + (over[name].offset if name in over else 0)
        return offsets[name]

    places: dict[str, dict[int, int]] = {}
    for name, k in numbers.items():
        first, offset = from_first(name)
        places.setdefault(first, {})[k] = offset
    return [{k: offset - min(chain.values()) for k, offset in chain.items()} for chain in places.values()]


def busiest(lives: Sequence[Life], chains: Sequence[Chain] | None = None) -> tuple[int, int]:
    """The step in which most words are alive, and how many: no map needs fewer."""
    if not lives:
        return 0, 0
    words = np.array([life.words for life in lives])
    first, last = (np.array([getattr(life, name) for life in lives])[:, None] for name in ("first", "last"))
    again = np.array([np.inf if life.again is None else life.again for life in lives])[:, None]
    steps = np.unique(np.concatenate([first, again[np.isfinite(again)][:, None].astype(int)]))
    needed = ((first <= steps) & (steps <= last)) | (steps >= again)  # [lives, steps]
    alive = words @ needed
    for chain in [] if chains is None else chains:
        if len(chain) > 1:  # from the first of them to the end of the last one
            numbers, offsets = np.array(list(chain)), np.array(list(chain.values()))[:, None]
            on, ends = needed[numbers], offsets + words[numbers, None]
            beyond = int(ends.max())
            span = np.where(on, ends, 0).max(axis=0) - np.where(on, offsets, beyond).min(axis=0)
            alive += np.where(on.any(axis=0), span, 0) - words[numbers] @ on
    return int(steps[alive.argmax()]), int(alive.max())


def lowest(lives: Sequence[Life], near: Sequence[Sequence[int]], order: Sequence[int],
           chain_of: Mapping[int, Chain]) -> dict[int, int]:
    """The first word of each tensor: one chain after another takes the lowest place where it meets no other.

    `near` are for each tensor those of other chains that it meets.
    """
    bases: dict[int, int] = {}
    for number in order:
        if number in bases:
            continue
        chain, base = chain_of[number], 0
        taken = sorted((bases[j] - lives[k].words - offset, bases[j] + lives[j].words - offset)
                       for k, offset in chain.items() for j in near[k] if j in bases)
        for first, end in taken:  # a chain that begins between the two meets the other tensor
            if first >= base:
                break
            base = max(base, end)
        bases |= {k: base + offset for k, offset in chain.items()}
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
