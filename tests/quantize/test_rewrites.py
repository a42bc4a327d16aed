"""What every pass of the quantizer writes, and that it keeps what the model computes, as reals and as integers.

`python -m tests.quantize.test_rewrites` writes rewrites.txt again from the graphs in it: read what changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow import golden
from hwflow.quantize import quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.models import kinds
from tests.quantize.rewrites import FILE, Rewrite, cases, computed, every_pass, rewritten, rows_for

#: Passes of other dialects, which have tests of their own, those that only name or number, and one that has data.
ELSEWHERE = {"to-standard-qdq", "classical-to-standard", "small-floats-to-float32", "name-nodes", "equalize",
             "numbers-of-rows", "fourier-to-products"}
#: What the integers may be apart from the reals, by these.
ERROR = 0.06


def hardware(case: Rewrite) -> str:
    """The kinds of the layers, whose integers are near the reals."""
    model = case.model()
    rows = rows_for(model, 40)
    settings = QuantizationSettings(hardware_argmax=case.step == "affine-before-rankings")
    made = quantize(model, rows, settings=settings)
    found = golden.predict(made, rows)
    for value, expected in zip(model.graph.outputs, computed(model, rows), strict=True):
        error = found[value.name].astype(np.float64) - expected
        if expected.dtype.kind == "f":
            assert np.mean(error**2) <= ERROR**2 * np.mean(expected.astype(np.float64) ** 2)
        else:
            assert np.mean(error == 0) > 0.9
    return " ".join(kinds(made))


@pytest.mark.parametrize("title", cases())
def test_what_a_pass_writes(title: str) -> None:
    assert rewritten(cases()[title]) == cases()[title].after


@pytest.mark.parametrize("title", [case.title for case in cases().values() if case.kinds])
def test_what_becomes_of_it(title: str) -> None:
    assert hardware(cases()[title]) == cases()[title].kinds


def test_every_pass_has_a_case() -> None:
    assert {case.step for case in cases().values()} == every_pass().keys() - ELSEWHERE


if __name__ == "__main__":
    made = [replace(case, after=rewritten(case), kinds=case.kinds and hardware(case)) for case in cases().values()]
    FILE.write_text("\n".join(map(str, made)), encoding="utf-8")
    print(f"{FILE.name} written")
