"""What quantization gives."""

from __future__ import annotations

from dataclasses import dataclass

from hwflow.layers.base import LayerGraph
from hwflow.onnx.model import Model

__all__ = ["Quantized"]


@dataclass(frozen=True)
class Quantized:
    """A model split in three, and the QDQ model that says the same in ONNX.

    `prologue` takes the user's model's inputs (batch 1) and gives one frame [1, h, w, c] per input of `graph`;
    `epilogue` takes one frame per output of `graph` and gives the user's model's outputs.  `notes` are sentences for
    the user: what runs on the host, where calibration came from.  `qdq` is the whole model with QuantizeLinear and
    DequantizeLinear, which any ONNX runtime evaluates to the same integers up to its float rounding.
    """

    graph: LayerGraph
    prologue: Model
    epilogue: Model
    notes: tuple[str, ...]
    qdq: Model
