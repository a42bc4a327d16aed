"""Models as text: what every pass of the quantizer writes, and that they mean the same as reals and as integers.

`python -m tests.quantize.test_rewrites` writes both files again from the graphs in them: read what changed.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hwflow import golden
from hwflow.quantize import quantize
from hwflow.quantize.settings import QuantizationSettings
from tests.quantize.invariants import Agreement, check_all, check_export, check_meaning
from tests.quantize.models import kinds
from tests.quantize.rewrites import (
    FILE,
    FLOAT,
    FloatModel,
    Rewrite,
    cases,
    computed,
    every_pass,
    float_models,
    float_texts,
    rewritten,
    rows_for,
)

#: Passes of other dialects, which have tests of their own, those that only name or number, and one that has data.
ELSEWHERE = {"to-standard-qdq", "computed-masks", "classical-to-standard", "small-floats-to-float32", "name-nodes",
             "equalize", "numbers-of-rows", "fourier-to-products", "caches-to-rows",
             "states-of-the-host"}
#: What the integers may be apart from the reals, by these; and where a function has steps.
ERROR, STEPS = 0.06, 0.3


def hardware(case: Rewrite | FloatModel) -> str:
    """The kinds of the layers.  Integers are near the reals, are what each kind of layer means, and are the same when
    the quantized model is read again, which onnxruntime computes alike but for loops in reals."""
    model = case.model()
    rows = rows_for(model, 40)
    settings = QuantizationSettings(hardware_argmax=getattr(case, "step", "") == "affine-before-rankings")
    made = quantize(model, rows, settings=settings)
    check_meaning(made, {name: array[:4] for name, array in rows.items()})
    found, twin, layers = golden.predict(made, rows), computed(made.qdq, rows), kinds(made)
    bound = STEPS if case.title in ("Floor", "Ceil", "Round", "Sign") else ERROR
    for value, expected, other in zip(model.graph.outputs, computed(model, rows), twin, strict=True):
        values = found[value.name].astype(np.float64)
        if expected.dtype.kind == "f":
            assert np.mean((values - expected) ** 2) <= bound**2 * np.mean(expected.astype(np.float64) ** 2)
            same = np.abs(values - other) <= 2e-3 * np.std(other)  # a step is some 0.03 of that
            assert "recurrent" in layers or np.mean(same) > 0.95
        else:
            assert np.mean(values == expected) > 0.9
    if isinstance(case, FloatModel):
        few = {name: array[:8] for name, array in rows.items()}
        check_all(model, made, few, Agreement())
        check_export(made)
    else:
        assert quantize(made.qdq, settings=settings).graph == made.graph
    return " ".join(layers)


@pytest.mark.quick(25)
@pytest.mark.parametrize("title", float_models())
def test_float_models(title: str) -> None:
    """Each layer is onnxruntime's, too, and what is saved is what is loaded."""
    assert hardware(float_models()[title]) == float_models()[title].kinds


@pytest.mark.parametrize("title", cases())
def test_what_a_pass_writes(title: str) -> None:
    assert rewritten(cases()[title]) == cases()[title].after


@pytest.mark.quick(20)
@pytest.mark.parametrize("title", [case.title for case in cases().values() if case.kinds])
def test_what_becomes_of_it(title: str) -> None:
    assert hardware(cases()[title]) == cases()[title].kinds


def test_every_pass_has_a_case() -> None:
    assert {case.step for case in cases().values()} == every_pass().keys() - ELSEWHERE


if __name__ == "__main__":
    made = [replace(case, after=rewritten(case), kinds=case.kinds and hardware(case)) for case in cases().values()]
    FILE.write_text("\n".join(map(str, made)), encoding="utf-8")
    plain = [replace(text, kinds=" or ".join(dict.fromkeys(map(hardware, text.cases())))) for text in float_texts()]
    FLOAT.write_text("\n".join(map(str, plain)), encoding="utf-8")
