"""Types of all values of a model whose sizes may be open: `infer_types`.

Sizes are carried as what they are at several trial assignments of numbers to the symbols (`worlds`), so that the rules
of operators stay functions of integer shapes.
"""

from __future__ import annotations

from hwflow.onnx.inference.infer_types import Types, infer_types

__all__ = ["Types", "infer_types"]
