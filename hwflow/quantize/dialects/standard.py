"""The pass that makes a standard QDQ model of one whose integers are written in another dialect."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hwflow.onnx import infer, simplify
from hwflow.onnx.model import Model
from hwflow.onnx.versioning.numbers import least_ir
from hwflow.quantize.dialects import attention, fused, microsoft, qonnx, qoperator
from hwflow.quantize.dialects.rewriting import Rewriting, Table
from hwflow.quantize.passes.normalise import in_opset

#: Every operator that has no place in a QDQ model, and what becomes of it.
RULES: Table = {**qoperator.RULES, **microsoft.RULES, **fused.RULES, **qonnx.RULES, **attention.RULES}

#: The first operator set whose QuantizeLinear has 16 bits.
SIXTEEN_BITS = 21


def to_standard_qdq(model: Model) -> Model:
    """`model` with QOperator and QONNX nodes rewritten as standard nodes between QuantizeLinear and DequantizeLinear.

    Of `model`, and of the result, types and shapes are known; both have operator set 13 at least (the result 21 where
    integers have 16 bits), the result also the other domains of its remaining nodes.  A model without such nodes is
    returned as it is.
    HwflowError: every node that has no standard form, in one message.
    """
    if not any((node.domain, node.op_type) in RULES for node in model.graph.nodes):
        return model
    return simplify(infer(in_needed_opset(Rewriting(model).run(RULES))))


def in_needed_opset(model: Model) -> Model:
    """With the operator sets that the nodes need."""
    return with_wide_integers(_imported(model))


def with_wide_integers(model: Model) -> Model:
    """In operator set 21 where quantizers make integers of 16 bits."""
    return _with_16_bits(model) if _has_16_bits(model) else model


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
    """In operator set 21, the first with quantizers of 16 bits."""
    return model if model.opsets[""] >= SIXTEEN_BITS else _imported(in_opset(model, SIXTEEN_BITS))
