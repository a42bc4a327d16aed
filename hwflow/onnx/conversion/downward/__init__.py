"""The steps down: from each version of an operator to the one before.

A version that is not listed here is kept if the older version can express the node (`narrow`).  Below the first version
of its operator, a node is refused.
"""

from __future__ import annotations

from collections.abc import Mapping

from hwflow.onnx.conversion.downward import bodies, elementwise, inputs, layers, ml
from hwflow.onnx.conversion.downward.narrow import narrow, not_there
from hwflow.onnx.conversion.steps import Step, Steps
from hwflow.onnx.schemas import Schema, versions_of

__all__ = ["downward_step"]


def _joined(*parts: Steps) -> dict[str, dict[int, Step]]:
    """One table by operator.  No step is in two parts."""
    table: dict[str, dict[int, Step]] = {}
    for part in parts:
        for name, versions in part.items():
            row = table.setdefault(name, {})
            assert not row.keys() & versions.keys(), f"{name}: two steps for {row.keys() & versions.keys()}"
            row.update(versions)
    return table


#: Domain and operator to {version: the step from it to the version before, or to operator sets without the operator}.
_STEPS: Mapping[str, Mapping[str, Mapping[int, Step]]] = {
    "": _joined(inputs.STEPS, elementwise.STEPS, layers.STEPS, bodies.STEPS),
    "ai.onnx.ml": ml.STEPS,
}


def downward_step(schema: Schema) -> Step:
    """The step from a version of an operator to the one before."""
    special = _STEPS[schema.domain].get(schema.name, {}).get(schema.since)
    if special is not None:
        return special
    first = versions_of(schema.domain, schema.name)[0].since
    return not_there if schema.since == first else narrow
