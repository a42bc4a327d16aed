"""The steps from each version of each operator to the next one and to the one before, in two tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from hwflow.onnx.conversion import bodies, elementwise, layers, ml, moving, reductions, resize, sequences
from hwflow.onnx.conversion.steps import SAME, Step, Steps, narrow, not_there
from hwflow.onnx.operators import OPERATORS
from hwflow.onnx.schemas import Schema, versions_of

#: The operator sets whose versions are converted.
DOMAINS = ("", "ai.onnx.ml")

#: (domain, operator) to {version: step}.
_Table: TypeAlias = Mapping[tuple[str, str], Mapping[int, Step]]

_FAMILIES = (elementwise, layers, moving, reductions, resize, sequences)


def _unchanged(domain: str) -> Steps:
    """Steps that keep nodes as they are."""
    return {name: dict.fromkeys(row.same, SAME) for (of, name), row in OPERATORS.items() if of == domain}


def _table(parts: Mapping[str, Iterable[Steps]]) -> _Table:
    """One table of the parts of each domain.  No step stands in two parts."""
    table: dict[tuple[str, str], dict[int, Step]] = {}
    for domain, tables in parts.items():
        for steps in tables:
            for name, versions in steps.items():
                row = table.setdefault((domain, name), {})
                assert not row.keys() & versions.keys(), f"{name}: two steps for {row.keys() & versions.keys()}"
                row.update(versions)
    return table


#: The step from the version before.  A version that takes the operator away counts as one.
UP: _Table = _table({"": (_unchanged(""), *(family.UP for family in _FAMILIES)),
                     "ai.onnx.ml": (_unchanged("ai.onnx.ml"), ml.UP)})  # fmt: skip

#: The step to the version before, or to operator sets without the operator, where it is a special one.
_DOWN: _Table = _table({"": (bodies.DOWN, *(family.DOWN for family in _FAMILIES)), "ai.onnx.ml": (ml.DOWN,)})


def step_up(schema: Schema) -> Step:
    """The step from a version of an operator to the next one."""
    since = next(newer.since for newer in versions_of(schema.domain, schema.name) if newer.since > schema.since)
    return UP[schema.domain, schema.name][since]


def step_down(schema: Schema) -> Step:
    """The step to the version before; a version that the table does not have is kept if that one can express the node.

    Below the first version of its operator, a node is refused.
    """
    special = _DOWN.get((schema.domain, schema.name), {}).get(schema.since)
    if special is not None:
        return special
    first = versions_of(schema.domain, schema.name)[0].since
    return not_there if schema.since == first else narrow
