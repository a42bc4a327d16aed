"""Tables as text: a row of the data in each line, numbers between commas, semicolons or tabs.

The module `csv` of the standard library reads them: a table with a few million numbers takes seconds, and a message can
name the line.
"""

from __future__ import annotations

import csv
import io
import math
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from hwflow_base.errors import HwflowError
from hwflow_base.files.sources import open_plain

from hwflow.onnx.limits import Limits
from hwflow.onnx.model import Array

from .source import Input, Preparation, Progress, Source, class_numbers, require_room

#: The endings of files that are read as tables.
TABLES = (".csv", ".tsv", ".txt")
#: What may be between the numbers of a line; where several occur, the first one is meant.
_BETWEEN = ("\t", ";", ",")
#: The longest text of a cell that a message shows.
_SHOWN = 40


@dataclass
class Table:
    """The cells of a table: numbers by column, columns of texts, and the texts of the column of labels."""

    heads: tuple[str, ...]
    #: [rows, columns]; NaN in columns of texts
    numbers: Array
    #: The cells of a column of texts by its place.
    words: Mapping[int, Array]
    texts: tuple[str, ...] = ()
    label: str = ""


@dataclass
class Columns(Source):
    """Rows that are in memory."""

    array: Array = field(default_factory=lambda: np.empty(0))

    def read(self, chosen: Sequence[int], progress: Progress) -> Array:
        return np.asarray(self.array[np.asarray(chosen, int)])


def table_source(file: Path, inputs: Sequence[Input], how: Preparation, limits: Limits) -> dict[str, Source]:
    """The rows of a table for each input.

    One input takes all columns but that of the labels, in the order of the input's elements.  Several inputs, each of
    one element, take the columns with their names.
    """
    label_column = None if how.labels in (None, "none") else how.labels
    texts = {target.name for target in inputs if target.dtype.kind == "O"}
    table = read_table(file, label_column, limits, texts, every=len(inputs) == 1 and bool(texts))
    columns = _columns_of(file, table, inputs)
    labels, classes = _labels(file, table, how)
    sources: dict[str, Source] = {}
    for target in inputs:
        chosen = columns[target.name]
        shape = tuple(1 if n is None else n for n in target.shape)
        if target.dtype.kind == "O":
            array = np.stack([table.words[k] for k in chosen], axis=1).reshape(-1, *shape)
        else:
            array = target.numbers(how.apply(table.numbers[:, chosen], str(file)), str(file)).reshape(-1, *shape)
        note = f"{len(chosen)} columns of {file.name}, {'texts' if target.dtype.kind == 'O' else how.formula}"
        sources[target.name] = Columns(len(array), labels, classes, (), [note], array)
    return sources


def _columns_of(file: Path, table: Table, inputs: Sequence[Input]) -> dict[str, list[int]]:
    """The columns of each input."""
    every = list(range(len(table.heads)))
    if len(inputs) == 1:
        size = math.prod(n or len(every) for n in inputs[0].shape)
        if size != len(every):
            extra = f"name the column of labels: --labels {table.heads[-1]}" if size == len(every) - 1 else ""
            besides = f" besides the labels in '{table.label}'" if table.label else ""
            raise HwflowError(f"the table must have {size} columns{besides} for the model's input '{inputs[0].name}' "
                              f"{inputs[0].shown}, not {len(every)}", extra, where=str(file))
        return {inputs[0].name: every}
    columns = {}
    for target in inputs:
        if target.name not in table.heads or math.prod(n or 1 for n in target.shape) != 1:
            raise HwflowError(f"a table for several inputs must have a column for each, with its name and one cell, "
                              f"and has none for '{target.name}' {target.shown}",
                              "give a file for each input: NAME=FILE", where=str(file))
        columns[target.name] = [table.heads.index(target.name)]
    return columns


def _labels(file: Path, table: Table, how: Preparation) -> tuple[Array | None, tuple[str, ...]]:
    """The labels of a table: whole numbers as they are, other numbers for a regression, names as classes."""
    if not table.label:
        return None, ()
    try:
        numbers = np.array([float(text) for text in table.texts])
    except ValueError:
        return class_numbers(table.texts, how.classes, str(file))
    if how.classes:
        return class_numbers(table.texts, how.classes, str(file))
    whole = bool(np.isfinite(numbers).all() and (numbers == np.rint(numbers)).all())
    return (numbers.astype(np.int64) if whole else numbers), ()


