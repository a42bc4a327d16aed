"""The section on random networks of all operator sets: how many, which oracle, refused by which reason, wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.sections import Bench, table
from tests.opsets.judge import REFUSED, judged
from tests.opsets.walk import NEWEST

#: Networks that are judged.
COUNT = 1000


def random_sets(bench: Bench) -> str:
    """Random networks of operator sets 1 to 23, from the file to the integers."""
    began = time.monotonic()
    tally = judged(range(COUNT))
    bench.failures += tally.wrong
    rows = []
    for opset in range(1, NEWEST + 1):
        own = [outcome for outcome in tally.outcomes if outcome.opset == opset]
        rows.append((opset, len(own), sum(o.qdq for o in own), sum(o.oracle == "onnxruntime" for o in own),
                     sum(bool(o.refused) for o in own) or ""))  # fmt: skip
    worst = max(outcome.noise for outcome in tally.outcomes)
    head = (
        f"{COUNT} networks, {len(tally.wrong)} wrong, {sum(tally.refused.values())} refused by name, in "
        f"{time.monotonic() - began:.0f} s. Each was compared with the numpy meaning of its nodes, "
        f"{sum(o.oracle == 'onnxruntime' for o in tally.outcomes)} with onnxruntime, too. The largest error of a float "
        f"model's integers is {worst:.1f} times what half a step of 8 bits in every tensor would do."
    )
    sets = table(("operator set", "networks", "of them QDQ", "run by onnxruntime", "refused"), rows)
    reasons = table(("refused", "message", "networks"),
                    ((REFUSED[words], words, count) for words, count in tally.refused.items()))  # fmt: skip
    return f"{head}\n\n{sets}\n\n{reasons}"


RANDOM_SECTIONS: dict[str, Callable[[Bench], str]] = {"random-sets": random_sets}
