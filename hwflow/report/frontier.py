"""The frontier of the search for widths: a table, a picture, and plain data."""

from __future__ import annotations

import importlib
import io
from dataclasses import asdict
from typing import Any

from hwflow_base.errors import MissingTool

from ..precision import Outcome, Point, bits_text
from ..precision.knobs import KnobKind
from .console import Console
from .numbers import number

__all__ = ["frontier_facts", "frontier_svg", "show_frontier"]

#: Rows of the table; a longer frontier shows the winner, the widest and points between in its place.
MAX_ROWS = 24
#: Characters of a column of the table that lists layers.
MAX_TEXT = 60


def plotting() -> tuple[Any, Any]:
    """matplotlib, and its class of figures.  MissingTool where it is not installed."""
    try:
        return importlib.import_module("matplotlib"), importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        raise MissingTool(
            "a plot must have matplotlib to draw it",
            "install it with `pip install 'hwflow[plot]'` (the table needs nothing)",
        ) from None


def show_frontier(console: Console, outcome: Outcome) -> None:
    """The designs that no other beats, from the most expensive to the cheapest, and what the columns mean."""
    console.table(
        f"frontier for {outcome.pace.budget.name}: no other design is cheaper and as accurate",
        ("", "bits", "LUT", "FF", "DSP", "RAM", "price", outcome.metric.name, f"drop ({outcome.metric.unit})"),
        [_row(outcome, point) for point in shown(outcome)],
    )
    inputs = sum(knob.kind is KnobKind.INPUT for knob in outcome.knobs)
    layers = list(dict.fromkeys(knob.name for knob in outcome.knobs if knob.kind is not KnobKind.INPUT))
    given = f"{'input' if inputs == 1 else f'{inputs} inputs'}, then " if inputs else ""
    console.say(f"  bits: {given}weights/result of {', '.join(layers)}")
    console.say(
        f"  price: shares of {outcome.pace.budget.name} for LUT, FF, DSP and RAM, added up, at "
        f"{number(outcome.pace.interval)} cycles a frame; * the choice, t fully tuned"
    )
    console.say(f"  {outcome.metric.name}: {outcome.metric.description}, on {number(outcome.metric.rows)} rows")


def shown(outcome: Outcome) -> list[Point]:
    """The widest design, the frontier (thinned where it is long), and the winner, by price."""
    points = list(outcome.frontier)
    if len(points) > MAX_ROWS:
        points = [points[round(k * (len(points) - 1) / (MAX_ROWS - 1))] for k in range(MAX_ROWS)]
    must = [outcome.widest, *([outcome.winner] if outcome.winner else [])]
    points += [point for point in must if point not in points]
    return sorted(points, key=lambda p: (-p.price, p.drop, p.tuned))


def _row(outcome: Outcome, point: Point) -> tuple[str, ...]:
    r = point.resources
    mark = ("*" if point == outcome.winner else "") + ("t" if point.tuned else "")
    text = bits_text(outcome.knobs, point.bits)
    return (
        mark,
        text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 3]}...",
        number(r.lut),
        number(r.ff),
        number(r.dsp),
        number(r.ram),
        f"{100 * point.price:.1f} %",
        f"{point.accuracy:.2f}",
        f"{point.drop:.2f}",
    )


def frontier_facts(outcome: Outcome) -> dict[str, Any]:
    """Everything that was measured, for JSON."""
    return {
        "metric": {"name": outcome.metric.name, "unit": outcome.metric.unit, "rows": outcome.metric.rows,
                   "description": outcome.metric.description},
        "board": outcome.pace.budget.name, "interval": outcome.pace.interval, "limit": outcome.limit,
        "knobs": [{"kind": knob.kind.value, "name": knob.name, "widths": list(knob.widths)} for knob in outcome.knobs],
        "without_hardware": list(outcome.pace.without), "fits": outcome.pace.fits,
        "evaluations": outcome.evaluations, "notes": list(outcome.notes),
        "widest": point_facts(outcome.widest),
        "winner": None if outcome.winner is None else point_facts(outcome.winner),
        "frontier": [point_facts(point) for point in outcome.frontier],
        "points": [point_facts(point) for point in outcome.points],
    }  # fmt: skip


def point_facts(point: Point) -> dict[str, Any]:
    return asdict(point) | {"resources": point.resources.counts()}


def frontier_svg(outcome: Outcome, title: str) -> str:
    """A picture: price against drop of every design, the frontier as a line.  MissingTool without matplotlib."""
    matplotlib, make = plotting()
    figure = make(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    share = [100 * point.price for point in outcome.points]
    axes.scatter(share, [point.drop for point in outcome.points], s=12, color="#b0b8c4", label="measured")
    axes.plot(
        [100 * p.price for p in outcome.frontier],
        [p.drop for p in outcome.frontier],
        marker="o",
        markersize=4,
        drawstyle="steps-pre",
        color="#1f5f9e",
        label="frontier",
    )
    axes.scatter([100 * outcome.widest.price], [outcome.widest.drop], marker="s", color="#757575", label="widest")
    if outcome.winner is not None:
        axes.scatter(
            [100 * outcome.winner.price],
            [outcome.winner.drop],
            s=160,
            marker="*",
            color="#2e7d32",
            zorder=3,
            label="choice",
        )
    axes.axhline(outcome.limit, linestyle="--", linewidth=1, color="#b71c1c", label=f"limit {outcome.limit:g}")
    axes.set_yscale("symlog", linthresh=max(outcome.limit, 1.0))
    axes.set_ylim(bottom=min(0.0, *(point.drop for point in outcome.points)) - 0.2)
    axes.yaxis.set_major_formatter("{x:g}")
    axes.set_xlabel(f"price: shares of {outcome.pace.budget.name}, added up (%)")
    axes.set_ylabel(f"drop of {outcome.metric.name} ({outcome.metric.unit})")
    axes.set_title(title, parse_math=False)
    axes.legend()
    axes.grid(visible=True, alpha=0.3)
    text = io.StringIO()
    with matplotlib.rc_context({"svg.hashsalt": "hwflow"}):  # the same points give the same file
        figure.savefig(text, format="svg", metadata={"Date": None})
    return text.getvalue()
