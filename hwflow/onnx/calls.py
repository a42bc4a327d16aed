"""From nodes to what computes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hwflow.errors import HwflowError
from hwflow.onnx.dtypes import type_name
from hwflow.onnx.model import Model
from hwflow.onnx.ops import find_operator
from hwflow.onnx.ops.base import Arr, Call, Operator
from hwflow.onnx.schemas import find_schema

__all__ = ["bind", "describe", "run"]


def bind(model: Model, index: int) -> tuple[Call, Operator | None]:
    """The call of node number `index` of the graph, and its operator; None where hwflow has none."""
    node = model.graph.nodes[index]
    opset = model.opsets.get(node.domain, 0)
    schema = find_schema(node.domain, node.op_type, opset)
    return Call(node, opset, f"graph/node[{index}]", schema), find_operator(node.domain, node.op_type, opset)


def describe(dtype: np.dtype[Any], shape: Sequence[object] | None) -> str:
    """How messages write a tensor type: "float32[1, 3, 32, 32]", "float32[batch, ?]"."""
    if shape is None:
        return f"{type_name(dtype)} of unknown rank"
    return f"{type_name(dtype)}[{', '.join('?' if d is None else str(d) for d in shape)}]"


def run(call: Call, operator: Operator, inputs: Sequence[Arr | None]) -> tuple[Arr, ...]:
    """Run an operator's kernel.  Whatever goes wrong names the node and the types of its inputs.

    Overflow, division by zero and not-a-number are results like any other, as in every float implementation.
    """
    try:
        with np.errstate(all="ignore"):
            results = operator.kernel(call, *inputs)
    except HwflowError:
        raise
    except (ValueError, TypeError, IndexError, ArithmeticError, MemoryError) as error:
        listed = ", ".join("-" if a is None else describe(a.dtype, a.shape) for a in inputs) or "nothing"
        raise call.error(f"the inputs must suit the operator, not be {listed} ({error})") from None
    results = results if isinstance(results, tuple) else (results,)
    if len(results) < len(call.node.outputs):
        raise call.error(f"the outputs must be at most {len(results)}, not {len(call.node.outputs)}")
    return tuple(np.asarray(result) for result in results)
