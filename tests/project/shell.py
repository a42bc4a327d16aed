"""The shell commands of README and docs, one by one."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from tests.project.tree import ROOT, project_files

BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"(?<!`)`((?:hwflow|make) [^`]+)`")


@dataclass(frozen=True)
class Said:
    """One command of a document."""

    place: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.place}: {' '.join(self.words)}"


@cache
def documents() -> dict[str, str]:
    """Every Markdown file by its name from the project's folder."""
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8")
            for file in project_files() if file.suffix == ".md"}


@cache
def commands() -> tuple[Said, ...]:
    """The commands of all `sh` blocks, in their order."""
    return tuple(Said(place, tuple(words)) for place, text in documents().items()
                 for block in BLOCK.findall(text) for words in commands_of(block))


def commands_of(block: str) -> Iterator[list[str]]:
    """The words of each command; one may go on over several lines, by a backslash or inside of quotes."""
    held = ""
    for line in block.replace("\\\n", " ").splitlines():
        held += line
        try:
            words = shlex.split(held, comments=True)
        except ValueError:  # an open quote
            held += "\n"
            continue
        held = ""
        if words:
            yield words
    assert not held, f"a quote must end: {held!r}"


@cache
def spans() -> tuple[Said, ...]:
    """The commands inside of sentences; they need not be whole."""
    return tuple(Said(place, tuple(" ".join(span.split()).split())) for place, text in documents().items()
                 for span in SPAN.findall(re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)))
