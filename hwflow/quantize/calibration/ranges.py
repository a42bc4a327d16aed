"""The ranges of values that a float model's tensors take on calibration data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from hwflow.errors import HwflowError
from hwflow.onnx import evaluate
from hwflow.onnx.model import Array, Model

__all__ = ["SYNTHETIC_ROWS", "Progress", "ranges", "synthetic"]

#: Called with (rows done, rows in all).
Progress = Callable[[int, int], None]

#: How many rows of made-up data stand in for missing calibration data.
SYNTHETIC_ROWS = 64


def synthetic(model: Model) -> dict[str, Array]:
    """Rows for every input of `model` where there is no data: normal values, mean 0, deviation 1, seed 0."""
    generator = np.random.default_rng(0)
    rows: dict[str, Array] = {}
    for value in model.graph.inputs:
        assert value.tensor is not None
        assert value.tensor.shape is not None
        shape = tuple(size for size in value.tensor.shape if isinstance(size, int))
        rows[value.name] = generator.standard_normal((SYNTHETIC_ROWS, *shape)).astype(value.tensor.dtype)
    return rows


def ranges(
    model: Model, rows: Mapping[str, Array], tensors: Sequence[str], progress: Progress | None = None
) -> dict[str, tuple[float, float]]:
    """Smallest and largest value of each of `tensors` over all rows.

    `rows` maps every input of `model` to an array [n, *its shape].  HwflowError where a tensor becomes NaN or infinite.
    """
    count = min(len(array) for array in rows.values())
    lows = dict.fromkeys(tensors, np.inf)
    highs = dict.fromkeys(tensors, -np.inf)
    for k in range(count):
        values = evaluate(model, {name: array[k] for name, array in rows.items()}, fetch=tuple(tensors))
        for name in tensors:
            low, high = float(values[name].min()), float(values[name].max())
            if not (np.isfinite(low) and np.isfinite(high)):
                raise HwflowError(
                    f"tensor '{name}' must be finite on calibration data, not {low} to {high} in row {k}; "
                    "check the data and the weights of the layers before it"
                )
            lows[name], highs[name] = min(lows[name], low), max(highs[name], high)
        if progress is not None:
            progress(k + 1, count)
    return {name: (lows[name], highs[name]) for name in tensors}
