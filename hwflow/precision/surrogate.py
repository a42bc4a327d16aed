"""A quick guess of price and noise for any widths, from what each width alone does to the widest design.

Noise of independent roundings adds up (Widrow and Kollar, "Quantization Noise"); the cost of a multiplier is about the
product of its operands' widths, so the effects of several widths on one layer's cost are multiplied.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from hwflow.precision.knobs import Bits, Knob
from hwflow.precision.points import Design

__all__ = ["Surrogate", "noise_table"]

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: A bit more divides the power of the rounding error by four.
PER_BIT = 4.0
#: Below this, added noise counts as none, and cost as nothing.
TINY = 1e-12


class Surrogate:
    """`designs[k][w]` and `noise[k, w]` (added to the widest design's) belong to width number w of knob k alone."""

    def __init__(self, base: Design, designs: Sequence[Sequence[Design]], noise: Floats):
        parts = [name for name, price in base.parts.items() if price > TINY]
        self.base = np.array([base.parts[name] for name in parts])
        self.noise_added = noise
        widths = noise.shape[1]
        self.log_ratio = np.zeros((len(designs), widths, len(parts)))
        #: Parts that the widest design has not.
        self.extra = np.zeros((len(designs), widths))
        for k, row in enumerate(designs):
            for w, design in enumerate(row):
                shares = np.array([design.parts.get(name, 0.0) for name in parts]) / self.base
                self.log_ratio[k, w] = np.log(np.maximum(shares, TINY))
                self.extra[k, w] = sum(price for name, price in design.parts.items() if name not in parts)

    def price(self, places: Indices) -> Floats:
        """[n] prices of [n, knobs] places in the knobs' widths."""
        knobs = np.arange(places.shape[1])
        ratios = np.exp(self.log_ratio[knobs, places].sum(axis=1))
        return np.asarray((ratios * self.base).sum(axis=1) + self.extra[knobs, places].sum(axis=1))

    def noise(self, places: Indices) -> Floats:
        """[n] noise on top of the widest design's."""
        return np.asarray(self.noise_added[np.arange(places.shape[1]), places].sum(axis=1))


def noise_table(knobs: Sequence[Knob], base: float, probes: Mapping[tuple[int, int], float]) -> Floats:
    """Added noise [knobs, most widths] from `probes` ((knob, place of the width) to noise) of single widths.

    Between two probed widths the logarithm is linear; beyond them, and for knobs without any, noise is four times as
    large for each bit less.
    """
    table = np.full((len(knobs), max(len(knob.widths) for knob in knobs)), np.inf)
    for k, knob in enumerate(knobs):
        known = {w: max(noise - base, TINY) for (kk, w), noise in sorted(probes.items()) if kk == k}
        known = known or {len(knob.widths): 1.0}
        places = sorted(known)
        logs = [np.log(known[w]) for w in places]
        for w in range(len(knob.widths)):
            outside = min(w - places[0], 0) + max(w - places[-1], 0)
            table[k, w] = np.exp(np.interp(w, places, logs) + outside * np.log(PER_BIT)) if w else 0.0
    return table


def place_of(knobs: Sequence[Knob], bits: Bits) -> tuple[int, ...]:
    """Where each width stands among its knob's widths."""
    return tuple(knob.widths.index(width) for knob, width in zip(knobs, bits, strict=True))


def bits_at(knobs: Sequence[Knob], places: Sequence[int]) -> Bits:
    """The widths at these places."""
    return tuple(knob.widths[place] for knob, place in zip(knobs, places, strict=True))
