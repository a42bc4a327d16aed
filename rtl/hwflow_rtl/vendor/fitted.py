"""Constants of costs that no formula knows: they were fitted to what synthesis made of units of many shapes.

`fitted.json` has them, unit by unit: what is counted, the factor of each quantity, and the shapes to which they are
fitted.  `python -m bench.fit_costs` synthesizes them and fits the factors.  An entry without shapes is an estimate, and
says why.
The unit's `cost` adds its parts and what follows from its structure, as the bits of its registers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

from .base import Resources

FILE = Path(__file__).with_name("fitted.json")
#: The quantity that is 1 for every shape.
CONSTANT = "constant"


@dataclass(frozen=True)
class Fit:
    """Says what is fitted of one unit: `lut` and `ff` have the factor of each quantity that it depends on.

    `estimate`: why it has no shapes, empty where it has some.
    """

    name: str
    what: str
    lut: Mapping[str, Fraction]
    ff: Mapping[str, Fraction]
    shapes: tuple[Mapping[str, Any], ...]
    estimate: str = ""

    @property
    def quantities(self) -> frozenset[str]:
        """The names of what `resources` must be told."""
        return frozenset({*self.lut, *self.ff} - {CONSTANT})

    def resources(self, **quantities: int) -> Resources:
        """Each product of a factor and its quantity is rounded down.  ValueError where quantities are not those."""
        if quantities.keys() != self.quantities:
            raise ValueError(f"quantities of {self.name} must be {', '.join(sorted(self.quantities))}, not "
                             f"{', '.join(sorted(quantities))}")
        given = {**quantities, CONSTANT: 1}
        return Resources(lut=total(self.lut, given), ff=total(self.ff, given))


def total(factors: Mapping[str, Fraction], quantities: Mapping[str, int]) -> int:
    return sum(factor.numerator * quantities[name] // factor.denominator for name, factor in factors.items())


@cache
def fits() -> Mapping[str, Fit]:
    """All of `fitted.json`, by name."""
    entries = json.loads(FILE.read_text(encoding="utf-8"))
    return {name: Fit(name, entry["what"], *(
        {quantity: Fraction(factor) for quantity, factor in entry.get(kind, {}).items()} for kind in ("lut", "ff")),
        tuple(entry["shapes"]), entry.get("estimate", "")) for name, entry in entries.items()}


def fitted(name: str, **quantities: int) -> Resources:
    """Count what the unit `name` adds to the costs of its parts, by its fit."""
    return fits()[name].resources(**quantities)
