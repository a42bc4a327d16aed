"""Rules about operator sets, operators, and what a node passes to its operator."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from hwflow.onnx.calls import bind
from hwflow.onnx.model import Model
from hwflow.onnx.ops import MAX_OPSET, MIN_OPSET, OPERATORS
from hwflow.onnx.ops.base import ANY, Call, Operator
from hwflow.onnx.rules.finding import Finding, Severity

__all__ = ["attributes_fit", "inputs_and_outputs_fit", "operators_known", "opsets_known"]

_AGAIN = "export the model again"


def _error(rule: str, path: str, message: str, remedy: str = _AGAIN) -> Finding:
    return Finding(Severity.ERROR, rule, path, message, remedy)


def opsets_known(model: Model) -> Iterator[Finding]:
    """The model imports operator sets, in versions that exist and that the kernels follow."""
    if not model.opsets:
        message = "the model must import an operator set, not none"
        yield _error("opset-import", "model", message, f"add opset_import of version {MIN_OPSET} to {MAX_OPSET}")
    for domain, version in model.opsets.items():
        name = domain or "ai.onnx"
        if version < 1:
            yield _error("opset-version", f"opset_import '{name}'", f"the version must be 1 or more, not {version}")
        elif not domain and not MIN_OPSET <= version <= MAX_OPSET:
            message = f"the version must be {MIN_OPSET} to {MAX_OPSET}, not {version}"
            yield _error("opset-version", f"opset_import '{name}'", message, "convert it with onnx.version_converter")


def _bound(model: Model) -> Iterator[tuple[Call, Operator | None, str]]:
    for index, node in enumerate(model.graph.nodes):
        call, operator = bind(model, index)
        yield call, operator, f"{call.path} {node.label}"


def operators_known(model: Model) -> Iterator[Finding]:
    """Each node calls an operator of an imported set that hwflow evaluates."""
    for call, operator, path in _bound(model):
        node = call.node
        if operator is not None:
            continue
        if node.domain not in model.opsets:
            if model.opsets:  # else opsets_known says it once for all nodes
                message = f"operator set '{node.domain or 'ai.onnx'}' must be imported, not missing"
                yield _error("opset-import", path, message, "add it to opset_import")
        elif versions := OPERATORS.get((node.domain, node.op_type)):
            message = f"the operator must exist in operator set {call.opset}, not only from {versions[0].since} on"
            yield _error("op-version", path, message, f"export the model with opset {versions[0].since} or later")
        else:
            yield _error("op-known", path, *_unknown(node.domain, node.op_type))


def _unknown(domain: str, op_type: str) -> tuple[str, str]:
    name = f"'{domain}.{op_type}'" if domain else f"'{op_type}'"
    known = [op for d, op in OPERATORS if d == domain]
    close = difflib.get_close_matches(op_type, known, n=1)
    remedy = f"perhaps '{close[0]}' is meant, else " if close else ""
    return (
        f"the operator must be one that hwflow knows, not {name}",
        f"{remedy}replace it in the model before the export, or cut the model in front of it",
    )


def _limits(limits: tuple[int, int]) -> str:
    low, high = limits
    if high == ANY:
        return f"{low} or more"
    return str(low) if low == high else f"{low} to {high}"


def inputs_and_outputs_fit(model: Model) -> Iterator[Finding]:
    """Each node has as many inputs and outputs as its operator takes, and leaves no required one out."""
    for call, operator, path in _bound(model):
        if operator is None:
            continue
        inputs, outputs = call.node.inputs, call.node.outputs
        if not operator.inputs[0] <= len(inputs) <= operator.inputs[1]:
            message = f"the number of inputs must be {_limits(operator.inputs)}, not {len(inputs)}"
            yield _error("op-inputs", path, message)
        elif missing := [i for i, name in enumerate(inputs[: operator.inputs[0]]) if not name]:
            yield _error("op-inputs", path, f"input {missing[0]} must be given, not left out")
        given = max((i + 1 for i, name in enumerate(outputs) if name), default=0)
        if not operator.outputs[0] <= given <= operator.outputs[1]:
            message = f"the number of outputs must be {_limits(operator.outputs)}, not {given}"
            yield _error("op-outputs", path, message, "hwflow computes no others; export the model for inference")


def attributes_fit(model: Model) -> Iterator[Finding]:
    """Each node has only attributes of its operator, of the right kind, and all that are required."""
    for call, operator, path in _bound(model):
        if operator is None:
            continue
        for name, value in call.node.attributes.items():
            kind = operator.attributes.get(name)
            if kind is None:
                known = ", ".join(sorted(operator.attributes)) or "none"
                message = f"the attributes in operator set {call.opset} must be among {known}, not '{name}'"
                yield _error("op-attribute", path, message)
            elif not kind.accepts(value):
                yield _error("op-attribute", path, f"attribute '{name}' must be {kind.value}, not {value!r}")
        for name in operator.required:
            if name not in call.node.attributes:
                yield _error("op-attribute", path, f"attribute '{name}' must be given, not left out")
