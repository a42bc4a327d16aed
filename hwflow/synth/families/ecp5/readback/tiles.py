"""The bits of tiles: which option of each choice they take, and which of them something explains.

All tiles of a kind are decided together, bit by bit over the tiles; an LFE5U-85F has ten thousand tiles of logic.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from .container import Bits
from .database import BitGroup, Choice, Device, Tile, TileKind

#: No option fits; several do that say as much.
NONE, SEVERAL = -1, -2
Index = npt.NDArray[np.int16]


@dataclass
class Decided:
    """The tiles of one kind: their bits [frame, bit, tile], what each choice takes, and the bits that were explained.

    The choices are muxes under ("mux", wire) and settings under ("setting", name).
    """

    kind: TileKind
    tiles: Sequence[Tile]
    bits: Bits
    known: Bits
    taken: dict[tuple[str, str], Index] = field(default_factory=dict)
    others: dict[str, frozenset[tuple[int, int]]] = field(default_factory=dict)
    somewhere: list[list[bool]] = field(init=False)

    def __post_init__(self) -> None:
        self.somewhere = np.any(self.bits, axis=2).tolist()

    def fits_at(self, group: BitGroup, tile: int) -> bool:
        """Whether the bits of one tile are those of `group`."""
        return all(bool(self.bits[frame, bit, tile]) == value for frame, bit, value in group)

    def fits(self, group: BitGroup) -> Bits:
        """The tiles whose bits are those of `group`."""
        result = np.ones(len(self.tiles), np.bool_)
        for frame, bit, value in group:
            result &= self.bits[frame, bit] if value else ~self.bits[frame, bit]
        return result

    def decide(self, what: str, choice: Choice) -> Index:
        """For each tile the option with the most bits of those that fit."""
        key = what, choice.name
        if key not in self.taken:
            taken = np.full(len(self.tiles), NONE, np.int16)
            most = np.full(len(self.tiles), -1, np.int16)
            for number, (_, group) in enumerate(choice.options):
                if any(value and not self.somewhere[frame][bit] for frame, bit, value in group):
                    continue
                fits, size = self.fits(group), len(group)
                taken[fits & (most == size)] = SEVERAL
                better = fits & (most < size)
                taken[better], most[better] = number, size
            self.taken[key] = taken
        return self.taken[key]

    def changed(self, name: str) -> frozenset[tuple[int, int]]:
        """The bits of other settings of the cell that the setting `name`, as "EBR0.MODE", is of."""
        if name not in self.others:
            cell = name.partition(".")[0] + "."
            self.others[name] = frozenset(
                (frame, bit) for other, choice in self.kind.settings.items()
                if other.startswith(cell) and other != name for _, group in choice.options for frame, bit, _ in group)
        return self.others[name]

    def explain(self, group: BitGroup, tile: int) -> None:
        """The bits of `group` that are 1 have a meaning in this tile."""
        for frame, bit, value in group:
            if value:
                self.known[frame, bit, tile] = True


@dataclass(frozen=True)
class On:
    """A switch that is on: in a tile (`number` of its kind) `source` drives `sink`, names as the database has them."""

    decided: Decided
    number: int
    sink: str
    source: str
    several: bool

    @property
    def tile(self) -> Tile:
        return self.decided.tiles[self.number]


class TileBits:
    """The frames of a device as bits of its tiles."""

    def __init__(self, device: Device, frames: Bits):
        self.device, self.frames = device, frames
        by_kind: dict[str, list[Tile]] = defaultdict(list)
        for tile in device.tiles:
            by_kind[tile.kind].append(tile)
        self.kinds: dict[str, Decided] = {}
        self.at: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
        for name, tiles in by_kind.items():
            bits = np.stack([frames[tile.frame:tile.frame + tile.frames, tile.bit:tile.bit + tile.bits]
                             for tile in tiles], axis=2)
            self.kinds[name] = Decided(device.kind(name), tiles, bits, np.zeros_like(bits))
            for number, tile in enumerate(tiles):
                self.at[tile.row, tile.column].append((name, number))

    def switches(self) -> Iterator[On]:
        """All switches that a bit is set for."""
        for decided in self.kinds.values():
            if not decided.bits.any():
                continue
            for mux in decided.kind.muxes.values():
                yield from self.on(decided, mux)

    def on(self, decided: Decided, mux: Choice) -> Iterator[On]:
        taken = decided.decide("mux", mux)
        for option in np.unique(taken[taken != NONE]).tolist():
            source, group = mux.options[option] if option != SEVERAL else ("several", ())
            if option != SEVERAL and not any(value for _, _, value in group):
                continue  # drives where nothing is set: looked up when it is asked for
            for number in np.flatnonzero(taken == option).tolist():
                decided.explain(group, number)
                yield On(decided, number, mux.name, source, option == SEVERAL)

    def place(self, row: int, column: int, kinds: str = ".*") -> Place:
        """The tiles there whose kind is one of `kinds`, a regular expression."""
        return Place([(self.kinds[name], number) for name, number in self.at.get((row, column), ())
                      if re.fullmatch(kinds, name)])

    def usual(self) -> None:
        """Settings that have the value that they have in a device where nothing is used are explained."""
        for decided in self.kinds.values():
            for choice in decided.kind.settings.values():
                groups = [group for value, group in choice.options if value == choice.default]
                if groups and any(value for _, _, value in groups[0]):
                    number = [value for value, _ in choice.options].index(str(choice.default))
                    for tile in np.flatnonzero(decided.decide("setting", choice) == number).tolist():
                        decided.explain(groups[0], tile)

    def unexplained(self, constants: Mapping[str, frozenset[tuple[int, int]]]) -> Iterator[tuple[str, int, int]]:
        """Bits that are 1 and have no meaning: tile, frame and bit in it; but for the `constants` of each kind."""
        known = np.zeros_like(self.frames)
        for decided in self.kinds.values():
            for frame, bit in constants.get(decided.kind.name, ()):
                decided.known[frame, bit] = True
            for number, tile in enumerate(decided.tiles):
                known[tile.frame:tile.frame + tile.frames, tile.bit:tile.bit + tile.bits] |= decided.known[:, :, number]
        left = np.argwhere(self.frames & ~known)
        numbers = self.numbers()[left[:, 0], left[:, 1]] if len(left) else left
        for number, (frame, bit) in zip(numbers.tolist(), left.tolist(), strict=True):
            at = self.device.tiles[number] if number >= 0 else None
            yield (at.name, frame - at.frame, bit - at.bit) if at else ("outside of all tiles", frame, bit)

    def numbers(self) -> npt.NDArray[np.int32]:
        """Of each bit of each frame the number of its tile, the first one that has it; -1 where none has."""
        found = np.full(self.frames.shape, -1, np.int32)
        for number, tile in reversed(list(enumerate(self.device.tiles))):
            found[tile.frame:tile.frame + tile.frames, tile.bit:tile.bit + tile.bits] = number
        return found


class Place:
    """Tiles that configure something together.  What is read of them is explained."""

    def __init__(self, tiles: Sequence[tuple[Decided, int]]):
        self.tiles = tiles

    def __add__(self, other: Place) -> Place:
        return Place([*self.tiles, *other.tiles])

    @property
    def name(self) -> str:
        return self.tiles[0][0].tiles[self.tiles[0][1]].name if self.tiles else "no tile"

    def setting(self, name: str) -> str | None:
        """The value that the bits of all tiles with this setting fit, with the most bits; None where none does, or
        several say as much."""
        found = [(decided, number, decided.kind.settings[name]) for decided, number in self.tiles
                 if name in decided.kind.settings]
        if len(found) == 1:  # decided for all tiles of the kind at once
            decided, number, choice = found[0]
            option = int(decided.decide("setting", choice)[number])
            if option < 0:
                return None
            decided.explain(choice.options[option][1], number)
            return choice.options[option][0]
        values = self.values(name)
        return values[0] if len(values) == 1 else None

    def base(self, name: str) -> list[str]:
        """The same of a setting whose bits others of the same cell change: without these bits."""
        return self.values(name, lambda decided: decided.changed(name))

    def values(self, name: str, changed: Callable[[Decided], frozenset[tuple[int, int]]] = lambda _: frozenset()
               ) -> list[str]:
        """The values that the bits of all tiles with this setting fit, those with the most bits."""
        found = [(decided, number, decided.kind.settings[name]) for decided, number in self.tiles
                 if name in decided.kind.settings]
        sizes: dict[str, int] = {}
        groups: dict[str, list[tuple[Decided, int, BitGroup]]] = defaultdict(list)
        for decided, number, choice in found:
            without = changed(decided)
            for value, group in choice.options:
                groups[value].append((decided, number, tuple(bit for bit in group if bit[:2] not in without)))
        for value, parts in groups.items():
            if all(decided.fits_at(group, number) for decided, number, group in parts):
                sizes[value] = sum(len(group) for _, _, group in parts)
        best = [value for value, size in sizes.items() if size == max(sizes.values())]
        for decided, number, group in (part for value in best for part in groups[value]):
            decided.explain(group, number)
        return best

    def has(self, name: str) -> bool:
        """Whether the tiles have this setting."""
        return any(name in decided.kind.settings or name in decided.kind.words for decided, _ in self.tiles)

    def word(self, name: str) -> int:
        """The number; a digit is 1 where the bits of all tiles with it say so."""
        found = [(decided, number, decided.kind.words[name]) for decided, number in self.tiles
                 if name in decided.kind.words]
        value = 0
        for digit in range(max((len(word.digits) for _, _, word in found), default=0)):
            one = True
            for decided, number, word in found:
                for frame, bit, positive in word.digits[digit]:
                    decided.known[frame, bit, number] = True
                    one &= bool(decided.bits[frame, bit, number]) == positive
            value |= int(one) << digit
        return value
