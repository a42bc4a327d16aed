"""Known defects of the programs that make bitstreams: which of them the installed versions have, and what is done.

`defects.yaml` has a row for each.  What a routed design has of them is counted, and cured where it can be, by its
family (`Family.mended`); the counts stay beside the layout.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal

import yaml
from hwflow_base.files.facts import of_plain, read_facts

from .families.base import Family

#: The counts of a routed design, beside its layout.
NOTE = "defects.json"
FILE = Path(__file__).with_name("defects.yaml")


@dataclass(frozen=True)
class Defect:
    """A row of `defects.yaml`, which says what its fields mean."""

    key: str
    program: str
    threads: tuple[str, ...]
    breaks: str
    touches: str
    state: Literal["cured", "avoided", "bounded", "told"]
    cure: str
    since: str = ""
    fixed: str = ""
    check: str = ""

    def is_in(self, version: str) -> bool:
        """Whether a version of the program has it; one that says no number may have it."""
        parts = parts_of(version)
        if not parts:
            return True
        return (not self.since or parts >= parts_of(self.since)) and (not self.fixed or parts < parts_of(self.fixed))


def parts_of(version: str) -> tuple[int, ...]:
    """The numbers at the start: 0.11.1.0.post826 is (0, 11, 1, 0)."""
    match = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in match[0].split(".")) if match else ()


@dataclass(frozen=True)
class ToolDefect:
    """What `hwflow doctor` says of a defect: the installed version of its program, and whether it has it."""

    key: str
    program: str
    version: str
    present: bool
    threads: tuple[str, ...]
    breaks: str
    state: str
    cure: str
    fixed: str


@dataclass(frozen=True)
class FoundDefect:
    """A defect that a routed design is touched by, in so many cells, and what was done."""

    key: str
    cells: int
    state: str
    breaks: str
    cure: str
    threads: tuple[str, ...]


@cache
def known_defects() -> tuple[Defect, ...]:
    return of_plain(yaml.safe_load(FILE.read_text(encoding="utf-8")), tuple[Defect, ...])


def defects_of(versions: Mapping[str, str]) -> tuple[ToolDefect, ...]:
    """The known defects of programs, by their names and versions; those that are gone, too, but no other programs'."""
    return tuple(
        ToolDefect(row.key, row.program, versions[row.program], row.is_in(versions[row.program]), row.threads,
                   row.breaks, row.state, row.cure, row.fixed)
        for row in known_defects() if row.program in versions)


def mend(layout: Path, family: Family) -> None:
    """Cure the defects of a routed design in place, and leave the counts of what it is touched by beside it.

    HwflowError where something in it is wrong that hwflow knows no cure for.
    """
    text = layout.read_text(encoding="utf-8")
    mended, counts = family.mended(text, str(layout))
    if mended != text:
        layout.write_text(mended, encoding="utf-8")
    layout.with_name(NOTE).write_text(json.dumps(dict(counts)), encoding="utf-8")


def found_in(folder: Path, programs: Iterable[str]) -> tuple[FoundDefect, ...]:
    """What `mend` found in the routed design in `folder`, made by `programs`."""
    counts, names = read_facts((folder / NOTE).read_bytes(), dict[str, int]), set(programs)
    return tuple(
        FoundDefect(row.key, counts[row.check], row.state, row.breaks, row.cure, row.threads)
        for row in known_defects() if row.program in names and counts.get(row.check))
