"""How text and tables fit the width of a terminal, or of 80 columns where nobody says how wide it is."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len

__all__ = ["PLAIN_WIDTH", "Column", "asked_width", "blocks", "is_number", "wrapped"]

#: Width of what goes to a file or a pipe: the same on every machine.
PLAIN_WIDTH = 80
#: Nothing is readable in less.
NARROWEST = 40
#: Texts in a table are folded down to this width, or to their longest word, before the table is split.
FOLDED = 16
#: Longer words are broken.
LONGEST = 32
#: Between two columns of a table that has little room.
GAP = 2
#: A command in backquotes is one word, so that it can be copied.
WORDS = re.compile(r"[^\s`]*`[^`\n]*`[^\s`]*|\S+")


def asked_width(terminal: int | None) -> int:
    """COLUMNS where that is set, else the width of the terminal, else `PLAIN_WIDTH`."""
    asked = os.environ.get("COLUMNS", "")
    width = int(asked) if asked.isdecimal() and len(asked) < 8 else 0
    return max(width or terminal or PLAIN_WIDTH, NARROWEST)


def wrapped(text: str, width: int) -> str:
    """The text in lines of at most `width` columns; only a word that is longer, like a path, takes a line of its own.

    What follows the first line of a long one is indented by two columns more.
    """
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> Iterator[str]:
    if cell_len(line) <= width:
        yield line
        return
    indent = line[: len(line) - len(line.lstrip(" "))]
    made, first = indent, True
    for word in _words(line, width - len(indent) - 2):
        if not made.strip():
            made += word
        elif cell_len(made) + 1 + cell_len(word) <= width:
            made += f" {word}"
        else:
            yield made
            made, first = f"{indent}  {word}", False
    if made.strip() or first:
        yield made


def _words(line: str, room: int) -> Iterator[str]:
    for word in WORDS.findall(line):
        if cell_len(word) <= room:
            yield word
        else:
            yield from word.split()


@dataclass(frozen=True)
class Column:
    """A column of a table that is narrower than it would like: its place among all columns, and the width it gets."""

    index: int
    width: int


def blocks(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int, *, key: int, second: int = 0
           ) -> list[list[Column]]:
    """The columns in as many blocks as `width` needs; each begins with the first `key` columns, which name the row.

    Texts are folded between words first; only where that does not suffice columns are shared out among blocks, of
    which one begins with column `second`.
    """
    columns = [[row[k] for row in rows] for k in range(len(heads))]
    words = [[*head.split(), ""] for head in heads]
    widths = [max(map(cell_len, [*words[k], *column])) for k, column in enumerate(columns)]
    longest = [max(map(cell_len, [*words[k], *(w for cell in column for w in cell.split())]))
               for k, column in enumerate(columns)]
    numbers = [all(map(is_number, column)) for column in columns]
    floors = [w if number else min(w, max(min(longest[k], LONGEST), FOLDED))
              for k, (w, number) in enumerate(zip(widths, numbers, strict=True))]
    folded = _folded(widths, floors, width)
    if _total(folded) <= width:
        return [[Column(k, w) for k, w in enumerate(folded)]]
    names = [min(w, max(width // (2 * key), FOLDED)) for w in folded[:key]]
    room = width - _total(names) - GAP
    made: list[list[Column]] = [[]]
    for k in range(key, len(heads)):
        column = Column(k, min(folded[k], room))
        if made[-1] and (k == second or _total([c.width for c in (*made[-1], column)]) > room):
            made.append([])
        made[-1].append(column)
    return [[*(Column(k, w) for k, w in enumerate(names)), *block] for block in made]


def is_number(text: str) -> bool:
    return not text or text.translate(dict.fromkeys(map(ord, " ,.%-"))).isdigit()


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + GAP * (len(widths) - 1)


def _folded(widths: Sequence[int], floors: Sequence[int], width: int) -> list[int]:
    """The widths, of which the largest gives first until all fit or none can give any more."""
    made = list(widths)
    while _total(made) > width:
        givers = [k for k, w in enumerate(made) if w > floors[k]]
        if not givers:
            break
        made[max(givers, key=lambda k: made[k])] -= 1
    return made
