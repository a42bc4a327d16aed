"""The goal of a search for widths: the accuracy that may be lost, or the noise that an output may have."""

from __future__ import annotations

import math
from dataclasses import dataclass

from hwflow_base.errors import HwflowError

#: Decibels that a goal may have at most: outputs are float32, with noise of their own at some 150.
MOST_DB = 120.0


@dataclass(frozen=True)
class Goal:
    """At most so many points of accuracy are lost (`drop`), or every output has at least so many decibels of signal to
    noise (`noise`): one of both.

    HwflowError: none or both, or a number that means nothing.
    """

    drop: float | None = None
    noise: float | None = None

    def __post_init__(self) -> None:
        for option, value in (("--accuracy-drop", self.drop), ("--noise", self.noise)):
            if isinstance(value, bool) or not isinstance(value, int | float | None):
                raise HwflowError(f"{option} must be a number, not {value!r:.60}")
        if (self.drop is None) == (self.noise is None):
            raise HwflowError("a goal must be one of --accuracy-drop and --noise, not both", "give one of them")
        if self.drop is not None and not (math.isfinite(self.drop) and self.drop >= 0):
            raise HwflowError(f"--accuracy-drop must be 0 or more points, not {self.drop:g}",
                              "1.0 lets the model lose one of a hundred rows")
        if self.noise is not None and not 0 < self.noise <= MOST_DB:
            raise HwflowError(f"--noise must be above 0 and at most {MOST_DB:g} decibels, not {self.noise:g}",
                              "30 leaves a thousandth of an output's power to noise")

    @property
    def option(self) -> str:
        """The option that asks for it."""
        return "--noise" if self.drop is None else "--accuracy-drop"

    @property
    def limit(self) -> float:
        """The drop that is allowed, in the unit of the metric: points, or noise in per cent of the output's size."""
        return self.drop if self.noise is None else 100 * 10 ** (-self.noise / 20)  # type: ignore[return-value]

    def __str__(self) -> str:
        return f"{self.option} {self.drop if self.noise is None else self.noise:g}"