def read_table(file: Path, label: str | None, limits: Limits, texts: Collection[str] = (), *,
               every: bool = False) -> Table:
    """The cells of a table; the column `label` is left out of them and kept as text, and so are the columns `texts`
    (or `every` column).  An empty cell among numbers is a missing one, NaN.

    `label` is a name of the first line, a number from 1 on, or "last".  HwflowError names the line that is wrong.
    """
    lines = _lines(file)
    first = next(lines, None)
    if first is None:
        raise HwflowError("the table must have at least one row, not none", where=str(file))
    headed = _is_header(first[1])
    names = [text.strip() for text in first[1]]
    heads = names if headed else [str(k + 1) for k in range(len(names))]
    index = 0 if headed and not heads[0] else None  # the numbers of rows, as pandas writes them
    taken = None if label is None else _column(file, label, heads, headed)
    numeric = [k for k in range(len(heads)) if k not in (index, taken)]
    spoken = [k for k in numeric if every or heads[k] in texts]
    numbers, labels = array("d"), list[str]()
    words = {place: list[str]() for place, k in enumerate(numeric) if k in spoken}
    for number, cells in lines if headed else _again(first, lines):
        if len(cells) != len(heads):
            raise HwflowError(f"line {number} must have {len(heads)} cells like the first one, not {len(cells)}",
                              where=str(file))
        numbers.extend([math.nan if k in spoken else _number(file, number, heads[k], cells[k]) for k in numeric])
        for place, cell in words.items():
            cell.append(cells[numeric[place]])
        if taken is not None:
            labels.append(cells[taken].strip())
        require_room(len(numbers), (1,), np.dtype(np.float64), limits, str(file))
    if not numbers:
        raise HwflowError("the table must have at least one row of numbers, not none", where=str(file))
    matrix = np.frombuffer(numbers).reshape(-1, len(numeric))
    columns = {place: np.array(cell, np.str_) for place, cell in words.items()}
    return Table(tuple(heads[k] for k in numeric), matrix, columns, tuple(labels),
                 "" if taken is None else heads[taken])


def labels_by_file(file: Path) -> dict[str, str]:
    """A table of two columns, the name of a file and its label, as a dictionary."""
    labels = {}
    for number, cells in _lines(file):
        if len(cells) != 2:
            raise HwflowError(f"line {number} must be a file's name and its label, not {len(cells)} cells",
                              where=str(file))
        labels[cells[0].strip()] = cells[1].strip()
    return labels


def _again(first: tuple[int, list[str]], rest: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    yield first
    yield from rest


def _lines(file: Path) -> Iterator[tuple[int, list[str]]]:
    """The cells of each line that is not empty, with its number from 1 on."""
    try:
        with open_plain(file) as stream, io.TextIOWrapper(stream, "utf-8-sig", newline="") as text:
            start = text.readline()
            text.seek(0)
            between = next((mark for mark in _BETWEEN if mark in start), ",")
            reader = csv.reader(text, delimiter=between)
            yield from ((reader.line_num, cells) for cells in reader if cells)
    except UnicodeDecodeError:
        raise HwflowError("the table must be text in UTF-8", where=str(file)) from None
    except csv.Error as error:
        raise HwflowError(f"the table must be lines of cells ({error})", where=str(file)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise HwflowError(f"the table must be a readable file: {reason}", where=str(file)) from None


def _is_header(cells: Sequence[str]) -> bool:
    """Whether the first line has names: no numbers, or the names of pandas: nothing above the
    numbers of rows, and 0, 1, 2, ... for columns without names."""
    if [text.strip() for text in cells] == [str(k) for k in range(len(cells))] and len(cells) > 1:
        return True
    return not cells[0].strip() or not any(map(_is_number, cells))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _column(file: Path, label: str, heads: Sequence[str], headed: bool) -> int:
    """The place of the column of labels."""
    if headed and label in heads:
        return heads.index(label)
    if label == "last":
        return len(heads) - 1
    if label.isdecimal() and 1 <= int(label) <= len(heads):
        return int(label) - 1
    listed = ", ".join(f"'{name}'" for name in heads[-8:]) if headed else f"1 to {len(heads)}"
    raise HwflowError(f"--labels must name a column of the table, as {listed}, or be 'last', not '{label:.{_SHOWN}}'",
                      where=str(file))


def _number(file: Path, line: int, head: str, text: str) -> float:
    try:
        return float(text) if text.strip() else math.nan
    except ValueError:
        raise HwflowError(f"line {line}, column '{head:.{_SHOWN}}' must be a number, not '{text:.{_SHOWN}}'",
                          "name a column of labels with --labels, or write texts as numbers", where=str(file)) from None
