"""The search for the cheapest widths that keep the accuracy.

1. The widest design is measured; then what each width alone does to cost and to the noise at the outputs.
2. From these a path of descent is predicted: again and again the width that saves most for the noise that it adds.
3. The path is measured where the accuracy passes the limit (by bisection), and here and there for the frontier.
4. From the cheapest design that keeps the limit the search walks on: it measures the step with the largest expected
   saving, takes it where the limit is kept, and learns from it where not.  A step narrows one width, and where that
   would pass the limit widens others (which also repairs what an earlier step broke).

Deterministic: the same answers of the evaluator give the same designs in the same order.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from hwflow.search.widths.knobs import Bits, Knob, KnobKind
from hwflow.search.widths.points import Design, Evaluator, Point, frontier
from hwflow.search.widths.surrogate import Floats, Indices, Surrogate, bits_at, grid_bits, noise_table, place_of

#: A repair ends at the noise at which accuracy passes the limit, times these: the odds are even, or worse.
REPAIRED_TO = (1.0, 1.25, 1.6, 2.0)


def narrower(knobs: Sequence[Knob], places: Indices) -> tuple[Indices, Indices]:
    """Every design with one width narrower than at `places` [knobs]: [n, knobs], and which knob it was: [n]."""
    rows, turned = [], []
    for k, knob in enumerate(knobs):
        for place in range(int(places[k]) + 1, len(knob.widths)):
            row = places.copy()
            row[k] = place
            rows.append(row)
            turned.append(k)
    return np.array(rows, np.int64).reshape(len(rows), len(knobs)), np.array(turned, np.int64)


def steps_from(knobs: Sequence[Knob], surrogate: Surrogate, places: Indices, allowed: float) -> Indices:
    """[n, knobs]: designs with one width narrower, those with another one or two bits wider, and those repaired.

    `allowed` is the noise of the surrogate at which accuracy passes the limit.
    """
    plain, turned = narrower(knobs, places)
    rows = [plain]
    for k in range(len(knobs)):
        for wider in (1, 2):
            if places[k] >= wider:
                also = plain[turned != k]
                also[:, k] -= wider
                rows.append(also)
    highest = float(surrogate.price(places[None])[0])
    if allowed > 0:
        rows += [_repaired(surrogate, plain, turned, allowed * share, highest) for share in REPAIRED_TO]
    return np.concatenate(rows)


def _repaired(surrogate: Surrogate, rows: Indices, turned: Indices, allowed: float, highest: float) -> Indices:
    """`rows` with widths other than the `turned` ones made wider until the noise is `allowed`.

    Each time the bit that takes most noise away for what it costs.  Rows that come to cost `highest` are given up.
    """
    done: list[Indices] = []
    while len(rows):
        noise, price = surrogate.noise(rows), surrogate.price(rows)
        good, hopeless = noise <= allowed, price >= highest
        done.append(rows[good & ~hopeless])
        open_ = ~good & ~hopeless
        rows, turned = rows[open_], turned[open_]
        chosen = _widened(surrogate, rows, turned, noise[open_], price[open_])
        changed = (chosen != rows).any(axis=1)
        rows, turned = chosen[changed], turned[changed]
    return np.concatenate(done) if done else rows


def _widened(surrogate: Surrogate, rows: Indices, turned: Indices, noise: Floats, price: Floats) -> Indices:
    """Each row with the bit that is worth most; as it was where there is none."""
    count, knobs = rows.shape
    wider = np.repeat(rows[:, None], knobs, axis=1)
    numbers = np.arange(knobs)
    wider[:, numbers, numbers] -= 1
    barred = (wider[:, numbers, numbers] < 0) | (turned[:, None] == numbers)
    wider = np.maximum(wider, 0).reshape(count * knobs, knobs)
    less = noise[:, None] - surrogate.noise(wider).reshape(count, knobs)
    more = surrogate.price(wider).reshape(count, knobs) - price[:, None]
    worth = np.where(barred | (less <= 0), -1.0, less / np.maximum(more, 1e-12))
    best = worth.argmax(axis=1)
    widened = wider.reshape(count, knobs, knobs)[np.arange(count), best]
    return np.where((worth.max(axis=1) > 0)[:, None], widened, rows)


#: Called with (evaluations done, evaluations allowed).
Progress = Callable[[int, int], None]

#: Bits that are probed for their noise, in the order of their use to the search.
PROBED = (4, 2, 6, 3, 1, 5, 7)
#: The cost of the first of them is asked for in any case.
COSTED = 2
#: Widths of all weights and of all activations whose cost is asked for: the most with no more designs than evaluations.
GRIDS = ((1, 2, 3, 4, 5, 6, 7, 8), (1, 2, 3, 4, 6, 8), (2, 4, 6, 8), (2, 4, 8), (4, 8))
#: The same of a search from more than eight bits: cost is smooth there, and activations count most.
#: First of weights, then of activations, so that the first look is at all of them.
WIDE_PROBED = ((4, 8), (6, 4), (3, 6))
WIDE_WEIGHTS, WIDE_ACTIVATIONS = (2, 4, 6, 8), (4, 6, 8, 10, 12)
#: How many designs along the path are measured for the frontier, besides those of the bisection.
ALONG_THE_PATH = 8
#: So many steps in a row without a success end the walk.
PATIENCE = 40
#: A step that is expected to save less than this share of the price is not worth a measurement.
WORTH = 2e-4
#: The same where each measurement tunes a whole model.
WORTH_OF_NOISE = 5e-3
#: Standard deviation of the logarithm of the noise at which accuracy passes the limit.
SPREAD = 0.4
#: That of the noise that is predicted for a design near to one that was measured.
SPREAD_OF_NOISE = 0.2

_ERFC = np.frompyfunc(math.erfc, 1, 1)


@dataclass
class Search:
    """The state of a search: what was measured, and how many evaluations are left.

    `tuned` says which of the designs' points are meant.  `others` are points of another search of the same model, for
    what they tell of noise and accuracy.  `surrogate` is None where every design was measured.  `loudest`: where noise
    itself is the goal, that of the limit; then nothing has to be learned of where accuracy passes it.
    """

    knobs: Sequence[Knob]
    evaluator: Evaluator
    limit: float
    evaluations: int
    progress: Progress | None = None
    tuned: bool = False
    others: tuple[Point, ...] = ()
    points: dict[Bits, Point] = field(default_factory=dict)
    surrogate: Surrogate | None = None
    used: int = 0
    loudest: float | None = None

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
            self.points[bits] = self.evaluator.measure(bits, tuned=self.tuned)
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
    state.surrogate = sensitivity(state, widest)
    _along(state, descent(knobs, state.surrogate))
    walk(state)
    return state


def sensitivity(state: Search, widest: Bits) -> Surrogate:
    """The effect of each width; noise is probed for as many widths as half of the evaluations allow."""
    knobs, evaluator = state.knobs, state.evaluator
    probes: dict[tuple[int, int], float] = {}
    single: dict[tuple[int, int], Design] = {}
    allowed = state.left // 2
    looks = WIDE_PROBED if _is_wide(knobs) else tuple((width, width) for width in PROBED)
    for number, (weights, activations) in enumerate(looks):
        widths = [weights if knob.kind is KnobKind.WEIGHTS else activations for knob in knobs]
        turned = [(k, knob.widths.index(width)) for k, (knob, width) in enumerate(zip(knobs, widths, strict=True))
                  if width in knob.widths[1:]]  # fmt: skip
        allowed -= len(turned)
        if allowed < 0 and number >= COSTED:
            break
        for k, place in turned:
            bits = _turned(knobs, widest, k, place)
            single[k, place] = evaluator.design(bits)
            if allowed >= 0:
                probes[k, place] = evaluator.probe(bits)
                state.count()
    base = evaluator.probe(widest) if probes else 0.0
    grid = {(w, a): evaluator.design(grid_bits(knobs, w, a)) for w, a in _costed(knobs, state.evaluations)}
    return Surrogate(knobs, evaluator.design(widest), single, grid, noise_table(knobs, base, probes))


def _is_wide(knobs: Sequence[Knob]) -> bool:
    return any(knob.widths[0] > GRIDS[0][-1] for knob in knobs)


def _costed(knobs: Sequence[Knob], evaluations: int) -> Iterator[tuple[int, int]]:
    """The widths of all weights and of all activations whose cost is asked for."""
    costed = next((widths for widths in GRIDS if len(widths) ** 2 <= evaluations), GRIDS[-1])
    both = (WIDE_WEIGHTS, WIDE_ACTIVATIONS) if _is_wide(knobs) else (costed, costed)
    tops = [[knob.widths[0] for knob in knobs if (knob.kind is KnobKind.WEIGHTS) == of_weights]
            for of_weights in (True, False)]  # fmt: skip
    weights, activations = (sorted({*own, *(top for top in of_kind if top > own[-1])})
                            for own, of_kind in zip(both, tops, strict=True))  # fmt: skip
    yield from itertools.product(weights, activations)


def _turned(knobs: Sequence[Knob], bits: Bits, k: int, place: int) -> Bits:
    return (*bits[:k], knobs[k].widths[place], *bits[k + 1 :])


def descent(knobs: Sequence[Knob], surrogate: Surrogate) -> list[Bits]:
    """From the widest design down: each time the step to a narrower width that saves most for the noise it adds."""
    places = np.zeros((1, len(knobs)), np.int64)
    path = [bits_at(knobs, places[0].tolist())]
    while True:
        steps, _ = narrower(knobs, places[0])
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


def walk(state: Search, patience: int = PATIENCE) -> None:
    """Step on from the best design while steps are left that are worth a measurement."""
    misses = 0
    while state.left > 0 and misses < patience:
        current = state.best()
        if current is None or state.surrogate is None:
            return
        bits = _best_step(state, state.surrogate, current)
        if bits is None:
            return
        point = state.measure(bits)
        assert point is not None, "evaluations were left"
        misses = 0 if state.best() is point else misses + 1


def _best_step(state: Search, surrogate: Surrogate, current: Point) -> Bits | None:
    """The design near `current`, not yet measured, with the largest expected saving; None where none is worth it."""
    places = np.array([place_of(state.knobs, current.bits)], np.int64)
    guess, added = float(surrogate.price(places)[0]), float(surrogate.noise(places)[0])
    passing = _passing(state) if state.loudest is None else math.log(state.loudest)
    spread, worth = (SPREAD, WORTH) if state.loudest is None else (SPREAD_OF_NOISE, WORTH_OF_NOISE)
    steps = steps_from(state.knobs, surrogate, places[0], math.exp(passing) - current.noise + added)
    saved = current.price - surrogate.price(steps) * (current.price / guess if guess > 0 else 0.0)
    noise = np.maximum(current.noise + surrogate.noise(steps) - added, 1e-12)
    chance = _normal((passing - np.log(noise)) / spread)
    gain = saved * chance
    for index in np.argsort(-gain, kind="stable"):
        if gain[index] <= worth * current.price:
            return None
        bits = bits_at(state.knobs, steps[index].tolist())
        if bits not in state.points:
            return bits
    return None


def _passing(state: Search) -> float:
    """The logarithm of the noise at which a design reaches the limit or not with the same chance: the most likely one,
    seeing which points do (probit regression with a known slope)."""
    points = (*state.others, *state.points.values())
    logs = np.log([max(point.noise, 1e-12) for point in points])
    signs = np.where([point.reaches(state.limit) for point in points], 1.0, -1.0)
    cuts = np.linspace(logs.min() - 1, logs.max() + 1, 400)
    chances = _normal(signs * (cuts[:, None] - logs) / SPREAD)
    return float(cuts[np.log(np.maximum(chances, 1e-300)).sum(axis=1).argmax()])


def _normal(x: Floats) -> Floats:
    """The distribution function of the normal distribution."""
    return np.asarray(_ERFC(-x / math.sqrt(2)), np.float64) / 2


# From the search's points to designs with the full tuning of their weights, which alone count in the end.


#: One tuned design for so many that are not, and at least some.
SHARE, LEAST = 10, 6
#: So many designs that lost too much without tuning are tried.
HOPES = 4


def prove(state: Search, progress: Progress | None = None) -> tuple[Point, ...]:
    """Measure designs of a finished search with full tuning, in the order in which they are measured.

    Where the cheapest that reached the limit fails now, the next ones are tried; where none does, the most accurate
    one and the widest.
    """
    untuned = tuple(state.points.values())
    tuned = Search(state.knobs, state.evaluator, state.limit, max(state.evaluations // SHARE, LEAST), progress,
                   tuned=True, others=untuned, surrogate=state.surrogate)  # fmt: skip
    by_price = sorted(frontier(untuned), key=lambda point: point.price)
    reaching = [point for point in by_price if point.reaches(state.limit)]
    failing = [point for point in by_price if not point.reaches(state.limit)]
    for point in reaching[: LEAST - 1]:
        if _reaches(tuned, point):
            break
    else:
        for point in (*sorted(failing, key=lambda p: p.drop)[:1], untuned[0]):
            _reaches(tuned, point)
    best = tuned.best()
    if best is not None:
        for point in [point for point in reversed(failing) if point.price < best.price][:HOPES]:
            if not _reaches(tuned, point):
                break
        walk(tuned)
    return tuple(tuned.points.values())


def _reaches(tuned: Search, point: Point) -> bool:
    measured = tuned.measure(point.bits)
    return measured is not None and measured.reaches(tuned.limit)
