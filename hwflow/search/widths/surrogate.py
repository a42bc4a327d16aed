"""A quick guess of price and noise for any widths, from some designs of which both are known.

Noise of independent roundings adds up (Widrow and Kollar, "Quantization Noise", 2008), so what each knob adds alone is
summed.  Cost does not: whether products go into multiplier blocks or into logic depends on both operands.  So a layer's
cost is that of the design where all weights and all activations have the widths of its own weights and inputs, but for
what the width of its result changes alone.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hwflow.search.widths.knobs import Bits, Knob, KnobKind
from hwflow.search.widths.points import LINKS, Design

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

#: A bit more divides the power of the rounding error by four.
PER_BIT = 4.0
#: Below this, added noise counts as none, and cost as nothing.
TINY = 1e-12


def grid_bits(knobs: Sequence[Knob], weights: int, activations: int) -> Bits:
    """The widths of a design with the same for all weights and for all activations, as far as the knobs go."""
    return tuple(min(weights if knob.kind is KnobKind.WEIGHTS else activations, knob.widths[0]) for knob in knobs)


@dataclass(frozen=True)
class _Part:
    """A part of the design and the knobs that change its cost, by their number.

    `table` is its cost by widths of all weights and of all activations; None where those say nothing of it alone.
    """

    base: float
    weights: tuple[int, ...]
    inputs: tuple[int, ...]
    output: int | None
    table: Floats | None


class Surrogate:
    """`single` has the designs with knob number k at place number w of its widths, the others at their widest; `grid`
    those of `grid_bits`; `noise[k, w]` is what a width adds to the widest design's noise."""

    def __init__(
        self,
        knobs: Sequence[Knob],
        base: Design,
        single: Mapping[tuple[int, int], Design],
        grid: Mapping[tuple[int, int], Design],
        noise: Floats,
    ):
        self.knobs = knobs
        self.noise_added = noise
        #: The most bits of weights, and of activations; there is a design of `grid` with both.
        self.most = max(weights for weights, _ in grid), max(activations for _, activations in grid)
        names = [name for name, price in base.parts.items() if price > TINY]
        prices = np.array([base.parts[name] for name in names])
        known = {key: np.array([design.parts.get(name, 0.0) for name in names]) / prices
                 for key, design in single.items()}  # fmt: skip
        #: [knobs, widths, parts]: the factor that a knob alone has on a part's cost.
        self.factors = _interpolated(knobs, known, noise.shape[1], len(names))
        self.parts = [self._part(p, name, base, grid) for p, name in enumerate(names)]
        self.widths = np.ones((len(knobs), noise.shape[1]), np.int64)
        for k, knob in enumerate(knobs):
            self.widths[k, : len(knob.widths)] = knob.widths

    def _part(self, p: int, name: str, base: Design, grid: Mapping[tuple[int, int], Design]) -> _Part:
        turning = [k for k in range(len(self.knobs)) if np.any(np.abs(self.factors[k, :, p] - 1) > TINY)]
        own = [k for k in turning if (KnobKind.OUTPUT, name) in self.knobs[k].places]
        weights = [k for k in turning if self.knobs[k].kind is KnobKind.WEIGHTS]
        inputs = [k for k in turning if k not in own and k not in weights]
        table = np.zeros((self.most[0] + 1, self.most[1] + 1))
        for w, a in itertools.product(*(range(1, most + 1) for most in self.most)):
            wider = min(key for key in grid if key[0] >= w and key[1] >= a)
            table[w, a] = grid[wider].parts.get(name, 0.0)
        alone = len(weights) <= 1 and bool(inputs) and name != LINKS
        return _Part(base.parts[name], tuple(weights), tuple(inputs), own[0] if own else None, table if alone else None)

    def price(self, places: Indices) -> Floats:
        """[n] prices of [n, knobs] places in the knobs' widths."""
        bits = self.widths[np.arange(places.shape[1]), places]
        total = np.zeros(len(places))
        for p, part in enumerate(self.parts):
            factors = self.factors[:, :, p]
            if part.table is None:
                turning = (*part.weights, *part.inputs, *(() if part.output is None else (part.output,)))
                total += part.base * np.prod([factors[k, places[:, k]] for k in turning], axis=0)
                continue
            inputs = bits[:, part.inputs].max(axis=1)
            weights = bits[:, part.weights[0]] if part.weights else np.full(len(places), self.most[0])
            cost = part.table[weights, inputs]
            if part.output is not None:  # the grid's design has a result as wide as the inputs
                of_grid = np.clip(self.widths[part.output, 0] - inputs, 0, len(self.knobs[part.output].widths) - 1)
                cost = cost * factors[part.output, places[:, part.output]] / factors[part.output, of_grid]
            total += cost
        return total

    def with_noise(self, share: Sequence[float]) -> Surrogate:
        """The same where what each knob adds to the noise is only this share of it."""
        other = copy(self)
        other.noise_added = self.noise_added * np.array(share)[:, None]
        return other

    def noise(self, places: Indices) -> Floats:
        """[n] noise on top of the widest design's."""
        return np.asarray(self.noise_added[np.arange(places.shape[1]), places].sum(axis=1))


def _interpolated(knobs: Sequence[Knob], known: Mapping[tuple[int, int], Floats], widths: int, parts: int) -> Floats:
    """[knobs, widths, parts] factors: of the widest width 1, between known ones linear, beyond them as the last."""
    table = np.ones((len(knobs), widths, parts))
    for k in range(len(knobs)):
        places = [0, *sorted(w for kk, w in known if kk == k)]
        rows = np.array([np.ones(parts), *(known[k, w] for w in places[1:])])
        for p in range(parts):
            table[k, :, p] = np.maximum(np.interp(np.arange(widths), places, rows[:, p]), TINY)
    return table


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
