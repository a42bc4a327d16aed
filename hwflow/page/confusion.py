"""Which classes are taken for which: a matrix of the integer model, or the pairs that are confused most."""

from __future__ import annotations

from collections import defaultdict

from markupsafe import Markup

from ..accuracy import Accuracy, Pair
from .heat import heat_map
from .svg import element
from .table import table

__all__ = ["confusion"]

#: With more classes, the pairs that are confused most are shown instead of the matrix.
MOST_CLASSES, MOST_PAIRS = 40, 20


def confusion(accuracy: Accuracy) -> Markup:
    """Nothing where the data has no labels that name classes."""
    if not accuracy.confusion:
        return Markup("")
    there = sorted({name for pair in accuracy.confusion for name in (pair.label, pair.found)})
    names = list(range(accuracy.classes)) if 0 < accuracy.classes <= MOST_CLASSES else there
    wrong = [pair for pair in accuracy.confusion if pair.label != pair.found and (pair.real or pair.integer)]
    called = accuracy.class_name
    pairs = table(("label", "answer", "rows, integer", "rows, float"),
                  [(called(p.label), called(p.found), p.integer, p.real) for p in most(wrong)],
                  caption="Classes that are confused") if wrong else element(
                      "p", "Neither model confuses any classes.", class_="note")
    more = Markup("") if len(wrong) <= MOST_PAIRS else element(
        "p", f"Shown are the {MOST_PAIRS} most frequent of {len(wrong)} pairs.", class_="note")
    picture = matrix(accuracy, names) if len(names) <= MOST_CLASSES else Markup("")
    return element("h3", "Which classes are confused") + element("div", picture, element("div", pairs, more),
                                                                 class_="beside")


def most(wrong: list[Pair]) -> list[Pair]:
    """The most frequent ones of the integer model, then of the float model."""
    return sorted(wrong, key=lambda pair: (-pair.integer, -pair.real, pair.label, pair.found))[:MOST_PAIRS]


def matrix(accuracy: Accuracy, names: list[int]) -> Markup:
    cells: defaultdict[tuple[int, int], int] = defaultdict(int)
    cells.update({(pair.label, pair.found): pair.integer for pair in accuracy.confusion})
    counts = [[cells[label, found] for found in names] for label in names]
    right, total = sum(counts[k][k] for k in range(len(names))), sum(map(sum, counts))
    text = f"Confusion matrix of the integer model over {len(names)} classes: {right} of {total} rows are right"
    return heat_map("Answers of the integer model by label", text, counts, list(map(accuracy.class_name, names)),
                    rows="label", columns="answer")
