"""All forms: at least one for every version of every operator that has a newer one."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from hwflow.onnx.schemas import SCHEMAS, versions_of
from tests.onnx.forms import elementwise, layers, moving, whole
from tests.onnx.forms.form import Form, form_of

DOMAINS = ("", "ai.onnx.ml")


@cache
def corpus() -> tuple[Form, ...]:
    """Every form once, with a label of its own."""
    found: dict[str, int] = {}
    forms = list[Form]()
    for form in _all():
        found[form.label] = found.get(form.label, 0) + 1
        number = found[form.label]
        forms.append(form if number == 1 else form.renamed(f"{form.label}#{number}"))
    return tuple(forms)


def _all() -> Iterator[Form]:
    for source in (elementwise.cases(), moving.cases(), layers.cases(), whole.ml_cases()):
        yield from map(form_of, source)
    yield from whole.forms()


def old_pairs() -> set[tuple[str, str, int]]:
    """(domain, operator, version) where a later version exists and this one is no mere removal."""
    return {
        (domain, op, schema.since)
        for domain, op in SCHEMAS if domain in DOMAINS
        for schema in versions_of(domain, op)[:-1] if not schema.deprecated
    }  # fmt: skip
