"""The operators that hwflow evaluates: one file per family, all of them in one table.

The families are imported at the first look-up of an operator, so reading and writing files is fast.
"""

from __future__ import annotations

import functools
import importlib

from hwflow.onnx.ops.base import Operator, Table

__all__ = ["MAX_OPSET", "MIN_OPSET", "OPERATORS", "find_operator"]

#: Versions of the default operator set whose meaning the kernels follow.
MIN_OPSET, MAX_OPSET = 1, 28

#: The families; each module has a table OPERATORS of its own.
_FAMILIES = (
    *("activation", "attention", "constant", "control", "convolution", "element_types", "elementwise", "grid"),
    *("images", "indexing", "layout", "matrix", "ml", "normalization", "optimizers", "pad", "pieces", "pooling"),
    *("quantization", "quantized_matrix", "random", "recurrent", "reduction", "resize", "sequence"),
    *("sequence_mixing", "signal", "softmax", "sort", "text", "custom.microsoft", "custom.qonnx"),
)

#: (domain, operator) to its versions, oldest first; made at the first use.
OPERATORS: Table


@functools.cache
def _operators() -> Table:
    table: dict[tuple[str, str], tuple[Operator, ...]] = {}
    for family in _FAMILIES:
        table.update(importlib.import_module(f"{__name__}.{family}").OPERATORS)
    return table


def __getattr__(name: str) -> Table:
    if name == "OPERATORS":
        return _operators()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def find_operator(domain: str, op_type: str, opset: int) -> Operator | None:
    """The version of an operator in this operator set; None if it has none."""
    versions = [v for v in _operators().get((domain, op_type), ()) if v.since <= opset]
    return versions[-1] if versions else None
