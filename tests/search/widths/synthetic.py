"""Evaluators with known answers, for tests of the search."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from hwflow_rtl.vendor import Resources

from hwflow.search.widths.knobs import Bits, Knob, KnobKind
from hwflow.search.widths.points import Design, Point


def knobs(widths: Sequence[Sequence[int]]) -> tuple[Knob, ...]:
    """Knobs of weights and inputs of layers, by turns, with these widths."""
    kinds = (KnobKind.WEIGHTS, KnobKind.INPUT)
    return tuple(Knob(kinds[k % 2], f"layer{k // 2}", tuple(w)) for k, w in enumerate(widths))


@dataclass
class Synthetic:
    """Layer k multiplies by weights of knob 2k and elements of knob 2k + 1; noise adds up; drop grows with noise.

    Products of operands of which one has at most `fabric` bits cost what their widths say, others the same.
    `asked` counts the evaluations of each kind.
    """

    knobs: tuple[Knob, ...]
    size: np.ndarray
    gain: np.ndarray
    step: float = 0.25
    fabric: int = 8
    asked: dict[str, int] = field(default_factory=lambda: {"design": 0, "probe": 0, "measure": 0})

    @staticmethod
    def random(seed: int, widths: Sequence[Sequence[int]]) -> Synthetic:
        rng = np.random.default_rng(seed)
        count = len(widths)
        sizes, gains = rng.uniform(0.2, 5, (count + 1) // 2), 10 ** rng.uniform(-1, 2.5, count)
        return Synthetic(knobs(widths), sizes, gains, fabric=int(rng.choice([3, 5, 8])))

    def design(self, bits: Bits) -> Design:
        self.asked["design"] += 1
        parts = {}
        for layer, size in enumerate(self.size):
            pair = bits[2 * layer : 2 * layer + 2]
            products = np.prod(pair) if min(pair) <= self.fabric else 100  # in logic, or in a block of one size
            parts[f"layer{layer}"] = float(size * (products + 2 * np.sum(pair))) / 1000
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
