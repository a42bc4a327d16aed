"""Elements of HTML and SVG as text that is safe: whatever is no element already is escaped.

Names of tensors and files are hostile.  A text in an element or an attribute shows what is in it: characters that are
not printable appear as escapes, as everywhere in the reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from hwflow_base.printable import clean
from markupsafe import Markup, escape

from ..report.texts import shortened

__all__ = ["attributes", "class_of", "element", "label", "short", "text_width"]

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
