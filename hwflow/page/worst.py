"""The rows of the data on which the integer model is worst, with their inputs as pictures."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from markupsafe import Markup

from ..accuracy import Accuracy, Task, WorstRow
from ..data.pictures import MOST_PIXELS
from ..report.numbers import percent
from .png import data_uri
from .svg import element

__all__ = ["worst_rows"]

#: Pixels of the page that a picture takes at least, on its longer side: each of its own is then a square of several.
SHOWN = 96
#: What the answers of a task are called.
ANSWERS = {Task.CLASSES: "label", Task.SCORE: "label", Task.RECONSTRUCTION: "label", Task.VALUES: "expected"}


def worst_rows(accuracy: Accuracy, pictures: Sequence[Mapping[str, Any]]) -> Markup:
    """A picture for each row where there is one, with the answers of both models; nothing where no row is wrong."""
    if not accuracy.worst:
        return Markup("")
    sources = {int(each["row"]): each for each in pictures}
    items = [element("li", element("figure", picture(sources.get(worst.row)), words(accuracy, worst)))
             for worst in accuracy.worst]
    how = ("First are rows that only the integer model gets wrong, then those where the models disagree, then those "
           "that both get wrong, then those with the largest error. " if accuracy.task is Task.CLASSES else "")
    shown = ("Pictures go from black, the smallest element of the row, to white, the largest; pixels of 8 bits are "
             "shown as they are.") if sources else ""
    said = f"{how}The error is the difference of the outputs, relative to the size of the float outputs. {shown}"
    return (element("h3", "The worst rows") + element("p", said, class_="note")
            + element("ul", *items, class_="rows"))


def picture(source: Mapping[str, Any] | None) -> Markup | None:
    """The input of a row as an image.  ValueError where its pixels are not as many as it says."""
    if source is None:
        return None
    height, width, channels = (int(source[name]) for name in ("height", "width", "channels"))
    if not (0 < height <= MOST_PIXELS and 0 < width <= MOST_PIXELS):
        raise ValueError("a picture is too large")
    pixels = np.frombuffer(base64.b64decode(source["pixels"], validate=True), np.uint8).reshape(height, width, channels)
    factor = max(1, round(SHOWN / max(height, width)))
    said = f"Row {int(source['row'])} of input {source['input']}, {width} by {height} pixels"
    return element("img", src=data_uri(pixels), width=width * factor, height=height * factor, alt=said)


def words(accuracy: Accuracy, worst: WorstRow) -> Markup:
    """What is expected of the row, and what both models say."""
    lines = [element("b", f"Row {worst.row}")]
    expected = ANSWERS.get(accuracy.task)
    if expected and worst.expected is not None:
        lines.append(Markup(", {} {}").format(expected, answer(worst.expected)))
    if worst.real is not None or worst.integer is not None:
        lines.append(element("br"))
        lines.append(Markup("float {}, integer {}").format(answer(worst.real), answer(worst.integer)))
    lines.append(element("br"))
    lines.append(Markup("error {}").format("not finite" if worst.error is None else percent(worst.error, 1)))
    return element("figcaption", *lines)


def answer(value: float | None) -> str:
    """A class as it is, another number with four digits."""
    return "not finite" if value is None else str(value) if isinstance(value, int) else f"{value:.4g}"
