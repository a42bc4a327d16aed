"""The most bits of each knob, against refusals whose reasons are known."""

from __future__ import annotations

import numpy as np
import pytest

from hwflow.search.widths.knobs import Knob, KnobKind
from hwflow.search.widths.widest import LEVELS, widest


def knobs(count: int) -> tuple[Knob, ...]:
    """By turns a result and weights of 8 bits."""
    kinds = (KnobKind.OUTPUT, KnobKind.WEIGHTS)
    return tuple(Knob(kinds[k % 2], f"layer{k // 2}", tuple(range(8, 0, -1))) for k in range(count))


@pytest.mark.parametrize("seed", range(20))
def test_what_is_refused_alone_is_held_and_all_else_is_wide(seed):
    rng, own = np.random.default_rng(seed), knobs(40)
    most = [int(rng.choice([8, 9, 12, 14])) if rng.random() < 0.15 else 16 for _ in own]
    asked = []

    def refusal(bits):
        asked.append(bits)
        return next((f"too wide for {k}" for k, (b, top) in enumerate(zip(bits, most, strict=True)) if b > top), "")

    found, held = widest(own, refusal)
    for knob, bits, top in zip(own, found, most, strict=True):
        levels = [level for level in LEVELS if level <= top]
        assert bits == (8 if knob.kind is KnobKind.WEIGHTS else levels[0] if levels else 8)
    assert {item.knob for item in held} == {knob for knob, bits in zip(own, found, strict=True)
                                            if bits < 16 and knob.kind is KnobKind.OUTPUT}
    assert all(item.why.startswith("too wide for") for item in held)
    culprits = len(held)
    assert len(asked) <= 1 + 4 * max(culprits, 1) * 12
    assert not refusal(found)


def test_what_is_refused_only_together_is_found_together():
    own = knobs(12)

    def refusal(bits):
        return "two of three may be wide" if sum(bits[k] > 8 for k in (0, 4, 8)) > 2 else ""

    found, held = widest(own, refusal)
    assert not refusal(found)
    assert [found[k] for k in (0, 4, 8)].count(16) == 2
    (only,) = held
    assert str(only) == f"'{only.knob.name}' has 8 bits at most: two of three may be wide"
