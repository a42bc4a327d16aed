"""Quantization: from an ONNX model to an integer layer graph for the hardware, and the programs that the host runs.

The package imports the result, `Quantized`, and its files at once.  It imports the functions that make a result when
they are first used, because the driver of a board needs only the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.later import lazy_names

from hwflow.quantize.quantized import Quantized, load_quantized, save_quantized

if TYPE_CHECKING:
    from hwflow.quantize.post_training import FLOAT_PASSES
    from hwflow.quantize.quantization import DIALECT_PASSES, QDQ_PASSES, comes_quantized, quantize

__all__ = [
    "DIALECT_PASSES",
    "FLOAT_PASSES",
    "QDQ_PASSES",
    "Quantized",
    "comes_quantized",
    "load_quantized",
    "quantize",
    "save_quantized",
]

__getattr__, __dir__ = lazy_names(__name__, {
    "post_training": ("FLOAT_PASSES",),
    "quantization": ("DIALECT_PASSES", "QDQ_PASSES", "comes_quantized", "quantize"),
})
