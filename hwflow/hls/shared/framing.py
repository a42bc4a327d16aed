"""Where the tensors of a shared stage are, and from when on the next frames may come in."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from types import MappingProxyType

from hwflow.stages.stage import Life, Place
from hwflow.stages.sweep import Sweep

from .frame_map import FrameMap, FrameMemoryFull, Over, busiest, chains_of, placed
from .in_place import InPlace, Lowerings
from .layout import LaidOut
from .states import written_over

BANKS = 2


def placed_in_banks(lives: Sequence[Life], words: int, apart: Mapping[tuple[str, str], int],
                    over: Mapping[str, Over] = MappingProxyType({}), *, word_bytes: int) -> FrameMap:
    """A place for each tensor in a memory of two banks of `words` / 2 words each; `over` as of `placed`.

    `apart` says what it is worth that two tensors are in different banks.  One tensor after another, in the order of
    their first steps, takes the bank that is worth more and has room, with those that are placed with it.  Where a
    tensor has room in neither, the banks are one memory.  FrameMemoryFull as of `placed`.
    """
    half = words // BANKS
    banks: list[list[Life]] = [[] for _ in range(BANKS)]
    of: dict[str, int] = {}

    def placed_inside(alive: Sequence[Life]) -> FrameMap:
        return placed(alive, half, word_bytes=word_bytes, over={life.tensor: over[life.tensor] for life in alive
                                                                if life.tensor in over})

    for chain in sorted(([lives[k] for k in chain] for chain in chains_of(lives, over)),
                        key=lambda chain: min((life.first, life.last) for life in chain)):
        own = {life.tensor for life in chain}
        worth = [0] * BANKS
        for (a, b), value in apart.items():
            other = b if a in own else a if b in own else None
            if other in of and (a in own) is not (b in own):
                worth[1 - of[other]] += value
        for bank in sorted(range(BANKS), key=lambda k: (-worth[k], k)):
            if fits(placed_inside, [*banks[bank], *chain]):
                banks[bank] += chain
                of |= dict.fromkeys(own, bank)
                break
        else:
            return placed(lives, words, word_bytes=word_bytes, over=over)
    maps = [placed_inside(alive) for alive in banks]
    places: list[Place] = [replace(place, base=place.base + bank * half)
                           for bank, frame_map in enumerate(maps) for place in frame_map.places]
    return FrameMap(tuple(sorted(places, key=lambda place: (place.first, place.last, place.base))))


def fits(place: Callable[[Sequence[Life]], FrameMap], lives: Sequence[Life]) -> bool:
    """Whether `place` has room for them."""
    try:
        place(lives)
    except FrameMemoryFull:
        return False
    return True


@dataclass(frozen=True, kw_only=True)
class ProgramSizes:
    """The sizes that a program is made for.

    The fields up to `banks` are those of `SharedShape`; without `words` the frame memory is as large as it must be.
    With `sliding`, the array keeps words for windows that slide, where there are some.  `bands` are those of `InPlace`.
    Frames that come from other stages are let in while others are computed: as early as that takes no more than
    `words_ahead` further words, so that no queue has to hold them.
    """

    columns: int
    lanes: int
    interval: int
    words: int | None
    single_port: bool
    buffer: int
    stream_rows: int
    banks: int = 1
    sliding: bool = False
    bands: int = 0
    words_ahead: int = 0


@dataclass(frozen=True)
class Framed:
    """`sweeps` in order, and the places of their tensors.

    `opens` is the sweep with which the next frames are let in, their number for the one after all; 0: the frames of
    this run; None: each input when it is first read.
    """

    sweeps: list[Sweep]
    frames: FrameMap
    opens: int | None


def framed_for(laid: LaidOut, outputs: Sequence[str], early: Set[str], lowerings: Lowerings,
               sizes: ProgramSizes) -> Framed:
    """Places for all tensors of `laid`; those in `early` may come in while others are computed.

    Tensors are in place (`bands`) where that takes fewer words.  Without `words`, the map has as few as are found, and
    `words_ahead` more for the frames that come in.  FrameMemoryFull where `words` are too few.
    """
    sweeps, words = laid.sweeps, sizes.words
    over = laid.together | written_over(sweeps, laid, lowerings)
    lives = lives_of(sweeps, laid, outputs, early)
    if words is not None and sizes.banks > 1:
        frames = placed_in_banks(lives, words, apart(laid), over, word_bytes=laid.columns)
        return Framed(sweeps, frames, 0 if early else None)
    if sizes.bands:
        untouched = frozenset([*early, *outputs, *laid.views.fixed, *laid.kept])
        cut, taken_over = InPlace(lowerings, untouched, sizes.bands,
                             lambda sweeps: lives_of(sweeps, laid, outputs, early)).found()
        shorter, taken_over = lives_of(cut, laid, outputs, early), taken_over | over
        if placed(shorter, over=taken_over).words < placed(lives, over=over).words:
            sweeps, over, lives = cut, taken_over, shorter
    frames = placed(lives, words, word_bytes=laid.columns, over=over)
    if not early or sizes.single_port:
        return Framed(sweeps, frames, 0 if early else None)
    return Framed(sweeps, *let_in_early(lives, frames, early, over, words or frames.words + sizes.words_ahead))


def apart(laid: LaidOut) -> Counter[tuple[str, str]]:
    """Count what it is worth that two tensors are in different banks."""
    reads = Counter[tuple[str, str]]()
    for sweep in laid.sweeps:
        for name in (made for x in sweep.inputs for made in laid.views.made(x.name)):
            reads[name, sweep.output.name] += sweep.output.frame.elements
    return reads


def let_in_early(lives: Sequence[Life], frames: FrameMap, early: Set[str], over: Mapping[str, Over], words: int
                 ) -> tuple[FrameMap, int]:
    """A map of at most `words` words and the first sweep during which the frames of the next run may come in: the
    earliest that is found; 0 for none, with the map `frames`."""
    read = 1 + max(life.last for life in lives if life.tensor in early)
    for again in range(read, max(life.last for life in lives) + 1):
        longer = [replace(life, again=again) if life.tensor in early else life for life in lives]
        if busiest(longer, chains_of(longer, over))[1] <= words:
            places = placed(longer, over=over)
            if places.words <= words:
                return places, again
    return frames, 0


def lives_of(sweeps: Sequence[Sweep], laid: LaidOut, outputs: Sequence[str], early: Set[str]) -> list[Life]:
    """From the sweep that writes a tensor first to the one that reads it last; the outputs are read after all, then
    next values of states, and the tensors in `early` may come from the beginning on.  States are there all the time,
    what a frame begins with from the beginning on."""
    begins = filter(None, [laid.begins_with])
    first: dict[str, int] = dict.fromkeys([*early, *begins, *(state.read for state in laid.states)], 0)
    last: dict[str, int] = {made: len(sweeps) for name in outputs for made in laid.views.made(name)}
    last |= {made: len(sweeps) + 1 for name in laid.kept for made in laid.views.made(name)}
    for waits in laid.waiting:
        first[waits.name] = last[waits.name] = len(sweeps) + 1
    made_by: dict[str, str] = {state.read: f"state '{state.read}'" for state in laid.states}
    for number, sweep in enumerate(sweeps):
        for x in sweep.inputs:
            for name in laid.views.made(x.name):
                first.setdefault(name, number)
                made_by.setdefault(name, f"input '{name}'")
                last[name] = max(last.get(name, 0), number)
        first.setdefault(sweep.output.name, number)
        made_by.setdefault(sweep.output.name, f"layer '{sweep.layer}'")
        last[sweep.output.name] = max(last.get(sweep.output.name, 0), number)
    for name in last:  # an input that leaves alone
        first.setdefault(name, len(sweeps))
    return [Life(name, laid.words(tensor), first[name], last[name], made_by.get(name, f"input '{name}'"))
            for name, tensor in laid.tensors.items() if name in last]
