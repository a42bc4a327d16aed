"""How good the integer model is: against labels where there are some, and against the float model's outputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from . import golden
from .dataset import Dataset
from .dataset import accuracy as top1
from .onnx.model import Array, Model
from .quantize import Quantized

__all__ = ["Accuracy", "measure", "signal_to_noise"]


@dataclass(frozen=True)
class Accuracy:
    """Over `rows` rows.  The top-1 shares (0 to 1) are None without labels or without class scores.

    `snr_db` is the power of the float outputs over the power of the difference, in decibels; None where they are equal.
    """

    rows: int
    float_top1: float | None
    integer_top1: float | None
    snr_db: float | None


def measure(model: Model, quantized: Quantized, dataset: Dataset,
            progress: Callable[[int, int], None] | None = None) -> tuple[Accuracy, dict[str, Array]]:
    """Both models on every row of `dataset`; the accuracy, and the integer model's outputs [n, *output shape]."""
    outputs = golden.predict(quantized, dataset.inputs, progress)
    reference = golden.evaluate_rows(model, dataset.inputs)
    labels = dataset.labels
    return Accuracy(
        rows=dataset.rows,
        float_top1=None if labels is None else top1(reference, labels),
        integer_top1=None if labels is None else top1(outputs, labels),
        snr_db=signal_to_noise(reference, outputs),
    ), outputs


def signal_to_noise(reference: Mapping[str, Array], outputs: Mapping[str, Array]) -> float | None:
    """Decibels over all outputs together; None where nothing differs."""
    signal = sum(float(np.sum(np.square(values.astype(np.float64)))) for values in reference.values())
    noise = sum(float(np.sum(np.square(values.astype(np.float64) - outputs[name].astype(np.float64))))
                for name, values in reference.items())
    return 10 * float(np.log10(signal / noise)) if noise and signal else None
