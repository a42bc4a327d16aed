"""From the search's points to designs with the full tuning of their weights, which alone count in the end.

Tuning lowers the noise of narrow weights and takes time.  So the search goes without it, and its cheapest designs are
tuned afterwards: those that kept the limit, then cheaper ones that did not, then steps on from the best tuned one.
"""

from __future__ import annotations

from hwflow.search.widths.points import Point, frontier
from hwflow.search.widths.search import Progress, Search, walk

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
    found = tuned.measure(point.bits)
    return found is not None and found.reaches(tuned.limit)
