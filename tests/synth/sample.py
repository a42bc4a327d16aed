"""A unit that can be made and says what it costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from amaranth.lib import wiring
from hwflow_rtl.stream.unit import UnitShape
from hwflow_rtl.vendor import Resources, Technology

Sizes = Mapping[str, Any]


@dataclass(frozen=True)
class Sample:
    """Functions that make a unit and give its cost; the cost raises ValueError where a family has no such unit."""

    unit: Callable[[], wiring.Component]
    cost: Callable[[], Resources]


def of_shape(shape: UnitShape, technology: Technology, name: str) -> Sample:
    return Sample(lambda: shape.build(technology, name), lambda: shape.cost(technology))
