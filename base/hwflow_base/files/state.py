"""State on disk: JSON files that say which version of their form they have, written whole or not at all.

Every small file that a later run reads again is written by a `StateFile`: records, what a design was routed from, the
seconds of earlier work.  A form that changes gets the next version; older ones are read where the newer reader still
understands them, and refused with a message where it does not.  Files of the first form have no number.

Results of steps are folders (`cache`), what many processes find is in SQLite (`hwflow.search.exploration.store`), and a
search that may end at any moment adds lines to a file (`StateLines`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from hwflow_base.errors import HwflowError

from .sources import MAX_TEXT, open_plain
from .target import create_folder, require_plain_target, write_atomically

#: The number of the form, in the file.
VERSION = "version"
#: A file of lines that is larger than this starts anew, in bytes.
MAX_LINES = 1 << 25


class Damaged(HwflowError):
    """A file is not as hwflow writes it.  Exit code 2."""


@dataclass(frozen=True)
class StateFile:
    """A kind of file: `what` names it in messages, `remedy` says what to do with one that cannot be read.

    `version` is what is written, `oldest` what is read still.
    """

    what: str
    remedy: str
    version: int = 0
    oldest: int = 0

    def write(self, path: Path, facts: Mapping[str, object]) -> None:
        """Write plain data in place of what is there.  It must be data of JSON without NaN and infinities."""
        write_atomically(path, self.text(facts))

    def text(self, facts: Mapping[str, object]) -> str:
        """The content of the file."""
        number = {VERSION: self.version} if self.version else {}
        return json.dumps({**number, **facts}, allow_nan=False)

    def read(self, path: Path) -> dict[str, object]:
        """The plain data of a file, without its number.  Damaged where it is no such file, or of another version."""
        try:
            with open_plain(path) as file:
                facts = json.loads(file.read(MAX_TEXT))
        except (OSError, ValueError, RecursionError):
            raise self.damaged(path) from None
        if not isinstance(facts, dict):
            raise self.damaged(path)
        version = facts.pop(VERSION, 0)
        if not isinstance(version, int):
            raise self.damaged(path)
        if not self.oldest <= version <= self.version:
            age = "an older" if version < self.oldest else "a newer"
            raise Damaged(f"'{path}' must be {self.what} of this hwflow, and is one of {age} hwflow", self.remedy)
        return facts

    def damaged(self, path: Path) -> Damaged:
        """The error of a file that has not what it must have."""
        return Damaged(f"'{path}' must be {self.what}, and is damaged", self.remedy)


class StateLines:
    """The lines of JSON in `path`, which grow while a search runs.

    A line is written at once; one that is damaged is passed over, and a new one never joins what a killed run left.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        require_plain_target(path)
        create_folder(path.parent)
        if path.exists() and path.stat().st_size > MAX_LINES:
            path.unlink()

    def __iter__(self) -> Iterator[Mapping[str, object]]:
        for line in self.path.read_bytes().splitlines() if self.path.exists() else ():
            try:
                facts = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(facts, dict):
                yield facts

    def add(self, facts: Mapping[str, object]) -> None:
        """Write a line."""
        with self.path.open("ab", buffering=0) as stream:
            torn = stream.tell() and not self._ends_with_newline()
            stream.write((b"\n" if torn else b"") + json.dumps(facts).encode() + b"\n")

    def _ends_with_newline(self) -> bool:
        with self.path.open("rb") as stream:
            stream.seek(-1, os.SEEK_END)
            return stream.read(1) == b"\n"
