"""Measurements as data: docs/measurements/NAME.yaml, from which the tables of the documents are made (bench/pages.py).

A file has these keys; `title` and `results` are needed:

    title     what was measured, the heading on docs/results.md
    about     what a reader of the page has to know, Markdown
    command   what measures it again, lines for a shell
    commit    the commit that was measured; without it, the one that wrote the numbers down is `written`
    written   the commit that wrote the numbers down, which followed the measurement
    date      the day of that commit
    machine   where, if it is not the machine of the page's head
    bar       the limit that was set before
    results   the numbers, a list: `columns` and `rows` of a table, `output` of a program, or a `text`;
              a table may have a `name`, an `about`, a `command`, a `commit` or `written` with its `date`, and `show`,
              what of it the page has (false; or `rows` by their first cells, and `columns`)
    note      what else is known of the numbers: conditions, what was tried, how it was before
    tags      words by which others find the file
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeAlias

import yaml

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs" / "measurements"
#: Not measurements: the order of the page, tables of selected numbers, and how old each commit is.
BESIDE = ("index", "views", "ages")
#: The folders of the product: a commit that touches none of them changes no measurement.
PRODUCT = ("hwflow", "base", "rtl", "sim")

Cell: TypeAlias = int | float | str | None
Data: TypeAlias = dict[str, Any]


@cache
def measurement(name: str) -> Data:
    """The file of one measurement, or one of those beside them."""
    data: Data = yaml.safe_load((FOLDER / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def names() -> list[str]:
    """Every measurement, in the order of the alphabet."""
    return sorted(file.stem for file in FOLDER.glob("*.yaml") if file.stem not in BESIDE)


def tables(data: Data) -> list[Data]:
    return [part for part in data["results"] if "columns" in part]


def cell_of(name: str, row: str, column: str, table: str | None = None) -> Cell:
    """One number of a measurement, by the first cell of its row and the name of its column."""
    for part in tables(measurement(name)):
        if column in part["columns"] and table in (None, part.get("name")):
            place = part["columns"].index(column)
            for cells in part["rows"]:
                if str(cells[0]) == row and len(cells) > place:
                    return cells[place]  # type: ignore[no-any-return]
    raise KeyError(f"{name}: no row '{row}' with a column '{column}'")


# Markdown


def shown(cell: Cell) -> str:
    """A number as documents write it: thousands apart."""
    if isinstance(cell, int) and abs(cell) >= 1000:
        return f"{cell:,}".replace(",", " ")
    return "" if cell is None else str(cell)


def markdown_table(columns: Iterable[str], rows: Iterable[Iterable[Cell]]) -> str:
    lines = [list(columns), *([shown(cell) for cell in row] for row in rows)]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


NUMBER = re.compile(r"-?\d{1,3}([ ,]?\d{3})*|-?\d+")


def number(text: str) -> Cell:
    """A cell of a Markdown table as data: a number where it is one and prints as it was."""
    text = text.strip()
    if not text:
        return None
    if NUMBER.fullmatch(text) and not re.match(r"-?0\d", text):
        return int(re.sub(r"[ ,]", "", text))
    try:
        return float(text) if repr(float(text)) == text else text
    except ValueError:
        return text


def parsed(text: str) -> list[Data]:
    """The results of a text that a section of the bench wrote: tables, fenced outputs and sentences between them."""
    parts = re.split(r"\n\n+(?=\||```|[^\s|])", text.strip())
    results: list[Data] = []
    for part in parts:
        if part.startswith("|"):
            head, _, *rows = ([cell.strip() for cell in line.strip()[1:-1].split("|")] for line in part.splitlines())
            results.append({"columns": head, "rows": [[number(cell) for cell in row] for row in rows]})
        elif part.startswith("```"):
            results.append({"output": "\n".join(part.splitlines()[1:-1])})
        else:
            results.append({"text": part})
    return results


# The file


def written_text(data: Data) -> str:
    """The YAML of a measurement: texts as blocks, a row of a table in a line."""
    return "".join(entry(key, value) for key, value in data.items() if key != "results") + results_text(data["results"])


def entry(key: str, value: Any, indent: str = "") -> str:
    if isinstance(value, str) and ("\n" in value.strip() or len(value) > 100):
        lines = "\n".join(f"{indent}  {line}".rstrip() for line in value.strip("\n").splitlines())
        return f"{indent}{key}: |{'2' * value.startswith(' ')}\n{lines}\n"
    return f"{indent}{key}: {flow(value)}\n"


def flow(value: Any) -> str:
    text: str = yaml.safe_dump(value, default_flow_style=True, width=10**6, allow_unicode=True, sort_keys=False)
    return text.removesuffix("\n").removesuffix("\n...")


def results_text(results: list[Data]) -> str:
    if not results:
        return "results: []\n"
    return "results:\n" + "".join("- " + "".join(part_lines(part))[2:] for part in results)


def part_lines(part: Data) -> Iterator[str]:
    for key, value in part.items():
        if key == "rows":
            yield "  rows:\n" + "".join(f"  - {flow(row)}\n" for row in value)
        else:
            yield entry(key, value, "  ")


def save(name: str, text: str) -> None:
    """Put what a section of the bench wrote into its file: new numbers, today's commit, everything else as it was."""
    data = measurement(name)
    old, new = data["results"], parsed(text)
    for part, before in zip(new, old, strict=False):
        if part.get("columns") == before.get("columns"):
            part |= {key: before[key] for key in ("name", "about", "show") if key in before}
    for key in ("commit", "written", "date"):
        data.pop(key, None)
    commit, date = git("log", "-1", "--format=%h %ad", "--date=short").split()
    head = {key: value for key, value in data.items() if key not in ("results", "note")}
    tail = {key: data[key] for key in ("note",) if key in data}
    data = head | {"commit": commit, "date": date} | tail | {"results": new}
    (FOLDER / f"{name}.yaml").write_text(written_text(data), encoding="utf-8")
    measurement.cache_clear()


def git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
