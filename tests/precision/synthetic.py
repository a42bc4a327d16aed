"""Evaluators with known answers, for tests of the search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hwflow_rtl.vendor import Resources

from hwflow.precision.knobs import Bits, Knob, KnobKind
from hwflow.precision.points import Design, Point


def knobs(widths: Sequence[Sequence[int]]) -> tuple[Knob, ...]:
    """Knobs of weights with these widths."""
    return tuple(Knob(KnobKind.WEIGHTS, f"layer{k}", tuple(w)) for k, w in enumerate(widths))


@dataclass
class Synthetic:
    """Layer k multiplies by weights of knob 2k and elements of knob 2k + 1; noise adds up; drop grows with noise.

    `asked` counts the evaluations of each kind.
    """

    knobs: tuple[Knob, ...]
    size: np.ndarray
    gain: np.ndarray
    step: float = 0.25
    asked: dict[str, int] = field(default_factory=lambda: {"design": 0, "probe": 0, "measure": 0})

    @staticmethod
    def random(seed: int, widths: Sequence[Sequence[int]]) -> Synthetic:
        rng = np.random.default_rng(seed)
        count = len(widths)
        return Synthetic(knobs(widths), rng.uniform(0.2, 5, (count + 1) // 2), 10 ** rng.uniform(-1, 2.5, count))

    def design(self, bits: Bits) -> Design:
        self.asked["design"] += 1
        parts = {}
        for layer, size in enumerate(self.size):
            pair = bits[2 * layer : 2 * layer + 2]
            parts[f"layer{layer}"] = float(size * (np.prod(pair) + 2 * np.sum(pair))) / 1000
        price = sum(parts.values())
        return Design(Resources(lut=round(price * 1000)), price, parts)

    def noise(self, bits: Bits) -> float:
        return float(sum(gain * 4.0**-width for gain, width in zip(self.gain, bits, strict=True)))

    def probe(self, bits: Bits) -> float:
        self.asked["probe"] += 1
        return self.noise(bits)

    def measure(self, bits: Bits, *, tuned: bool = False) -> Point:
        self.asked["measure"] += 1
        design, noise = self.design(bits), self.noise(bits) / (2 if tuned else 1)
        drop = np.floor(100 * noise / self.step) * self.step
        return Point(bits, tuned, design.resources, design.price, noise, 100 - drop, drop)

    def optimum(self, limit: float) -> Point | None:
        """The cheapest of all designs that reach `limit`, by looking at each."""
        every = (self.measure(bits) for bits in itertools.product(*(knob.widths for knob in self.knobs)))
        return min((p for p in every if p.reaches(limit)), key=lambda p: p.price, default=None)
