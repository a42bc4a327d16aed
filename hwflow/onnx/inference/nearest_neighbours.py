"""Nearest neighbours, as skl2onnx writes KNeighborsClassifier and its like: a Scan over the rows of the training."""

from __future__ import annotations

from collections.abc import Iterable

from hwflow.onnx.model import Array, Graph, Node
from hwflow.onnx.operators import REDUCTIONS

#: What to do about it.
INSTEAD = ("train trees (RandomForestClassifier, RandomForestRegressor) or a network (MLPClassifier, MLPRegressor) in "
           "place of nearest neighbours")


def compared_rows(node: Node, inputs: Iterable[Array | None]) -> int:
    """The rows of the training that a node compares each row with; 0 for another node.

    `inputs` are the values of those inputs that are constant.  Loops that multiply with weights are other models.
    """
    body = node.attributes.get("body")
    if node.op_type != "Scan" or not isinstance(body, Graph):
        return 0
    inside = {inner.op_type for inner in body.nodes}
    rows = [len(value) for value in inputs if value is not None and value.ndim == 2]
    differs = "Sub" in inside and not inside.isdisjoint(REDUCTIONS)
    return rows[0] if len(rows) == 1 and differs and inside.isdisjoint(("MatMul", "Gemm")) else 0


def refusal(rows: int) -> str:
    """Why hardware cannot have them."""
    return (f"a model for hardware must not compare each row with the {rows} rows of its training (nearest "
            "neighbours), which takes a loop and a sorted list")
