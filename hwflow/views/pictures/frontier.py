"""The picture of the search for widths: the price of every design against what it costs in accuracy."""

from __future__ import annotations

import importlib
import io
from typing import Any

from hwflow_base.errors import MissingTool

from ...search.widths import Outcome


def plotting() -> tuple[Any, Any]:
    """matplotlib, and its class of figures.  MissingTool where it is not installed."""
    try:
        return importlib.import_module("matplotlib"), importlib.import_module("matplotlib.figure").Figure
    except ImportError:
        raise MissingTool(
            "a plot must have matplotlib to draw it",
            "install it with `pip install 'hwflow[plot]'` (the table needs nothing)",
        ) from None


def widths_svg(outcome: Outcome, title: str) -> str:
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
