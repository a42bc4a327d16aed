"""The search for the cheapest widths that keep the accuracy.

1. The widest design is measured; then what each width alone does to cost and to the noise at the outputs.
2. From these a path of descent is predicted: again and again the width that saves most for the noise that it adds.
3. The path is measured where the accuracy passes the limit (by bisection), and here and there for the frontier.
4. From the cheapest design that keeps the limit the search walks on: it measures the step with the largest expected
   saving, takes it where the limit is kept, and learns from it where not.  A step narrows one width, or narrows one
   and widens another (which repairs what an earlier step broke).

Deterministic: the same answers of the evaluator give the same designs in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwflow.precision.knobs import Bits, Knob
from hwflow.precision.points import Evaluator, Point
from hwflow.precision.surrogate import Indices, Surrogate, bits_at, noise_table, place_of

__all__ = ["Search", "search"]

#: Called with (evaluations done, evaluations allowed).
Progress = Callable[[int, int], None]

#: Bits that are probed for their noise, in the order of their use to the search.
PROBED = (4, 2, 6, 3, 1, 5, 7)
#: How many designs along the path are measured for the frontier, besides those of the bisection.
ALONG_THE_PATH = 8
#: So many steps in a row without a success end the walk.
PATIENCE = 40
#: A step that is expected to save less than this share of the price is not worth a measurement.
WORTH = 1e-4
#: Standard deviation of the logarithm of the noise at which accuracy passes the limit.
SPREAD = 0.5


@dataclass
class Search:
    """The state of a search: what was measured, and how many evaluations are left."""

    knobs: Sequence[Knob]
    evaluator: Evaluator
    limit: float
    evaluations: int
    progress: Progress | None = None
    points: dict[Bits, Point] = field(default_factory=dict)
    used: int = 0

    @property
    def left(self) -> int:
        return self.evaluations - self.used

    def count(self) -> None:
        self.used += 1
        if self.progress is not None:
            self.progress(self.used, self.evaluations)

    def measure(self, bits: Bits) -> Point | None:
        """The point, from before where it is known; None where no evaluations are left."""
        if bits not in self.points:
            if self.left <= 0:
                return None
            self.points[bits] = self.evaluator.measure(bits)
            self.count()
        return self.points[bits]

    def best(self) -> Point | None:
        """The cheapest point that reaches the limit; of equals the one that loses least."""
        reaching = [point for point in self.points.values() if point.reaches(self.limit)]
        return min(reaching, key=lambda p: (p.price, p.drop, p.bits), default=None)


def search(
    knobs: Sequence[Knob],
    evaluator: Evaluator,
    *,
    limit: float,
    evaluations: int,
    progress: Progress | None = None,
) -> Search:
    """Measure designs, at most `evaluations`, in search of the cheapest one whose drop is at most `limit`."""
    state = Search(knobs, evaluator, limit, evaluations, progress)
    widest = bits_at(knobs, [0] * len(knobs))
    if math.prod(len(knob.widths) for knob in knobs) <= evaluations:
        for bits in itertools.product(*(knob.widths for knob in knobs)):
            state.measure(bits)
        return state
    state.measure(widest)
    surrogate = sensitivity(state, widest)
    path = descent(knobs, surrogate)
    _along(state, path)
    _walk(state, surrogate)
    return state


def sensitivity(state: Search, widest: Bits) -> Surrogate:
    """What each width alone does; noise is probed for as many widths as half of the evaluations allow."""
    knobs, evaluator = state.knobs, state.evaluator
    probes: dict[tuple[int, int], float] = {}
    allowed = state.left // 2
    for width in PROBED:
        turned = [(k, knob.widths.index(width)) for k, knob in enumerate(knobs) if width in knob.widths[1:]]
        if len(turned) > allowed:
            break
        allowed -= len(turned)
        for k, place in turned:
            probes[k, place] = evaluator.probe(_turned(knobs, widest, k, place))
            state.count()
    base = evaluator.probe(widest) if probes else 0.0
    designs = [
        [evaluator.design(_turned(knobs, widest, k, w)) for w in range(len(knob.widths))]
        for k, knob in enumerate(knobs)
    ]
    return Surrogate(evaluator.design(widest), designs, noise_table(knobs, base, probes))


def _turned(knobs: Sequence[Knob], bits: Bits, k: int, place: int) -> Bits:
    return (*bits[:k], knobs[k].widths[place], *bits[k + 1 :])


def descent(knobs: Sequence[Knob], surrogate: Surrogate) -> list[Bits]:
    """From the widest design down: each time the step to a narrower width that saves most for the noise it adds."""
    places = np.zeros((1, len(knobs)), np.int64)
    path = [bits_at(knobs, places[0].tolist())]
    while True:
        steps = _narrower(knobs, places[0])
        if not len(steps):
            return path
        saved = surrogate.price(places) - surrogate.price(steps)
        added = surrogate.noise(steps) - surrogate.noise(places)
        worth = np.where(saved > 0, saved / np.maximum(added, 1e-12), -1.0)
        chosen = int(worth.argmax())
        if worth[chosen] <= 0:
            return path
        places = steps[chosen][None]
        path.append(bits_at(knobs, places[0].tolist()))


def _narrower(knobs: Sequence[Knob], places: Indices) -> Indices:
    """[n, knobs]: every design with one width narrower."""
    rows = []
    for k, knob in enumerate(knobs):
        for place in range(int(places[k]) + 1, len(knob.widths)):
            row = places.copy()
            row[k] = place
            rows.append(row)
    return np.array(rows, np.int64).reshape(len(rows), len(knobs))


def _along(state: Search, path: Sequence[Bits]) -> None:
    """Measure the path where the drop passes the limit, and at even distances."""
    low, high = 0, len(path)
    while high - low > 1:
        middle = (low + high) // 2
        point = state.measure(path[middle])
        if point is None:
            return
        low, high = (middle, high) if point.reaches(state.limit) else (low, middle)
    last = len(path) - 1
    for k in range(1, ALONG_THE_PATH + 1):
        if state.left > state.evaluations // 4:  # the walk comes first
            state.measure(path[round(k * last / ALONG_THE_PATH)])


def _walk(state: Search, surrogate: Surrogate) -> None:
    """Step on from the best design while steps are left that are worth a measurement."""
    misses = 0
    while state.left > 0 and misses < PATIENCE:
        current = state.best()
        if current is None:
            return
        bits = _best_step(state, surrogate, current)
        if bits is None:
            return
        point = state.measure(bits)
        assert point is not None, "evaluations were left"
        misses = 0 if state.best() is point else misses + 1


def _best_step(state: Search, surrogate: Surrogate, current: Point) -> Bits | None:
    """The design near `current`, not yet measured, with the largest expected saving; None where none is worth it."""
    places = np.array([place_of(state.knobs, current.bits)], np.int64)
    steps = _neighbours(state.knobs, places[0])
    factor = current.price / float(surrogate.price(places)[0])
    saved = current.price - surrogate.price(steps) * factor
    noise = np.maximum(current.noise + surrogate.noise(steps) - surrogate.noise(places), 1e-12)
    chance = 1 / (1 + np.exp(np.minimum((np.log(noise) - _passing(state)) / SPREAD, 50)))
    gain = saved * chance
    for index in np.argsort(-gain, kind="stable"):
        if gain[index] < WORTH * current.price:
            return None
        bits = bits_at(state.knobs, steps[index].tolist())
        if bits not in state.points:
            return bits
    return None


def _neighbours(knobs: Sequence[Knob], places: Indices) -> Indices:
    """Designs with one width narrower, and those with besides another one or two bits wider."""
    narrower = _narrower(knobs, places)
    rows = [narrower]
    for k in range(len(knobs)):
        for wider in (1, 2):
            if places[k] >= wider:
                also = narrower[narrower[:, k] == places[k]].copy()
                also[:, k] -= wider
                rows.append(also)
    return np.concatenate(rows)


def _passing(state: Search) -> float:
    """The logarithm of the noise that best tells the points that reach the limit from the others."""
    known = sorted((math.log(max(p.noise, 1e-12)), p.reaches(state.limit)) for p in state.points.values())
    logs = [log for log, _ in known]
    reaching = np.array([reaches for _, reaches in known])
    # Cut k takes the first k points to reach the limit; mistakes are those that do not, and later ones that do.
    mistakes = np.concatenate([[0], np.cumsum(~reaching)]) + reaching.sum() - np.concatenate([[0], np.cumsum(reaching)])
    ends = [logs[0] - 1.0, *logs, logs[-1] + 1.0]
    cuts = [(ends[k] + ends[k + 1]) / 2 for k in range(len(logs) + 1)]
    return float(np.mean([cut for cut, count in zip(cuts, mistakes, strict=True) if count == mistakes.min()]))
