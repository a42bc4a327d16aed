"""All forms: at least one for every version of every operator."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hwflow.onnx.schemas import SCHEMAS, versions_of
from tests.onnx.forms import (
    attention,
    custom,
    elementwise,
    images,
    learning,
    made,
    moving,
    normalization,
    products,
    quantized,
    recurrent,
    signal,
    text,
    whole,
    windows,
)
from tests.onnx.forms.form import Form, form_of

DOMAINS = ("", "ai.onnx.ml")
FAMILIES = (elementwise, products, made, moving, images, windows, normalization, recurrent, quantized, attention,
            signal, text, learning, custom)  # fmt: skip


@cache
def corpus() -> tuple[Form, ...]:
    """Every form once, with a label of its own."""
    labels: dict[str, int] = {}
    forms = list[Form]()
    for form in _all():
        labels[form.label] = labels.get(form.label, 0) + 1
        number = labels[form.label]
        forms.append(form if number == 1 else form.renamed(f"{form.label}#{number}"))
    return tuple(forms)


def _all() -> Iterator[Form]:
    for family in FAMILIES:
        yield from map(form_of, family.cases())
    yield from whole.forms()


def versions() -> set[tuple[str, str, int]]:
    """(domain, operator, version) of all that are no mere removal."""
    return {
        (domain, op, schema.since)
        for domain, op in SCHEMAS if domain in DOMAINS
        for schema in versions_of(domain, op) if not schema.deprecated
    }  # fmt: skip
