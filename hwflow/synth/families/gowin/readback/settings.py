"""Attributes of a cell whose bits are in several tiles: which value has exactly the bits that are set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

from ....readback import Fabric
from .chip import Chip, Spot, as_spot
from .tiles import Tile

#: No value: an attribute without any bits.
UNSET = ""


class Settings:
    """The attributes of one cell, in `table` of the kinds of its tiles `parts`; `logic` numbers them."""

    def __init__(self, chip: Chip, logic: str, table: str, parts: Sequence[Tile], fabric: Fabric):
        self.chip, self.logic, self.table, self.parts, self.fabric = chip, logic, table, parts, fabric

    @property
    def rows(self) -> Mapping[int, set[tuple[int, Spot]]]:
        """The bits of each number, each with the part that it is in."""
        return rows_of_parts(self.chip, self.logic, self.table, tuple(tile.kind for tile in self.parts))

    @cached_property
    def bits(self) -> set[tuple[int, Spot]]:
        """The bits that are set, each with its part."""
        return {(part, spot) for part, tile in enumerate(self.parts) for spot in tile.bits}

    @property
    def where(self) -> str:
        return self.parts[0].where

    def pattern(self, name: str, value: str | int) -> set[tuple[int, Spot]]:
        """The bits of an attribute with a value."""
        if value == UNSET:
            return set()
        number = self.chip.attribute(self.logic, name, value)
        default = self.rows.get(-number, set()) if number else set()
        return self.rows.get(number, set()) if number else default

    def of(self, name: str, values: Iterable[str | int]) -> str | int:
        """The value of an attribute, of `values` or UNSET; a problem where its bits are those of none."""
        patterns = {value: self.pattern(name, value) for value in values}
        mask = set[tuple[int, Spot]]().union(*patterns.values())
        found = self.bits & mask
        for part, spot in found:
            self.parts[part].explained.add(spot)
        for value, pattern in patterns.items():
            if pattern == found:
                return value
        if found:
            self.fabric.problem(self.where, f"the bits of {name} must be those of one of its values, and are "
                                            f"{sorted(spot for _, spot in found)}")
        return UNSET

    def has(self, name: str, value: str | int) -> bool:
        """Whether all bits of an attribute with a value are set."""
        return self.of(name, [value]) == value and bool(self.pattern(name, value))


@lru_cache(maxsize=64)
def rows_of_parts(chip: Chip, logic: str, table: str, kinds: tuple[int, ...]) -> Mapping[int, set[tuple[int, Spot]]]:
    """The bits of each number of `logic` in a table of some kinds of tiles; a row of several numbers is left out."""
    found: dict[int, set[tuple[int, Spot]]] = {}
    for part, kind in enumerate(kinds):
        for key, spots in chip.db.shortval.get(kind, {}).get(table, {}).items():
            numbers = [number for number in key if number]
            if len(numbers) == 1:
                found.setdefault(numbers[0], set()).update((part, as_spot(spot)) for spot in spots)
    return found
