"""From an ONNX model to integers: the layer graph for the hardware, and what the host computes around it.

The result, `Quantized`, and its files are imported at once.  What makes it is imported when it is first used, because
the driver of a board needs the result alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from hwflow_base.lazy_names import lazy_names

from hwflow.quantize.quantized import Quantized
from hwflow.quantize.store import load_quantized, save_quantized

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
