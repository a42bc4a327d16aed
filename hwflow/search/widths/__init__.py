"""Mixed precision: a search for the cheapest design that keeps the accuracy, or has so little noise.

It chooses the widths of weights and activations layer by layer:

    knobs (widths that can be reduced) -> evaluate (cost, noise, accuracy of a design) -> search -> prove -> frontier
"""

from __future__ import annotations

from hwflow.search.widths.choose import Outcome, WidthsQuestion, choose_widths
from hwflow.search.widths.evaluator import Answers, Store
from hwflow.search.widths.goal import Goal
from hwflow.search.widths.knobs import bits_text
from hwflow.search.widths.points import Point

__all__ = ["Answers", "Goal", "Outcome", "Point", "Store", "WidthsQuestion", "bits_text", "choose_widths"]
