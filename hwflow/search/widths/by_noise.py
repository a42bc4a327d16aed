"""The search for the cheapest design whose noise is the goal itself, from more bits than the default downwards.

Noise is smooth, so few designs have to be measured: what each width adds alone is probed with weights that are not
tuned, which takes little time, and adds up.  All that is measured is tuned, because tuning decides what weights add.
"""

from __future__ import annotations

from collections.abc import Sequence

from hwflow.search.widths.knobs import Bits, Knob, KnobKind
from hwflow.search.widths.points import Evaluator
from hwflow.search.widths.search import LEAST, SHARE, Progress, Search, bisect, descent, sensitivity, walk

#: What tuning leaves of the noise of weights at least: some 6 dB are gained at 4 bits.
LEAST_LEFT = 0.25


def search_noise(
    knobs: Sequence[Knob],
    evaluator: Evaluator,
    *,
    limit: float,
    evaluations: int,
    default: Bits | None = None,
    progress: Progress | None = None,
) -> Search:
    """Measure designs in search of the cheapest one whose noise is at most `limit` per cent of an output's size.

    So many `evaluations` are probes at most, and a tenth of them designs that are measured.  Where not even the widest
    design reaches the limit, nothing else is measured.  `default` is a design that is measured in any case.
    """
    widest = tuple(knob.widths[0] for knob in knobs)
    plain, tuned = (Search(knobs, evaluator, limit, max(evaluations // SHARE, LEAST), progress, tuned=is_tuned,
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
    if default is not None:
        state.measure(default)
    bisect(state, descent(knobs, state.surrogate))
    walk(state)
    state.used += probing.used
    return state
