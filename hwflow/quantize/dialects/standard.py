"""The pass that makes a standard QDQ model of one whose integers are written in another dialect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Model
from hwflow.onnx.schemas import find_schema
from hwflow.onnx.versioning.releases import least_ir
from hwflow.quantize.dialects import microsoft, qonnx, qoperator
from hwflow.quantize.dialects.rewriting import Rewriting, Table
from hwflow.quantize.passes.normalise import raise_opset
from hwflow.quantize.problems import Problem, raise_all

__all__ = ["RULES", "to_standard_qdq"]

#: Every operator that has no place in a QDQ model, and what becomes of it.
RULES: Table = {**qoperator.RULES, **microsoft.RULES, **qonnx.RULES}

#: The first operator set whose QuantizeLinear has 16 bits.
_SIXTEEN_BITS = 21


def to_standard_qdq(model: Model) -> Model:
    """`model` with QOperator and QONNX nodes rewritten as standard nodes between QuantizeLinear and DequantizeLinear.

    Of `model`, and of the result, types and shapes are known.  A model without such nodes is returned as it is.  The
    result has operator set 13 at least (21 where integers have 16 bits), and the other domains of its remaining nodes.
    HwflowError: every node that has no standard form, in one message.
    """
    if not any((node.domain, node.op_type) in RULES for node in model.graph.nodes):
        return model
    model = _imported(Rewriting(raise_opset(model)).run(RULES))
    return simplify(infer(_with_16_bits(model) if _has_16_bits(model) else model))


def _imported(model: Model) -> Model:
    """With the operator sets that the nodes need, and a file format that has them."""
    used = {"", *(node.domain for node in model.graph.nodes)}
    opsets = {domain: version for domain, version in model.opsets.items() if domain in used}
    needed = max(least_ir(domain, version) or 0 for domain, version in opsets.items())
    return replace(model, opsets=opsets, ir_version=max(model.ir_version, needed))


def _has_16_bits(model: Model) -> bool:
    return any(
        name in model.graph.initializers and model.graph.initializers[name].dtype in (np.int16, np.uint16)
        for node in model.graph.nodes
        if node.op_type in ("QuantizeLinear", "DequantizeLinear")
        for name in node.inputs[2:]
    )


def _with_16_bits(model: Model) -> Model:
    """In operator set 21, where every node may stay as it is written."""
    opset = model.opsets[""]
    if opset >= _SIXTEEN_BITS:
        return model
    problems = []
    for node in model.graph.nodes:
        schema = find_schema(node.domain, node.op_type, _SIXTEEN_BITS) if not node.domain else None
        if schema is not None and not set(node.attributes) <= set(schema.attributes):
            why = f"is written for operator set {opset}, but integers of 16 bits need {_SIXTEEN_BITS}"
            problems.append(Problem.of(node, why, f"export the model with operator set {_SIXTEEN_BITS} or newer"))
    raise_all(problems)
    return _imported(replace(model, opsets={**model.opsets, "": _SIXTEEN_BITS}))
