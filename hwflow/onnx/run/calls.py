"""From nodes to what computes them, and running it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from hwflow_base.errors import HwflowError

from hwflow.onnx.errors import EvaluationError, LimitError, TypeMismatch, Unsupported
from hwflow.onnx.model import Model, Node, Operand
from hwflow.onnx.ops import find_operator
from hwflow.onnx.ops.base import Call, Operator
from hwflow.onnx.ops.custom import qonnx
from hwflow.onnx.run.operands import as_operand, describe_operand, type_text
from hwflow.onnx.schemas import Schema, find_schema
from hwflow.onnx.schemas.schema import Option, Parameter


def find(node: Node, opsets: Mapping[str, int]) -> tuple[Schema | None, Operator | None]:
    """The meaning of a node under the imported operator sets, and its operator; None where there is nothing.

    An operator that its operator set has taken away is none, nor is one with an overload: those are functions.
    """
    # Exporters of QONNX do not import its operator set: they mean version 1.
    opset = opsets.get(node.domain, 1 if node.domain in qonnx.DOMAINS else 0)
    schema = find_schema(node.domain, node.op_type, opset)
    if node.overload or (schema is not None and schema.deprecated):
        return None, None
    return schema, find_operator(node.domain, node.op_type, opset)


def bind(model: Model, index: int) -> tuple[Call, Operator | None]:
    """The call of node number `index` of the graph, and its operator; None where hwflow has none."""
    node = model.graph.nodes[index]
    schema, operator = find(node, model.opsets)
    return Call(node, model.opsets.get(node.domain, 0), f"graph/node[{index}]", schema), operator


def run(call: Call, operator: Operator, operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """Run an operator's kernel.  Whatever goes wrong names the node and the types of its inputs.

    Overflow, division by zero and not-a-number are results like any other, as in every float implementation: the caller
    may silence numpy around many calls; here it is done for one.
    """
    with np.errstate(all="ignore"):
        return run_quietly(call, operator, operands)


def run_quietly(call: Call, operator: Operator, operands: Sequence[Operand]) -> tuple[Operand, ...]:
    """`run` inside of an np.errstate of the caller's."""
    try:
        computed = operator.kernel(call, *operands)
    except HwflowError:
        raise
    except Exception as error:
        raise _failure(call, operands, error) from error
    results = tuple(map(as_operand, computed)) if isinstance(computed, tuple) else (as_operand(computed),)
    outputs = call.node.outputs
    if len(results) < len(outputs) and any(outputs[len(results) :]):
        raise call.error(
            f"the outputs must be at most {len(results)}, not {len(outputs)}: the operator computes no more in this "
            "mode", "leave the name out"
        )
    for position, (name, result) in enumerate(zip(outputs, results, strict=False)):
        if result is None and name and not _may_be_empty(call, position):
            raise call.error(
                f"output {position} must not be named ('{name}'): the operator does not compute it in this mode",
                "leave the name out"
            )
    return results


def _failure(call: Call, operands: Sequence[Operand], error: Exception) -> HwflowError:
    listed = ", ".join(map(describe_operand, operands)) or "nothing"
    if isinstance(error, NotImplementedError):
        return Unsupported(str(error), where=call.where)
    if isinstance(error, (MemoryError, RecursionError)):
        what = "memory" if isinstance(error, MemoryError) else "the interpreter's stack"
        return LimitError(f"must fit into {what}, not run out of it with {listed}", where=call.where)
    return EvaluationError(
        f"the inputs must suit the operator, not be {listed} ({str(error) or type(error).__name__})", where=call.where
    )


def _may_be_empty(call: Call, position: int) -> bool:
    """True where an output may be an optional without content, and for operators that no schema describes."""
    if call.schema is None:
        return True
    parameter = call.schema.output(position)
    return parameter is None or any(t.startswith("optional") for t in call.schema.allowed(parameter))


def check_types(call: Call, operands: Sequence[Operand]) -> None:
    """Compare the inputs with the operator's schema: how many, of which types, of the same type where it says so.

    Raises TypeMismatch, EvaluationError for their number.  Values that do not tell their type (empty sequences) pass.
    """
    schema = call.schema
    if schema is None:
        return
    low, high = schema.input_limits
    if not low <= len(operands) <= high:
        expected = f"{low} or more" if high > 1 << 20 else f"{low}" if low == high else f"{low} to {high}"
        raise call.error(f"the number of inputs must be {expected}, not {len(operands)}", "export the model again")
    bound: dict[str, tuple[int, str]] = {}
    for position in range(len(operands)):
        parameter = schema.input(position)
        assert parameter is not None  # input_limits
        if not call.node.inputs[position]:
            if parameter.option is Option.SINGLE:
                raise call.error(f"input {position} ({parameter.name}) must be given, not left out")
            continue
        _check_type(call, schema, parameter, position, operands, bound)


def _check_type(
    call: Call, schema: Schema, parameter: Parameter, position: int, operands: Sequence[Operand],
    bound: dict[str, tuple[int, str]],
) -> None:  # fmt: skip
    text = type_text(operands[position])
    if text is None:
        return
    allowed = schema.allowed(parameter)
    name = call.node.inputs[position]
    fits = text in allowed or f"optional({text})" in allowed
    reason = f"input {position} '{name}' must be {_listed(allowed)}, not {text}"
    if fits and parameter.type in schema.types and (parameter.option is not Option.VARIADIC or parameter.homogeneous):
        first, expected = bound.setdefault(parameter.type, (position, text))
        fits = expected == text
        reason = f"input {position} '{name}' must be {expected} like input {first}, not {text}"
    if not fits:
        listed = ", ".join(map(describe_operand, operands))
        raise TypeMismatch(
            f"{call.path} {call.node.label}: the inputs must suit the operator, not be {listed} ({reason})"
        )


def _listed(allowed: frozenset[str]) -> str:
    names = sorted(allowed)
    return " or ".join(names) if len(names) <= 3 else f"one of {len(names)} types ({names[0]}, {names[1]}, ...)"
