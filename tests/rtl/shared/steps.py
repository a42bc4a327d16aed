"""A `Compute` by the names of all its numbers, those of its addresses with `read_` and `write_` before them."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import fields, replace
from typing import Any

from hwflow_rtl.shared.steps import Compute, Loops, Output, Padding, ReadWalk, Weighting, WriteWalk

PARTS = {"loops": ("", Loops), "read": ("read_", ReadWalk), "write": ("write_", WriteWalk), "padding": ("", Padding),
         "weighting": ("", Weighting), "output": ("", Output)}
#: The part of a `Compute` that has a number, and what it is called there.
PLACES = {f"{prefix}{each.name}": (part, each.name) for part, (prefix, kind) in PARTS.items() for each in fields(kind)}


def changed(step: Compute, **numbers: Any) -> Compute:
    """`step` with other numbers."""
    parts: dict[str, dict[str, Any]] = defaultdict(dict)
    operation = numbers.pop("operation", step.operation)
    for name, number in numbers.items():
        part, field = PLACES[name]
        parts[part][field] = number
    return replace(step, operation=operation, **{
        part: replace(getattr(step, part), **numbers) for part, numbers in parts.items()})


def compute(**numbers: Any) -> Compute:
    """A step of these numbers; each other one has its default."""
    return changed(Compute(read=ReadWalk(base=0), write=WriteWalk(base=0)), **numbers)
