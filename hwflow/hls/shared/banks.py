"""Where tensors are in a frame memory of two banks: a step that reads one bank and writes the other never waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hwflow.stages.stage import Life, Place

from .frame_map import FrameMap, FrameMemoryFull, placed

BANKS = 2


def placed_in_banks(lives: Sequence[Life], words: int, apart: Mapping[tuple[str, str], int], *,
                    word_bytes: int) -> FrameMap:
    """A place for each tensor in a memory of two banks of `words` / 2 words each.

    `apart` says what it is worth that two tensors are in different banks.  One tensor after another, in the order of
    their first steps, takes the bank that is worth more and has room.  Where a tensor has room in neither, the banks
    are one memory.  FrameMemoryFull as of `placed`.
    """
    half = words // BANKS
    banks: list[list[Life]] = [[] for _ in range(BANKS)]
    of: dict[str, int] = {}
    for life in sorted(lives, key=lambda life: (life.first, life.last)):
        worth = [0] * BANKS
        for (a, b), value in apart.items():
            other = b if a == life.tensor else a if b == life.tensor else None
            if other in of:
                worth[1 - of[other]] += value
        for bank in sorted(range(BANKS), key=lambda k: (-worth[k], k)):
            if fits([*banks[bank], life], half, word_bytes):
                banks[bank].append(life)
                of[life.tensor] = bank
                break
        else:
            return placed(lives, words, word_bytes=word_bytes)
    maps = [placed(alive, half, word_bytes=word_bytes) for alive in banks]
    places: list[Place] = [replace(place, base=place.base + bank * half)
                           for bank, found in enumerate(maps) for place in found.places]
    return FrameMap(tuple(sorted(places, key=lambda place: (place.first, place.last, place.base))))


def fits(lives: Sequence[Life], words: int, word_bytes: int) -> bool:
    try:
        placed(lives, words, word_bytes=word_bytes)
    except FrameMemoryFull:
        return False
    return True
