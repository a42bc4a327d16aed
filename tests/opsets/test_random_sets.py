"""Random networks of operator sets 1 to 23: right in every step from the file to the integers, or refused by name."""

from __future__ import annotations

import numpy as np
import pytest

from tests.opsets.growing import Growing
from tests.opsets.judge import REFUSED, Tally, agree, judged, noise, of_seed
from tests.opsets.walk import NEWEST
from tests.random_cases import seeds

#: How many of a hundred may be refused, all reasons together.
MOST_REFUSED = 5


def report(tally: Tally) -> None:
    refused = sum(tally.refused.values())
    print(f"{len(tally.outcomes)} networks, {refused} refused")
    for words, count in tally.refused.items():
        print(f"{count:4} {REFUSED[words]}: {words}")
    assert not tally.wrong, "\n".join(tally.wrong)
    assert 100 * refused <= MOST_REFUSED * len(tally.outcomes) + 100


def test_random_networks_of_all_operator_sets() -> None:
    tally = judged(range(NEWEST))
    report(tally)
    assert {outcome.opset for outcome in tally.outcomes} == set(range(1, NEWEST + 1))


@seeds(slow=range(4), name="part")
def test_many_random_networks_of_all_operator_sets(part: int) -> None:
    report(judged(range(1000 + 100 * part, 1100 + 100 * part)))


@pytest.mark.parametrize("opset", [6, 9, 18])
def test_a_wrong_meaning_is_far_above_the_noise(opset: int) -> None:
    """The last activation left out, or the softmax along another axis: what the bounds are for."""
    checked = 0
    for seed in range(opset - 1, 60 * NEWEST, NEWEST):
        net = of_seed(seed)
        places = [k for k, step in enumerate(net.steps) if "softmax" in step.outputs[0] or "elu" in step.outputs[0]]
        if not places or net.exact or checked > 5:
            continue
        rows, wrong = outputs(net, places[-1])
        means = net.mean(rows)
        if all(np.allclose(np.stack([row[name] for row in means]), wrong[name], atol=0.02) for name in net.outputs):
            continue  # what was left out did nothing to these values
        with pytest.raises(AssertionError, match="differs in"):
            agree(wrong, {name: np.stack([row[name] for row in means]) for name in net.outputs}, False, "wrong")
        checked += noise(net, rows, wrong, means) > 4
    assert checked > 5


def outputs(net: Growing, left_out: int) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Rows, and what the network would give without one of its steps."""
    rng = np.random.default_rng(0)
    rows = {name: rng.standard_normal((8, *shape)).astype(np.float32) for name, shape in net.inputs.items()}
    kept = net.steps[left_out]
    net.steps[left_out] = kept.forgetting()
    wrong = net.mean(rows)
    net.steps[left_out] = kept
    return rows, {name: np.stack([row[name] for row in wrong]) for name in net.outputs}
