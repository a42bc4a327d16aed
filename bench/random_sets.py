"""The section on random networks of all operator sets: how many of each, and how many are wrong."""

from __future__ import annotations

import time
from collections.abc import Callable

from bench.sections import Bench, table
from tests.quantize.test_operator_sets import NEWEST, Case, judged

#: Networks that are judged.
COUNT = 500


def random_sets(bench: Bench) -> str:
    """Random networks of operator sets 1 to 23, from the file to the integers."""
    began, made, wrong = time.monotonic(), list[Case](), list[str]()
    for seed in range(COUNT):
        try:
            made += judged([seed])
        except Exception as error:
            wrong.append(f"seed {seed}: {type(error).__name__}: {error}")
    bench.failures += wrong
    rows = []
    for opset in range(1, NEWEST + 1):
        own = [case for case in made if case.opset == opset]
        rows.append((opset, len(own), sum(case.exact for case in own)))
    head = (
        f"{COUNT} networks, {len(wrong)} wrong, in {time.monotonic() - began:.0f} s. Each was compared with what "
        "onnxruntime gives of the network as it was before it was written in its operator set."
    )
    return f"{head}\n\n{table(('operator set', 'networks', 'of them QDQ'), rows)}"


RANDOM_SECTIONS: dict[str, Callable[[Bench], str]] = {"random-sets": random_sets}
