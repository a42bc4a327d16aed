"""The search for the cheapest design whose noise is the goal itself, from more bits than the default downwards.

Noise is smooth, so few designs have to be measured: what each width adds alone is probed with weights that are not
tuned, which takes little time, and adds up.  All that is measured is tuned, because tuning decides what weights add.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hwflow.search.widths.knobs import Bits, Knob, KnobKind
from hwflow.search.widths.points import Evaluator
from hwflow.search.widths.search import LEAST, Progress, Search, descent, sensitivity, walk
from hwflow.search.widths.surrogate import Surrogate, place_of

#: One measured design for so many evaluations.
SHARE_OF_NOISE = 16
#: So many designs of the predicted path are measured, and so many steps without a success end the walk.
APPROACHES, GIVE_UP = 5, 3
#: What tuning leaves of the noise of weights at least: some 6 dB are gained at 4 bits.
LEAST_LEFT = 0.25


def search_noise(
    knobs: Sequence[Knob],
    evaluator: Evaluator,
    *,
    limit: float,
    evaluations: int,
    progress: Progress | None = None,
) -> Search:
    """Measure designs in search of the cheapest one whose noise is at most `limit` per cent of an output's size.

    Half of so many `evaluations` are probes at most, and a sixteenth are designs that are measured, but six in any
    case.  Where not even the widest design reaches the limit, nothing else is measured.
    """
    widest = tuple(knob.widths[0] for knob in knobs)
    plain, tuned = (Search(knobs, evaluator, limit, max(evaluations // SHARE_OF_NOISE, LEAST), progress, tuned=is_tuned,
                           loudest=(limit / 100) ** 2) for is_tuned in (False, True))  # fmt: skip
    rough, fine = plain.measure(widest), tuned.measure(widest)
    assert rough is not None, "evaluations were left"
    assert fine is not None, "evaluations were left"
    state = tuned if fine.noise < rough.noise else plain
    if not state.points[widest].reaches(limit):
        return state
    probing = Search(knobs, evaluator, limit, evaluations, progress)
    added = sensitivity(probing, widest)
    left = min(max(fine.noise / rough.noise, LEAST_LEFT), 1.0) if state.tuned else 1.0
    state.surrogate = added.with_noise([left if knob.kind is KnobKind.WEIGHTS else 1.0 for knob in knobs])
    _approach(state, state.surrogate, descent(knobs, state.surrogate))
    walk(state, GIVE_UP)
    state.used += probing.used
    return state


def _approach(state: Search, surrogate: Surrogate, path: Sequence[Bits]) -> None:
    """Measure designs of the path towards the cheapest that reaches the limit.

    Each time the last one whose prediction reaches it, as far as the design before was off its own.
    """
    assert state.loudest is not None, "noise is the goal"
    widest = state.points[path[0]].noise
    predicted = widest + surrogate.noise(np.array([place_of(state.knobs, bits) for bits in path], np.int64))
    low, high, off = 0, len(path), 1.0
    for _ in range(APPROACHES):
        if high - low <= 1:
            return
        reaching = np.flatnonzero(off * predicted[low + 1 : high] <= state.loudest)
        margin = (high - low - 1) // 4  # a prediction that is far off must not hold the search at an end
        number = min(max(low + 1 + int(reaching.max(initial=0)), low + 1 + margin), high - 1 - margin)
        point = state.measure(path[number])
        if point is None:
            return
        off = point.noise / predicted[number]
        low, high = (number, high) if point.reaches(state.limit) else (low, number)
