"""Steps from each version of each operator to the next one, in one table.  `downward` has the others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from hwflow.onnx.conversion import (
    control,
    elementwise,
    layers,
    moving,
    trees,
)
from hwflow.onnx.conversion.steps import SAME, Step, Steps
from hwflow.onnx.operators import OPERATORS

#: The operator sets whose versions are converted.
DOMAINS = ("", "ai.onnx.ml")


def _unchanged(domain: str) -> Steps:
    """Steps that keep nodes as they are."""
    return {name: dict.fromkeys(row.same, SAME) for (of, name), row in OPERATORS.items() if of == domain}


def _table(parts: Mapping[str, Iterable[Steps]]) -> dict[tuple[str, str], dict[int, Step]]:
    """One table by domain and operator.  No step stands in two parts."""
    table: dict[tuple[str, str], dict[int, Step]] = {}
    for domain, tables in parts.items():
        for steps in tables:
            for name, versions in steps.items():
                row = table.setdefault((domain, name), {})
                assert not row.keys() & versions.keys(), f"{name}: two steps for {row.keys() & versions.keys()}"
                row.update(versions)
    return table


#: (domain, operator) to {version: the step from the version before to it}.  A version that takes the operator away
#: counts as one.
UP: Mapping[tuple[str, str], Mapping[int, Step]] = _table(
    {
        "": (
            _unchanged(""), elementwise.UP, layers.UP, moving.UP, control.UP
        ),
        "ai.onnx.ml": (_unchanged("ai.onnx.ml"), trees.UP),
    }
)  # fmt: skip
