"""One node on its own: what its kernel computes and what its rule for shapes infers."""

from __future__ import annotations

from typing import Any

import numpy as np

from hwflow.onnx.build import make_node
from hwflow.onnx.limits import DEFAULT_LIMITS, Limits, Meter
from hwflow.onnx.ops import find_operator
from hwflow.onnx.ops.base import Call, Known
from hwflow.onnx.run.calls import run
from hwflow.onnx.schemas import find_schema

NEWEST = 28


def _call(
    op: str,
    inputs: tuple[np.ndarray | None, ...],
    attributes: dict[str, Any],
    outputs: int,
    opset: int,
    limits: Limits = DEFAULT_LIMITS,
) -> Call:
    names = [f"x{i}" if array is not None else "" for i, array in enumerate(inputs)]
    node = make_node(op, names, [f"y{i}" for i in range(outputs)], name="n", **attributes)
    return Call(node, opset, "graph/node[0]", find_schema("", op, opset), Meter(limits))


def evaluated(
    op: str,
    *inputs: np.ndarray | None,
    outputs: int = 1,
    opset: int = NEWEST,
    limits: Limits = DEFAULT_LIMITS,
    **attributes: Any,
) -> Any:
    """What the kernel gives: one array, or a tuple of several."""
    operator = find_operator("", op, opset)
    assert operator is not None
    results = run(_call(op, inputs, attributes, outputs, opset, limits), operator, list(inputs))
    return results if outputs > 1 else results[0]


def inferred(
    op: str, *inputs: np.ndarray | None, outputs: int = 1, opset: int = NEWEST, **attributes: Any
) -> list[tuple[np.dtype[Any], tuple[int, ...]]]:
    """What the rule gives, which sees elements only of those inputs that it names."""
    operator = find_operator("", op, opset)
    assert operator is not None
    assert operator.shapes is not None
    known = [
        None if x is None else Known(x.dtype, x.shape, x if i in operator.constant else None)
        for i, x in enumerate(inputs)
    ]
    results = operator.shapes(_call(op, inputs, attributes, outputs, opset), *known)
    return [(r.dtype, r.shape) for r in (results if isinstance(results, tuple) else (results,))][:outputs]
