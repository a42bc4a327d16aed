"""HTML and SVG elements, tables, tiles and links between them; everything that is inserted is escaped."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias

import jinja2
from hwflow_base.printable import clean, number, shortened
from markupsafe import Markup, escape

#: Elements of HTML that have no end.
VOID = frozenset({"br", "hr", "img", "input"})
#: Width of a character of a wide proportional font (DejaVu Sans), in sizes of the font.
CHARACTER = 0.62


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """`<tag ...>children</tag>`.

    In names of attributes an underscore is a hyphen, and one at the end is left out (`class_`, `data_value`).  An
    attribute that is None or False is left out, and True has no value.  Numbers have one digit after the point.
    """
    parts = [f"<{tag}"]
    for name, value in attributes.items():
        if value is not None and value is not False:
            key = name.rstrip("_").replace("_", "-")
            parts.append(f" {key}" if value is True else f' {key}="{safe(value)}"')
    inner = "".join(safe(child) for child in children if child is not None)
    return Markup(f"{''.join(parts)}>{inner}" + (f"</{tag}>" if tag not in VOID else ""))


def safe(value: object) -> str:
    """A text escaped, a number short, an element as it is."""
    if isinstance(value, Markup):
        return str(value)
    if isinstance(value, float):
        return rounded(value)
    return str(escape(clean(str(value))))


def rounded(value: float) -> str:
    """With one digit after the point at most: a tenth of a pixel.  ValueError for what is no number."""
    if not math.isfinite(value):
        raise ValueError(f"a coordinate must be a finite number, not {value}")
    text = f"{value:.1f}"
    text = text.removesuffix(".0")
    return "0" if text == "-0" else text


def short(value: float, figures: int = 3) -> str:
    """A number in few characters: 950, 12 k, 3.4 M, 0.05."""
    size = abs(value)
    for least, factor, unit in ((1e12, 1e12, " T"), (1e9, 1e9, " G"), (1e6, 1e6, " M"), (1e4, 1e3, " k")):
        if size >= least:
            return f"{digits(value / factor, figures)}{unit}"
    return digits(value, figures) if size >= 0.001 else f"{value:.{figures}g}"


def digits(value: float, figures: int) -> str:
    """So many of them, and none of a number from 1000 on left out."""
    text = f"{value:.{figures}g}"
    return f"{value:.0f}" if "e" in text else text


def text_width(text: str, size: float) -> float:
    """About how wide a text is in a font of this size."""
    return CHARACTER * size * len(text)


def label(text: str, longest: int, **attributes: object) -> Markup:
    """A `<text>` of at most `longest` characters, with the whole text as its title where it was too long."""
    words = shortened(text, longest)
    whole = element("title", text) if words != text else None
    return element("text", words, whole, **attributes)


def attributes(data: Mapping[str, str]) -> dict[str, object]:
    """Attributes for scripts, `data-<key>`."""
    return {f"data_{key}": value for key, value in data.items()}


def class_of(*names: str | None) -> str | None:
    """The value of `class` for these names; None for none."""
    return " ".join(filter(None, names)) or None


# Tables of a page.


#: Widths in rem: where there is less room than the step of a table, each of its rows becomes a list of its cells.
STEPS = (20, 28, 36, 44, 52, 60, 68, 76, 84)
#: Rem of a character, and of the space between columns.
COLUMN_CHARACTER, SPACE = 0.53, 0.75
#: Characters of a word in a cell and of a row's name, longer ones are broken; of a title what a script adds to it.
LONGEST_WORD, LONGEST_NAME, SORTED = 18, 32, 2


@dataclass(frozen=True)
class Cell:
    """The markup of a cell, and the number by which a script sorts it."""

    text: str | Markup
    value: float | None = None
    tone: str | None = None


Given: TypeAlias = Cell | Markup | str | int | None


def table(head: Sequence[str], rows: Sequence[Sequence[Given]], *, caption: str | None = None,
          anchors: Sequence[str | None] = (), data: Sequence[Mapping[str, str]] = ()) -> Markup:
    """A table whose first column names its rows; a whole number is written as one, None as an empty cell.

    `anchors` are the names of rows in links, `data` their attributes for scripts (`data-...`).  Where there is no room
    for its columns, a row is a list of cells with the titles of their columns.
    """
    widths = widths_of(head, rows)
    above = element("caption", caption) if caption else None
    titles = element("tr", *(element("th", text, scope="col") for text in head))
    body = []
    for position, row in enumerate(rows):
        scripted = attributes(data[position]) if data else {}
        cells = (cell(held, None if k == 0 else head[k]) for k, held in enumerate(row))
        body.append(element("tr", *cells, id=anchors[position] if anchors else None, **scripted))
    whole = element("table", above, element("thead", titles), element("tbody", *body),
                    class_=f"sortable stack-{step_of(widths)}", style=f"--name: {widths[0]:.3g}rem")
    return element("div", whole, class_="wide", tabindex=0, role="group", aria_label=f"{caption or head[0]} (table)")


def widths_of(head: Sequence[str], rows: Sequence[Sequence[Given]]) -> list[float]:
    """About how many rem each column has where texts are broken between words."""
    longest = [SORTED + longest_word(title, LONGEST_WORD) for title in head]
    for row in rows:
        longest = [max(most, longest_word(held, LONGEST_WORD if k else LONGEST_NAME))
                   for k, (most, held) in enumerate(zip(longest, row, strict=False))]
    return [COLUMN_CHARACTER * most for most in longest]


def step_of(widths: Sequence[float]) -> int:
    """The first step with room for columns of these widths."""
    needed = sum(widths) + SPACE * len(widths)
    return next((step for step in STEPS if step >= needed), STEPS[-1])


def longest_word(content: Given, most: int) -> int:
    """Characters of what is not broken: a number, or a word of a text, `most` of it; commands are folded away."""
    held = content if isinstance(content, Cell) else (
        Cell(number(content), content) if isinstance(content, int) else Cell(content or ""))
    if held.value is not None:
        return len(Markup(held.text).striptags())
    shown = Markup(re.sub(r"<pre.*?</pre>", "", str(held.text), flags=re.DOTALL)).striptags()
    return min(most, max(map(len, shown.split()), default=0))


def cell(content: Given, label: str | None) -> Markup:
    """`label` is the title of its column; None for the cell that names the row."""
    if isinstance(content, bool):
        content = "yes" if content else "no"
    if isinstance(content, int):
        content = Cell(number(content), content)
    if not isinstance(content, Cell):
        content = Cell("" if content is None else content)
    known = {"class_": class_of("n" if content.value is not None else None, content.tone),
             "data_value": None if content.value is None else f"{content.value:.12g}"}
    if label is None:
        return element("th", content.text, scope="row", **known)
    return element("td", content.text, data_label=label or None, **known)


def measure(value: float | None, form: str) -> Cell:
    """A cell with a number in this form (`.1f`); it is empty where there is none."""
    return Cell("" if value is None else f"{value:{form}}", value)


# Pieces that all sections have.


def note(text: object) -> Markup:
    """Small print."""
    return element("p", text, class_="note")


def verdict(text: object, tone: str) -> Markup:
    """A sentence that says how it is; `tone` is good, warn or bad."""
    return element("p", text, class_=f"verdict {tone}")


def command_block(command: str, **attributes: object) -> Markup:
    """A line for a shell."""
    return element("pre", element("code", command), class_="command", **attributes)


def folded(title: str, *inside: Markup, **attributes: object) -> Markup:
    """Markup that opens at a press on its title."""
    return element("details", element("summary", title), *inside, **attributes)


# A row of the numbers that matter most.


def tiles(numbers: Sequence[tuple[str, str] | tuple[str, str, str]]) -> Markup:
    """Tiles with a title, the number, and small print if there is any."""
    return element("dl", *(tile(*entry) for entry in numbers), class_="tiles")


def tile(what: str, value: str, note: str = "") -> Markup:
    return element("div", element("dt", what), element("dd", value, element("small", note) if note else None))


# Names in links inside of a page: a stage has the same one in all sections.


def stage_anchor(name: str) -> str:
    """The anchor of the card with the numbers of the stage of this name."""
    return f"stage-{re.sub(r'[^A-Za-z0-9_.-]', '-', name)}"


def layer_anchor(position: int) -> str:
    """The anchor of the card of the layer at this position of the graph, where it shares a stage with others."""
    return f"layer-card-{position}"


def href(stage: str) -> str:
    """The link to the card of a stage."""
    return f"#{stage_anchor(stage)}"


def linked(stage: str) -> Markup:
    """The name of a stage that leads to its card."""
    return element("a", stage, href=href(stage))


# The templates of the pages.  Jinja2 makes the HTML, because it escapes what a template inserts: names of tensors and
# files are hostile.  Characters that are not printable are shown as escapes, as everywhere in the reports.


@cache
def environment() -> jinja2.Environment:
    """The templates of this package.  All that they insert is escaped; a name that they do not know is an error."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("hwflow.views.page"), autoescape=True, undefined=jinja2.StrictUndefined,
        finalize=printable, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True)


def printable(value: object) -> object:
    return clean(value) if isinstance(value, str) and not isinstance(value, Markup) else value
