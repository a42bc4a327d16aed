"""Mixed precision: a search for the cheapest design that keeps the accuracy.

It chooses the widths of weights and activations layer by layer:

    knobs (widths that can be reduced) -> evaluate (cost, noise, accuracy of a design) -> search -> prove -> frontier
"""

from __future__ import annotations

from hwflow.precision.answers import Answers
from hwflow.precision.choose import Outcome, choose_widths, require_drop
from hwflow.precision.evaluate import Store
from hwflow.precision.knobs import bits_text
from hwflow.precision.points import Point

__all__ = ["Answers", "Outcome", "Point", "Store", "bits_text", "choose_widths", "require_drop"]
